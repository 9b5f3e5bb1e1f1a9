"""The loop of an agent outside a graph: turns, limits, the kept conversation, and the end of a run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt.errors import AgentLimitError, BadRequestError, BadResponseError, InputError, ToolError
from graphrt.events import Usage
from graphrt.harness import Agent, AgentLimits, ToolCall, ToolMessage, UserMessage, tool

from .fakes import AT_ONCE, USED, Model, call, counting, heard, kinds, run, says, told, watch


def test_agent_calls_the_model_until_there_are_no_tool_calls():
    counts: list[int] = []
    model = Model(says("first", call("note", x=1)), says(call("note", x=2)), "done")

    reply = run(Agent(model, tools=[counting(counts)], system="be brief"))

    assert reply.text == "done"
    assert counts == [1, 2]
    assert told(reply) == [
        "system: be brief",
        "user: go",
        "assistant: first",
        "tool: noted 1",
        "assistant: ",
        "tool: noted 2",
        "assistant: done",
    ]
    assert reply.usage == Usage(input_tokens=9, output_tokens=6, calls=3)
    assert heard(model.asked[2]) == told(reply)[:-1]


def test_results_of_parallel_calls_come_in_call_order():
    async def main() -> Any:
        gates = {x: asyncio.Event() for x in range(3)}
        ended: list[int] = []

        @tool
        async def slow(x: int) -> str:
            await gates[x].wait()
            ended.append(x)
            if x:
                gates[x - 1].set()
            return f"slow {x}"

        gates[2].set()
        model = Model(says(*(call("slow", f"c{x}", x=x) for x in range(3))), "done")
        reply = await Agent(model, tools=[slow]).run("go")
        return ended, [said for said in reply.messages if isinstance(said, ToolMessage)]

    ended, messages = asyncio.run(main())

    assert ended == [2, 1, 0]
    assert [(said.tool_call_id, said.text) for said in messages] == [
        ("c0", "slow 0"),
        ("c1", "slow 1"),
        ("c2", "slow 2"),
    ]


@pytest.mark.parametrize("id_", ["", "call_0", "x" * 64])
def test_repeated_ids_of_tool_calls_stay_short_in_a_long_conversation(id_):
    """Some providers send no ids, or the same ones in each answer."""
    said: list[Any] = [UserMessage(text="go")]
    for _ in range(50):
        said += run(
            Agent(Model(ToolCall(id=id_, name="look", arguments={"x": 1}), "done"), tools=[counting([], "look")]), said
        ).new_messages
        said.append(UserMessage(text="again"))
    ids = [call.id for message in said if message.role == "assistant" for call in message.tool_calls]

    assert len(set(ids)) == 50
    assert max(map(len, ids[1:])) < 40


@pytest.mark.parametrize("ids", [("", ""), ("a", "a"), ("a", "a-1-2"), ("a-1-2", "a"), ("", "call-1-1")])
def test_every_tool_call_of_a_conversation_has_a_unique_id(ids):
    counts: list[int] = []
    turn = [call("note", id_, x=number) for number, id_ in enumerate(ids)]
    model = Model(says(*turn), says(*turn), says(*turn), "done")

    reply = run(Agent(model, tools=[counting(counts)]))

    asked = [one.id for said in reply.messages for one in getattr(said, "tool_calls", ())]
    answered = [said.tool_call_id for said in reply.messages if isinstance(said, ToolMessage)]
    assert asked == answered
    assert len(set(asked)) == 6
    assert all(asked)
    assert len(counts) == 6


def test_ids_of_an_earlier_conversation_are_not_reused():
    counts: list[int] = []
    agent = Agent(Model(call("note", "same", x=1), "one", call("note", "same", x=2), "two"), tools=[counting(counts)])
    first = run(agent)

    second = run(agent, [*first.messages, *run_prompt("again")])

    asked = [one.id for said in second.messages for one in getattr(said, "tool_calls", ())]
    assert len(asked) == len(set(asked)) == 2


def run_prompt(text: str) -> list[Any]:
    from graphrt.harness import UserMessage

    return [UserMessage(text=text)]


# -- limits ----------------------------------------------------------------------------------------------------------


def endless(_request: Any) -> Any:
    return says("more", call("note", "x", x=1))


def test_model_calls_are_limited():
    model = Model(fn=endless)
    transcript: list[Any] = []

    with pytest.raises(AgentLimitError, match="model_calls=3") as caught:
        run(Agent(model, tools=[counting([])], limits=AgentLimits(model_calls=3)), transcript=transcript)

    assert len(model.asked) == 3
    assert caught.value.messages == tuple(transcript)
    assert len(transcript) == 7


def test_agent_that_stops_at_a_limit_returns_its_partial_result():
    limits = AgentLimits(model_calls=2, on_limit="stop")

    reply = run(Agent(Model(fn=endless), tools=[counting([])], limits=limits))

    assert (reply.text, reply.stopped, reply.finish_reason) == ("more", "model_calls", "unknown")
    assert reply.usage == Usage(input_tokens=6, output_tokens=4, calls=2)


def test_tool_calls_beyond_the_limit_are_not_made():
    counts: list[int] = []
    turn = says(*(call("note", f"c{x}", x=x) for x in range(2)))
    agent = Agent(Model(turn, turn), tools=[counting(counts)], limits=AgentLimits(tool_calls=3))

    with pytest.raises(AgentLimitError, match="tool_calls=3"):
        run(agent)

    assert sorted(counts) == [0, 1]


def test_stopped_conversation_has_a_result_for_every_call():
    """Providers refuse a conversation in which a tool call has no result."""
    turn = says("so far", *(call("note", f"c{x}", x=x) for x in range(2)))
    limits = AgentLimits(tool_calls=1, on_limit="stop")

    reply = run(Agent(Model(turn), tools=[counting([])], limits=limits))

    assert reply.stopped == "tool_calls"
    assert reply.text == "so far"
    assert [said.tool_call_id for said in reply.messages if isinstance(said, ToolMessage)] == ["c0", "c1"]


@pytest.mark.parametrize("on_limit", ["raise", "stop"])
def test_timeout_interrupts_a_waiting_model(on_limit):
    model = Model(fn=lambda _: asyncio.Event().wait())
    transcript: list[Any] = []
    agent = Agent(model, limits=AgentLimits(seconds=0.01, on_limit=on_limit))

    if on_limit == "raise":
        with pytest.raises(AgentLimitError, match=r"seconds=0\.01"):
            run(agent, transcript=transcript)
    else:
        assert run(agent, transcript=transcript).stopped == "seconds"

    assert model.cancelled == 1
    assert [said.text for said in transcript] == ["go"]


def test_timeout_interrupts_tools():
    cancelled: list[str] = []

    @tool
    async def hang(x: int) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(f"hang {x}")
            raise
        return ""

    turn = says(*(call("hang", f"c{x}", x=x) for x in range(2)))
    reply = run(Agent(Model(turn), tools=[hang], limits=AgentLimits(seconds=0.01, on_limit="stop")))

    assert sorted(cancelled) == ["hang 0", "hang 1"]
    assert reply.stopped == "seconds"
    assert [said.error for said in reply.messages if isinstance(said, ToolMessage)] == [True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        {"model_calls": 0},
        {"model_calls": None},
        {"tool_calls": -1},
        {"tool_calls": True},
        {"depth": "8"},
        {"seconds": float("nan")},
        {"seconds": -1},
        {"on_limit": "ignore"},
    ],
)
def test_invalid_limits_are_refused_when_they_are_built(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        AgentLimits(**wrong)


def test_timeout_of_a_model_is_not_a_limit():
    with pytest.raises(TimeoutError):
        run(Agent(Model(TimeoutError("mine")), limits=AgentLimits(seconds=60), retry=AT_ONCE))


# -- the kept conversation -------------------------------------------------------------------------------------------


def test_conversation_is_kept_when_a_model_fails():
    transcript: list[Any] = []
    model = Model(call("note", x=1), BadRequestError("no"))

    with pytest.raises(BadRequestError) as caught:
        run(Agent(model, tools=[counting([])]), transcript=transcript)

    assert [said.text for said in transcript] == ["go", "", "noted 1"]
    assert caught.value.messages == tuple(transcript)


def test_conversation_is_kept_when_a_tool_fails_the_run():
    @tool(on_error="raise")
    def broken() -> str:
        raise KeyError("gone")

    transcript: list[Any] = []
    with pytest.raises(ToolError, match="KeyError: 'gone'") as caught:
        run(Agent(Model(call("broken")), tools=[broken]), transcript=transcript)

    assert isinstance(caught.value.__cause__, KeyError)
    assert len(transcript) == len(caught.value.messages) == 2


def test_conversation_is_kept_when_the_run_is_cancelled():
    async def main() -> Any:
        transcript: list[Any] = []
        waiting = asyncio.Event()

        async def never() -> Any:
            waiting.set()
            await asyncio.Event().wait()

        model = Model(fn=lambda request: call("note", x=1) if len(request.messages) == 1 else never())
        running = asyncio.ensure_future(Agent(model, tools=[counting([])]).run("go", transcript=transcript))
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return model, transcript

    model, transcript = asyncio.run(main())

    assert model.cancelled == 1
    assert model.open == 0
    assert [said.text for said in transcript] == ["go", "", "noted 1"]


def test_content_of_a_transcript_is_not_part_of_the_conversation():
    model = Model("one", "two")
    agent = Agent(model)
    transcript: list[Any] = []

    run(agent, "first", transcript=transcript)
    reply = run(agent, "second", transcript=transcript)

    assert heard(model.asked[1]) == ["user: second"]
    assert told(reply) == ["user: second", "assistant: two"]
    assert [said.text for said in transcript] == ["first", "one", "second", "two"]


def test_conversation_with_its_own_instructions_keeps_them():
    model = Model("one", "two")
    agent = Agent(model, system="mine")
    first = run(agent)

    run(agent, [*first.messages, *run_prompt("again")])

    assert [said.role for said in model.asked[1].messages] == ["system", "user", "assistant", "user"]


def test_one_agent_runs_concurrently():
    async def main() -> list[str]:
        agent = Agent(Model(fn=lambda request: f"to {request.text}"), tools=[counting([])])
        replies = await asyncio.gather(*(agent.run(f"p{n}") for n in range(50)))
        return [reply.text for reply in replies]

    assert asyncio.run(main()) == [f"to p{n}" for n in range(50)]


def test_call_without_usage_is_counted_and_not_estimated():
    assert run(Agent(Model(says("hello", usage=None)))).usage == Usage(calls=1, unreported_calls=1)
    assert run(Agent(Model(says("hello", usage=Usage(input_tokens=1))))).usage == Usage(input_tokens=1, calls=1)
    assert USED.calls == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a/b"},
        {"unknown_tool": "ignore"},
        {"invalid_arguments": None},
        {"max_tokens": 0},
        {"output": object()},
        {"tools": [print, print]},
    ],
)
def test_invalid_agent_is_refused_when_it_is_built(wrong):
    with pytest.raises(InputError):
        Agent(Model(), **wrong)


def test_value_that_is_not_a_model_is_refused():
    class Half:
        def invoke(self) -> None: ...

    half: Any = Half()
    with pytest.raises(InputError, match="no stream, profile"):
        Agent(half)


# -- truncated answers -----------------------------------------------------------------------------------------------


def test_truncated_answer_is_returned_with_a_warning(caplog):
    reply = run(Agent(Model(says("Dear Madam, we", finish_reason="length")), name="writer", max_tokens=3))

    assert (reply.text, reply.finish_reason) == ("Dear Madam, we", "length")
    assert [record.name for record in caplog.records] == ["graphrt.harness"]
    assert "'writer' was cut off at max_tokens=3" in caplog.text


def test_truncated_answer_of_another_form_is_requested_more_briefly():
    cut = says('{"value": 12', finish_reason="length")
    model = Model(cut, cut)

    with pytest.raises(BadResponseError) as caught:
        run(Agent(model, output=int))

    assert "It was cut off: answer more briefly." in model.asked[1].messages[-1].text
    assert "the answer was cut off at max_tokens" in caught.value.known


def test_filtered_answer_is_returned_with_a_warning(caplog):
    reply = run(Agent(Model(says("Dear Madam, we", finish_reason="content_filter")), name="writer"))

    assert (reply.text, reply.finish_reason) == ("Dear Madam, we", "content_filter")
    assert [record.getMessage() for record in caplog.records] == [
        "The answer of agent 'writer' was broken off by the provider's filter."
    ]


@pytest.mark.parametrize("output", [None, int])
def test_truncated_answer_is_an_error_if_the_limits_say_so(output: Any):
    model = Model(call("note", x=1), says('{"value": 12', finish_reason="length"))
    agent = Agent(model, tools=[counting([])], limits=AgentLimits(on_length="raise"), output=output)

    with pytest.raises(AgentLimitError) as caught:
        run(agent)

    assert caught.value.code == "answer-cut-off"
    assert caught.value.messages[-1].text == '{"value": 12'
    assert len(model.asked) == 2


CUT = says(call("note", "1", x=1), ToolCall(id="2", name="note", arguments_text="{}"), finish_reason="length")
"""A truncated reply within its second call, which the provider closed."""


@pytest.mark.parametrize("seen", [run, watch])
def test_tool_calls_of_a_truncated_reply_are_not_made(seen: Any, caplog):
    counts: list[int] = []

    @tool
    def note(x: int = 0) -> str:
        counts.append(x)
        return "noted"

    model = Model(CUT, call("note", x=3), "done")
    agent = Agent(model, tools=[note], max_tokens=9, limits=AgentLimits(tool_calls=1))
    items = seen(agent) if seen is watch else [seen(agent)]
    results = [said for said in items[-1].messages if isinstance(said, ToolMessage)]

    assert counts == [3]
    assert [(said.tool_call_id, said.error) for said in results] == [("1", True), ("2", True), ("id-note", False)]
    assert results[0].text.startswith("This call was not made: the reply was cut off at max_tokens=9.")
    assert [record.getMessage().count("which were not made") for record in caplog.records] == [1]
    assert kinds(items).count("ToolStarted") == kinds(items).count("ToolEnded") == (3 if seen is watch else 0)


def test_tool_calls_of_a_filtered_reply_are_not_made(caplog):
    counts: list[int] = []
    model = Model(says(call("note", x=1), finish_reason="content_filter"), "done")
    reply = run(Agent(model, tools=[counting(counts)], limits=AgentLimits(on_length="raise")))

    assert (reply.text, counts) == ("done", [])
    assert reply.messages[2].text == "This call was not made: the provider's filter broke the reply off."
    assert "broken off by the provider's filter" in caplog.text


def test_model_that_is_always_truncated_ends_at_the_limit_of_model_calls():
    model = Model(fn=lambda _: CUT)

    with pytest.raises(AgentLimitError) as caught:
        run(Agent(model, tools=[counting([])], limits=AgentLimits(model_calls=3)))

    assert (caught.value.code, len(model.asked)) == ("agent-limit", 3)


def test_truncated_tool_calls_are_an_error_if_the_limits_say_so():
    counts: list[int] = []
    model = Model(CUT)

    with pytest.raises(AgentLimitError) as caught:
        run(Agent(model, tools=[counting(counts)], limits=AgentLimits(on_length="raise")))

    assert caught.value.code == "answer-cut-off"
    assert caught.value.messages[-1] == CUT.message
    assert counts == []


def test_on_length_is_validated():
    with pytest.raises(InputError, match="on_length must be 'raise' or 'return', not 'stop'"):
        AgentLimits(on_length="stop")  # type: ignore[arg-type]
