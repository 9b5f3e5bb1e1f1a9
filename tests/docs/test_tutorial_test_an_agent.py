"""The tutorial "Test an agent without a model", followed like a reader does: two files, and its commands."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest
from tests.testing.warm_python import warm_python

import graphrt

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "test-an-agent.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def functions(source: str) -> dict[str, ast.FunctionDef]:
    return {item.name: item for item in ast.parse(source).body if isinstance(item, ast.FunctionDef)}


def write(folder: Path, block: str) -> None:
    """Apply *block* as the page describes: replace a function of agent.py, or append to the current file."""
    agent, test = folder / "agent.py", folder / "test_agent.py"
    if test.exists():
        source = agent.read_text(encoding="utf-8")
        for name, function in functions(block).items():
            if before := functions(source).get(name):
                lines = source.splitlines()
                lines[before.lineno - 1 : before.end_lineno] = ast.unparse(function).splitlines()
                agent.write_text("\n".join(lines), encoding="utf-8")
                return
    file = test if test.exists() or "from agent import" in block else agent
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{block}\n\n")


def run(folder: Path, command: str) -> str:
    path = os.pathsep.join([str(Path(graphrt.__file__).parents[1]), str(folder)])
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPHRT_", "PYTEST_"))}
    arguments = ["-m", *command.split(), "-p", "pytest_graphrt", "-p", "no:cacheprovider"]
    env |= {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = warm_python().run(arguments, cwd=folder, env=env)
    return done.stdout + done.stderr


def bare(line: str) -> str:
    """*line* without its frame and its time, which differ between runs."""
    return re.sub(r" in \d+\.\d+s", "", line).strip("=_ ")


@pytest.mark.slow
def test_commands_of_the_tutorial_print_the_shown_output(tmp_path: Path) -> None:
    commands = 0
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            write(tmp_path, block)
            continue
        command, *shown = block.splitlines()
        printed = [bare(line) for line in run(tmp_path, command.removeprefix("$ ")).splitlines()]
        rest = iter(printed)
        missing = [line for line in map(bare, shown) if line not in rest]
        commands += 1

        assert missing == [], "\n".join(printed)
    assert commands == 4
