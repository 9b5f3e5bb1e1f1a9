"""Live items of worker processes: of killed workers, and in encrypted stores of tenants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.events import Entry
from graphrt.runtime import LiveItem
from graphrt.stores import SqliteStore, TenantStore
from graphrt.stores.filters import FollowerFilter

from .graphs import chatty
from .process_support import Workers


@pytest.mark.slow
def test_items_of_a_killed_worker_end_and_those_of_its_successor_follow(workers: Workers) -> None:
    runtime = Runtime(chatty(), store=workers.url)
    thread = runtime.start({"most": 12, "pause_s": 0.1})
    reader = runtime.follow(thread, live=True)
    first = workers.add(lease_s=1.5)
    workers.add(lease_s=1.5)
    found: list[Any] = []
    for one in reader:
        found.append(one)
        if isinstance(one, LiveItem) and one.mode == "custom" and one.item["at"] == 3 and first.poll() is None:
            first.kill()
            first.communicate()
            workers.processes.remove(first)

    entries = [one for one in found if isinstance(one, Entry)]
    assert [one.seq for one in entries] == [one.seq for one in runtime.entries(thread)]
    assert runtime.wait(thread).state.log == list(range(12))
    places = [one.seq for one in found]
    assert places == sorted(places)
    told = [one.item["at"] for one in found if isinstance(one, LiveItem) and one.mode == "custom"]
    assert set(told) >= {n / 2 for n in range(24)}  # the killed step is emitted again
    runtime.close()


@pytest.mark.needs("cryptography")
def test_items_of_an_encrypted_tenant_reach_only_this_tenant(tmp_path: Path) -> None:
    from graphrt.stores import EncryptedStore

    shared = EncryptedStore(SqliteStore(tmp_path / "runs.db"), {"k": bytes(range(32))})
    with shared, TenantStore(shared, "acme") as acme, TenantStore(shared, "other") as other:
        runtime = Runtime(chatty(), store=acme)
        runtime.start({"most": 1}, thread="t")
        reader = runtime.follow("t", live=True)
        assert acme.query(FollowerFilter(threads=["t"])) == ["t"]
        assert other.query(FollowerFilter(threads=["t"])) == []
        runtime.drive("t")
        sealed = Path(f"{tmp_path}/runs.db-live-wal").read_bytes() + Path(f"{tmp_path}/runs.db-live").read_bytes()

        assert [one.item for one in reader if isinstance(one, LiveItem) and one.mode == "custom"] == [
            {"at": 0},
            {"at": 0.5},
        ]
        assert b"acme~t" in sealed
        assert b"chatty" not in sealed
        assert b"custom" not in sealed
        assert other.relayed("t", after=0, limit=10) == []
        runtime.close()
