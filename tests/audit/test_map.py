"""The README of this folder names only existing tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
NAMED = re.findall(r"`([\w./]+\.py)::(test_\w+)`", (HERE / "README.md").read_text(encoding="utf-8"))


def functions_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_test_named_in_the_readme_exists() -> None:
    assert len(NAMED) > 30
    assert [f"{file}::{name}" for file, name in NAMED if name not in functions_in(HERE / file)] == []
