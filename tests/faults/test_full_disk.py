"""On a full disk a commit fails with `store-full`: no acknowledged entry is lost, and the next one works once there is
room.

The disk is a quota on the files of one folder, below SQLite, and a small file system in memory where this user may
mount one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import START, GraphBuilder, Runtime
from graphrt.errors import StoreError
from graphrt.reducers import append
from graphrt.stores import SqliteStore
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite._journal_modes import Pragmas
from graphrt.stores.values import Commit, Record

MODES = {"delete": Pragmas("delete", "EXTRA"), "wal": Pragmas("wal", "FULL")}
AT = 1_700_000_000.0


class State(te.TypedDict, total=False):
    log: Annotated[list[str], append]


g = GraphBuilder(State, name="full")
g.add_node("a", lambda _: {"log": ["a" * 700]})
g.add_node("b", lambda _: {"log": ["b" * 300]})
g.add_sequence([START, "a", "b"])
graph = g.compile()


class Quota:
    """A limit on the total size of the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.max_bytes: int | None = None

    def used(self) -> int:
        used = 0
        for path in self.folder.iterdir():
            with suppress(FileNotFoundError):  # a journal that another thread of the store has just removed
                used += path.stat().st_size
        return used

    def before(self, op: str, path: str, *details: Any) -> None:
        most = self.max_bytes  # read once: the test may free the disk while a checkpoint writes
        if op != "write" or most is None:
            return
        import apsw

        offset, data = details
        size = os.path.getsize(path) if os.path.exists(path) else 0  # noqa: PTH110, PTH202 - as SQLite names it
        if self.used() + max(0, offset + len(data) - size) > most:
            error = apsw.FullError("planted")
            error.extendedresult = 13
            raise error

    def after(self, op: str, path: str, *details: Any) -> None:
        """Nothing to do."""


Disk = tuple[SqliteStore, Callable[[], None], Callable[[], None]]


@contextmanager
def within_quota(mode: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    from tests.faults.apsw_files import use_watched_files

    quota = Quota(folder)
    watched = use_watched_files(monkeypatch, quota)

    def fill() -> None:
        quota.max_bytes = quota.used() + 100_000

    def free() -> None:
        quota.max_bytes = None

    with SqliteStore(folder / "runs.db", _pragmas=MODES[mode]) as store:
        yield store, fill, free
        free()
    watched.unregister()


@contextmanager
def on_small_file_system(folder: Path) -> Iterator[Disk]:
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False, capture_output=True)
    if done.returncode:
        pytest.skip("this user cannot mount a file system")
    ballast = folder / "ballast"

    def fill() -> None:
        disk = os.statvfs(folder)
        ballast.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - 100_000)))

    try:
        with SqliteStore(folder / "runs.db") as store:
            store.query(ThreadFilter())  # creates the file
            yield store, fill, ballast.unlink
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture(params=[*(pytest.param(mode, marks=pytest.mark.needs("apsw")) for mode in MODES), "mounted"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A store, a call that fills its disk up to 100,000 bytes, and one that makes room."""
    if request.param != "mounted":
        with within_quota(request.param, tmp_path, monkeypatch) as disk:
            yield disk
    elif sys.platform != "linux":
        pytest.skip("only Linux has mounts in memory that a test can make")
    else:
        with on_small_file_system(tmp_path) as disk:
            yield disk


def run_without_end(runtime: Runtime[State], completed: list[str]) -> None:
    for number in count():
        runtime.run({"log": ["start"]}, thread=f"t-{number}")
        completed.append(f"t-{number}")


def test_runs_on_a_full_disk_fail_and_continue_when_there_is_room(disk: Disk) -> None:
    store, fill, free = disk
    runtime = Runtime(graph, store=store)
    runtime.run({"log": ["start"]}, thread="first")
    fill()
    completed = ["first"]
    with pytest.raises(StoreError) as caught:
        run_without_end(runtime, completed)

    assert caught.value.code == "store-full"
    assert caught.value.thread == f"t-{len(completed) - 1}"
    for thread in completed:  # still readable, on the full disk
        assert len(runtime.state(thread).values["log"]) == 3
    assert store.verify().ok

    free()
    started = {info.thread: info.status for info in runtime.threads()}
    if caught.value.thread in started:
        assert runtime.retry(caught.value.thread).status == "completed"
    assert runtime.run({"log": ["start"]}, thread="after").status == "completed"
    assert store.verify().findings == ()


def test_commits_of_several_threads_are_all_kept_or_refused_on_a_full_disk(disk: Disk) -> None:
    """They share transactions, and each caller learns the outcome of its own commit."""
    store, fill, free = disk
    claims = [store.claim(f"t-{number}", create=True, lease_s=600, at=AT) for number in range(6)]
    for claim in claims:
        store.commit(claim, Commit(0, AT, [Record(1, 1, b"first")]))
    fill()
    acknowledged: dict[str, int] = {}
    errors: list[StoreError] = []

    def write(claim: Any) -> None:
        try:
            for seq in count(2):
                store.commit(claim, Commit(seq - 1, AT, [Record(seq, 1, os.urandom(2_000))]))
                acknowledged[claim.thread] = seq
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(claim,)) for claim in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert {error.code for error in errors} == {"store-full"}
    assert len(errors) == len(claims)
    free()
    for claim in claims:
        seq = acknowledged.get(claim.thread, 1)
        assert store.head(claim.thread).seq == seq
        store.commit(claim, Commit(seq, AT, [Record(seq + 1, 1, b"last")]))
        assert [record.seq for record in store.records(claim.thread)] == [*range(1, seq + 2)]
