"""One idea per file, a module docstring, and a limit on its lines of code."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_LINES = 800
"""Lines of code of a file (decision 0172). A bound on files with several ideas, not a length at which to split."""
ALONE = {"src/graphrt/audit/offline.py": 1_250}
"""Files that work on their own, with their own limit. An auditor copies this one and runs it (decisions 0122, 0174)."""
FACADES = ("src/graphrt/runtime.py",)
"""Files of one-line bodies below signatures and docstrings (decision 0088)."""
MOST_STATEMENTS = 6
"""Of a method of a facade."""
SAY_NOTHING = {"utils.py", "util.py", "helpers.py", "types.py", "common.py", "misc.py"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def docstring_lines(node: ast.AST) -> list[int]:
    """The lines of the docstring of a module, class or function."""
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return list(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return []


def code_lines(path: Path) -> int:
    """Lines that are not blank, comments, or part of a docstring; a short file is not parsed, and its docstrings count."""
    text = path.read_text(encoding="utf-8")
    lines = enumerate((line.strip() for line in text.splitlines()), 1)
    numbers = {number for number, line in lines if line and not line.startswith("#")}
    if len(numbers) <= MAX_LINES:
        return len(numbers)
    return len(numbers.difference(*(docstring_lines(node) for node in ast.walk(ast.parse(text)))))


@pytest.mark.slow
def test_files_stay_within_the_line_cap() -> None:
    paths = python_files("src", "tests", "benchmarks", "examples")
    sizes = {str(path.relative_to(ROOT)): code_lines(path) for path in paths}

    assert sizes
    assert {name: lines for name, lines in sizes.items() if lines > ALONE.get(name, MAX_LINES)} == {}


def test_standalone_files_import_the_standard_library_only() -> None:
    for name in ALONE:
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names = [*froms, *(one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names)]

        assert {module.partition(".")[0] for module in names} <= sys.stdlib_module_names


def test_facades_have_all_of_their_methods_in_one_class() -> None:
    from graphrt import Runtime

    assert [one for one in Runtime.__mro__ if one.__module__.startswith("graphrt")] == [Runtime]


def test_methods_of_facades_have_short_bodies() -> None:
    """The work of a verb is in the module that it calls."""
    long = [
        f"{name}: {node.name}"
        for name in FACADES
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and sum(isinstance(part, ast.stmt) for part in ast.walk(node)) - 1 - len(docstring_lines(node)[:1])
        > MOST_STATEMENTS
    ]

    assert long == []


def test_modules_of_the_package_have_descriptive_names() -> None:
    assert [str(path) for path in python_files("src") if path.name in SAY_NOTHING] == []


@pytest.mark.slow
def test_modules_of_the_package_state_their_content() -> None:
    others = [path for path in python_files("src") if not re.match(r'"""\w', path.read_text(encoding="utf-8"))]
    silent = [
        str(path.relative_to(ROOT))
        for path in others
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert silent == []


READ_LOCALS = {"graph/builder.py", "harness/tools/function.py", "harness/tools/from_model.py"}
"""They resolve annotations that are texts, which may name classes that are local to the calling function."""


def test_no_other_module_reads_local_variables_from_frames() -> None:
    """Otherwise a variable of graphrt could not be renamed."""
    package = ROOT / "src" / "graphrt"
    readers = [path for path in python_files("src/graphrt") if "f_locals" in path.read_text(encoding="utf-8")]

    assert {path.relative_to(package).as_posix() for path in readers} == READ_LOCALS


def test_package_is_marked_as_typed() -> None:
    assert (ROOT / "src" / "graphrt" / "py.typed").is_file()
