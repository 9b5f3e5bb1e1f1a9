"""Schemas of answers in the form that OpenAI's strict mode accepts, over a server that refuses any other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from graphrt.errors import BadRequestError
from graphrt.harness import Agent, OutputSpec
from graphrt.harness._output.form import OutputForm
from graphrt.harness.request import ModelRequest
from graphrt.testing import FakeChatServer
from graphrt.testing._openai_schema import refusal_of

from .wires import model_for

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]


class Part(BaseModel):
    n: int = 3


class Report(BaseModel):
    total: int
    note: str | None = None
    part: Part = Part()
    described: Part = Field(description="the second part")


class Tree(BaseModel):
    name: str
    children: list[Tree] = []
    parent: Tree | None = Field(default=None, description="above")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Home(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")


class Colour(Enum):
    RED = "red"
    NONE = None


class Narrow(BaseModel):
    short: str = Field(max_length=3, pattern="^a", examples=["abc"])
    few: set[int] = Field(min_length=1)
    price: Decimal
    site: Annotated[str, Field(json_schema_extra={"format": "uri"})] = ""
    colour: Colour
    mixed: Literal[1, "a"] | None
    default: str = "a field of that name"


class Loose(TypedDict, total=False):
    x: int


class Nothing(BaseModel):
    pass


@dataclass
class Point:
    x: int
    y: int = 0


class Open(BaseModel):
    counts: dict[str, int]


class Opened(BaseModel, extra="allow"):
    n: int


class Pair(BaseModel):
    both: tuple[int, str]


class Anything(BaseModel):
    what: Any


def form(wanted: Any) -> OutputSpec:
    return OutputForm(wanted).spec


def refusal(spec: OutputSpec) -> str | None:
    form = {"name": spec.name, "schema": spec.schema, "strict": spec.strict}
    return refusal_of({"response_format": {"type": "json_schema", "json_schema": form}})


@pytest.mark.parametrize(
    "wanted", [Report, Tree, Home, Narrow, Loose, Nothing, Point, int, list[Report], Report | Point, Colour, list[Tree]]
)
def test_form_is_strict_if_possible(wanted: Any) -> None:
    spec = form(wanted)

    assert spec.strict
    assert refusal(spec) is None


@pytest.mark.parametrize(
    "wanted", [Open, Opened, Pair, Anything, dict[str, int], list[Open], tuple[int, str], dict, list]
)
def test_form_that_a_strict_schema_cannot_express_is_not_strict(wanted: Any) -> None:
    spec = form(wanted)

    assert not spec.strict
    assert refusal(spec) is None


def test_description_next_to_a_reference_is_kept() -> None:
    properties = form(Report).schema["properties"]

    assert properties["part"] == {"$ref": "#/$defs/Part"}
    assert properties["described"]["description"] == "the second part"
    assert properties["described"]["additionalProperties"] is False


def test_field_with_a_default_may_still_be_missing_in_an_answer() -> None:
    read = OutputForm(Report).read('{"total": 1, "described": {}}')

    assert read == Report(total=1, described=Part())


def test_form_of_an_agent_is_accepted_by_openai() -> None:
    with FakeChatServer(['{"total": 1, "note": null, "part": {"n": 3}, "described": {"n": 1}}']) as server:
        reply = asyncio.run(Agent(model_for("openai", server, "gpt-4o-mini"), output=Report).run("q"))

    assert reply.output == Report(total=1, described=Part(n=1))
    assert server.requests[0].body["response_format"]["json_schema"]["strict"] is True


def test_open_form_is_sent_to_openai_unchanged() -> None:
    with FakeChatServer(['{"counts": {"a": 1}}']) as server:
        reply = asyncio.run(Agent(model_for("openai", server, "gpt-4o-mini"), output=Open).run("q"))

    assert reply.output == Open(counts={"a": 1})
    assert server.requests[0].body["response_format"]["json_schema"]["strict"] is False


def test_own_form_of_anthropic_is_closed_and_requires_every_field() -> None:
    answer = '{"total": 1, "note": null, "part": {"n": 3}, "described": {"n": 1}}'
    with FakeChatServer([answer]) as server:
        asyncio.run(Agent(model_for("anthropic", server, "claude-sonnet-4-5"), output=Report).run("q"))

    schema = server.requests[0].body["output_format"]["schema"]
    assert schema["required"] == ["total", "note", "part", "described"]
    assert [schema["additionalProperties"], schema["properties"]["part"]["additionalProperties"]] == [False, False]


def test_tools_are_not_sent_as_strict() -> None:
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    with FakeChatServer(["3"]) as server:
        asyncio.run(Agent(model_for("openai", server, "gpt-4o-mini"), tools=[add]).run("q"))

    assert "strict" not in server.requests[0].body["tools"][0]["function"]


CLOSED: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def with_field(schema: dict[str, Any]) -> dict[str, Any]:
    return {**CLOSED, "properties": {"a": schema}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array", "items": {"type": "string"}}, "of 'type: \"object\"'"),
        ({**CLOSED, "anyOf": [CLOSED]}, "'anyOf' is not permitted"),
        ({"type": "object", "properties": {}}, "'additionalProperties' is required"),
        ({**CLOSED, "properties": {"a": {"type": "string"}}}, "Missing 'a'"),
        (with_field({"type": "string", "default": "x"}), "('properties', 'a'), 'default' is not permitted"),
        (with_field({"oneOf": [{"type": "string"}], "type": "string"}), "'oneOf' is not permitted"),
        (with_field({}), "schema must have a 'type' key"),
        (with_field({"type": "array"}), "array schema missing items"),
        (with_field({"type": "array", "items": {}}), "schema must have a 'type' key"),
        (with_field({"anyOf": [{"type": "null"}, {"type": "object"}]}), "'additionalProperties' is required"),
        ({**with_field({"$ref": "#/$defs/A", "title": "A"}), "$defs": {"A": CLOSED}}, "$ref cannot have keywords"),
        ({**CLOSED, "$defs": {"A": {"type": "object"}}}, "('$defs', 'A'), 'additionalProperties' is required"),
    ],
)
def test_openai_refuses_an_invalid_strict_schema(schema: dict[str, Any], why: str) -> None:
    told = refusal(OutputSpec(name="n", schema=schema))

    assert told is not None
    assert told.startswith("Invalid schema for response_format 'n': ")
    assert why in told
    assert refusal(OutputSpec(name="n", schema=schema, strict=False)) is None


def test_fake_server_refuses_like_openai_and_uses_no_answer_for_it() -> None:
    asked = ModelRequest.build("q", {"output": OutputSpec(name="n", schema={"type": "object"})})
    with FakeChatServer(["{}"], strict=False) as server, pytest.raises(BadRequestError) as caught:
        asyncio.run(model_for("openai", server, "gpt-4o-mini").invoke(asked))

    assert "Invalid schema for response_format 'n'" in str(caught.value)
    assert server.remaining == 1


@pytest.mark.parametrize(("strict", "checks"), [(False, True), (True, False)])
def test_fake_server_accepts_any_schema_that_is_not_strict(strict: bool, checks: bool) -> None:
    asked = ModelRequest.build("q", {"output": OutputSpec(name="n", schema={"type": "array"}, strict=strict)})
    with FakeChatServer(["[]"], strict_schemas=checks) as server:
        reply = asyncio.run(model_for("openai", server, "gpt-4o-mini").invoke(asked))

    assert reply.text == "[]"
