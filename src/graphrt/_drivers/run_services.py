"""Services that the tasks of one run share: deps, harness, clock, seed, store access, streams, threads and budgets.

Filled in by `_runs.active_run`, used by drivers and contexts. This module does not decide any rule of the graph.

Events are *written* to the journal as entries, and *shown* to *sinks*: user functions that receive each entry. For the
terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

from graphrt._ambient import SURROUNDINGS, surroundings
from graphrt._engine import emit_events
from graphrt._engine.emit_events import Logged
from graphrt._engine.task import Task
from graphrt._flows.effects import Control, Record, Staged
from graphrt._flows.live import LIVE, Live
from graphrt._forks import FreshLock
from graphrt.errors import StoreError

if TYPE_CHECKING:
    from graphrt._drivers.agents import Agents
    from graphrt._drivers.child_threads import ChildThreads
    from graphrt._drivers.embedding import Embed
    from graphrt._drivers.loop_thread import LoopThread
    from graphrt._drivers.recorded import Recorded
    from graphrt._drivers.thread_pool import ThreadPool
    from graphrt._engine.committed import Committed, Uncommitted
    from graphrt._engine.engine import Engine
    from graphrt._usage.budget import Budget
    from graphrt.events import Entry
    from graphrt.harness.agent._replacements import NamedDoubles
    from graphrt.stores.protocol import Store
    from graphrt.stores.values import Former

monotonic = time.monotonic
"""The clock of all drivers for durations and deadlines, in seconds."""
_lock = FreshLock()
"""Guards values that are created on first use. One lock for all runs suffices, because it is held rarely and
briefly."""


def _nothing() -> None:
    """Default of `RunServices.tell`: without a journal, supersteps are not written."""


Emit: TypeAlias = Callable[[str, Any, Task | None], None]
"""Takes a mode of `_flows.live.LIVE`, an item, and the task that shows it, or None if the item is about the run."""


def _show_to_none(_entries: Sequence[Entry]) -> None:
    """Default of `RunServices.show` for a run without sinks."""


class Recorder(Protocol):
    """Function that writes events as entries, and returns the entries that a stream or sink has asked for."""

    def __call__(
        self,
        logged: Sequence[Logged],
        staged: Sequence[Staged] = (),
        *,
        release: bool = False,
        show: bool = True,
        taken: Sequence[int] = (),
    ) -> Sequence[Entry]:
        """Write the events in one commit.

        Args:
            logged: Events to write, with the paths of their graphs.
            staged: Pairs of a key and the events to stage under it.
            release: Whether to release the claim on the thread in the same commit, because the run ends.
            show: Whether to show the entries to the sinks. If not, the caller does it.
            taken: Positions of the messages to the thread to delete in the same commit.
        """
        ...


class Reader(Protocol):
    """The reader of a stream: receives the items that the run shows, and queues those in the requested modes."""

    reads: frozenset[str]
    """The modes that are read."""

    def show(self, value: Committed | Uncommitted, /) -> None:
        """Receive a committed step, or the tasks that keep their superstep from committing."""
        ...

    def put(self, mode: str, item: Any, /) -> None:
        """Receive one item of a stream mode, from any thread."""
        ...


class RunWatcher(Protocol):
    """Notified when attempts, calls and commits of a run begin and end, for telemetry.

    Its methods must not raise or block. The part of `_runs.listeners.RunWatcher` that is used here. A sink may request
    one for each run.
    """

    def attempt(self, task: str, node: str, attempt: int, /) -> Callable[[str, str | None], None]:
        """Notify that an attempt begins. Called in the context variables of the attempt.

        Args:
            task: Id of the task.
            node: Name of its node.
            attempt: Number of the attempt, from 1.

        Returns:
            A function that is called at the end, with the outcome ("success", "error", "interrupted" or "stopped") and
            the name of the error's class, or None without an error.
        """
        ...

    def committed(self, seq: int, count: int, size: int, seconds: float, /) -> None:
        """Notify that a store accepted a commit of *count* entries, up to *seq*, and *size* bytes, in *seconds*."""
        ...

    def ended(self, error: BaseException | None, /) -> None:
        """Notify that the run is closed. *error* is the exception that its caller gets, or None."""
        ...


class Stager(Protocol):
    """Function that stores events of the open superstep next to the journal until its commit."""

    def __call__(self, staged: Sequence[Staged]) -> None:
        """Store pairs of a key and its events. The events are durable when this returns."""
        ...


@final
class FormerOwner:
    """What is known about the previous owner of the thread, for questions about effects of unknown outcome.

    `lost` says how it lost the thread. `begun` contains task id and key of the "once" effects that the current run, not
    that owner, has started.
    """

    __slots__ = ("begun", "lost")

    def __init__(self) -> None:
        self.lost: Former = "released"
        self.begun: set[tuple[str, str]] = set()

    def doubts(self, task: Task, key: str) -> dict[str, str]:
        """Return, for the payload of a question, how the owner that started the effect lost the thread.

        Empty if it released the thread, or if the current run started the effect.
        """
        return {"former_owner": self.lost} if self.lost != "released" and (task.id, key) not in self.begun else {}


@final
class RunServices:
    """Services of one run, its nested graphs included.

    Args:
        control: Control object of the run, with which it is asked to halt, for instance.
        thread: Id of the thread; None for a run without one.
        deps: Value of `ctx.deps`.
        harness: Harness of the run; None without one.
        clock: Returns seconds since the epoch.
        make_run_id: Creates the run's id, on first use.
        seed: Seed of `ctx.random`; None draws one on first use.
        loop_source: Returns the private loop thread of the runtime; None gives the run its own.
    """

    __slots__ = (
        "_make_run_id",
        "_own_loop",
        "_pool",
        "_relay",
        "_run_id",
        "_seed",
        "agents",
        "before_last",
        "blocking",
        "budget",
        "children",
        "clock",
        "control",
        "deps",
        "doubles",
        "eager",
        "embed",
        "emit",
        "former_owner",
        "harness",
        "known_as",
        "loop_source",
        "memory",
        "pool_source",
        "reader",
        "record",
        "recorded",
        "root",
        "show",
        "sleep",
        "stage",
        "streams",
        "tell",
        "thread",
        "timed",
        "warnings",
        "watcher",
    )

    def __init__(  # noqa: PLR0915 - one statement for each attribute, with its documentation
        self,
        control: Control,
        *,
        thread: str | None,
        deps: Any,
        harness: Any,
        clock: Callable[[], float],
        make_run_id: Callable[[], str],
        seed: int | None,
        loop_source: Callable[[], LoopThread] | None = None,
    ) -> None:
        self.control: Control = control
        self.thread: str | None = thread
        self.known_as: str | None = thread
        """The thread's id for outside services (idempotency keys), with the tenant if the store was opened for one."""
        self.former_owner: FormerOwner = FormerOwner()
        self.deps: Any = deps
        self.harness: Any = harness
        self.clock: Callable[[], float] = clock
        self._make_run_id = make_run_id
        self._run_id: str | None = None
        self._seed = seed
        self.loop_source: Callable[[], LoopThread] | None = loop_source
        self._own_loop: LoopThread | None = None
        """The run's own loop thread, if there is no *loop_source*; None until `loop` creates it."""
        self.doubles: NamedDoubles | None = None
        """Models that replace the models of agents, by the agent's name (decision 0039); None if there are none."""
        self.sleep: Callable[[float], Any] | None = None
        """Sleep function of the run, called with seconds (decision 0040); None waits in real time. If the runtime has
        no `sleep=`, the function of the enclosing run applies."""
        self.warnings: list[str] = []
        """Sentences for `RunResult.warnings`; any part of graphrt may append one."""
        self.pool_source: Callable[[], ThreadPool]
        """Returns the thread pool of the runtime; set by `ActiveRun`."""
        self._pool: ThreadPool | None = None
        """The pool that this run holds; None until a sync node needs it."""
        self.budget: Budget | None = None
        """Budget of the run; None without one."""
        self.agents: Agents
        """Creates the services of agents and budgets for tasks; set by `ActiveRun`."""
        self.children: ChildThreads | None = None
        """Creates and reads child threads; None without a thread in a store that keeps mail."""
        self.memory: Store | None = None
        """The store of the memory (`ctx.memory`); None for a run without a thread in a store."""
        self.embed: Embed | None = None
        """Converts texts to vectors, for semantic search in the memory; None without `embed=` of the runtime."""
        self.root: Engine | None = None
        """Engine (the mutable state) of the outermost graph; None before the run has one."""
        self.emit: Emit | None = None
        """Receives the items that the run shows while its superstep is open. None if there can be no reader: no stream
        here reads these items, and the run has no thread that another process could follow. See `read_live` and
        `relay`."""
        self._relay: Emit | None = None
        """The function set by `relay`, for followers in any process; None if there can be none."""
        self.streams: bool | None = None
        """Whether model calls are streamed; None streams them while someone is reading live items."""
        self.recorded: Recorded | None = None
        """Answers effects and model calls from a log when a run is executed again; None makes the calls."""
        self.reader: Reader | None = None
        """Receives the items that the run shows, if a stream of this process reads them."""
        self.record: Recorder | None = None
        """Writes events as entries, with staged ones; None without a journal."""
        self.stage: Stager | None = None
        """Stores events of the open superstep; None without a store."""
        self.show: Callable[[Sequence[Entry]], None] = _show_to_none
        """Passes entries to the sinks."""
        self.before_last: Callable[[], None] = _nothing
        """Called before the last commit, which releases the thread so that its next run may begin at once."""
        self.tell: Callable[[], None] = _nothing
        """Writes the last superstep from `engine.plain_commit` if it has one plain task, and therefore no events."""
        self.blocking: bool = False
        """True if `record` and `stage` may wait for a disk or a network."""
        self.eager: bool = False
        """True if each outcome is reported as soon as its task ends, for a store (R9) or a live stream."""
        self.watcher: RunWatcher | None = None
        """Notified when attempts and calls begin and end; None if no sink requests it."""
        self.timed: bool = False
        """True if the durations of tasks are measured, which steps show."""

    def write(self, logged: Sequence[Logged]) -> Sequence[Entry]:
        """Write events as entries, show them to the sinks, and return those that a stream or sink has asked for."""
        return self.record(logged) if self.record is not None else ()

    def dropped(self, task: Task) -> None:
        """Record that the outcome of *task* came too late and was dropped. Called when an abandoned node has ended."""
        with contextlib.suppress(StoreError):  # the run may be over and its thread released: omit the entry
            self.write([emit_events.dropped(task)])

    def written(self, effect: Record) -> Sequence[Entry]:
        """Perform a `Record`: write its events and staged events, and show them to sinks and reader.

        Returns the same as `write`.
        """
        if self.record is None:
            return ()
        positions = self._before_last() if effect.last else effect.taken  # positions of the messages to delete
        entries = self.record(effect.logged, effect.staged, release=effect.last, taken=positions)
        self.read_entries(entries)
        return entries

    def read_entries(self, entries: Sequence[Entry]) -> None:
        """Pass written entries to the reader of the run, if there is one."""
        if self.reader is not None:
            for entry in entries:
                self.reader.put("events", entry)

    def show_live(self, item: Live) -> None:
        """Show an item of an open superstep, including those of nested graphs, to all readers of live items."""
        if self.emit is not None:  # a follower in another process may have left
            self.emit("live", item, None)

    def stored(self, effect: Record) -> Sequence[Entry]:
        """Like `written`, but without showing entries: the async driver does that itself on the event loop."""
        if self.record is None:
            return ()
        positions = self._before_last() if effect.last else effect.taken
        return self.record(effect.logged, effect.staged, release=effect.last, show=False, taken=positions)

    def _before_last(self) -> Sequence[int]:
        """Prepare the last commit, which releases the claim on the thread.

        Returns the cancel requests that it deletes.
        """
        self.before_last()
        return self.control.settled

    def read_live(self, reader: Reader) -> None:
        """Show the run to *reader*, a stream of this process that also reads items of open supersteps."""
        with _lock:
            self.reader = reader
            self._connect()

    def relay(self, put: Emit, *, is_followed: bool) -> None:
        """Also pass the run's live items to *put*, for followers in any process.

        Args:
            put: Receives the items, from any thread.
            is_followed: Whether the thread currently has a follower. If not, tasks do not show that they begin and end.
        """
        with _lock:
            self._relay = put
            self.control.followed = is_followed
            self._connect()

    def _connect(self) -> None:
        """Set `emit` and `Control.live` for the current reader and relay. Called with the lock held."""
        reads: frozenset[str] = self.reader.reads if self.reader is not None else frozenset()
        put = self.reader.put if self.reader is not None and not reads.isdisjoint(LIVE) else None
        relay = self._relay
        if put is None:
            self.emit = relay
        else:

            def both(mode: str, item: Any, task: Task | None) -> None:
                """Show an item to the stream here, and to followers."""
                put(mode, item)
                if relay is not None:
                    relay(mode, item, task)

            self.emit = both
        self.control.live = "live" in reads or self.control.followed  # a follower may read every mode

    @property
    def is_read_live(self) -> bool:
        """Whether live items have a reader right now."""
        reads_live = self.reader is not None and not self.reader.reads.isdisjoint(LIVE)
        return reads_live or self.control.followed

    def keep(self, staged: Sequence[Staged]) -> None:
        """Store events of the open superstep. They are durable when this returns (rule R11).

        Args:
            staged: Pairs of a key and its events.

        Raises:
            StoreError: The events could not be stored.
        """
        if self.stage is not None:
            try:
                self.stage(staged)
            except StoreError as error:
                error.__dict__["boundary"] = True  # the store failed, not the node: raised unchanged (decision 0055)
                raise

    @property
    def run_id(self) -> str:
        """Id of the run, created on first use."""
        if self._run_id is None:
            with _lock:
                if self._run_id is None:  # another thread may have created it while this one waited
                    self._run_id = self._make_run_id()
        return self._run_id

    @property
    def seed(self) -> int:
        """Seed of the run; drawn on first use if none was given."""
        if self._seed is None:
            with _lock:
                if self._seed is None:
                    import secrets

                    self._seed = secrets.randbits(63)  # not negative, and fits a signed 64-bit integer
        return self._seed

    def loop(self) -> LoopThread:
        """Return the private loop thread, which runs async code for a sync run. Created on first use."""
        if self.loop_source is not None:
            return self.loop_source()
        with _lock:
            if self._own_loop is None:
                from graphrt._drivers.loop_thread import LoopThread

                self._own_loop = LoopThread()
            return self._own_loop

    @contextlib.contextmanager
    def held(self) -> Generator[None, None, None]:
        """Make the doubles and the sleep function of this run visible to all code inside the `with` block.

        Drivers open the block around the run. Doubles replace models of agents and tools, for example in a test. The
        surroundings carry them, because some code has no reference to the run: an agent called by a node without a
        Context, or a graph used as an agent's tool.
        """
        outer = surroundings()
        # Innermost last: the doubles of an enclosing run count too. So does its sleep function if this runtime has
        # none.
        doubles = outer.doubles if self.doubles is None else (*outer.doubles, self.doubles)
        SURROUNDINGS.set(outer.replaced(doubles=doubles, sleep=self.sleep))
        try:
            yield
        finally:
            SURROUNDINGS.set(outer)

    @property
    def holds(self) -> bool:
        """True if the run has doubles or a sleep function.

        Otherwise drivers need not open `held`. Most runs have neither. This saves a stream from opening `held` again
        for each item (`_runs.driving`).
        """
        return self.doubles is not None or self.sleep is not None

    def pool(self) -> ThreadPool:
        """Return the thread pool for sync nodes under asyncio, held from the first call until `close`."""
        pool = self._pool  # no lock, because only the async driver calls this, on its loop
        if pool is None:
            pool = self._pool = self.pool_source().here()
            pool.hold()
        return pool

    def close(self) -> None:
        """Release the pool, and end the run's own loop thread if it has one. Called when the run is closed."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.release()
        loop, self._own_loop = self._own_loop, None
        if loop is not None:
            loop.close()
