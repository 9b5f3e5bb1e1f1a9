"""Graphs of LangGraph, converted: one test for each converted feature, and for each reported one."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.channels import EphemeralValue, Topic, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.errors import NodeError
from langgraph.func import task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.runtime import RunControl
from langgraph.runtime import Runtime as LangGraphRuntime
from langgraph.store.base import BaseStore
from langgraph.types import (
    CachePolicy,
    Command,
    Overwrite,
    RetryPolicy,
    Send,
    StreamWriter,
    TimeoutPolicy,
    interrupt,
)
from pydantic import BaseModel
from typing_extensions import TypedDict

from graphrt import START as OWN_START
from graphrt import GraphBuilder, Limits, Runtime
from graphrt.compat.langgraph import RunContext, convert
from graphrt.errors import ConcurrentUpdateError, DefinitionError, StepLimitError
from graphrt.errors import NodeError as NodeFailed
from graphrt.harness import Message, SystemMessage


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    value: int


class Part(BaseModel):
    value: int


class Parts(TypedDict):
    items: Annotated[list[Part], operator.add]
    text: str


class Text(str):
    """Like `message.text` of LangChain."""

    __slots__ = ()


def note(text: str) -> Callable[[Any], dict[str, list[str]]]:
    """Return a node that writes *text*."""
    return lambda state: {"log": [text]}


def graph_of(schema: Any, nodes: Mapping[str, Any], *edges: tuple[Any, str], **options: Any) -> Any:
    """Return a StateGraph with *nodes* and *edges*; *options* are those of the class."""
    builder = StateGraph(schema, **options)
    for name, node in nodes.items():
        builder.add_node(name, node)
    for source, target in edges:
        builder.add_edge(source, target)
    return builder


def ran(graph: Any, given: Mapping[str, Any], **options: Any) -> Any:
    """Return the final state of a run of the converted graph, after checking that it equals LangGraph's."""
    converted, _ = convert(graph)
    return converted.run(given, **options).state


def same(graph: Any, given: Mapping[str, Any]) -> Any:
    """Return the final state of a run, checked against LangGraph's."""
    state = ran(graph, given)
    assert state == graph.compile().invoke(given)
    return state


# -- channels ------------------------------------------------------------------------------------------------


def test_reducer_also_folds_the_input() -> None:
    """LangGraph starts from the type's empty value, and shows it for unwritten fields."""

    class State(TypedDict):
        total: Annotated[int, lambda old, new: old + 10 * new]
        log: Annotated[list[str], operator.add]

    graph = graph_of(State, {"a": lambda state: {"total": 2}}, (START, "a"))

    assert same(graph, {"total": 1}) == {"total": 30, "log": []}


def test_updates_fold_in_order_of_node_names() -> None:
    graph = graph_of(Log, {"b": note("b"), "a": note("a")}, (START, "a"), (START, "b"))

    assert same(graph, {})["log"] == ["a", "b"]


def test_messages_are_coerced_replaced_and_removed() -> None:
    def edit(state: Any) -> Any:
        return {"messages": [("ai", "hello"), RemoveMessage(id="1"), HumanMessage("new", id="2")]}

    graph = graph_of(MessagesState, {"edit": edit}, (START, "edit"))
    state = ran(graph, {"messages": [HumanMessage("first", id="1"), HumanMessage("old", id="2")]})

    assert [(one.type, one.content) for one in state["messages"]] == [("human", "new"), ("ai", "hello")]


def test_messages_fold_from_the_journal_to_the_same_state() -> None:
    """Ids are assigned before an update is journalled: `add_messages` would draw others at each fold."""
    graph = graph_of(MessagesState, {"reply": lambda state: {"messages": ("ai", "hello")}}, (START, "reply"))
    converted, _ = convert(graph)

    with Runtime(converted, store="memory:", seed=1) as runtime:
        state = runtime.run({"messages": "hi"}, thread="t").state
        again = runtime.replay("t").values

    assert again == state
    assert all(one.id for one in again["messages"])


