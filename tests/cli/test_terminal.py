"""The commands in a real terminal: 40, 80 and 200 columns, no colours, typed answers, Ctrl-C."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphrt.console import cells

STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?[349][0-9](?:;[0-9;]*)?m")  # bold is not a colour


def lines(text: str) -> list[str]:
    """The text of the terminal's lines, one after another, without styles."""
    return [STYLE.sub("", part) for line in text.split("\n") for part in line.split("\r")]


@pytest.mark.parametrize("columns", [40, pytest.param(80, marks=pytest.mark.full), 200])
def test_run_is_drawn_watched_and_summed_up(terminal, columns: int) -> None:
    done = terminal("run", "flow.py:fan", "--set", "seconds=0.2", "--limits", "deadline_s=60", columns=columns)
    shown = lines(done.text)

    assert done.code == 0
    assert max(map(cells, shown)) <= columns
    assert "  ○ START" in shown  # the drawing
    assert any(re.search(r"work\s+[█░ ]*\d/4", line) for line in shown)  # progress of the fan-out
    assert any(re.search(r"left: 1,000 supersteps, (59|60)", line) for line in shown)
    assert any("✓ completed" in line for line in shown)
    assert "printed by the module" in shown


def test_no_color_means_no_colour(terminal) -> None:
    done = terminal("run", "flow.py:fan", env={"NO_COLOR": "1"})

    assert done.code == 0
    assert COLOUR.findall(done.text) == []
    assert "✓ completed" in done.text


def test_dumb_terminal_gets_plain_lines(terminal) -> None:
    done = terminal("run", "flow.py:fan", "--quiet", env={"TERM": "dumb"})

    assert "\x1b" not in done.text
    assert "✓ completed" in done.text


def test_json_at_a_terminal_is_one_document_after_the_live_view(terminal) -> None:
    done = terminal("run", "flow.py:fan", "-ojson", "--quiet")

    assert done.text[done.text.index("{") :].startswith('{\n  "graphrt"')
    assert "\x1b" not in done.text


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize(
    "words",
    [
        ["threads"],
        ["show", "flow.py:letters", "paused", "--history"],
        ["log", "flow.py:letters", "paused"],
        ["doctor"],
    ],
    ids=lambda words: words[0],
)
def test_views_of_a_store_fit_the_terminal(
    call, stored: str, monkeypatch: pytest.MonkeyPatch, columns: int, words: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")

    shown = lines(call(*words, "--store", stored, "-otext").out)

    assert max(map(cells, shown)) <= columns
    assert any("paused" in line or "verif" in line or "sound" in line or "run-started" in line for line in shown)


def test_questions_of_a_run_are_asked_as_a_form(terminal) -> None:
    done = terminal(
        "run", "flow.py:letters", "--set", "topic=cats",
        answers=[("do:", "burn\n"), ("choose 1 to 2", "1\n"), ("remark (optional):", "fine\n")],
    )  # fmt: skip

    assert done.code == 0
    assert "draft: about cats" in done.text
    assert "Verdict(do='send', remark='fine')" in done.text


def test_unanswered_question_stays_open(terminal, call) -> None:
    done = terminal("run", "flow.py:letters", "--store", "a.db", "--thread", "t", answers=[("do:", "\x04")])

    assert done.code == 4
    assert "continue with: graphrt resume flow.py:letters t --store a.db" in done.text
    assert call("show", "flow.py:letters", "t", "--store", "a.db").result["status"] == "interrupted"


def test_resume_asks_in_another_process(terminal, call, stored: str) -> None:
    done = terminal(
        "resume", "flow.py:letters", "paused", "--store", stored, answers=[("do:", "drop\n"), ("remark", "\n")]
    )

    assert done.code == 0
    assert "Verdict(do='drop', remark='')" in done.text


def test_ctrl_c_cancels_the_run_and_leaves_a_thread_that_can_continue(terminal, call) -> None:
    words = ["run", "flow.py:fan", "--set", "seconds=5", "--limits", "grace_s=0", "--store", "a.db", "--thread", "t"]
    began = time.monotonic()

    done = terminal(*words, answers=[("work  ", "\x03")])

    assert done.code == 130
    assert "graphrt run: interrupted" in done.text
    assert "Traceback" not in done.text
    assert time.monotonic() - began < 20
    assert call("show", "flow.py:fan", "t", "--store", "a.db").result["status"] == "cancelled"
    after = call("retry", "flow.py:fan", "t", "--store", "a.db")
    assert (after.code, after.result["state"]["notes"]) == (0, [0, 1, 2, 3])


def test_only_the_document_is_written_without_a_terminal(program) -> None:
    done = program("run", "flow.py:fan")

    assert done.document["result"]["status"] == "completed"
    assert "\x1b" not in done.out + done.err
    assert done.err == "printed by the module\n"


SHELL = ["bash", "-c"]


@pytest.mark.parametrize(
    ("words", "buffered"),
    [("schema run", ""), ("log flow.py:letters paused --store runs.db -o json", "1"), ("--help", "")],
)
def test_pipe_that_is_closed_early_is_not_an_error(folder, stored: str, words: str, buffered: str) -> None:
    script = f"{sys.executable} -m graphrt {words} 2>err | head -c 10; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        [*SHELL, script], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONUNBUFFERED": buffered}
    )

    assert done.stdout.endswith("0\n")
    assert (folder / "err").read_text() in ("", "printed by the module\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(("words", "buffered"), [("schema run", ""), ("threads --store runs.db", "1"), ("--help", "")])
def test_unwritable_output_is_reported_in_one_line(folder, stored: str, words: str, buffered: str) -> None:
    done = subprocess.run(
        [*SHELL, f"{sys.executable} -m graphrt {words} > /dev/full"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONUNBUFFERED": buffered},
    )  # fmt: skip

    assert done.returncode == 1
    assert re.fullmatch(r"graphrt( \w+)?: standard output cannot be written: No space left on device\n", done.stderr)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_missing_standard_stream_is_harmless(folder, stored: str, closed: str) -> None:
    done = subprocess.run(
        [*SHELL, f"{sys.executable} -m graphrt threads --store runs.db {closed}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


def test_pipe_that_breaks_in_the_code_of_the_user_is_an_error(program, folder) -> None:
    """Only the reader of the command's own output may leave silently."""
    (folder / "pipes.py").write_text("def deps():\n    raise BrokenPipeError(32, 'Broken pipe')\n")

    done = program("run", "flow.py:fan", "--deps", "pipes.py:deps")

    assert done.code == 2
    assert "BrokenPipeError" in done.err


def test_output_is_a_table_in_a_pipe_and_a_document_on_request(program, stored: str) -> None:
    words, text = ["threads", "--store", stored], {"GRAPHRT_OUTPUT": ""}

    piped = program(*words, env=text).out

    assert [line for line in piped.splitlines() if "paused" in line and "interrupted" in line]
    assert program(*words, "-o", "json", env=text).document["command"] == "threads"
    assert program(*words).document["command"] == "threads"  # with GRAPHRT_OUTPUT
    assert program(*words, "--output=text").out == piped
