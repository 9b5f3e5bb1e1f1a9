"""Clauses on schedules: what a store with the methods of `graphrt.stores.Schedulable` promises.

A store without these methods keeps the clauses by having none of them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import nan

from graphrt.errors import InputError
from graphrt.stores.schedules import Schedulable, Scheduled
from graphrt.testing.conformance._world import AT, World, refused, same


def schedules_are_listed_by_name(_w: World, store: Schedulable) -> None:
    """Schedules are listed in the order of their names, filtered by graph and by time."""
    rows = [_row("b", due_at=AT), _row("a", due_at=AT + 1, graph="ü"), _row("c", due_at=AT + 2)]
    same([store.put_schedule(row, replaces=None) for row in rows], [True] * 3, "kept")
    same(store.schedules(), [rows[1], rows[0], rows[2]], "schedules")
    same(store.schedules(graph="g"), [rows[0], rows[2]], "schedules of a graph")
    same(store.schedules(due_by=AT + 1), [rows[1], rows[0]], "schedules that are due")
    same(store.schedules(graph="g", due_by=AT - 1), [], "schedules before the first is due")
    refused(InputError, lambda: store.schedules(due_by=nan), "the time NaN")


def a_schedule_is_replaced_only_as_it_is_known(_w: World, store: Schedulable) -> None:
    """A definition takes the place of the version that its writer knows, and of no other."""
    first, second = _row("a"), _row("a", version="v2", graph="h", due_at=AT + 5, body=b"other")
    same(store.put_schedule(second, replaces="v1"), False, "replacing what is not there")
    same(store.put_schedule(first, replaces=None), True, "the first definition")
    same(store.put_schedule(second, replaces=None), False, "a second one that expects none")
    same(store.put_schedule(second, replaces="v0"), False, "one that knows another version")
    same(store.schedules(), [first], "schedules")
    same(store.put_schedule(second, replaces="v1"), True, "one that knows the version")
    same(store.schedules(), [second], "schedules")


def a_schedule_is_moved_once(_w: World, store: Schedulable) -> None:
    """Of several that move a schedule from the same time, one does; who knows another version moves nothing."""
    store.put_schedule(_row("a"), replaces=None)
    same(store.move_schedule("a", "v0", due_at=AT, to=AT + 60), False, "moving another version")
    same(store.move_schedule("b", "v1", due_at=AT, to=AT + 60), False, "moving what is not there")
    with ThreadPoolExecutor(4) as pool:
        moves = [pool.submit(store.move_schedule, "a", "v1", due_at=AT, to=AT + 60) for _ in range(4)]
    moved = [move.result() for move in moves]
    same(sorted(moved), [False, False, False, True], "moves")
    same(store.schedules(), [_row("a", due_at=AT + 60)], "schedules")


def a_deleted_schedule_is_gone(_w: World, store: Schedulable) -> None:
    """A deleted schedule is listed no more, and its name is free."""
    store.put_schedule(_row("a"), replaces=None)
    same([store.delete_schedule("a"), store.delete_schedule("a")], [True, False], "deleted")
    same(store.schedules(), [], "schedules")
    same(store.put_schedule(_row("a", version="v2"), replaces=None), True, "a schedule of the same name")


def _row(name: str, *, graph: str = "g", version: str = "v1", due_at: float = AT, body: bytes = b"\0body") -> Scheduled:
    return Scheduled(name, graph, version, due_at, body)
