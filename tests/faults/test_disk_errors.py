"""The disk fails below SQLite, at any operation on any of its files: a typed error or none, and the run can continue."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from graphrt import GraphrtError, InputError
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite._journal_modes import Pragmas
from graphrt.stores.wrapper import StoreWrapper

from .faulty import nothing_left, within_reason, worker_threads
from .scenario import THREAD, Caller, World, check_end, is_of_the_store, session

pytestmark = pytest.mark.needs("apsw")

FULL = os.environ.get("GRAPHRT_FULL") == "1"
STEP = 1 if FULL else 127
MODES = {"delete": Pragmas("delete", "EXTRA"), "wal": Pragmas("wal", "FULL")}


class Failing:
    """Fails the n-th operation with an I/O error, or the n-th write with a full disk, or that one and all later ones."""

    def __init__(self) -> None:
        self.at = 0
        self.error = ""
        self.lasting = False
        self.count = 0
        self.failed = ""

    def plan(self, at: int, error: str, *, lasting: bool) -> None:
        self.at, self.error, self.lasting, self.count, self.failed = at, error, lasting, 0, ""

    def before(self, op, path, *details):
        if self.error == "full" and op != "write":
            return
        self.count += 1
        if self.at == 0 or self.count < self.at or (self.count > self.at and not self.lasting):
            return
        import apsw

        self.failed = self.failed or op
        codes = {"write": 778, "sync": 1034, "truncate": 1546, "delete": 2570, "open": 14}
        kind = apsw.FullError if self.error == "full" else apsw.CantOpenError if op == "open" else apsw.IOError
        error = kind("planted")
        error.extendedresult = 13 if self.error == "full" else codes[op]
        raise error

    def after(self, op, path, *details):
        pass


class Watching(StoreWrapper):
    """Records which commits were confirmed."""

    def __init__(self, inner):
        super().__init__(inner)
        self.stored = 0

    def commit(self, claim, commit):
        super().commit(claim, commit)
        if commit.records:
            self.stored = commit.records[-1].seq


def one_fault(store, failing, expected, **plan):
    """The outcome of a run whose disk failed, and then worked again."""
    before = worker_threads()
    watching = Watching(store)
    caller = Caller(watching, World())
    failing.plan(**plan)
    error = None
    try:
        within_reason(lambda: session(caller))
    except GraphrtError as raised:
        error = raised
    failing.at = 0
    if error is not None:
        assert is_of_the_store(error), repr(error)
        try:
            seq = store.head(THREAD).seq
        except InputError:
            seq = 0
        # A failed commit is not stored, unless its error says that the outcome is unknown.
        unknown = "is not known" in str(error) + str(error.__cause__)
        assert seq == watching.stored or (unknown and seq > watching.stored)
    nothing_left(before)
    within_reason(caller.finish)
    check_end(caller, expected, again=error is not None)
    assert store._file.connection().execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return "told" if error is not None else "survived" if failing.failed else "untouched"


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("error", ["io", "full"])
@pytest.mark.parametrize("mode", MODES)
def test_run_whose_disk_fails_continues_afterwards(mode, error, lasting, folder, expected, monkeypatch):
    from .apsw_files import use_watched_files

    failing = Failing()
    watched = use_watched_files(monkeypatch, failing)
    seen = Counter()
    for at in range(1, 2_000, STEP):
        with SqliteStore(folder / f"{at}.db", _pragmas=MODES[mode]) as store:
            seen[one_fault(store, failing, expected, at=at, error=error, lasting=lasting)] += 1
        if failing.count < at:
            break
    monkeypatch.undo()
    watched.unregister()

    assert seen["told"] > 0  # the first operation makes the file
    assert seen["told"] + seen["survived"] > 2
