"""Clauses on `head` and on queries of threads: which threads are listed, in which order, and how to page through them."""

from __future__ import annotations

from functools import partial
from math import nan
from typing import Any

from graphrt.errors import InputError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.values import Commit
from graphrt.testing.conformance._world import AT, World, entry, refused, same


def an_empty_store_lists_nothing(w: World) -> None:
    """A store without threads has no heads, with any filter."""
    same(w.store.query(ThreadFilter()), [], "heads")
    same(
        w.store.query(ThreadFilter(status="running", graph="g", prefix="a", updated_before=AT), limit=3),
        [],
        "filtered heads",
    )


def heads_are_in_order_of_making(w: World) -> None:
    """Threads are listed in order of creation, not by id or time."""
    for n, thread in enumerate(("c", "a", "B", "b", "10", "9")):
        w.store.commit(w.claim(thread), Commit(0, AT - n, [entry(1)], release=True))
    same(_ids(w), ["c", "a", "B", "b", "10", "9"], "ids")


def work_does_not_change_the_order(w: World) -> None:
    """A later commit does not move a thread in the list."""
    claims = {name: w.held(name) for name in "abc"}
    w.store.commit(claims["a"], Commit(1, AT + 50, [entry(2)], release=True))
    w.claim("a")
    same(_ids(w), ["a", "b", "c"], "ids")


def threads_without_entries_are_not_listed(w: World) -> None:
    """A thread is listed from its first entry on, at the place of its creation."""
    early = w.claim("early")
    w.thread("late")
    same(_ids(w), ["late"], "ids")
    w.store.commit(early, Commit(0, AT, stage=[("k", b"v")]))
    same(_ids(w), ["late"], "ids after staging")
    w.store.commit(early, Commit(0, AT, [entry(1)]))
    same(_ids(w), ["early", "late"], "ids after the first entry")


def heads_are_the_same_as_head(w: World) -> None:
    """`heads`, `head` and `load` return the same head of a thread."""
    w.thread("a", entries=3, status="failed", graph="g")
    w.held("b", entries=2)
    for head in w.store.query(ThreadFilter()):
        same(tuple(head), tuple(w.store.head(head.thread)), "head")
        same(tuple(head), tuple(w.load(head.thread).head), "head of load")
    same([head.owned for head in w.store.query(ThreadFilter())], [False, True], "owned")


def heads_are_filtered(w: World) -> None:
    """Status, graph and prefix are compared exactly; several filters list the threads that match all of them."""
    _some(w)
    everything = ["a", "a:1", "a:2", "b"]
    filters: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({"status": "completed"}, ["a:1", "b"]),
        ({"status": "failed"}, ["a:2"]),
        ({"status": "cancelled"}, []),
        ({"graph": "g"}, ["a", "a:1"]),
        ({"graph": "G"}, ["b"]),
        ({"graph": ""}, []),
        ({"prefix": "a"}, ["a", "a:1", "a:2"]),
        ({"prefix": "a:"}, ["a:1", "a:2"]),
        ({"prefix": "a:1"}, ["a:1"]),
        ({"prefix": ""}, everything),
        ({"prefix": "x"}, []),
        ({"status": "completed", "graph": "g"}, ["a:1"]),
        ({"status": "completed", "prefix": "a"}, ["a:1"]),
        ({"status": "failed", "graph": "g"}, []),
        ({"limit": 0}, []),
        ({"limit": 2}, ["a", "a:1"]),
        ({"limit": 10**30}, everything),
    )
    for options, wanted in filters:
        same(_ids(w, **options), wanted, f"threads of {options}")


def a_prefix_is_no_pattern(w: World) -> None:
    """Wildcards of SQL and of the shell have no special meaning in a prefix."""
    for thread in ("a_b", "axb", "a.b", "A_b", "a=b", "_", "a"):
        w.thread(thread)
    same(_ids(w, prefix="a_"), ["a_b"], "prefix a_")
    same(_ids(w, prefix="_"), ["_"], "prefix _")
    same(_ids(w, prefix="A"), ["A_b"], "prefix A")
    for prefix in ("%", "a%", "*", "a*", "a?", "[a]", "a\\", "'", "a'", "a\x00", "\u00e4", "\ud800", "a_b_", "\x00"):
        same(_ids(w, prefix=prefix), [], f"prefix {prefix!a}")


