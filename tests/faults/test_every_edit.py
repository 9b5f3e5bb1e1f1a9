"""The store fails at any call of a verb that edits or reads threads: a typed error, all or nothing, and a retry works."""

from __future__ import annotations

import asyncio
import itertools
import os

import pytest

from graphrt import GraphrtError, InputError, StoreError
from graphrt.stores import MemoryStore
from graphrt.stores.filters import ThreadFilter

from .faulty import CODES, FaultyStore, within_reason
from .scenario import INPUT, THREAD, Caller, World, check_end

FULL = os.environ.get("GRAPHRT_FULL") == "1"
OTHER = "other"

VERBS = {
    "state": lambda call, seq: call("state", THREAD),
    "state at": lambda call, seq: call("state", THREAD, at=seq),
    "history": lambda call, seq: call("history", THREAD),
    "entries": lambda call, seq: call("entries", THREAD),
    "replay": lambda call, seq: call("replay", THREAD),
    "diff": lambda call, seq: call("diff", THREAD, OTHER),
    "threads": lambda call, seq: call("threads"),
    "check_threads": lambda call, seq: call("check_threads"),
    "update": lambda call, seq: call("update", THREAD, {"notes": ["edited"]}),
    "update as": lambda call, seq: call("update", THREAD, {"total": 7}, as_node="last"),
    "bulk_update": lambda call, seq: call("bulk_update", THREAD, [({"total": 1}, None), ({"total": 2}, None)]),
    "fork": lambda call, seq: call("fork", THREAD, to="new"),
    "fork at": lambda call, seq: call("fork", THREAD, at=seq, to="new"),
    "copy_thread": lambda call, seq: call("copy_thread", THREAD, "new"),
    "prune": lambda call, seq: call("prune", OTHER),
    "sweep": lambda call, seq: call("sweep", older_than_s=0),
    "delete_thread": lambda call, seq: call("delete_thread", OTHER),
}
PARTS = {"prune", "sweep"}
"""Verbs of several transactions, each of which is atomic."""


def prepared(store):
    """A store with a thread that asks, and a completed one; and a caller of its verbs."""
    times = itertools.count(1_700_000_000)
    caller = Caller(store, World(), clock=lambda: float(next(times)))
    caller.call("run", INPUT, thread=OTHER)
    for _ in range(2):
        status = caller.call("state", OTHER)
        caller.call("resume", OTHER, {q.id: caller.answer(q) for q in status.interrupts})
    caller.call("run", INPUT, thread=THREAD)
    return caller


def everything(store):
    """All stored data, except the owner and the number of claims."""
    found = {}
    for head in store.query(ThreadFilter()):
        loaded = store.load(head.thread)
        kept = head._replace(epoch=0, owned=False, created_at=0.0)
        found[head.thread] = (kept, list(store.records(head.thread)), dict(loaded.staged), loaded.snapshot, loaded.meta)
    return found


def verb_of(caller, name, face):
    seq = list(caller.runtime.entries(THREAD))[2].seq

    def call(verb, *arguments, **options):
        if face == "sync":
            found = getattr(caller.runtime, verb)(*arguments, **options)
            return tuple(found) if verb == "entries" else found
        return asyncio.run(getattr(caller.runtime, f"a{verb}")(*arguments, **options))

    return lambda: VERBS[name](call, seq)


def done_well(name, face):
    """The stored data after the verb without a failure."""
    with MemoryStore() as inner:
        store = FaultyStore(inner)
        verb_of(prepared(store), name, face)()
        return everything(inner)


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_verb_is_all_or_nothing_wherever_the_store_fails(name, after, lasting, expected):
    face = "async" if lasting else "sync"
    whole = done_well(name, face)
    step = 1 if FULL else 7
    first = 1 if FULL else 1 + after + 2 * lasting  # the four tests of a verb take turns with its calls
    for at in range(first, 60, step):
        with MemoryStore() as inner:
            store = FaultyStore(inner)
            caller = prepared(store)
            verb = verb_of(caller, name, face)
            before = everything(inner)
            store.calls.clear()
            store.at, store.code, store.after, store.lasting = at, CODES[at // step % 3], after, lasting
            error = None
            try:
                within_reason(verb)
            except GraphrtError as raised:
                error = raised
            store.works = True
            if not store.failed:
                assert error is None
                break
            assert error is None or (isinstance(error, StoreError) and error.code in CODES)
            now = everything(inner)
            assert now in (before, whole) or (name in PARTS and error is not None)
            assert error is not None or now == whole
            if error is not None:
                repeat(verb, landed=now == whole and now != before)
            if name not in {"update", "update as", "bulk_update"}:
                caller.finish()
                check_end(caller, expected, others=3)
    else:
        pytest.fail("more calls than expected")

    assert at > 1


def repeat(verb, *, landed):
    """The same call works now, or is refused because its work was already done."""
    refused = None
    try:
        within_reason(verb)
    except InputError as error:
        refused = error
    assert refused is None or (landed and refused.code in {"thread-exists", "unknown-thread"}), refused
