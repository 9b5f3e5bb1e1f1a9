"""Wrong arguments of `recursive` are refused when the node is built; wrong values of the state before a call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from graphrt import START, GraphBuilder, InputError
from graphrt.harness import FunctionModel
from graphrt.nodes import RecursiveLimits, recursive
from graphrt.nodes._recursive.limits import size_of_prompt

from .support import State, graph_of, head_of, librarian


def test_unknown_field_is_refused_when_the_node_is_built() -> None:
    model = FunctionModel(librarian)

    with pytest.raises(InputError, match="topik"):
        recursive(State, "About {topik}?", context="book", into="answer", model=model)
    with pytest.raises(InputError, match="bok"):
        recursive(State, "Why?", context="bok", into="answer", model=model)
    with pytest.raises(InputError, match="anser"):
        recursive(State, "Why?", context="book", into="anser", model=model)


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": 3},
        {"context": ""},
        {"into": ""},
        {"model": 3},
        {"sandbox": object()},
        {"limits": RecursiveLimits(prompt_chars=5_000)},
        {"system": "x" * 40_000},
        {"name": "a/b"},
    ],
)
def test_wrong_argument_is_refused_when_the_node_is_built(wrong: dict[str, Any]) -> None:
    given = {"context": "book", "into": "answer", "model": FunctionModel(librarian), **wrong}

    with pytest.raises(InputError):
        recursive(State, "q", **given)


def test_question_that_is_too_long_is_refused_before_a_call() -> None:
    graph, model, _ = graph_of(librarian, question=lambda _: "x" * 2_001)

    assert graph.run({"book": "text"}).state.error == "question-too-long"
    assert model.calls == []


@pytest.mark.parametrize("given", [42, None])
def test_context_that_is_not_a_string_is_refused(given: Any) -> None:
    graph, model, _ = graph_of(librarian)

    assert graph.run({"book": given}).state.error == "bad-mapping"
    assert model.calls == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"context": lambda _: Path("missing.txt")}, "context= of recursive() raised FileNotFoundError"),
        ({"context": lambda _: 42}, "context= of recursive() raised InputError: an int is not a text"),
        ({"context": "book"}, "context='book' of recursive() raised InputError"),
        (
            {"context": lambda _: "text", "question": lambda _: 42},
            "question= of recursive() raised TypeError: it returned an int, not a text",
        ),
    ],
)
def test_error_about_a_value_names_the_argument_that_defines_it(wrong: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"question": "Why?", "context": "book", **wrong}
    node = recursive(State, **options, into="answer", model=FunctionModel(librarian))
    graph = GraphBuilder(State, name="g").add_node("ask", node).add_edge(START, "ask").compile()

    with pytest.raises(InputError, match=re.escape(message)) as caught:
        graph.run({"book": 42})
    assert caught.value.code == "bad-mapping"


def test_a_template_fills_the_question_from_the_state() -> None:
    graph, model, _ = graph_of(lambda _: "done", question="Who is {error}?")
    graph.run({"book": "text", "error": "Ann"})

    assert "Question: Who is Ann?" in head_of(model.calls[0])
    assert size_of_prompt(model.calls[0].messages, model.calls[0].tools) <= RecursiveLimits().prompt_chars
