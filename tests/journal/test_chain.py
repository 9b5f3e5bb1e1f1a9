"""The chain detects every changed bit, and every misplaced record; its salts are secret or seeded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import pytest
from tests.journal.event_forms import CODEC
from typing_extensions import TypedDict

from graphrt import START, GraphBuilder, events
from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import encode
from graphrt._journal.body import Body, Names
from graphrt._journal.chain import LEAF, TREE, Chain
from graphrt._journal.reader import Reader
from graphrt._journal.seal import SEED_BYTES
from graphrt._journal.thread_fold import Fold
from graphrt.errors import StoreError
from graphrt.limits import Limits
from graphrt.reducers import append
from graphrt.stores import MemoryStore
from graphrt.stores.values import Record

SEED = 7
Written: TypeAlias = list[tuple[str, int]]
ATS = [1.5, 2.25, 2.25, -3.000001, 1e9, 1_750_000_000.123456]


class State(TypedDict, total=False):
    notes: Annotated[list[str], append]
    n: int


def plan() -> Any:
    g: Any = GraphBuilder(State, name="g")
    g.add_node("n", lambda _: {})
    g.add_edge(START, "n")
    return g.compile().__graphrt_plan__


def batches() -> list[list[tuple[str, Any]]]:
    """Batches that write one field, two, the same one twice, and none."""
    done = events.TaskSucceeded
    started = events.RunStarted(graph="g", fingerprint="f", thread="t", seed=1, input={"notes": [], "n": 0}, fresh=True)
    first = [("", started), ("", events.TasksRouted(reason="entry", next=("n",)))]
    made = [
        [
            ("", done(task=f"{step}.0:n", node="n", updates=({"notes": ["ä\n"], "n": step},))),
            ("", events.SuperstepCommitted(superstep=step, wrote=("notes", "n"), next=("n",))),
        ]
        for step in range(1, len(ATS))
    ]
    return [first, *made]


def records(seed: int | None = SEED, thread: str = "t") -> list[Record]:
    chain, names, seq = Chain(thread), Names(), 0
    made: list[Record] = []
    for at, logged in zip(ATS, batches(), strict=True):
        body = Body(CODEC, names)
        payload = encode(body, Batch(at, "r", 0, logged))
        seq += len(logged)
        made.append(Record(seq, len(logged), payload, chain.seal(seq, len(logged), at, body.lines, body.written, seed)))
    return made


def accepted(found: Sequence[Record], thread: str = "t") -> int:
    """How many records the chain accepts, one after another."""
    chain, reader = Chain(thread), Reader(MemoryStore(), "t", CODEC)
    for done, record in enumerate(found):
        try:
            batch, body = reader.body(record.body)
            chain.check(record.seq, record.count, batch.at, body.lines, body.written, record.seal)
        except StoreError as error:
            if error.code != "store-damaged":
                raise
            return done
    return len(found)


def flips(data: bytes) -> list[bytes]:
    return [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))]


def test_chain_accepts_sealed_records() -> None:
    assert accepted(records()) == len(ATS)
    assert accepted(records(None)) == len(ATS)


def test_change_of_any_byte_of_a_seal_is_detected() -> None:
    found = records()
    for at, record in enumerate(found):
        for seal in flips(record.seal):
            assert accepted([*found[:at], record._replace(seal=seal)]) == at


def test_seal_of_the_wrong_length_is_detected() -> None:
    found = records()
    for size in range(len(found[0].seal)):
        assert accepted([found[0]._replace(seal=found[0].seal[:size])]) == 0
    for more in (b"\x00", b"\x00" * SEED_BYTES, b"\x00" * 32):
        assert accepted([found[0]._replace(seal=found[0].seal + more)]) == 0


def test_change_of_any_byte_of_a_line_is_detected() -> None:
    """Without the checksum, which would detect it as well."""
    for at, record in enumerate(records()):
        *lines, _ = record.body.split(b"\n")
        written = [line for line in lines[1:] if line]
        assert at == 0 or len(written) == 2
        for line, text in enumerate(lines):
            for changed in flips(text):
                chain, wrote = standing(at)
                with pytest.raises(StoreError):
                    chain.check(
                        record.seq,
                        record.count,
                        ATS[at],
                        [*lines[:line], changed, *lines[line + 1 :]],
                        wrote,
                        record.seal,
                    )
        chain, wrote = standing(at)
        chain.check(record.seq, record.count, ATS[at], lines, wrote, record.seal)


def standing(at: int) -> tuple[Chain, Written]:
    """The chain before the record *at*, and the writes of that record."""
    chain, reader = Chain("t"), Reader(MemoryStore(), "t", CODEC)
    *before, last = records()[: at + 1]
    for record in before:
        batch, body = reader.body(record.body)
        chain.check(record.seq, record.count, batch.at, body.lines, body.written, record.seal)
    return chain, reader.body(last.body)[1].written


@pytest.mark.parametrize("change", ["seq", "count", "at", "lines swapped", "line less", "line more"])
def test_content_of_the_header_has_to_match(change: str) -> None:
    record = records()[2]
    *lines, _ = record.body.split(b"\n")
    seq, count, at = record.seq, record.count, ATS[2]
    match change:
        case "seq":
            seq += 1
        case "count":
            count += 1
        case "at":
            at += 1e-6
        case "lines swapped":
            lines = [lines[0], lines[2], lines[1]]
        case "line less":
            lines = lines[:-1]
        case _:
            lines = [*lines, b"1"]
    chain, wrote = standing(2)
    with pytest.raises(StoreError) as caught:
        chain.check(seq, count, at, lines, wrote, record.seal)
    assert caught.value.seq == seq


def test_field_that_was_folded_differently_is_detected() -> None:
    """The state is sealed, not only the lines: a write under another name, in another order, or twice is detected."""
    record = records()[2]
    *lines, _ = record.body.split(b"\n")
    other: list[Written] = [
        [("n", 1), ("notes", 2)],
        [("other", 1), ("n", 2)],
        [("notes", 1), ("n", 2), ("n", 2)],
        [("notes", 1)],
        [("notes", 0), ("n", 2)],
    ]
    for written in other:
        chain, wrote = standing(2)
        assert wrote == [("notes", 1), ("n", 2)]
        with pytest.raises(StoreError):
            chain.check(record.seq, record.count, ATS[2], lines, written, record.seal)


def test_swapped_dropped_or_repeated_record_is_detected() -> None:
    found = records()
    for at in range(len(found) - 1):
        assert accepted(found[:at] + found[at + 1 :]) == at
        assert accepted([*found[: at + 1], *found[at:]]) == at + 1
        assert accepted([*found[:at], found[at + 1], found[at]]) == at


def test_chain_of_another_thread_does_not_match() -> None:
    assert accepted(records(thread="other")) == 0
    assert accepted([records()[0], *records(seed=8)[1:]]) == 1


def test_seeded_salts_are_equal_in_two_runs_and_differ_between_records() -> None:
    seals = [record.seal for record in records()]
    salts = [seal[-SEED_BYTES:] for seal in seals]

    assert seals == [record.seal for record in records()]
    assert len(set(salts)) == len(salts)


def test_salts_of_another_seed_and_without_a_seed_differ() -> None:
    sets = [records(), records(8), records(None), records(None)]
    for one, other in itertools.combinations(sets, 2):
        for a, b in zip(one, other, strict=True):
            assert a.body == b.body
            assert a.seal[-SEED_BYTES:] != b.seal[-SEED_BYTES:]


def test_chain_continues_from_a_snapshot() -> None:
    found = records()
    for at in range(len(found)):
        chain, reader = Chain("t"), Reader(MemoryStore(), "t", CODEC)
        for index, record in enumerate(found):
            if index == at:
                saved = chain.saved()
                assert set(saved) - {LEAF, TREE} == set(chain.digests)
                chain = Chain("t", saved)
            batch, body = reader.body(record.body)
            chain.check(record.seq, record.count, batch.at, body.lines, body.written, record.seal)


def test_header_has_no_user_values_and_the_documented_length() -> None:
    for record in records():
        assert len(record.seal) == 90
        assert b"notes" not in record.seal


@pytest.mark.parametrize("kind", ["less", "twice", "swapped", "count", "seal"])
def test_fold_refuses_entries_that_match_neither_the_chain_nor_the_numbers(kind: str) -> None:
    found = records()
    match kind:
        case "less":
            found = [found[0], *found[2:]]
        case "twice":
            found = [found[0], found[1], found[1]]
        case "swapped":
            found = [found[0], found[2], found[1]]
        case "count":
            found = [found[0]._replace(count=1, seq=1)]
        case _:
            found = [found[0], found[1]._replace(seal=found[2].seal)]
    fold = Fold(plan(), Limits(), Reader(MemoryStore(), "t", CODEC), {"chained": "t"})
    with pytest.raises(StoreError) as caught:
        add_all(fold, found)
    assert caught.value.code == "store-damaged"


@pytest.mark.parametrize("kind", ["less", "twice", "swapped", "count", "first"])
def test_fold_without_a_chain_refuses_entries_with_wrong_numbers(kind: str) -> None:
    found = [record._replace(seal=b"") for record in records()]
    match kind:
        case "less":
            found = [found[0], *found[2:]]
        case "twice":
            found = [found[0], found[1], found[1]]
        case "swapped":
            found = [found[0], found[2], found[1]]
        case "count":
            found = [found[0]._replace(count=1, seq=1)]
        case _:
            found = found[1:]
    fold = Fold(plan(), Limits(), Reader(MemoryStore(), "t", CODEC), {})
    with pytest.raises(StoreError) as caught:
        add_all(fold, found)
    assert caught.value.code == "store-damaged"


def add_all(fold: Fold, found: Sequence[Record]) -> None:
    for record in found:
        fold.add(record)