def test_messages_of_both_libraries_are_stored_in_one_process() -> None:
    class Chat(BaseModel):
        said: list[Message] = []

    own = GraphBuilder(Chat, name="chat").add_node("answer", lambda state: {"said": [SystemMessage(text="hi")]})
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [("system", "hello")]})
    builder.add_edge(START, "answer")
    graph, _ = convert(builder)

    with Runtime(own.add_edge(OWN_START, "answer").compile(), store="memory:") as runtime:
        runtime.run({}, thread="t")
        assert runtime.state("t").values.said == [SystemMessage(text="hi")]
    with Runtime(graph, store="memory:") as runtime:
        runtime.run({"messages": []}, thread="t")
        assert [one.content for one in runtime.state("t").values["messages"]] == ["hello"]


def test_fields_of_other_channels_have_the_lifetime_of_their_channels() -> None:
    class State(TypedDict):
        log: Annotated[list[str], operator.add]
        once: Annotated[str, EphemeralValue]
        hidden: Annotated[Any, UntrackedValue]
        topic: Annotated[list[str], Topic(str, accumulate=True)]

    seen: list[Any] = []
    lock = object()
    first = {"once": "now", "hidden": lock, "topic": "x"}
    nodes = {"a": lambda state: first, "b": lambda state: seen.append(state) or {"topic": ["y"]}, "c": seen.append}
    graph = graph_of(State, nodes, (START, "a"), ("a", "b"), ("b", "c"))
    converted, _ = convert(graph)

    with Runtime(converted, store="memory:") as runtime:
        runtime.run({}, thread="t")

    assert seen[0] == {"log": [], "once": "now", "hidden": lock, "topic": ["x"]}
    assert seen[1] == {"log": [], "hidden": lock, "topic": ["x", "y"]}


def test_overwrite_replaces_the_folded_value_of_a_reducer() -> None:
    graph = graph_of(Log, {"a": note("a"), "b": lambda state: {"log": Overwrite(["b"])}}, (START, "a"), ("a", "b"))

    assert same(graph, {"log": ["in"]})["log"] == ["b"]


def test_classes_of_the_annotations_and_subclasses_of_str_can_be_stored() -> None:
    node = lambda state: {"items": [Part(value=1)], "text": Text("t")}
    converted, _ = convert(graph_of(Parts, {"a": node}, (START, "a")))

    with Runtime(converted, store="memory:") as runtime:
        runtime.run({}, thread="t")
        state = runtime.state("t").values

    assert state["items"] == [Part(value=1)]
    assert type(state["text"]) is str


def test_state_may_be_one_value() -> None:
    graph = graph_of(Annotated[list[str], operator.add], {"a": lambda state: [*state, "a"]}, (START, "a"))

    assert ran(graph, {"__root__": ["in"]}) == {"__root__": ["in", "in", "a"]}


def test_two_nodes_that_write_a_field_without_reducer_conflict() -> None:
    graph = graph_of(Log, {"a": lambda s: {"value": 1}, "b": lambda s: {"value": 2}}, (START, "a"), (START, "b"))

    with pytest.raises(ConcurrentUpdateError):
        ran(graph, {})


# -- edges ---------------------------------------------------------------------------------------------------


def test_branch_sees_only_the_writes_of_its_own_task() -> None:
    """LangGraph calls it in the task, on the snapshot with the task's writes."""
    seen: list[Any] = []

    def choose(state: Any) -> str:
        seen.append(list(state["log"]))
        return "end"

    builder = graph_of(Log, {"a": note("a"), "b": note("b")}, (START, "a"), (START, "b"))
    builder.add_conditional_edges("b", choose, {"end": END})

    assert ran(builder, {"log": ["in"]})["log"] == ["in", "a", "b"]
    assert seen == [["in", "b"]]


def test_static_edges_are_followed_in_addition_to_branches_and_commands() -> None:
    def jump(state: Any) -> Any:
        return Command(update={"log": ["a"]}, goto="d")

    nodes = {"a": jump, "b": note("b"), "c": note("c"), "d": note("d")}
    builder = graph_of(Log, nodes, (START, "a"), ("a", "b"))
    builder.add_conditional_edges("a", lambda state: ["c"], ["c", "d"])

    assert same(builder, {})["log"] == ["a", "b", "c", "d"]


