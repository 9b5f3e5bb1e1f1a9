"""The file of a cassette is read completely or refused with its line, and written completely or left unchanged."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from graphrt.errors import ScriptError
from graphrt.harness import FunctionModel, UserMessage
from graphrt.harness.cassette import Cassette, CassetteMode
from graphrt.harness.request import ModelRequest


def record(path: Path, *texts: str, mode: CassetteMode = "record") -> Cassette:
    async def go() -> None:
        for text in texts:
            await model.invoke(ModelRequest(messages=(UserMessage(text=text),)))

    cassette = Cassette(path, mode=mode)
    model = cassette.model(FunctionModel(lambda request: f"to {request.text}"))
    asyncio.run(go())
    return cassette


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tea.cassette"
    record(path, "a", "b\nc")
    return path


def refused(path: Path, mode: CassetteMode = "replay") -> ScriptError:
    with pytest.raises(ScriptError) as caught:
        record(path, "new", mode=mode)
    return caught.value


def test_file_is_human_readable(path: Path) -> None:
    assert (
        path.read_text()
        == """\
{"graphrt_cassette": 1}
{
  "request": {
    "messages": [
      {
        "role": "user",
        "text": "a"
      }
    ],
    "model": "function"
  },
  "reply": {
    "text": "to a",
    "usage": {
      "input_tokens": 1,
      "output_tokens": 2,
      "calls": 1
    },
    "model": "function"
  }
}
{
  "request": {
    "messages": [
      {
        "role": "user",
        "text": [
          "b",
          "c"
        ]
      }
    ],
    "model": "function"
  },
  "reply": {
    "text": [
      "to b",
      "c"
    ],
    "usage": {
      "input_tokens": 2,
      "output_tokens": 3,
      "calls": 1
    },
    "model": "function"
  }
}
"""
    )


def test_invisible_characters_are_written_as_escapes(tmp_path: Path) -> None:
    text = "schön 雨 \u202e\u2028\x85\x00\ud800\U000e0001"
    record(tmp_path / "x", text)
    written = (tmp_path / "x").read_text(encoding="utf-8")

    assert "schön 雨 " in written
    assert all(sign.isprintable() or sign == "\n" for sign in written)
    record(tmp_path / "x", text, mode="replay").assert_done()


# -------------------------------------------------------------------------------------------------------- damaged


def swap(old: str, new: str) -> Any:
    return lambda text: text.replace(old, new, 1)


DAMAGE: list[tuple[str, Any, int]] = [
    ("nothing", lambda text: "", 1),
    ("another file", lambda text: "# Notes\n", 1),
    ("no version", swap('{"graphrt_cassette": 1}\n', ""), 1),
    ("version of a wrong type", swap("1}", '"1"}'), 1),
    ("version true", swap("1}", "true}"), 1),
    ("version 0", swap("1}", "0}"), 1),
    ("more than the version", swap("1}", '1, "x": 2}'), 1),
    ("cut at the end", lambda text: text[:-10], 22),
    ("cut in the middle of a line", lambda text: text[:150], 2),
    ("a line cut", swap('"text": "to a",', '"text": "to'), 13),
    ("a comma lost", swap('"text": "to a",', '"text": "to a"'), 14),
    ("marks of a merge", swap('    "text": "to a"', '<<<<<<< ours\n    "text": "to a"'), 13),
    ("text between recordings", swap("\n}\n{\n", "\n}\nx\n{\n"), 22),
    ("usage of a wrong type", swap('"input_tokens": 1', '"input_tokens": "1"'), 2),
    ("usage true", swap('"input_tokens": 1', '"input_tokens": true'), 2),
    ("text of a wrong type", swap('"to a"', "5"), 2),
    ("message of a wrong type", swap('"messages": [', '"messages": [5, '), 2),
    ("list of a wrong type", swap('"to b"', "5"), 22),
    ("unknown field of a reply", swap('"usage"', '"usages"'), 2),
    ("unknown field of a recording", swap('"reply"', '"answer"'), 2),
    ("unknown field of a request", swap('"request": {', '"request": {"temprature": 0,'), 2),
    ("unknown field of a message", swap('"role"', '"rôle"'), 2),
    ("no messages", swap('"messages"', '"options"'), 2),
    ("no request", swap('"request"', '"reply"'), 2),
    ("neither reply nor failure", lambda text: '{"graphrt_cassette": 1}\n{\n "request": {"messages": []}\n}\n', 2),
    ("a name twice", swap('"calls": 1', '"calls": 1, "calls": 2'), 2),
    ("unknown error", swap('"reply": {', '"failure": {"kind": "KeyError", "what": "x", "code": "x"}, "x": {'), 2),
    ("nested too deeply", swap('"to a"', "[" * 100_000 + "]" * 100_000), 2),
]


@pytest.mark.parametrize("mode", ["replay", "record", "rewrite"])
@pytest.mark.parametrize(("what", "damage", "line"), DAMAGE, ids=[case[0] for case in DAMAGE])
def test_damaged_file_is_refused_with_its_line_and_left_unchanged(
    path: Path, what: str, damage: Any, line: int, mode: CassetteMode
) -> None:
    text = damage(path.read_text())
    path.write_text(text)

    error = refused(path, mode)

    assert error.code == "cassette-damaged"
    assert error.where == f"{path.resolve()}, line {line}"
    assert "instance of" not in str(error), "a class that nobody outside knows"
    assert path.read_text() == text


def test_recorded_error_that_is_not_a_model_error_is_refused(path: Path) -> None:
    text = path.read_text()
    begin, end = text.index('  "reply"'), text.index("\n}\n")
    for kind in ("KeyError", "ScriptError", "InputError", "GraphrtError", "names", "Any"):
        path.write_text(f'{text[:begin]}  "failure": {{"kind": "{kind}", "what": "x", "code": "x"}}{text[end:]}')
        assert f"{kind!r} is not an error of a model" in str(refused(path))


def test_bytes_that_are_not_text_are_refused_with_their_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"to a", b"to \xff"))

    assert refused(path).where.endswith("line 13")


def test_newer_version_is_refused_as_newer_and_left_unchanged(path: Path) -> None:
    path.write_text('{"graphrt_cassette": 2, "compressed": true}\nrubbish\n')

    for mode in ("replay", "record", "rewrite"):
        error = refused(path, mode)  # type: ignore[arg-type]
        assert error.code == "cassette-newer"
        assert error.value == 2
    assert path.read_text().endswith("rubbish\n")


def test_line_endings_and_byte_order_mark_of_an_editor_are_read(path: Path) -> None:
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes().replace(b"\n", b"\r\n"))

    assert Cassette(path).remaining == 2


def test_recording_edited_by_hand_answers_the_edited_call(path: Path) -> None:
    path.write_text(path.read_text().replace('"text": "a"', '"text": ["b", "a"]').replace('"to a"', '"edited"'))
    model = Cassette(path).model(FunctionModel(lambda request: "live"))

    assert asyncio.run(model.invoke(ModelRequest(messages=(UserMessage(text="b\na"),)))).text == "edited"


# -------------------------------------------------------------------------------------------------------- writing


def test_folder_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    for mode in ("replay", "record"):
        assert refused(tmp_path, mode).code == "cassette-unreadable"  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["record", "rewrite"])
def test_read_only_file_is_refused_before_the_first_call_and_can_be_replayed(path: Path, mode: CassetteMode) -> None:
    path.chmod(0o444)
    before = path.read_bytes()

    with pytest.raises(ScriptError) as caught:
        Cassette(path, mode=mode)

    assert caught.value.code == "cassette-unreadable"
    assert path.read_bytes() == before
    assert Cassette(path).remaining == 2


def test_path_below_a_file_is_refused(path: Path) -> None:
    assert refused(path / "x", "record").code == "cassette-unreadable"


def test_file_keeps_its_permissions_and_no_other_file_is_left(path: Path) -> None:
    path.chmod(0o640)
    record(path, "new")

    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208 - hidden files too, by name


def test_link_to_a_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    record(link, "new")

    assert link.is_symlink()
    assert Cassette(path).remaining == 3


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failure_while_writing_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before = path.read_bytes()

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if step == "fsync" else Path, step, broken)
    error = refused(path, "record")
    monkeypatch.undo()

    assert error.code == "cassette-unreadable"
    assert "No space left" in str(error)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208 - hidden files too, by name


def test_answers_of_another_process_are_not_overwritten(path: Path) -> None:
    mine = Cassette(path, mode="record")
    record(path, "theirs")
    before = path.read_bytes()

    with pytest.raises(ScriptError) as caught:
        asyncio.run(mine.model(FunctionModel(lambda _: "x")).invoke(ModelRequest(messages=(UserMessage(text="m"),))))

    assert caught.value.code == "cassette-changed"
    assert path.read_bytes() == before


def test_each_answer_is_in_the_file_before_its_caller_gets_it(tmp_path: Path) -> None:
    """Paid answers survive any later crash."""
    path = tmp_path / "x"
    cassette = Cassette(path, mode="record")
    model = cassette.model(FunctionModel(lambda request: request.text))
    for number in range(1, 4):
        asyncio.run(model.invoke(ModelRequest(messages=(UserMessage(text=str(number)),))))
        assert Cassette(path).remaining == number


def test_path_is_fixed_when_the_process_changes_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cassette = Cassette("x.cassette", mode="record")
    monkeypatch.chdir("/")
    asyncio.run(cassette.model(FunctionModel(lambda _: "x")).invoke(ModelRequest(messages=(UserMessage(text="m"),))))

    assert (tmp_path / "x.cassette").exists()
    assert json.loads((tmp_path / "x.cassette").read_text().split("\n")[0]) == {"graphrt_cassette": 1}
