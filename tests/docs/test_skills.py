"""The skills in the wheel: each is a document for coding assistants, whose files and commands run unchanged."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.testing.warm_python import warm_python

import graphrt

SKILLS = sorted((Path(graphrt.__file__).parent / "skills").glob("*/SKILL.md"))
FRONT_MATTER = re.compile(r"\A---\n((?:[a-z-]+: .+\n)+)---\n\n# ")
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FILE = re.compile(r"# ([\w/]+\.py)\n")
NEEDS = {"graphrt-serving": ["starlette", "httpx", "uvicorn"], "graphrt-from-langgraph": ["langgraph"]}
PORT = "8123"
"""The port that skills use; a free one takes its place."""
PROGRAMS = {"graphrt": ["-m", "graphrt"], "pytest": ["-m", "pytest"], "python": []}
MOST_WORDS = 1_200


def blocks(skill: Path) -> list[tuple[str, str]]:
    """Language and text of each block, without its indentation in a list."""
    text = skill.read_text(encoding="utf-8")
    return [
        (language, re.sub(f"^{indent}", "", body, flags=re.MULTILINE)) for indent, language, body in BLOCK.findall(text)
    ]


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.parent.name)
def test_skill_has_the_form_of_the_specification(skill: Path) -> None:
    text = skill.read_text(encoding="utf-8")
    front = FRONT_MATTER.match(text)
    assert front
    fields = dict(line.split(": ", 1) for line in front[1].splitlines())

    assert fields["name"] == skill.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert len(fields["name"]) <= 64
    assert len(fields["description"]) <= 1024
    assert "Use when" in fields["description"]
    assert len(fields["compatibility"]) <= 500
    assert "\n## Verify" in text
    assert len(text.split()) <= MOST_WORDS


class Folder:
    """An empty folder in which the steps of a skill are followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._started: list[subprocess.Popen[bytes]] = []
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GRAPHRT_", "PYTEST_"))},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(path),
            "COLUMNS": "120",
            "PYTEST_ADDOPTS": "-p no:asyncio -p no:langsmith_plugin -p no:cacheprovider",  # as in pyproject.toml
        }

    def run(self, command: str) -> tuple[int, str]:
        """Run a line of a shell; one that ends with `&` runs until the folder is closed.

        A Python program is forked from a process that has imported most of graphrt.
        """
        if command.endswith(" &"):
            words = ["bash", "-c", f"exec {command.removesuffix(' &')}"]
            with (self.path / "background.log").open("ab") as log:
                self._started.append(subprocess.Popen(words, cwd=self.path, env=self._env, stdout=log, stderr=log))
            return 0, ""
        words = shlex.split(command, comments=True)
        env = dict(self._env)
        while re.match(r"[A-Z_]+=", words[0]):
            name, _, env[name] = words.pop(0).partition("=")
        if words[0] in PROGRAMS:
            arguments = [*PROGRAMS[words[0]], *words[1:]]
            done = warm_python().run(arguments, cwd=self.path, env=env)
            return done.returncode, done.stdout + done.stderr
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.path,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def close(self) -> None:
        for process in self._started:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "skill",
    [
        pytest.param(skill, marks=[pytest.mark.needs("bash", "pytest", *NEEDS.get(skill.parent.name, []))])
        for skill in SKILLS
    ],
    ids=lambda skill: skill.parent.name,
)
def test_files_and_commands_of_a_skill_have_the_described_results(skill: Path, folder: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    for language, block in blocks(skill):
        text = block.replace(PORT, port)
        assert language in ("python", "console"), f"a block of {language} is never run"
        if language == "python":
            name = FILE.match(text)
            assert name, f"a file without a name: {text[:60]!r}"
            (folder.path / name[1]).write_text(text, encoding="utf-8")
            continue
        commands = COMMAND.findall(text)
        assert commands, text
        for command, shown in commands:
            expected = re.search(r"# exits with (\d+)$", command)
            code, output = folder.run(command)

            assert code == (int(expected[1]) if expected else 0), f"{command}\n{output}"
            position = 0
            for line in shown.splitlines():
                assert line in output[position:], f"{command}\nexpected {line!r} in\n{output}"
                position = output.index(line, position) + len(line)
