"""What a store gets by inheriting `StoreVerbs`, beside its operations on whole threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from graphrt.stores import StoreVerbs


@pytest.mark.parametrize("blocks", [True, False], ids=["blocking", "not blocking"])
def test_store_of_your_own_is_a_context_by_inheriting(blocks):
    """A store that blocks is closed on a worker thread, not on the event loop."""

    class Own(StoreVerbs):
        blocking = blocks

        def __init__(self):
            self.closed_on = []

        def close(self):
            self.closed_on.append(threading.get_ident())

    async def use(store):
        async with store as same:
            assert same is store
            assert store.closed_on == []

    one, other = Own(), Own()
    with one as same:
        assert same is one
        assert one.closed_on == []
    asyncio.run(use(other))

    here = threading.get_ident()
    assert one.closed_on == [here]
    assert len(other.closed_on) == 1
    assert (other.closed_on == [here]) is not blocks
