"""The form of an answer: asked for, checked, told to the model once if it does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from graphrt.errors import AgentLimitError, BadResponseError, InputError
from graphrt.harness import Agent, AgentLimits, OutputSpec

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


class Inner(BaseModel):
    books: list[Book]


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (Book, '{"title": "A", "pages": 3}', Book(title="A", pages=3)),
        (Point, '{"x": 1}', Point(1)),
        (Named, '{"name": "n"}', {"name": "n"}),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (int, '{"value": 7}', 7),
        (list[Book], '{"value": [{"title": "A", "pages": 3}]}', [Book(title="A", pages=3)]),
        (Inner, '{"books": []}', Inner(books=[])),
        (Book, '```json\n{"title": "A", "pages": 3}\n```', Book(title="A", pages=3)),
        (Book, ' \n```\n{"title": "A", "pages": 3}```\n ', Book(title="A", pages=3)),
    ],
)
def test_an_answer_becomes_a_value(wanted, text, value):
    model = Model(text)

    reply = run(Agent(model, output=wanted))

    assert reply.output == value
    assert reply.text == text
    spec = model.asked[0].output
    assert spec is not None
    assert spec.schema["type"] == "object"


def test_an_answer_of_another_form_is_told_to_the_model_once():
    model = Model("a book", '{"title": "A", "pages": 3}')

    reply = run(Agent(model, output=Book))

    assert reply.output == Book(title="A", pages=3)
    assert "it is no JSON" in model.asked[1].text
    assert reply.usage.calls == 2


@pytest.mark.parametrize("text", ["", "[]", '{"title": "A"}', '{"title": "A", "pages": "many"}', "null", '{"a":1}{'])
def test_a_second_answer_of_another_form_fails_the_run(text):
    transcript: list[Any] = []

    with pytest.raises(BadResponseError) as caught:
        run(Agent(Model(text, text), output=Book), transcript=transcript)

    assert caught.value.code == "bad-output"
    assert len(transcript) == 4
    assert caught.value.messages == tuple(transcript)


def test_a_repair_is_a_model_call_and_so_within_the_limits():
    with pytest.raises(AgentLimitError):
        run(Agent(Model("a book"), output=Book, limits=AgentLimits(model_calls=1)))


def test_tools_come_before_the_answer_also_after_a_repair():
    counts: list[int] = []
    model = Model(call("note", x=1), "a book", call("note", x=2), '{"title": "A", "pages": 3}')

    assert run(Agent(model, tools=[counting(counts)], output=Book)).output == Book(title="A", pages=3)
    assert counts == [1, 2]


@pytest.mark.parametrize("system", [None, "be brief"])
def test_a_model_without_schemas_is_asked_in_words(system):
    model = Model('{"title": "A", "pages": 3}', output_schema=False)

    assert run(Agent(model, output=Book, system=system)).output == Book(title="A", pages=3)
    assert model.asked[0].output is None
    assert [one.split(":")[0] for one in heard(model.asked[0])] == ["system", "user"]
    assert '"pages"' in (model.asked[0].system or "")
    assert (system or "") in (model.asked[0].system or "")


def test_one_run_may_want_another_form():
    assert run(Agent(Model('{"x": 1}'), output=Book), output=Point).output == Point(1)


def test_a_schema_that_is_no_type_is_refused():
    with pytest.raises(InputError, match="not an OutputSpec"):
        run(Agent(Model()), output=OutputSpec(name="a", schema={"type": "object"}))


def test_an_answer_that_was_stopped_has_no_value():
    limits = AgentLimits(tool_calls=0, on_limit="stop")

    reply = run(Agent(Model(says("x", call("note", x=1))), tools=[counting([])], output=Book, limits=limits))

    assert (reply.output, reply.stopped) == (None, "tool_calls")
