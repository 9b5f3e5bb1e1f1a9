"""Every command in every environment: terminals of three widths, without colours, without a terminal, interrupted, and
on a damaged database. A new command joins `WORDS`, or a test here fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphrt.console import cells

from .conftest import Called, Terminal, drive
from .test_table_of_commands import ALL
from .test_terminal import COLOUR, STYLE

S = ["--store", "runs.db"]
WORDS: dict[str, tuple[list[str], int]] = {
    "check": (["check", "flow.py:letters", "flow.py:fan", *S], 0),
    "draw": (["draw", "flow.py:fan"], 0),
    "run": (["run", "flow.py:fan", "--quiet"], 0),
    "resume": (["resume", "flow.py:letters", "paused", "--no-input", *S], 4),
    "retry": (["retry", "flow.py:letters", "failed", "--quiet", *S], 1),
    "start": (["start", "flow.py:fan", "--thread", "started", "--if-exists", "return", *S], 0),
    "threads": (["threads", *S], 0),
    "show": (["show", "flow.py:letters", "paused", "--history", *S], 0),
    "log": (["log", "flow.py:letters", "paused", *S], 0),
    "diff": (["diff", "flow.py:letters", "paused", "failed", *S], 1),
    "why": (["why", "flow.py:letters", "paused", "notes", *S], 0),
    "fork": (["fork", "flow.py:letters", "paused", "--to", "forked", *S], 0),
    "cancel": (["cancel", "flow.py:letters", "forked", *S], 0),
    "schedules add": (["schedules", "add", "flow.py:fan", "nightly", "0 3 * * *", "--tag", "night", *S], 0),
    "schedules list": (["schedules", "list", "flow.py:fan", *S], 0),
    "schedules remove": (["schedules", "remove", "flow.py:fan", "nightly", *S], 0),
    "builds list": (["builds", "list", "flow.py:letters", *S], 0),
    "builds allow": (["builds", "allow", "flow.py:letters", *S], 0),
    "inbox": (["inbox", "--kind", "question", *S], 0),
    "signal": (["signal", "flow.py:letters", "paused", "go", '{"far": true}', *S], 0),
    "usage": (["usage", "flow.py:letters", *S], 0),
    "audit keygen": (["audit", "keygen", "key"], 0),
    "audit export": (["audit", "export", "flow.py:letters", "paused", "a.log", *S], 0),
    "audit verify": (["audit", "verify", "a.log"], 0),
    "audit show": (["audit", "show", "a.log"], 0),
    "audit replay": (["audit", "replay", "flow.py:letters", "paused", *S], 0),
    "audit erase": (["audit", "erase", "flow.py:letters", "--containing", "cats", "--dry-run", *S], 1),
    "trace": (["trace", "flow.py:letters", "paused", "--provider", "tracer.py:provider", *S], 0),
    "doctor": (["doctor", *S], 0),
    "backup": (["backup", "copy.db", *S], 0),
    "export": (["export", "flow.py:letters", "paused", "paused.bundle", *S], 0),
    "import": (["import", "flow.py:letters", "paused.bundle", "--thread", "imported", *S], 0),
    "sweep": (["sweep", "--older-than", "1s", "--dry-run", *S], 0),
    "skills list": (["skills", "list"], 0),
    "skills install": (["skills", "install", "skills"], 0),
    "schema": (["schema", "threads"], 0),
    "completion": (["completion", "bash"], 0),
    "routes": (["routes", "none.json"], 2),
    "mutate": (["mutate", "flow.py:fan", "--jobs=0"], 2),  # refused before a suite is run
}
"""Command to arguments and exit code, in an order in which each finds its preconditions."""
ENDLESS = {"worker", "serve", "ui"}
"""Commands that run until they are stopped."""
PLAIN = {"routes", "mutate", "schema", "completion"}
"""Commands that write text for programs, or are the test kit's own programs."""
TRACER = "from opentelemetry.trace import NoOpTracerProvider\nprovider = NoOpTracerProvider()\n"
MARK = "\x1e"
SCRIPT = """
import json, os, sys
sys.path[:0] = [os.getcwd()]
for errors in sys.argv[2:]:  # long lines of errors are for the terminal to fold
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
from graphrt.cli import main
for name, words in json.loads(open(sys.argv[1]).read()).items():
    try:
        code = main([*words])
    except SystemExit as done:
        code = done.code
    sys.stdout.write(f"\\x1e{name} {code}\\n")
    sys.stdout.flush()
"""


@pytest.fixture
def place(call: Callable[..., Called], stored: str, folder: Path) -> Path:
    """A folder with a database whose threads are paused, done and failed."""
    assert stored == "runs.db"
    assert call("run", "flow.py:letters", "--set", "topic=fail", *S, "--thread", "failed").code == 1
    (folder / "tracer.py").write_text(TRACER)
    (folder / "words.json").write_text(json.dumps({name: words for name, (words, _) in WORDS.items()}))
    return folder


