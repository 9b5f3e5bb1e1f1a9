"""The bounds on calls of a stored step, and of a record that is read again: independent of the length of the thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from graphrt import Runtime
from graphrt.audit import AuditLog
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite import _files, _log
from graphrt.stores.sqlite._journal_modes import Pragmas

from . import graphs
from .counting import CALLS, PYTHON, calls_per_unit

UNSAFE = Pragmas("wal", "OFF")
"""The same calls, without waiting for the disk."""
KEY = bytes(range(32))
"""The bound of audited steps: their records have MACs, and their Merkle tree one more leaf."""
Prepare = Callable[[int], graphs.Run]


def new_thread() -> str:
    return str(uuid4())


def start() -> Any:
    return {"count": 0, "messages": []}


def say_much(state: Any) -> Any:
    """A sink that makes no snapshot worth its bytes: the whole thread is folded again."""
    return {"messages": ["hello " * 100], "count": 1}


def memory(n: int) -> graphs.Run:
    graph = graphs.talk_graph(n)

    def run() -> None:
        with Runtime(graph, store="memory:") as runtime:
            runtime.run(start(), thread="t")

    return run


def sqlite(folder: Path, *, chain: bool, key: bytes | None = None) -> Prepare:
    """Steps on a new thread of an open file."""
    audit = AuditLog(key=key) if key is not None else None
    store = SqliteStore(folder / "runs.db", _pragmas=UNSAFE)

    def prepare(n: int) -> graphs.Run:
        runtime = Runtime(graphs.talk_graph(n), store=store, chain=chain, audit=audit)
        return lambda: runtime.run(start(), thread=new_thread())

    return prepare


def loading(folder: Path, *, chain: bool) -> Prepare:
    store = SqliteStore(folder / "runs.db", _pragmas=UNSAFE)

    def prepare(n: int) -> graphs.Run:
        runtime = Runtime(graphs.talk_graph(n, node=say_much), store=store, chain=chain)
        thread = new_thread()
        runtime.run(start(), thread=thread)

        def run() -> None:
            assert runtime.state(thread).values["count"] == n

        return run

    return prepare


# Eight of these calls of Python functions let threads share a transaction, and three make a forked child raise `forked`
# instead of waiting for a lock.
@pytest.mark.parametrize(
    ("options", "most", "most_of_all"),
    [({"chain": False}, 46, 94), ({"chain": True}, 52, 140), ({"chain": True, "key": KEY}, 61, 163)],
    ids=["bare", "chained", "audited"],
)
def test_durable_step_stays_within_its_bound_of_calls(
    tmp_path: Path, options: dict[str, Any], most: float, most_of_all: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "_SETTLED_NS", -1e18)  # as if the folder had not changed for seconds
    # Checkpoints run on a separate thread: how many of them end during a run depends on the machine.
    monkeypatch.setattr(_log, "PAGES", 10**9)
    assert calls_per_unit(sqlite(tmp_path, **options), 100, PYTHON) <= most
    assert calls_per_unit(sqlite(tmp_path, **options), 100, CALLS) <= most_of_all


def test_step_of_a_store_in_memory_stays_within_its_bound_of_calls() -> None:
    assert calls_per_unit(memory, 500) <= 74


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"chain": False}, marks=pytest.mark.full, id="bare"),
        pytest.param({"chain": True}, marks=pytest.mark.full, id="chained"),
        pytest.param({"chain": True, "key": KEY}, id="audited"),
    ],
)
def test_durable_step_costs_the_same_in_a_thread_of_ten_times_the_length(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    prepare = sqlite(tmp_path, **options)

    assert calls_per_unit(prepare, 1_000) <= 1.1 * calls_per_unit(prepare, 100)


def test_step_of_a_store_in_memory_costs_the_same_in_a_thread_of_ten_times_the_length() -> None:
    assert calls_per_unit(memory, 2_000) <= 1.1 * calls_per_unit(memory, 200)


@pytest.mark.parametrize(("chain", "most"), [(False, 100), (True, 140)], ids=["bare", "chained"])
def test_record_is_read_again_within_its_bound_of_calls(tmp_path: Path, chain: bool, most: float) -> None:
    prepare = loading(tmp_path, chain=chain)

    assert calls_per_unit(prepare, 100) <= most
    assert calls_per_unit(prepare, 1_000) <= 1.1 * calls_per_unit(prepare, 100)