def test_argument_of_a_send_is_the_state_of_its_task() -> None:
    def each(state: Any) -> list[Send]:
        return [Send("one", {"word": word}) for word in state["log"]]

    builder = graph_of(Log, {"one": lambda state: {"log": [state["word"].upper()]}, "last": note("last")})
    builder.add_conditional_edges(START, each, ["one"])
    builder.add_edge("one", "last")

    assert same(builder, {"log": ["x", "y"]})["log"] == ["x", "y", "X", "Y", "last"]


def test_waiting_edge_waits_also_if_its_source_has_branches() -> None:
    nodes = {name: note(name) for name in "abcd"}
    builder = graph_of(Log, nodes, (START, "a"), (START, "b"), (["a", "b"], "d"))
    builder.add_conditional_edges("a", lambda state: "c", ["c"])

    assert same(builder, {})["log"] == ["a", "b", "c", "d"]


def test_edit_as_the_source_of_a_waiting_edge_follows_its_branches() -> None:
    builder = graph_of(Log, {name: note(name) for name in "abc"}, (START, "a"), (["a", "b"], "c"))
    builder.add_conditional_edges("a", lambda state: "b", ["b", END])
    with Runtime(convert(builder)[0], store="memory:") as runtime:
        runtime.run({"log": []}, thread="t")
        runtime.update("t", {"log": ["edit"]}, as_node="a")

        assert runtime.retry("t").state["log"] == ["a", "b", "c", "edit", "b", "c"]


def test_deferred_node_runs_once_no_other_task_is_due() -> None:
    builder = graph_of(Log, {name: note(name) for name in "abc"})
    builder.add_node("last", note("last"), defer=True)
    for edge in ((START, "a"), ("a", "b"), ("a", "last"), ("b", "c"), ("c", "last")):
        builder.add_edge(*edge)

    assert same(builder, {})["log"] == ["a", "b", "c", "last"]


def test_async_router_chooses_the_next_node() -> None:
    async def choose(state: Any, config: RunnableConfig) -> str:
        return config["configurable"]["to"]

    builder = graph_of(Log, {"a": note("a"), "b": note("b")}, (START, "a"))
    builder.add_conditional_edges("a", choose)

    assert ran(builder, {}, deps=RunContext(config={"configurable": {"to": "b"}}))["log"] == ["a", "b"]


def test_several_commands_of_one_node_fold_in_their_order() -> None:
    commands = [Command(update={"log": ["x"]}, goto="b"), Command(update={"log": ["y"], "unknown": 1})]
    graph = graph_of(Log, {"a": lambda state: commands, "b": note("b")}, (START, "a"))

    assert same(graph, {})["log"] == ["x", "y", "b"]


# -- nodes ---------------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """The context of runs."""

    name: str


def test_nodes_get_the_parameters_of_their_signatures() -> None:
    def config(state: Log, config: RunnableConfig) -> Any:
        return {"log": [config["configurable"]["mark"], get_config()["metadata"]["langgraph_node"]]}

    def runtime(state: Log, runtime: LangGraphRuntime[Reader]) -> Any:
        get_stream_writer()(f"for {runtime.context.name}")
        return {"log": [runtime.context.name, str(runtime.execution_info.node_attempt)]}

    async def wait(state: Log, *, writer: StreamWriter) -> Any:
        await asyncio.sleep(0)
        writer("waited")
        return {"log": ["async"]}

    nodes = {"a": config, "b": runtime, "c": wait, "d": RunnableLambda(lambda state: {"log": ["runnable"]})}
    edges = [(START, "a"), ("a", "b"), ("b", "c"), ("c", "d")]
    converted, _ = convert(graph_of(Log, nodes, *edges, context_schema=Reader))
    deps = RunContext(context={"name": "Ada"}, config={"configurable": {"mark": "m"}})

    stream = converted.stream({}, deps=deps, modes=("custom", "values"))
    items = list(stream)

    assert [item for mode, item in items if mode == "custom"] == ["for Ada", "waited"]
    assert items[-1][1]["log"] == ["m", "a", "Ada", "1", "async", "runnable"]


