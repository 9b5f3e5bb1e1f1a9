"""Clauses on live items: what a store that offers them promises."""

from __future__ import annotations

from time import sleep

from graphrt.errors import InputError
from graphrt.stores.filters import FollowerFilter
from graphrt.testing.conformance._world import World, refused, same


def a_follower_is_told_to_the_driver(w: World) -> None:
    """`followed` returns those of the named threads whose live items somebody reads."""
    same(w.store.query(FollowerFilter(threads=["a", "b"])), [], "followed threads, before anybody follows")
    w.store.follow_live("a", for_s=30.0)
    w.store.follow_live("c", for_s=30.0)
    same(sorted(w.store.query(FollowerFilter(threads=["b", "a", "c", "nobody"]))), ["a", "c"], "followed threads")
    same(w.store.query(FollowerFilter(threads=[*iter(["b"])])), [], "followed threads among others")
    same(w.store.query(FollowerFilter(threads=[])), [], "followed threads among none")


def interest_ends_by_itself(w: World) -> None:
    """Interest that is not renewed ends; a shorter note of another follower does not end it."""
    w.store.follow_live("short", for_s=0.05)
    w.store.follow_live("long", for_s=30.0)
    w.store.follow_live("long", for_s=0.05)
    for _ in range(500):
        if not w.store.query(FollowerFilter(threads=["short"])):
            break
        sleep(0.01)
    same(w.store.query(FollowerFilter(threads=["short", "long"])), ["long"], "threads that are still followed")


def batches_are_read_in_order(w: World) -> None:
    """Batches of a thread are read in the order in which they were handed over, after any place, a page at a time."""
    places = [w.store.relay("t", f"id-{n}", b"body %d" % n) for n in range(5)]
    w.store.relay("u", "id-0", b"of another thread")
    same(places, sorted({*places}), "places of five batches, in order")
    found = w.store.relayed("t", after=0, limit=10)
    same(
        [(one.place, one.id, one.body) for one in found],
        [(p, f"id-{n}", b"body %d" % n) for n, p in enumerate(places)],
        "batches",
    )
    same([one.id for one in w.store.relayed("t", after=places[1], limit=2)], ["id-2", "id-3"], "a page of batches")
    same(w.store.relayed("t", after=places[-1], limit=10), [], "batches after the last one")
    same(w.store.relayed("nobody", after=0, limit=10), [], "batches of another thread")


def a_follower_begins_after_the_newest_batch(w: World) -> None:
    """`follow_live` returns the place of the thread's newest batch, and 0 if there is none."""
    same(w.store.follow_live("t", for_s=30.0), 0, "the place without batches")
    w.store.relay("t", "a", b"x")
    place = w.store.relay("t", "b", b"y")
    w.store.relay("u", "a", b"z")
    same(w.store.follow_live("t", for_s=30.0), place, "the place of the newest batch")


def batches_are_forgotten(w: World) -> None:
    """What the driver says need not be kept is deleted; so is everything of a thread that is deleted."""
    w.thread("t")
    first = w.store.relay("t", "a", b"x")
    second = w.store.relay("t", "b", b"y")
    w.store.relay("u", "a", b"z")
    w.store.relay("t", "c", b"z", forget=first)
    same([one.id for one in w.store.relayed("t", after=0, limit=10)], ["b", "c"], "batches that are kept")
    w.store.relay("t", "d", b"z", forget=second)
    w.store.forget_live(["u", "nobody"])
    same(w.store.relayed("u", after=0, limit=10), [], "batches of a thread that was forgotten")
    w.store.delete("t")
    same(w.store.relayed("t", after=0, limit=10), [], "batches of a thread that was deleted")


def live_items_need_a_valid_id(w: World) -> None:
    """An id that no thread can have is refused."""
    for call in (
        lambda: w.store.follow_live("a b", for_s=1.0),
        lambda: w.store.relay("a b", "a", b"x"),
        lambda: w.store.relayed("a b", after=0, limit=1),
    ):
        refused(InputError, call, "a thread with a space in its id", code="bad-thread")
