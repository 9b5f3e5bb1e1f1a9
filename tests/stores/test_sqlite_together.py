"""Threads that commit at the same moment share a transaction, and each gets the outcome of its own commit."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

import pytest
from tests.stores.support import AT, bodies, claimed, entry, opened

from graphrt.errors import ConflictError, StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite._database import Database
from graphrt.stores.values import Commit

COUNT = 9
PATIENCE_S = 20.0


class Counted:
    """A connection that counts the writes of a transaction, and fails at its end."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.writes = 0
        self.least = COUNT
        self.at_commit: Any = None
        """Called instead of the next COMMIT that contains the writes of at least so many threads."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)

    def execute(self, sql: str, *rest: Any) -> Any:
        self.writes = 0 if sql.startswith("BEGIN") else self.writes + sql.startswith("UPDATE thread")
        if sql == "COMMIT" and self.writes >= self.least and self.at_commit is not None:
            call, self.at_commit = self.at_commit, None
            return call(self.db)
        return self.db.execute(sql, *rest)


class Together:
    """COUNT threads that commit in one transaction: they arrive while the file is locked."""

    def __init__(self, store: SqliteStore, monkeypatch: Any) -> None:
        self.store = store
        self.claims = [claimed(store, f"t{number}") for number in range(COUNT)]
        self.outcomes: dict[int, BaseException | None] = {}
        self.batches: list[int] = []
        write = Database._write

        def counting(file: Database, writes: Any) -> bool:
            self.batches.append(len(writes))
            return write(file, writes)

        monkeypatch.setattr(Database, "_write", counting)

    def commit(self, number: int, expected: int = 1) -> None:
        self.outcomes[number] = None
        try:
            self.store.commit(self.claims[number], Commit(expected, AT, [entry(expected + 1)]))
        except BaseException as error:  # noqa: BLE001 - the test checks it
            self.outcomes[number] = error

    def go(self, *, stale: int | None = None) -> None:
        first = claimed(self.store, "first")
        threads = []
        with self.store._file.lock:
            threads.append(threading.Thread(target=self.store.commit, args=(first, Commit(1, AT, [entry(2)]))))
            threads[0].start()
            self._gathered(None)
            for number in range(COUNT):
                expected = 5 if number == stale else 1
                threads.append(threading.Thread(target=self.commit, args=(number, expected)))
                threads[-1].start()
            self._gathered(COUNT)
            self.batches.clear()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def _gathered(self, count: int | None) -> None:
        group, until = self.store._file._group, monotonic() + PATIENCE_S
        while monotonic() < until:
            there = len(group._taken) == 1 and not group._waiting if count is None else len(group._waiting) == count
            if there and group._leader is not None:
                return
            sleep(0.001)
        raise AssertionError(group._waiting)

    def stored(self) -> list[int]:
        return [number for number in range(COUNT) if bodies(self.store, f"t{number}") == [b"1", b"2"]]


@pytest.fixture
def connections(monkeypatch):
    made: list[Counted] = []
    real = files.connect

    def connect(*arguments: Any) -> Counted:
        made.append(Counted(real(*arguments)))
        return made[-1]

    monkeypatch.setattr(files, "connect", connect)
    return made


@pytest.fixture
def together(tmp_path, monkeypatch, connections):
    with SqliteStore(tmp_path / "runs.db") as store:
        yield Together(store, monkeypatch)


def test_concurrent_commits_share_a_transaction(together):
    together.go()

    assert together.batches == [1, COUNT]
    assert together.stored() == list(range(COUNT))
    assert not any(together.outcomes.values())


def test_refused_commit_does_not_affect_the_others(together):
    together.go(stale=4)

    assert together.batches == [1, COUNT, *[1] * COUNT]
    assert together.stored() == [number for number in range(COUNT) if number != 4]
    assert isinstance(together.outcomes.pop(4), ConflictError)
    assert not any(together.outcomes.values())


@pytest.mark.parametrize("carried_out", [False, True], ids=["before", "after"])
def test_each_caller_gets_the_error_when_the_end_of_the_transaction_fails(together, connections, carried_out):
    def fail(db: Any) -> None:
        if carried_out:
            db.execute("COMMIT")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = 10, "SQLITE_IOERR"
        raise error

    connections[0].at_commit = fail
    together.go()

    if carried_out:
        assert together.stored() == list(range(COUNT))
        assert not any(together.outcomes.values())
        return
    assert together.stored() == []
    for number, error in together.outcomes.items():
        assert isinstance(error, StoreError)
        assert error.thread == f"t{number}"
        assert f"thread 't{number}' is at entry 1; this commit was not stored" in str(error)
    assert len({id(error) for error in together.outcomes.values()}) == COUNT


@pytest.mark.parametrize("carried_out", [False, True], ids=["before", "after"])
def test_interrupt_of_the_caller_that_writes_for_all_is_raised_only_there(together, connections, carried_out):
    def interrupt(db: Any) -> None:
        if carried_out:
            db.execute("COMMIT")
        raise KeyboardInterrupt

    connections[0].at_commit = interrupt
    together.go()

    raised = {number: error for number, error in together.outcomes.items() if error is not None}
    assert [type(error) for error in raised.values()] == [KeyboardInterrupt]
    assert set(together.stored()) == set(range(COUNT)) - (set() if carried_out else set(raised))


def test_caller_that_is_interrupted_while_claiming_leaves_the_thread_free(tmp_path, connections):
    with opened(tmp_path / "runs.db") as store:

        def interrupt(db: Any) -> None:
            db.execute("COMMIT")
            raise KeyboardInterrupt

        connections[0].at_commit, connections[0].least = interrupt, 0
        with pytest.raises(KeyboardInterrupt):
            store.claim("t", create=True, lease_s=600, at=AT)
        claimed(store)

        assert bodies(store) == [b"1"]


def in_one_transaction(store: SqliteStore, *calls: Any, meanwhile: Any = None) -> list[Any]:
    """The results or errors of *calls* that share a transaction, because they arrive while the file is locked."""
    first = claimed(store, "in-front")
    found: list[Any] = [None] * len(calls)
    file, go = store._file, threading.Event()
    group, until, write_all = file._group, monotonic() + PATIENCE_S, file._write_all

    def held_up(writes: Any) -> None:
        assert go.wait(PATIENCE_S)
        write_all(writes)

    def run(number: int, call: Any) -> None:
        try:
            found[number] = call()
        except Exception as error:  # noqa: BLE001 - the test checks it
            found[number] = error

    def in_front() -> None:
        with suppress(StoreError):  # during which the file cannot be opened
            store.commit(first, Commit(1, AT, [entry(2)]))

    file._write_all = held_up  # type: ignore[method-assign]  # for the leader
    threads = [threading.Thread(target=in_front)]
    threads[0].start()
    while group._leader is None and monotonic() < until:
        sleep(0.001)
    del file._write_all
    for number, call in enumerate(calls):
        threads.append(threading.Thread(target=run, args=(number, call)))
        threads[-1].start()
        while len(group._waiting) <= number and threads[-1].is_alive() and monotonic() < until:
            sleep(0.001)
    if meanwhile is not None:
        meanwhile()
    go.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    return found


def claim(store: SqliteStore, thread: str = "t") -> Any:
    return store.claim(thread, create=True, lease_s=600, at=AT)


def test_only_one_of_several_concurrent_claims_of_a_thread_succeeds(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        found = in_one_transaction(store, *[lambda: claim(store)] * 4)

        assert [isinstance(one, ConflictError) for one in found] == [False, True, True, True]
        store.commit(found[0], Commit(0, AT, [entry(1)]))
        store.release(found[0])
        assert claim(store).epoch > found[0].epoch


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.delete("t"),
        lambda store: store.delete_many(["t"]),
    ],
    ids=["delete", "delete_many"],
)
def test_thread_that_is_claimed_in_the_same_transaction_is_held(tmp_path, call):
    with SqliteStore(tmp_path / "runs.db") as store:
        store.release(claimed(store))
        mine = claim(store)
        _, other = in_one_transaction(store, lambda: store.commit(mine, Commit(1, AT, [entry(2)])), lambda: call(store))

        assert other == [] or isinstance(other, ConflictError)
        assert bodies(store) == [b"1", b"2"]


def test_thread_that_is_released_in_the_same_transaction_can_be_claimed(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        before = claimed(store)
        _, mine = in_one_transaction(store, lambda: store.release(before), lambda: claim(store))
        if isinstance(mine, ConflictError):  # its holder was checked before
            mine = claim(store)
        store.commit(mine, Commit(1, AT, [entry(2)]))
        with pytest.raises(ConflictError):
            claim(store)


def test_closing_a_store_during_concurrent_claims_leaves_no_thread_claimed(tmp_path):
    path = tmp_path / "runs.db"
    for turn in range(10):
        store = SqliteStore(path)
        ended = threading.Event()

        def work(name: str, store: SqliteStore = store, ended: threading.Event = ended) -> None:
            number = 0
            try:
                while not ended.is_set():
                    number += 1
                    claimed(store, f"{name}-{number}")
            except StoreError as error:
                assert error.code == "store-closed"  # noqa: PT017 - the only allowed error

        threads = [threading.Thread(target=work, args=(f"w{turn}-{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        until = monotonic() + PATIENCE_S
        while len(store.query(ThreadFilter())) < 8 and monotonic() < until:  # all of them are working
            sleep(0.001)
        store.close()
        ended.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        with SqliteStore(path) as other:
            assert not [head.thread for head in other.query(ThreadFilter()) if head.owned]


def test_unopenable_file_is_waited_for_once(tmp_path, monkeypatch):
    """And not once for each caller that shares the transaction."""
    with SqliteStore(tmp_path / "runs.db") as store:
        claims = [claimed(store, f"t{number}") for number in range(6)]
        tries: list[str] = []

        def locked(path: str, **_: Any) -> Any:
            tries.append(path)
            raise StoreError("It is locked.", code="store-busy")

        def meanwhile() -> None:  # like after a fork, while another process has locked the file
            store._file.drop()
            monkeypatch.setattr(files, "open_file", locked)

        calls = [lambda one=one: store.commit(one, Commit(1, AT, [entry(2)])) for one in claims]
        found = in_one_transaction(store, *calls, meanwhile=meanwhile)

        assert [error.code for error in found] == ["store-busy"] * 6
        assert len({id(error) for error in found}) == 6
        assert len(tries) == 2  # by the leader, for all others
        monkeypatch.undo()
        store.commit(claims[0], Commit(1, AT, [entry(2)]))
