"""Older forms are lifted step by step when they are read, and newer ones are refused."""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

import pytest
from pydantic_core import from_json, to_json
from tests.journal.event_forms import CODEC

from graphrt import events
from graphrt._journal import upcast as module
from graphrt._journal.body import VERSION, Body
from graphrt._journal.name_table import Names
from graphrt._journal.reader import Reader
from graphrt._journal.upcast import UPCASTERS, upcast
from graphrt.errors import StoreError
from graphrt.stores import MemoryStore


def from_minus_1(structure: Any, _body: Body) -> Any:
    """Times were milliseconds."""
    _, at, *rest = structure
    return [0, at / 1000, *rest]


def from_0(structure: Any, body: Body) -> Any:
    """There was no cause, and the steps of RunCompleted stood on a line of their own."""
    _, at, run, names, entries = structure
    lifted = [[code, path, body.get(steps)] for code, path, steps in entries]
    return [1, at, run, 0, names, lifted]


OLD = {-1: from_minus_1, 0: from_0}


def body(*lines: Any) -> bytes:
    text = b"\n".join(map(to_json, lines))
    return b"%b\n%08x" % (text, crc32(text))


def read(payload: bytes) -> Any:
    return Reader(MemoryStore(), "t", CODEC).body(payload)


@pytest.fixture
def lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "upcast", partial(upcast, upcasters=OLD))


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("first", [[0, 1.5, "r", ["n"], [[20, 0, 1]]], [-1, 1500, "r", ["n"], [[20, 0, 1]]]])
def test_old_form_is_lifted_to_the_present_one(first: Any) -> None:
    payload = body(first, 42)
    batch, told = read(payload)

    assert batch == (1.5, "r", 0, [("", events.RunCompleted(steps=42))])
    assert told.names.known == ["n"]
    assert b"\n".join(told.lines) == payload.rpartition(b"\n")[0]  # what the seal is over


@pytest.mark.usefixtures("lifted")
def test_present_form_is_not_lifted() -> None:
    [(_, event)] = read(body([1, 1.5, "r", 0, [], [[20, 0, 1]]], 42))[0].logged

    assert event.steps == 1


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("first", [[0], [0, 1.5], [0, 1.5, "r", [], [[20, 0, 9]]], [-1, "soon", "r", [], []]])
def test_damaged_old_form_is_refused(first: Any) -> None:
    with pytest.raises(StoreError) as caught:
        read(body(first))
    assert caught.value.code == "store-damaged"


@pytest.mark.parametrize("version", [2, 3, 10**9, 0, -1, 1.5, "1", None, [], {}, "x" * 1000])
def test_unknown_form_is_refused_with_what_to_do(version: Any) -> None:
    with pytest.raises(StoreError) as caught:
        read(body([version, 1.5, "r", 0, [], []]))

    assert caught.value.code == "store-newer"
    assert str(version)[:20] in caught.value.what
    assert len(caught.value.what) < 200
    assert f"1 to {VERSION}" in str(caught.value)
    assert "Upgrade graphrt" in str(caught.value)


@pytest.mark.usefixtures("lifted")
def test_newer_form_is_refused_where_older_ones_are_lifted() -> None:
    with pytest.raises(StoreError, match="form 2") as caught:
        read(body([2, 1.5, "r", 0, [], []]))
    assert caught.value.code == "store-newer"


def test_step_that_is_missing_in_between_is_refused() -> None:
    structure = from_json(b'[-1,1500,"r",[],[]]')
    with pytest.raises(StoreError, match="form 0"):
        upcast(structure, Body(CODEC, Names()), {-1: from_minus_1})


def test_every_older_version_has_an_upcaster() -> None:
    assert set(UPCASTERS) == set(range(1, VERSION))
