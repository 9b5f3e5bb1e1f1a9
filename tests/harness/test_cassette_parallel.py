"""A cassette with concurrent callers keeps the order of requests, and any request replays to an equal reply."""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, MockHarness, Runtime
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    FunctionModel,
    ProviderPart,
    SystemMessage,
    ThinkingBlock,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.cassette import Cassette
from graphrt.harness.request import ModelRequest, OutputSpec
from graphrt.reducers import append


def req(text: str) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(text=text),))


def test_equal_requests_of_parallel_tasks_are_replayed_in_order(tmp_path: Path) -> None:
    """Regardless of the order of the replies: the third caller gets the reply that the third caller got."""
    path = tmp_path / "x"
    numbers = iter(range(20))

    async def slow(request: ModelRequest) -> str:
        number = next(numbers)
        for _ in range(20 - number):
            await asyncio.sleep(0)
        return str(number)

    async def go(mode: Any) -> list[str]:
        model = Cassette(path, mode=mode).model(FunctionModel(slow))
        return [reply.text for reply in await asyncio.gather(*(model.invoke(req("same")) for _ in range(20)))]

    assert asyncio.run(go("record")) == asyncio.run(go("replay")) == [str(number) for number in range(20)]


def test_cancelled_call_leaves_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "x"

    async def answer(request: ModelRequest) -> str:
        if len(model.calls) == 2:
            await asyncio.sleep(3600)
        return str(len(model.calls))

    model: FunctionModel = FunctionModel(answer)

    async def go() -> None:
        recorded = Cassette(path, mode="record").model(model)
        await recorded.invoke(req("a"))
        hanging = asyncio.create_task(recorded.invoke(req("a")))
        await asyncio.sleep(0)
        await recorded.invoke(req("a"))
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        await recorded.invoke(req("a"))

    asyncio.run(go())
    replayed = Cassette(path).model(model)

    assert [asyncio.run(replayed.invoke(req("a"))).text for _ in range(3)] == ["1", "3", "4"]


def test_worker_threads_with_their_own_loops_share_one_cassette(tmp_path: Path) -> None:
    path = tmp_path / "x"
    live = FunctionModel(lambda request: f"to {request.text}")

    def use(cassette: Cassette) -> list[str]:
        model = cassette.model(live)
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda n: asyncio.run(model.invoke(req(f"{n % 25}"))).text, range(50)))

    with Cassette(path, mode="record") as cassette:
        recorded = use(cassette)
    with Cassette(path) as cassette:
        assert use(cassette) == recorded

    assert len(live.calls) == 50


# --------------------------------------------------------------------------------------------------------- journal


class State(BaseModel):
    topic: str
    notes: Annotated[list[str], append] = []


def two_questions() -> Any:
    g = GraphBuilder(State, name="tea")
    for kind in ("green", "black"):

        async def ask(state: State, ctx: Context, kind: str = kind) -> dict[str, Any]:
            return {"notes": [(await ctx.harness.run(f"{kind} {state.topic}")).text]}

        g.add_node(kind, ask)
        g.add_edge(START, kind)
        g.add_edge(kind, END)
    return g.compile()


def test_run_replayed_from_a_cassette_writes_the_same_journal(tmp_path: Path) -> None:
    """Recording and replay differ in the source of the answers, and in no entry."""

    def run(harness: Any) -> list[Any]:
        options: dict[str, Any] = {"clock": lambda: 1.0, "ids": lambda: "r", "seed": 1}
        with Runtime(two_questions(), store="memory:", harness=harness, **options) as runtime:
            assert runtime.run({"topic": "tea"}, thread="t").state.notes == ["a leaf", "another leaf"]
            return [entry.to_dict() for entry in runtime.entries("t")]

    with Cassette(tmp_path / "x", mode="record") as cassette:
        live = run(cassette.harness(MockHarness({"green": "a leaf", "black": "another leaf"})))
    with Cassette(tmp_path / "x") as cassette:
        assert run(cassette.harness()) == live


