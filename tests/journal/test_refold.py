"""The fast way through plain supersteps, alone: what it takes in, what it compares, and what it leaves to the general way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Limits, Runtime
from graphrt._journal.chain import HEADER, Chain
from graphrt._journal.reader import Reader
from graphrt._journal.refold import refold
from graphrt._journal.thread_fold import Fold
from graphrt._journal.thread_meta import read_meta
from graphrt._runs.loading import fold_all
from graphrt.errors import StoreError
from graphrt.reducers import add, append
from graphrt.stores import MemoryStore
from graphrt.stores.protocol import Record

STEPS = 60
END_AT = STEPS + 1
"""Index of the record that ends the run; the first one begins it, and between them are plain supersteps."""


class State(BaseModel):
    log: Annotated[list[Any], append] = []
    count: Annotated[int, add] = 0
    last: Any = None


def step(state: State) -> Any:
    one: dict[str, Any] = {"log": [state.count], "count": 1}
    return [one, {**one, "last": f"n{state.count}"}, {"count": 1}][state.count % 3]


def graph() -> Any:
    g = GraphBuilder(State, name="plain")
    g.add_node("n", step)
    g.add_edge(START, "n")
    g.add_conditional_edges("n", lambda state: state.count < STEPS, {True: "n", False: END})
    return g.compile(limits=Limits(max_visits=None))


GRAPH = graph()


def stored(*, chain: bool = True) -> MemoryStore:
    """A store that keeps bytes; the clock is at other fractions of a second each time."""
    times = (1_750_000_000 + at / 7 for at in range(10_000))
    store = MemoryStore()
    with Runtime(GRAPH, store=store, chain=chain, seed=7, clock=lambda: next(times), ids=lambda: "run-1") as runtime:
        runtime.run({}, thread="t")
    return store


STORE = stored()
RECORDS: list[Record] = list(STORE.records("t"))


def fold() -> Fold:
    meta = read_meta(STORE.load("t").meta, "t")
    return Fold(GRAPH.__graphrt_plan__, Limits(), Reader(STORE, "t", GRAPH.__graphrt_plan__.codec, meta=meta), meta)


def standing(at: int) -> Fold:
    """A fold that stands before the record *at*, having read all before it the general way."""
    found = fold()
    for record in RECORDS[:at]:
        found.add(record)
    return found


def chain_of(found: Fold) -> Chain:
    assert found.chain is not None
    return found.chain


def written(records: Sequence[Record]) -> dict[str, tuple[list[bytes], list[bytes]]]:
    """What `Chain.skip` is given, made of the records by the general way."""
    reader, made = fold().reader, dict[str, tuple[list[bytes], list[bytes]]]()
    for record in records:
        _, body = reader.body(record.body)
        for name, at in body.written:
            lines, salts = made.setdefault(name, ([], []))
            lines.append(body.lines[at])
            salts.append(record.seal[117 + 16 * at : 133 + 16 * at])
    return made


def with_line(record: Record, old: bytes, new: bytes) -> Record:
    """The record with a body that was changed by somebody who knows the form."""
    text = record.body[:-9].replace(old, new, 1)
    assert text != record.body[:-9]
    return record._replace(body=b"%b\n%08x" % (text, crc32(text)))


def changed(at: int, new: Record) -> list[Record]:
    return [*RECORDS[:at], new, *RECORDS[at + 1 :]]


# -- skipping ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(st.tuples(st.sampled_from(range(1, END_AT)), st.sampled_from(range(1, END_AT))).map(sorted))
def test_skipping_comes_to_what_checking_each_comes_to(ends: list[int]) -> None:
    first, last = ends
    chain, checked = chain_of(standing(first)), chain_of(standing(last + 1))

    assert chain.skip(written(RECORDS[first : last + 1]), RECORDS[last].seq, RECORDS[last].seal)
    assert (chain.leaf, chain.digests) == (checked.leaf, checked.digests)


def flipped(lines: list[bytes]) -> None:
    lines[3] = lines[3][:-1] + bytes([lines[3][-1] ^ 1])


def swapped(lines: list[bytes]) -> None:
    lines[3], lines[4] = lines[4], lines[3]


@pytest.mark.parametrize("change", [flipped, swapped])
@pytest.mark.parametrize("part", [0, 1], ids=["lines", "salts"])
@pytest.mark.parametrize("field", ["log", "count", "last"])
def test_skipping_refuses_what_was_not_sealed_and_changes_nothing(
    field: str, part: int, change: Callable[[list[bytes]], None]
) -> None:
    chain = chain_of(standing(1))
    before = chain.leaf, dict(chain.digests)
    wrong = written(RECORDS[1:40])
    if (field, part, change) == ("count", 0, swapped):
        wrong["count"][0][3] = b"2"  # all of them are alike
    else:
        change(wrong[field][part])

    assert not chain.skip(wrong, RECORDS[39].seq, RECORDS[39].seal)
    assert (chain.leaf, chain.digests) == before


def test_skipping_refuses_writes_that_lack_or_have_another_name() -> None:
    chain, right = chain_of(standing(1)), written(RECORDS[1:40])
    last = RECORDS[39]
    less = {name: parts for name, parts in right.items() if name != "last"}
    for wrong in (less, {**less, "other": right["last"]}, {**right, "other": ([b"1"], [bytes(16)])}):
        assert not chain.skip(wrong, last.seq, last.seal)

    assert chain.skip(right, last.seq, last.seal)


def test_skipping_refuses_another_number_and_a_seal_that_is_none() -> None:
    chain, right, last = chain_of(standing(1)), written(RECORDS[1:40]), RECORDS[39]
    wrong = [last.seal[:size] for size in (0, 1, HEADER.size - 1)]
    wrong += [b"\x02" + last.seal[1:], RECORDS[38].seal, last.seal[:100] + bytes(17) + last.seal[117:]]

    assert not any(chain.skip(right, last.seq, seal) for seal in wrong)
    assert not chain.skip(right, last.seq + 2, last.seal)
    assert chain.skip(right, last.seq, last.seal)


def test_what_a_header_tells_without_a_hash_is_made_of_numbers_and_times() -> None:
    seals = [record.seal for record in RECORDS[1:END_AT]]
    seqs = [record.seq for record in RECORDS[1:END_AT]]
    times = [fold().reader.batch(record).at for record in RECORDS[1:END_AT]]

    assert Chain.heads(seals) == Chain.told(seqs, 2, times)
    assert [len(seal) for seal in seals] == [Chain.size(record.body.count(b"\n")) for record in RECORDS[1:END_AT]]
    assert not set(Chain.heads(seals)) & set(Chain.told(seqs, 3, times))
    assert not set(Chain.heads(seals)) & set(Chain.told(seqs, 2, [at + 1e-5 for at in times]))


# -- folding -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 2, 30, STEPS])
def test_plain_supersteps_are_folded_at_once(first: int) -> None:
    found, slow = standing(first), standing(END_AT)

    assert refold(found, RECORDS, first) == END_AT
    assert (found.seq, found.cause, found.tail, found.steps_at) == (slow.seq, slow.cause, slow.tail, slow.steps_at)
    assert found.engine.values == slow.engine.values
    assert chain_of(found).saved() == chain_of(slow).saved()


def test_nothing_is_folded_where_another_record_stands() -> None:
    for at in (0, END_AT):
        found = standing(at)
        before = found.seq, chain_of(found).saved()

        assert refold(found, RECORDS, at) == at
        assert (found.seq, chain_of(found).saved()) == before


def later(record: Record) -> Record:
    return with_line(record, b"[1,17", b"[1,18")


def number(record: Record) -> Record:
    return record._replace(seal=with_number(record.seal, 8))


def count(record: Record) -> Record:
    return record._replace(seal=with_number(record.seal, 12))


def time_of_header(record: Record) -> Record:
    return record._replace(seal=with_number(record.seal, 20))


def version(record: Record) -> Record:
    return record._replace(seal=with_number(record.seal, 0))


def shorter(record: Record) -> Record:
    return record._replace(seal=record.seal[:-1])


def longer(record: Record) -> Record:
    return record._replace(seal=record.seal + bytes(16))


def none(record: Record) -> Record:
    return record._replace(seal=b"")


def with_number(seal: bytes, at: int) -> bytes:
    return seal[:at] + bytes([seal[at] ^ 1]) + seal[at + 1 :]


@pytest.mark.parametrize("change", [later, number, count, time_of_header, version, shorter, longer, none])
@pytest.mark.parametrize("at", [1, 2, 31, STEPS])
def test_header_that_does_not_fit_is_left_to_the_general_way(change: Callable[[Record], Record], at: int) -> None:
    """All before it is folded at once; what is wrong is said by who checks seals."""
    found, records = standing(1), changed(at, change(RECORDS[at]))

    assert refold(found, records, 1) == at
    assert found.seq == RECORDS[at - 1].seq
    assert chain_of(found).saved() == chain_of(standing(at)).saved()
    with pytest.raises(StoreError) as caught:
        found.add(records[at])
    assert (caught.value.code, caught.value.seq) == ("store-damaged", RECORDS[at].seq)


@pytest.mark.parametrize("at", [1, 2, 17, 31, 58, STEPS])
def test_changed_value_is_found_by_halves_and_named(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one after another: in a long thread that would take the square of its length."""
    lines = RECORDS[at].body.split(b"\n")
    records = changed(at, with_line(RECORDS[at], b"\n" + lines[-2], b"\n" + other(lines[-2])))
    folds: list[int] = []
    skip = Chain.skip

    def spy(chain: Chain, *args: Any) -> bool:
        folds.append(1)
        return skip(chain, *args)

    monkeypatch.setattr(Chain, "skip", spy)
    with pytest.raises(StoreError) as caught:
        fold_all(fold(), records)

    assert (caught.value.code, caught.value.seq) == ("store-damaged", RECORDS[at].seq)
    assert len(folds) <= 25


def other(line: bytes) -> bytes:
    """Another value of the same kind."""
    return line.replace(b"n", b"m") if b"n" in line else b"2" if line == b"1" else line.replace(b"[", b"[1")


@pytest.mark.parametrize("time", [b"9300000000000", b"-9300000000000", b"9" * 400, b"1e400", b'"NaN"'])
def test_time_that_no_header_holds_is_damage(time: bytes) -> None:
    begin = RECORDS[5].body.split(b",")[1]
    found, records = standing(1), changed(5, with_line(RECORDS[5], b"[1," + begin, b"[1," + time))

    assert refold(found, records, 1) == 5
    with pytest.raises(StoreError) as caught:
        found.add(records[5])
    assert caught.value.code == "store-damaged"


def test_time_that_no_header_holds_is_read_where_there_is_none() -> None:
    begin = RECORDS[5].body.split(b",")[1]
    bare = [record._replace(seal=b"") for record in changed(5, with_line(RECORDS[5], begin, b"9300000000000"))]
    found = fold()
    found.chain = None
    fold_all(found, bare)

    assert found.seq == RECORDS[-1].seq
    assert found.engine.values["count"] == STEPS
