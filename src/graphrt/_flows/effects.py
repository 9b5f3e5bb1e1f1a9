"""Effects: the requests that a flow yields to its driver, as imperative values. Nothing is performed here.

A flow is a generator. It yields an effect, and the driver performs it and sends the answer that the effect's docstring
names. Other values may be yielded: a `Task`, which the driver runs and answers with the reply; and what is shown to the
readers of the run, which is answered with None: a `Committed` or `Uncommitted` to a stream, a `Live` to whoever follows
the open superstep. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeAlias, final

from graphrt._engine.emit_events import Logged
from graphrt._engine.mail import Failure, Letter
from graphrt._engine.task import Task

Staged: TypeAlias = tuple[str, list[Logged]]
"""A key and the events to stage under it: a task's id, or a nested graph's path with `+` and the number of a batch.

A task's id followed by `#` and a key is the key of a single effect that the task has recorded while it still runs.
"""

Flow: TypeAlias = Generator[Any, Any, Any]
"""A generator that yields effects, Tasks and what is shown, is sent the answers, and returns its result."""


@final
class Start:
    """Start several tasks; answered with None without waiting. `Collect` returns their replies."""

    __slots__ = ("tasks",)

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks


@final
class Collect:
    """Wait for started tasks to end; answered with a list of (task, execution, reply) in any order.

    The driver may wait for all of them, but it returns as soon as one failed or the run is to halt. The list has one
    item or more; it may be empty after *until* or when the run is to halt.

    Args:
        until: When to return with what has ended, in seconds of the monotonic clock; None waits without a limit.
    """

    __slots__ = ("until",)

    def __init__(self, until: float | None = None) -> None:
        self.until = until


@final
class Await:
    """Await a coroutine that a plain function returned as the result of *task*; answered with the task's reply.

    Drivers call such a function as a sync node, since only `async def` marks a node as async.
    """

    __slots__ = ("coroutine", "task")

    def __init__(self, task: Task, coroutine: Any) -> None:
        self.task = task
        self.coroutine = coroutine


@final
class Stop:
    """Cancel the started tasks that were not collected; answered like `Collect`, with those that ended all the same.

    The list may be empty.

    Async tasks are cancelled and awaited. Sync tasks that did not start never start; those that did are awaited for at
    most `grace_s` and then abandoned (R9).
    """

    __slots__ = ()


@final
class Sleep:
    """Wait for *seconds*, or until the run is to halt; answered with None."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


@final
class Now:
    """Read the monotonic clock, for durations and deadlines; answered with seconds."""

    __slots__ = ()


@final
class Record:
    """Write entries to the journal, and stage events with them in one commit; answered with None once it is stored."""

    __slots__ = ("last", "logged", "staged", "taken")

    def __init__(
        self, logged: Sequence[Logged], staged: Sequence[Staged] = (), *, last: bool = False, taken: Sequence[int] = ()
    ) -> None:
        self.logged: Sequence[Logged] = logged
        """Events to write, in order, each with the path of its graph."""
        self.staged: Sequence[Staged] = staged
        """Events of tasks of the open superstep."""
        self.last: bool = last
        """Whether this is the last commit of the run, which also releases the thread's claim."""
        self.taken: Sequence[int] = taken
        """Places, in the store, of letters that were taken and are deleted in the same commit (R22)."""


@final
class Tell:
    """Write the plain superstep that is noted in `engine.told`; answered with None once it is stored.

    A superstep of one plain task is noted there as a tuple and written without event objects, for speed.
    """

    __slots__ = ()


@final
class Stage:
    """Stage events of the open superstep (decision 0020); answered with None once they are stored."""

    __slots__ = ("staged",)

    def __init__(self, staged: Sequence[Staged]) -> None:
        self.staged: Sequence[Staged] = staged


@final
class Time:
    """Read the runtime's clock, for expiry times; answered with seconds since the epoch."""

    __slots__ = ()


COLLECT, STOP, NOW, TIME, TELL = Collect(), Stop(), Now(), Time(), Tell()


NO_LETTERS: Final[deque[Letter]] = deque(maxlen=0)
"""The mail of a run that can get none: nothing can be appended."""


@final
class Control:
    """Switches of a run that its surroundings set: requests to halt or to hand over, and what is watched.

    `cancel` and `hand_over` may be called from any worker thread. The flow reads the switches between effects.
    Letters are mail that other processes put into the thread: signals, answers, requests to cancel (R22). The run's
    opener (`_runs.active_run`) hands them over: signals and answers in `letters`, a request to cancel by `cancel`.
    """

    # fmt: off
    __slots__ = (
        "check_claim", "ends", "failures", "followed", "halt", "handing_over", "letters", "live", "look", "on_halt", "queues",
        "settled", "watched",
    )
    # fmt: on

    def __init__(self) -> None:
        self.check_claim: Callable[[], None] | None = None
        """Raises ConflictError if another process has taken the thread after the lease ran out; called before a node
        acts. None without a lease."""
        self.ends: bool = False
        """Whether the run begins no further superstep, because it is to halt or to hand over."""
        self.halt: str | None = None
        """Reason to halt; None while the open superstep may continue."""
        self.handing_over: str | None = None
        """Reason to give the thread back as it is, with work left to do; None without such a request."""
        self.on_halt: list[Any] = []
        """Callbacks without arguments, called at each `cancel`: drivers wake up what waits. A driver adds one before it
        waits and removes it afterwards; it then looks at `halt` once more, which may have been set before."""
        self.letters: deque[Letter] = NO_LETTERS
        """Signals and answers that have arrived while the run goes on, and that it has not taken yet (R22)."""
        self.look: Callable[[], None] | None = None
        """Looks for mail in the store at once, for agents that take signals between two calls; others are given mail
        when it is found. None for a run that can get none."""
        self.settled: tuple[int, ...] = ()
        """Places (numbers in the store) of letters that the last commit of the run deletes: requests to cancel."""
        self.watched: bool = False
        """Whether code other than the caller can cancel the run, because it has a thread."""
        self.live: bool = False
        """Whether the stream mode `live` is read, which shows tasks while their superstep is open (R17)."""
        self.followed: bool = False
        """Whether another process follows what is shown live: it gets the last items with the commit after them."""
        self.queues: bool = False
        """Whether tasks of nodes with a queue are left to its workers (R27); if not, they run here."""
        self.failures: dict[str, Failure] = {}
        """Failures that workers of queues reported, by task id; the tasks are due until the flow takes them."""

    def cancel(self, reason: str) -> None:
        """Request the run to halt: running tasks are stopped, and unfinished ones stay due. The first reason is kept.

        Called for `Runtime.cancel`, when the reader of a stream leaves it, and by the run loop after an error. A second
        call only wakes what waits once more.
        """
        if self.halt is None:
            self.halt = reason
        self.ends = True
        for wake in list(self.on_halt):  # a copy: worker threads add and remove callbacks meanwhile
            wake()

    def hand_over(self, reason: str) -> None:
        """Request the run to end at the next boundary of a superstep, with its thread still due for another driver.

        The open superstep goes on. A `cancel` that follows ends it too, and its unfinished tasks stay due.
        """
        if self.handing_over is None:
            self.handing_over = reason
        self.ends = True
