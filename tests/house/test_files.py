"""One idea per file, a promise at its top, and 400 lines at most, 600 for facades and single algorithms."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES = 400
MOST_OF_ONE_IDEA = 600
ONE_IDEA = {
    "src/graphrt/_engine/run_state.py": "the state of one run",
}
"""Facades and single algorithms that would only be cut to fit, and what each is."""
SAY_NOTHING = {"utils.py", "util.py", "helpers.py", "types.py", "common.py", "misc.py"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_files_stay_within_the_line_cap() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files("src", "tests", "benchmarks", "examples")
    }

    assert sizes
    most = {name: MOST_OF_ONE_IDEA if name in ONE_IDEA else MOST_LINES for name in sizes}
    assert {name: lines for name, lines in sizes.items() if lines > most[name]} == {}


def test_longer_files_need_their_length() -> None:
    assert [
        name for name in ONE_IDEA if len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    ] == []


def test_modules_of_the_package_have_names_that_say_what_is_in_them() -> None:
    assert [str(path) for path in python_files("src") if path.name in SAY_NOTHING] == []


def test_modules_of_the_package_state_what_may_live_in_them() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in python_files("src")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert silent == []


def test_package_is_marked_as_typed() -> None:
    assert (ROOT / "src" / "graphrt" / "py.typed").is_file()
