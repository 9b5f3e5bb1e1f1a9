"""Fields of an update as stored lines; long values are stored apart, under their hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from graphrt._codec import BLOB_BYTES, Codec, NotStorable
from graphrt._engine.storability import Stamped, stamp
from graphrt.errors import ConflictError, StoreError

CODEC = Codec()
LONG = "x" * BLOB_BYTES
FIELDS: dict[str, Any] = {"short": (1,), "long": [LONG], "again": [LONG]}


def read(made: Stamped, fetch: Callable[[str], bytes] | None = None) -> dict[str, Any]:
    return {name: CODEC.load(line, fetch or made.blobs.__getitem__) for name, line in made.lines.items()}


@pytest.mark.parametrize("fields", [{}, {"a": 1}, FIELDS, {"$t": "tuple", "v": [1]}])
def test_fields_are_restored(fields: dict[str, Any]) -> None:
    assert read(stamp(CODEC, fields)) == fields


def test_long_values_are_stored_apart_once_under_their_hash() -> None:
    made = stamp(CODEC, FIELDS)

    encoded = CODEC.dump([LONG])
    name = hashlib.sha256(encoded).hexdigest()
    reference = f'{{"$t":"blob","v":"{name}"}}'.encode()
    assert made.blobs == {name: encoded}
    assert made.lines == {"short": CODEC.dump((1,)), "long": reference, "again": reference}


def test_value_of_exactly_the_limit_is_inlined() -> None:
    assert stamp(CODEC, {"a": "x" * (BLOB_BYTES - 2)}).blobs == {}
    assert len(stamp(CODEC, {"a": "x" * (BLOB_BYTES - 1)}).blobs) == 1


def test_untracked_fields_have_no_line() -> None:
    made = stamp(CODEC, {"a": 1, "b": LONG}, frozenset({"b"}))

    assert (made.lines, made.blobs) == ({"a": b"1"}, {})


def test_dict_that_looks_like_a_reference_is_a_dict() -> None:
    fields = {"a": {"$t": "blob", "v": "0" * 64}}

    assert read(stamp(CODEC, fields)) == fields


@pytest.mark.parametrize("fetch", [{}.__getitem__, lambda _: b"1"])
def test_missing_or_changed_blob_is_damage(fetch: Callable[[str], bytes]) -> None:
    with pytest.raises(StoreError) as caught:
        read(stamp(CODEC, {"a": LONG}), fetch)
    assert caught.value.code == "damaged-value"
    assert "blob" in caught.value.what


def test_blob_without_a_blob_store_is_damage() -> None:
    with pytest.raises(StoreError) as caught:
        CODEC.load(stamp(CODEC, {"a": LONG}).lines["a"])
    assert caught.value.code == "damaged-value"


@pytest.mark.parametrize("error", [ConflictError("lost"), OSError("disk")])
def test_error_while_fetching_a_blob_reaches_the_caller(error: Exception) -> None:
    def fetch(_name: str) -> bytes:
        raise error

    with pytest.raises(type(error)) as caught:
        read(stamp(CODEC, {"a": LONG}), fetch)
    assert caught.value is error


def test_refusal_starts_with_the_name_of_the_field() -> None:
    with pytest.raises(NotStorable) as caught:
        stamp(CODEC, {"a": 1, "notes": [object()]})
    assert caught.value.path == "notes[0]"