def heads_updated_before(w: World) -> None:
    """`updated_before` lists threads whose last commit was before that time, not at it."""
    for n in range(4):
        w.store.commit(w.claim(f"t{n}"), Commit(0, AT + n, [entry(1)], release=True))
    same(_ids(w, updated_before=AT + 2), ["t0", "t1"], "earlier threads")
    same(_ids(w, updated_before=AT), [], "threads before the first")
    same(_ids(w, updated_before=AT + 0.001), ["t0"], "threads before a fraction of a second")
    same(len(_ids(w, updated_before=AT + 1e9)), 4, "number of threads before a late time")


def a_limit_counts_matches(w: World) -> None:
    """`limit` counts the threads that match."""
    _some(w)
    same(_ids(w, status="completed", limit=2), ["a:1", "b"], "two completed threads")


def a_bad_limit_is_refused(w: World) -> None:
    """A limit that is negative or not an int is refused, and so is a time that is not a number."""
    bad: tuple[Any, ...] = (-1, "3", 1.5, True)
    for limit in bad:
        refused(InputError, partial(_ids, w, limit=limit), f"limit {limit!r}")
    refused(InputError, partial(_ids, w, updated_before=nan), "the time NaN")
    refused(InputError, lambda: w.store.delete_many([], updated_before=nan), "the time NaN of a deletion")


def heads_after_a_thread(w: World) -> None:
    """`after` lists the threads created after that one."""
    _some(w)
    same(_ids(w, after="a:1"), ["a:2", "b"], "threads after a:1")
    same(_ids(w, after="b"), [], "threads after the last")


def after_need_not_match(w: World) -> None:
    """The thread named by `after` need not match the filters."""
    _some(w)
    same(_ids(w, after="a", status="completed", limit=1), ["a:1"], "completed threads after a")


def after_no_thread_is_refused(w: World) -> None:
    """`after` is refused if it names an unknown thread."""
    _some(w)
    refused(InputError, lambda: _ids(w, after="gone"), "after an unknown thread", code="unknown-thread")


def pages_give_every_thread_once(w: World) -> None:
    """Paging with `after` and `limit` returns every thread once and in order."""
    wanted = [f"t{n * 7 % 50}" for n in range(50)]
    for thread in wanted:
        w.thread(thread)
    ids: list[str] = []
    while page := _ids(w, after=ids[-1] if ids else None, limit=7):
        ids += page
    same(ids, wanted, "ids of all pages")


def a_deleted_thread_is_not_listed(w: World) -> None:
    """A deleted thread is not listed; created again, it comes last."""
    _some(w)
    w.store.delete("a:1")
    same(_ids(w), ["a", "a:2", "b"], "ids")
    w.thread("a:1")
    same(_ids(w), ["a", "a:2", "b", "a:1"], "ids after it was recreated")


def head_of_no_thread(w: World) -> None:
    """`head` of an unknown thread is refused, and the error names the thread."""
    w.thread("other")
    error = refused(InputError, lambda: w.store.head("t"), "head of no thread", code="unknown-thread")
    same("'t'" in str(error), True, "the error names the thread")


def times_are_kept_exactly(w: World) -> None:
    """Times come back as the same float, to the last bit."""
    for n, at in enumerate((0.0, 0.1, 1_700_000_000.123456, 1e-9, 2.0**40 + 2**-10)):
        claim = w.store.claim(f"t{n}", create=True, lease_s=60, at=at)
        w.store.commit(claim, Commit(0, at, [entry(1)]))
        head = w.store.head(f"t{n}")
        same((head.created_at, head.updated_at), (at, at), "times")


def graph_names_may_be_odd(w: World) -> None:
    """The name of a graph may be any text."""
    for n, graph in enumerate(("%", "_", "'", "\u00e9", "e\u0301", " ", "a" * 1_000, "g")):
        w.thread(f"t{n}", graph=graph)
        same([head.graph for head in w.store.query(ThreadFilter(graph=graph))], [graph], f"graphs named {graph[:9]!r}")


def _ids(w: World, *, after: str | None = None, limit: int | None = None, **filters: Any) -> list[str]:
    """Return the ids of the threads that `query` lists."""
    return [head.thread for head in w.store.query(ThreadFilter(**filters), after=after, limit=limit)]


def _some(w: World) -> None:
    """Create four threads: the second and fourth completed, the third failed; of the graphs g, g, h and G."""
    w.thread("a", status="running", graph="g")
    w.thread("a:1", status="completed", graph="g")
    w.thread("a:2", status="failed", graph="h")
    w.thread("b", status="completed", graph="G")
