"""Ends of transactions with a lost reply, and edge cases of a thread without entries."""

from __future__ import annotations

import pytest
from tests.stores.support import AT, Plan, bodies, claimed, entry

from graphrt.errors import InputError, StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.values import Commit

EIO = 10 | (3 << 8)


class Taken(Plan):
    """Executes a COMMIT, makes another store take the thread over, and then fails."""

    def __init__(self, path, *, lands):
        super().__init__(EIO)
        self.path = path
        self.lands = lands

    def run(self, db, sql, rest):
        if sql != "COMMIT" or self.of != "COMMIT":
            return super().run(db, sql, rest)
        self.of, self.after = "", False
        db.execute("COMMIT" if self.lands else "ROLLBACK")
        db.execute("UPDATE thread SET lease = 0")  # as if this process had been suspended for a long time
        with SqliteStore(self.path) as other:
            claim = claimed(other, entries=0)
            seq = claim.head.seq
            other.commit(claim, Commit(seq, AT, [entry(seq + 1, b"of the other")]))
        self.at = self.count + 1
        return super().run(db, sql, rest)


@pytest.mark.parametrize("lands", [True, False])
def test_commit_is_distinguished_from_a_later_one_of_another_owner(lands, tmp_path, monkeypatch):
    """The thread was released with the commit and claimed by another owner before its outcome was queried."""
    path = tmp_path / "runs.db"
    plan = Taken(path, lands=lands)
    plan.install(monkeypatch)
    with SqliteStore(path) as store:
        claim = claimed(store)
        plan.of = "COMMIT"
        commit = Commit(1, AT, [entry(2, b"mine")], release=True)
        if lands:
            store.commit(claim, commit)
        else:
            with pytest.raises(StoreError, match="at entry 1; this commit was not stored"):
                store.commit(claim, commit)

        assert bodies(store) == [b"1", *([b"mine"] if lands else []), b"of the other"]


@pytest.mark.parametrize("lands", [True, False])
def test_outcome_of_a_commit_without_records_is_unknown_after_another_commit(lands, tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    plan = Taken(path, lands=lands)
    plan.install(monkeypatch)
    with SqliteStore(path) as store:
        claim = claimed(store)
        plan.of = "COMMIT"
        with pytest.raises(StoreError, match="whether this write on thread 't' was stored is not known"):
            store.commit(claim, Commit(1, AT, stage=[("k", b"v")], release=True))


def test_failed_rollback_closes_the_connection(tmp_path, monkeypatch):
    """Without its connection a transaction is gone, whatever SQLite did with the ROLLBACK."""
    plan = Plan(EIO)
    plan.install(monkeypatch)
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store)
        real = plan.run

        def fails(db, sql, rest):
            if sql.startswith("INSERT INTO record") or sql == "ROLLBACK":
                plan.at = plan.count + 1
            return real(db, sql, rest)

        with monkeypatch.context() as patch:
            patch.setattr(plan, "run", fails)
            with pytest.raises(StoreError) as caught:
                store.commit(claim, Commit(1, AT, [entry(2)]))
        assert caught.value.code == "store-unavailable"
        assert bodies(store) == [b"1"]
        store.commit(claim, Commit(1, AT, [entry(2)]))
        assert bodies(store) == [b"1", b"2"]


def test_commit_that_released_an_empty_thread_and_landed_returns(tmp_path, monkeypatch):
    plan = Plan(EIO, after=True)
    plan.install(monkeypatch)
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store, entries=0)
        plan.of = "COMMIT"
        store.commit(claim, Commit(0, AT, stage=[("k", b"v")], release=True))

        assert plan.failed
        assert store.query(ThreadFilter()) == []


def test_entry_beyond_the_last_number_is_refused(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store, entries=0)
        with pytest.raises(InputError, match="beyond the last"):
            store.commit(claim, Commit(0, AT, [entry(1)._replace(seq=2**36, count=2**36)]))

        store.commit(claim, Commit(0, AT, [entry(1)]))
        assert store.head("t").seq == 1


@pytest.mark.parametrize("name", ["\ud800", "a\udfff"])
def test_unstorable_text_is_refused_completely(name, tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = claimed(store)
        for commit in (
            Commit(1, AT, [entry(2)], stage=[(name, b"v")]),
            Commit(1, AT, [entry(2)], blobs={name: b"v"}),
            Commit(1, AT, [entry(2)], graph=name),
        ):
            with pytest.raises(InputError) as caught:
                store.commit(claim, commit)
            assert caught.value.code == "bad-commit"

        assert bodies(store) == [b"1"]
        assert store.query(ThreadFilter(graph=name)) == []
        assert store.blobs("t", [name]) == {}
