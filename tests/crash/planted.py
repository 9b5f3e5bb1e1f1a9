"""Bugs to plant in a process that is about to be killed: each breaks one promise, and the trials have to detect it.

This module plants bugs and knows where they show; `test_planted_mistake_is_a_finding` asserts that they are detected.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphrt._drivers import node_effects
from graphrt._drivers.context import Context
from graphrt._engine.task import Task
from graphrt._flows import restore
from graphrt._journal import thread_commits
from graphrt.stores import _owners
from graphrt.stores.values import Commit


@dataclass(frozen=True)
class Bug:
    """The promise that *plant* breaks, in this process.

    Attributes:
        kills: Points at which a kill may show it, one trial each; several kills of one trial are joined by "+".
        store: A kind of store that has it.
    """

    plant: Callable[[], None]
    kills: tuple[str, ...]
    store: str = "sqlite"


def _put_instead(make: Callable[[Any, Callable[[Commit], None], Commit], None]) -> Callable[[], None]:
    """A bug that passes on a different commit than the journal's."""

    def plant() -> None:
        real = thread_commits.ThreadCommits.put

        def put(self: Any, commit: Commit) -> None:
            make(self, lambda other: real(self, other), commit)

        thread_commits.ThreadCommits.put = put  # type: ignore[method-assign]

    return plant


def _stage_only(wanted: Callable[[str], bool]) -> Callable[[], None]:
    def make(_self: Any, put: Callable[[Commit], None], commit: Commit) -> None:
        put(commit._replace(stage=[(key, body) for key, body in commit.stage if wanted(key)]))

    return _put_instead(make)


def _never_consumed(_self: Any, put: Callable[[Commit], None], commit: Commit) -> None:
    put(commit._replace(unstage=False))


def _consumed_first(_self: Any, put: Callable[[Commit], None], commit: Commit) -> None:
    if commit.unstage:
        put(Commit(commit.expected, commit.at, unstage=True))
    put(commit._replace(unstage=False))


def _records_first(_self: Any, put: Callable[[Commit], None], commit: Commit) -> None:
    if not commit.records:
        put(commit)
        return
    put(Commit(commit.expected, commit.at, commit.records, graph=commit.graph))
    put(commit._replace(expected=commit.records[-1].seq, records=()))


def _status_later(self: Any, put: Callable[[Commit], None], commit: Commit) -> None:
    put(commit._replace(status=None, release=False))
    if commit.status or commit.release:
        last = commit.records[-1].seq if commit.records else commit.expected
        put(Commit(last, commit.at, status=commit.status, release=commit.release))


def _acknowledged_early() -> None:
    """Each commit is stored with the next one, or when the thread is released."""
    real_put, real_close = thread_commits.ThreadCommits.put, thread_commits.ThreadCommits.close
    held: dict[int, Commit] = {}

    def put(self: Any, commit: Commit) -> None:
        before = held.pop(id(self), None)
        if before is not None:
            real_put(self, before)
        if commit.release:
            real_put(self, commit)
        else:
            held[id(self)] = commit

    def close(self: Any) -> None:
        before = held.pop(id(self), None)
        if before is not None:
            real_put(self, before)
        real_close(self)

    thread_commits.ThreadCommits.put, thread_commits.ThreadCommits.close = put, close  # type: ignore[method-assign]


def _keep_only(wanted: Callable[[Any, str], bool]) -> Callable[[], None]:
    def plant() -> None:
        real = node_effects._keep

        def keep(scope: Any, task: Any, key: str) -> None:
            if wanted(task.more(), key):
                real(scope, task, key)

        node_effects._keep = keep

    return plant


def _permitted_for_ever() -> None:
    real = Task.start_effect

    def once(task: Any, key: str, arguments: Any) -> None:
        if key not in task.more().intents:
            real(task, key, arguments)

    Task.start_effect = once  # type: ignore[method-assign]


def _folded_twice() -> None:
    real = restore._restore

    def twice(engine: Any, *rest: Any) -> None:
        real(engine, *rest)
        for task in engine.tasks:
            task.updates *= 2

    restore._restore = twice


def _nested_forgotten() -> None:
    restore._settle_child = lambda *_: None


def _key_of_the_process() -> None:
    Context.idempotency_key = property(lambda self: f"{os.getpid()}/{self.task_id}")  # type: ignore[assignment,misc]


def _owners_never_die() -> None:
    _owners.process_lives = lambda _pid, _start: True


def _no_transactions() -> None:
    from . import watched

    real = watched.Connection.execute

    def execute(self: Any, sql: str, *rest: Any) -> Any:
        if sql == "BEGIN IMMEDIATE":
            self.bare = True
            return None
        if sql in ("COMMIT", "ROLLBACK") and getattr(self, "bare", False):
            self.bare = False
            return None
        return real(self, sql, *rest)

    watched.Connection.execute = execute  # type: ignore[method-assign]


def _each(name: str, *counts: int) -> tuple[str, ...]:
    return tuple(f"{name}@{count}" for count in counts)


BUGS: dict[str, Bug] = {
    "outcomes are not staged": Bug(_stage_only(lambda key: "#" in key or "+" in key), ("act once<", "act once<@2")),
    "commits of nested graphs are not staged": Bug(
        _stage_only(lambda key: "+" not in key), ("act once<@2", "act once>@2"), store="postgres"
    ),
    "effects are not staged": Bug(_stage_only(lambda key: "#" not in key), _each("commit stage>", 2, 3, 4, 5, 6)),
    "results of effects are not kept": Bug(
        _keep_only(lambda extra, key: key in extra.intents), _each("commit stage>", 1, 2, 3, 4), store="postgres"
    ),
    "intents are not kept": Bug(_keep_only(lambda extra, key: key in extra.effects), _each("act once<", 1, 2)),
    "what is staged is not consumed": Bug(_put_instead(_never_consumed), ("claim>",), store="postgres"),
    "what is staged is consumed before its commit": Bug(
        _put_instead(_consumed_first), _each("commit unstage<", 2, 3, 4)
    ),
    "records are committed before the rest": Bug(
        _put_instead(_records_first), _each("commit record<", 1, 2, 3, 4, 5, 6), store="postgres"
    ),
    "the status is committed after the rest": Bug(
        _put_instead(_status_later), _each("commit record<", 1, 2, 3, 4, 5, 6, 7, 8)
    ),
    "statements without a transaction": Bug(_no_transactions, _each("commit record unstage: insert>", 1, 2)),
    "acknowledged before it is stored": Bug(_acknowledged_early, _each("commit stage>", 2, 4, 6, 8, 10, 12, 14, 16)),
    "a staged outcome is folded twice": Bug(_folded_twice, ("act once<",), store="postgres"),
    "what a nested graph told is forgotten": Bug(_nested_forgotten, ("claim<@4",)),
    "permission to run again stands for ever": Bug(_permitted_for_ever, ("charge>+charge<",), store="postgres"),
    "another key in each process": Bug(_key_of_the_process, ("act once<",)),
    "a dead owner keeps its thread": Bug(_owners_never_die, ("commit stage<",)),
}
