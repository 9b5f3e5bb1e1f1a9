"""The store fails at any call of a run, before or after its work: a typed error, no leftovers, and the run can
continue.
"""

from __future__ import annotations

import os

import pytest

from graphrt.errors import GraphrtError, InputError
from graphrt.stores import MemoryStore, SqliteStore

from .faulty import CODES, FaultyStore, nothing_left, within_reason, worker_threads
from .scenario import THREAD, Caller, World, check_end, is_of_the_store, session

FULL = os.environ.get("GRAPHRT_FULL") == "1"
FACES = ("sync", "async")
STEP = 1 if FULL else 8
"""Every fourth call of a run fails, other calls than in the sibling sweep; together they cover every call."""


def attempt(store, **options):
    """A session over *store*, and the error that it ended with."""
    caller = Caller(store, World(), **options)
    try:
        within_reason(lambda: session(caller))
    except GraphrtError as error:
        return caller, error
    return caller, None


def stands_at(store):
    """The last entry of the thread, or 0."""
    try:
        return store.head(THREAD).seq
    except InputError:
        return 0


def check_failed(store, caller, error):
    """Check the state right after an error: it is typed, the thread is free, and the stored data is the acknowledged
    data.
    """
    assert is_of_the_store(error), repr(error)
    assert error.fix
    assert stands_at(store.inner) == store.stored.get(THREAD, 0)
    if stands_at(store.inner):
        snapshot = caller.call("state", THREAD)
        assert snapshot.seq == store.stored[THREAD]
        caller.runtime.replay(THREAD)
    assert not caller.runtime._config.active


def one_fault(make, expected, *, at, code, after, lasting, **options):
    before = worker_threads()
    with make() as inner:
        store = FaultyStore(inner, at=at, code=code, after=after, lasting=lasting)
        caller, error = attempt(store, **options)
        store.works = True
        nothing_left(before)
        if not store.failed:
            assert error is None
            check_end(caller, expected)
            return False
        if error is not None:  # otherwise nothing depended on it any more
            check_failed(store, caller, error)
        within_reason(caller.finish)
        assert not store.head(THREAD).owned
        check_end(caller, expected, again=error is not None)
        nothing_left(before)
    return True


def every_call(make, expected, *, sweep, step=STEP, **options):
    """A fault at each call in turn, or at each *step*-th, by the number of the *sweep*; the kinds of fault alternate."""
    for at in range(1 + sweep % step, 200, step):
        if not one_fault(make, expected, at=at, code=CODES[at // step % len(CODES)], **options):
            assert at > 10
            return
    raise AssertionError("more calls than expected")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("face", FACES)
def test_fault_at_any_call_is_raised_and_the_run_continues_afterwards(face, after, expected):
    nodes = ("sync", "mixed") if not FULL else ("sync", "async", "mixed")
    first = FACES.index(face) + after
    for sweep, kind in enumerate(nodes, first):
        options = {"face": face, "nodes": kind}
        every_call(MemoryStore, expected, sweep=sweep, after=after, lasting=False, **options)


@pytest.mark.parametrize("face", FACES)
def test_store_that_fails_for_long_raises_and_the_run_continues_afterwards(face, expected):
    """From some call on everything fails, including the release of the thread."""
    sweep = FACES.index(face)
    options = {"face": face, "nodes": "mixed"}
    every_call(MemoryStore, expected, sweep=sweep, after=False, lasting=True, **options)


@pytest.mark.parametrize("watch", ["steps", "custom"])
@pytest.mark.parametrize("face", FACES)
def test_reader_of_a_run_also_gets_the_fault(face, watch, expected):
    first = FACES.index(face) + (watch == "custom")
    for sweep, lasting in enumerate((False, True), first):
        options = {"face": face, "nodes": "mixed", "watch": watch}
        every_call(MemoryStore, expected, sweep=sweep, after=False, lasting=lasting, **options)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_fault_at_any_call_on_a_file_is_raised_and_the_run_continues_afterwards(after, lasting, expected, folder):
    numbers = iter(range(1_000))

    def make():
        return SqliteStore(folder / f"{next(numbers)}.db")

    step = 1 if FULL else 10
    options = {"face": "async", "nodes": "mixed"}
    every_call(make, expected, sweep=3 * after + lasting, step=step, after=after, lasting=lasting, **options)
