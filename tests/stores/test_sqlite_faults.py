"""A failure at any statement: a commit is stored completely or not, and the next call works."""

from __future__ import annotations

import sqlite3

import pytest
from tests.stores.support import AT, Plan, bodies, claimed, entry, line, other_process

from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.values import Commit, StoredSnapshot

EIO, FULL, BUSY, CORRUPT, NOTADB, CANTOPEN = 10 | (3 << 8), 13, 5, 11, 26, 14
CODES = {
    EIO: "store-unavailable",
    FULL: "store-full",
    BUSY: "store-busy",
    CORRUPT: "store-damaged",
    NOTADB: "store-damaged",
    CANTOPEN: "store-unavailable",
}

WHOLE = Commit(
    1,
    AT + 1,
    [entry(2), entry(3)],
    unstage=True,
    stage=[("a", b"2"), ("b", b"3")],
    snapshot=StoredSnapshot(3, b"s"),
    blobs={"x": b"X"},
    meta=b"m",
    status="failed",
    graph="g",
)


def everything(store):
    loaded = store.load("t")
    return (loaded.head, bodies(store), list(loaded.staged), loaded.snapshot, loaded.meta, store.blobs("t", ["x"]))


def started(path):
    store = SqliteStore(path)
    claim = claimed(store)
    store.commit(claim, Commit(1, AT, stage=[("old", b"1")]))
    return store, claim


def outcome(call):
    """The StoreError that *call* raises, or None if it returns."""
    try:
        call()
    except StoreError as error:
        return error
    return None


def statements_of_a_commit(path, monkeypatch):
    with monkeypatch.context() as patch:
        plan = Plan(0)
        plan.install(patch)
        with SqliteStore(path) as store:
            claim = claimed(store)
            store.commit(claim, Commit(1, AT, stage=[("old", b"1")]))
            plan.count = 0
            store.commit(claim, WHOLE)
            return plan.count


def again(code, statement):
    """Whether a commit that failed with *code* once is retried."""
    return code == BUSY and statement.startswith("BEGIN")


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_commit_is_all_or_nothing_wherever_it_fails(code, after, tmp_path, monkeypatch):
    """At every statement of a commit, whether it failed before or after its execution."""
    number = statements_of_a_commit(tmp_path / "count.db", monkeypatch)

    assert number > 8
    for at in range(1, number + 1):
        with monkeypatch.context() as patch:
            plan = Plan(code, after=after)
            plan.install(patch)
            store, claim = started(tmp_path / f"{at}.db")
            before = everything(store)
            plan.count, plan.at = 0, at
            error = outcome(lambda store=store, claim=claim: store.commit(claim, WHOLE))

            assert plan.failed
            if after and code == BUSY and plan.failed.startswith("BEGIN"):
                store.close()
                continue  # a busy statement did not run
            committed = error is None
            if error is not None:
                assert error.code == CODES[code], f"statement {at}: {plan.failed}"
                assert "at entry 1; this commit was not stored" in str(error)
                assert error.thread == "t"
            # A commit whose last statement was executed has landed, though SQLite reported a failure. With a busy
            # database SQLite never does that, and a busy commit is retried.
            landed = after and plan.failed == "COMMIT" and code != BUSY
            assert committed == (landed or again(code, plan.failed))
            if not committed and not (after and plan.failed == "COMMIT"):
                assert everything(store) == before
                store.commit(claim, WHOLE)
            assert bodies(store) == [b"1", b"2", b"3"]
            assert list(store.load("t").staged) == [("a", b"2"), ("b", b"3")]
            store.close()


def first_commit(store):
    """Claim a new thread, and store the claim with an entry."""
    claim = store.claim("new", create=True, lease_s=60, at=AT)
    try:
        store.commit(claim, Commit(0, AT, [entry(1)]))
    except BaseException:
        store.release(claim)
        raise


