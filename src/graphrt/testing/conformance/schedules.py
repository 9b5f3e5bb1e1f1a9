"""Clauses on schedules: what a store that offers them promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import nan

from graphrt.errors import InputError
from graphrt.stores.filters import ScheduleFilter
from graphrt.stores.values import StoredSchedule
from graphrt.testing.conformance._world import AT, World, refused, same


def schedules_are_listed_by_name(w: World) -> None:
    """Schedules are listed in the order of their names, filtered by graph and by time."""
    rows = [_row("b", due_at=AT), _row("a", due_at=AT + 1, graph="ü"), _row("c", due_at=AT + 2)]
    same([w.store.put_schedule(row, replaces=None) for row in rows], [True] * 3, "kept")
    same(w.store.query(ScheduleFilter()), [rows[1], rows[0], rows[2]], "schedules")
    same(w.store.query(ScheduleFilter(graph="g")), [rows[0], rows[2]], "schedules of a graph")
    same(w.store.query(ScheduleFilter(due_by=AT + 1)), [rows[1], rows[0]], "schedules that are due")
    same(w.store.query(ScheduleFilter(graph="g", due_by=AT - 1)), [], "schedules before the first is due")
    refused(InputError, lambda: w.store.query(ScheduleFilter(due_by=nan)), "the time NaN")


def a_schedule_is_replaced_only_as_it_is_known(w: World) -> None:
    """A definition replaces only the version that its writer knows."""
    first, second = _row("a"), _row("a", version="v2", graph="h", due_at=AT + 5, body=b"other")
    same(w.store.put_schedule(second, replaces="v1"), False, "replacing what is not there")
    same(w.store.put_schedule(first, replaces=None), True, "the first definition")
    same(w.store.put_schedule(second, replaces=None), False, "a second one that expects none")
    same(w.store.put_schedule(second, replaces="v0"), False, "one that knows another version")
    same(w.store.query(ScheduleFilter()), [first], "schedules")
    same(w.store.put_schedule(second, replaces="v1"), True, "one that knows the version")
    same(w.store.query(ScheduleFilter()), [second], "schedules")


def a_schedule_is_moved_once(w: World) -> None:
    """If several workers move a schedule from one time, one succeeds; a call with another version moves nothing."""
    w.store.put_schedule(_row("a"), replaces=None)
    same(w.store.move_schedule("a", "v0", due_at=AT, to=AT + 60), False, "moving another version")
    same(w.store.move_schedule("b", "v1", due_at=AT, to=AT + 60), False, "moving what is not there")
    with ThreadPoolExecutor(4) as pool:
        moves = [pool.submit(w.store.move_schedule, "a", "v1", due_at=AT, to=AT + 60) for _ in range(4)]
    moved = [move.result() for move in moves]
    same(sorted(moved), [False, False, False, True], "moves")
    same(w.store.query(ScheduleFilter()), [_row("a", due_at=AT + 60)], "schedules")


def a_deleted_schedule_is_gone(w: World) -> None:
    """A deleted schedule is no longer listed, and its name is free."""
    w.store.put_schedule(_row("a"), replaces=None)
    same([w.store.delete_schedule("a"), w.store.delete_schedule("a")], [True, False], "deleted")
    same(w.store.query(ScheduleFilter()), [], "schedules")
    same(w.store.put_schedule(_row("a", version="v2"), replaces=None), True, "a schedule of the same name")


def _row(
    name: str, *, graph: str = "g", version: str = "v1", due_at: float = AT, body: bytes = b"\0body"
) -> StoredSchedule:
    return StoredSchedule(name, graph, version, due_at, body)
