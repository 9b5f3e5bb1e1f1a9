"""Faulty builds: each breaks one promise of the hosts, in the process that calls it. The storm has to notice."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from graphrt._drivers import context as node_context
from graphrt._engine import questions
from graphrt._engine.open_interrupt import EXPIRED, TIMER
from graphrt._runs import due_threads, results
from graphrt.stores.filters import DueFilter
from graphrt.stores.postgres import PostgresStore, _statements
from graphrt.stores.sqlite import SqliteStore
from graphrt.workers import _worker


def no_claims() -> None:
    """Threads have no owner: each process claims threads that another one drives."""
    lives = _statements.LIVES
    SqliteStore._lives = lambda _self, _row: False  # type: ignore[method-assign]
    for name, text in list(vars(_statements).items()):
        if name.isupper() and isinstance(text, str):
            setattr(_statements, name, text.replace(lives, "FALSE"))
    made = results.ThreadInfo.__init__

    def made_free(self: Any, head: Any, error: Any) -> None:
        made(self, head._replace(owned=False), error)

    results.ThreadInfo.__init__ = made_free  # type: ignore[method-assign]


def new_ones_only() -> None:
    """Claim new threads only: threads of dead processes are lost."""
    found: Any = _worker.due_threads

    def started(runtime: Any, graph: str | None, fits: Any) -> list[Any]:
        return [info for info in found(runtime, graph, fits) if info.seq <= 2]

    wrong: Any = _worker
    wrong.due_threads = started
    try:
        from graphrt.backends import dbos
    except ImportError:
        return
    wrong = dbos
    wrong.due_threads = started


def timers_in_memory() -> None:
    """Only the process that set a timer knows that it fired: in others the node sleeps again."""
    real, mine = node_context._answered, set[str]()

    def answered(task: Any, name: str, *rest: Any, kind: str, **options: Any) -> Any:
        extra = task.more()
        if kind == TIMER:
            extra.interrupts = [one for one in extra.interrupts if one.key != name or one.id in mine or one.open]
        found = real(task, name, *rest, kind=kind, **options)
        mine.update(one.id for one in extra.interrupts if one.kind == TIMER)
        return found

    wrong: Any = node_context
    wrong._answered = answered


def moments_anew() -> None:
    """A timer restarts when another task of its superstep is answered."""
    real = questions.answer_now

    def answer(engine: Any, id_: str, *given: Any) -> Any:
        event = real(engine, id_, *given)
        for one in engine.open_interrupts():
            if one.kind == TIMER:
                questions.withdraw_now(engine, one.id, EXPIRED)
        return event

    wrong: Any = questions
    wrong.answer_now = answer


def timers_early() -> None:
    """Timers fire before their time."""
    ahead_s = 60.0
    wrong: Any
    for wrong in (SqliteStore, PostgresStore):
        wrong.query = _ahead(wrong.query, ahead_s)
    real = due_threads.elapsed
    wrong = due_threads
    wrong.elapsed = lambda engine, now_s: real(engine, now_s + ahead_s)


def _ahead(query: Any, seconds: float) -> Any:
    def ahead(self: Any, wanted: Any, **page: Any) -> Any:
        return query(self, replace(wanted, now=wanted.now + seconds) if type(wanted) is DueFilter else wanted, **page)

    return ahead


def signals_twice() -> None:
    """The commit that takes a signal leaves its letter, and only the next commit deletes it."""
    wrong: Any
    for wrong in (SqliteStore, PostgresStore):
        wrong.commit = _leaving(wrong.commit)


def _leaving(commit: Any) -> Any:
    seen = set[tuple[str, int]]()

    def committed(self: Any, claim: Any, what: Any) -> None:
        letters = [(claim.thread, place) for place in what.taken]
        commit(self, claim, what._replace(taken=[letter[1] for letter in letters if letter in seen]))
        seen.update(letters)

    return committed


def children_of_processes() -> None:
    """A child thread belongs to the process that started it.

    Another process starts it again when the parent's node reruns.
    """
    real = node_context.child_id
    wrong: Any = node_context
    wrong.child_id = lambda parent, task, key: real(parent, task, f"{key} {os.getpid()}")


PLANTS = {
    no_claims: "taken too often",
    new_ones_only: "lost",
    timers_in_memory: "applied twice",
    moments_anew: "applied twice",
    timers_early: "early",
    signals_twice: "applied twice",
    children_of_processes: "applied twice",
}
"""Faulty builds, and the first words of the problem that the storm has to report."""
