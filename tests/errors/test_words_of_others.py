"""Words of LangGraph get an error that names ours, whole and word by word; what was no such word stays Python's own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import graphrt
from graphrt import END, START, Command, GraphBuilder, InputError, Runtime
from graphrt.errors import DefinitionError
from graphrt.errors._foreign import BUILDER, GRAPH, KEYWORDS, PACKAGE, RUNTIME


class State(BaseModel):
    n: int = 0


def builder() -> GraphBuilder[Any, Any]:
    made: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    made.add_node("a", lambda state: None)
    return made.add_edge(START, "a").add_edge("a", END)


GRAPH_OF_ONE: Any = builder().compile()


def runtime() -> Any:
    return Runtime(GRAPH_OF_ONE, store="memory:")


def text(what: str, fix: str, code: str) -> str:
    return f"{what}\n  Fix: {fix}\n  See: python -m graphrt.errors {code}"


NO_CONFIG = (
    "Everything after the input has a name: run(input, thread='t'). There is no config: pass what nodes need as deps= "
    "of the Runtime, and limits as limits=."
)
THREAD = "Name the thread by thread=, and pass what nodes need as deps= of the Runtime."
MODES = "Use modes=: 'updates', 'values', 'messages', 'custom', 'events', 'live' or 'result'."
STORE = 'Give the store to the runtime: Runtime(graph, store="sqlite:///runs.db").'
CALLS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "compile(checkpointer=)": (
        lambda: builder().compile(checkpointer=object()),  # type: ignore[call-arg]
        "GraphBuilder.compile() has no parameter 'checkpointer'.",
        STORE,
    ),
    "compile(interrupt_before=)": (
        lambda: builder().compile(interrupt_before=["a"]),  # type: ignore[call-arg]
        "GraphBuilder.compile() has no parameter 'interrupt_before'.",
        "Name it where the node is added: add_node(name, fn, interrupt_before=True).",
    ),
    "run(input, config)": (
        lambda: GRAPH_OF_ONE.run({}, {"configurable": {"thread_id": "1"}}),
        "CompiledGraph.run() takes one argument without a name, the input, but 2 were given.",
        NO_CONFIG,
    ),
    "arun(input, config)": (
        lambda: asyncio.run(runtime().arun({}, {"configurable": {}})),
        "Runtime.arun() takes one argument without a name, the input, but 2 were given.",
        NO_CONFIG,
    ),
    "run(config=)": (lambda: runtime().run({}, config={}), "Runtime.run() has no parameter 'config'.", THREAD),
    "run(thread_id=)": (
        lambda: runtime().run({}, thread_id="1"),
        "Runtime.run() has no parameter 'thread_id'.",
        "Use thread=.",
    ),
    "stream(stream_mode=)": (
        lambda: runtime().stream({}, stream_mode="values"),
        "Runtime.stream() has no parameter 'stream_mode'.",
        MODES,
    ),
    "astream(stream_mode=)": (
        lambda: runtime().astream({}, stream_mode="values"),
        "Runtime.astream() has no parameter 'stream_mode'.",
        MODES,
    ),
    "Runtime(checkpointer=)": (
        lambda: Runtime(GRAPH_OF_ONE, checkpointer=object()),  # type: ignore[call-arg]
        "Runtime() has no parameter 'checkpointer'.",
        STORE,
    ),
    "GraphBuilder(state_schema=)": (
        lambda: GraphBuilder(state_schema=State),  # type: ignore[call-overload]
        "GraphBuilder() has no parameter 'state_schema'.",
        "Pass the class first: GraphBuilder(State).",
    ),
    "add_node(fn)": (
        lambda: builder().add_node(lambda state: None),  # type: ignore[call-overload]
        "GraphBuilder.add_node() missing 1 required positional argument: 'fn'.",
        "Name the node: add_node('plan', plan). Or decorate the function with @g.node, which takes its name.",
    ),
    "add_conditional_edges(node, router)": (
        lambda: builder().add_conditional_edges("a", lambda state: "x"),  # type: ignore[call-arg]
        "GraphBuilder.add_conditional_edges() missing 1 required positional argument: 'routes'.",
        "Say where each label leads: add_conditional_edges(node, router, {'label': target}), or list the targets.",
    ),
    "Command(resume=)": (
        lambda: Command(resume="yes"),  # type: ignore[arg-type]
        "A Command has no resume=.",
        "Answer a question from outside: Runtime(graph, store=...).resume(thread, answer).",
    ),
    "Command(graph=)": (
        lambda: Command(goto="a", graph="parent"),  # type: ignore[arg-type]
        "A Command has no graph=.",
        "A Command leads to nodes of its own graph. What a nested graph returns tells the graph around it.",
    ),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_a_call_with_a_word_of_langgraph(call: str) -> None:
    make, what, fix = CALLS[call]
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == text(what, fix, "unknown-option")


@pytest.mark.parametrize("option", ["config", "stream_mode", "recursion_limit", "checkpointer", "context"])
def test_an_option_of_a_graphs_run(option: str) -> None:
    with pytest.raises(InputError) as caught:
        GRAPH_OF_ONE.run({}, **{option: {}})
    assert (caught.value.what, caught.value.fix) == (f"A run has no option {option!r}.", KEYWORDS[option])


@pytest.mark.parametrize("policy", ["retry_policy", "cache_policy", "defer", "metadata", "destinations"])
def test_a_policy_of_a_node(policy: str) -> None:
    made: Any = GraphBuilder(State, name="g")
    made.add_node("a", lambda state: None, **{policy: True}).add_edge(START, "a")
    with pytest.raises(DefinitionError) as caught:
        made.compile()
    assert [problem.hint for problem in caught.value.problems] == [KEYWORDS[policy]]


OWNERS: list[tuple[Callable[[], Any], Any]] = [(builder, BUILDER), (lambda: GRAPH_OF_ONE, GRAPH), (runtime, RUNTIME)]


@pytest.mark.parametrize(("make", "words"), OWNERS, ids=["builder", "graph", "runtime"])
def test_a_method_that_there_is_not(make: Callable[[], Any], words: Any) -> None:
    owner = make()
    for name, fix in words.items():
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert str(caught.value) == text(f"A {type(owner).__name__} has no {name}().", fix, "unknown-name")
        assert isinstance(caught.value, InputError)
        assert not hasattr(owner, name)


def test_the_commonest_of_them() -> None:
    with pytest.raises(AttributeError) as caught:
        builder().run({})  # type: ignore[attr-defined]
    assert str(caught.value) == text(
        "A GraphBuilder has no run().",
        "A builder only declares the graph. Call compile() first: builder.compile().run(...).",
        "unknown-name",
    )


@pytest.mark.parametrize("words", [BUILDER, GRAPH, RUNTIME])
def test_what_is_advised_exists(words: Any) -> None:
    import re

    owners = [GraphBuilder, type(GRAPH_OF_ONE), Runtime]
    for fix in words.values():
        for name in re.findall(r"\b([a-z_]+)\(", fix):
            assert any(hasattr(owner, name) for owner in owners), (name, fix)


@pytest.mark.parametrize("name", list(PACKAGE))
def test_an_import_of_the_package(name: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from graphrt import {name}")
    assert str(caught.value) == f"graphrt has no {name!r}: {PACKAGE[name]}. See docs/how-to/from-langgraph.md."


def test_other_mistakes_stay_pythons_own() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        runtime().run({}, nonsense=1)
    with pytest.raises(AttributeError, match="'GraphBuilder' object has no attribute 'nonsense'") as caught:
        builder().nonsense  # type: ignore[attr-defined]  # noqa: B018 - it raises
    assert caught.value.name == "nonsense"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        graphrt.nonsense  # type: ignore[attr-defined]  # noqa: B018 - it raises


def test_a_type_error_of_the_users_own_is_not_touched() -> None:
    def broken(state: Any) -> Any:
        raise TypeError("run() takes 2 positional arguments but 3 were given")

    made: Any = GraphBuilder(State, name="g")
    made.add_node("a", broken).add_edge(START, "a")
    with pytest.raises(graphrt.NodeError, match="takes 2 positional arguments"):
        made.compile().run({})


def test_signatures_kinds_and_places_stay_as_they_were() -> None:
    assert "thread" in inspect.signature(Runtime.run).parameters
    assert inspect.iscoroutinefunction(Runtime.arun)
    assert inspect.iscoroutinefunction(type(GRAPH_OF_ONE).arun)
    made: Any = GraphBuilder(State, name="g").add_node("a", 1)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match=r"test_words_of_others\.py:\d+") as caught:
        made.compile()
    assert all("_foreign" not in str(problem.where) for problem in caught.value.problems)
