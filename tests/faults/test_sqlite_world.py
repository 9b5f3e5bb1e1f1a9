"""A real file that is full, too large for its user, or locked by another process, at any point of a run, which
continues.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from graphrt import GraphrtError
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite._journal_modes import Pragmas

from .faulty import FaultyStore, nothing_left, within_reason, worker_threads
from .scenario import THREAD, Caller, World, check_end, is_of_the_store, session

FULL = os.environ.get("GRAPHRT_FULL") == "1"
FACES = ("sync", "async")


def told(caller):
    """The error with which a session ends, or None."""
    found = None
    try:
        within_reason(lambda: session(caller))
    except GraphrtError as error:
        found = error
    assert found is None or is_of_the_store(found), repr(found)
    return found


def code(error):
    """The code of the store's own error."""
    return error.code if error.code.startswith("store-") else error.__cause__.code


def test_full_file_raises_and_the_run_continues_when_there_is_room(folder, expected):
    """Full at each number of pages that a run comes through; at every ninth without GRAPHRT_FULL=1."""
    codes = []
    for number, pages in enumerate(range(6, 200, 1 if FULL else 9)):
        before = worker_threads()
        with SqliteStore(folder / f"{pages}.db", _pragmas=Pragmas("delete", "EXTRA", page_bytes=512)) as store:
            store._file.connection().execute(f"PRAGMA max_page_count = {pages}")
            caller = Caller(store, World(), face=FACES[number % 2], nodes="mixed")
            error = told(caller)
            nothing_left(before)
            store._file.connection().execute("PRAGMA max_page_count = 100000")
            within_reason(caller.finish)
            check_end(caller, expected, again=error is not None)
            if error is None:
                break
            codes.append(code(error))

    assert len(codes) > 3
    assert set(codes) == {"store-full"}


class Locking(FaultyStore):
    """Makes another process lock the database before its n-th call."""

    def __init__(self, inner, path, how, at):
        super().__init__(inner)
        self.locked_at = at
        self.how = how
        self.other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def _fails(self, name):
        with self._lock:
            self.calls.append(name)
            if len(self.calls) == self.locked_at:
                self.other.execute(self.how)
                self.failed = name
        return False

    def unlock(self):
        self.locked_at = 0
        if self.other.in_transaction:
            self.other.execute("ROLLBACK")
        self.other.close()


@pytest.mark.parametrize("how", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_lock_that_outlasts_the_timeout_raises_and_the_run_continues_afterwards(how, folder, expected):
    codes = []
    for at in range(1, 100, 1 if FULL else 5):
        before = worker_threads()
        path = folder / f"{at}.db"
        with SqliteStore(path, busy_timeout_s=0.01) as inner:
            store = Locking(inner, path, how, at)
            caller = Caller(store, World(), face=FACES[at % 2], nodes="mixed")
            error = told(caller)
            nothing_left(before)
            store.unlock()
            if error is not None:
                assert inner.head(THREAD).seq == store.stored[THREAD] if store.stored else True
                codes.append(code(error))
            within_reason(caller.finish)
            check_end(caller, expected, again=error is not None)
            if not store.failed:
                break
    else:
        pytest.fail("more calls than expected")

    assert len(codes) > 3
    assert set(codes) == {"store-busy"}


LIMITED = """
import json, resource, sys
from pathlib import Path
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite._journal_modes import Pragmas
from tests.faults.scenario import *
from tests.faults.test_sqlite_world import code, told

folder, step = Path(sys.argv[1]), int(sys.argv[2])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
expected, found = reference(), []
for number, size in enumerate(range(9_000, 200_000, step)):
    with SqliteStore(folder / f"{size}.db") as store:
        caller = Caller(store, World(), face=("sync", "async")[number % 2], nodes="mixed")
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
        error = told(caller)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        caller.finish()
        check_end(caller, expected, again=error is not None)
    if error is None:
        break
    found.append(code(error))
print(json.dumps(found))
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs a limit on the size of files that can be raised"
)
def test_file_size_limit_raises_and_the_run_continues_without_it(folder):
    """In a separate process, because the limit applies to all its files."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder), "512" if FULL else "11000"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    assert len(codes) > 3
    assert set(codes) <= {"store-unavailable", "store-full"}
