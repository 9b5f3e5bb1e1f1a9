"""The page "Find missing tests by mutation", followed like a reader does: two files, and its commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import graphrt
from graphrt.testing.mutate import OPERATORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "mutate-routes.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(folder: Path, command: str) -> str:
    path = os.pathsep.join([str(Path(graphrt.__file__).parents[1]), str(folder)])
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPHRT_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]],
        cwd=folder,
        env={**env, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.slow
def test_commands_of_the_page_print_the_shown_output(tmp_path: Path) -> None:
    commands = 0
    for kind, block in BLOCK.findall(PAGE):
        if kind == "python":
            file = tmp_path / ("test_desk.py" if (tmp_path / "desk.py").exists() else "desk.py")
            with file.open("a", encoding="utf-8") as opened:
                opened.write(f"{block}\n\n")
            continue
        command, *shown = block.splitlines()
        printed = run(tmp_path, command.removeprefix("$ ")).splitlines()
        rest = iter(printed)
        missing = [line for line in shown if line not in rest]
        commands += 1

        assert missing == [], "\n".join(printed)
    assert commands == 3


def test_tables_of_the_page_name_every_operator_option_and_status() -> None:
    from graphrt.testing.mutate.__main__ import _parser
    from graphrt.testing.mutate.verdicts import ALIVE, KILLED

    heads = re.findall(r"^\| `([a-z][a-z-]+)` \|", PAGE, re.MULTILINE)
    options = {option for action in _parser()._actions for option in action.option_strings if option.startswith("--")}

    assert heads == [*OPERATORS, *KILLED, *ALIVE]
    assert options - {"--help"} <= set(re.findall(r"--[a-z-]+", PAGE))
