"""Users keep cassettes in version control: an old file is read, and written again byte for byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import pytest

from graphrt.errors import ScriptError
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    ProviderPart,
    SystemMessage,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    UserMessage,
)
from graphrt.harness.cassette._cassette_file import CassetteFile, encode
from graphrt.harness.cassette._recording import Failure, Recording
from graphrt.harness.cassette._stored_form import dump, files_of, load

from .pictures import LINK, PAPER, PICTURE

FILE: Final = Path(__file__).with_name("every_kind.cassette")
"""A cassette with every kind of recording, which fixes the form."""

CALLS: Final = (
    ToolCall(id="c1", name="tea", arguments={"town": "Bergen", "cups": [1, 2.5, None, True]}),
    ToolCall(id="c2", name="tea", arguments_text='{"town":"Oslo"}'),
    ToolCall(id="c3", name="tea", arguments_text='{"town": "Os'),
    ToolCall(id="c4", name="tea"),
)
CONVERSATION: Final = (
    SystemMessage(text="Be short.\nBe kind.", id="m0"),
    UserMessage(text="tea? \ud800"),
    AssistantMessage(text="", tool_calls=CALLS[:1], thinking=(ThinkingBlock(text="hm\nwell", signature="s"),)),
    ToolMessage(tool_call_id="c1", text="none\nleft", error=True),
    ToolMessage(tool_call_id="c2", text="one", id="m4"),
    AssistantMessage(text="No.", provider_parts=(ProviderPart(provider="google", type="grounding"),)),
)
REQUEST: Final[dict[str, Any]] = {
    "harness": "shop",
    "max_tokens": 7,
    "messages": [
        {"role": "system", "text": "Be short.\nBe kind."},
        {"role": "user", "text": "tea? \ud800 schön \u202e"},
        {
            "role": "assistant",
            "text": "",
            "thinking": ["hm"],
            "tool_calls": [{"arguments": {}, "call": 1, "name": "t"}],
        },
        {"call": 1, "error": True, "role": "tool", "text": "none"},
    ],
    "model": "m",
}
OUTPUT: Final[Any] = {"text": ["a", "b"], "deep": json.loads("[[[]]]"), "none": None, "number": 1e300, "word": "\ud800"}
RECORDINGS: Final[Sequence[Recording]] = (
    Recording(request={"messages": []}, reply=AgentReply()),
    Recording(
        request=REQUEST,
        reply=AgentReply(
            text="a\nb",
            tool_calls=CALLS,
            usage=Usage(input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4, calls=5, cost_usd=0.25),
            finish_reason="length",
            model="m-1",
            thinking="first\nthen",
            thinking_blocks=(
                ThinkingBlock(text="x"),
                ThinkingBlock(redacted="r"),
                ThinkingBlock(provider="openai", id="rs_1", data={"type": "reasoning", "summary": ["a\nb"]}),
            ),
            provider_parts=(ProviderPart(provider="openai", type="url_citation", data={"url": "u", "at": [1, 2.5]}),),
            output=OUTPUT,
            messages=CONVERSATION,
            stopped="model_calls",
            prompt_messages=2,
        ),
        output_type="Person",
        pieces=(
            TextDelta(text="a\nb"),
            ThinkingDelta(text="first\nthen"),
            ToolCallDelta(index=0, id="c1", name="tea", arguments_text='{"a'),
            ToolCallDelta(index=0),
        ),
    ),
    Recording(request=REQUEST, reply=AgentReply(usage=Usage(), output=[]), pieces=()),
    Recording(request=REQUEST, failure=Failure(kind="HarnessError", what="no", code="harness", data={})),
    Recording(
        request=REQUEST,
        failure=Failure(
            kind="RateLimitError",
            what="too\nmany",
            code="rate-limited",
            where="here",
            known="this\nand that",
            fix="wait",
            data={"billed": True, "retry_after_s": 3, "text": ["not", "lines"]},
            messages=CONVERSATION,
            usage=Usage(input_tokens=1500, calls=1, cost_usd=0.5),
        ),
        pieces=(TextDelta(text="a"),),
    ),
)


def text_of(recordings: Sequence[Recording]) -> str:
    return "\n".join(['{"graphrt_cassette": 1}', *map(encode, recordings), ""])


def test_recordings_of_every_kind_are_written_unchanged() -> None:
    assert text_of(RECORDINGS) == FILE.read_text(encoding="utf-8")


def test_old_file_is_read_as_recorded_and_written_again_byte_for_byte() -> None:
    found = CassetteFile(FILE).read()
    assert found is not None
    lines = FILE.read_text(encoding="utf-8").split("\n")

    assert [replace(one, line=0) for one in found] == list(RECORDINGS)
    assert [one.line for one in found] == [n for n, line in enumerate(lines, 1) if line == "{"]
    assert text_of(found) == FILE.read_text(encoding="utf-8")


def test_old_file_has_every_field_of_a_reply() -> None:
    """A new field joins the recordings here, in its own file."""
    full, later = RECORDINGS[1].reply, {"agent", "media"}

    absent = {one.name for one in fields(AgentReply) if getattr(full, one.name) == getattr(AgentReply(), one.name)}
    assert absent == later


SEEN: Final = Recording(
    request={"messages": [{"role": "user", "text": "", "parts": [PICTURE.outline()]}]},
    reply=AgentReply(
        text="Here.",
        media=(PICTURE, LINK),
        agent="clerk",
        messages=(
            UserMessage(content=["What is\nthis?", PICTURE]),
            AssistantMessage(tool_calls=(ToolCall(id="c1", name="scan"),)),
            ToolMessage(tool_call_id="c1", content=[PAPER]),
            AssistantMessage(text="Here.", media=(PICTURE, LINK)),
        ),
    ),
)


def test_media_are_stored_once_next_to_the_cassette_and_the_recording_has_type_size_and_hash(tmp_path: Path) -> None:
    file = CassetteFile(tmp_path / "chat.cassette")
    file.read()

    file.write_files(files_of(SEEN))
    file.write([encode(SEEN)])

    beside = {one.name: one.read_bytes() for one in (tmp_path / "chat.cassette.files").iterdir()}
    assert beside == {f"{PICTURE.sha256}.png": PICTURE.data, f"{PAPER.sha256}.pdf": PAPER.data}
    assert dump(SEEN)["reply"]["media"] == [PICTURE.outline(), LINK.outline()]
    assert [replace(one, line=0) for one in CassetteFile(file.path).read() or ()] == [SEEN]


@pytest.mark.parametrize("left", [None, b"other"])
def test_missing_or_changed_file_of_a_cassette_is_named(tmp_path: Path, left: bytes | None) -> None:
    file = CassetteFile(tmp_path / "chat.cassette")
    file.read()
    file.write_files(files_of(SEEN))
    file.write([encode(SEEN)])
    picture = tmp_path / "chat.cassette.files" / f"{PICTURE.sha256}.png"
    picture.unlink() if left is None else picture.write_bytes(left)

    with pytest.raises(ScriptError) as caught:
        CassetteFile(file.path).read()

    assert caught.value.code == "cassette-damaged"
    assert str(PICTURE.sha256) in str(caught.value)


def test_digest_of_a_cassette_refers_to_no_other_file(tmp_path: Path) -> None:
    file = CassetteFile(tmp_path / "chat.cassette")
    file.read()
    file.write_files(files_of(SEEN))
    file.write([encode(SEEN).replace(str(PICTURE.sha256), "../../secret")])

    with pytest.raises(ScriptError, match="not a SHA-256"):
        CassetteFile(file.path).read()


DEEP: Final = json.loads("[" * 300 + "]" * 300)


@pytest.mark.parametrize("output", [10**400, DEEP, "\udfff", [], "", 0, False], ids=type)
def test_every_output_is_replayed_unchanged(output: object) -> None:
    recording = Recording(request={"messages": []}, reply=AgentReply(output=output))

    assert load(dump(recording), 0) == recording


BROKEN: Final[list[tuple[dict[str, Any], str]]] = [
    ({"messages": [{"text": "x"}]}, "reply.messages.0"),
    ({"messages": [{"role": "boss", "text": "x"}]}, "reply.messages.0"),
    ({"messages": [{"role": "tool", "text": "x", "tool_call_id": 5}]}, "tool_call_id"),
    ({"messages": [{"role": "user", "text": "x", "tool_calls": []}]}, "tool_calls"),
    ({"messages": [{"role": "tool"}]}, "tool_call_id"),
    ({"media": [{"kind": "film"}]}, "reply.media.0"),
    ({"usage": {"input_tokens": 1.0}}, "reply.usage.input_tokens"),
    ({"usage": {"tokens": 1}}, "reply.usage.tokens"),
    ({"tool_calls": {"id": "c"}}, "reply.tool_calls"),
    ({"tool_calls": [{"id": "c"}]}, "reply.tool_calls.0.name"),
    ({"thinking_blocks": [{"sealed": True}]}, "reply.thinking_blocks.0.sealed"),
    ({"provider_parts": [{"type": "x"}]}, "reply.provider_parts.0.provider"),
    ({"text": ["a", 5]}, "reply.text"),
    ({"text": None}, "reply.text"),
    ({"finish_reason": "tired"}, "reply.finish_reason"),
]


@pytest.mark.parametrize(
    ("reply", "said"),
    BROKEN,
)
def test_manual_damage_of_a_reply_is_named_with_its_place(reply: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=r"^reply") as caught:
        load({"request": {"messages": []}, "reply": reply}, 0)
    assert said in str(caught.value)


def test_omitted_fields_have_their_default_and_empty_lists_are_empty() -> None:
    data: dict[str, Any] = {
        "request": {"messages": []},
        "pieces": [],
        "reply": {
            "text": [],
            "tool_calls": [],
            "messages": [],
            "thinking_blocks": [],
            "provider_parts": [],
            "usage": {},
        },
    }
    assert load(data, 3) == Recording(request={"messages": []}, reply=AgentReply(usage=Usage()), pieces=(), line=3)