@pytest.mark.parametrize("verb", ["claim", "release", "delete", "prune", "renew"])
def test_every_verb_is_all_or_nothing_wherever_it_fails(verb, tmp_path, monkeypatch):
    """An I/O error at any statement of any verb changes nothing, and the verb can be repeated."""
    verbs = {
        "claim": lambda store, claim: first_commit(store),
        "release": lambda store, claim: store.release(claim),
        "delete": lambda store, claim: store.delete("free"),
        "prune": lambda store, claim: store.prune(claim, 3, keep_blobs=[]),
        "renew": lambda store, claim: store.renew([claim]),
    }
    for at in range(1, 60):
        with monkeypatch.context() as patch:
            plan = Plan(EIO)
            plan.install(patch)
            store, claim = started(tmp_path / f"{at}.db")
            store.commit(claim, WHOLE)
            store.release(claimed(store, "free"))
            before = everything(store), store.query(ThreadFilter())
            plan.count, plan.at = 0, at
            error = outcome(lambda store=store, claim=claim: verbs[verb](store, claim))
            if error is not None:
                assert error.code == "store-unavailable"
                assert (everything(store), store.query(ThreadFilter())) == before, plan.failed
                verbs[verb](store, claim)
            store.close()
            if not plan.failed:
                break
    else:
        pytest.fail("more statements than expected")

    assert at > 3


@pytest.mark.parametrize("verb", ["claim", "release", "delete", "prune"])
def test_verb_that_landed_although_its_end_failed_returns(verb, tmp_path, monkeypatch):
    plan = Plan(EIO, after=True)
    plan.install(monkeypatch)
    store, claim = started(tmp_path / "runs.db")
    store.commit(claim, WHOLE)
    store.release(claimed(store, "free"))
    plan.of = "COMMIT"
    with store:
        if verb == "claim":
            plan.of = ""  # reads end with COMMIT too
            new = store.claim("new", create=True, lease_s=60, at=AT)
            plan.of = "COMMIT"
            store.commit(new, Commit(0, AT, [entry(1)]))
            assert bodies(store, "new") == [b"1"]
        elif verb == "release":
            store.release(claim)
            assert not store.head("t").owned
        elif verb == "delete":
            store.delete("free")
            assert [head.thread for head in store.query(ThreadFilter())] == ["t"]
        else:
            assert store.prune(claim, 3) == 3
            assert bodies(store) == []
        assert plan.failed == "COMMIT"


def test_commit_with_an_unknown_outcome_raises_it(tmp_path, monkeypatch):
    """If the file cannot be read afterwards either, the error does not claim an outcome."""
    plan = Plan(EIO)
    plan.install(monkeypatch)
    store, claim = started(tmp_path / "runs.db")
    plan.of = "COMMIT"

    def gone(path, timeout_s):
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode, error.sqlite_errorname = CANTOPEN, "SQLITE_CANTOPEN"
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("graphrt.stores.sqlite._files.connect", gone)
        with pytest.raises(StoreError, match="is not known") as caught:
            store.commit(claim, WHOLE)
        assert caught.value.code == "store-unavailable"
        with pytest.raises(StoreError):
            store.head("t")

    store.commit(claim, WHOLE)
    assert bodies(store) == [b"1", b"2", b"3"]
    store.close()


def test_full_database_keeps_its_data_and_continues_when_there_is_room(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store)
        db = store._file.connection()
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages + 10}")

        with pytest.raises(StoreError, match="thread 't' is at entry 1; this commit was not stored") as caught:
            store.commit(claim, Commit(1, AT, [entry(2)], stage=[("k", b"v" * 100_000)]))
        assert caught.value.code == "store-full"
        # On a full disk, deleting threads fails too.
        assert "Free space outside the database" in str(caught.value)
        assert (bodies(store), list(store.load("t").staged)) == ([b"1"], [])

        store._file.connection().execute("PRAGMA max_page_count = 100000")
        store.commit(claim, Commit(1, AT, [entry(2, b"v" * 100_000)]))
        assert bodies(store) == [b"1", b"v" * 100_000]


