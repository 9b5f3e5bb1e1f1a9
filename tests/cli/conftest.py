"""Commands called in this process, and in a real pseudo-terminal; a module of graphs as their target."""

from __future__ import annotations

import fcntl
import json
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.imports import imports_undone
from tests.testing.warm_python import USUAL, WarmProcess, warm_python

if find_spec("click") is None or find_spec("jsonschema") is None:
    collect_ignore_glob = ["test_*.py"]  # an interpreter with only the extra `test` has no command line
else:
    from jsonschema import Draft202012Validator

    from graphrt.cli import main
    from graphrt.cli.schema import schema_of

FLOW = '''
"""Graphs of tests; what is printed here must not get into a document."""

import time
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime, Send
from graphrt.reducers import append

print("printed by the module")


class Verdict(BaseModel):
    do: Literal["send", "drop"]
    remark: str = ""


class State(BaseModel):
    topic: Any = ""
    seconds: float = 0.0
    notes: Annotated[list[Any], append] = []
    verdict: Verdict | None = None


g = GraphBuilder(State, name="letters")


@g.node
def write(state: State) -> dict[str, Any]:
    print("printed by a node")
    if state.topic == "fail":
        raise ValueError("no such topic")
    return {"notes": [f"about {state.topic}"]}


@g.node
def approve(state: State, ctx: Context) -> dict[str, Any]:
    return {"verdict": ctx.interrupt({"draft": state.notes[-1]}, key="approve", answer_type=Verdict)}


g.add_sequence([START, write, approve, END])
letters = g.compile()

f = GraphBuilder(State, name="fan")


@f.node
def work(state: State, ctx: Context) -> dict[str, Any]:
    time.sleep(state.seconds)
    return {"notes": [ctx.arg]}


@f.node
def report(state: State) -> dict[str, Any]:
    return {"topic": f"{len(state.notes)} notes"}


f.set_conditional_entry(lambda state: [Send(work, n) for n in range(4)], [work])
f.add_edge(work, report)
f.add_edge(report, END)
fan = f.compile()
builder = f
runtime = Runtime(fan)
number = 5


def make():
    return letters


def makes(what):
    return letters
'''
IMPORTED = (
    *("rich.live", "rich.progress", "rich.syntax", "rich.table", "graphrt.specs", "graphrt.compat.langgraph"),
    *(f"graphrt.cli.{name}" for name in ("app", "check", "doctor", "draw", "forms", "run", "threads", "working")),
)
"""What most commands import."""


def start(words: Sequence[str], **options: Any) -> WarmProcess:
    """Start `python *words` as a fork of a process that has imported what commands need.

    It spares each test half a second of imports. What depends on a new interpreter starts one: closed and broken
    streams, and what listing and completing import.
    """
    return warm_python(*USUAL, *IMPORTED).start(words, **options)


class Called(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def result(self) -> Any:
        return self.document["result"]


@pytest.fixture(autouse=True)
def imports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Undo what commands import in this process."""
    with imports_undone(tmp_path_factory.getbasetemp()):
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the module `flow.py`."""
    (tmp_path / "flow.py").write_text(FLOW, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "GRAPHRT_STORE", "GRAPHRT_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Called]:
    """Call a command in this process, and return its document, validated against the schema of the command."""

    def called(*words: str) -> Called:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setenv("GRAPHRT_OUTPUT", "json")
            code = main(words)
        done = Called(code, *capsys.readouterr())
        document = done.document if done.out.startswith("{") else {}
        if "graphrt" in document:
            Draft202012Validator(schema_of(document["command"])).validate(document)
            assert document["exit_code"] == code
        return done

    return called


@pytest.fixture
def stored(call: Callable[..., Called]) -> str:
    """A database with the thread `paused`, which waits for an answer, and `done`."""
    assert call("run", "flow.py:letters", "--set", "topic=cats", "--store", "runs.db", "--thread", "paused").code == 4
    assert call("run", "flow.py:fan", "--store", "runs.db", "--thread", "done").code == 0
    return "runs.db"


class Terminal(NamedTuple):
    """The output of a command in a terminal."""

    code: int
    text: str


def drive(
    words: Sequence[str],
    *,
    columns: int = 80,
    answers: Sequence[tuple[str, str]] = (),
    env: dict[str, str] | None = None,
    limit_s: float = 60,
) -> Terminal:
    """Run `python *words` in a pseudo-terminal. Each answer is typed after its prompt has appeared."""
    number, slave = os.openpty()
    fcntl.ioctl(number, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = start(
        words,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        terminal=True,
        env={**os.environ, "TERM": "xterm-256color", **(env or {})},
    )
    os.close(slave)
    seen, mark, left, end = b"", 0, list(answers), time.monotonic() + limit_s
    try:
        while time.monotonic() < end:
            if not select.select([number], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(number, 65_536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            seen += data
            if left and left[0][0].encode() in seen[mark:]:
                mark = len(seen)
                os.write(number, left.pop(0)[1].encode())
        else:
            process.kill()
    finally:
        code = process.wait(limit_s)
        os.close(number)
    return Terminal(code, seen.decode().replace("\r\n", "\n"))


@pytest.fixture
def terminal(folder: Path) -> Callable[..., Terminal]:
    """Run `graphrt` in a pseudo-terminal."""
    return lambda *words, **options: drive(["-m", "graphrt", *words], **options)


@pytest.fixture
def program(folder: Path) -> Callable[..., Called]:
    """Run `graphrt` as a program whose streams are pipes."""

    def run(*words: str, given: str = "", env: dict[str, str] | None = None) -> Called:
        process = start(
            ["-m", "graphrt", *words],
            stdin=subprocess.PIPE,
            env={**os.environ, "GRAPHRT_OUTPUT": "json", **(env or {})},
        )
        out, err = process.communicate(given, timeout=60)
        return Called(process.wait(), out, err)

    return run
