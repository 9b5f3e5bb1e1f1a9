"""Clauses on live items: what a store with the methods of `graphrt.stores.Relaying` promises.

A store without these methods keeps the clauses by having none of them: only the process that drives a thread shows live
items.
"""

from __future__ import annotations

from time import sleep

from graphrt.errors import InputError
from graphrt.stores.live import Relaying
from graphrt.testing.conformance._world import World, refused, same


def a_follower_is_told_to_the_driver(_w: World, store: Relaying) -> None:
    """`followed` returns those of the named threads whose live items somebody reads."""
    same(store.followed(["a", "b"]), [], "followed threads, before anybody follows")
    store.follow_live("a", for_s=30.0)
    store.follow_live("c", for_s=30.0)
    same(sorted(store.followed(["b", "a", "c", "nobody"])), ["a", "c"], "followed threads")
    same(store.followed(iter(["b"])), [], "followed threads among others")
    same(store.followed([]), [], "followed threads among none")


def interest_ends_by_itself(_w: World, store: Relaying) -> None:
    """Interest that is not renewed ends; a shorter note of another follower does not end it."""
    store.follow_live("short", for_s=0.05)
    store.follow_live("long", for_s=30.0)
    store.follow_live("long", for_s=0.05)
    for _ in range(500):
        if not store.followed(["short"]):
            break
        sleep(0.01)
    same(store.followed(["short", "long"]), ["long"], "threads that are still followed")


def batches_are_read_in_order(_w: World, store: Relaying) -> None:
    """Batches of a thread are read in the order in which they were handed over, after any place, a page at a time."""
    places = [store.relay("t", f"id-{n}", b"body %d" % n) for n in range(5)]
    store.relay("u", "id-0", b"of another thread")
    same(places, sorted({*places}), "places of five batches, in order")
    found = store.relayed("t", after=0, limit=10)
    same(
        [(one.place, one.id, one.body) for one in found],
        [(p, f"id-{n}", b"body %d" % n) for n, p in enumerate(places)],
        "batches",
    )
    same([one.id for one in store.relayed("t", after=places[1], limit=2)], ["id-2", "id-3"], "a page of batches")
    same(store.relayed("t", after=places[-1], limit=10), [], "batches after the last one")
    same(store.relayed("nobody", after=0, limit=10), [], "batches of another thread")


def a_follower_begins_after_the_newest_batch(_w: World, store: Relaying) -> None:
    """`follow_live` returns the place of the thread's newest batch, and 0 if there is none."""
    same(store.follow_live("t", for_s=30.0), 0, "the place without batches")
    store.relay("t", "a", b"x")
    place = store.relay("t", "b", b"y")
    store.relay("u", "a", b"z")
    same(store.follow_live("t", for_s=30.0), place, "the place of the newest batch")


def batches_are_forgotten(w: World, store: Relaying) -> None:
    """What the driver says need not be kept is deleted; so is everything of a thread that is deleted."""
    w.thread("t")
    first = store.relay("t", "a", b"x")
    second = store.relay("t", "b", b"y")
    store.relay("u", "a", b"z")
    store.relay("t", "c", b"z", forget=first)
    same([one.id for one in store.relayed("t", after=0, limit=10)], ["b", "c"], "batches that are kept")
    store.relay("t", "d", b"z", forget=second)
    store.forget_live(["u", "nobody"])
    same(store.relayed("u", after=0, limit=10), [], "batches of a thread that was forgotten")
    w.store.delete("t")
    same(store.relayed("t", after=0, limit=10), [], "batches of a thread that was deleted")


def live_items_need_a_valid_id(_w: World, store: Relaying) -> None:
    """An id that no thread can have is refused."""
    for call in (
        lambda: store.follow_live("a b", for_s=1.0),
        lambda: store.relay("a b", "a", b"x"),
        lambda: store.relayed("a b", after=0, limit=1),
    ):
        refused(InputError, call, "a thread with a space in its id", code="bad-thread")
