"""What a model may pass to a graph: only the offered fields, validated."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import typing
from typing import Any

import pytest
import typing_extensions as te
from pydantic import BaseModel, ConfigDict, Field, RootModel

from graphrt import START, GraphBuilder
from graphrt.errors import InputError, ToolArgumentsError
from graphrt.harness import Agent, GraphTool

from .fakes import Model, call, run


class Kind(enum.Enum):
    ANTS = "ants"


class User(BaseModel):
    name: str
    is_admin: bool = False


class State(BaseModel):
    q: str = ""
    is_admin: bool = False
    user: User = User(name="nobody")
    kind: Kind = Kind.ANTS
    day: dt.date | None = None
    tags: list[str] = []
    limit: int = 100


class Question(BaseModel):
    q: str


@dataclasses.dataclass
class Asked:
    q: str


class Typed(typing.TypedDict):
    q: str


class TypedElsewhere(te.TypedDict):
    q: str


def tool(state: Any = State, *, declared: Any = None, **options: Any) -> GraphTool:
    """A graph that returns its whole state."""
    builder: Any = GraphBuilder(state, name="inner", input=declared)
    builder.add_node("work", lambda state: None)
    builder.add_edge(START, "work")
    return GraphTool(builder.compile(), description="Works.", **options)


def reached(below: GraphTool, **arguments: Any) -> Any:
    """The state of the graph when a model called it with *arguments*, or the error that the model got."""
    seen: list[Any] = []
    below._output = lambda state: seen.append(state) or "done"
    reply = run(Agent(Model(call("inner", **arguments), "end"), tools=[below]))
    return seen[0] if seen else reply.messages[2].text


@pytest.mark.parametrize("wanted", [Question, Asked, Typed, TypedElsewhere])
@pytest.mark.parametrize("by_builder", [False, True])
def test_field_that_was_not_offered_cannot_be_set(wanted: Any, by_builder: bool) -> None:
    below = tool(declared=wanted) if by_builder else tool(input=wanted)

    assert list(below.spec.parameters["properties"]) == ["q"]
    assert below.spec.parameters["additionalProperties"] is False
    assert "is_admin: unknown argument; it takes q" in reached(below, q="hi", is_admin=True)
    assert reached(below, q="hi") == State(q="hi")


def test_nested_field_that_was_not_offered_cannot_be_set() -> None:
    class Name(BaseModel):
        name: str

    class Ask(BaseModel):
        user: Name

    assert reached(tool(input=Ask), user={"name": "ida", "is_admin": True}).user == User(name="ida")


@pytest.mark.parametrize("state", [State, Typed, TypedElsewhere, Asked])
def test_state_is_offered_by_default(state: Any) -> None:
    below = tool(state)

    assert "q" in below.spec.parameters["properties"]
    assert below.spec.parameters["additionalProperties"] is False
    assert "more: unknown argument" in reached(below, q="hi", more=1)
    after = reached(below, q="hi")
    assert (after["q"] if isinstance(after, dict) else after.q) == "hi"


def test_input_of_the_tool_takes_precedence_over_that_of_the_builder() -> None:
    class Two(BaseModel):
        q: str
        limit: int = 5

    assert list(tool(declared=Two, input=Question).spec.parameters["properties"]) == ["q"]


def test_validated_value_is_passed_on() -> None:
    class Sort(enum.Enum):
        ANTS = "ants"

    class Ask(BaseModel):
        kind: Sort
        day: dt.date
        tags: tuple[str, ...]
        limit: int = 5

    after = reached(tool(input=Ask), kind="ants", day="2024-01-02", tags=["a"])

    assert after == State(kind=Kind.ANTS, day=dt.date(2024, 1, 2), tags=["a"], limit=5)


def test_fields_with_a_json_alias_are_set() -> None:
    class Inner(BaseModel):
        name: str = Field(alias="fullName")

    class Outer(BaseModel):
        who: Inner
        q: str = ""

    class Ask(BaseModel):
        query: str = Field(alias="q")
        person: Inner = Field(alias="who")

    class AskByName(BaseModel):
        q: str = Field(alias="question")

    after = reached(tool(Outer, input=Ask), q="hi", who={"fullName": "ida"})

    assert (after.q, after.who.name) == ("hi", "ida")
    assert reached(tool(input=AskByName), question="hi").q == "hi"


def test_type_that_accepts_any_value_passes_it_on() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        q: str

    class Root(RootModel[dict[str, int]]):
        pass

    assert reached(tool(input=Open), q="hi", limit=3) == State(q="hi", limit=3)
    assert reached(tool(input=dict[str, int]), limit=3) == State(limit=3)
    assert reached(tool(input=Root), limit=3) == State(limit=3)


def test_type_without_a_schema_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        tool(input=object())

    assert caught.value.code == "tool-schema"


def test_missing_argument_is_reported_by_name() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        tool(input=Question).check({})

    assert "q: is missing" in caught.value.what
