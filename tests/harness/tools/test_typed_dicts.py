"""A `typing.TypedDict`, which pydantic itself refuses below Python 3.12, is accepted wherever a type is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NotRequired, Required, TypedDict, TypeVar

import pytest
from pydantic import Field
from typing_extensions import TypedDict as Newer

from graphrt.errors import InputError, ToolArgumentsError
from graphrt.harness import ToolCall, ToolContext, tool
from graphrt.harness._output.typed_dicts import adapter_of

T = TypeVar("T")


class Place(TypedDict):
    """Where it is."""

    city: str
    street: NotRequired[str]


class Order(TypedDict, total=False):
    what: Required[Annotated[str, Field(max_length=5)]]
    to: list[Place]


class Newest(Newer):
    place: Place


class Boxed(TypedDict, Generic[T]):
    inside: T


@tool
def send(order: Order, places: dict[str, Place] | None = None) -> str:
    """Send it."""
    return f"{order} {places}"


def test_typed_dict_is_an_argument_of_a_tool():
    checked = send.check({"order": {"what": "tea", "to": [{"city": "Oslo"}]}, "places": {"a": {"city": "Bergen"}}})

    assert checked == {"order": {"what": "tea", "to": [{"city": "Oslo"}]}, "places": {"a": {"city": "Bergen"}}}
    context = ToolContext(call=ToolCall(id="1", name="send"))
    assert "Bergen" in asyncio.run(send.call(checked, context)).text


def test_schema_of_a_typed_dict_has_its_keys_and_required_ones():
    defined = send.spec.parameters["$defs"]

    assert defined["Place"]["description"] == "Where it is."
    assert defined["Place"]["required"] == ["city"]
    assert defined["Order"]["required"] == ["what"]
    assert defined["Order"]["properties"]["what"]["maxLength"] == 5


@pytest.mark.parametrize("order", [{}, {"what": "coffee"}, {"what": "tea", "to": [{}]}, {"what": 1}, "tea"])
def test_value_that_does_not_match_is_refused(order: Any):
    with pytest.raises(ToolArgumentsError):
        send.check({"order": order})


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (Place, {"city": "Oslo"}),
        (list[Place], [{"city": "Oslo"}]),
        (Place | None, None),
        (Annotated[Place, "there"], {"city": "Oslo"}),
        (Newest, {"place": {"city": "Oslo"}}),
        (Boxed[int], {"inside": 5}),
        (Boxed[Place], {"inside": {"city": "Oslo"}}),
        (int, 5),
    ],
    ids=str,
)
def test_typed_dict_may_be_nested_in_any_type(wanted: Any, value: Any):
    adapter = adapter_of(wanted)

    assert adapter.validate_python(value) == value
    assert adapter.json_schema()


@pytest.mark.skipif("sys.version_info >= (3, 12)")
def test_error_about_a_typed_dict_inside_a_dataclass_names_the_alternative():
    @dataclass
    class Parcel:
        to: Place

    def post(parcel: Parcel) -> str:
        """Post it."""
        return ""

    with pytest.raises(InputError) as caught:
        tool(post)

    assert caught.value.code == "tool-schema"
    assert "typing_extensions.TypedDict" in caught.value.what
