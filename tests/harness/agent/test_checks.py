"""Checks of inputs and answers: another attempt within the limits, refusals before the first call, records, events."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import Budget, Command
from graphrt.errors import AgentLimitError, CheckError, InputError
from graphrt.events import EffectRecorded
from graphrt.harness import Agent, AgentLimits, CheckContext, CheckEnded, Retry, tool

from .fakes import USED, Model, call, heard, run, says, watch
from .graphs import ask, every_way


class Sum(BaseModel):
    total: int


def positive(answer: Sum) -> None:
    if answer.total < 0:
        raise Retry(f"{answer.total} is below 0.")


def test_answer_that_a_check_refuses_is_requested_again() -> None:
    model = Model('{"total": -1}', '{"total": 2}')

    reply = run(Agent(model, output=Sum, check=positive))

    assert reply.output == Sum(total=2)
    assert heard(model.asked[1])[-1] == "user: Your answer was not accepted: -1 is below 0.\nAnswer again."
    assert [said.role for said in reply.new_messages] == ["assistant", "user", "assistant"]


def test_several_checks_run_in_order_and_may_be_async_and_take_a_context() -> None:
    seen: list[Any] = []

    async def first(answer: str) -> None:
        seen.append(answer)

    def second(answer: str, context: CheckContext, more: int = 1) -> None:
        seen.append((answer, context.agent, context.deps, context.messages[-1].text, more))

    run(Agent(Model("yes"), name="a", check=[first, second]), deps=7)

    assert seen == ["yes", ("yes", "a", 7, "yes", 1)]


def test_check_that_never_passes_ends_with_the_limit_and_its_answer_is_not_a_reply() -> None:
    def never(answer: str) -> None:
        raise Retry("no")

    texts = iter(f"answer {n}" for n in range(9))
    limits = AgentLimits(model_calls=3, on_limit="stop")
    reply = run(Agent(Model(fn=lambda _: next(texts)), check=never, limits=limits))

    assert (reply.stopped, reply.text, reply.output) == ("model_calls", "", None)


def test_identical_refused_answer_is_reported_once_and_then_ends_the_run() -> None:
    def never(answer: str) -> None:
        raise Retry("no")

    model = Model(fn=lambda _: "always")
    with pytest.raises(AgentLimitError, match="repeated its refused answer"):
        run(Agent(model, check=never))

    assert len(model.asked) == 3
    assert heard(model.asked[2])[-1].endswith("You gave this answer before, and it was refused. Do not repeat it.")


def test_input_is_refused_before_any_cost() -> None:
    def no_card(text: str) -> None:
        if "4111" in text:
            raise Retry("it has a card number.")

    model = Model("fine")
    agent = Agent(model, name="desk", input_check=no_card)

    with pytest.raises(CheckError, match="Check 'no_card' refused an input of agent 'desk': it has a card") as caught:
        run(agent, "my card is 4111")
    assert (caught.value.code, model.asked) == ("check-failed", [])
    assert run(agent, "hello").text == "fine"


def test_other_error_of_a_check_ends_the_run_unchanged() -> None:
    def broken(answer: str) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        run(Agent(Model("a"), check=broken))


def test_checks_are_events_of_the_agent_by_name() -> None:
    def polite(text: str) -> None:
        if text == "rude":
            raise Retry("be polite")

    items = watch(Agent(Model("rude", "nice"), check=polite, input_check=polite))

    assert [one for one in items if isinstance(one, CheckEnded)] == [
        CheckEnded(check="polite", subject="input", passed=True),
        CheckEnded(check="polite", subject="answer", passed=False, text="be polite"),
        CheckEnded(check="polite", subject="answer", passed=True),
    ]


@every_way
def test_verdict_of_a_check_is_recorded_and_a_restart_repeats_neither_it_nor_its_model(way: Any) -> None:
    class Gone(BaseException):
        """Simulates the end of the process."""

    fails = [Gone()]
    judge = Agent(Model(fn=lambda request: f"judged {request.text}"), name="judge")
    judged: list[str] = []

    async def good(answer: str) -> None:
        judged.append((await judge.run(answer)).text)
        if answer == "bad":
            raise Retry("bad")

    async def note(state: Any, ctx: Any) -> Any:
        texts = await ask()(state, ctx)
        if fails:
            raise fails.pop()
        return texts

    model = Model("bad", "good")
    runtime = way.runtime(way.graph(note), harness=Agent(model, check=good), budget=Budget(calls=9))
    with pytest.raises(Gone):
        way(runtime, "run", {}, thread="t")

    result = way(runtime, "retry", "t")

    assert result.state.said == ["good"]
    assert judged == ["judged bad", "judged good"]
    assert (len(model.asked), result.usage.calls) == (2, 4)
    kept = [one.event for one in runtime.entries("t") if isinstance(one.event, EffectRecorded)]
    assert [(one.key.split("/")[:3], one.result["why"]) for one in kept] == [
        (["check", "answer", "good"], "bad"),
        (["check", "answer", "good"], None),
    ]


def test_writes_of_tools_of_an_agent_in_a_check_are_kept_once(way: Any) -> None:
    class Gone(BaseException):
        """Simulates the end of the process."""

    fails = [Gone()]

    @tool(writes=["said"])
    async def note(text: str) -> Command[Any]:
        return Command(update={"said": [text]})

    judge = Agent(Model(call("note", text="noted"), "fine"), name="judge", tools=[note])

    async def good(answer: str) -> None:
        await judge.run(answer)

    async def body(state: Any, ctx: Any) -> Any:
        update = await ask()(state, ctx)
        if fails:
            raise fails.pop()
        return update

    runtime = way.runtime(way.graph(body), harness=Agent(Model("good"), check=good))
    with pytest.raises(Gone):
        way(runtime, "run", {}, thread="t")

    assert sorted(way(runtime, "retry", "t").state.said) == ["good", "noted"]


def test_usage_of_agents_in_a_check_counts_for_the_run() -> None:
    judge = Agent(Model("fine"), name="judge")

    async def good(answer: str) -> None:
        await judge.run(answer)

    assert run(Agent(Model("a"), check=good)).usage == USED + USED


def test_tool_may_raise_retry_under_any_policy() -> None:
    @tool(on_error="raise")
    async def look(x: int) -> str:
        raise Retry(f"{x} is too small")

    model = Model(says(call("look", x=1)), "done")

    assert run(Agent(model, tools=[look])).text == "done"
    assert heard(model.asked[1])[-1] == "tool: 1 is too small"


class Unexplained(Retry):
    def __init__(self) -> None:
        """Set no reason."""


@pytest.mark.parametrize("refusal", [lambda: Retry(None), lambda: Retry(""), lambda: Retry(3), Unexplained])  # pyright: ignore[reportArgumentType] - the wrong reasons
@pytest.mark.parametrize("option", ["check", "input_check"])
def test_check_that_refuses_without_a_reason_does_not_pass(option: str, refusal: Any) -> None:
    def refuse(text: str) -> None:
        raise refusal()

    checks: dict[str, Any] = {option: refuse}
    with pytest.raises(InputError, match="The reason of a Retry cannot be"):
        run(Agent(Model("a"), **checks))


def test_tool_that_refuses_without_a_reason_fails() -> None:
    @tool
    async def look(x: int) -> str:
        raise Retry(None)  # type: ignore[arg-type]  # the wrong reason

    model = Model(says(call("look", x=1)), "done")
    run(Agent(model, tools=[look]))

    assert heard(model.asked[1])[-1] == "tool: InputError: The reason of a Retry cannot be None."


@pytest.mark.parametrize("wrong", [3, "polite", Sum, lambda: None, [positive, 3]])
def test_value_that_is_not_a_check_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError):
        Agent(Model(), check=wrong)


def test_check_must_return_none() -> None:
    with pytest.raises(InputError, match="returned bool"):
        run(Agent(Model("a"), check=lambda answer: False))