def test_node_gets_an_instance_of_its_input_schema() -> None:
    def node(state: Part) -> Any:
        return {"log": [repr(state)]}

    assert same(graph_of(Log, {"a": node}, (START, "a")), {"value": 3, "log": []})["log"] == ["Part(value=3)"]


class Tale(BaseModel):
    title: str
    author: str | None = None
    notes: Annotated[list[str], operator.add] = ["new"]


@dataclass
class Song:
    title: str
    author: str | None = None
    notes: Annotated[list[str], operator.add] = field(default_factory=lambda: ["new"])


@pytest.mark.parametrize("kind", [Tale, Song])
def test_input_may_be_an_instance_of_the_state_class(kind: Any) -> None:
    """Also for the next run of a thread."""
    graph = graph_of(kind, {"a": lambda state: {"notes": [state.title]}}, (START, "a"))
    theirs = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    ours = Runtime(convert(graph)[0], store="memory:")

    for state in (kind(title="one"), kind(title="two", author="Ann", notes=["x"])):
        assert ours.run(state, thread="t").state == theirs.invoke(state, config)


def test_async_nodes_run_on_the_loop_of_the_caller() -> None:
    async def run() -> Any:
        loop = asyncio.get_running_loop()

        async def node(state: Any) -> Any:
            return {"log": [str(asyncio.get_running_loop() is loop)]}

        converted, _ = convert(graph_of(Log, {"a": node}, (START, "a")))
        return (await converted.arun({})).state

    assert asyncio.run(run())["log"] == ["True"]


def test_managed_values_count_the_remaining_steps() -> None:
    class State(TypedDict):
        log: Annotated[list[Any], operator.add]
        left: RemainingSteps
        last: IsLastStep

    node = lambda state: {"log": [(state["left"], state["last"])]}
    graph = graph_of(State, {"a": node, "b": node}, (START, "a"), ("a", "b"))
    theirs = graph.compile().invoke({}, {"recursion_limit": 3})

    assert ran(graph, {}, limits=Limits(max_steps=3)) == theirs == {"log": [(2, False), (1, True)]}


def test_recursion_limit_is_the_limit_of_steps() -> None:
    graph = graph_of(Log, {"a": note("a")}, (START, "a"), ("a", "a")).compile().with_config(recursion_limit=5)

    with pytest.raises(StepLimitError, match="5"):
        ran(graph, {})


def test_store_is_the_memory_of_the_runtime() -> None:
    def write(state: Any) -> Any:
        get_store().put(("people", "ada"), "drink", {"likes": "tea"})

    def read(state: Any, *, store: BaseStore) -> Any:
        found = store.search(("people",), filter={"likes": "tea"})
        return {"log": [found[0].key, store.get(("people", "ada"), "drink").value["likes"]]}

    converted, _ = convert(graph_of(Log, {"a": write, "b": read}, (START, "a"), ("a", "b")))

    with Runtime(converted, store="memory:") as runtime:
        assert runtime.run({}, thread="t").state["log"] == ["drink", "tea"]
        assert runtime.memory.get("people/ada", "drink").value == {"likes": "tea"}


def test_drained_control_ends_the_run_after_the_superstep() -> None:
    control = RunControl()
    nodes = {"a": lambda state: control.request_drain() or {"log": ["a"]}, "b": note("b")}
    converted, _ = convert(graph_of(Log, nodes, (START, "a"), ("a", "b")))

    with Runtime(converted, store="memory:", deps=RunContext(control=control)) as runtime:
        assert runtime.run({}, thread="t").state["log"] == ["a"]
        assert runtime.state("t").next == ("b",)


# -- policies ------------------------------------------------------------------------------------------------


def test_retries_and_timeouts_follow_the_policies() -> None:
    tries: list[int] = []

    async def slow(state: Any) -> Any:
        tries.append(1)
        if len(tries) < 2:
            await asyncio.sleep(5)
        if len(tries) < 3:
            raise KeyError("again")
        return {"log": [str(len(tries))]}

    builder = StateGraph(Log)
    retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=lambda error: "TimeoutError" not in str(error))
    builder.add_node("a", slow, retry_policy=retry, timeout=TimeoutPolicy(run_timeout=1.0))
    builder.add_edge(START, "a")

    assert ran(builder, {})["log"] == ["3"]


