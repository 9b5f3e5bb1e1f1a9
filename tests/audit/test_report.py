"""Reports of logs and threads: the same rows in each format, without values that a terminal or a page would interpret."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.audit.support import KEY, OTHER, ask

from graphrt import Runtime
from graphrt.audit import AuditLog, report
from graphrt.errors import InputError

NASTY = "\x1b[2J\x1b]0;owned\x07 | col <b>bold</b> [red]x[/red] \u202egpj\r\nnew"


@pytest.fixture
def thread(tmp_path: Path) -> tuple[Path, str]:
    url = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(ask(), store=url, audit=AuditLog(tmp_path, key=KEY, user="anna")) as runtime:
        runtime.run({"notes": [NASTY]}, thread="t")
        runtime.resume("t", "yes")
        runtime.update("t", {"answer": NASTY})
    return tmp_path / "t.jsonl", url


def test_report_of_a_log_and_of_its_thread_have_the_same_rows(thread: tuple[Path, str]) -> None:
    path, url = thread
    of_log = json.loads(report(path, "json", key=KEY))
    of_thread = json.loads(report((url, "t"), "json"))

    assert of_log["rows"] == of_thread["rows"]
    assert (of_log["verdict"], of_thread["verdict"]) == ("unanchored", None)
    assert [row["kind"] for row in of_log["rows"]] == [
        "input", "task", "question", "interrupted", "resumed", "answer", "task", "completed", "edit",
    ]  # fmt: skip
    assert of_log["rows"][0]["values"] == {"notes": [NASTY]}
    assert of_log["rows"][0]["user"] == "anna"
    assert of_log["totals"]["tasks"] == 2
    assert json.loads(report(path, "json", key=OTHER))["verdict"] == "wrong-key"


@pytest.mark.parametrize("with_rich", [True, False])
@pytest.mark.parametrize("format", ["table", "markdown", "json"])
def test_control_characters_of_values_are_shown_as_text(
    thread: tuple[Path, str], format: Any, with_rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_rich:
        for name in ("rich", "rich.console", "rich.table", "rich.text"):
            monkeypatch.setitem(sys.modules, name, None)
    text = report(thread[0], format, key=KEY, width=400)

    assert not [one for one in text if not one.isprintable() and one != "\n"]
    assert "owned" in text
    rows = [line for line in text.splitlines() if "anna" in line]
    if format == "table":
        assert "[red]x[/red]" in text
        assert len(rows) == 3
    elif format == "markdown":
        assert all(line.count(" | ") - line.count("\\ | ") <= 8 for line in rows)
        assert "<b>" not in text.replace("\\<", "")


def test_unknown_format_is_refused(thread: tuple[Path, str]) -> None:
    with pytest.raises(InputError, match="xml"):
        report(thread[0], "xml")  # type: ignore[arg-type]


def test_report_of_another_value_is_refused() -> None:
    assert json.loads(report(b"no log", "json"))["verdict"] == "unreadable"


def test_any_changed_log_has_a_report(thread: tuple[Path, str]) -> None:
    """Auditors also read logs that were tampered with: the report names the problem, and shows the readable part."""
    rng = random.Random(7)
    data = thread[0].read_bytes()
    lines = data.splitlines(keepends=True)
    for _ in range(60):
        at, byte = rng.randrange(len(lines)), rng.randrange(10_000)
        line = bytearray(lines[at])
        line[byte % len(line)] ^= 1 << rng.randrange(8)
        told = json.loads(report(b"".join([*lines[:at], bytes(line), *lines[at + 1 :]]), "json", key=KEY))

        assert told["slug"] != "unanchored", told["sentence"]
    for at in range(len(lines)):
        parts: list[Any] = [5, [5], {"a": 5}, "x", None]
        for name in json.loads(lines[at]):
            for part in parts:
                odd = json.dumps({**json.loads(lines[at]), name: part}, sort_keys=True, separators=(",", ":")).encode()
                report(b"".join([*lines[:at], odd, b"\n", *lines[at + 1 :]]), "markdown", key=KEY)
