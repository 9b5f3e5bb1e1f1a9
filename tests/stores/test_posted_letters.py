"""Letters that a commit posts to other threads: locks of a server, wrappers of stores, and unknown outcomes."""

from __future__ import annotations

import pytest
from tests.stores.support import AT, entry

from graphrt.errors import InputError, StoreError
from graphrt.stores import Commit, EncryptedStore, MemoryStore, TenantStore
from graphrt.stores.filters import MailFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.testing.flaky_store import Fault, FlakyStore

from . import postgres_server

LETTER = ("u", "a", b"x")


def made(store, thread):
    claim = store.claim(thread, create=True, lease_s=60, at=AT)
    store.commit(claim, Commit(0, AT, [entry(1)]))
    return claim


def mail(store, thread):
    return [(letter.id, letter.body) for letter in store.query(MailFilter(thread=thread))]


@pytest.mark.needs("psycopg")
@pytest.mark.slow
def test_two_commits_that_post_to_each_other_do_not_deadlock(request):
    """While a commit of a thread is unfinished, another one posts to that thread, and no deadlock is possible."""
    from graphrt.stores import PostgresStore

    url = postgres_server.fresh_url(request.config, busy_timeout_s="2")
    with PostgresStore(url) as store:
        claims = {thread: made(store, thread) for thread in ("t", "u")}
        with store._link.lend() as connection, connection.transaction():
            # The lock of an unfinished commit of `u`, which has already posted to `t`.
            connection.execute(store._link.named("UPDATE {s}.thread SET seq = 2 WHERE id = 'u'"))
            connection.execute(
                store._link.named(
                    "INSERT INTO {s}.mail (no, id, body) SELECT no, 'z', 'x' FROM {s}.thread WHERE id = 't' FOR KEY SHARE"
                )
            )
            store.commit(claims["t"], Commit(1, AT, [entry(2)], posts=[LETTER]))  # would raise store-busy

            assert mail(store, "u") == [("a", b"x")]
        assert [letter.id for letter in store.query(MailFilter(thread="t"))] == ["z"]
    postgres_server.drop(url)


@pytest.mark.needs("psycopg")
@pytest.mark.slow
def test_many_large_letters_are_posted_in_one_transaction(request, monkeypatch):
    from graphrt.stores import PostgresStore
    from graphrt.stores.postgres import _parts

    monkeypatch.setattr(_parts, "LARGE", 10)
    url = postgres_server.fresh_url(request.config)
    with PostgresStore(url) as store:
        made(store, "u")
        claim = made(store, "t")
        letters = [("u", f"{n}", b"12345678") for n in range(5)]
        store.commit(claim, Commit(1, AT, [entry(2)], posts=letters))

        assert mail(store, "u") == [letter[1:] for letter in letters]
    postgres_server.drop(url)


@pytest.mark.parametrize("open_", [MemoryStore, None], ids=["memory", "sqlite"])
def test_tenant_posts_only_to_its_own_threads(tmp_path, open_):
    shared = MemoryStore() if open_ is not None else SqliteStore(tmp_path / "runs.db")
    with shared, TenantStore(shared, "acme") as acme:
        made(shared, "u")
        made(acme, "u")
        claim = made(acme, "t")
        acme.commit(claim, Commit(1, AT, [entry(2)], posts=[LETTER]))

        assert mail(acme, "u") == [("a", b"x")]
        assert mail(shared, "u") == []
        assert mail(shared, "acme~u") == [("a", b"x")]
        with pytest.raises(InputError) as caught:
            acme.commit(claim, Commit(2, AT, posts=[("other~u", "b", b"x")]))
        assert caught.value.code == "unknown-thread"


@pytest.mark.needs("cryptography")
def test_posted_letters_are_encrypted_for_their_thread(tmp_path):
    inner = SqliteStore(tmp_path / "runs.db")
    with EncryptedStore(inner, {"k": bytes(range(32))}) as store:
        made(store, "u")
        store.commit(made(store, "t"), Commit(1, AT, posts=[LETTER]))

        assert mail(store, "u") == [("a", b"x")]
        assert b"x" not in {body for _, body in mail(inner, "u")}


def test_commit_whose_reply_was_lost_has_posted_its_letters_once(tmp_path):
    with FlakyStore(SqliteStore(tmp_path / "runs.db"), [Fault("commit", nth=3, moment="after")]) as store:
        made(store, "u")
        claim = made(store, "t")
        with pytest.raises(StoreError):
            store.commit(claim, Commit(1, AT, [entry(2)], posts=[LETTER]))
        assert mail(store.store, "u") == [("a", b"x")]
        store.commit(claim, Commit(2, AT, posts=[LETTER]))  # the next owner computes the same letter again

        assert mail(store.store, "u") == [("a", b"x")]
