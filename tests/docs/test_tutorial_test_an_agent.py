"""The tutorial "Test an agent without a model", followed as a reader does: two files, and the commands that it shows."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import graphrt

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "test-an-agent.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def functions(source: str) -> dict[str, ast.FunctionDef]:
    return {item.name: item for item in ast.parse(source).body if isinstance(item, ast.FunctionDef)}


def write(folder: Path, block: str) -> None:
    """Do with *block* what the page says: correct a function of agent.py, or append to the file that is being written."""
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
    done = subprocess.run(
        [sys.executable, "-m", *command.split(), "-p", "pytest_graphrt", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**env, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


def bare(line: str) -> str:
    """*line* without its frame and its time, which differ from run to run."""
    return re.sub(r" in \d+\.\d+s", "", line).strip("=_ ")


@pytest.mark.slow
def test_its_commands_print_what_it_shows(tmp_path: Path) -> None:
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
