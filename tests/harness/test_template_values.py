"""A prompt shows values in a readable form, and never by their `repr`."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from graphrt.errors import InputError
from graphrt.harness import UserMessage
from graphrt.harness.template import Template


class Colour(Enum):
    GREEN = "green"
    NUMBER = 5
    ODD = object()


class Size(StrEnum):
    BIG = "big"


class Rank(IntEnum):
    FIRST = 1


class Note(BaseModel):
    text: str
    at: date | None = None


@dataclass
class Pair:
    left: Any
    right: Any


class Shouting(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "<Shouting>"


class Strange(int):
    def __str__(self) -> str:
        return "<Strange>"

    __repr__ = __str__


SHOWN: list[tuple[Any, str]] = [
    ("text", "text"),
    ("", ""),
    (5, "5"),
    (-0.5, "-0.5"),
    (1e100, "1e+100"),
    (float("inf"), "inf"),
    (True, "True"),
    (Decimal("1.50"), "1.50"),
    (Colour.GREEN, "green"),
    (Colour.NUMBER, "5"),
    (Size.BIG, "big"),
    (Rank.FIRST, "1"),
    (Shouting("quiet"), "quiet"),
    (Strange(7), "7"),
    (date(2026, 11, 1), "2026-11-01"),
    (datetime(2026, 11, 1, 8, tzinfo=UTC), "2026-11-01T08:00:00+00:00"),
    (time(8, 30), "08:30:00"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ([], "[]"),
    (["a", 1, None, True], '["a", 1, null, true]'),
    (("a",), '["a"]'),
    (deque([1]), "[1]"),
    pytest.param({"b", "a"}, '["a", "b"]', id="a set of texts"),
    (frozenset({2, 1}), "[1, 2]"),
    ({"a": {"b": "ü"}}, '{"a": {"b": "ü"}}'),
    ({5: "x", Size.BIG: 2, True: 3}, '{"5": "x", "big": 2, "true": 3}'),
    (MappingProxyType({"a": 1}), '{"a": 1}'),
    (OrderedDict(b=1, a=2), '{"b": 1, "a": 2}'),
    ([Colour.GREEN, Decimal("1.5"), date(2026, 1, 2)], '["green", "1.5", "2026-01-02"]'),
    (Note(text="x", at=date(2026, 1, 2)), '{"text": "x", "at": "2026-01-02"}'),
    ([Note(text="x")], '[{"text": "x", "at": null}]'),
    (Pair(1, Pair("a", [2])), '{"left": 1, "right": {"left": "a", "right": [2]}}'),
    (UserMessage(text="hi"), '{"text": "hi", "content": [], "id": null, "role": "user"}'),
]


@pytest.mark.parametrize(("value", "text"), SHOWN, ids=repr)
def test_value_is_shown_plainly(value: Any, text: str) -> None:
    assert Template("{x}").render(x=value) == text


def endless() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


REFUSED: list[tuple[Any, str]] = [
    (object(), "x is of type object"),
    (b"bytes", "x is of type bytes"),
    (SecretStr("s"), "x is of type SecretStr"),
    (Path("/x"), "x is of type PosixPath"),
    (Note, "x is of type ModelMetaclass"),
    (len, "x is of type builtin_function_or_method"),
    (ValueError("x"), "x is of type ValueError"),
    (1j, "x is of type complex"),
    ([1, {"deep": [object()]}], "x[1].deep[0] is of type object"),
    (Pair(1, object()), "x.right is of type object"),
    ({b"k": 1}, "x is a mapping with a key of type bytes"),
    ({"a": {(1,): 1}}, "x.a is a mapping with a key of type tuple"),
    ({1: "a", "1": "b"}, "x is a mapping with two keys that are '1' as text"),
    ([float("nan")], "x is a number that JSON does not have"),
    (Colour.ODD, "x is of type object"),
    (10**5000, "x is an int of too many digits"),
    (endless(), "nested too deeply"),
]


@pytest.mark.parametrize(("value", "what"), REFUSED, ids=[case[1] for case in REFUSED])
def test_value_without_a_plain_text_form_is_refused_with_its_path(value: Any, what: str) -> None:
    with pytest.raises(InputError) as caught:
        Template("{x}").render(x=value)

    assert caught.value.code == "template-value"
    assert caught.value.field == "x"
    assert what in caught.value.what


def test_model_that_pydantic_cannot_write_is_refused() -> None:
    class Odd(BaseModel, arbitrary_types_allowed=True):
        thing: Any

    with pytest.raises(InputError) as caught:
        Template("{x}").render(x=[Odd(thing=object())])

    assert caught.value.code == "template-value"
    assert "x[0] is a Odd without a JSON form" in caught.value.what


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda value: isinstance(value, (list, dict)))
)
def test_containers_are_rendered_as_standard_json(value: Any) -> None:
    assert json.loads(Template("{x}").render(x=value)) == value
