"""Tool calls of an agent outside a graph: invalid, failing and slow ones, and what the model is told about them."""

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
    """The result of one call that the model gets."""
    ((text, error),) = results(run(Agent(Model(made, "done"), tools=tools, **options)))
    return text, error


def test_call_of_a_tool_that_was_not_offered_is_reported_to_the_model():
    text, error = one_call(call("nota", x=1), counting([]))

    assert error
    assert text == "There is no tool 'nota'. Did you mean 'note'? The tools are: 'note'."


def test_call_of_a_tool_that_was_not_offered_may_fail_the_run():
    with pytest.raises(ToolError) as caught:
        one_call(call("nota"), counting([]), unknown_tool="raise")

    assert caught.value.code == "unknown-tool"


@pytest.mark.parametrize("text", ["{", "[1]", "null", '{"x": "many"}', '{"y": 1}', "\ud800"])
def test_invalid_arguments_are_reported_to_the_model(text):
    counts: list[int] = []

    told, error = one_call(ToolCall(id="a", name="note", arguments_text=text), counting(counts))

    assert error
    assert "argument" in told.lower()
    assert counts == []


def test_invalid_arguments_may_fail_the_run():
    with pytest.raises(ToolArgumentsError):
        one_call(call("note", x="many"), counting([]), invalid_arguments="raise")


def test_valid_calls_in_a_reply_with_invalid_ones_are_made():
    counts: list[int] = []
    turn = says(call("gone", "a"), call("note", "b", x=1), call("note", "c", y=1), call("note", "d", x=2))

    reply = run(Agent(Model(turn, "done"), tools=[counting(counts)]))

    assert [error for _, error in results(reply)] == [True, False, True, False]
    assert [said.tool_call_id for said in reply.messages if isinstance(said, ToolMessage)] == ["a", "b", "c", "d"]
    assert sorted(counts) == [1, 2]


class Raises(BaseException):
    """An exception that no agent knows."""


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("error", [ValueError("bad"), asyncio.CancelledError(), TimeoutError("own"), StopIteration(1)])
def test_error_of_a_tool_is_reported_to_the_model(error, beside):
    @tool
    def broken() -> str:
        raise error

    turn = says(call("broken"), *([call("note", x=1)] if beside else []))
    found = results(run(Agent(Model(turn, "done"), tools=[broken, counting([])])))

    assert found[0][1]
    assert type(error).__name__ in found[0][0]


@pytest.mark.parametrize("beside", [False, True])
def test_base_exception_passes_through_when_the_other_calls_have_ended(beside):
    counts: list[int] = []

    @tool
    async def broken() -> str:
        raise Raises

    turn = says(call("broken"), *([call("note", x=1)] if beside else []))
    with pytest.raises(Raises):
        run(Agent(Model(turn), tools=[broken, counting(counts)]))

    assert counts == ([1] if beside else [])


def test_tool_that_times_out_is_reported_to_the_model():
    @tool(timeout_s=0.01)
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    assert one_call(call("hang"), hang) == ("Tool 'hang' took longer than 0.01 s.", True)


def test_tool_that_times_out_may_fail_the_run():
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
        print("loud")  # noqa: T201 - the tested call
        return "said"

    assert one_call(call("shout"), shout) == ("said", False)
    assert capsys.readouterr().out == "loud\n"


@pytest.mark.parametrize("value", [object(), [object()], {"a": {1, object()}}, "\ud800", lambda: None])
def test_unserializable_result_is_an_error_that_names_the_tool(value):
    @tool
    def odd() -> Any:
        return value

    text, error = one_call(call("odd"), odd)

    assert error
    assert "'odd'" in text


class Plain:
    """A hand-written tool."""

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
def test_hand_written_tool_may_return_serializable_values(value, told):
    assert one_call(call("plain"), Plain(value)) == (told, False)


def test_result_is_truncated_by_the_policy():
    assert one_call(call("plain"), Plain("x" * 9, max_result_chars=4))[0].startswith("xxxx\n[cut: 5 of 9")


def test_unserializable_result_of_a_hand_written_tool_is_an_error():
    text, error = one_call(call("plain"), Plain(object()))

    assert error
    assert "'plain'" in text


# -- approval --------------------------------------------------------------------------------------------------------


async def later(answer: Any) -> Any:
    return answer


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("answer", "made"), [(True, [1]), (False, [])])
def test_program_approves_a_call(answer, made, is_async):
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


def test_only_the_calls_that_a_policy_selects_need_approval():
    counts: list[int] = []
    note = counting(counts, approval=lambda arguments: arguments["x"] > 1)
    turn = says(call("note", "a", x=1), call("note", "b", x=2))

    reply = run(Agent(Model(turn, "done"), tools=[note], approve=lambda _: False))

    assert counts == [1]
    assert [error for _, error in results(reply)] == [False, True]


def test_agent_outside_a_graph_cannot_ask_for_approval():
    with pytest.raises(InputError) as caught:
        one_call(call("note", x=1), counting([], approval=True))

    assert caught.value.code == "nobody-to-ask"
    assert "approve=" in caught.value.fix


def test_agent_outside_a_graph_cannot_ask_for_a_larger_budget():
    agent = Agent(Model("done"), budget=Budget(calls=0, on_exceeded="interrupt"))
    with pytest.raises(InputError) as caught:
        run(agent)

    assert caught.value.code == "nobody-to-ask"
    assert 'on_exceeded="stop"' in caught.value.fix


# -- events ----------------------------------------------------------------------------------------------------------


def ends(items: list[Any]) -> None:
    """Check that each ToolStarted is followed by one ToolEnded, and that no other exists."""
    open_: list[str] = []
    for item in items:
        if isinstance(item, ToolStarted):
            open_.append(item.call.id)
        elif isinstance(item, ToolEnded):
            open_.remove(item.call.id)
    assert open_ == []


def test_each_tool_call_starts_and_ends_once_for_every_outcome():
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


def test_cancelled_tool_calls_also_have_an_end_event():
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


def test_value_of_a_result_is_in_the_event_and_not_sent_to_the_model():
    @tool
    def look() -> ToolResult:
        return ToolResult(text="short", value={"long": 1})

    items = watch(Agent(Model(call("look"), "done"), tools=[look]))

    (ended,) = (item for item in items if isinstance(item, ToolEnded))
    assert (ended.text, ended.value) == ("short", {"long": 1})


def test_items_that_sync_tools_emit_from_their_worker_threads_come_before_their_end():
    @tool
    def shows(context: ToolContext) -> str:
        for number in range(20):
            context.emit((number, threading.current_thread() is threading.main_thread()))
        return "done"

    items = watch(Agent(Model(call("shows"), "done"), tools=[shows]))
    names = [type(item).__name__ for item in items]

    assert [item for item in items if isinstance(item, tuple)] == [(number, False) for number in range(20)]
    assert names.index("ToolStarted") < names.index("tuple") < names.index("ToolEnded")


def test_tool_knows_its_call_and_the_deps_of_the_program():
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
