"""`memory_tools`: an agent stores and recalls facts in a namespace that the program chooses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import InputError, NodeError
from graphrt.harness import Agent, AgentReply, FunctionModel, GraphTool, ModelRequest, ToolCall, ToolContext
from graphrt.memory import memory_tools
from graphrt.stores import MemoryStore


class State(te.TypedDict, total=False):
    customer: str
    question: str
    answer: str


def asking(*calls: ToolCall) -> FunctionModel:
    """A model that makes *calls* in its first reply, and then repeats the results of the last of them."""

    def answer(request: ModelRequest) -> AgentReply:
        results = [message.text for message in request.messages if message.role == "tool"]
        return AgentReply(text=results[-1]) if results else AgentReply(tool_calls=calls)

    return FunctionModel(answer)


def graph_of(model: FunctionModel) -> Any:
    def talk(state: State, ctx: Context) -> dict[str, str]:
        agent = Agent(model, name="writer", tools=memory_tools(lambda context: f"customers/{context.deps}", limit=1))
        return {"answer": ctx.call(ctx.bind(agent).run, "hello").text}

    g = GraphBuilder(State, name="desk")
    g.add_node("talk", talk)
    g.add_sequence([START, "talk", END])
    return g.compile()


def test_calls_of_one_reply_all_store_in_the_configured_namespace() -> None:
    calls = [
        ToolCall(id=str(number), name="remember", arguments={"key": f"fact {number}", "text": "drinks tea"})
        for number in range(4)
    ]
    with Runtime(graph_of(asking(*calls)), store="memory:", deps=42) as runtime:
        runtime.run({}, thread="t")
        found = runtime.memory.search("customers/42")

        assert [(item.key, item.value) for item in found] == [(f"fact {number}", "drinks tea") for number in range(4)]
        assert runtime.reexecute("t").same


def test_namespace_may_come_from_the_state() -> None:
    model = asking(ToolCall(id="1", name="remember", arguments={"key": "drink", "text": "tea"}))
    tools = memory_tools(lambda context: f"customers/{context.state['customer']}", reads="customer")
    g = GraphBuilder(State, name="desk")
    g.add_node("talk", Agent(model, name="writer", tools=tools), input="question", output="answer")
    g.add_sequence([START, "talk", END])
    with Runtime(g.compile(), store="memory:") as runtime:
        for customer in ("ann", "bob"):
            runtime.run({"customer": customer, "question": "Tea, please."}, thread=customer)

        assert [item.namespace for item in runtime.memory.search("customers")] == ["customers/bob", "customers/ann"]


def test_recall_shows_the_best_matches_or_reports_none() -> None:
    call = ToolCall(id="1", name="recall", arguments={"query": "black tea"})
    with Runtime(graph_of(asking(call)), store="memory:", deps=42) as runtime:
        assert runtime.run({}, thread="one").state.get("answer") == "Nothing was remembered about that."
        runtime.memory.put("customers/42", "drink", "black tea")
        runtime.memory.put("customers/42", "other", "green tea")

        assert runtime.run({}, thread="two").state.get("answer") == "drink: black tea"


@pytest.mark.parametrize(
    ("namespace", "options", "words"),
    [
        ("", {}, "not a namespace"),
        (None, {}, "namespace="),
        ("customers", {"limit": 0}, "limit="),
        ("customers", {"expires_s": -1}, "expires_s="),
    ],
)
def test_invalid_arguments_are_refused_before_a_model_uses_the_tools(
    namespace: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        memory_tools(namespace, **options)


def test_tool_outside_a_node_has_no_memory() -> None:
    remember, _ = memory_tools("customers/42")
    context = ToolContext(call=ToolCall(id="1", name="remember", arguments={}))

    with pytest.raises(InputError) as refused:
        asyncio.run(remember.call({"key": "drink", "text": "tea"}, context))
    assert refused.value.code == "no-memory"


def test_run_without_a_memory_fails_without_a_report_to_the_model() -> None:
    call = ToolCall(id="1", name="recall", arguments={"query": "tea"})

    with pytest.raises(InputError) as refused:
        graph_of(asking(call)).run({})
    assert refused.value.code == "no-memory"


def test_graph_as_a_tool_has_a_memory_only_in_its_own_store() -> None:
    def keep(state: State, ctx: Context) -> None:
        ctx.memory.put("desk", "seen", "yes")

    inner = GraphBuilder(State, name="inner")
    inner.add_node("keep", keep)
    inner.add_sequence([START, "keep", END])

    def desk(**options: Any) -> Any:
        graph = GraphTool(inner.compile(), description="Keep it.", **options)
        g = GraphBuilder(State, name="desk")
        agent = Agent(asking(ToolCall(id="1", name="inner", arguments={})), tools=[graph])
        g.add_node("talk", agent, input="question", output="answer")
        g.add_sequence([START, "talk", END])
        return g.compile()

    store = MemoryStore()
    with Runtime(desk(store=store), store=store) as runtime:
        runtime.run({"question": "?"}, thread="t")
        assert [item.key for item in runtime.memory.search("desk")] == ["seen"]

    with Runtime(desk(), store="memory:") as runtime, pytest.raises(NodeError) as failed:
        runtime.run({"question": "?"}, thread="t")
    assert getattr(failed.value.__cause__, "code", "") == "no-memory"
    assert "GraphTool(graph, store=...)" in failed.value.fix
