"""Values from a store are untrusted: control characters and markup are shown as text, huge values are truncated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NASTY = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202egnp.exe \u200b [bold]x[/bold] :smile: \r\x7f\x00 \U000e0041"
HIDDEN = "\x1b\x07\x9b\u202e\u200b\r\x7f\x00\U000e0041"


@pytest.fixture
def nasty(call, folder: Path) -> str:
    (folder / "input.json").write_text(json.dumps({"topic": NASTY}), encoding="utf-8")
    assert call("run", "flow.py:letters", "--input", "input.json", "--store", "n.db", "--thread", "t").code == 4
    return "n.db"


WORDS = [
    ["show", "flow.py:letters", "t", "--history"],
    ["log", "flow.py:letters", "t"],
    ["why", "flow.py:letters", "t", "notes"],
    ["resume", "flow.py:letters", "t", "--answer", '{"do": "send", "remark": "\\u001b[2J"}'],
    ["retry", "flow.py:letters", "t"],
]


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
@pytest.mark.parametrize("form", ["-otext", "-ojson"])
@pytest.mark.parametrize("colour", ["", "1"])
def test_no_control_character_of_a_value_is_written(
    call, nasty: str, monkeypatch: pytest.MonkeyPatch, words: list[str], form: str, colour: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", colour)

    done = call(*words, "--store", nasty, form)
    said = done.out + done.err
    ours = said.replace("\x1b[0m", "").replace("\x1b[31mred", "!")  # our styles never precede that word

    assert [c for c in HIDDEN[1:] if c in said] == []
    assert "!" not in ours.replace("! ", "") or form == "-ojson"
    if form == "-otext" and words[0] == "show":
        assert "\\x1b[31mred" in said
        assert "[bold]x[/bold] :smile:" in said
    if form == "-ojson" and words[0] == "show":
        assert done.result["state"]["topic"] == NASTY


def test_names_of_threads_are_not_written_as_terminal_commands(call) -> None:
    done = call("run", "flow.py:fan", "--thread", "a\x1b[2Jb", "--store", "n.db", "-otext")

    assert done.code == 2
    assert "\x1b" not in done.err


@pytest.mark.slow
def test_huge_and_binary_values_are_truncated_with_their_size(call, folder: Path) -> None:
    (folder / "big.py").write_text(
        "from typing import Any\nfrom pydantic import BaseModel\nfrom graphrt import END, START, GraphBuilder\n"
        "class S(BaseModel):\n    text: str = ''\n    data: bytes = b''\n    items: list[Any] = []\n"
        "g = GraphBuilder(S, name='big')\n"
        "g.add_node('a', lambda s: {'text': 'x' * 3_000_000, 'data': b'\\xff\\x00' * 500_000, "
        "'items': list(range(100_000))})\n"
        "g.add_sequence([START, 'a', END])\ngraph = g.compile()\n",
        encoding="utf-8",
    )

    done = call("run", "big:graph", "-otext", "--thread", "t", "--store", "b.db")

    assert done.code == 0
    assert "(3,000,000 characters)" in done.out
    assert "<1,000,000 bytes: ff 00 ff 00" in done.out
    assert "(100,000 in all)" in done.out
    assert len(done.out) < 4_000
    assert len(call("log", "big:graph", "t", "--store", "b.db", "-otext").out) < 4_000
    whole = call("show", "big:graph", "t", "--store", "b.db").result["state"]
    assert (len(whole["text"]), len(whole["items"])) == (3_000_000, 100_000)
    assert whole["data"].startswith("_wD_AP8A")
