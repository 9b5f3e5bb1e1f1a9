"""Test doubles of tools in `tools=` of a runtime or a run: by name, strict, and with the schema of the real tool."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import Context, GraphBuilder, Runtime
from graphrt.errors import GraphrtError, InputError, NodeError, ScriptError
from graphrt.harness import Agent, ScriptedModel, ToolCall, tool
from graphrt.testing import raises, record, scripted

from .fakes import call
from .graphs import State, ask


@tool(effect="once")
def charge(amount: int) -> str:
    """Charge an amount."""
    raise AssertionError("the real tool was called")


def graph() -> Any:
    return GraphBuilder(State, name="shop").add_node("pay", ask()).set_entry("pay").set_finish("pay").compile()


def cashier(*script: Any, **options: Any) -> Agent[Any]:
    return Agent(ScriptedModel(script, **options), name="cashier", tools=[charge])


def seen(agent: Agent[Any]) -> list[str]:
    """The results of tools that the model received."""
    model: Any = agent.models[0]
    return [message.text for message in model.calls[-1].messages if message.role == "tool"]


PAY_TWICE = (call("charge", "1", amount=3), call("charge", "2", amount=4), "done")


@pytest.mark.parametrize("failure", [raises(TimeoutError), TimeoutError], ids=["function", "class"])
def test_scripted_tool_returns_its_results_in_order_and_records_the_calls(failure: Any) -> None:
    agent = cashier(*PAY_TWICE)
    double = scripted("ok", failure)
    result = graph().run({}, harness=agent, tools={"charge": double})

    assert seen(agent) == ["ok", "TimeoutError: "]
    assert double.arguments == [{"amount": 3}, {"amount": 4}]
    assert result.warnings == ()


def test_function_replaces_a_tool_and_gets_the_arguments_by_name() -> None:
    async def double(amount: int) -> dict[str, int]:
        return {"paid": amount}

    agent = cashier(*PAY_TWICE)
    graph().run({}, harness=agent, tools={"charge": double})

    assert seen(agent) == ['{"paid":3}', '{"paid":4}']


@pytest.mark.parametrize("how", ["run", "arun", "steps", "stream", "runtime", "record"])
def test_unused_results_fail_the_run(how: str) -> None:
    import asyncio

    options: dict[str, Any] = {"harness": cashier(call("charge", "1", amount=3), "done")}
    options["tools"] = {"charge": scripted("ok", "never")}

    def pay() -> None:
        match how:
            case "arun":
                asyncio.run(graph().arun({}, **options))
            case "runtime":
                with Runtime(graph(), **options) as runtime:
                    runtime.run({})  # another run may use the rest
            case "run":
                graph().run({}, **options)
            case "record":
                record(graph(), {}, **options)
            case _:
                list(getattr(graph(), how)({}, **options))

    with pytest.raises(ScriptError, match="1 left over after") as failed:
        pay()
    assert "'never'" in str(failed.value)
    assert "'charge'" in failed.value.where


def test_results_for_an_unknown_tool_name_the_known_tools() -> None:
    with pytest.raises(ScriptError) as failed:
        graph().run({}, harness=cashier("done"), tools={"chargee": scripted("ok")})
    assert "no agent that was run has a tool of that name" in failed.value.where
    assert "did you mean 'charge'?" in failed.value.where


def test_paused_run_may_leave_results_for_its_resumption() -> None:
    def stop(state: State, ctx: Context) -> None:
        ctx.interrupt("go on?")

    builder = GraphBuilder(State).add_node("stop", stop).add_node("pay", ask())
    paused = builder.set_entry("stop").add_edge("stop", "pay").set_finish("pay").compile()
    with Runtime(paused, store="memory:", harness=cashier(*PAY_TWICE), tools={"charge": scripted(1, 2)}) as runtime:
        assert runtime.run({}, thread="t").warnings == ()
        assert runtime.resume("t", "yes").status == "completed"


def test_more_calls_than_results_fail_the_run_and_are_not_reported_to_the_model() -> None:
    with pytest.raises(NodeError) as failed:
        graph().run({}, harness=cashier(*PAY_TWICE), tools={"charge": scripted("ok")})
    assert "tool 'charge' was called 2 times" in str(failed.value.__cause__)


def test_unknown_names_and_uncalled_doubles_are_warnings() -> None:
    result = graph().run({}, harness=cashier("done"), tools={"charge": lambda amount: "", "chrage": lambda amount: ""})

    assert result.warnings == (
        "tools= has 'charge', but no agent called that tool.",
        (
            "tools= has 'chrage', but no agent that was run has a tool of that name. Tools that they have: 'charge'; did "
            "you mean 'charge'?"
        ),
    )


@pytest.mark.parametrize("doubled", [False, True])
def test_scripted_call_that_no_longer_matches_the_tool_fails(doubled: bool) -> None:
    """The agent would report it to a real model, and the test would continue with the next reply of the script."""
    model = ScriptedModel([call("charge", "1", sum=3), "done"])
    with pytest.raises(NodeError) as failed:
        graph().run({}, harness=Agent(model, tools=[charge]), tools={"charge": scripted("ok")} if doubled else None)

    told = str(failed.value.__cause__)
    assert failed.value.__cause__.code == "script-wrong-call"  # type: ignore[union-attr]
    assert "sum: unknown argument; it takes amount" in told
    assert "amount: is missing" in told
    with pytest.raises(ScriptError):
        model.assert_done()  # even if the code under test swallows the error


@tool(name="other")
def _no_result(amount: int) -> Any:
    return object()


@pytest.mark.parametrize("double", [lambda amount: object(), scripted(object()), scripted(dict), _no_result])
def test_double_whose_result_does_not_fit_fails_the_run(double: Any) -> None:
    with pytest.raises(NodeError) as failed:
        graph().run({}, harness=cashier(*PAY_TWICE), tools={"charge": double})

    cause = failed.value.__cause__
    assert isinstance(cause, ScriptError)
    assert str(cause).startswith("The double of tool 'charge' cannot reply to call '1' with its result: The result of")


def test_double_that_does_not_take_the_arguments_of_its_tool_fails() -> None:
    for double in (lambda cents: "ok", scripted(lambda cents: "ok"), tool(name="other")(_other)):
        with pytest.raises(NodeError) as failed:
            graph().run({}, harness=cashier(call("charge", "1", amount=3)), tools={"charge": double})
        assert "The double of tool 'charge' does not take the arguments of the tool" in str(failed.value.__cause__)


def _other(cents: int) -> str:
    return "ok"


def test_script_errors_below_a_tool_bypass_the_agent_above() -> None:
    """Otherwise a sub-agent with an exhausted script would be a failed tool, which the model handles."""
    below = Agent(ScriptedModel([]), name="below")
    above = Agent(ScriptedModel([call("below", "1", question="?"), "done"]), tools=[below.as_tool(description="Ask.")])
    with pytest.raises(GraphrtError) as failed:
        graph().run({}, harness=above)
    assert "expected no more calls" in str(failed.value.__cause__)


@pytest.mark.parametrize("tools", [[], {1: scripted()}, {"charge": 3}, {"charge": ToolCall}])
def test_invalid_replacement_of_a_tool_is_refused_where_the_runtime_is_created(tools: Any) -> None:
    with pytest.raises(InputError) as refused:
        Runtime(graph(), tools=tools)
    assert refused.value.code == "input"
