"""Forged records, changed with knowledge of the format: each is refused at its place, whatever was changed in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from zlib import crc32

import pytest
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Limits, Runtime
from graphrt._journal.reader import Reader
from graphrt._journal.thread_fold import Fold
from graphrt._journal.thread_meta import read_meta
from graphrt._runs.loading import fold_all
from graphrt.errors import StoreError
from graphrt.reducers import add, append
from graphrt.stores import MemoryStore
from graphrt.stores.values import Record

STEPS = 60


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
    """A store that records bytes; the clock has other fractions of a second each time."""
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


def with_line(record: Record, old: bytes, new: bytes) -> Record:
    """The record with a body that was forged with knowledge of the format."""
    text = record.body[:-9].replace(old, new, 1)
    assert text != record.body[:-9]
    return record._replace(body=b"%b\n%08x" % (text, crc32(text)))


def changed(at: int, new: Record) -> list[Record]:
    return [*RECORDS[:at], new, *RECORDS[at + 1 :]]


def later(record: Record) -> Record:
    return with_line(record, b"[4,17", b"[4,18")


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


def value(record: Record) -> Record:
    line = record.body.split(b"\n")[-2]
    return with_line(record, b"\n" + line, b"\n" + other(line))


def other(line: bytes) -> bytes:
    """A different value of the same kind."""
    return line.replace(b"n", b"m") if b"n" in line else b"2" if line == b"1" else line.replace(b"[", b"[1")


@pytest.mark.parametrize("change", [later, number, count, time_of_header, version, shorter, longer, none, value])
@pytest.mark.parametrize("at", [1, 2, 17, 31, STEPS])
def test_changed_record_is_refused_and_named(change: Callable[[Record], Record], at: int) -> None:
    found, records = fold(), changed(at, change(RECORDS[at]))

    with pytest.raises(StoreError) as caught:
        fold_all(found, records)
    assert (caught.value.code, caught.value.seq) == ("store-damaged", RECORDS[at].seq)
    assert found.seq == RECORDS[at - 1].seq


@pytest.mark.parametrize("time", [b"9300000000000", b"-9300000000000", b"9" * 400, b"1e400", b'"NaN"'])
def test_time_that_fits_in_no_header_is_damage(time: bytes) -> None:
    begin = RECORDS[5].body.split(b",")[1]
    records = changed(5, with_line(RECORDS[5], b"[4," + begin, b"[4," + time))

    with pytest.raises(StoreError) as caught:
        fold_all(fold(), records)
    assert caught.value.code == "store-damaged"


def test_time_that_fits_in_no_header_is_read_without_headers() -> None:
    begin = RECORDS[5].body.split(b",")[1]
    bare = [record._replace(seal=b"") for record in changed(5, with_line(RECORDS[5], begin, b"9300000000000"))]
    found = fold()
    found.chain = None
    fold_all(found, bare)

    assert found.seq == RECORDS[-1].seq
    assert found.engine.values["count"] == STEPS
