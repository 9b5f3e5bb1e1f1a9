"""One idea per file, a promise at its top, and 400 lines at most, with exceptions that are named here."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES = 400
MOST_OF_ONE_IDEA = 600
ONE_IDEA = {
    "src/graphrt/_engine/run_state.py": "the state of one run",
    "src/graphrt/_sensitive_texts.py": "one set of patterns of credentials and personal data",
}
"""Single algorithms that would only be cut to fit, and what each is."""
FACADES = {
    "src/graphrt/runtime.py": "every verb of `Runtime`",
}
"""One-line bodies below signatures and docstrings. Their cap counts lines of code: docstrings are the help that editors
show, and cutting them would not make the file easier to read (decision 0088)."""
ALONE = {
    "src/graphrt/audit/offline.py": "an auditor copies this one file, and runs it",
}
"""Files that work without any other one, and why; their cap counts lines of code too (decision 0122)."""
MOST_ALONE = 1_250
"""The first 1,000 were for logs and proofs. What `restore` needs to believe a file came on top: the snapshot that a
pruned log begins with, what is staged, and the records that vouch for both; and signatures of heads. The rest is that
its lines are formatted like all others (decision 0174). None of it can move to another file."""
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
    """Lines that are neither blank nor a comment nor part of a docstring."""
    text = path.read_text(encoding="utf-8")
    documentation = {line for node in ast.walk(ast.parse(text)) for line in docstring_lines(node)}
    lines = enumerate((line.strip() for line in text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in documentation for number, line in lines)


def test_files_stay_within_the_line_cap() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files("src", "tests", "benchmarks", "examples")
    }

    assert sizes
    sizes.update({name: code_lines(ROOT / name) for name in (*FACADES, *ALONE)})
    most = dict.fromkeys(sizes, MOST_LINES) | dict.fromkeys(ONE_IDEA, MOST_OF_ONE_IDEA)
    most |= dict.fromkeys(FACADES, MOST_OF_ONE_IDEA)
    most |= dict.fromkeys(ALONE, MOST_ALONE)
    assert {name: lines for name, lines in sizes.items() if lines > most[name]} == {}


def test_longer_files_need_their_length() -> None:
    assert [
        name
        for name in [*ONE_IDEA, *FACADES, *ALONE]
        if len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    ] == []


def test_files_that_work_alone_import_the_standard_library_only() -> None:
    for name in ALONE:
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names = [*froms, *(one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names)]

        assert {module.partition(".")[0] for module in names} <= sys.stdlib_module_names


def test_facades_have_all_of_their_methods_in_one_class() -> None:
    from graphrt import Runtime

    assert [one for one in Runtime.__mro__ if one.__module__.startswith("graphrt")] == [Runtime]


def test_methods_of_facades_have_short_bodies() -> None:
    """What a verb does is in the module that it calls."""
    long = [
        f"{name}: {node.name}"
        for name in FACADES
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and sum(isinstance(part, ast.stmt) for part in ast.walk(node)) - 1 - len(docstring_lines(node)[:1])
        > MOST_STATEMENTS
    ]

    assert long == []


def test_modules_of_the_package_have_names_that_say_what_is_in_them() -> None:
    assert [str(path) for path in python_files("src") if path.name in SAY_NOTHING] == []


def test_modules_of_the_package_state_what_may_live_in_them() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in python_files("src")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert silent == []


def test_no_module_reads_local_variables_out_of_frames() -> None:
    """A variable could not be renamed then, and its value would live as long as what was read."""
    assert [str(path) for path in python_files("src") if "f_locals" in path.read_text(encoding="utf-8")] == []


def test_package_is_marked_as_typed() -> None:
    assert (ROOT / "src" / "graphrt" / "py.typed").is_file()