def test_handler_gets_the_error_and_chooses_the_next_node() -> None:
    def fail(state: Any) -> Any:
        raise ValueError("broken")

    def handle(state: Any, error: NodeError) -> Any:
        return Command(update={"log": [f"{error.node}: {error.error}"]}, goto="b")

    builder = graph_of(Log, {"b": note("b")})
    builder.add_node("a", fail, error_handler=handle)
    builder.add_edge(START, "a")

    assert same(builder, {})["log"] == ["a: broken", "b"]


def test_cache_uses_its_key_and_its_time_to_live_is_reported() -> None:
    from langgraph.cache.memory import InMemoryCache

    calls: list[int] = []
    builder = StateGraph(Log)
    policy = CachePolicy(key_func=lambda state: str(state["value"]), ttl=5)
    builder.add_node("a", lambda state: calls.append(1) or {"log": ["a"]}, cache_policy=policy)
    builder.add_edge(START, "a")
    converted, report = convert(builder.compile(cache=InMemoryCache()))

    converted.run({"value": 1, "log": []})
    converted.run({"value": 1, "log": ["other"]})

    assert calls == [1]
    assert [(one.node, "time to live" in one.feature) for one in report.left_out] == [("a", True)]


# -- questions -----------------------------------------------------------------------------------------------


def test_node_runs_again_once_for_each_answer() -> None:
    runs: list[int] = []

    def ask(state: Any) -> Any:
        runs.append(1)
        return {"log": [interrupt("first?"), interrupt({"second": True})]}

    converted, _ = convert(graph_of(Log, {"a": ask}, (START, "a")))

    with Runtime(converted, store="memory:") as runtime:
        first = runtime.run({}, thread="t").interrupts
        second = runtime.resume("t", "one").interrupts
        state = runtime.resume("t", "two").state

    assert [one.payload for one in (*first, *second)] == ["first?", {"second": True}]
    assert state["log"] == ["one", "two"]
    assert len(runs) == 3


def test_pauses_before_and_after_nodes_follow_compile() -> None:
    graph = graph_of(Log, {"a": note("a"), "b": note("b")}, (START, "a"), ("a", "b"))
    converted, _ = convert(graph.compile(interrupt_before=["b"], interrupt_after="*"))

    with Runtime(converted, store="memory:") as runtime:
        after = runtime.run({}, thread="t")
        before = runtime.resume("t", True)

    assert [one.kind for one in (*after.interrupts, *before.interrupts)] == ["after", "before"]


# -- nested graphs -------------------------------------------------------------------------------------------


def test_nested_graph_returns_values_which_the_reducers_fold() -> None:
    inner = graph_of(Log, {"i": note("i")}, (START, "i")).compile()
    graph = graph_of(Log, {"a": note("a"), "inner": inner}, (START, "a"), ("a", "inner"))

    assert same(graph, {})["log"] == ["a", "a", "i"]


def test_a_question_in_a_nested_graph_pauses_the_run() -> None:
    inner = graph_of(Log, {"i": lambda state: {"log": [interrupt("well?")]}}, (START, "i")).compile()
    converted, _ = convert(graph_of(Log, {"inner": inner}, (START, "inner")))

    with Runtime(converted, store="memory:") as runtime:
        assert runtime.run({}, thread="t").interrupts[0].id == "t/1.0:inner/1.0:i#key=interrupt 0"
        assert runtime.resume("t", "yes").state["log"] == ["yes"]


def test_command_for_the_parent_ends_the_nested_graph() -> None:
    """The update goes to the parent; the writes of the nested graph are dropped, like in LangGraph."""

    class Inner(TypedDict):
        own: Annotated[list[str], operator.add]
        log: Annotated[list[str], operator.add]

    def hand_over(state: Any) -> Any:
        return Command(update={"value": 7}, goto="last", graph=Command.PARENT)

    inner = graph_of(Inner, {"i": note("i"), "j": hand_over, "k": note("never")}, (START, "i"), ("i", "j"), ("j", "k"))
    nodes = {"inner": inner.compile(), "last": note("last"), "next": note("next")}
    graph = graph_of(Log, nodes, (START, "inner"), ("inner", "next"))

    assert same(graph, {}) == {"log": ["last", "next"], "value": 7}


