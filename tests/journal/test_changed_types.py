"""Which types accept every value of another type, and how changes of classes are classified."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt._journal.changed_types import changed_classes, classes_with, widens


@pytest.mark.parametrize(
    ("older", "present", "fits"),
    [
        ("int", "int | str", True),
        ("int | str", "str | None | int", True),
        ("int | str", "int", False),
        ("int", "float", False),
        ("Price", "Any", True),
        ("Any", "Price", False),
        ("list[int]", "list[int | None]", True),
        ("list[int | None]", "list[int]", False),
        ("dict[str, list[int]]", "dict[str, list[int | str]] | None", True),
        ("list[int]", "tuple[int, ...]", False),
        ("list[int]", "list", False),
        ("tuple[int, int]", "tuple[int, ...]", False),
        ("Literal['a', 'b']", "Literal['b', 'a', 'c']", True),
        ("Literal['a', 'b']", "Literal['a']", False),
        ("Literal['a | b', ']']", "Literal['a | b', ']', 'x, \\'y']", True),
        ("Literal['a, b']", "Literal['a', 'b']", False),
        ("Callable[[int], str]", "Callable[[int | str], str]", False),
    ],
)
def test_type_is_widened_only_by_members_of_unions_and_literals(older: str, present: str, fits: bool) -> None:
    assert widens(older, present) is fits


def typed(text: str, *classes: str) -> dict[str, Any]:
    return {"type": text, "classes": list(classes)} if classes else {"type": text}


def compared(before: dict[str, Any], now: dict[str, Any], bare: tuple[str, ...] = ()) -> list[tuple[str, bool]]:
    root = typed("C", "C")
    found = changed_classes({"C": before}, {"C": now}, {"f": (root, root)}, {"C": bare})
    return [(change.what, change.fits) for change in found]


def fields(kind: str = "model", /, **others: Any) -> dict[str, Any]:
    return {"kind": kind, "fields": {"a": typed("int")}, **others}


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (fields(), fields(), []),
        (fields(), fields(fields={"a": typed("str")}), [("the type of field 'f.a' changed (f.a: int -> str)", False)]),
        (fields(), fields(fields={"a": typed("int | str")}), [("the type of field 'f.a' changed (f.a: int -> int | str)", True)]),
        (fields(), fields(fields={}), [("field 'f.a' is gone from C", False)]),
        (fields(), fields(fields={"a": typed("int"), "b": typed("int")}), [("field 'f.b' is new in C", True)]),
        (fields(fields={}), fields(), [("field 'f.a' is new in C and has no default", False)]),
        (fields(), fields("dataclass"), [("C, in field 'f', changed its kind (model -> dataclass)", False)]),
        (fields(extra=True), fields(), [("C, in field 'f', allows no undeclared fields any more", False)]),
        (fields(private=["_p"]), fields(), [("the private attribute 'f._p' is gone from C", False)]),
        (fields("typeddict"), fields("typeddict", required=["a"]), [("key 'f.a' of C is required now", False)]),
        (fields("namedtuple", order=["a"]), fields("namedtuple", order=["b", "a"]), [("the fields of C, in field 'f', have another order", False)]),
        (fields("namedtuple", order=["a"]), fields("namedtuple", order=["a", "b"]), []),
        ({"kind": "enum", "members": ["R"]}, {"kind": "enum", "members": ["B", "R"]}, [("members 'B' of C, in field 'f', are new", True)]),
        ({"kind": "enum", "members": ["B", "R"]}, {"kind": "enum", "members": ["R"]}, [("members 'B' of C, in field 'f', are gone", False)]),
        ({"kind": "enum", "members": {"R": 1}}, {"kind": "enum", "members": {"R": 2}}, [("members 'R' of C, in field 'f', have other numbers", False)]),
        ({"kind": "enum", "members": {"R": 1}}, {"kind": "enum", "members": ["R"]}, [("C, in field 'f', became a Flag, or is none any more", False)]),
        ({"kind": "alias", **typed("int")}, {"kind": "alias", **typed("str")}, [("the type of field 'f' changed (f: int -> str)", False)]),
        (fields(fields={"a": typed("C", "C")}), fields(fields={"a": typed("C", "D")}), [("field 'f.a' leads to other classes (f.a: 'C' -> 'D')", False)]),
    ],
)  # fmt: skip
def test_change_of_a_class_is_named_with_its_path(before: Any, now: Any, found: list[tuple[str, bool]]) -> None:
    assert compared(before, now, bare=("a",)) == found


def test_classes_around_a_changed_one_change_with_it() -> None:
    """Their instances would hold plain data in the place of the changed class."""
    classes = {
        "Order": {"kind": "model", "fields": {"amount": typed("Amount", "Amount")}},
        "Amount": {"kind": "alias", **typed("Price | None", "Price")},
        "Price": fields(),
        "Other": fields(),
    }

    assert classes_with(["Price"], classes) == ("Amount", "Order", "Price")
    assert classes_with([], classes) == ()