def test_value_beyond_sqlites_limit_is_too_large(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store)
        store._file.connection().setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)

        with pytest.raises(InputError) as caught:
            store.commit(claim, Commit(1, AT, [entry(2, b"x" * 20_000)]))
        assert caught.value.code == "too-large"
        assert bodies(store) == [b"1"]


def test_locked_database_is_busy_after_the_timeout_and_works_afterwards(tmp_path):
    with SqliteStore(tmp_path / "runs.db", busy_timeout_s=0.05) as store:
        claim = claimed(store)
        other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreError, match="locked by another connection or process") as caught:
            store.commit(claim, Commit(1, AT, [entry(2)]))
        assert caught.value.code == "store-busy"
        assert not isinstance(caught.value, ConflictError)

        other.execute("ROLLBACK")
        other.close()
        store.commit(claim, Commit(1, AT, [entry(2)]))
        assert bodies(store) == [b"1", b"2"]


def test_conflict_is_raised_at_once_although_the_database_is_locked(tmp_path):
    """The claim is read without waiting for the write lock."""
    with SqliteStore(tmp_path / "runs.db", busy_timeout_s=600) as store:
        claimed(store)
        other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConflictError):
            claimed(store)
        other.close()


def test_removed_file_is_not_created_again(tmp_path):
    """Data in a removed file would be lost with its connection."""
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store)
        (tmp_path / "runs.db").rename(tmp_path / "moved.db")

        for _ in range(2):
            with pytest.raises(StoreError, match="removed or replaced") as caught:
                store.commit(claim, Commit(1, AT, [entry(2)]))
            assert caught.value.code == "store-unavailable"
        assert not (tmp_path / "runs.db").exists()

        (tmp_path / "moved.db").rename(tmp_path / "runs.db")
        store.commit(claim, Commit(1, AT, [entry(2)]))
        assert bodies(store) == [b"1", b"2"]


def test_close_does_not_fail_when_the_file_does(tmp_path, monkeypatch):
    plan = Plan(EIO)
    plan.install(monkeypatch)
    store = SqliteStore(tmp_path / "runs.db")
    claimed(store)
    plan.of = "BEGIN IMMEDIATE"
    store.close()

    assert plan.failed
    with pytest.raises(StoreError, match="closed"):
        store.query(ThreadFilter())


def test_interrupt_in_a_commit_leaves_nothing(tmp_path, monkeypatch):
    """Ctrl-C between two statements rolls the transaction back."""
    plan = Plan(0)
    plan.install(monkeypatch)
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store)
        before = everything(store)
        real = plan.run

        def interrupted(db, sql, rest):
            if sql.startswith("INSERT INTO part"):
                raise KeyboardInterrupt
            return real(db, sql, rest)

        with monkeypatch.context() as patch:
            patch.setattr(plan, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.commit(claim, WHOLE)
        assert everything(store) == before
        store.commit(claim, WHOLE)


def test_killed_process_leaves_only_complete_commits(tmp_path):
    """SIGKILL at any moment: each commit has all of its parts."""
    for _ in range(3):
        process = other_process(
            """
            import itertools, sys
            store = SqliteStore(sys.argv[1])
            claim = store.claim("t", create=True, lease_s=600, at=AT)
            for seq in itertools.count(claim.head.seq):
                body = str(seq + 1).encode()
                store.commit(claim, Commit(seq, AT, [entry(seq + 1)], unstage=True, stage=[("k", body)], meta=body))
                if seq % 20 == 0:
                    print(seq, flush=True)
            """,
            tmp_path / "runs.db",
        )
        for _ in range(3):
            line(process)
        process.kill()
        process.communicate()

        with SqliteStore(tmp_path / "runs.db") as store:
            loaded = store.load("t")
            last = str(loaded.head.seq).encode()
            assert (list(loaded.staged), loaded.meta) == ([("k", last)], last)
            assert bodies(store) == [str(n).encode() for n in range(1, loaded.head.seq + 1)]
