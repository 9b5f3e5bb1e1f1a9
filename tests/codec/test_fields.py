"""Fields as one object; long values apart, under their hash."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from graphrt._codec import BLOB_BYTES, Codec, NotStorable
from graphrt.errors import ConflictError, StoreError

CODEC = Codec()
LONG = "x" * BLOB_BYTES
FIELDS: dict[str, Any] = {"short": (1,), "long": [LONG], "again": [LONG]}


def test_fields_come_back_from_one_object() -> None:
    for fields in ({}, {"a": 1}, FIELDS, {"$t": "tuple", "v": [1]}):
        assert CODEC.load(CODEC.dump_fields(fields)) == fields
        blobs: dict[str, bytes] = {}
        assert CODEC.load(CODEC.dump_fields(fields, blobs), blobs.__getitem__) == fields


def test_fields_without_long_values_are_the_same_with_and_without_blobs() -> None:
    fields = {"a": (1,), "b\n": {"c": 1}}
    blobs: dict[str, bytes] = {}

    assert CODEC.dump_fields(fields, blobs) == CODEC.dump_fields(fields) == CODEC.dump(fields)
    assert blobs == {}


def test_long_values_stand_apart_once_under_their_hash() -> None:
    blobs: dict[str, bytes] = {}
    data = CODEC.dump_fields(FIELDS, blobs)

    encoded = CODEC.dump([LONG])
    name = hashlib.sha256(encoded).hexdigest()
    assert blobs == {name: encoded}
    assert data.count(f'{{"$t":"blob","v":"{name}"}}'.encode()) == 2
    assert len(data) < 300


def test_value_of_exactly_the_limit_stays() -> None:
    blobs: dict[str, bytes] = {}
    CODEC.dump_fields({"a": "x" * (BLOB_BYTES - 2)}, blobs)
    assert blobs == {}

    CODEC.dump_fields({"a": "x" * (BLOB_BYTES - 1)}, blobs)
    assert len(blobs) == 1


def test_blobs_of_several_mappings_accumulate() -> None:
    blobs: dict[str, bytes] = {}
    CODEC.dump_fields({"a": LONG}, blobs)
    CODEC.dump_fields({"a": LONG + "y"}, blobs)

    assert len(blobs) == 2


def test_dict_that_looks_like_a_reference_is_a_dict() -> None:
    fields = {"a": {"$t": "blob", "v": "0" * 64}}

    assert CODEC.load(CODEC.dump_fields(fields, {})) == fields


def test_blob_that_is_missing_or_changed_is_damage() -> None:
    blobs: dict[str, bytes] = {}
    data = CODEC.dump_fields({"a": LONG}, blobs)

    for fetch in (None, {}.__getitem__, lambda _: b"1"):
        with pytest.raises(StoreError) as caught:
            CODEC.load(data, fetch)
        assert caught.value.code == "damaged-value"
        assert "blob" in caught.value.what


@pytest.mark.parametrize("error", [ConflictError("lost"), OSError("disk")])
def test_error_of_the_fetching_reaches_the_caller(error: Exception) -> None:
    data = CODEC.dump_fields({"a": LONG}, {})

    def fetch(_name: str) -> bytes:
        raise error

    with pytest.raises(type(error)) as caught:
        CODEC.load(data, fetch)
    assert caught.value is error


@pytest.mark.parametrize("blobs", [None, {}])
def test_refusal_begins_with_the_name_of_the_field(blobs: dict[str, bytes] | None) -> None:
    with pytest.raises(NotStorable) as caught:
        CODEC.dump_fields({"a": 1, "notes": [object()]}, blobs)
    assert caught.value.path == "notes[0]"


@pytest.mark.parametrize("blobs", [None, {}])
def test_field_counts_as_a_level(blobs: dict[str, bytes] | None) -> None:
    value: Any = 1
    for _ in range(99):
        value = (value,)
    assert CODEC.load(CODEC.dump_fields({"a": value}, blobs)) == {"a": value}

    with pytest.raises(NotStorable):
        CODEC.dump_fields({"a": (value,)}, blobs)


@pytest.mark.parametrize("blobs", [None, {}])
def test_name_that_is_no_text_is_refused(blobs: dict[str, bytes] | None) -> None:
    with pytest.raises(NotStorable) as caught:
        CODEC.dump_fields({1: 2}, blobs)
    assert "named 1" in caught.value.why
