"""What a flow may ask of a driver, as imperative values.

A `Task` that is yielded asks to run it and send its reply, a `Step` to hand it to whoever iterates.

A driver answers each effect with what its docstring says. Nothing is performed here.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, final

from graphrt._engine.emit_events import Logged
from graphrt._engine.task import Task

Staged: TypeAlias = tuple[str, list[Logged]]
"""A key (a task's id, or the path and number of a superstep of a nested graph) and the events that it stands for."""

Flow: TypeAlias = Generator[Any, Any, Any]
"""Yields effects and Tasks, is sent their answers, returns its result."""


@final
class Start:
    """Start several tasks; answered at once with None. Their replies come by `Collect`."""

    __slots__ = ("tasks",)

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks


@final
class Collect:
    """Wait until started tasks have ended; answered with 1..n (task, attempt, reply) in any order.

    The driver may wait for all of them, but returns as soon as one failed, and when the run is to halt.

    Args:
        until: When to return with what has ended, which may be nothing; None waits as long as it takes.
    """

    __slots__ = ("until",)

    def __init__(self, until: float | None = None) -> None:
        self.until = until


@final
class Await:
    """Finish a coroutine that a plain function returned; answered with the reply of its task."""

    __slots__ = ("coroutine", "task")

    def __init__(self, task: Task, coroutine: Any) -> None:
        self.task = task
        self.coroutine = coroutine


@final
class Stop:
    """Cancel what was started and is not collected; answered with the replies of what ended all the same.

    Async tasks are cancelled and awaited; sync tasks that did not start never start; started ones are awaited for at
    most the grace time and are abandoned then.
    """

    __slots__ = ()


@final
class Sleep:
    """Wait *seconds*, or until the run is to halt; answered with None."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


@final
class Now:
    """Read the monotonic clock; answered with seconds."""

    __slots__ = ()


@final
class Record:
    """Write entries, and stage what is left of the open superstep; answered with None once they are stored."""

    __slots__ = ("last", "logged", "staged")

    def __init__(self, logged: Sequence[Logged], staged: Sequence[Staged] = (), *, last: bool = False) -> None:
        self.logged: Sequence[Logged] = logged
        self.staged: Sequence[Staged] = staged
        self.last: bool = last
        """Nothing more will be written by this run."""


@final
class Tell:
    """Write the superstep of the fast path that `engine.told` tells of; answered with None once it is stored."""

    __slots__ = ()


@final
class Stage:
    """Keep events of the open superstep beside the journal; answered with None once they are stored."""

    __slots__ = ("staged",)

    def __init__(self, staged: Sequence[Staged]) -> None:
        self.staged: Sequence[Staged] = staged


@final
class Publish:
    """Hand *item* of *mode* to whoever watches; answered with None."""

    __slots__ = ("item", "mode")

    def __init__(self, mode: str, item: Any) -> None:
        self.mode = mode
        self.item = item


@final
class Time:
    """Read the runtime's clock; answered with seconds since the epoch."""

    __slots__ = ()


COLLECT, STOP, NOW, TIME, TELL = Collect(), Stop(), Now(), Time(), Tell()


@final
class Control:
    """How the outside asks a run to halt. Set from any worker thread; read between effects."""

    __slots__ = ("halt", "live", "on_halt", "watched")

    def __init__(self) -> None:
        self.halt: str | None = None
        """Why the run is to halt, None while it may go on."""
        self.on_halt: list[Any] = []
        """Called without arguments when `halt` is set: drivers wake up what waits."""
        self.watched: bool = False
        """Whether somebody can cancel the run: it has a thread. Else only its caller can."""
        self.live: bool = False
        """Whether somebody watches what tasks do while their superstep is open."""

    def cancel(self, reason: str) -> None:
        """Ask the run to halt; the first reason stands."""
        if self.halt is None:
            self.halt = reason
        for wake in list(self.on_halt):
            wake()
