"""Each line of a body is listed once with its kind; erasing any of them leaves a readable body."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json
from tests.journal.event_forms import CODEC, logged
from tests.journal.test_wire_forms import reader, written

from graphrt._journal.batch_format import closed
from graphrt._journal.body import ERASED_LINE, Names
from graphrt._journal.erasing import holds_text, places


@given(st.lists(logged(), min_size=1, max_size=3))
def test_every_line_is_listed_once(batch: Any) -> None:
    names = Names()
    payload, body = written(*batch, names=names)
    found = list(places(from_json(body.lines[0], allow_inf_nan=False), names.known))

    assert sorted(place.line for place in found) == list(range(1, len(body.lines)))
    assert all((place.field is not None) == (place.kind == "field") for place in found)
    assert {place.entry for place in found} <= set(range(len(batch)))
    assert payload


@pytest.mark.slow
@given(st.lists(logged(), min_size=1, max_size=3), st.randoms())
def test_body_without_some_of_its_values_can_be_read(batch: Any, rng: Any) -> None:
    names = Names()
    payload, body = written(*batch, names=names)
    wanted = {place.line for place in places(from_json(body.lines[0], allow_inf_nan=False), names.known)}
    gone = {line for line in wanted if rng.random() < 0.5}
    lines = [ERASED_LINE if number in gone else line for number, line in enumerate(body.lines)]
    read = reader()
    read._blobs = body.blobs
    back, again = read.body(closed(lines))

    assert len(back.logged) == len(batch)
    assert [one.__class__ for _, one in back.logged] == [one.__class__ for _, one in batch]
    assert read.erased == (bool(gone) or b'{"$t":"erased"' in payload)
    assert again.lines == lines


def test_text_is_matched_in_texts_keys_and_bytes_and_not_in_names_of_classes() -> None:
    for value in ("say Anna", {"Anna": 1}, [1, ("x", {"y": "Anna!"})], b"..Anna..", bytearray(b"Anna"), {"Anna"}):
        assert holds_text(CODEC.dump(value), "Anna")
    for value in ("anna", 7, None, [], ("tuple",), b"An"):
        assert not holds_text(CODEC.dump(value), "Anna")
    assert not holds_text(CODEC.dump((1, 2)), "tuple")
    assert holds_text(CODEC.dump('a "quoted" größe\n'), '"quoted" größe\n')
