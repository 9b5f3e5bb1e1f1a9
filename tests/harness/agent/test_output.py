"""The form of an answer: requested, validated, and reported to the model once if it does not match."""

from __future__ import annotations

import asyncio
import inspect
import typing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NewType

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict

from graphrt.errors import AgentLimitError, BadResponseError, InputError
from graphrt.harness import Agent, AgentLimits, MockHarness, OutputSpec
from graphrt.harness.agent.agent import AgentOptions

from .fakes import Model, call, counting, heard, run, says


class Book(BaseModel):
    title: str
    pages: int


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


class OfTyping(typing.TypedDict):
    name: str


class Inner(BaseModel):
    books: list[Book]


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (Book, '{"title": "A", "pages": 3}', Book(title="A", pages=3)),
        (Point, '{"x": 1}', Point(1)),
        (OfTyping, '{"name": "n"}', {"name": "n"}),
        (Named, '{"name": "n"}', {"name": "n"}),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (int, '{"value": 7}', 7),
        (list[Book], '{"value": [{"title": "A", "pages": 3}]}', [Book(title="A", pages=3)]),
        (Inner, '{"books": []}', Inner(books=[])),
        (Book, '```json\n{"title": "A", "pages": 3}\n```', Book(title="A", pages=3)),
        (Book, ' \n```\n{"title": "A", "pages": 3}```\n ', Book(title="A", pages=3)),
    ],
)
def test_answer_is_converted_to_a_value(wanted, text, value):
    model = Model(text)

    reply = run(Agent(model, output=wanted))

    assert reply.output == value
    assert reply.text == text
    spec = model.asked[0].output
    assert spec is not None
    assert spec.schema["type"] == "object"


def test_answer_of_another_form_is_reported_to_the_model_once():
    model = Model("a book", '{"title": "A", "pages": 3}')

    reply = run(Agent(model, output=Book))

    assert reply.output == Book(title="A", pages=3)
    assert "it is not JSON" in model.asked[1].text
    assert reply.usage.calls == 2


@pytest.mark.parametrize("text", ["", "[]", '{"title": "A"}', '{"title": "A", "pages": "many"}', "null", '{"a":1}{'])
def test_second_answer_of_another_form_fails_the_run(text):
    transcript: list[Any] = []

    with pytest.raises(BadResponseError) as caught:
        run(Agent(Model(text, text), output=Book), transcript=transcript)

    assert caught.value.code == "bad-output"
    assert len(transcript) == 4
    assert caught.value.messages == tuple(transcript)


def test_repair_is_a_model_call_within_the_limits():
    with pytest.raises(AgentLimitError):
        run(Agent(Model("a book"), output=Book, limits=AgentLimits(model_calls=1)))


def test_tools_are_called_before_the_answer_also_after_a_repair():
    counts: list[int] = []
    model = Model(call("note", x=1), "a book", call("note", x=2), '{"title": "A", "pages": 3}')

    assert run(Agent(model, tools=[counting(counts)], output=Book)).output == Book(title="A", pages=3)
    assert counts == [1, 2]


@pytest.mark.parametrize("system", [None, "be brief"])
def test_model_without_schemas_gets_the_form_in_words(system):
    model = Model('{"title": "A", "pages": 3}', output_schema=False)

    assert run(Agent(model, output=Book, system=system)).output == Book(title="A", pages=3)
    assert model.asked[0].output is None
    assert [one.split(":")[0] for one in heard(model.asked[0])] == ["system", "user"]
    assert '"pages"' in (model.asked[0].system or "")
    assert (system or "") in (model.asked[0].system or "")


