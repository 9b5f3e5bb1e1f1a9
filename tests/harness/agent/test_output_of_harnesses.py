"""`output=` means the same to every harness that a node calls, regardless of its support for types."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from graphrt.errors import BadResponseError, InputError, NodeError
from graphrt.harness import (
    Agent,
    AgentReply,
    Budget,
    Cassette,
    FunctionModel,
    MockHarness,
    OutputSpec,
    ScriptedModel,
    ToolCall,
    ToolSpec,
)

from .graphs import every_way


@dataclass
class Book:
    title: str
    pages: int


TEXT = '{"title": "A", "pages": 3}'
BOOK = Book("A", 3)
SPEC = OutputSpec(name="Any", schema={"type": "object"})


class Plain:
    """One method, like a user writes it; it records its options."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.given: list[dict[str, Any]] = []

    async def run(self, prompt: Any, **options: Any) -> Any:
        self.given.append(options)
        answer = self.answers.pop(0)
        return AgentReply(text=answer) if isinstance(answer, str) else answer


def asked(way: Any, harness: Any, prompt: Any = "go", *, bind: bool = False, **options: Any) -> AgentReply:
    """The reply of *harness* to a node."""
    got: list[AgentReply] = []

    async def body(state: Any, ctx: Any) -> Any:
        bound = ctx.bind(harness) if bind else ctx.harness
        got.append(await bound.run(prompt, **options))

    way(way.runtime(way.graph(body), harness=None if bind else harness), "run", {})
    return got[0]


HARNESSES = {
    "agent": lambda text: Agent(ScriptedModel([text])),
    "agent of a function": lambda text: Agent(FunctionModel(lambda request: text)),
    "mock": lambda text: MockHarness([text]),
    "yours": Plain,
}
every_harness = pytest.mark.parametrize("make", HARNESSES.values(), ids=HARNESSES)


@every_way
@every_harness
def test_type_gives_a_value_with_any_harness(way, make):
    assert asked(way, make(TEXT), output=Book).output == BOOK


@every_harness
@pytest.mark.parametrize("bind", [False, True])
@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [(list[int], '{"value": [1]}', [1]), (SPEC, TEXT, {"title": "A", "pages": 3}), (None, TEXT, None)],
)
def test_each_form_of_output_means_the_same_to_every_harness(way, make, bind, wanted, text, value):
    reply = asked(way, make(text), bind=bind, output=wanted)

    assert (reply.output, reply.text) == (value, text)


@every_harness
@pytest.mark.parametrize(("wanted", "problem"), [(Book, "pages: Field required"), (SPEC, "it is not JSON")])
def test_answer_of_another_form_fails_alike_with_any_harness(way, make, wanted, problem):
    text = '{"title": "A"}' if wanted is Book else "a book"
    harness = Agent(ScriptedModel([text, text])) if make is HARNESSES["agent"] else make(text)

    with pytest.raises(NodeError) as caught:
        asked(way, harness, output=wanted)

    error = caught.value.__cause__
    assert isinstance(error, BadResponseError)
    assert error.code == "bad-output"
    assert f"does not have the form that was asked for: {problem}" in error.what
    assert error.messages[-1].text == text
    assert error.messages[0].text == "go"
    assert repr(text) in error.known


def test_harness_gets_the_schema_of_a_type(way):
    mock, yours = MockHarness([TEXT, TEXT]), Plain(TEXT)
    asked(way, mock, output=Book)
    asked(way, yours, output=Book)
    asyncio.run(mock.run("without a graph", output=Book))

    given = [*(request.output for request in mock.calls), yours.given[0]["output"]]
    assert [type(spec) for spec in given] == [OutputSpec] * 3
    assert given[0] == given[1] == given[2]
    assert (given[0].name, set(given[0].schema["properties"])) == ("Book", {"title", "pages"})


def test_configured_value_of_a_double_is_passed_through(way):
    class Sub(Book):
        pass

    for output in (BOOK, Sub("B", 1), {"title": "other", "pages": "many"}, "a book", object()):
        assert asked(way, MockHarness([AgentReply(output=output)]), output=Book).output is output