# -------------------------------------------------------------------------------------------------------- property


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
TEXTS = st.text(max_size=20)
CALLS = st.builds(ToolCall, id=TEXTS, name=st.sampled_from("tu"), arguments=OBJECTS) | st.builds(
    ToolCall, id=TEXTS, name=st.sampled_from("tu"), arguments_text=TEXTS
)
BLOCKS = st.lists(
    st.builds(
        ThinkingBlock,
        text=TEXTS,
        signature=TEXTS,
        redacted=TEXTS,
        provider=st.sampled_from(["anthropic", "openai"]),
        id=TEXTS,
        data=OBJECTS,
    ),
    max_size=2,
).map(tuple)
PARTS = st.lists(st.builds(ProviderPart, provider=TEXTS, type=TEXTS, data=OBJECTS), max_size=2).map(tuple)
MESSAGES = st.one_of(
    st.builds(SystemMessage, text=TEXTS),
    st.builds(UserMessage, text=TEXTS, id=st.none() | TEXTS),
    st.builds(
        AssistantMessage,
        text=TEXTS,
        tool_calls=st.lists(CALLS, max_size=3).map(tuple),
        thinking=BLOCKS,
        provider_parts=PARTS,
    ),
    st.builds(ToolMessage, tool_call_id=TEXTS, text=TEXTS, error=st.booleans()),
)
REQUESTS = st.builds(
    ModelRequest,
    messages=st.lists(MESSAGES, min_size=1, max_size=4).map(tuple),
    tools=st.just((ToolSpec(name="t"), ToolSpec(name="u", description="x\ny", parameters={"b": 1, "a": [2]}))),
    model=st.none() | TEXTS,
    max_tokens=st.none() | st.integers(1, 99),
    temperature=st.none() | st.floats(0, 2),
    options=OBJECTS,
    tool_choice=st.sampled_from(["auto", "none", "t"]),
    output=st.none() | st.builds(OutputSpec, name=TEXTS, schema=OBJECTS),
    stop=st.lists(TEXTS, max_size=2).map(tuple),
    seed=st.none() | st.integers(),
    reasoning=st.sampled_from([None, "low"]),
    timeout_s=st.none() | st.floats(1, 2),
)
REPLIES = st.builds(
    AgentReply,
    text=TEXTS,
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 9), cost_usd=st.none() | st.floats(0, 1)),
    finish_reason=st.sampled_from(["stop", "length", "content_filter", "unknown"]),
    model=st.none() | st.text(min_size=1, max_size=5),
    thinking=TEXTS,
    thinking_blocks=BLOCKS,
    provider_parts=PARTS,
    output=JSON,
    messages=st.lists(MESSAGES, max_size=2).map(tuple),
    stopped=st.none() | TEXTS,
)


@given(st.lists(st.tuples(REQUESTS, REPLIES, st.booleans()), min_size=1, max_size=4))
def test_recorded_reply_is_replayed_equal(asked: list[tuple[ModelRequest, AgentReply, bool]]) -> None:
    """Whole or streamed, with any request and reply; and recording again changes nothing."""

    async def go(path: Path, mode: Any, which: list[int]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        answers = {n: reply for n, (_, reply, _) in enumerate(asked)}
        with Cassette(path, mode=mode) as cassette:
            for n in which:
                model = cassette.model(FunctionModel(lambda _, n=n: answers[n], usage=None))
                request, _, streamed = asked[n]
                found[n] = [item async for item in model.stream(request)] if streamed else await model.invoke(request)
        return found

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        order = list(range(len(asked)))
        recorded = asyncio.run(go(path, "record", order))
        before = path.read_bytes()
        assert asyncio.run(go(path, "replay", order)) == recorded
        assert asyncio.run(go(path, "record", order)) == recorded
        assert path.read_bytes() == before


@given(st.lists(CALLS, min_size=1, max_size=3), st.text(max_size=5))
def test_random_ids_of_providers_are_ignored(calls: list[ToolCall], drawn: str) -> None:
    def conversation(name: str) -> ModelRequest:
        made = tuple(replace(call, id=f"{name}{n}") for n, call in enumerate(calls))
        answers = tuple(ToolMessage(tool_call_id=call.id, text=str(n)) for n, call in enumerate(made))
        return ModelRequest(messages=(AssistantMessage(tool_calls=made), *answers))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        live = FunctionModel(lambda _: "done")
        asyncio.run(Cassette(path, mode="record").model(live).invoke(conversation("call_")))

        other = conversation(f"toolu_{drawn}")
        assert asyncio.run(Cassette(path).model(live).invoke(other)).text == "done"
        swapped = ModelRequest(messages=(other.messages[0], *reversed(other.messages[1:])))
        if len(calls) > 1:
            with pytest.raises(Exception, match="no answer"):
                asyncio.run(Cassette(path).model(live).invoke(swapped))