def test_every_command_is_covered() -> None:
    assert set(WORDS) | ENDLESS == set(ALL)


def at_terminal(*files: str, **options: Any) -> dict[str, tuple[int, list[str]]]:
    """The output of the commands of a file in a terminal, all in one process: their exit codes and their lines."""
    done: Terminal = drive(["-c", SCRIPT, *files], limit_s=120, **options)
    assert done.code == 0, done.text
    found: dict[str, tuple[int, list[str]]] = {}
    *parts, rest = re.split(f"{MARK}(.+) (\\d+)\n", done.text)
    assert rest == ""
    for text, name, code in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        found[name] = int(code), text.split("\n")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "env"),
    [
        (40, {}),
        pytest.param(80, {}, marks=pytest.mark.full),
        pytest.param(200, {}, marks=pytest.mark.full),
        (80, {"NO_COLOR": "1"}),
        (80, {"TERM": "dumb"}),
    ],
    ids=["40", "80", "200", "no-color", "dumb"],
)
def test_every_command_fits_its_terminal(place: Path, columns: int, env: dict[str, str]) -> None:
    found = at_terminal("words.json", "errors", columns=columns, env=env)

    assert {name: code for name, (code, _) in found.items()} == {name: code for name, (_, code) in WORDS.items()}
    for name, (_, shown) in found.items():
        assert any(shown) or name in ("routes", "mutate", "resume"), name  # these have printed an error
        if name in PLAIN:
            continue
        widest = max(shown, key=lambda line: cells(STYLE.sub("", line)))
        assert cells(STYLE.sub("", widest)) <= columns, f"{name}: {widest!r}"
        if env:
            assert COLOUR.findall("\n".join(shown)) == [], name
    assert "Traceback" not in Path("errors").read_text()


@pytest.mark.slow
def test_every_command_writes_one_document_without_a_terminal(call: Callable[..., Called], place: Path) -> None:
    for name, (words, code) in WORDS.items():
        done = call(*words, *([] if name in PLAIN else ["-ojson"]))  # validates a document against its schema

        assert done.code == code, (name, done)
        assert "\x1b" not in done.out + done.err, name
        assert "Traceback" not in done.err, name
        assert name in PLAIN or done.document["command"] == name


DAMAGED = [name for name, (words, _) in WORDS.items() if "--store" in words and name not in ("check", "import")]


@pytest.mark.parametrize("form", ["-ojson", "-otext"])
def test_no_command_continues_with_a_truncated_database(call: Callable[..., Called], place: Path, form: str) -> None:
    call("audit", "export", "flow.py:letters", "paused", "a.log", *S)
    data = Path("runs.db").read_bytes()
    cut = data[: len(data) // 2]
    for name in DAMAGED:
        Path("runs.db").write_bytes(cut)
        words = WORDS[name][0]

        done = call(*words, form)

        assert done.code in (1, 3), (name, done)
        # The doctor still answers: the damage of the database is one of its findings.
        assert name == "doctor" or done.err.startswith(("graphrt ", "printed by the module\ngraphrt ")), (
            name,
            done.err,
        )
        assert "Traceback" not in done.err
        assert "printed by a node" not in done.err  # no node was executed


WITH_TARGET = [
    name for name, (words, _) in WORDS.items() if any(word.startswith("flow.py") for word in words) and name != "mutate"
]  # each mutant is tested in a separate process, which loads the module


# Many short sleeps: Python does not notice a signal that arrives just before a sleep until it is over.
SLOW = "import time\nprint('loading', flush=True)\nfor _ in range(600):\n    time.sleep(0.1)\n"
LOADING = {
    name: [re.sub(r"^flow\.py", "slow.py", word) for word in words]
    for name, words in {
        **{name: WORDS[name][0] for name in WITH_TARGET},
        "worker": ["worker", "flow.py:fan", *S],
    }.items()
}
"""Commands that load a module, here one that takes a minute."""


@pytest.mark.slow
def test_ctrl_c_ends_every_command_that_loads_a_module(place: Path) -> None:
    Path("slow.py").write_text(SLOW)
    Path("slow.json").write_text(json.dumps(LOADING))

    found = at_terminal("slow.json", answers=[("loading", "\x03")] * len(LOADING))

    assert {name: code for name, (code, _) in found.items()} == dict.fromkeys(LOADING, 130)
    for name, (_, shown) in found.items():
        assert "interrupted" in "\n".join(shown), name
        assert "Traceback" not in "\n".join(shown), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "worker"])
def test_ctrl_c_ends_the_program_with_the_exit_code_of_an_interrupt(place: Path, name: str) -> None:
    Path("slow.py").write_text(SLOW)

    done = drive(["-m", "graphrt", *LOADING[name]], answers=[("loading", "\x03")])

    assert done.code == 130, done.text
    assert "interrupted" in done.text
    assert "Traceback" not in done.text
