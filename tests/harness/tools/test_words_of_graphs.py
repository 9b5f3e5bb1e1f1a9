"""Tools that behave like nodes: they return Commands, or require the state. Both are reported to the program."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from tests.harness.agent.fakes import Model, call

from graphrt import START, Command, GraphBuilder, Interrupt, Send
from graphrt.errors import InputError, NodeError, ToolError
from graphrt.harness import Agent, Injected, ToolResult, tool


class State(BaseModel):
    """The state of a graph; a model could invent one."""

    customer: str = ""


def foreign(name: str, module: str = "langgraph.types") -> type:
    return type(name, (), {"__module__": module})


# ------------------------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    "value",
    [
        Command(update={"customer": "x"}, goto="billing"),
        Send("billing", 1),
        Interrupt("well?"),
        [Command(goto="billing")],
        ToolResult(text="ok", value=Command(goto="billing")),
        foreign("Command")(),
        foreign("Send")(),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("on_error", ["return", "raise"])
def test_returned_command_of_a_tool_fails_the_run_and_is_not_reported_to_the_model(value: Any, on_error: Any) -> None:
    @tool(on_error=on_error)
    def hand_over(to: str) -> Any:
        """Hand over."""
        return value

    model = Model(call("hand_over", to="billing"), "done")
    with pytest.raises(ToolError) as caught:
        asyncio.run(Agent(model, tools=[hand_over]).run("go"))

    assert caught.value.code == "tool-command"
    assert caught.value.tool == "hand_over"
    assert "only a node may return" in caught.value.what
    assert "@tool(writes=[fields], goto=[nodes])" in caught.value.fix
    assert len(model.asked) == 1


def test_error_of_a_command_survives_pickling() -> None:
    from graphrt.harness.tools.results import ToolCommandError, to_result

    with pytest.raises(ToolCommandError) as caught:
        to_result(Command(goto="x"), tool="t")

    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_command_of_a_tool_fails_the_node_that_runs_the_agent() -> None:
    @tool
    def hand_over(to: str) -> Any:
        """Hand over."""
        return Command(goto=to)

    g = GraphBuilder(State, name="support")

    @g.node(tools=["hand_over"])
    async def talk(state: State, ctx: Any) -> dict[str, Any]:
        return {"customer": (await ctx.harness.run("go")).text}

    g.add_edge(START, talk)
    agent = Agent(Model(call("hand_over", to="billing"), "done"), tools=[hand_over])
    with pytest.raises(NodeError, match="hand_over") as caught:
        g.compile().run({}, harness=agent)

    assert isinstance(caught.value.__cause__, ToolError)


def test_function_with_an_undeclared_command_as_its_return_type_is_not_a_tool() -> None:
    def plain(to: str) -> Command:
        return Command(goto=to)

    def either(to: str) -> Command[Any] | str:
        return to

    for fn in (plain, either):
        with pytest.raises(InputError, match="returns a Command") as caught:
            tool(fn)
        assert caught.value.code == "tool-schema"


def test_function_with_an_unreadable_return_annotation_is_a_tool() -> None:
    def fn(to: str) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return to

    assert tool(fn).spec.name == "fn"


# ---------------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("name", ["InjectedState", "InjectedStore", "InjectedToolCallId"])
@pytest.mark.parametrize("as_value", [True, False], ids=["value", "class"])
def test_mark_of_langgraph_is_refused_with_the_alternative(name: str, as_value: bool) -> None:
    kind = foreign(name, "langgraph.prebuilt.tool_node")
    mark = kind() if as_value else kind

    def fn(state: Annotated[dict[str, Any], mark]) -> str:  # type: ignore[valid-type]
        return ""

    with pytest.raises(InputError) as caught:
        tool(fn)

    assert caught.value.code == "tool-schema"
    assert 'Injected("name in deps")' in caught.value.what
    assert "ToolContext" in caught.value.what


@pytest.mark.parametrize(
    ("name", "module"), [("ToolRuntime", "langchain.tools"), ("RunnableConfig", "langchain_core.x")]
)
def test_parameter_of_a_class_of_langgraph_is_refused_with_the_alternative(name: str, module: str) -> None:
    kind = foreign(name, module)

    def fn(given: kind) -> str:  # type: ignore[valid-type]
        return ""

    with pytest.raises(InputError, match="class of LangGraph"):
        tool(fn)


def test_own_class_of_that_name_is_an_argument() -> None:
    class InjectedState(BaseModel):
        x: int

    def fn(given: InjectedState) -> str:
        return ""

    assert "given" in tool(fn).spec.parameters["properties"]


@dataclass
class Held:
    customer: str = ""


@pytest.mark.parametrize("kind", [State, Held])
def test_argument_that_looks_like_the_state_gives_a_warning(kind: type, caplog: pytest.LogCaptureFixture) -> None:
    def look_up(state: kind, question: str) -> str:  # type: ignore[valid-type]
        return question

    tool(look_up)

    assert [record.name for record in caplog.records] == ["graphrt.harness"]
    assert "look_up" in caplog.text
    assert 'Injected("state")' in caplog.text


def test_state_that_is_a_text_or_injected_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    def address(state: str) -> str:
        return state

    def look_up(state: Annotated[State, Injected("state")]) -> str:
        return state.customer

    def other(given: State) -> str:
        return given.customer

    for fn in (address, look_up, other):
        tool(fn)

    assert caplog.records == []
