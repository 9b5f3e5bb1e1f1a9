"""What a store inherits from `Store`, besides its operations on whole threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from graphrt.stores import MemoryStore, StoreWrapper


@pytest.mark.parametrize("blocks", [True, False], ids=["blocking", "not blocking"])
def test_custom_store_is_a_context_manager_by_inheritance(blocks):
    """A blocking store is closed on a worker thread, not on the event loop."""

    class Own(StoreWrapper):
        def __init__(self):
            super().__init__(MemoryStore())
            self.blocking = blocks
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
