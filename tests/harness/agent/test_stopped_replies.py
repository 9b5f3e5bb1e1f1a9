"""Partial replies of a cancelled run: recorded with its task, and a partial message for the next input."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import START, Context, GraphBuilder, Runtime
from graphrt.audit import export, verify
from graphrt.events import ReplyStopped, SuperstepAbandoned
from graphrt.harness import Agent, AgentReply, AssistantMessage, Message, ModelProfile, TextDelta, UserMessage
from graphrt.reducers import append, messages


class State(BaseModel):
    chat: Annotated[list[Message], messages] = []


class Speaker:
    """A model, or a plain harness, that emits some words and then waits forever while it is configured to."""

    profile = ModelProfile(name="speaker")

    def __init__(self) -> None:
        self.waits = True
        self.prompts: list[Any] = []

    async def invoke(self, request: Any) -> AgentReply:
        self.prompts.append(request.messages)
        return AgentReply(text="Well.")

    async def stream(self, request: Any, **options: Any) -> AsyncIterator[Any]:
        self.prompts.append(getattr(request, "messages", request))
        if self.waits:
            yield TextDelta(text="Once upon ")
            yield TextDelta(text="a time")
            await asyncio.Event().wait()
        yield TextDelta(text="Well.")
        yield AgentReply(text="Well.")

    async def run(self, prompt: Any, **options: Any) -> AgentReply:
        return AgentReply(text="Well.")


def chat(harness: Any, state: type[Any] = State, **options: Any) -> Runtime[Any]:
    g: GraphBuilder[Any, Any] = GraphBuilder(state, name="chat")

    @g.node
    async def answer(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        reply = await ctx.harness.run(list(state.chat))
        return {"chat": [AssistantMessage(text=reply.text)]}

    g.add_edge(START, answer)
    return Runtime(g.compile(), harness=harness, **{"store": "memory:", **options})


async def stopped(runtime: Runtime[Any], first: Any = None, **go_on: Any) -> None:
    """Read the deltas of a reply until it waits, and cancel the run like a Stop button does."""
    given = () if go_on else ({"chat": [UserMessage(text="Tell me a story.")]},)
    stream = runtime.astream(*given, thread="t", modes=("messages",))
    said = ""
    async for item in stream:
        said += getattr(item.item, "text", "")
        if said.endswith("a time"):
            runtime.cancel("t")
    assert runtime.state("t").status == "cancelled"


def said(runtime: Runtime[Any]) -> list[tuple[str, str, bool]]:
    return [(one.role, one.text, getattr(one, "partial", False)) for one in runtime.state("t").values.chat]


@pytest.mark.parametrize("plain", [False, True], ids=["agent", "plain harness"])
@pytest.mark.parametrize("store", ["memory:", "sqlite"])
def test_next_input_of_a_stopped_chat_comes_after_the_partial_reply(plain: bool, store: str, tmp_path: Any) -> None:
    speaker = Speaker()
    url = store if store == "memory:" else f"sqlite:///{tmp_path}/runs.db"
    with chat(speaker if plain else Agent(speaker), store=url) as runtime:
        asyncio.run(stopped(runtime))
        speaker.waits = False
        runtime.run({"chat": [UserMessage(text="Shorter, please.")]}, thread="t")

        assert said(runtime) == [
            ("user", "Tell me a story.", False),
            ("assistant", "Once upon a time", True),
            ("user", "Shorter, please.", False),
            ("assistant", "Well.", False),
        ]
        events = [entry.event for entry in runtime.entries("t")]
        (cut,) = [event for event in events if isinstance(event, ReplyStopped)]
        assert (cut.task, cut.text, cut.model) == ("1.0:answer", "Once upon a time", "speaker")
        (given_up,) = [event for event in events if isinstance(event, SuperstepAbandoned)]
        assert given_up.said == {"chat": [AssistantMessage(text="Once upon a time", partial=True)]}
        runtime.replay("t")
        assert [write.kind for write in runtime.why("t", "chat").writes][1:2] == ["stopped"]
        assert runtime.reexecute("t").same
        if store != "memory:":  # the chain of the journal covers the folded values
            export(url, "t", tmp_path / "t.jsonl")
            assert verify(tmp_path / "t.jsonl").verdict == "unanchored"


def test_retry_calls_again_and_the_state_has_only_the_whole_reply() -> None:
    speaker = Speaker()
    runtime = chat(Agent(speaker))
    asyncio.run(stopped(runtime))
    assert said(runtime) == [("user", "Tell me a story.", False)]
    speaker.waits = False
    runtime.retry("t")

    assert said(runtime) == [("user", "Tell me a story.", False), ("assistant", "Well.", False)]
    assert speaker.prompts[0] == speaker.prompts[1]


def test_last_partial_text_of_a_reply_that_is_stopped_twice_is_kept() -> None:
    speaker = Speaker()
    runtime = chat(Agent(speaker))
    asyncio.run(stopped(runtime))
    asyncio.run(stopped(runtime, retry=True))
    speaker.waits = False
    runtime.run({"chat": []}, thread="t")

    assert [text for _, text, partial in said(runtime) if partial] == ["Once upon a time"]


class Log(BaseModel):
    chat: Annotated[list[Message], append] = []
    notes: Annotated[list[Any], append] = []


def test_list_of_messages_that_is_appended_to_is_also_a_conversation() -> None:
    speaker = Speaker()
    runtime = chat(Agent(speaker), Log)
    asyncio.run(stopped(runtime))
    assert runtime.state("t").stopped == ("Once upon a time",)
    speaker.waits = False
    runtime.run({}, thread="t")

    assert [text for _, text, partial in said(runtime) if partial] == ["Once upon a time"]
    assert runtime.state("t").stopped == ()


class Other(BaseModel):
    chat: Annotated[list[Any], append] = []


class Two(BaseModel):
    chat: Annotated[list[Message], messages] = []
    notes: Annotated[list[Message], messages] = []


@pytest.mark.parametrize("state", [Other, Two])
def test_text_is_only_in_the_journal_without_a_single_field_of_messages(state: type[Any]) -> None:
    speaker = Speaker()
    runtime = chat(Agent(speaker), state)
    asyncio.run(stopped(runtime))
    speaker.waits = False
    runtime.run({}, thread="t")

    assert not [one for one in runtime.state("t").values.chat if getattr(one, "partial", False)]
    assert [entry.event.text for entry in runtime.entries("t") if isinstance(entry.event, ReplyStopped)] == [
        "Once upon a time"
    ]