def test_graph_called_by_a_node_runs_inside_the_node() -> None:
    inner = graph_of(Log, {"i": lambda state: {"log": [interrupt("inside?")]}}, (START, "i")).compile()
    converted, _ = convert(graph_of(Log, {"a": lambda state: inner.invoke({"log": []})}, (START, "a")))

    with Runtime(converted, store="memory:") as runtime:
        assert runtime.run({}, thread="t").interrupts[0].payload == "inside?"
        assert runtime.resume("t", "yes").state["log"] == ["yes"]


def test_nested_graph_with_its_own_state_keeps_it_in_the_thread() -> None:
    class Inner(TypedDict):
        own: Annotated[list[str], operator.add]
        log: str

    inner = graph_of(Inner, {"i": lambda state: {"own": ["x"], "log": str(len(state["own"]))}}, (START, "i"))
    nodes = {"inner": inner.compile(checkpointer=True)}

    class Outer(TypedDict):
        log: str

    converted, _ = convert(graph_of(Outer, nodes, (START, "inner")), strict=True)

    with Runtime(converted, store="memory:") as runtime:
        assert [runtime.run({"log": ""}, thread="t").state["log"] for _ in range(3)] == ["0", "1", "2"]


def test_called_graph_with_its_own_state_keeps_it_in_the_thread() -> None:
    inner = graph_of(Log, {"i": note("i")}, (START, "i")).compile(checkpointer=True)
    converted, _ = convert(graph_of(Log, {"a": lambda state: inner.invoke({"log": ["in"]})}, (START, "a")))

    with Runtime(converted, store="memory:") as runtime:
        first = runtime.run({"log": []}, thread="t").state["log"]
        second = runtime.run({"log": []}, thread="t").state["log"]

    assert (first, second) == (["in", "i"], ["in", "i", "in", "i", "in", "i"])


# -- agents --------------------------------------------------------------------------------------------------


class Scripted(BaseChatModel):
    """A model that answers with messages from a list."""

    replies: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        number = sum(isinstance(one, AIMessage) for one in messages)
        return ChatResult(generations=[ChatGeneration(message=self.replies[number])])


@tool
def weather(city: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}, {len(state['messages'])} messages"


def call(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "c1"}])


@pytest.mark.parametrize("kind", ["create_react_agent", "create_agent"])
def test_ready_made_agent_runs_and_survives_in_a_store(kind: str) -> None:
    model = Scripted(replies=[call("weather", city="Rome"), AIMessage("It is sunny.")])
    if kind == "create_agent":
        from langchain.agents import create_agent

        agent: Any = create_agent(model, [weather])
    else:
        from langgraph.prebuilt import create_react_agent

        with pytest.warns(DeprecationWarning, match="create_react_agent"):
            agent = create_react_agent(model, [weather])
    converted, report = convert(agent, strict=True)

    with Runtime(converted, store="memory:") as runtime:
        runtime.run({"messages": [("user", "Weather in Rome?")]}, thread="t")
        messages = runtime.state("t").values["messages"]

    assert [one.type for one in messages] == ["human", "ai", "tool", "ai"]
    assert messages[2].content == "sunny in Rome, 2 messages"
    assert not report.left_out


class Forecast(BaseModel):
    sunny: bool


@pytest.mark.parametrize("kind", ["create_react_agent", "create_agent"])
def test_the_structured_response_of_an_agent_is_stored(kind: str) -> None:
    from langchain.agents import create_agent
    from langchain.agents.structured_output import ToolStrategy
    from langgraph.prebuilt import create_react_agent

    class Structured(Scripted):
        def with_structured_output(self, schema: Any, **_options: Any) -> Any:
            return RunnableLambda(lambda _messages: schema(sunny=True))

    agent: Any
    if kind == "create_agent":
        model = Scripted(replies=[call("Forecast", sunny=True)])
        agent = create_agent(model, [weather], response_format=ToolStrategy(Forecast))
    else:
        with pytest.warns(DeprecationWarning, match="create_react_agent"):
            agent = create_react_agent(Structured(replies=[AIMessage("Sunny.")]), [], response_format=Forecast)

    with Runtime(convert(agent)[0], store="memory:") as runtime:
        runtime.run({"messages": [("user", "Weather in Rome?")]}, thread="t")
        assert runtime.state("t").values["structured_response"] == Forecast(sunny=True)


