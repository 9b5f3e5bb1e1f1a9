"""Signals to a running agent between two model calls: messages, pauses and cancellations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt.errors import InputError
from graphrt.harness import Agent, UserMessage, tool

from .fakes import Model, call, counting, heard, run, says
from .graphs import ask, every_way


def sending(way: Any, counts: list[int], *sent: Any, at: int = 1, **options: Any) -> tuple[Any, Model]:
    """A runtime of one agent, and its model: signals are sent to it while the model answers for the *at*-th time."""
    answers = [says(call("note", x=1)), says(call("note", x=2)), says("done"), says("more")]

    waiting = list(sent)

    def answer(request: Any) -> Any:
        answered = sum(said.role == "assistant" for said in request.messages)
        while answered == at - 1 and waiting:
            runtime.signal("t", "chat", waiting.pop(0))
        return answers[answered]

    model = Model(fn=answer)
    agent = Agent(model, tools=[counting(counts)], signal="chat")
    runtime = way.runtime(way.graph(ask()), harness=agent, **options)
    return runtime, model


@every_way
def test_message_joins_the_conversation_before_the_next_call_and_no_call_is_repeated(way: Any) -> None:
    counts: list[int] = []
    runtime, model = sending(way, counts, "Only two.", UserMessage(text="Please."), {"n": 1})

    result = way(runtime, "run", {}, thread="t")

    assert (result.status, result.state.said) == ("completed", ["done"])
    assert heard(model.asked[1])[1:] == [
        "assistant: ",
        "tool: noted 1",
        "user: Only two.",
        "user: Please.",
        'user: {"n":1}',
    ]
    assert counts == [1, 2]
    assert len(model.asked) == 3


def test_message_that_arrives_during_the_last_call_is_also_answered(way: Any) -> None:
    runtime, model = sending(way, [], "One more.", at=3)

    assert way(runtime, "run", {}, thread="t").state.said == ["more"]
    assert heard(model.asked[3])[-1] == "user: One more."


def test_pause_waits_for_a_person_who_may_add_a_message(way: Any) -> None:
    counts: list[int] = []
    runtime, model = sending(way, counts, {"pause": "let me look"})

    paused = way(runtime, "run", {}, thread="t")

    assert paused.status == "interrupted"
    assert paused.interrupts[0].payload == {"problem": "paused", "reason": "let me look", "agent": "agent"}
    assert (counts, len(model.asked)) == ([1], 1)
    assert way(runtime, "resume", "t", "Go slowly.").state.said == ["done"]
    assert heard(model.asked[1])[-1] == "user: Go slowly."
    assert (counts, len(model.asked)) == ([1, 2], 3)


def test_pause_that_is_answered_with_true_changes_nothing(way: Any) -> None:
    runtime, model = sending(way, [], {"pause": ""})
    way(runtime, "run", {}, thread="t")

    assert way(runtime, "resume", "t", True).state.said == ["done"]
    assert [said.role for said in model.asked[1].messages] == ["user", "assistant", "tool"]


def test_two_agents_of_a_run_share_the_signals_without_waiting_for_a_taken_one(way: Any) -> None:
    models: list[Model] = []

    async def body(state: Any, ctx: Any) -> Any:
        agents = [Agent(model, signal="chat") for model in models]
        replies = await asyncio.gather(*(ctx.bind(one).run(f"go {n}") for n, one in enumerate(agents)))
        return {"said": [reply.text for reply in replies]}

    runtime = way.runtime(way.graph(ask(), body), harness=Agent(Model(fn=lambda _: send())))

    def send() -> str:
        runtime.signal("t", "chat", "Hello.")
        return "sent"

    models += [Model(fn=lambda request: says(heard(request)[-1])) for _ in range(2)]

    result = way(runtime, "run", {}, thread="t")

    assert result.status == "completed"
    assert sorted(result.state.said[1:]) == ["user: Hello.", "user: go 1"]


def test_thread_that_took_signals_is_executed_again_from_its_log(way: Any) -> None:
    runtime, model = sending(way, [], "Only two.", {"pause": "why"}, at=2)
    way(runtime, "run", {}, thread="t")
    way(runtime, "resume", "t", True)
    asked = len(model.asked)

    assert way(runtime, "reexecute", "t").same
    assert len(model.asked) == asked


def test_signal_requires_a_name_and_is_not_taken_without_a_thread() -> None:
    with pytest.raises(InputError, match="The name of a signal"):
        Agent(Model(), signal="")
    assert run(Agent(Model("done"), signal="chat")).text == "done"


def test_signal_after_a_crash_joins_after_the_paid_replies(way: Any) -> None:
    class Gone(BaseException):
        """Simulates the end of the process."""

    fails = [Gone()]

    @tool
    async def note(x: int) -> str:
        if x == 2 and fails:
            raise fails.pop()
        return "noted"

    model = Model(fn=lambda request: answers[sum(said.role == "assistant" for said in request.messages)])
    answers = [says(call("note", x=1)), says(call("note", x=2)), says("done")]
    runtime = way.runtime(way.graph(ask()), harness=Agent(model, tools=[note], signal="chat"))
    with pytest.raises(Gone):
        way(runtime, "run", {}, thread="t")
    runtime.signal("t", "chat", "Hurry.")

    result = way(runtime, "retry", "t")

    assert result.state.said == ["done"]
    assert [len(request.messages) for request in model.asked] == [1, 3, 6]
    assert heard(model.asked[2])[-1] == "user: Hurry."
