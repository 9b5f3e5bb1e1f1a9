"""The fingerprint covers the classes of the state, but nothing in them that no stored value depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, make_dataclass
from enum import Enum, Flag, IntEnum
from typing import Any, NamedTuple, NewType

import pydantic
import pytest
import typing_extensions as te

from graphrt import START, GraphBuilder
from graphrt.reducers import untracked


def graph_of(annotation: Any) -> Any:
    state = pydantic.create_model("State", field=(annotation, None))
    graph: Any = GraphBuilder(state, name="g").add_node("a", lambda state: None)
    return graph.add_sequence([START, "a"]).compile()


def model(name: str = "Price", **fields: Any) -> Any:
    return pydantic.create_model(name, **(fields or {"amount": (float, ...)}))


def enum(members: str, kind: Any = Enum) -> Any:
    return kind("Colour", members)


def alias(value: Any) -> Any:
    return te.TypeAliasType("Amount", value)


CHANGES: dict[str, tuple[Any, Any]] = {
    "type of a field of a model": (model(), model(amount=(str, ...))),
    "a field of a dataclass": (make_dataclass("P", [("x", int)]), make_dataclass("P", [("x", int), ("y", int, field(default=0))])),
    "kind of class": (make_dataclass("P", [("x", int)]), model("P", x=(int, ...))),
    "type of a key": (te.TypedDict("T", {"x": int}), te.TypedDict("T", {"x": str})),
    "a key that may be missing": (te.TypedDict("T", {"x": int}), te.TypedDict("T", {"x": te.NotRequired[int]})),
    "order of a named tuple": (NamedTuple("N", [("a", int), ("b", int)]), NamedTuple("N", [("b", int), ("a", int)])),
    "member of an enum": (enum("RED BLUE"), enum("RED")),
    "member of an IntEnum": (enum("RED BLUE", IntEnum), enum("RED", IntEnum)),
    "number of a flag": (enum("RED BLUE", Flag), enum("BLUE RED", Flag)),
    "value of an alias": (alias(int), alias(str)),
    "type behind a NewType": (NewType("Amount", int), NewType("Amount", str)),
    "class in a container": (dict[str, list[model()]], dict[str, list[model(amount=(str, ...))]]),
    "class in a union": (None | model(), None | model(amount=(str, ...))),
    "class in a class": (model("Order", price=(model(), ...)), model("Order", price=(model(amount=(str, ...)), ...))),
    "class in Annotated": (te.Annotated[model(), "x"], te.Annotated[model(amount=(str, ...)), "x"]),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprint_changes_with_stored_forms(change: str) -> None:
    before, now = CHANGES[change]

    assert graph_of(before).fingerprint != graph_of(now).fingerprint


SAME: dict[str, tuple[Any, Any]] = {
    "a default": (model(), model(amount=(float, 1.0))),
    "a constraint": (model(), model(amount=(te.Annotated[float, pydantic.Field(gt=0)], ...))),
    "order of fields": (model(a=(int, 0), b=(int, 0)), model(b=(int, 0), a=(int, 0))),
    "order and values of members": (enum("RED BLUE"), enum("BLUE RED")),
    "what is never stored": (te.Annotated[model(), untracked], te.Annotated[model(amount=(str, ...)), untracked]),
}


@pytest.mark.parametrize("change", SAME)
def test_fingerprint_does_not_change_with_other_details(change: str) -> None:
    before, now = SAME[change]

    assert graph_of(before).fingerprint == graph_of(now).fingerprint


class Node(pydantic.BaseModel):
    left: Node | None = None
    right: list[Node] = []
    parent: Parent | None = None


class Parent(te.TypedDict):
    node: Node


def test_mutually_recursive_classes_are_listed_once() -> None:
    classes = graph_of(Node | None).topology()["classes"]

    assert {name: list(data["fields"]) for name, data in classes.items()} == {
        "Node": ["left", "right", "parent"],
        "Parent": ["node"],
    }


def test_classes_of_python_pydantic_and_graphrt_are_excluded() -> None:
    """Their members and fields change with versions that a thread must not depend on."""
    from http import HTTPStatus

    from graphrt.harness import UserMessage

    foreign = HTTPStatus | pydantic.JsonValue | UserMessage | Mapping[str, pydantic.AnyUrl] | None

    assert "classes" not in graph_of(foreign).topology()


def test_two_classes_of_one_name_are_distinguished() -> None:
    first, second = te.TypedDict("Same", {"x": int}), te.TypedDict("Same", {"y": int})
    data = graph_of(first | second | None).topology()

    assert data["state"]["field"]["classes"] == ["Same", "Same (2)"]
    assert [list(one["fields"]) for one in data["classes"].values()] == [["x"], ["y"]]
