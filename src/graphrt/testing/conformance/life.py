"""Clauses on ids of threads, on closing a store, and on its use from several worker threads at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.protocol import Store
from graphrt.stores.values import EVERYTHING, Commit
from graphrt.testing.conformance._world import AT, LONG_S, World, entry, holds, refused, same

_GOOD = ("a", "A", "0", "_", "run-1", "user:7", "a.b", "a@b.c", "a+b=c", "_-_", "x" * 200, "0" * 200)
_BAD = (
    "",
    " ",
    "a b",
    "-a",
    ".a",
    ":a",
    "@",
    "a/b",
    "a\\b",
    "a\x00",
    "\x00",
    "a\n",
    "\u00e9",
    "a%",
    "a'b",
    "x" * 201,
    "\ud800",
)


def it_is_a_store(w: World) -> None:
    """The object inherits `Store`, its `durable` and `blocking` are bools, and it offers no unknown feature."""
    stores: list[object] = [w.store]
    holds(isinstance(stores[0], Store), "not a Store")
    same(w.store.offers - EVERYTHING, frozenset(), "unknown offers")
    same([type(w.store.durable), type(w.store.blocking)], [bool, bool], "types of durable and blocking")


def good_ids_are_kept(w: World) -> None:
    """Ids of allowed characters come back unchanged, and different ids are different threads."""
    for thread in _GOOD:
        w.thread(thread)
    same([head.thread for head in w.store.query(ThreadFilter())], list(_GOOD), "ids")
    for thread in _GOOD:
        same((w.store.head(thread).thread, w.load(thread).head.thread), (thread, thread), "id")


def bad_ids_are_not_claimed(w: World) -> None:
    """An id that is empty, too long, or has other characters is refused by `claim`."""
    for thread in _BAD:
        refused(InputError, partial(w.claim, thread), f"id {thread[:9]!a}", code="bad-thread")
    same(w.store.query(ThreadFilter()), [], "heads")


def bad_ids_are_not_read(w: World) -> None:
    """A bad id is refused by every method that takes one."""
    w.thread()
    calls: dict[str, Callable[[str], Any]] = {
        "head": w.store.head,
        "load": w.store.load,
        "records": lambda each: list(w.store.records(each)),
        "delete": w.store.delete,
    }
    for name, call in calls.items():
        for thread in _BAD:
            refused(InputError, partial(call, thread), f"{name} of {thread[:9]!a}", code="bad-thread")
    same([head.thread for head in w.store.query(ThreadFilter())], ["t"], "ids")


def ids_that_are_no_text_are_refused(w: World) -> None:
    """An id that is not a str is refused, and not converted."""
    for thread in (None, 7, b"t", 1.5, ["t"], True):
        unchecked: Any = thread
        refused(InputError, partial(w.claim, unchecked), f"id {thread!r}", code="bad-thread")


def long_ids_are_not_repeated(w: World) -> None:
    """The refusal of a long id does not repeat all of it."""
    error = refused(InputError, lambda: w.claim("x" * 10_000), "a long id", code="bad-thread")
    holds(len(str(error)) < 1_000, f"the error has {len(str(error))} characters")


def ids_are_case_sensitive(w: World) -> None:
    """Ids that differ in case are different threads."""
    w.thread("Run")
    refused(InputError, lambda: w.store.head("run"), "head of another case", code="unknown-thread")


def close_may_be_called_again(w: World) -> None:
    """A second `close` does nothing."""
    w.thread()
    w.store.close()
    w.store.close()


def a_closed_store_refuses_work(w: World) -> None:
    """After `close` a call fails with a StoreError and no other exception."""
    claim = w.held()
    w.store.close()
    calls: dict[str, Callable[[], Any]] = {
        "claim": lambda: w.claim("u"),
        "commit": lambda: w.store.commit(claim, Commit(1, AT, [entry(2)])),
        "head": lambda: w.store.head("t"),
        "query": partial(w.store.query, ThreadFilter()),
        "load": w.load,
        "records": w.bodies,
        "delete": lambda: w.store.delete("t"),
    }
    for name, call in calls.items():
        refused(StoreError, call, f"{name} of a closed store")


def a_void_claim_of_a_closed_store_is_nothing(w: World) -> None:
    """`release` and `renew` of void claims do not raise, even after `close`."""
    claim = w.held()
    w.store.close()
    w.store.release(claim)
    w.store.renew([claim])


def a_store_is_a_context(w: World) -> None:
    """`with` returns the store itself, and closes it at the end."""
    store = w.open()
    with store as same_store:
        holds(same_store is store, "with gives another object")
        store.claim("t", create=True, lease_s=LONG_S, at=AT)
    refused(StoreError, partial(store.query, ThreadFilter()), "a query after with")


def a_store_is_an_async_context(w: World) -> None:
    """`async with` returns the store itself, and closes it at the end."""
    import asyncio

    store = w.open()

    async def use() -> None:
        async with store as same_store:
            holds(same_store is store, "async with gives another object")
            store.query(ThreadFilter())

    asyncio.run(use())
    refused(StoreError, partial(store.query, ThreadFilter()), "a query after async with")


def a_context_does_not_swallow(w: World) -> None:
    """An exception passes unchanged through the `with` block of a store."""

    def body() -> None:
        with w.open():
            raise LookupError("from the body")

    refused(LookupError, body, "an error in the body")


def worker_threads_commit_side_by_side(w: World) -> None:
    """Several worker threads, each with its own thread, lose no data and mix none up."""

    def work(n: int) -> None:
        claim = w.claim(f"t{n}")
        for seq in range(20):
            w.store.commit(claim, Commit(seq, AT, [entry(seq + 1, b"%d/%d" % (n, seq))], stage=[(str(seq), b"s")]))
        w.store.commit(claim, Commit(20, AT, unstage=True, release=True))

    _at_once(work, 6)
    for n in range(6):
        same(w.bodies(f"t{n}"), [b"%d/%d" % (n, seq) for seq in range(20)], f"records of t{n}")
        same(list(w.load(f"t{n}").staged), [], f"staged of t{n}")


def one_of_many_claims_wins(w: World) -> None:
    """If many worker threads claim one thread at once, exactly one gets it; the others get a ConflictError."""
    won: list[int] = []

    def work(n: int) -> None:
        try:
            w.claim("t")
        except ConflictError:
            return
        won.append(n)

    _at_once(work, 8)
    same(len(won), 1, "number of claims that were given")


def one_claim_used_at_once_stays_whole(w: World) -> None:
    """Worker threads that commit under one claim with the same expectation: one wins, the rest conflict."""
    claim = w.held()
    won: list[int] = []

    def work(n: int) -> None:
        try:
            w.store.commit(claim, Commit(1, AT, [entry(2, str(n).encode())], stage=[("k", str(n).encode())]))
        except ConflictError:
            return
        won.append(n)

    _at_once(work, 8)
    same(len(won), 1, "number of commits that were accepted")
    winner = str(won[0]).encode()
    same((w.bodies(), [body for _, body in w.load().staged]), ([b"1", winner], [winner]), "records and staged")


def a_reader_sees_whole_commits(w: World) -> None:
    """A thread that is loaded during commits is consistent: records, staged bodies and meta come from one snapshot."""
    claim = w.claim()
    w.store.commit(claim, Commit(0, AT, [entry(1)], stage=[("k", b"1")], meta=b"1"))

    def work(n: int) -> None:
        if not n:
            for seq in range(1, 60):
                body = str(seq + 1).encode()
                w.store.commit(claim, Commit(seq, AT, [entry(seq + 1)], unstage=True, stage=[("k", body)], meta=body))
            return
        for _ in range(60):
            loaded = w.load()
            body = str(loaded.head.seq).encode()
            moment = (loaded.records[-1].body, next(iter(loaded.staged))[1], loaded.meta, len(loaded.records))
            same(moment, (body, body, body, loaded.head.seq), "one moment of the thread")

    _at_once(work, 3)


def a_store_moves_between_worker_threads(w: World) -> None:
    """A claim taken by one worker thread is used and released by others."""
    claims: list[Any] = []
    _at_once(lambda _: claims.append(w.held()), 1)
    _at_once(lambda _: w.store.commit(claims[0], Commit(1, AT, [entry(2)])), 1)
    _at_once(lambda _: w.store.release(claims[0]), 1)
    same((w.bodies(), w.store.head("t").owned), ([b"1", b"2"], False), "records and owner")


def _at_once(work: Callable[[int], Any], number: int) -> None:
    """Run *work* on *number* worker threads at once, and raise the first error."""
    from threading import Barrier, Thread

    barrier = Barrier(number)
    errors: list[BaseException] = []

    def run(n: int) -> None:
        try:
            barrier.wait(60)
            work(n)
        except BaseException as error:  # noqa: BLE001  # it is raised where the clause runs
            errors.append(error)

    workers = [Thread(target=run, args=(n,)) for n in range(number)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