def test_unparsed_json_is_parsed(way):
    """A harness that calls an agent itself passes the schema on, and gets JSON back."""

    class Asks:
        async def run(self, prompt: Any, **options: Any) -> AgentReply:
            return await Agent(ScriptedModel([TEXT])).run(prompt, **options)

    assert asked(way, Asks(), output=Book).output == BOOK


def test_recorded_agent_returns_the_same_as_the_agent(way, tmp_path):
    for mode, harness in (("record", Agent(ScriptedModel([TEXT]))), ("replay", None)):
        recorded = Cassette(tmp_path / "agent.jsonl", mode=mode).harness(harness)

        assert asked(way, recorded, output=Book).output == BOOK


def test_reply_with_tool_calls_is_not_yet_an_answer(way):
    call = ToolCall(id="1", name="look")
    harness = MockHarness([AgentReply(text="let me see", tool_calls=(call,))])

    assert asked(way, harness, output=Book, tools=[ToolSpec(name="look")]).output is None


def test_answer_that_a_limit_ended_is_not_parsed(way):
    assert asked(way, MockHarness([AgentReply(text="a bo", stopped="seconds")]), output=Book).output is None


def test_a_stream_ends_with_the_value(way):
    got: list[Any] = []

    async def body(state: Any, ctx: Any) -> Any:
        got.extend([item async for item in ctx.harness.stream("go", output=Book)])

    way(way.runtime(way.graph(body), harness=MockHarness([TEXT])), "run", {})

    assert got[-1].output == BOOK
    assert "".join(item.text for item in got[:-1]) == TEXT


@every_way
def test_recorded_answer_is_parsed_again_and_never_requested_twice(way):
    harness = MockHarness({"first": [TEXT], "second": ['{"value": [1, 2]}'], "third": [TEXT]})
    outputs: list[Any] = []

    async def body(state: Any, ctx: Any) -> Any:
        first = await ctx.harness.run("first", output=Book)
        second = await ctx.bind(harness).run("second", output=list[int])
        third = await ctx.harness.run("third", output=SPEC)
        outputs.append((first.output, second.output, third.output))
        return {"said": [ctx.interrupt("well?")]}

    runtime = way.runtime(way.graph(body), harness=harness)
    paused = way(runtime, "run", {}, thread="t")
    result = way(runtime, "resume", "t", "yes")

    assert paused.status == "interrupted"
    assert result.state.said == ["yes"]
    assert outputs == [(BOOK, [1, 2], {"title": "A", "pages": 3})] * 2
    assert len(harness.calls) == 3
    harness.assert_done()


def test_answer_of_another_form_is_requested_again_by_the_next_attempt(way):
    harness = MockHarness(["a book", TEXT])
    got: list[Any] = []

    async def body(state: Any, ctx: Any) -> Any:
        got.append((await ctx.harness.run("go", output=Book)).output)

    runtime = way.runtime(way.graph(body), harness=harness)
    with pytest.raises(NodeError):
        way(runtime, "run", {}, thread="t")
    result = way(runtime, "retry", "t")

    assert got == [BOOK]
    assert result.usage.calls == len(harness.calls) == 2


def test_answer_within_a_budget_is_also_parsed(way):
    harness = MockHarness([TEXT])
    got: list[Any] = []

    async def body(state: Any, ctx: Any) -> Any:
        got.append((await ctx.harness.run("go", output=Book, max_tokens=50)).output)

    way(way.runtime(way.graph(body), harness=harness, budget=Budget(tokens=9000)), "run", {})

    assert got == [BOOK]


def test_invalid_type_fails_the_node_before_a_model_is_called(way):
    harness = MockHarness([TEXT])

    with pytest.raises(NodeError) as caught:
        asked(way, harness, output=BOOK)

    assert isinstance(caught.value.__cause__, InputError)
    assert caught.value.__cause__.code == "bad-output-type"
    assert harness.calls == []
