"""A prune that the store interrupts: removed data was announced before, and a repeated call completes it."""

from __future__ import annotations

import itertools

import pytest

from graphrt import StoreError
from graphrt.events import HistoryPruned
from graphrt.stores import MemoryStore

from .faulty import CODES, FaultyStore, within_reason
from .test_every_edit import OTHER, everything, prepared


def told(caller):
    return [entry.event.upto for entry in caller.runtime.entries(OTHER) if isinstance(entry.event, HistoryPruned)]


KINDS = [
    pytest.param(
        lasting,
        after,
        before,
        id=f"{'lasting' if lasting else 'once'}-{'after' if after else 'before'}-{before}",
        marks=pytest.mark.full if lasting ^ after ^ (before is None) else (),
    )
    for lasting, after, before in itertools.product([False, True], [False, True], [None, 9])
]
"""Any two of the three combined; all three in full runs."""


@pytest.mark.parametrize(("lasting", "after", "before"), KINDS)
def test_data_removed_by_an_interrupted_prune_was_announced(before, after, lasting):
    broken: set[str] = set()
    for at in range(1, 60):
        with MemoryStore() as inner:
            store = FaultyStore(inner)
            caller = prepared(store)
            values = caller.runtime.state(OTHER).values
            store.calls.clear()
            store.at, store.code, store.after, store.lasting = at, CODES[at % 3], after, lasting
            try:
                within_reason(lambda caller=caller: caller.runtime.prune(OTHER, before=before))
            except StoreError:
                broken.add(store.failed)
            store.works = True
            first, uptos = inner.head(OTHER).first, told(caller)
            if not store.failed:
                assert uptos == [first - 1]
                break
            assert first == 1 or first - 1 in uptos
            forgotten = caller.runtime.prune(OTHER, before=before)

            assert told(caller) == [inner.head(OTHER).first - 1] != [0]
            assert forgotten in (0, inner.head(OTHER).first - 1)
            assert caller.runtime.replay(OTHER).values == values
            again = everything(inner)
            assert caller.runtime.prune(OTHER, before=before) == 0
            assert everything(inner) == again
    else:
        pytest.fail("more calls than expected")

    assert {"claim", "commit", "prune"} <= broken
