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


def from_0(structure: Any, _body: Body) -> Any:
    """Times were milliseconds."""
    _, at, *rest = structure
    return [1, at / 1000, *rest]


def from_1(structure: Any, body: Body) -> Any:
    """There was no cause, and the steps of RunCompleted stood on a line of their own."""
    _, at, run, names, entries = structure
    lifted = [[code, path, body.get(steps)] for code, path, steps in entries]
    return [2, at, run, 0, names, lifted]


OLD = {0: from_0, 1: from_1}


def body(*lines: Any) -> bytes:
    text = b"\n".join(map(to_json, lines))
    return b"%b\n%08x" % (text, crc32(text))


def read(payload: bytes) -> Any:
    return Reader(MemoryStore(), "t", CODEC).body(payload)


@pytest.fixture
def lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "upcast", partial(upcast, upcasters=OLD))


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("first", [[1, 1.5, "r", ["n"], [[20, 0, 1]]], [0, 1500, "r", ["n"], [[20, 0, 1]]]])
def test_old_form_is_lifted_to_the_present_one(first: Any) -> None:
    payload = body(first, 42)
    batch, told = read(payload)

    assert batch == (1.5, "r", 0, [("", events.RunCompleted(steps=42))])
    assert told.names.known == ["n"]
    assert b"\n".join(told.lines) == payload.rpartition(b"\n")[0]  # what the seal is over


@pytest.mark.usefixtures("lifted")
def test_present_form_is_not_lifted() -> None:
    [(_, event)] = read(body([2, 1.5, "r", 0, [], [[20, 0, 1]]], 42))[0].logged

    assert event.steps == 1


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("first", [[1], [1, 1.5], [1, 1.5, "r", [], [[20, 0, 9]]], [0, "soon", "r", [], []]])
def test_damaged_old_form_is_refused(first: Any) -> None:
    with pytest.raises(StoreError) as caught:
        read(body(first))
    assert caught.value.code == "store-damaged"


@pytest.mark.parametrize("version", [3, 4, 10**9, 0, -1, 1.5, "1", None, [], {}, "x" * 1000])
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
    with pytest.raises(StoreError, match="form 3") as caught:
        read(body([3, 1.5, "r", 0, [], []]))
    assert caught.value.code == "store-newer"


def test_step_that_is_missing_in_between_is_refused() -> None:
    structure = from_json(b'[0,1500,"r",[],[]]')
    with pytest.raises(StoreError, match="form 1"):
        upcast(structure, Body(CODEC, Names()), {0: from_0})


def test_every_older_version_has_an_upcaster() -> None:
    assert set(UPCASTERS) == set(range(1, VERSION))


CALL = "0123456789abcdef.1/x#1"
TEXT = {"text": "t", "finish_reason": "stop"}
PARTS = {"parts": [{"kind": "text", "text": "t"}], "finish_reason": "stop"}
USED = {"input_tokens": 3, "calls": 1, "cost_usd": 0.5}
ASKED = f"{CALL}/budget/run/calls/1"


def version_1(key: str, result: Any, *answers: int) -> Any:
    """The event that an effect with *key* and *result* becomes, which version 1 stored."""
    payload = body([1, 1.5, "r", 0, ["n"], [[7, 0, [2, 0, 0], key, 1, *answers]]], result)
    [(path, event)] = read(payload)[0].logged
    assert path == ""
    return event


@pytest.mark.parametrize(
    ("key", "result", "event"),
    [
        (
            f"model/2/{CALL}",
            {**TEXT, "usage": USED, "model": "m"},
            events.ModelReplied(
                task="2.0:n",
                key=CALL,
                failed_attempts=2,
                reply=PARTS,
                usage=events.Usage(input_tokens=3, calls=1, cost_usd=0.5),
                model="m",
                answers=4,
            ),
        ),
        (f"model/0/{CALL}", TEXT, events.ModelReplied(task="2.0:n", key=CALL, reply=PARTS, answers=4)),
        (
            f"model/1/{CALL}/spent/1",
            {"usage": {"calls": 1}, "model": "m"},
            events.UsageRecorded(
                task="2.0:n", key=CALL, failed_attempts=1, nth=2, usage=events.Usage(calls=1), model="m"
            ),
        ),
        (
            "model/0/graph/inner/spent/0",
            {"usage": {"calls": 2}},
            events.UsageRecorded(task="2.0:n", key="graph/inner", nth=1, usage=events.Usage(calls=2)),
        ),
        (
            f"held/1/{CALL}",
            [[9, 0, 1], [8, 7, 1]],
            events.BudgetHeld(
                task="2.0:n",
                key=CALL,
                failed_attempts=1,
                reservations=(events.Amounts(9, 0, 1), events.Amounts(8, 7, 1)),
            ),
        ),
        (f"held/0/{CALL}", [], events.BudgetReleased(task="2.0:n", key=CALL)),
        (
            f"granted/{ASKED}",
            {"of": "run", "more": [0, 0, 2]},
            events.BudgetGranted(task="2.0:n", question=ASKED, of="run", amounts=events.Amounts(calls=2)),
        ),
        ("harness/failed", 3, events.RepliesDiscarded(task="2.0:n", failed_attempts=3)),
    ],
)
def test_effects_about_model_calls_become_their_own_events(key: str, result: Any, event: Any) -> None:
    assert version_1(key, result, 4) == event


@pytest.mark.parametrize(
    "value",
    [1, "x", [], [[1, 2, 3]], {**TEXT, "usage": USED}, {"of": "run", "more": [0, 0, 1]}, {"usage": {"tokens": 3}}],
)
@pytest.mark.parametrize("name", ["model/0/x", "model/y", "held/0/x", "granted/run", "harness/failed", "tool/x"])
def test_effect_of_the_user_s_own_stays_one_whatever_its_name(name: str, value: Any) -> None:
    key = f"{name}#0"

    assert version_1(key, value) == events.EffectRecorded(task="2.0:n", key=key, result=value)


@pytest.mark.parametrize(
    ("key", "result"),
    [
        (f"model/0/{CALL}", {**TEXT, "usage": {"more": 1}}),
        (f"held/0/{CALL}", [[1, 2]]),
        (f"held/0/{CALL}", ["abc"]),
        (f"granted/{ASKED}", {"of": "run"}),
    ],
)
def test_damaged_effect_about_model_calls_is_refused(key: str, result: Any) -> None:
    with pytest.raises(StoreError) as caught:
        version_1(key, result)

    assert caught.value.code == "store-damaged"
