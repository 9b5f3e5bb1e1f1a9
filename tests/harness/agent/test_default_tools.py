"""Which tools the agent of a run offers to a node without a list of tools: nested, designed, and in a manifest."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import Command, Context, GraphBuilder, Send
from graphrt.graph import chosen_graph
from graphrt.harness import Agent, tool
from graphrt.nodes import registry

from .fakes import Model, counting
from .graphs import State, ask


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def clerk(name: str = "clerk") -> tuple[Agent[Any], Model]:
    model = Model(fn=lambda _: "done")
    return Agent(model, name=name, tools=[counting([]), pay]), model


def offered(model: Model) -> list[str]:
    (request,) = model.asked
    return [spec.name for spec in request.tools]


def graph_of(node: Any, name: str, **policy: Any) -> Any:
    builder = GraphBuilder(State, name=name)
    return builder.add_node("only", node, **policy).set_entry("only").set_finish("only").compile()


def test_node_of_a_nested_graph_gets_a_tool_that_needs_approval_only_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policies: list[tuple[dict[str, Any], list[str]]] = [({}, ["note"]), ({"tools": ["note", "pay"]}, ["note", "pay"])]
    for policy, names in policies:
        agent, model = clerk("cashier")  # its own name: the log has each pair of agent and node once
        result = graph_of(graph_of(ask(), "inner", **policy), "outer").run({}, harness=agent)

        assert offered(model) == names
        assert ["need approval" in text for text in result.warnings] == [True] * (not policy)
    (told,) = [record.getMessage() for record in caplog.records if record.name == "graphrt.harness"]
    assert told.startswith("Node 'only' of nested graph 'inner' at ")
    assert "does not offer agent 'cashier' its tools ['pay'], which need approval" in told


@pytest.mark.parametrize("bound", [False, True])
def test_agent_of_a_designed_graph_gets_no_tool_that_needs_approval(bound: bool) -> None:
    """A model chose the agent, and its tools count as defaults, even if the node is the agent or binds it."""
    agent, model = clerk()

    async def binds(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.bind(agent).run("go")).text]}

    def start(state: State) -> Command[Any]:
        return Command(goto=[Send("run", "the design")])

    design = graph_of(binds, "design") if bound else graph_of(ask(), "design")
    builder = GraphBuilder(State, name="designs").add_node("start", start, goto=["run"]).set_entry("start")
    graph = builder.add_node("run", chosen_graph(lambda _: design)).compile()
    result = graph.run({}, harness=None if bound else agent)

    assert offered(model) == ["note"]
    assert "which need approval" in result.warnings[0]


def test_node_of_a_manifest_gets_only_the_tools_that_it_names() -> None:
    known = registry(functions={"ask": ask()}, types=[State])
    policies: list[tuple[dict[str, Any], list[str]]] = [({}, []), ({"policy": {"tools": ["note"]}}, ["note"])]
    for policy, names in policies:
        agent, model = clerk()
        nodes = [{"name": "only", "kind": "function", "function": "ask", **policy}]
        edges = [{"from": "START", "to": "only"}, {"from": "only", "to": "END"}]
        graph = GraphBuilder.from_spec(
            {"name": "written", "nodes": nodes, "edges": edges}, known, state=State
        ).compile()
        graph.run({}, harness=agent)

        assert offered(model) == names
        assert graph.to_spec(known).to_data()["nodes"] == nodes


def test_an_agent_of_a_manifest_has_its_own_tools() -> None:
    agent, model = clerk()
    known = registry(agents={"clerk": agent}, types=[State], functions={"prompt": lambda state: "go"})
    graph = graph_of(agent, "written", input=known.find("functions", "prompt"), output={"said": "new_messages"})
    manifest = graph.to_spec(known)

    assert "policy" not in manifest.to_data()["nodes"][0]
    GraphBuilder.from_spec(manifest, known, state=State).compile().run({})
    assert offered(model) == ["note", "pay"]
