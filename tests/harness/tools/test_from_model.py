"""Tools whose arguments are one model: the function gets the instance."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from graphrt.errors import InputError, ToolArgumentsError
from graphrt.harness.tools.from_model import ModelTool, tool_from_model
from graphrt.harness.tools.injected import Injected
from graphrt.harness.tools.protocol import ToolContext


class BookTable(BaseModel):
    """Book a table."""

    guests: int = Field(ge=1, description="how many")
    town: str = "Bergen"


class Node(BaseModel):
    name: str
    below: list[Node] = []


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


def show(value: Any) -> str:
    return repr(value)


def call(made: ModelTool[Any], arguments: dict[str, Any], context: Any) -> str:
    return asyncio.run(made.call(made.check(arguments), context)).text


def test_name_description_and_schema_come_from_the_model() -> None:
    spec = tool_from_model(BookTable, show).spec

    assert (spec.name, spec.description) == ("book_table", "Book a table.")
    assert spec.parameters == {
        "type": "object",
        "description": "Book a table.",
        "properties": {
            "guests": {"type": "integer", "minimum": 1, "description": "how many"},
            "town": {"type": "string", "default": "Bergen"},
        },
        "required": ["guests"],
        "additionalProperties": False,
    }


def test_function_gets_the_instance(context: Any) -> None:
    assert call(tool_from_model(BookTable, show), {"guests": "2"}, context()) == "BookTable(guests=2, town='Bergen')"
    assert call(tool_from_model(Point, show), {"x": 1}, context()) == "Point(x=1, y=0)"


def test_stored_arguments_are_validated_again(context: Any) -> None:
    made = tool_from_model(BookTable, show)

    assert asyncio.run(made.call(dict(made.check({"guests": 2})), context())).text.startswith("BookTable")
    with pytest.raises(ToolArgumentsError):
        asyncio.run(made.call({"guests": 0}, context()))


def test_injected_parameters_come_after_the_instance(context: Any) -> None:
    async def book(table: BookTable, ctx: ToolContext, db: Annotated[object, Injected("db")], note: str = "x") -> Any:
        return [table.guests, ctx.call.id, db, note]

    made = tool_from_model(BookTable, book, name="book", effect="once")
    assert (made.spec.name, made.policy.effect, repr(made)) == ("book", "once", "ModelTool('book')")
    assert call(made, {"guests": 1}, context(deps={"db": "D"})) == '[1,"call-1","D","x"]'


def test_unknown_arguments_are_refused_unless_the_model_allows_them() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        x: int = 1

    with pytest.raises(ToolArgumentsError, match="tow: unknown argument; did you mean town"):
        tool_from_model(BookTable, show).check({"guests": 1, "tow": "Oslo"})
    assert tool_from_model(Open, show).check({"y": 2}) == {"y": 2}


def test_recursive_model_has_its_object_at_the_root() -> None:
    schema = tool_from_model(Node, show).spec.parameters

    assert schema["type"] == "object"
    assert list(schema["properties"]) == ["name", "below"]
    assert "Node" in schema["$defs"]


def test_messages_of_validators_are_reported_to_the_model() -> None:
    class Range(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def ordered(self) -> Range:
            if self.low > self.high:
                raise ValueError("low is above high")
            return self

    with pytest.raises(ToolArgumentsError, match="low is above high"):
        tool_from_model(Range, show).check({"low": 2, "high": 1})


def test_docstring_of_the_function_is_used_if_the_class_has_none() -> None:
    def move(point: Point) -> None:
        """Move it."""

    assert tool_from_model(Point, move).spec.description == "Move it."
    assert tool_from_model(Point, move, description="Mine.").spec.description == "Mine."


@pytest.mark.parametrize(
    ("model", "said"),
    [(RootModel[list[int]], "is not an object"), (int, "is not an object"), (object(), "made of cannot be")],
    ids=["list", "int", "instance"],
)
def test_value_that_is_not_a_json_object_is_refused(model: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        tool_from_model(model, show, name="x")
    assert said in caught.value.what


def test_class_without_a_schema_and_unfillable_parameters_are_refused() -> None:
    class Plain:
        pass

    with pytest.raises(InputError, match="no JSON schema can be made of Plain"):
        tool_from_model(Plain, show)
    with pytest.raises(InputError) as caught:
        tool_from_model(BookTable, lambda table, more, *rest: None)
    assert caught.value.code == "tool-schema"
    assert [problem.split(":")[0] for problem in caught.value.values] == ["more", "*rest"]
