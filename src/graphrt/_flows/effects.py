"""Effects: the requests that a flow yields to its driver, as imperative values. Nothing is performed here.

A flow is a generator. It yields an effect, and the driver performs it and sends the answer that the effect's docstring
names. Other values may be yielded: a `Task`, which the driver runs and answers with the reply, and items for the
readers of the run, which are answered with None. These are a `Committed` or `Uncommitted` for a stream, and a `Live`
for followers of the open superstep. For the terms, see docs/glossary.md.
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
"""A generator that yields effects, Tasks and items for readers, is sent the answers, and returns its result."""


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
    """Cancel the started tasks that were not collected; answered like `Collect`, with those that ended nevertheless.

    The list may be empty.

    Async tasks are cancelled and awaited. Sync tasks that have not started never start; those that have are awaited for
    at most `grace_s` and then abandoned (R9).
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
    """Write entries to the journal and stage events in one commit; answered with None once it is stored."""

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
        """Positions, in the store, of the processed letters, which the same commit deletes (R22)."""


@final
class Tell:
    """Write the plain superstep in `engine.plain_commit`; answered with None once it is stored.

    For speed, a superstep of one plain task is kept there as a tuple and written without event objects.
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
"""The mailbox of a run that cannot receive mail: an immutable empty sequence."""


@final
class Control:
    """External control of a run: requests to halt or to hand over, and which items have readers.

    `cancel` and `hand_over` may be called from any worker thread. The flow checks the requests between effects. Letters
    are mail from other processes to the thread: signals, answers, requests to cancel (R22). `_runs.active_run` delivers
    them: signals and answers through `letters`, a request to cancel through `cancel`.
    """

    # fmt: off
    __slots__ = (
        "check_claim", "ends", "failures", "followed", "halt", "handing_over", "letters", "live", "look", "on_halt", "queues",
        "settled", "watched",
    )
    # fmt: on

    def __init__(self) -> None:
        self.check_claim: Callable[[], None] | None = None
        """Raises ConflictError if another process has taken over the thread after the lease expired; called before a
        node acts. None without a lease."""
        self.ends: bool = False
        """Whether the run must not begin another superstep, because it is to halt or to hand over."""
        self.halt: str | None = None
        """Reason to halt; None while the open superstep may continue."""
        self.handing_over: str | None = None
        """Reason to give the thread back as it is, with work left to do; None without such a request."""
        self.on_halt: list[Any] = []
        """Callbacks without arguments, called at each `cancel`, with which drivers wake waiting code. A driver adds one
        before it waits and removes it afterwards. After adding it, it checks `halt` again, which may have been set
        before."""
        self.letters: deque[Letter] = NO_LETTERS
        """Signals and answers that have arrived while the run is active, and that it has not taken yet (R22)."""
        self.look: Callable[[], None] | None = None
        """Checks the store for mail immediately, for agents that receive signals between two calls. Otherwise mail is
        delivered when the periodic check finds it. None for a run that cannot receive mail."""
        self.settled: tuple[int, ...] = ()
        """Positions in the store of the letters that the last commit of the run deletes: requests to cancel."""
        self.watched: bool = False
        """Whether code other than the caller can cancel the run, because it has a thread."""
        self.live: bool = False
        """Whether the stream mode `live` is read, which shows tasks while their superstep is open (R17)."""
        self.followed: bool = False
        """Whether another process follows the live items: it gets the last items with the commit after them."""
        self.queues: bool = False
        """Whether tasks of nodes with a queue are left to its workers (R27); if not, they run here."""
        self.failures: dict[str, Failure] = {}
        """Failures that workers of queues reported, by task id; the tasks are due until the flow takes them."""

    def cancel(self, reason: str) -> None:
        """Request a halt of the run: running tasks are stopped, and unfinished ones stay due.

        The first reason is kept. Called for `Runtime.cancel`, when a reader leaves its stream early, and by the run
        loop after an error. A second call only wakes waiting code again.
        """
        if self.halt is None:
            self.halt = reason
        self.ends = True
        for wake in list(self.on_halt):  # a copy, because worker threads add and remove callbacks concurrently
            wake()

    def hand_over(self, reason: str) -> None:
        """Ask the run to end at the next superstep boundary, with its thread still due for another driver.

        The open superstep continues. A later `cancel` ends it too, and its unfinished tasks stay due.
        """
        if self.handing_over is None:
            self.handing_over = reason
        self.ends = True
