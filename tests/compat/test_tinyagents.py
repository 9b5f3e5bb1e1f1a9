"""The page of TinyAgents' graph runtime in Python: one test for each block and figure, and for each listed feature.

Ideas only: TinyAgents is written in Rust, under another licence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from graphrt import (
    END,
    START,
    Command,
    Context,
    GraphBuilder,
    Interrupt,
    Limits,
    MockHarness,
    Runtime,
)
from graphrt.errors import NodeFatigueError, StepLimitError
from graphrt.harness import Agent, AgentReply, FunctionModel, ScriptedModel, ToolCall, ToolRegistry
from graphrt.reducers import add, append


@dataclass(frozen=True)
class AgentState:
    needs_tool: bool = True
    seen: tuple[str, ...] = ()


def agent_node(state: AgentState) -> AgentState:
    return replace(state, seen=(*state.seen, "agent"), needs_tool="tool" not in state.seen)


def tool_node(state: AgentState) -> AgentState:
    return replace(state, seen=(*state.seen, "tool"))


def agent_and_tool() -> Any:
    return (
        GraphBuilder.overwrite(AgentState)
        .add_node("agent", agent_node)
        .add_node("tool", tool_node)
        .set_entry("agent")
        .add_edge("tool", "agent")
        .add_conditional_edges(
            "agent",
            lambda state: "tool" if state.needs_tool else "done",
            {"tool": "tool", "done": END},
        )
        .compile()
    )


def test_the_block_of_overwrite_with_the_block_of_conditional_edges() -> None:
    """D35: `set_entry` is the only entry, and END is a target of a route."""
    result = agent_and_tool().run(AgentState())

    assert result.state.seen == ("agent", "tool", "agent")
    assert result.visited == {"agent": 2, "tool": 1}


def test_the_block_of_a_node_result() -> None:
    """`Ok(NodeResult::Update(next_state))` is the returned state."""

    def node(state: AgentState) -> AgentState:
        next_state = replace(state, seen=("node",))
        return next_state  # noqa: RET504 - as in the block

    graph = GraphBuilder.overwrite(AgentState).add_node("node", node).set_entry("node").compile()

    assert graph.run(AgentState()).state == AgentState(seen=("node",))


class Figure(TypedDict):
    route: str
    notes: Annotated[list[str], append]
    calls: Annotated[int, add]


def figure() -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(Figure)
    for name in ("a", "b", "c", "next"):
        g.add_node(name, lambda state, name=name: {"notes": [name], "calls": 1})
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: state["route"], {"x": "b", "y": "c"})
    g.add_edge("b", "next").add_edge("c", "next").add_edge("next", END)
    return g.compile()


@pytest.mark.parametrize(("route", "way"), [("x", ["a", "b", "next"]), ("y", ["a", "c", "next"])])
def test_the_figure_of_the_graph(route: str, way: list[str]) -> None:
    """D34: node A routes x to B and y to C, both lead to the reducer and to END."""
    state = figure().run({"route": route}).state

    assert state["notes"] == way
    assert state["calls"] == 3


def population(city: str) -> int:
    """The population of a city."""
    return {"Oslo": 700_000}[city]


def asking_graph() -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(Figure)

    async def ask(state: Figure, ctx: Context) -> dict[str, Any]:
        return {"notes": [(await ctx.harness.run("How many people live in Oslo?")).text]}

    return g.add_node("ask", ask, tools=["population"]).add_edge(START, "ask").compile()


def test_the_figure_of_the_harness() -> None:
    """A node calls an AgentHarness, which has a ChatModel, a ToolRegistry and EventSinks."""
    events: list[Any] = []
    model = ScriptedModel([ToolCall(id="1", name="population", arguments={"city": "Oslo"}), "About 700,000."])
    agent: Agent[Any] = Agent(model, tools=[population], sinks=[events.append])

    state = asking_graph().run({"route": "x"}, harness=agent).state

    assert isinstance(agent.tools, ToolRegistry)
    assert state["notes"] == ["About 700,000."]
    assert "700000" in model.calls[1].messages[-1].text
    kinds = [type(event).__name__ for event in events]
    assert [kind for kind in kinds if kind in ("ToolStarted", "ToolEnded")] == ["ToolStarted", "ToolEnded"]
    assert kinds.count("ModelEnded") == 2


class Answering:
    async def run(self, prompt: Any, **options: Any) -> AgentReply:
        return AgentReply(text="answer")


@pytest.mark.parametrize(
    "harness",
    [
        MockHarness(["answer"]),
        Agent(ScriptedModel(["answer"]), tools=[population]),
        Agent(FunctionModel(lambda request: "answer"), tools=[population]),
        Answering(),
    ],
    ids=["mock", "agent", "function", "any class"],
)
def test_graph_does_not_know_which_harness_answers(harness: Any) -> None:
    """D30: "the graph does not know whether the harness uses OpenAI, ..., a mock model, a tool loop"."""
    graph = asking_graph()
    fingerprint = graph.fingerprint

    assert graph.run({"route": "x"}, harness=harness).state["notes"][-1] == "answer"
    assert graph.fingerprint == fingerprint


def test_compiled_graph_has_the_features_of_the_page() -> None:
    """D29: typed state and updates, reducers, named nodes, edges, virtual START and END, runtime context."""
    graph = figure()
    topology = graph.topology()

    assert graph.state_type is Figure
    assert list(graph.nodes) == ["a", "b", "c", "next"]
    assert "__start__" not in graph.run({"route": "x"}).visited
    assert {name: field["reducer"] for name, field in topology["state"].items()} == {
        "route": "overwrite",
        "notes": "append",
        "calls": "add",
    }
    assert {edge["kind"] for edge in topology["edges"]} == {"static", "conditional"}
    assert graph.route("a", {"route": "y"}) == ("c",)


def test_commands_and_interrupts_take_part_in_the_workflow(tmp_path: Path) -> None:
    """D31: "Commands, interrupts, and other graph-control results" """
    g: GraphBuilder[Any, Any] = GraphBuilder(Figure)

    def ask(state: Figure, ctx: Context) -> Any:
        return Interrupt("which way?") if ctx.answer is None else Command(update={"route": ctx.answer}, goto="end")

    g.add_node("ask", ask, goto=["end"]).add_node("end", lambda state: {"notes": ["end"]}).add_edge(START, "ask")
    graph = g.compile()
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    with Runtime(graph, store=url) as runtime:
        assert runtime.run({"route": ""}, thread="t").status == "interrupted"
    with Runtime(graph, store=url) as runtime:  # another process could do this
        state = runtime.resume("t", "y").state

    assert (state["route"], state["notes"]) == ("y", ["end"])


def test_loops_have_guardrails() -> None:
    """D32: "loops with guardrails" """
    g: GraphBuilder[Any, Any] = GraphBuilder(Figure)
    g.add_node("work", lambda state: {"calls": 1}).set_entry("work")
    g.add_conditional_edges("work", lambda state: "again", {"again": "work", "done": END})
    graph = g.compile()

    with pytest.raises(NodeFatigueError):
        graph.run({"route": ""}, limits=Limits(max_visits=3))
    with pytest.raises(StepLimitError):
        graph.run({"route": ""}, limits=Limits(max_steps=3))


def test_topology_can_be_inspected_and_tests_around_models_are_deterministic() -> None:
    """D33: "inspectable topology", "deterministic tests around model calls" """
    graph = asking_graph()
    states = [graph.run({"route": "x"}, harness=MockHarness(["one"])).state for _ in range(3)]

    assert states[0] == states[1] == states[2]
    assert "ask" in graph.to_mermaid()
    assert figure().to_json() == figure().to_json()
