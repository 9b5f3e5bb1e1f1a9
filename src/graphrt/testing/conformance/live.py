"""Clauses on live items: what a store that offers them promises."""

from __future__ import annotations

from time import sleep
from typing import Final

from graphrt.errors import InputError
from graphrt.stores.filters import FollowerFilter
from graphrt.stores.values import Commit, NewBatch
from graphrt.testing.conformance._world import AT, World, entry, refused, same

_NO_PLACE: Final = 2**63 - 1
"""The place of the last batch for a reader of entries only."""


def a_follower_is_told_to_the_driver(w: World) -> None:
    """`followed` returns those of the named threads whose live items someone reads."""
    same(w.store.query(FollowerFilter(threads=["a", "b"])), [], "followed threads, before anybody follows")
    w.store.follow_live(["a"], for_s=30.0)
    w.store.follow_live(["c"], for_s=30.0)
    same(sorted(w.store.query(FollowerFilter(threads=["b", "a", "c", "nobody"]))), ["a", "c"], "followed threads")
    same(w.store.query(FollowerFilter(threads=[*iter(["b"])])), [], "followed threads among others")
    same(w.store.query(FollowerFilter(threads=[])), [], "followed threads among none")


def interest_ends_by_itself(w: World) -> None:
    """Interest ends if it is not renewed; a shorter registration by another follower does not end it."""
    w.store.follow_live(["short"], for_s=0.05)
    w.store.follow_live(["long"], for_s=30.0)
    w.store.follow_live(["long"], for_s=0.05)
    for _ in range(500):
        if not w.store.query(FollowerFilter(threads=["short"])):
            break
        sleep(0.01)
    same(w.store.query(FollowerFilter(threads=["short", "long"])), ["long"], "threads that are still followed")


def batches_are_read_in_order(w: World) -> None:
    """Batches of a thread are read in the order in which they were written, after any place, a page at a time."""
    batches = [NewBatch("t", f"id-{n}", b"body %d" % n) for n in range(5)]
    places = [*w.store.relay(batches[:1]), *w.store.relay(batches[1:])]
    w.store.relay([NewBatch("u", "id-0", b"of another thread")])
    same(places, sorted({*places}), "places of five batches, in order")
    relayed = w.store.relayed("t", after=0, limit=10)
    same(
        [(batch.place, batch.id, batch.body) for batch in relayed],
        [(p, f"id-{n}", b"body %d" % n) for n, p in enumerate(places)],
        "batches",
    )
    same([batch.id for batch in w.store.relayed("t", after=places[1], limit=2)], ["id-2", "id-3"], "a page of batches")
    same(w.store.relayed("t", after=places[-1], limit=10), [], "batches after the last one")
    same(w.store.relayed("nobody", after=0, limit=10), [], "batches of another thread")


def batches_of_several_threads_are_kept_together(w: World) -> None:
    """Batches that are handed over together have places in this order, which are returned."""
    threads = [("t", "u", "v")[n % 3] for n in range(40)]
    places = w.store.relay([NewBatch(thread, f"id-{n}", b"body %d" % n) for n, thread in enumerate(threads)])
    same(places, sorted({*places}), "places of 40 batches, in order")
    for thread in ("t", "u", "v"):
        relayed = [(batch.place, batch.id, batch.body) for batch in w.store.relayed(thread, after=0, limit=100)]
        mine = [n for n, other in enumerate(threads) if other == thread]
        same(relayed, [(places[n], f"id-{n}", b"body %d" % n) for n in mine], f"batches of {thread}")
    same(w.store.relay([]), [], "places of no batches")


def a_follower_begins_after_the_newest_batch(w: World) -> None:
    """`follow_live` returns the place of the thread's newest batch, and 0 if there is none."""
    same(w.store.follow_live(["t"], for_s=30.0), {"t": 0}, "the place without batches")
    w.store.relay([NewBatch("t", "a", b"x")])
    place = w.store.relay([NewBatch("t", "b", b"y")])[0]
    other = w.store.relay([NewBatch("u", "a", b"z")])[0]
    places = w.store.follow_live(["t", "u", "v"], for_s=30.0)
    same(places, {"t": place, "u": other, "v": 0}, "the places of the newest batches")
    same(w.store.follow_live([], for_s=30.0), {}, "the places of no thread")


def batches_are_forgotten(w: World) -> None:
    """Items that the driver no longer needs are deleted; so are all items of a deleted thread."""
    w.thread("t")
    first = w.store.relay([NewBatch("t", "a", b"x")])[0]
    second = w.store.relay([NewBatch("t", "b", b"y")])[0]
    w.store.relay([NewBatch("u", "a", b"z")])
    w.store.relay([NewBatch("t", "c", b"z", forget=first)])
    same([batch.id for batch in w.store.relayed("t", after=0, limit=10)], ["b", "c"], "batches that are kept")
    w.store.relay([NewBatch("t", "d", b"z", forget=second)])
    w.store.forget_live(["u", "nobody"])
    same(w.store.relayed("u", after=0, limit=10), [], "batches of a thread that was forgotten")
    w.store.delete("t")
    same(w.store.relayed("t", after=0, limit=10), [], "batches of a thread that was deleted")


def news_is_found(w: World) -> None:
    """`news` returns the threads with another last entry than the reader knows, or with a batch that it has not read."""
    other = w.open() if w.store.durable else w.store  # as another process would
    claim = w.held("t")
    known = {"t": (1, 0)}
    for _ in range(2):  # a store may have cached the answer
        same(w.store.news(known), set(), "news of a thread to which nothing happened")
    same(w.store.news({"t": (0, 0), "nobody": (1, 0)}), {"t", "nobody"}, "news of threads that moved and that are gone")
    place = other.relay([NewBatch("t", "a", b"x")])[0]
    same(w.store.news({"t": (1, _NO_PLACE)}), set(), "news for a reader of entries alone")
    same(w.store.news(known), {"t"}, "news after a batch")
    same(w.store.news({"t": (1, place)}), set(), "news for a reader that has read the batch")
    w.store.relay([NewBatch("t", "b", b"y")])
    same(w.store.news({"t": (1, place)}), {"t"}, "news after a batch of the same store object")
    w.store.commit(claim, Commit(1, AT, [entry(2)], release=True))
    same(w.store.news({"t": (1, _NO_PLACE)}), {"t"}, "news after a commit")
    same(w.store.news({"t": (2, _NO_PLACE)}), set(), "news for a reader that has read the entry")
    other.commit(w.claim("t", store=other), Commit(2, AT, [entry(3)], release=True))
    same(w.store.news({"t": (2, _NO_PLACE)}), {"t"}, "news after a commit of another store object")
    same(w.store.news({}), set(), "news of no thread")


def live_items_need_a_valid_id(w: World) -> None:
    """An id that no thread can have is refused."""
    for call in (
        lambda: w.store.follow_live(["a b"], for_s=1.0),
        lambda: w.store.relay([NewBatch("a b", "a", b"x")]),
        lambda: w.store.relayed("a b", after=0, limit=1),
    ):
        refused(InputError, call, "a thread with a space in its id", code="bad-thread")