def test_single_run_may_request_another_form():
    assert run(Agent(Model('{"x": 1}'), output=Book), output=Point).output == Point(1)


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"x": 1}', {"x": 1}), ('{"y": []}', {"y": []}), ("```json\n[1]\n```", [1]), ("null", None), ("2.5", 2.5)],
)
@pytest.mark.parametrize("at", ["made with it", "asked with it"])
def test_answer_is_parsed_as_json_with_an_output_spec(text, value, at):
    """It is not validated against the schema."""
    spec = OutputSpec(name="a", schema={"type": "object", "properties": {"x": {"type": "integer"}}})
    model = Model(text)

    made, given = ({"output": spec}, {}) if at == "made with it" else ({"output": Book}, {"output": spec})
    reply = run(Agent(model, **made), **given)

    assert (reply.output, reply.text) == (value, text)
    assert model.asked[0].output is spec


def test_answer_that_is_not_json_is_reported_to_the_model_once_with_an_output_spec():
    spec = OutputSpec(name="a", schema={"type": "object"})
    model = Model("a book", '{"title": "A"}')

    assert run(Agent(model, output=spec)).output == {"title": "A"}
    assert "it is not JSON" in model.asked[1].text
    with pytest.raises(BadResponseError, match=r"agent 'agent' .*: it is not JSON") as caught:
        run(Agent(Model("a", "b"), output=spec))
    assert caught.value.code == "bad-output"


def test_output_spec_is_requested_in_words_from_a_model_without_schemas():
    model = Model("{}", output_schema=False)

    assert run(Agent(model, output=OutputSpec(name="a", schema={"title": "Shelf"}))).output == {}
    assert model.asked[0].output is None
    assert '{"title":"Shelf"}' in (model.asked[0].system or "")


def answer() -> Book: ...


class Nothing:
    """A type without instances."""


@pytest.mark.parametrize(
    ("given", "what", "fix"),
    [
        (answer, "the function 'answer'", "Give the type that the answer has to be"),
        (lambda text: text, "the function '<lambda>'", "Give the type"),
        (partial(answer), "the function 'partial'", "Give the type"),
        (Book(title="A", pages=1).model_dump, "the function 'model_dump'", "Give the type"),
        (Book(title="A", pages=1), "a value of type Book", "Give the class: output=Book."),
        (Point(1), "a value of type Point", "Give the class: output=Point."),
        ({"type": "object"}, "a dictionary", "output=OutputSpec(name=..., schema=...)"),
        (5, "output=5", "Pass a pydantic model"),
        (Nothing, "Nothing'>", "Pass a pydantic model"),
    ],
)
def test_value_that_is_not_a_type_is_refused(given, what, fix):
    asked: list[Any] = [
        lambda: Agent(Model(), output=given),
        lambda: run(Agent(Model()), output=given),
        lambda: asyncio.run(MockHarness(["x"]).run("go", output=given)),
    ]
    for ask in asked:
        with pytest.raises(InputError) as caught:
            ask()

        assert caught.value.code == "bad-output-type"
        assert what in str(caught.value)
        assert fix in caught.value.fix


Number = NewType("Number", int)
Numbers = TypeAliasType("Numbers", list[int])


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (Literal["a", "b"], '{"value": "a"}', "a"),
        (int | str, '{"value": "x"}', "x"),
        (Annotated[int, Field(gt=3)], '{"value": 4}', 4),
        (Number, '{"value": 4}', 4),
        (Numbers, '{"value": [4]}', [4]),
        (Any, '{"value": {"a": 1}}', {"a": 1}),
    ],
)
def test_output_type_need_not_be_a_class(wanted, text, value):
    assert run(Agent(Model(text), output=wanted)).output == value


def test_type_checkers_know_every_argument_of_an_agent():
    made = set(inspect.signature(Agent).parameters)

    assert made == {"model", "output", *AgentOptions.__annotations__}


def test_stopped_answer_has_no_value():
    limits = AgentLimits(tool_calls=0, on_limit="stop")

    reply = run(Agent(Model(says("x", call("note", x=1))), tools=[counting([])], output=Book, limits=limits))

    assert (reply.output, reply.stopped) == (None, "tool_calls")
