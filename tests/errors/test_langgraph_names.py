"""The error for a missing LangGraph attribute names its counterpart; Python itself checks calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import graphrt
from graphrt import END, START, Command, CompiledGraph, DefinitionError, GraphBuilder, InputError, Runtime
from graphrt.errors._langgraph_names import ATTRIBUTES, EXPORTS, OPTIONS, POLICIES


class State(BaseModel):
    n: int = 0


def builder() -> GraphBuilder[Any, Any]:
    made: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    return made.add_node("a", lambda state: None).add_edge(START, "a").add_edge("a", END)


def graph() -> Any:
    return builder().compile()


def runtime() -> Any:
    return Runtime(graph(), store="memory:")


@pytest.mark.parametrize(
    ("make", "name", "advice"),
    [
        (builder, "set_entry_point", "set_entry(node)"),
        (builder, "run", "compile().run(...)"),
        (graph, "invoke", "run(input)"),
        (graph, "resume", "Runtime(graph, store=...).resume(...)"),
        (runtime, "get_state", "Runtime.state(thread)"),
    ],
)
def test_missing_attribute_names_its_counterpart(make: Callable[[], Any], name: str, advice: str) -> None:
    owner = make()

    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)

    assert str(caught.value) == f"{type(owner).__name__!r} object has no attribute {name!r}. Use {advice}."
    assert not hasattr(owner, name)


def test_counterparts_of_attributes_exist() -> None:
    owners = [GraphBuilder, CompiledGraph, Runtime]
    for advice in ATTRIBUTES.values():
        names = re.findall(r"\b([a-z_]+)\(", advice)

        assert names, advice
        assert all(any(hasattr(owner, name) for owner in owners) for name in names), advice


@pytest.mark.parametrize("name", list(EXPORTS))
def test_missing_export_names_its_counterpart(name: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from graphrt import {name}")

    assert str(caught.value) == f"graphrt has no {name!r}. Use {EXPORTS[name]}."


def test_other_missing_attributes_get_the_message_of_python() -> None:
    owners: list[Any] = [builder(), graph(), runtime()]
    for owner in owners:
        with pytest.raises(AttributeError) as caught:
            owner.nonsense  # noqa: B018 - it raises

        assert str(caught.value) == f"{type(owner).__name__!r} object has no attribute 'nonsense'"
        assert (caught.value.name, caught.value.obj) == ("nonsense", owner)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        graphrt.nonsense  # noqa: B018 - it raises


@pytest.mark.parametrize(
    "call",
    [
        lambda: builder().compile(checkpointer=object()),  # type: ignore[call-arg]
        lambda: builder().add_node(lambda state: None),  # type: ignore[call-overload]
        lambda: graph().run({}, {"configurable": {"thread_id": "1"}}),
        lambda: runtime().run({}, thread_id="1"),
        lambda: runtime().stream({}, stream_mode="values"),
        lambda: Command(resume="yes"),  # type: ignore[call-arg]
    ],
)
def test_call_that_does_not_match_the_signature_is_a_type_error(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="argument"):
        call()


@pytest.mark.parametrize("call", [Runtime, lambda graph, **options: graph.run({}, **options)])
def test_unknown_option_names_the_most_similar_one(call: Callable[..., Any]) -> None:
    with pytest.raises(InputError) as caught:
        call(graph(), stor="memory:")

    assert (caught.value.code, caught.value.fix) == ("input", "Did you mean 'store'?")


@pytest.mark.parametrize("name", list(OPTIONS))
def test_option_of_langgraph_names_its_counterpart(name: str) -> None:
    with pytest.raises(InputError) as caught:
        graph().run({}, **{name: "1"})

    assert caught.value.fix == f"Use {OPTIONS[name]}."


@pytest.mark.parametrize("name", list(POLICIES))
def test_node_policy_of_langgraph_names_its_counterpart(name: str) -> None:
    made: Any = GraphBuilder(State, name="g")

    with pytest.raises(DefinitionError) as caught:
        made.add_node("a", lambda state: None, **{name: 1}).add_edge(START, "a").compile()

    assert caught.value.problems[0].hint == f"Use {POLICIES[name]}."


@pytest.mark.parametrize(
    ("module", "name"), [("graph", "StateGraph"), ("harness", "ToolNode"), ("stores", "InMemorySaver")]
)
def test_modules_name_the_counterparts_of_langgraph(module: str, name: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from graphrt.{module} import {name}")

    assert str(caught.value) == f"graphrt.{module} has no {name!r}. Use {EXPORTS[name]}."


def test_reducer_of_langgraph_names_its_counterpart() -> None:
    with pytest.raises(ImportError, match=r"graphrt.reducers has no 'add_messages'. Use graphrt.reducers.messages."):
        from graphrt.reducers import add_messages  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'apend'"):
        from graphrt.reducers import apend  # type: ignore[attr-defined]  # noqa: F401
