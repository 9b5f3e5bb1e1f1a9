"""`tool`, `router`, `set_value`, `clear_error`, `record_error`."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import (
    DELETE,
    END,
    START,
    DefinitionError,
    GraphBuilder,
    InputError,
    NodeError,
    RouteError,
    Runtime,
    UpdateError,
)
from graphrt.harness import Template
from graphrt.nodes import batch, clear_error, copy_of, record_error, router, set_value, tool

from .support import State, one


def join(topic: str, answer: str = "!") -> str:
    return topic + answer


async def later(topic: str) -> dict[str, Any]:
    return {"answer": topic.upper(), "words": len(topic)}


def broken(topic: str) -> str:
    raise ValueError(f"no {topic}")


def test_parameters_without_a_default_get_the_fields_of_their_names() -> None:
    assert one(tool(join, into="answer")).run({"answer": "?"}).state.answer == "tea!"


@pytest.mark.parametrize("inputs", [["topic", "answer"], {"topic": "topic", "answer": "answer"}])
def test_inputs_name_the_fields(inputs: Any) -> None:
    assert one(tool(join, inputs=inputs, into="answer")).run({"answer": "?"}).state.answer == "tea?"


def noted(page: str, topic: str, mark: str = ".") -> str:
    return f"{page} on {topic}{mark}"


def noted_by_position(page: str, topic: str, /, mark: str = ".") -> str:
    return f"{page} on {topic}{mark}"


def noted_last(topic: str, page: str, /, *, mark: str = ".") -> str:
    return f"{page} on {topic}{mark}"


@pytest.mark.parametrize("fn", [noted, noted_by_position, noted_last])
@pytest.mark.parametrize("inputs", [None, "topic", {"topic": "topic"}], ids=str)
def test_inputs_fill_the_parameters_that_are_not_the_item(fn: Any, inputs: Any) -> None:
    work = tool(fn, inputs=inputs, item="page", into="notes", as_list=True)

    assert one(batch(State, work, over="pages")).run({"pages": ["a", "b"]}).state.notes == ["a on tea.", "b on tea."]


@pytest.mark.parametrize(
    "options",
    [
        {"item": "pages"},
        {"item": 5},
        {"item": "page", "inputs": {"page": "topic"}},
        {"inputs": 5},
        {"inputs": ()},
        {"inputs": ("topic", "answer", "verdict", "words")},
        {"inputs": {"page": "topic"}},
        {"inputs": {"page": "topic", "topc": "topic"}},
        {"item": "mark", "inputs": ("answer", "topic", "verdict")},
    ],
    ids=str,
)
def test_inputs_that_do_not_fit_the_function_are_refused_at_once(options: Any) -> None:
    with pytest.raises(InputError, match=r"tool\(\)"):
        tool(noted, into="answer", **options)


@pytest.mark.parametrize("is_async", [False, True])
def test_changed_fields_of_a_recorded_call_raise_a_question(*, is_async: bool) -> None:
    """The first result does not fit its field, so the node runs again, with another topic."""

    def shout(topic: str) -> str:
        return topic.upper()

    async def shout_later(topic: str) -> str:
        return shout(topic)

    runtime = Runtime(one(tool(shout_later if is_async else shout, into="words")), store="memory:")
    with pytest.raises(UpdateError):
        runtime.run({"topic": "tea"}, thread="t")
    runtime.update("t", {"topic": "5"})
    [question] = runtime.retry("t").interrupts

    assert (question.payload["recorded"], question.payload["present"]) == (["tea"], ["5"])
    assert runtime.resume("t", "run").state.words == 5


def test_result_is_the_update_without_into() -> None:
    assert one(tool(later)).run({}).state.words == 3


def test_into_may_map_fields_to_keys_of_the_result() -> None:
    state = one(tool(later, into={"verdict": "answer"})).run({}).state

    assert (state.verdict, state.answer) == ("TEA", "")


def test_result_without_a_field_is_not_dropped() -> None:
    with pytest.raises(NodeError, match="no field takes it"):
        one(tool(join)).run({})


@pytest.mark.parametrize("make", [lambda: tool(join, inputs="topci", into="answer"), lambda: tool(join, into="anser")])
def test_misspelled_fields_are_refused_by_compile(make: Any) -> None:
    with pytest.raises(DefinitionError):
        one(make())


def test_error_becomes_a_value_and_later_steps_succeed() -> None:
    g = GraphBuilder(State)
    g.add_node("look", tool(broken, into="answer"), on_error="keep")
    g.add_node("keep", record_error())
    g.add_node("clear", clear_error())
    g.add_edge(START, "look").add_sequence(["keep", "clear", END])

    steps = list(g.compile().steps({}))

    assert [step.outcome for step in steps if step.node != "look"] == ["success", "success"]
    assert steps[-2].after.error == {
        "type": "ValueError",
        "code": None,
        "message": "no tea",
        "node": "look",
        "task_id": "1.0:look",
        "item": None,
    }
    assert steps[-1].after.error is None


@pytest.mark.parametrize("as_list", [False, True])
def test_several_errors_are_all_reported(*, as_list: bool) -> None:
    g = GraphBuilder(State)
    for name in ("a", "b"):
        g.add_node(name, tool(broken, into="answer"), on_error="keep", writes=[])
        g.add_edge(START, name)
    g.add_node("keep", record_error(into="failed" if as_list else "error", as_list=as_list))

    state = g.compile().run({}).state

    if as_list:
        assert [one["node"] for one in state.failed] == ["a", "b"]
    else:
        assert state.error is not None
        assert state.error["message"] == "no tea (and 1 more)"


def test_values_are_written_and_never_shared() -> None:
    rows: list[Any] = [["x"]]
    node = set_value(
        answer=Template("about {topic}"), verdict=copy_of("topic"), words=lambda state: len(state.topic), rows=rows
    )
    graph = one(node)

    state = graph.run({}).state
    state.rows[0].append("y")

    assert (state.answer, state.verdict, state.words) == ("about tea", "tea", 3)
    assert graph.run({}).state.rows == [["x"]]


def test_a_value_may_be_a_deletion() -> None:
    assert one(set_value(answer=DELETE)).run({"answer": "x"}).state.answer == ""


def routed(**options: Any) -> Any:
    g = GraphBuilder(State)
    g.add_node("a", set_value(answer="a")).add_node("b", set_value(answer="b"))
    g.add_conditional_edges(START, *router("verdict", {"one": "a", "two": "b"}, **options))
    return g.compile()


def test_router_follows_the_field() -> None:
    assert routed().route(START, {"verdict": "two"}) == ("b",)
    assert routed().run({"verdict": "one"}).state.answer == "a"


@pytest.mark.parametrize("verdict", ["three", None])
def test_default_handles_unknown_labels_and_none(verdict: str | None) -> None:
    assert routed(default=END).route(START, {"verdict": verdict}) == (END,)
    with pytest.raises(RouteError):
        routed().run({"verdict": verdict})


def test_router_with_a_misspelt_field_is_a_finding() -> None:
    g = GraphBuilder(State).add_node("a", set_value(answer="a"))
    g.add_conditional_edges(START, *router("verdit", {"one": "a"}, default=END))

    with pytest.raises(DefinitionError, match="'verdit', which is not a field") as caught:
        g.compile()

    assert [problem.code for problem in caught.value.problems] == ["unknown-read"]


def test_router_may_be_a_function_with_declared_labels() -> None:
    from typing import Literal

    def choose(state: State) -> Literal["one", "zwei"]:
        return "one"

    g = GraphBuilder(State).add_node("a", set_value(answer="a"))
    g.add_conditional_edges(START, *router(choose, {"one": "a"}))

    with pytest.raises(DefinitionError, match="zwei"):
        g.compile()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tool("join"),
        lambda: tool(join, effect="twice"),
        lambda: tool(join, as_list=True),
        lambda: tool(join, inputs=[3]),
        lambda: router(3, {}),
        set_value,
        lambda: clear_error(3),
        lambda: record_error(into=""),
        lambda: copy_of(3),
    ],
)
def test_invalid_arguments_are_refused_at_once(make: Any) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.code == "input"
