"""Blocks of thinking in all stored forms; older stored forms without blocks are read unchanged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from graphrt._codec import Codec
from graphrt.errors import BadResponseError
from graphrt.harness import (
    Agent,
    AgentReply,
    AssistantMessage,
    Budget,
    FunctionModel,
    Ledger,
    Message,
    MockHarness,
    ModelProfile,
    ModelRequest,
    ProviderPart,
    SystemMessage,
    ThinkingBlock,
    ThinkingDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrt.harness._reply_data import reply_from, reply_to
from graphrt.harness.agent._digest import of_call, of_request
from graphrt.harness.budget._admission import most
from graphrt.harness.cassette import Cassette
from graphrt.harness.cassette._canonical import canonical, key
from graphrt.harness.cassette._redaction import Redactor
from graphrt.reducers import messages

from .cassettes import ask, read

CALL = ToolCall(id="c", name="n", arguments={"x": 1})
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
BLOCKS = (
    ThinkingBlock(text="hm", signature="s"),
    ThinkingBlock(redacted="d"),
    ThinkingBlock(provider="openai", id="rs_1", data=ITEM),
)
CITED = ProviderPart(provider="openai", type="url_citation", data={"url": "https://example.org", "at": [1, 2.5]})
BEFORE: tuple[Message, ...] = (
    SystemMessage(text="s"),
    UserMessage(text="u"),
    AssistantMessage(text="t", tool_calls=(CALL,)),
    ToolMessage(tool_call_id="c", text="r"),
)
AFTER = (
    *BEFORE[:2],
    AssistantMessage(text="t", tool_calls=(CALL,), thinking=BLOCKS, provider_parts=(CITED,)),
    BEFORE[3],
)


# ------------------------------------------------------------------------------------------------------------ values


def test_message_of_a_reply_has_the_sealed_blocks() -> None:
    reply = AgentReply(text="t", thinking_blocks=(ThinkingBlock(text="seen only"), *BLOCKS))

    assert reply.message == AssistantMessage(text="t", thinking=BLOCKS)


@pytest.mark.parametrize(
    ("block", "sealed"),
    [
        (ThinkingBlock(text="hm"), False),
        (ThinkingBlock(text="hm", signature="s"), True),
        (ThinkingBlock(redacted="d"), True),
        (ThinkingBlock(provider="deepseek", text="hm"), True),
        (ThinkingBlock(provider="openai", data=ITEM), True),
        (ThinkingBlock(provider="openai", id="rs_1"), False),
    ],
)
def test_block_is_sealed_if_its_provider_requires_it(block: ThinkingBlock, sealed: bool) -> None:
    assert block.sealed is sealed


@pytest.mark.parametrize("made", [BLOCKS[2], CITED], ids=lambda made: type(made).__name__)
def test_data_of_a_provider_is_a_json_copy(made: ThinkingBlock | ProviderPart) -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    given: Any = {"list": [1, ("a",)], 3: "\ud800", "none": object(), "inf": float("inf"), "loop": loop}
    taken = replace(made, data=given)
    given["list"].append("later")
    loop = taken.data["loop"]

    assert {**taken.data, "loop": 0} == {"list": [1, ["a"]], "3": "\ufffd", "none": None, "inf": None, "loop": 0}
    assert json.dumps(loop).endswith("null" + "}" * (json.dumps(loop).count("{")))
    assert replace(made, data=None).data == {}  # type: ignore[arg-type]  # the tested mistake


def test_message_with_blocks_survives_json() -> None:
    adapter: TypeAdapter[Message] = TypeAdapter(Message)

    assert adapter.validate_json(adapter.dump_json(AFTER[2])) == AFTER[2]
    assert adapter.validate_python({"role": "assistant", "text": "t"}) == AssistantMessage(text="t")


def test_messages_reducer_replaces_a_message_with_its_blocks() -> None:
    old, new = (AssistantMessage(text=text, id="a", thinking=BLOCKS) for text in ("old", "new"))

    assert messages([old], [new]) == [new]


# ------------------------------------------------------------------------------------------------------------ stores


def test_stored_message_is_loaded_with_its_blocks() -> None:
    codec = Codec([Message])

    assert codec.load(codec.dump(list(AFTER))) == list(AFTER)


def test_recorded_reply_has_its_blocks() -> None:
    reply = AgentReply(text="t", thinking="hm", thinking_blocks=BLOCKS, provider_parts=(CITED,))
    data = reply_to(reply)

    assert json.loads(json.dumps(data)) == data
    assert reply_from(data, None, None) == reply
    assert data["thinking_blocks"] == [
        {"text": "hm", "signature": "s"},
        {"redacted": "d"},
        {"provider": "openai", "id": "rs_1", "data": ITEM},
    ]
    assert data["parts"][1] == {"kind": "provider", "provider": "openai", "type": "url_citation", "data": CITED.data}
    assert data["parts"][1]["data"] is not CITED.data


# ------------------------------------------------------------------------------------------------------- keys of calls


def test_blocks_are_part_of_the_request() -> None:
    before, after = ModelRequest(messages=BEFORE), ModelRequest(messages=AFTER)

    assert of_request(after) != of_request(before)
    assert of_call(AFTER, {}) != of_call(BEFORE, {})
    assert key(canonical(after, Redactor())) != key(canonical(before, Redactor()))


def test_key_of_a_recorded_call_without_blocks_is_unchanged() -> None:
    form = canonical(ModelRequest(messages=BEFORE), Redactor())

    assert key(form) == "88ec9ae304e2d8f0cf53adeaecc2d500a2412098e5a16606f7e928de0419c1dc"


def test_random_seals_of_providers_are_ignored() -> None:
    drawn = AssistantMessage(
        text="t",
        tool_calls=(CALL,),
        thinking=(
            ThinkingBlock(text="hm", signature="x"),
            ThinkingBlock(redacted="y"),
            ThinkingBlock(provider="openai", id="rs_2", data={"id": "rs_2"}),
        ),
    )
    forms = [canonical(ModelRequest(messages=said), Redactor()) for said in (AFTER, (*BEFORE[:2], drawn, BEFORE[3]))]

    assert forms[0] == forms[1]


# ------------------------------------------------------------------------------------------------- cassettes, doubles


def test_cassette_keeps_blocks_and_deltas_of_thinking(tmp_path: Path) -> None:
    path = tmp_path / "x"
    reply = AgentReply(text="a b", thinking="so\nso", thinking_blocks=BLOCKS, provider_parts=(CITED,), messages=AFTER)
    asked = ModelRequest(messages=AFTER)
    recorded = asyncio.run(read(Cassette(path, mode="record").model(FunctionModel(lambda _: reply)).stream(asked)))
    replayed = asyncio.run(read(Cassette(path).model(FunctionModel(lambda _: "live")).stream(asked)))

    assert replayed == recorded
    assert replayed[0] == ThinkingDelta(text="so")
    assert json.loads(path.read_text().split("\n", 1)[1])["pieces"][1] == {"thinking": "\nso"}


def test_secret_across_deltas_of_thinking_is_redacted() -> None:
    secret = "sk-abcdefghijkl1234"
    pieces: Any = [ThinkingDelta(text=f"key {secret[:9]}"), ThinkingDelta(text=secret[9:])]

    assert Redactor().pieces(pieces) == [ThinkingDelta(text="key [redacted]")]


def test_older_cassette_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    request = {"messages": [{"role": "user", "text": "u"}], "model": "function"}
    reply = {"text": "t", "thinking": "hm", "messages": [{"role": "assistant", "text": "t"}]}
    entry = json.dumps({"request": request, "pieces": ["t"], "reply": reply}, indent=2)
    path.write_text(f'{{"graphrt_cassette": 1}}\n{entry}\n')

    assert ask(Cassette(path).model(FunctionModel(lambda _: "live")), "u") == ["t"]


def test_double_emits_the_thinking_of_a_scripted_reply_first() -> None:
    mock = MockHarness([AgentReply(text="a b", thinking="let me see", thinking_blocks=BLOCKS)])
    *deltas, reply = asyncio.run(read(mock.stream("hi")))

    assert [type(delta).__name__ for delta in deltas] == ["ThinkingDelta"] * 3 + ["TextDelta"] * 2
    assert isinstance(reply, AgentReply)
    assert reply.thinking_blocks == BLOCKS


# ------------------------------------------------------------------------------------------------- budgets and checks


def test_budget_reserves_the_tokens_of_blocks() -> None:
    ledger = Ledger(Budget(tokens=10_000), of="test")
    profile = ModelProfile(name="m", max_output_tokens=1)
    before, after = (most(ModelRequest(messages=said), profile, ledger).tokens for said in (BEFORE, AFTER))

    assert after >= before + len("hm" + "s" + "d")


class Fixed:
    """A model of a user's own, whose every response is the same."""

    profile = ModelProfile(name="fixed")

    def __init__(self, response: AgentReply) -> None:
        self.response = response

    async def invoke(self, request: ModelRequest) -> AgentReply:
        return self.response

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield self.response


@pytest.mark.parametrize("blocks", [[BLOCKS[0]], ({"text": "hm"},), "hm"])
def test_response_with_invalid_blocks_is_refused(blocks: Any) -> None:
    model = Fixed(AgentReply(text="t", thinking_blocks=blocks))

    with pytest.raises(BadResponseError, match="thinking blocks"):
        asyncio.run(Agent(model, retry=None).run("hi"))


def test_response_with_invalid_provider_parts_is_refused() -> None:
    wrong: Any = [CITED]
    model = Fixed(AgentReply(text="t", provider_parts=wrong))

    with pytest.raises(BadResponseError, match="provider parts"):
        asyncio.run(Agent(model, retry=None).run("hi"))
