"""Logs of real runs: a voyage with all kinds of events, on SQLite, with a key."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.audit.exporting import exported
from tests.journal import voyage

from graphrt import Runtime
from graphrt.audit import AuditLog
from graphrt.stores import open_store

KEY = bytes(range(7, 250, 5))[:32] + b"k"
OLD = b"an older key: 0123456789 ABCDEF!" + b"o"
OTHER = b"a key of somebody else: 98765432" + b"x"
RECORDS = 64


def keyed(runtime: Any, key: bytes | None, older: Sequence[bytes] = ()) -> Any:
    """Make *runtime* authenticate its writes from now on."""
    audit = AuditLog(key=key, older=older) if key else None
    runtime._options = runtime._options._replace(audit=audit)
    return runtime


def options(start: int = 1_750_000_000) -> dict[str, Any]:
    numbers, ids = itertools.count(start), itertools.count(1)
    return {"clock": lambda: next(numbers) + 0.123456789, "ids": lambda: f"run-{next(ids)}", "seed": 7}


def voyages(path: Path, *threads: str, key: bytes | None, records: int = RECORDS) -> None:
    """Write threads of *records* records and more into a database: runs with fan-out, effects, retries, a nested graph,
    questions and answers, an edit, and a large value."""
    url = f"sqlite:///{path}"
    with keyed(Runtime(voyage.graph(), store=url, **options()), key) as runtime, open_store(url) as store:
        for thread in threads:
            voyage.tries.clear()
            runtime.run({"notes": ["größe \U0001f600"]}, thread=thread)
            runtime.update(thread, {"table": {"c": "x" * 70_000}, "count": 5})
            runtime.resume(thread, "left")
            runtime.resume(thread, answer=True)
            while len(list(store.records(thread))) + 16 <= records:
                runtime.run({"count": 1}, thread=thread)
                runtime.resume(thread, "right")
                runtime.resume(thread, answer=False)
            while len(list(store.records(thread))) < records:
                runtime.update(thread, {"count": 1})


@cache
def log(
    thread: str = "voyage", key: bytes | None = KEY, *, records: int = RECORDS, every: int = 8
) -> tuple[bytes, ...]:
    """The log of a thread of *records* records, with a head after each *every* and after the last one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        voyages(path, thread, key=key, records=records)
        with open_store(f"sqlite:///{path}") as store:
            lines = list(exported(store, thread, key=lambda _: key, every=every))
    return tuple(lines)


@cache
def voyages_with_a_fork() -> tuple[bytes, ...]:
    """The log of a thread that was forked from another one, and continued."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        voyages(path, "voyage", key=KEY, records=20)
        url = f"sqlite:///{path}"
        with keyed(Runtime(voyage.graph(), store=url, **options()), KEY) as runtime:
            runtime.fork("voyage", at=3, to="forked")
            runtime.retry("forked")
        with open_store(url) as store:
            return tuple(exported(store, "forked", key=lambda _: KEY, every=4))


@cache
def pruned(key: bytes | None = KEY) -> tuple[bytes, ...]:
    """The log of a thread whose first entries are gone."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        voyages(path, "voyage", key=key, records=64)
        url = f"sqlite:///{path}"
        with keyed(Runtime(voyage.graph(), store=url, **options()), key) as runtime:
            assert runtime.prune("voyage", before=100) > 20
            runtime.run({"count": 1}, thread="voyage")
        with open_store(url) as store:
            return tuple(exported(store, "voyage", key=lambda _: key, every=8))
