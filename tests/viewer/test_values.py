"""Values as documents: complete or truncated with their size, and always plain data."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from graphrt.commands import Erased, Overwrite
from graphrt.errors import InputError
from graphrt.harness import Image
from graphrt.viewer._values import Bounds, Documents, part_of, path_of

from . import graphs


def document(value: Any, base: tuple[Any, ...] = ("e", 1), **bounds: Any) -> Any:
    return Documents(Bounds(**bounds), base).of(value)


class Card(BaseModel):
    name: str
    pin: SecretStr
    hidden: str = Field("x", exclude=True)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (2**70, {"$number": str(2**70)}),
        (float("nan"), {"$number": "nan"}),
        (2**40, 2**40),
        (b"\x00\xff", {"$bytes": {"size": 2, "hex": "00ff", "ref": "WyJlIiwgMV0="}}),
        ({"$cut": 1}, {"$pairs": [["$cut", 1]]}),
        ({"__proto__": {"a": 1}}, {"$pairs": [["__proto__", {"a": 1}]]}),
        ({1: "a", "1": "b"}, {"$pairs": [["1", "a"], ["1", "b"]]}),
        (Erased(), {"$erased": True}),
        (Overwrite([1]), [1]),
        (date(2026, 11, 29), "2026-11-29"),
        (Decimal("1.50"), "1.50"),
        (Card(name="ann", pin=SecretStr("1234")), {"name": "ann", "pin": "**********"}),
        ((1, {2}), [1, [2]]),
    ],
)
def test_values_beyond_json_have_a_mark_that_no_value_can_forge(value: Any, wanted: Any) -> None:
    assert document(value) == wanted


def test_hostile_texts_are_unchanged() -> None:
    sent = json.loads(json.dumps(document(list(graphs.HOSTILE))))

    assert sent == list(graphs.HOSTILE)


@given(st.recursive(st.none() | st.text() | st.floats() | st.integers() | st.binary(), st.lists, max_leaves=20))
def test_every_value_has_a_bounded_document_in_ascii(value: Any) -> None:
    text = json.dumps(Documents(Bounds(text=10, value=1_000), ("e", 1)).of(value), allow_nan=False)

    assert text.isascii()
    assert len(text) < 40_000


def test_large_values_are_truncated_with_their_size_and_can_be_requested() -> None:
    value = {"long": "x" * 10_000_000, "deep": graphs.deep(150), "many": list(range(1_000_000))}
    found = document(value)

    cut = found["long"]["$cut"]
    assert (cut["kind"], cut["size"], len(cut["shown"])) == ("text", 10_000_000, 16_384)
    assert part_of(value, path_of(cut["ref"])[2:]) == value["long"]
    assert '"kind": "depth"' in json.dumps(found["deep"])
    assert found["many"]["$cut"] == {"kind": "list", "size": 1_000_000, "ref": found["many"]["$cut"]["ref"]}
    assert document("x" * 20_000, fetches=False)["$cut"]["ref"] is None


def test_small_pictures_are_included() -> None:
    image = Image.from_bytes(graphs.PIXEL, name="dot.png")

    assert document(image)["$media"]["data"].startswith("iVBOR")
    assert "data" not in document(image, media=10)["$media"]


@pytest.mark.parametrize("ref", ["", "&&&", "bm8=", "WyJlIiwgbnVsbF0=", "W1tbW1tb"])
def test_reference_that_is_in_no_document_is_refused(ref: str) -> None:
    with pytest.raises(InputError):
        part_of({"a": 1}, path_of(ref) or ("b",))


def test_missing_part_of_a_value_is_refused() -> None:
    with pytest.raises(InputError):
        part_of({"a": {"b": 1}}, ("a", "c"))
