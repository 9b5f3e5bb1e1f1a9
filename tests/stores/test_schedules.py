"""Schedules in stores: what an encrypted one reveals, what wrappers pass on, and files of older versions."""

from __future__ import annotations

import pytest
from tests.stores.support import AT
from tests.stores.test_finding import Plain

from graphrt.errors import InputError, StoreError
from graphrt.stores import EncryptedStore, MemoryStore, StoredSchedule, TenantStore
from graphrt.stores.filters import ScheduleFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.testing.flaky_store import Fault, FlakyStore

ROW = StoredSchedule("daily", "g", "v1", AT, b"an input")


@pytest.mark.needs("cryptography")
def test_encrypted_store_keeps_no_input_in_plain_text(tmp_path):
    inner = SqliteStore(tmp_path / "runs.db")
    with EncryptedStore(inner, {"k": bytes(range(32))}) as store:
        store.put_schedule(ROW, replaces=None)
        store.move_schedule("daily", "v1", due_at=AT, to=AT + 60)
        (stored,) = inner.query(ScheduleFilter())
        assert b"input" not in stored.body
        assert store.query(ScheduleFilter()) == [ROW._replace(due_at=AT + 60)]

        inner.put_schedule(stored._replace(name="other"), replaces=None)  # the body of another schedule
        with pytest.raises(StoreError) as caught:
            store.query(ScheduleFilter())
        assert caught.value.code == "store-damaged"


@pytest.mark.parametrize("wrap", ["alone", "in a tenant's store", "flaky"])
def test_store_without_the_methods_raises_a_typed_error(wrap):
    store = Plain(MemoryStore())
    store = {"alone": store, "flaky": FlakyStore(store)}.get(wrap) or TenantStore(store, "acme")

    assert "schedules" not in store.offers
    with pytest.raises(InputError) as caught:
        store.query(ScheduleFilter())
    assert caught.value.code == "store-lacks"
    assert "does not offer 'schedules'" in str(caught.value)


def test_flaky_store_fails_at_the_configured_call():
    store = FlakyStore(MemoryStore(), [Fault("put_schedule", moment="after"), Fault("query")])
    with pytest.raises(StoreError):
        store.put_schedule(ROW, replaces=None)
    with pytest.raises(StoreError):
        store.query(ScheduleFilter())

    assert store.query(ScheduleFilter()) == [ROW]  # it was stored although the call failed
    assert store.move_schedule("daily", "v1", due_at=AT, to=AT + 1)
    assert store.delete_schedule("daily")
