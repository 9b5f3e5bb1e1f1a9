"""A graph as a tool may ask: the run around it pauses, and each part of the graph runs once."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, InputError, NodeError, Runtime
from graphrt.harness import Agent, GraphTool, ModelResponse, ScriptedModel, ToolCall, ToolMessage
from graphrt.reducers import append


class Order(BaseModel):
    item: str
    log: Annotated[list[str], append] = []


class State(BaseModel):
    said: list[str] = []


def tool(done: list[str]) -> GraphTool:
    """A graph that looks, asks twice, and orders."""

    def look(order: Order) -> dict[str, Any]:
        done.append(f"looked for {order.item}")
        return {"log": ["looked"]}

    def ask(order: Order, ctx: Context) -> dict[str, Any]:
        size = ctx.interrupt({"q": f"which size of {order.item}?"})
        return {"log": [f"{size}, {ctx.interrupt('sure?')}"]}

    g = GraphBuilder(Order, name="shop")
    g.add_node("look", look)
    g.add_node("ask", ask)
    g.add_sequence([START, "look", "ask", END])
    return GraphTool(g.compile(), description="Orders.", output=lambda order: "; ".join(order.log))


def outer(agent: Agent) -> Any:
    async def node(state: State, ctx: Context) -> dict[str, Any]:
        reply = await ctx.bind(agent).run("go")
        return {"said": [one.text for one in reply.messages if isinstance(one, ToolMessage)]}

    g = GraphBuilder(State, name="outer")
    g.add_node("talk", node)
    return g.add_edge(START, "talk").add_edge("talk", END).compile()


def calls() -> list[ToolCall]:
    return [ToolCall(id="1", name="shop", arguments={"item": "tea"})]


def test_run_pauses_with_the_questions_of_the_graph_and_continues_with_the_answers() -> None:
    done: list[str] = []
    model = ScriptedModel([*calls(), "done"])
    graph = outer(Agent(model, tools=[tool(done)]))
    with Runtime(graph, store="memory:") as runtime:
        [first] = runtime.run({}, thread="t").interrupts
        [second] = runtime.resume("t", "large").interrupts
        result = runtime.resume("t", "yes")
        again = runtime.reexecute("t")

    assert (first.kind, first.node, first.payload) == ("question", "talk", {"q": "which size of tea?"})
    assert second.payload == "sure?"
    assert result.state.said == ["looked; large, yes"]
    assert done == ["looked for tea"]
    assert len(model.calls) == 2
    assert again.same


def test_graphs_of_one_turn_ask_together_and_survive_the_process(tmp_path: Any) -> None:
    done: list[str] = []
    turn = [ToolCall(id=str(n), name="shop", arguments={"item": item}) for n, item in enumerate(["tea", "milk"])]

    def runtime() -> Runtime[State]:
        model = ScriptedModel([ModelResponse(tool_calls=tuple(turn)), "done"])
        return Runtime(outer(Agent(model, tools=[tool(done)])), store=f"sqlite:///{tmp_path}/runs.db")

    with runtime() as first:
        asked = first.run({}, thread="t").interrupts
    with runtime() as second:
        sizes = {one.id: one.payload["q"].split()[-1] for one in asked}
        more = second.resume("t", sizes).interrupts
    model = ScriptedModel(["done"])  # the answer of the first one is recorded
    with Runtime(outer(Agent(model, tools=[tool(done)])), store=f"sqlite:///{tmp_path}/runs.db") as third:
        result = third.resume("t", {one.id: "yes" for one in more})

    assert sorted(sizes.values()) == ["milk?", "tea?"]
    assert result.state.said == ["looked; tea?, yes", "looked; milk?, yes"]
    assert sorted(done) == ["looked for milk", "looked for tea"]


@pytest.mark.parametrize("on", ["agent", "node"])
def test_caller_without_a_thread_gets_the_error_and_the_model_nothing(on: str) -> None:
    model = ScriptedModel([*calls(), "done"])
    agent = Agent(model, tools=[tool([])])

    with pytest.raises((InputError, NodeError)) as caught:
        asyncio.run(agent.run("go")) if on == "agent" else outer(agent).run({})
    error = caught.value if on == "agent" else caught.value.__cause__
    assert isinstance(error, InputError)
    assert error.code == "interrupt-needs-thread"
    assert len(model.calls) == 1


def test_model_gets_no_locations_or_advice_for_developers() -> None:
    def broken(order: Order) -> None:
        raise ValueError("sold out")

    g = GraphBuilder(Order, name="shop")
    g.add_node("look", broken)
    g.add_edge(START, "look").add_edge("look", END)
    agent = Agent(ScriptedModel([*calls(), "done"]), tools=[GraphTool(g.compile(), description="Orders.")])
    [told] = [one for one in asyncio.run(agent.run("go")).messages if isinstance(one, ToolMessage)]

    assert told.text == "NodeError: Node 'look' failed: ValueError: sold out"


def test_answer_that_the_graph_refuses_is_requested_again() -> None:
    def ask(order: Order, ctx: Context) -> dict[str, Any]:
        return {"log": [f"{ctx.interrupt('how many?', answer_type=int)} {order.item}"]}

    g = GraphBuilder(Order, name="shop")
    g.add_node("ask", ask)
    g.add_edge(START, "ask").add_edge("ask", END)
    below = GraphTool(g.compile(), description="Orders.", output=lambda order: "; ".join(order.log))
    agent = Agent(ScriptedModel([*calls(), "done"]), tools=[below])
    with Runtime(outer(agent), store="memory:") as runtime:
        runtime.run({}, thread="t")
        [again] = runtime.resume("t", "many").interrupts
        result = runtime.resume("t", 3)

    assert again.payload["question"] == "how many?"
    assert "many" in again.payload["refused_answer"]
    assert result.state.said == ["3 tea"]
