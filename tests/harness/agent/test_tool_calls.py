"""Tool calls of an agent alone: bad ones, failing ones, slow ones, and what the model is told of them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from graphrt.errors import InputError, ToolArgumentsError, ToolError
from graphrt.harness import (
    Agent,
    Budget,
    ToolCall,
    ToolContext,
    ToolEnded,
    ToolMessage,
    ToolResult,
    ToolSpec,
    ToolStarted,
    tool,
)

from .fakes import Model, call, counting, run, says, watch


def results(reply: Any) -> list[tuple[str, bool]]:
    return [(said.text, said.error) for said in reply.messages if isinstance(said, ToolMessage)]


def one_call(made: Any, *tools: Any, **options: Any) -> tuple[str, bool]:
    """What the model is told of one call."""
    ((text, error),) = results(run(Agent(Model(made, "done"), tools=tools, **options)))
    return text, error


def test_a_tool_that_was_not_offered_is_told_to_the_model():
    text, error = one_call(call("nota", x=1), counting([]))

    assert error
    assert text == "There is no tool 'nota'. Did you mean 'note'? The tools are: 'note'."


def test_a_tool_that_was_not_offered_may_fail_the_run():
    with pytest.raises(ToolError) as caught:
        one_call(call("nota"), counting([]), unknown_tool="raise")

    assert caught.value.code == "unknown-tool"


@pytest.mark.parametrize("text", ["{", "[1]", "null", '{"x": "many"}', '{"y": 1}', "\ud800"])
def test_bad_arguments_are_told_to_the_model(text):
    counts: list[int] = []

    told, error = one_call(ToolCall(id="a", name="note", arguments_text=text), counting(counts))

    assert error
    assert "argument" in told.lower()
    assert counts == []


def test_bad_arguments_may_fail_the_run():
    with pytest.raises(ToolArgumentsError):
        one_call(call("note", x="many"), counting([]), invalid_arguments="raise")


def test_good_calls_beside_bad_ones_are_made():
    counts: list[int] = []
    turn = says(call("gone", "a"), call("note", "b", x=1), call("note", "c", y=1), call("note", "d", x=2))

    reply = run(Agent(Model(turn, "done"), tools=[counting(counts)]))

    assert [error for _, error in results(reply)] == [True, False, True, False]
    assert [said.tool_call_id for said in reply.messages if isinstance(said, ToolMessage)] == ["a", "b", "c", "d"]
    assert sorted(counts) == [1, 2]


class Raises(BaseException):
    """What no agent knows."""


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("error", [ValueError("bad"), asyncio.CancelledError(), TimeoutError("own"), StopIteration(1)])
def test_what_a_tool_raises_is_told_to_the_model(error, beside):
    @tool
    def broken() -> str:
        raise error

    turn = says(call("broken"), *([call("note", x=1)] if beside else []))
    found = results(run(Agent(Model(turn, "done"), tools=[broken, counting([])])))

    assert found[0][1]
    assert type(error).__name__ in found[0][0]


@pytest.mark.parametrize("beside", [False, True])
def test_what_is_no_exception_passes_through_when_the_others_have_ended(beside):
    counts: list[int] = []

    @tool
    async def broken() -> str:
        raise Raises

    turn = says(call("broken"), *([call("note", x=1)] if beside else []))
    with pytest.raises(Raises):
        run(Agent(Model(turn), tools=[broken, counting(counts)]))

    assert counts == ([1] if beside else [])


def test_a_tool_that_hangs_is_told_to_the_model():
    @tool(timeout_s=0.01)
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    assert one_call(call("hang"), hang) == ("Tool 'hang' took longer than 0.01 s.", True)


def test_a_tool_that_hangs_may_fail_the_run():
    @tool(timeout_s=0.01, on_error="raise")
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    with pytest.raises(ToolError) as caught:
        one_call(call("hang"), hang)

    assert caught.value.code == "tool-timeout"


def test_a_tool_may_print(capsys):
    @tool
    def shout() -> str:
        print("loud")  # noqa: T201 - that is the point
        return "said"

    assert one_call(call("shout"), shout) == ("said", False)
    assert capsys.readouterr().out == "loud\n"


@pytest.mark.parametrize("value", [object(), [object()], {"a": {1, object()}}, "\ud800", lambda: None])
def test_what_cannot_be_told_to_a_model_is_an_error_that_names_the_tool(value):
    @tool
    def odd() -> Any:
        return value

    text, error = one_call(call("odd"), odd)

    assert error
    assert "'odd'" in text


class Plain:
    """A tool made by hand."""

    def __init__(self, value: Any, **policy: Any) -> None:
        from graphrt.harness import ToolPolicy

        self.value = value
        self.spec = ToolSpec(name="plain")
        self.policy = ToolPolicy(**policy)

    def check(self, arguments: Any, /) -> Any:
        return arguments

    async def call(self, arguments: Any, context: ToolContext, /) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("value", "told"), [("text", "text"), ({"a": 1}, '{"a":1}'), (None, "null"), (ToolResult(text="t", value=1), "t")]
)
def test_a_tool_made_by_hand_may_return_what_becomes_json(value, told):
    assert one_call(call("plain"), Plain(value)) == (told, False)


def test_a_result_is_cut_where_the_policy_says_so():
    assert one_call(call("plain"), Plain("x" * 9, max_result_chars=4))[0].startswith("xxxx\n[cut: 5 of 9")


def test_what_a_tool_made_by_hand_returns_and_no_json_has_is_an_error():
    text, error = one_call(call("plain"), Plain(object()))

    assert error
    assert "'plain'" in text


# -- approval --------------------------------------------------------------------------------------------------------


async def later(answer: Any) -> Any:
    return answer


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("answer", "made"), [(True, [1]), (False, [])])
def test_the_program_approves_a_call(answer, made, is_async):
    counts: list[int] = []
    seen: list[Any] = []

    def approve(asked: ToolCall) -> Any:
        seen.append((asked.name, dict(asked.arguments)))
        return later(answer) if is_async else answer

    text, error = one_call(call("note", x=1), counting(counts, approval=True), approve=approve)

    assert counts == made
    assert error == (not made)
    assert seen == [("note", {"x": 1})]
    assert made or text == "A person refused this call of 'note'."


def test_only_the_calls_that_a_policy_picks_are_asked_about():
    counts: list[int] = []
    note = counting(counts, approval=lambda arguments: arguments["x"] > 1)
    turn = says(call("note", "a", x=1), call("note", "b", x=2))

    reply = run(Agent(Model(turn, "done"), tools=[note], approve=lambda _: False))

    assert counts == [1]
    assert [error for _, error in results(reply)] == [False, True]


def test_an_agent_alone_has_nobody_to_ask():
    with pytest.raises(InputError) as caught:
        one_call(call("note", x=1), counting([], approval=True))

    assert caught.value.code == "nobody-to-ask"
    assert "approve=" in caught.value.fix


def test_an_agent_alone_has_nobody_to_ask_for_a_larger_budget():
    agent = Agent(Model("done"), budget=Budget(calls=0, on_exceeded="interrupt"))
    with pytest.raises(InputError) as caught:
        run(agent)

    assert caught.value.code == "nobody-to-ask"
    assert 'on_exceeded="stop"' in caught.value.fix


# -- what is seen ----------------------------------------------------------------------------------------------------


def ends(items: list[Any]) -> None:
    """There is exactly one ToolEnded after each ToolStarted, and none without."""
    open_: list[str] = []
    for item in items:
        if isinstance(item, ToolStarted):
            open_.append(item.call.id)
        elif isinstance(item, ToolEnded):
            open_.remove(item.call.id)
    assert open_ == []


def test_each_tool_call_begins_and_ends_once_whatever_comes_of_it():
    @tool
    def broken() -> str:
        raise ValueError("bad")

    turn = says(call("note", "a", x=1), call("gone", "b"), call("broken", "c"), call("note", "d", y=1))
    items = watch(Agent(Model(turn, "done"), tools=[broken, counting([])]))

    ends(items)
    assert sum(isinstance(item, ToolStarted) for item in items) == 4
    assert {item.call.id: item.error for item in items if isinstance(item, ToolEnded)} == {
        "a": False, "b": True, "c": True, "d": True,
    }  # fmt: skip


def test_tool_calls_that_are_cancelled_end_too():
    async def main() -> list[Any]:
        items: list[Any] = []
        begun = asyncio.Event()

        @tool
        async def hang(x: int) -> str:
            if x == 2:
                begun.set()
            await asyncio.Event().wait()
            return ""

        turn = says(*(call("hang", f"c{x}", x=x) for x in range(3)))
        running = asyncio.ensure_future(Agent(Model(turn), tools=[hang], sinks=[items.append]).run("go"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return items

    items = asyncio.run(main())

    ends(items)
    assert sum(isinstance(item, ToolStarted) for item in items) == 3


def test_the_value_of_a_result_is_seen_and_not_told():
    @tool
    def look() -> ToolResult:
        return ToolResult(text="short", value={"long": 1})

    items = watch(Agent(Model(call("look"), "done"), tools=[look]))

    (ended,) = (item for item in items if isinstance(item, ToolEnded))
    assert (ended.text, ended.value) == ("short", {"long": 1})


def test_what_sync_tools_show_from_their_worker_threads_is_seen_before_they_end():
    @tool
    def shows(context: ToolContext) -> str:
        for number in range(20):
            context.emit((number, threading.current_thread() is threading.main_thread()))
        return "done"

    items = watch(Agent(Model(call("shows"), "done"), tools=[shows]))
    names = [type(item).__name__ for item in items]

    assert [item for item in items if isinstance(item, tuple)] == [(number, False) for number in range(20)]
    assert names.index("ToolStarted") < names.index("tuple") < names.index("ToolEnded")


def test_a_tool_knows_its_call_and_what_the_program_gave():
    seen: list[ToolContext] = []

    @tool
    def look(x: int, context: ToolContext) -> str:
        seen.append(context)
        return "ok"

    run(Agent(Model(call("look", "a", x=1), call("look", "b", x=1), "done"), tools=[look]), deps={"db": 1})

    assert [context.call.id for context in seen] == ["a", "b"]
    assert {str(context.deps) for context in seen} == {"{'db': 1}"}
    assert len({context.idempotency_key for context in seen}) == 2
    assert (seen[0].depth, seen[0].node, seen[0].thread) == (0, None, None)
