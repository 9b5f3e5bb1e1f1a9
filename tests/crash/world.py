"""The world outside the killed process: a log of events, and the counter that decides when the process dies.

Every line of the log is appended with one write and synced, and the next process and the test can read what the dead
one did. This module does not know graphrt.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

PATIENT_S = 20.0
"""Seconds after which a task no longer waits for the outcome of its sibling: a trial in which this happens fails."""


class Killer:
    """Counts points, and kills this process at one of them.

    Args:
        at: The number of the point, from 1, or its name, as in `act once<` or for the third of that name
            `act once<@3`, or the effect that is running there, as in `charge<`; None lets the process live.
    """

    def __init__(self, at: int | str | None) -> None:
        self.at = at
        self.names: list[str] = []
        self._counts: dict[str, int] = {}
        self.before_death: Any = None
        self._lock = threading.Lock()
        self._local = threading.local()

    def point(self, name: str, effect: str | None = None) -> None:
        """A point at which the process may die; two tasks may reach it at once, and *effect* tells them apart."""
        with self._lock:
            self.names.append(name)
            count = self._counts[name] = self._counts.get(name, 0) + 1
            here = (len(self.names), f"{name}@{count}", effect and f"{effect}{name[-1]}")
            if self.at is not None and (self.at in here or (count == 1 and self.at == name)):
                if self.before_death is not None:
                    self.before_death(name)
                die()

    @contextmanager
    def around(self, name: str) -> Generator[None]:
        """One point before and one after a block; points inside it are named by where they are."""
        outer = self.where
        self.point(f"{name}>")
        self._local.where = name
        try:
            yield
        finally:
            self._local.where = outer
        self.point(f"{name}<")

    @property
    def where(self) -> str:
        """The current call of this worker thread to the store, or an empty string."""
        return getattr(self._local, "where", "")


def die() -> NoReturn:
    """End this process like a loss of power, except for its files."""
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # another worker thread may run for a moment longer; this one must not
        signal.pause()


class World:
    """The place of side effects, and their traces.

    A task waits until the outcome of the one that began before it is staged, and each superstep stages its outcomes one
    by one.
    """

    def __init__(self, log: Path, killer: Killer, *, is_async: bool) -> None:
        self.path = log
        self.killer = killer
        self.is_async = is_async
        self._file = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._staged: set[str] = set()
        self._last: dict[str, str] = {}
        self._told = threading.Condition()
        self._waiting: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        killer.before_death = lambda name: self.tell("killed", point=name)
        _worlds.append(self)

    def tell(self, what: str, **data: Any) -> None:
        """Append a line, and sync it to the disk."""
        line = json.dumps({"pid": os.getpid(), "what": what, **data}) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)

    def lines(self) -> list[dict[str, Any]]:
        """All lines, including those of dead processes."""
        return read(self.path)

    # -- actions of nodes ----------------------------------------------------------------------------------------

    async def began(self, ctx: Any) -> None:
        """A node has started; it continues once the outcome of the sibling that started before it is staged."""
        self.tell("began", task=ctx.task_id, key=ctx.idempotency_key, attempt=ctx.attempt)
        group = ctx.task_id.rpartition(".")[0]
        with self._told:
            before, self._last[group] = self._last.get(group), ctx.task_id
        if before is None or before == ctx.task_id:
            return
        if not await self._until(before):
            self.tell("stuck", task=ctx.task_id, behind=before)

    async def _until(self, task: str) -> bool:
        with self._told:
            if not self.is_async:
                return self._told.wait_for(lambda: task in self._staged, PATIENT_S)
            if task in self._staged:
                return True
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.append((task, loop, future))
        done, _ = await asyncio.wait([future], timeout=PATIENT_S)
        return bool(done)

    async def effect(self, ctx: Any, name: str, kind: str) -> Any:
        """Perform a side effect through `ctx.effect`."""
        if self.is_async:

            async def act() -> str:
                return self.act(ctx, name, kind)

            result = await ctx.effect(name, act, kind=kind)
        else:
            result = ctx.effect(name, lambda: self.act(ctx, name, kind), kind=kind)
        self.tell("done", task=ctx.task_id, name=name, kind=kind)
        return result

    def act(self, ctx: Any, name: str, kind: str) -> str:
        """An irreversible action."""
        self.killer.point(f"act {kind}>", name)
        self.tell("effect", task=ctx.task_id, name=name, kind=kind, key=ctx.idempotency_key)
        self.killer.point(f"act {kind}<", name)
        return outcome_of(name)

    def staged(self, tasks: set[str]) -> None:
        """The outcomes of *tasks* are stored: wake their waiters."""
        with self._told:
            self._staged |= tasks
            self._told.notify_all()
            ready = [one for one in self._waiting if one[0] in self._staged]
            self._waiting = [one for one in self._waiting if one[0] not in self._staged]
        for _, loop, future in ready:
            loop.call_soon_threadsafe(lambda future=future: future.done() or future.set_result(None))


_worlds: list[World] = []


def began(task: str) -> None:
    """A node without a context has started."""
    _worlds[-1].tell("began", task=task, key=None, attempt=1)


def outcome_of(name: str) -> str:
    """The answer of the world, the same each time."""
    return f"{name}-done"


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a log."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def by_hand(coroutine: Any) -> Any:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waited")