def test_agent_whose_middleware_is_sync_only_runs_like_langgraph_invokes_it() -> None:
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware, wrap_model_call, wrap_tool_call

    class Sync(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

    @wrap_model_call
    def shouted(request: Any, handler: Any) -> Any:
        answer = handler(request).result[0]
        return answer.model_copy(update={"content": answer.content.upper()})

    @wrap_tool_call
    def traced(request: Any, handler: Any) -> Any:
        result = handler(request)
        return result.model_copy(update={"content": f"{request.tool_call['name']}: {result.content}"})

    model = Scripted(replies=[call("weather", city="Rome"), AIMessage("It is sunny.")])
    agent: Any = create_agent(model, [weather], middleware=[Sync(), shouted, traced])

    messages = ran(agent, {"messages": [("user", "Weather in Rome?")]})["messages"]

    assert [one.content for one in messages[2:]] == ["weather: sunny in Rome, 2 messages", "IT IS SUNNY."]


def test_tool_node_folds_the_commands_of_its_tools() -> None:
    @tool
    def remember(fact: str) -> Any:
        """Keep a fact."""
        return Command(update={"value": 1, "messages": [ToolMessage(fact, tool_call_id="c1")]})

    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        value: int

    graph = graph_of(State, {"tools": ToolNode([remember])}, (START, "tools"))
    state = ran(graph, {"messages": [call("remember", fact="it rains")]})

    assert (state["value"], state["messages"][-1].content) == (1, "it rains")


# -- the report ----------------------------------------------------------------------------------------------


def test_strict_raises_with_every_omission() -> None:
    from langgraph.cache.memory import InMemoryCache

    builder = StateGraph(Log)
    for name in ("a", "b"):
        builder.add_node(name, note(name), cache_policy=CachePolicy(ttl=1))
        builder.add_edge(START, name)

    with pytest.raises(DefinitionError) as raised:
        convert(builder.compile(cache=InMemoryCache()), strict=True)

    assert [(one.code, one.node) for one in raised.value.problems] == [
        ("not-carried-over", "a"),
        ("not-carried-over", "b"),
    ]


def test_task_of_the_functional_api_is_left_out_and_its_call_fails() -> None:
    @task
    def double(value: int) -> int:
        return 2 * value

    converted, report = convert(
        graph_of(Log, {"a": lambda state: {"value": double(state["value"]).result()}}, (START, "a"))
    )

    assert [(one.feature, one.node) for one in report.left_out] == [("the @task double", "a")]
    with pytest.raises(NodeFailed, match=r"NotImplementedError: .* call its function, double\.func"):
        converted.run({"value": 1})


def test_report_lists_differences_by_node() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    inner = graph_of(Log, {"i": note("i")}, (START, "i")).compile(checkpointer=InMemorySaver())
    graph = graph_of(Log, {"inner": inner}, (START, "inner")).compile(name="desk")
    _, report = convert(graph)

    assert [(one.kind, one.node) for one in report] == [("differs", "inner")]
    assert str(report).startswith("desk:\n  differs: the checkpointer InMemorySaver of node 'inner'")
    assert report.to_dict()["deviations"][0]["fix"].startswith("Give the runtime a store")


def test_value_that_is_not_a_graph_is_refused() -> None:
    with pytest.raises(TypeError, match="StateGraph"):
        convert(object())


def test_the_error_of_a_node_is_the_cause_of_the_failure() -> None:
    def fail(state: Any) -> Literal["a"]:
        raise ValueError("broken")

    with pytest.raises(NodeFailed, match="broken") as raised:
        ran(graph_of(Log, {"a": fail}, (START, "a")), {})

    assert isinstance(raised.value.__cause__, ValueError)
