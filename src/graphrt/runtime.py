"""`Runtime`, the facade that drives one compiled graph and keeps its threads in a store.

This file has only the public verbs. Each calls a function of `_runs`, which opens, drives and closes runs and reads and
edits threads. If the store may block, the async twin of a verb that runs no node makes the same call on a worker
thread, so it never blocks the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from os import PathLike
from typing import IO, TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, Unpack, final, overload

import typing_extensions as te

from graphrt._drivers.child_threads import Tags
from graphrt._engine.open_interrupt import InterruptKind
from graphrt._engine.steps import Diff, Step
from graphrt._flows.live import Live, MessageItem
from graphrt._forks import Home
from graphrt._journal.compatibility import Compatibility
from graphrt._runs import (
    detached,
    due_threads,
    entries,
    finding,
    following,
    forking,
    history,
    inspection,
    mail,
    maintenance,
    provenance,
    pruning,
    run_to_end,
    staged_items,
    state_changes,
    state_edits,
    step_records,
    streams,
)
from graphrt._runs.arguments import MODES, Mode, Modes, checked_edits, stream_modes
from graphrt._runs.async_following import AsyncFollowing
from graphrt._runs.erasure_report import ErasureReport, Leftover
from graphrt._runs.if_exists import IfExists
from graphrt._runs.labels import Begin, GoOn, new_labels
from graphrt._runs.live_items import LiveItem
from graphrt._runs.maintenance import Which
from graphrt._runs.provenance import FieldWrite, Provenance
from graphrt._runs.results import (
    Divergence,
    InboxItem,
    InterruptInfo,
    RunResult,
    Snapshot,
    TaskOutcome,
    ThreadInfo,
)
from graphrt._runs.run_config import RunConfig, configure
from graphrt._runs.runtime_options import RuntimeOptions, SignatureOf, check_options
from graphrt._runs.schedules import Schedule, Schedules
from graphrt._runs.state_changes import StateChange
from graphrt._runs.stream_items import STEPS
from graphrt._runs.streams import AsyncStream, Stream
from graphrt.commands import UNSET
from graphrt.errors._langgraph_names import no_attribute
from graphrt.events import Entry
from graphrt.events.status import Status
from graphrt.limits import Limits, Queue
from graphrt.migrations import Migration
from graphrt.stores import Store

if TYPE_CHECKING:
    from graphrt._runs.shared_memory import SharedMemory
    from graphrt._usage.budget import Budget
    from graphrt.audit import AuditLog, Reexecution
    from graphrt.graph import CompiledGraph
    from graphrt.harness.protocol import ChatModel
    from graphrt.harness.tools.registry import AnyTool
    from graphrt.stores.verbs import Verification

__tracebackhide__ = True  # pytest shows the line of the caller, not those of this module
# fmt: off
__all__ = [
    "MODES", "AsyncFollowing", "AsyncStream", "Compatibility", "Diff", "Divergence", "ErasureReport", "FieldWrite", "IfExists", "InboxItem",
    "InterruptInfo", "InterruptKind", "Leftover", "Live", "LiveItem", "MessageItem", "Mode", "Modes", "Provenance", "RunResult", "Runtime",
    "RuntimeOptions", "Schedule", "Schedules", "Snapshot", "StateChange", "Step", "Stream", "ThreadInfo",
]
# fmt: on

S = te.TypeVar("S", default=Any)
I_co = te.TypeVar("I_co", default=Mapping[str, Any], covariant=True)
"""The type of a run's input besides a whole state, as in `CompiledGraph`. Covariant for the same reason."""
T = TypeVar("T")
File: TypeAlias = str | PathLike[str] | IO[bytes]
"""A file: its path, or a file that is open in binary mode."""
Where: TypeAlias = str | tuple[str, str] | Callable[[str, int, str | None, Any], bool]
"""The values to erase; see `Runtime.erase`."""


@final
class Runtime(Generic[S, I_co]):
    """Drives a compiled graph and keeps its threads. Safe to use from several asyncio tasks and worker threads at once.

    A runtime belongs to the process that uses it first: in a forked child of that process, its verbs raise `forked`.

    Its methods by purpose; most have an async twin with the prefix `a`, and that of `wait` is `await_`:

    | To | Methods |
    |---|---|
    | run | `run`, `steps`, `stream`, `resume`, `retry`, `cancel`, `drain`, `signal` |
    | run elsewhere | `start`, `wait`, `due`, `drive`, `run_task`, `hand_over` |
    | look | `state`, `history`, `entries`, `steps_of`, `changes`, `follow`, `threads`, `inbox`, `why`, `diff`, `replay`, `reexecute` |
    | change | `update`, `bulk_update`, `label`, `fork`, `copy_thread`, `adopt` |
    | keep house | `check_threads`, `verify`, `export_thread`, `import_thread`, `delete_thread`, `prune`, `sweep`, `erase`, `reindex` |

    Args:
        graph: The graph to drive. store: Where threads are kept: a store, or a URL such as "memory:",
            "sqlite:///runs.db" or "postgresql://...". The first verb opens it. None keeps no threads. `close` closes
            only a store that was opened from a URL. chain: Whether the journals of new threads are hash-chained. None
            chains them if the store is durable. audit: Settings for keeping and authenticating the journals of threads
            as audit logs. A run without a store then has a thread in memory. None authenticates nothing. lease_s:
            Seconds without a renewal after which an owner loses its thread. An owner that is known to be dead loses it
            at once. 30 by default. migrations: Migrations for threads that were started with an older graph. harness:
            The harness that nodes reach as `ctx.harness`. deps: Any object; nodes reach it as `ctx.deps`. limits:
            Override the limits of the graph, field by field. budget: Limits on the usage of a run's model calls. A
            resume continues with the remainder. sinks: Functions that are called with each journal entry, after its
            commit. clock: Returns seconds since the epoch; by default the system clock. sleep: A function of seconds,
            sync or async, that waits before a retry of a node or a model call. By default it waits in real time. ids:
            Makes the ids of runs and of unnamed threads; by default random UUIDs. seed: Seeds `ctx.random`, so that it
            is the same in every run. By default each run draws its own seed. models: Models by agent name. In a run,
            each agent with such a name uses that model instead of its own. tools: Doubles by tool name, for tests:
            `scripted(...)` of `graphrt.testing`, functions of the tool's arguments, or tools. In a run, an agent's
            calls of such a tool go to the double; name, schema and policy stay those of the real tool. A script with
            results left over raises a ScriptError at the end of the `with` block. worker_threads: How many worker
            threads may run sync nodes, for all runs together: 40 by default. Under `run` and similar methods they help
            the caller. stream_models: Whether model calls are streamed. None streams them in runs that a worker drives,
            and in other runs while someone is reading live items, by `stream` or by `follow(live=True)`. embed: Makes
            vectors of texts, sync or async, so that the memory can also be searched by meaning: see
            `graphrt.memory.Embed`. None searches only by words. check_state: Compare the state before and after each
            superstep, to find every change in place. Under pytest, with a `MockHarness`, or if the environment has
            `GRAPHRT_CHECK_STATE=1`, None does.

    Raises:
        InputError: *graph* is not compiled, or another argument has a wrong type or value.
    """

    __signature__: Any = SignatureOf(configure)

    def __init__(self, graph: CompiledGraph[S, Any, I_co], **options: Unpack[RuntimeOptions]) -> None:
        check_options(options)
        self._graph = graph
        self._options = configure(graph, **options)
        self._home = Home("This runtime")
        self._owns_store = isinstance(options.get("store"), str)

    def with_store(self, store: Store | str) -> Runtime[S, I_co]:
        """Return a runtime like this one that keeps its threads in *store*, for programs that choose their store late.

        Args:
            store: A store, or a URL. `close` of the new runtime closes what a URL opened. It has runs and worker threads
                of its own.

        Raises:
            InputError: *store* is neither a store nor a URL, or the audit log is kept in another store.
        """
        runtime = copy(self)
        runtime._options = self._options.with_store(store)
        runtime._home = Home("This runtime")
        runtime._owns_store = isinstance(store, str)
        return runtime

    def as_user(self, user: str) -> Runtime[S, I_co]:
        """Return this runtime on behalf of *user*, for a program that serves many users: journals name the user.

        It shares the store, the runs and the worker threads. Only the runtime that it was made from is closed.

        Args:
            user: Who starts, resumes, edits, labels, signals and deletes threads; takes the place of
                `AuditLog(user=)`.

        Raises:
            InputError: *user* is not a text.
        """
        runtime = copy(self)
        runtime._options = self._options.as_user(user)
        runtime._owns_store = False
        return runtime

    @property
    def _config(self) -> RunConfig:
        """The configuration, for a verb. The first verb binds the runtime to this process.

        Raises:
            InputError: Another process used the runtime first, and this process is its forked child.
        """
        self._home.check()
        return self._options

    def _config_for(self, allow_older: bool) -> RunConfig:  # noqa: FBT001 - an argument of a verb, passed on
        """The configuration, for a verb that may drive or edit a thread that waits for a newer build."""
        return self._config._replace(allow_older=True) if allow_older else self._config

    # -- run: drive a thread in this process -----------------------------------------------------------------------

    def run(
        self,
        input: S | I_co,
        *,
        thread: str | None = None,
        if_exists: IfExists = "update",
        title: str | None = None,
        tags: Tags = (),
        allow_older: bool = False,
    ) -> RunResult[S]:
        """Run the graph until it completes, pauses or is cancelled; block until then.

        Args:
            input: The initial state on a new thread; an update on a finished or cancelled one.
            thread: Id of the thread to run on; needs a store. If there is a store and no id is given, an id is made.
            if_exists: What becomes of the input if the thread exists. "update" folds it into the state of a finished or
                cancelled thread, and START begins; for other threads an InputError names the right verb. "continue"
                retries an unfinished thread if the same input began its run, so a job that died can be started again by
                the same call. For a finished or waiting thread it returns the current result. "return" runs nothing and
                returns the current result, so that a request which arrives twice runs once; *input* is not checked
                then. "abandon" gives up what the thread left undone, the open superstep with its questions and
                outcomes, which the journal records as `SuperstepAbandoned`; then the input folds as an update.
            title: Title under which the thread is listed; None leaves the title that it has.
            tags: Tags to find the thread by, besides the tags that it has.
            allow_older: Continue with a thread that waits for a newer build than this one (`older-build`). It belongs
                to this build then.

        Returns:
            The result. Its status is "completed", "interrupted" or "cancelled".

        Raises:
            GraphrtError: The run failed. On a thread, `retry` continues it.
            InputError: The input does not fit, there is no store for *thread*, or the thread needs another verb
                (`wrong-verb`), or another input began its run (`other-input`).
            ConflictError: A living owner drives the thread.
        """
        labels = new_labels(title, tags)
        return run_to_end.run(self._config_for(allow_older), input, thread, if_exists=if_exists, labels=labels)

    async def arun(
        self,
        input: S | I_co,
        *,
        thread: str | None = None,
        if_exists: IfExists = "update",
        title: str | None = None,
        tags: Tags = (),
        allow_older: bool = False,
    ) -> RunResult[S]:
        """Run the graph on the running event loop; see `run`."""
        labels = new_labels(title, tags)
        return await run_to_end.arun(self._config_for(allow_older), input, thread, if_exists=if_exists, labels=labels)

    @overload
    def steps(self, input: S | I_co, **begin: Unpack[Begin]) -> Stream[Step[S], S]: ...
    @overload
    def steps(self, **on: Unpack[GoOn]) -> Stream[Step[S], S]: ...
    def steps(
        self,
        input: S | I_co = UNSET,
        *,
        thread: str | None = None,
        if_exists: IfExists = "update",
        title: str | None = None,
        tags: Tags = (),
        answers: Any = UNSET,
        answer: Any = UNSET,
        allow_older: bool = False,
    ) -> Stream[Step[S], S]:
        """Run the graph and yield each finished task after its commit. Leaving early cancels the run.

        The call claims the thread. Nothing runs before the first step is read.

        Args:
            input: As for `run`. Without an input, the *thread* is continued.
            thread: As for `run`.
            if_exists: As for `run`. Where nothing runs, the stream ends at once, with the current result.
            title: As for `run`.
            tags: As for `run`.
            allow_older: As for `run`.
            answers: Continue as `resume` does with these answers.
            answer: Continue as `resume` does with this answer. Without answers and *input*, continue as `retry` does.

        Returns:
            A step for each task of a superstep that commits, including tasks that finished in an earlier run.
            Iterating raises a GraphrtError if the run fails, after the step of the failed task.

        Raises:
            InputError: Both an input and answers, or neither an input nor a thread; else as for `run` and `resume`.
            ConflictError: Another run has the thread.
        """
        labels = new_labels(title, tags)
        return streams.stream(
            self._config_for(allow_older), input, STEPS, thread, answers, answer, if_exists=if_exists, labels=labels
        )

    @overload
    def asteps(self, input: S | I_co, **begin: Unpack[Begin]) -> AsyncStream[Step[S], S]: ...
    @overload
    def asteps(self, **on: Unpack[GoOn]) -> AsyncStream[Step[S], S]: ...
    def asteps(
        self,
        input: S | I_co = UNSET,
        *,
        thread: str | None = None,
        if_exists: IfExists = "update",
        title: str | None = None,
        tags: Tags = (),
        answers: Any = UNSET,
        answer: Any = UNSET,
        allow_older: bool = False,
    ) -> AsyncStream[Step[S], S]:
        """Run the graph and yield each finished task after its commit; see `steps`.

        The stream claims the thread when it is awaited or first read, and raises then if something is wrong with the
        call.
        """
        labels = new_labels(title, tags)
        return streams.astream(
            self._config_for(allow_older), input, STEPS, thread, answers, answer, if_exists=if_exists, labels=labels
        )

    @overload
    def stream(
        self, input: S | I_co, *, modes: Literal["updates"] = ..., **begin: Unpack[Begin]
    ) -> Stream[dict[str, Any], S]: ...
    @overload
    def stream(self, input: S | I_co, *, modes: Literal["values"], **begin: Unpack[Begin]) -> Stream[S, S]: ...
    @overload
    def stream(self, input: S | I_co, *, modes: Literal["events"], **begin: Unpack[Begin]) -> Stream[Entry, S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Literal["messages"], **begin: Unpack[Begin]
    ) -> Stream[MessageItem, S]: ...
    @overload
    def stream(self, input: S | I_co, *, modes: Literal["live"], **begin: Unpack[Begin]) -> Stream[Live, S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Literal["result"], **begin: Unpack[Begin]
    ) -> Stream[RunResult[S], S]: ...
    @overload
    def stream(self, input: S | I_co, *, modes: Mode | tuple[Mode], **begin: Unpack[Begin]) -> Stream[Any, S]: ...
    @overload
    def stream(self, input: S | I_co, *, modes: Modes, **begin: Unpack[Begin]) -> Stream[tuple[str, Any], S]: ...
    @overload
    def stream(self, *, modes: Literal["updates"] = ..., **on: Unpack[GoOn]) -> Stream[dict[str, Any], S]: ...
    @overload
    def stream(self, *, modes: Literal["values"], **on: Unpack[GoOn]) -> Stream[S, S]: ...
    @overload
    def stream(self, *, modes: Literal["events"], **on: Unpack[GoOn]) -> Stream[Entry, S]: ...
    @overload
    def stream(self, *, modes: Literal["messages"], **on: Unpack[GoOn]) -> Stream[MessageItem, S]: ...
    @overload
    def stream(self, *, modes: Literal["live"], **on: Unpack[GoOn]) -> Stream[Live, S]: ...
    @overload
    def stream(self, *, modes: Literal["result"], **on: Unpack[GoOn]) -> Stream[RunResult[S], S]: ...
    @overload
    def stream(self, *, modes: Mode | tuple[Mode], **on: Unpack[GoOn]) -> Stream[Any, S]: ...
    @overload
    def stream(self, *, modes: Modes, **on: Unpack[GoOn]) -> Stream[tuple[str, Any], S]: ...
    def stream(
        self,
        input: S | I_co = UNSET,
        *,
        thread: str | None = None,
        if_exists: IfExists = "update",
        title: str | None = None,
        tags: Tags = (),
        answers: Any = UNSET,
        answer: Any = UNSET,
        modes: Mode | Iterable[Mode] = ("updates",),
        allow_older: bool = False,
    ) -> Stream[Any, S]:
        """Run the graph and yield what happens, as it happens. Leaving early cancels the run.

        The call claims the thread. Nothing runs before the first item is read.

        Args:
            input: As for `steps`.
            thread: As for `steps`.
            if_exists: As for `run`. Where nothing runs, the stream ends at once, with the current result.
            title: As for `run`.
            tags: As for `run`.
            allow_older: As for `run`.
            answers: As for `steps`.
            answer: As for `steps`.
            modes: `values` (the state after each superstep), `updates` (node to its update, after the commit),
                `events` (journal entries), `custom` (values of `ctx.emit`), `messages` (pieces of model replies),
                `live` (what tasks do while their superstep is open, in nested graphs too), `result` (the RunResult,
                as the last item). With `custom`, `messages` or `live` the run is driven on a worker thread, so that
                items are not delayed until the commit.

        Returns:
            The items, or pairs of mode and item if there are several modes.

        Raises:
            InputError: A mode is unknown, or as for `steps`.
            ConflictError: Another run has the thread.
        """
        labels = new_labels(title, tags)
        config, reads = self._config_for(allow_older), stream_modes(modes)
        return streams.stream(config, input, reads, thread, answers, answer, if_exists=if_exists, labels=labels)

    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["updates"] = ..., **begin: Unpack[Begin]
    ) -> AsyncStream[dict[str, Any], S]: ...
    @overload
    def astream(self, input: S | I_co, *, modes: Literal["values"], **begin: Unpack[Begin]) -> AsyncStream[S, S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["events"], **begin: Unpack[Begin]
    ) -> AsyncStream[Entry, S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["messages"], **begin: Unpack[Begin]
    ) -> AsyncStream[MessageItem, S]: ...
    @overload
    def astream(self, input: S | I_co, *, modes: Literal["live"], **begin: Unpack[Begin]) -> AsyncStream[Live, S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["result"], **begin: Unpack[Begin]
    ) -> AsyncStream[RunResult[S], S]: ...
    @overload
    def astream(self, input: S | I_co, *, modes: Mode | tuple[Mode], **begin: Unpack[Begin]) -> AsyncStream[Any, S]: ...
    @overload
    def astream(self, input: S | I_co, *, modes: Modes, **begin: Unpack[Begin]) -> AsyncStream[tuple[str, Any], S]: ...
    @overload
    def astream(self, *, modes: Literal["updates"] = ..., **on: Unpack[GoOn]) -> AsyncStream[dict[str, Any], S]: ...
    @overload
    def astream(self, *, modes: Literal["values"], **on: Unpack[GoOn]) -> AsyncStream[S, S]: ...
    @overload
    def astream(self, *, modes: Literal["events"], **on: Unpack[GoOn]) -> AsyncStream[Entry, S]: ...
    @overload
    def astream(self, *, modes: Literal["messages"], **on: Unpack[GoOn]) -> AsyncStream[MessageItem, S]: ...
    @overload
    def astream(self, *, modes: Literal["live"], **on: Unpack[GoOn]) -> AsyncStream[Live, S]: ...
    @overload
    def astream(self, *, modes: Literal["result"], **on: Unpack[GoOn]) -> AsyncStream[RunResult[S], S]: ...
    @overload
    def astream(self, *, modes: Mode | tuple[Mode], **on: Unpack[GoOn]) -> AsyncStream[Any, S]: ...
    @overload
    def astream(self, *, modes: Modes, **on: Unpack[GoOn]) -> AsyncStream[tuple[str, Any], S]: ...
    def astream(
        self,
        input: S | I_co = UNSET,
        *,
        thread: str | None = None,
        if_exists: IfExists = "update",
        title: str | None = None,
        tags: Tags = (),
        answers: Any = UNSET,
        answer: Any = UNSET,
        modes: Mode | Iterable[Mode] = ("updates",),
        allow_older: bool = False,
    ) -> AsyncStream[Any, S]:
        """Run the graph on the running event loop and yield what happens; see `stream`.

        The stream claims the thread when it is awaited or first read, and raises then if something is wrong with the
        call.
        """
        labels = new_labels(title, tags)
        config, reads = self._config_for(allow_older), stream_modes(modes)
        return streams.astream(config, input, reads, thread, answers, answer, if_exists=if_exists, labels=labels)

    def resume(
        self, thread: str, answers: Any = UNSET, *, answer: Any = UNSET, allow_older: bool = False
    ) -> RunResult[S]:
        """Answer the interrupts of a paused thread and continue it.

        If the thread failed in a task that had been answered, the new answer replaces the earlier one. It is refused
        if the task recorded an effect after the earlier answer.

        Args:
            thread: A paused or failed thread, or one whose owner died while it ran. The last kind needs no answers.
            answers: A mapping is always read as interrupt ids to answers. Any other value answers the only open
                interrupt.
            answer: The answer to the only open interrupt, of any type; a mapping too.
            allow_older: As for `run`.

        Raises:
            GraphrtError: The run failed. `retry` continues it.
            InputError: An id is not open (the message lists the open ones), an answer is missing, late or of a wrong
                type, an effect depends on the answer to replace, or the thread needs another verb. Nothing was changed.
            ConflictError: Another run has the thread.
        """
        return run_to_end.resume(self._config_for(allow_older), thread, answers, answer)

    async def aresume(
        self, thread: str, answers: Any = UNSET, *, answer: Any = UNSET, allow_older: bool = False
    ) -> RunResult[S]:
        """Answer the interrupts of a paused thread and continue it on the running event loop; see `resume`."""
        return await run_to_end.aresume(self._config_for(allow_older), thread, answers, answer)

    def retry(self, thread: str, *, allow_older: bool = False) -> RunResult[S]:
        """Continue a failed or cancelled thread, or one whose owner died. Finished tasks do not run again.

        An interrupted thread can be retried if a question has expired, or is stale because the state was edited. The
        node that asked runs again and asks again. So do the nodes of a cancelled thread that was paused.

        Args:
            thread: The thread.
            allow_older: As for `run`.

        Raises:
            GraphrtError: The run failed.
            InputError: There is no such thread, or it needs another verb.
            ConflictError: Another run has the thread.
        """
        return run_to_end.retry(self._config_for(allow_older), thread)

    async def aretry(self, thread: str, *, allow_older: bool = False) -> RunResult[S]:
        """Continue a failed or cancelled thread on the running event loop; see `retry`."""
        return await run_to_end.aretry(self._config_for(allow_older), thread)

    def cancel(self, thread: str) -> bool:
        """Cancel the run that drives *thread*, in any process, or a paused thread. Its status becomes "cancelled".

        The caller of the cancelled run gets a result with that status. `retry` continues a cancelled thread; open
        questions are asked again. A run in another process gets the request by mail and cancels within moments; `wait`
        notices that.

        Returns:
            Whether it is cancelled or its driver was asked to cancel it. False if there is nothing to cancel, or if
            another process drives the thread and the store keeps no mail.
        """
        return state_edits.cancel(self._config, thread)

    async def acancel(self, thread: str) -> bool:
        """Cancel the run that drives *thread*, or a paused thread; see `cancel`."""
        if thread in self._config.active:
            return self.cancel(thread)
        return await self._unhurried(lambda: self.cancel(thread))

    def drain(self, thread: str, *, reason: str = "drain() was called") -> bool:
        """Ask this runtime's run of *thread* to end after the current superstep, with the thread still due.

        It does not wait, so a signal handler or another worker thread may call it; a node calls `ctx.drain`. The thread
        is left as by `hand_over`: its status is "running" without an owner, and `retry`, `resume` or any worker
        continues it. A run without remaining work completes.

        Args:
            thread: Id of the thread.
            reason: A phrase for the journal.

        Returns:
            Whether a run was asked. False if this runtime does not drive the thread.
        """
        return self._config.active.hand_over(thread, reason)

    async def adrain(self, thread: str, *, reason: str = "drain() was called") -> bool:
        """Ask the run that drives *thread* to end after the current superstep; see `drain`."""
        return self.drain(thread, reason=reason)

    def signal(self, thread: str, name: str, value: Any = None, *, id: str | None = None) -> bool:
        """Send a signal to a thread, no matter which process drives it. A node gets it by `ctx.receive(name)` (R22).

        It is stored when this returns, and waits in the thread until a task receives it, each signal once, in the order
        of arrival. It makes a paused thread due: a `Worker` continues it, or `drive` does.

        Args:
            thread: A thread that exists.
            name: The name that a node receives it by.
            value: Any value that can be stored. It is redacted as an input is.
            id: An id chosen by the sender, such as a request id: a second signal with the same id is not kept. None
                makes one.

        Returns:
            Whether it is kept; False if a signal with this id was sent before.

        Raises:
            InputError: There is no such thread, name or id are not valid (`input`), the value cannot be stored, or the
                store keeps no mail (`store-lacks`). Or a signal with this id and another name or value waits or is
                among the last 256 entries (`key-reused`).
        """
        return mail.signal(self._config, thread, name, value, id)

    async def asignal(self, thread: str, name: str, value: Any = None, *, id: str | None = None) -> bool:
        """Send a signal to a thread; see `signal`."""
        return await self._unhurried(lambda: self.signal(thread, name, value, id=id))

    # -- run: leave a thread to other processes, and be one of them ------------------------------------------------

    def start(
        self,
        input: S | I_co = UNSET,
        *,
        thread: str | None = None,
        answers: Any = UNSET,
        answer: Any = UNSET,
        if_exists: IfExists = "update",
        while_running: Literal["refuse", "queue", "abandon"] = "refuse",
        title: str | None = None,
        tags: Tags = (),
        priority: int = 0,
        allow_older: bool = False,
    ) -> str:
        """Begin a run, leave it to a worker, and return at once with the id of its thread (R20).

        The run is stored when this returns, with the thread's status "running" and without an owner. A `Worker` of the
        store drives it, in this process or another; `wait` and `follow` see it from anywhere.

        Args:
            input: As for `run`. Without an input, the *thread* is continued.
            thread: As for `run`.
            answers: Continue as `resume` does with these answers.
            answer: Continue as `resume` does with this answer. Without answers and *input*, continue as `retry` does.
            if_exists: As for `run`, with the id of the thread for its result. "return" changes nothing, whatever the
                thread's status, so a request that arrives twice begins one run.
            while_running: What becomes of the input if a run of the thread is in progress, in any process. "refuse"
                raises ConflictError. "queue" begins a run with it when that one has completed, after those that were
                queued before. "abandon" ends that run at once, and begins with the input as `if_exists="abandon"` does.
            title: As for `run`.
            tags: As for `run`.
            allow_older: As for `run`.
            priority: Workers take threads of a higher priority first; 0 keeps an existing priority. `label` can change
                it later.

        Answers to a thread that another process drives are left to that process as mail. The first answer to a question
        counts: while one waits, another one is refused (`unknown-interrupt`), and the same one is not posted again. Of
        two that are sent at the same moment, both may be accepted; then the later one is dropped, and the journal has a
        `LetterDropped`.

        Raises:
            InputError: The runtime has no store, or another answer waits; else as for `run`, `resume` and `retry`.
                Nothing was stored.
            ConflictError: A living owner drives the thread.
        """
        options: dict[str, Any] = {"if_exists": if_exists, "while_running": while_running}
        return detached.start(
            self._config_for(allow_older), input, thread, answers, answer, new_labels(title, tags, priority), **options
        )

    async def astart(
        self,
        input: S | I_co = UNSET,
        *,
        thread: str | None = None,
        answers: Any = UNSET,
        answer: Any = UNSET,
        if_exists: IfExists = "update",
        while_running: Literal["refuse", "queue", "abandon"] = "refuse",
        title: str | None = None,
        tags: Tags = (),
        priority: int = 0,
        allow_older: bool = False,
    ) -> str:
        """Begin a run and leave it to a worker; see `start`."""
        return await self._unhurried(
            lambda: self.start(
                input,
                thread=thread,
                answers=answers,
                answer=answer,
                if_exists=if_exists,
                while_running=while_running,
                title=title,
                tags=tags,
                priority=priority,
                allow_older=allow_older,
            )
        )

    def wait(self, thread: str, *, timeout_s: float | None = None) -> RunResult[S]:
        """Block until the thread's run has ended, whichever process drives it, and return its result.

        It also waits for a thread that only sleeps (`ctx.sleep`), because a worker continues it; not for one that waits
        for a person. If a thread is due and has no driver for 5 seconds, the log `graphrt.runs` gets one warning.

        Args:
            thread: The thread. If no run of it continues, its present result is returned at once.
            timeout_s: Seconds to wait; None waits without a limit.

        Raises:
            RunFailedError: The run failed. It has the name and the text of the error.
            WaitTimeoutError: The time is over. The error tells whether the thread has a driver; the run continues.
            InputError: There is no such thread.
        """
        return detached.wait(self._config, thread, timeout_s)

    async def await_(self, thread: str, *, timeout_s: float | None = None) -> RunResult[S]:
        """Wait until the thread's run has ended, on the running event loop; see `wait`."""
        return await detached.await_(self._config, thread, timeout_s, self._unhurried)

    def due(
        self, *, graph: str | None = None, prefix: str | None = None, after: str | None = None, limit: int | None = None
    ) -> tuple[ThreadInfo, ...]:
        """List the due threads of the store that no living run owns, those of a higher priority first.

        They are running, have mail, or wait for a time that has come. `drive` and workers continue them.

        Args:
            graph: Only threads of the graph with this name; None lists those of all graphs.
            prefix: Only threads whose id starts with this text.
            after: Only threads that come after this one: for paging.
            limit: How many to return at most; None returns all.

        Raises:
            InputError: A filter is not valid, or there is no thread *after*.
        """
        return finding.due(self._config, graph, prefix=prefix, after=after, limit=limit)

    def drive(self, thread: str, *, max_tries: int | None = None) -> RunResult[S]:
        """Drive a thread that is due: one that was started and left, whose owner died, or that has mail. Workers call this.

        Mail is taken first: a request to cancel ends the run, signals and answers let paused tasks continue, and an
            input
        begins the next run of a completed thread. If nothing is left to drive then, the current result is returned.
        Unlike `retry`, it never runs a thread that has ended meanwhile.

        Args:
            thread: The thread.
            max_tries: How many runs may take the thread over and die before they store anything more. Then it is
                parked: it fails, and waits for a `retry`. None tries forever.

        Raises:
            GraphrtError: The run failed.
            RunFailedError: The thread was parked (`parked`).
            InputError: There is no such thread, it is not due (`not-due`), or it has another graph.
            ConflictError: Another run has the thread.
        """
        return due_threads.drive_due(self._config, thread, max_tries)

    def run_task(self, thread: str, task: str, *, queue: Queue | None = None) -> TaskOutcome:
        """Run one task that waits for its queue in this process, and report its end to its thread. Workers call this.

        `inbox(kind="task")` lists such tasks: `interrupt.task_id`, and the queue's name as `interrupt.payload`. The
        thread is not claimed. The worker that drives it takes the report as mail, and continues. A task that is run
        twice is recorded once.

        Args:
            thread: The thread.
            task: Id of the task.
            queue: Limits of the queue over all workers; None for none.

        Returns:
            `"ended"` if the task has ended, failed or paused, and that is reported. `"left"` if it does not wait for a
            worker, or another worker runs it. `"full"` if the limits allow no further task now.

        Raises:
            InputError: There is no such thread, or it has another graph.
            StoreError: The store failed, or keeps no mail.
        """
        from graphrt._runs import remote_tasks  # imported late, because few processes run single tasks

        return remote_tasks.run_task(self._config, thread, task, queue)

    def hand_over(self, reason: str, *, grace_s: float = 0.0) -> int:
        """End the runs of this runtime with their threads still due, so that another process continues them.

        Each run ends at the end of its superstep, and completes if nothing is due then. Runs that have not ended after
        *grace_s* seconds are interrupted: the unfinished tasks of their superstep run again where the thread is driven
        next. Blocks until the runs have ended, or for *grace_s* seconds and as long as their tasks take to stop.

        Args:
            reason: A phrase for the journal, such as "the server shuts down".
            grace_s: Seconds that open supersteps have to finish.

        Returns:
            The number of runs that were in progress.
        """
        return detached.hand_over(self._config, reason, grace_s)

    async def ahand_over(self, reason: str, *, grace_s: float = 0.0) -> int:
        """End the runs of this runtime with their threads still due, on the running event loop; see `hand_over`."""
        return await detached.ahand_over(self._config, reason, grace_s)

    # -- look: nothing runs, and nothing is written ----------------------------------------------------------------

    def state(self, thread: str, *, at: int | None = None) -> Snapshot[S]:
        """Return the thread in its present state: last committed state, next nodes, open interrupts, status.

        Args:
            at: Return it as it was after this entry (`Snapshot.seq`).

        Raises:
            InputError: There is no store, no such thread, or no such entry.
            StoreError: The store failed, or its data is damaged.
        """
        return inspection.state(self._config, thread, at)

    async def astate(self, thread: str, *, at: int | None = None) -> Snapshot[S]:
        """Return the thread in its present state; see `state`."""
        return await self._unhurried(lambda: self.state(thread, at=at))

    def history(self, thread: str, *, limit: int | None = None, before: int | None = None) -> tuple[Snapshot[S], ...]:
        """Return the past states of the thread, newest first: one for each commit, pause, failure and cancellation.

        A run that completes right after its last commit shares one snapshot with it.

        Args:
            limit: How many to return at most; None returns all.
            before: Only states of entries before this one (`Snapshot.seq`).
        """
        return history.history(self._config, thread, limit=limit, before=before)

    async def ahistory(
        self, thread: str, *, limit: int | None = None, before: int | None = None
    ) -> tuple[Snapshot[S], ...]:
        """Return the past states of the thread; see `history`."""
        return await self._unhurried(lambda: self.history(thread, limit=limit, before=before))

    @overload
    def entries(
        self, thread: str, *, after: int = 0, live: Literal[False] = False, raw: bool = False
    ) -> Iterator[Entry]: ...
    @overload
    def entries(self, thread: str, *, after: int = 0, live: bool, raw: bool = False) -> Iterator[Entry | LiveItem]: ...
    def entries(self, thread: str, *, after: int = 0, live: bool = False, raw: bool = False) -> Iterator[Any]:
        """Iterate over the journal of the thread, oldest entry first, reading page by page.

        Args:
            after: Only entries with a greater `seq`.
            live: Also yield, between the entries, `LiveItem`s for what tasks had said before the questions of their
                superstep: replies of models and results of tools. Without it, these come with the commit, after the
                answers. `follow` gives the same, and then what comes.
            raw: Leave values as the JSON data that they are stored as. Then a thread of any graph can be read, without
                the classes of its state.
        """
        if live:
            return staged_items.entries_and_items(self._config, thread, after=after, raw=raw)
        return entries.entries(self._config, thread, after=after, raw=raw)

    @overload
    async def aentries(
        self, thread: str, *, after: int = 0, live: Literal[False] = False, raw: bool = False
    ) -> tuple[Entry, ...]: ...
    @overload
    async def aentries(
        self, thread: str, *, after: int = 0, live: bool, raw: bool = False
    ) -> tuple[Entry | LiveItem, ...]: ...
    async def aentries(self, thread: str, *, after: int = 0, live: bool = False, raw: bool = False) -> tuple[Any, ...]:
        """Return the whole journal of the thread; see `entries`."""
        return await self._unhurried(lambda: tuple(self.entries(thread, after=after, live=live, raw=raw)))

    def steps_of(self, thread: str) -> Iterator[dict[str, Any]]:
        """Iterate over the steps of the thread from its journal, in the form of `Step.to_dict`, oldest first.

        A record also has `seq` and `at`, number and time of the entry that it follows. `duration_s` is None: the
        journal does not have it. A task that failed, or paused, has a record for that, and a second one when it ends.
        Each record costs the size of the state. No node and no router runs.

        Raises:
            InputError: There is no such thread.
            StoreError: An entry is missing or damaged.
        """
        return step_records.steps_of(self._config, thread)

    async def asteps_of(self, thread: str) -> tuple[dict[str, Any], ...]:
        """Return the steps of the thread from its journal; see `steps_of`."""
        return await self._unhurried(lambda: tuple(self.steps_of(thread)))

    def changes(self, thread: str) -> Iterator[StateChange]:
        """Iterate over the changes of the thread's state, oldest first: by tasks, inputs, edits and other causes.

        A change costs time in proportion to the written values, not to the size of the state. After its end, the
        iterator yields changes stored since then when it is read again, so a reader can keep it to watch a thread. No
        node and no router runs.

        Raises:
            InputError: There is no such thread.
            StoreError: An entry is missing or damaged.
        """
        return state_changes.StateChanges(self._config, thread)

    async def achanges(self, thread: str) -> tuple[StateChange, ...]:
        """Return the changes of the thread's state so far; see `changes`."""
        return await self._unhurried(lambda: tuple(self.changes(thread)))

    @overload
    def follow(
        self, thread: str, *, after: int | str = 0, live: Literal[False] = False, raw: bool = False
    ) -> Iterator[Entry]: ...
    @overload
    def follow(
        self, thread: str, *, after: int | str = 0, live: bool, raw: bool = False
    ) -> Iterator[Entry | LiveItem]: ...
    def follow(self, thread: str, *, after: int | str = 0, live: bool = False, raw: bool = False) -> Iterator[Any]:
        """Iterate over the thread's journal entries as they are stored, and end when its run has ended.

        Each entry comes once, in order, no matter which process drives the thread. An entry's `seq` is the position to
        continue from, so a reader that lost its connection misses nothing.

        Args:
            thread: The thread.
            after: Position to continue from: the `seq` of the last seen entry, the `position` of the last live item, or
                0 for the beginning. Texts of both are taken too, such as an event id of a browser.
            live: Also yield, between the entries, a `LiveItem` for each thing shown while a superstep is open, in any
                process: tokens, values of `ctx.emit`, tasks that begin and end. Such items are not stored. A reader who
                comes late first gets the items of the open tasks so far, up to 1 MB each, and then the rest. Before
                questions, these are model replies and tool results, as for `entries`. A reader who continues after
                the `position` of an item gets the items after it. Items that are no longer available are counted in
                `LiveItem.missed`. A `Live` item *withdrawn* takes back what a task has shown, when its attempt was
                given up: the next attempt shows it again.
            raw: As for `entries`: a thread of any graph can be followed.

        Raises:
            InputError: There is no such thread, *after* is not a position, or not one of this thread, or the store carries
                no live items (`store-lacks`). Raised by the call, before anything is read.
            StoreError: An entry is missing or damaged.
        """
        return following.follow(self._config, thread, after, live=live, raw=raw)

    @overload
    def afollow(
        self, thread: str, *, after: int | str = 0, live: Literal[False] = False, raw: bool = False
    ) -> AsyncFollowing[Entry]: ...
    @overload
    def afollow(
        self, thread: str, *, after: int | str = 0, live: bool, raw: bool = False
    ) -> AsyncFollowing[Entry | LiveItem]: ...
    def afollow(
        self, thread: str, *, after: int | str = 0, live: bool = False, raw: bool = False
    ) -> AsyncFollowing[Any]:
        """Iterate over the thread's journal entries as they are stored; see `follow`. The first item checks."""
        return AsyncFollowing(self._config, thread, after, self._unhurried, live=live, raw=raw)

    def threads(
        self,
        *,
        status: Status | None = None,
        graph: str | None = None,
        prefix: str | None = None,
        tenant: str | None = None,
        tags: Tags = (),
        title: str | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> tuple[ThreadInfo, ...]:
        """List threads of the store, in order of creation. Their journals are not read.

        Args:
            status: Only threads with this status.
            graph: Only threads of the graph with this name.
            prefix: Only threads whose id starts with this text.
            tenant: Only threads of this tenant.
            tags: Only threads that have all these tags.
            title: Only threads whose title contains this text, upper or lower case.
            updated_after: Only threads last written at this time or later, in seconds since the epoch.
            updated_before: Only threads last written before this time, in seconds since the epoch.
            after: Only threads that come after this one: for paging.
            newest_first: Whether the thread that was created last comes first.
            limit: How many to return at most; None returns all.

        Raises:
            InputError: A filter is not valid, there is no thread *after*, or the store cannot find threads by labels
                (`store-lacks`).
        """
        wanted = finding.wanted_threads(
            status,
            graph,
            prefix,
            tenant,
            tags,
            title,
            updated_after=updated_after,
            updated_before=updated_before,
            newest_first=newest_first,
        )
        return finding.threads(self._config, wanted, after=after, limit=limit)

    async def athreads(
        self,
        *,
        status: Status | None = None,
        graph: str | None = None,
        prefix: str | None = None,
        tenant: str | None = None,
        tags: Tags = (),
        title: str | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> tuple[ThreadInfo, ...]:
        """List threads of the store; see `threads`."""
        return await self._unhurried(
            lambda: self.threads(
                status=status,
                graph=graph,
                prefix=prefix,
                tenant=tenant,
                tags=tags,
                title=title,
                updated_after=updated_after,
                updated_before=updated_before,
                after=after,
                newest_first=newest_first,
                limit=limit,
            )
        )

    def inbox(
        self,
        *,
        kind: InterruptKind | None = None,
        tenant: str | None = None,
        tags: Tags = (),
        graph: str | None = None,
        node: str | None = None,
        after: str | None = None,
        limit: int | None = 100,
    ) -> tuple[InboxItem, ...]:
        """List the open questions of all threads of the store, of all graphs, the oldest first.

        Args:
            kind: Only questions of this kind, see `InterruptInfo.kind`. None lists those that people can answer, and no
                timers.
            tenant: Only questions of this tenant's threads.
            tags: Only questions of threads that have all these tags.
            graph: Only questions that the graph with this name asked.
            node: Only questions that the node with this name asked.
            after: The `token` of an item, for the page after it. Its question need not be open any more.
            limit: How many to return at most; None returns all.

        Raises:
            InputError: A filter is not valid, *after* is not a token (`input`), or the store lists no questions
                (`store-lacks`).
        """
        wanted = finding.wanted_questions(kind, tenant, tags, graph, node)
        return finding.inbox(self._config, wanted, after=after, limit=limit)

    async def ainbox(
        self,
        *,
        kind: InterruptKind | None = None,
        tenant: str | None = None,
        tags: Tags = (),
        graph: str | None = None,
        node: str | None = None,
        after: str | None = None,
        limit: int | None = 100,
    ) -> tuple[InboxItem, ...]:
        """List the open questions of all threads; see `inbox`."""
        return await self._unhurried(
            lambda: self.inbox(kind=kind, tenant=tenant, tags=tags, graph=graph, node=node, after=after, limit=limit)
        )

    def why(self, thread: str, field: str, *, at: int | None = None) -> Provenance:
        """Explain which writes gave a field of the thread its value, and what those were made from, back to the input.

        A node counts as having read the whole state, unless it declares its fields (`declare_fields`). The argument of
        a `Send` is not followed. Reads the whole journal.

        Args:
            at: Entry after which the field had the value; None for now.

        Raises:
            InputError: There is no such thread, field or entry.
            StoreError: An entry is missing or damaged.
        """
        return provenance.why(self._config, thread, field, at)

    async def awhy(self, thread: str, field: str, *, at: int | None = None) -> Provenance:
        """Explain which writes gave a field its value; see `why`."""
        return await self._unhurried(lambda: self.why(thread, field, at=at))

    def diff(
        self, thread: str, other: str, *, run: str | None = None, other_run: str | None = None
    ) -> Divergence | None:
        """Find the first difference between two threads, or two of their runs; None if they have the same entries.

        Ids of threads and runs, times and seeds are not compared.
        """
        return inspection.diff(self._config, thread, other, left_run=run, right_run=other_run)

    async def adiff(
        self, thread: str, other: str, *, run: str | None = None, other_run: str | None = None
    ) -> Divergence | None:
        """Find the first difference between two threads; see `diff`."""
        return await self._unhurried(lambda: self.diff(thread, other, run=run, other_run=other_run))

    def replay(self, thread: str) -> Snapshot[S]:
        """Fold the thread again from its first entry, and call every router again. No node runs; nothing is written.

        Returns:
            The current state, which the replay reached as well.

        Raises:
            ReplayDivergedError: A reducer or router gives another result now; `seq` is the first entry that shows it.
        """
        return inspection.replay(self._config, thread)

    async def areplay(self, thread: str) -> Snapshot[S]:
        """Fold the thread again from its first entry; see `replay`."""
        return await self._unhurried(lambda: self.replay(thread))

    def reexecute(self, thread: str) -> Reexecution:
        """Execute the runs of the thread again, on a thread in memory, and compare what they write with its journal.

        Inputs, people's answers, model replies, tool results and effects, seeds and times come from the
        journal: no model is asked, no effect is performed, and nothing is written. Nodes and routers do run, with the
        `deps`, `models`, `limits` and `budget` of this runtime. The times are those of the commits, so a node that
        stores what `ctx.now()` returned may differ.

        Returns:
            Whether the entries are the same; if not, the first one that differs, with both sides.

        Raises:
            InputError: There is no such thread.
            StoreError: An entry is missing or damaged.
        """
        from graphrt._runs.reexecution import reexecute  # imported late, because it loads the agents

        return reexecute(self._config, thread)

    async def areexecute(self, thread: str) -> Reexecution:
        """Execute the runs of the thread again; see `reexecute`."""
        from asyncio import to_thread

        return await to_thread(self.reexecute, thread)

    # -- change: a thread gets another state, name or place --------------------------------------------------------

    def update(
        self, thread: str, values: Any = None, *, as_node: Any = None, goto: Any = None, allow_older: bool = False
    ) -> Snapshot[S]:
        """Fold *values* into the state through the reducers, as a new entry.

        If a superstep is open, its unfinished tasks will see the new state; finished ones keep their outcomes. Open
        questions stay open and are marked stale: an answer is taken unchanged, and `retry` lets the node ask again. A
        thread that does not exist is created, with *values* as its whole state and no node due.

        Args:
            values: An update: a mapping of fields, or an instance of the state class.
            as_node: Continue as if every open or due activation of this node had finished with *values*. The edges of
                the node choose the nodes that are due next.
            goto: Where *as_node* leads instead of its edges, as in a Command. Required if it routes by Commands alone.
            allow_older: As for `run`.

        Returns:
            The thread after the edit.

        Raises:
            InputError: There is no such node, a value does not fit, or goto= is missing. Nothing was changed.
            RouteError: The node does not declare *goto* as a target.
            ConflictError: A run has the thread.
        """
        state_edits.update(self._config_for(allow_older), thread, [(values, as_node, goto)])
        return self.state(thread)

    async def aupdate(
        self, thread: str, values: Any = None, *, as_node: Any = None, goto: Any = None, allow_older: bool = False
    ) -> Snapshot[S]:
        """Fold *values* into the state; see `update`."""
        return await self._unhurried(
            lambda: self.update(thread, values, as_node=as_node, goto=goto, allow_older=allow_older)
        )

    def bulk_update(self, thread: str, updates: Iterable[tuple[Any, Any]], *, allow_older: bool = False) -> Snapshot[S]:
        """Fold several pairs (values, as_node) into the state, one after another, in one commit: all or none.

        Args:
            updates: The pairs, in order. *as_node* may be None; see `update`.
            allow_older: As for `run`.
        """
        state_edits.update(self._config_for(allow_older), thread, checked_edits(updates))
        return self.state(thread)

    async def abulk_update(
        self, thread: str, updates: Iterable[tuple[Any, Any]], *, allow_older: bool = False
    ) -> Snapshot[S]:
        """Fold several updates into the state; see `bulk_update`."""
        return await self._unhurried(lambda: self.bulk_update(thread, updates, allow_older=allow_older))

    def label(
        self,
        thread: str,
        *,
        title: str | None = UNSET,
        add_tags: Tags = (),
        remove_tags: Tags = (),
        priority: int = UNSET,
    ) -> None:
        """Change title, tags and priority of a thread that no run has. The journal records it as `ThreadLabelled`.

        Args:
            thread: A thread of this runtime's graph.
            title: The new title; None takes it away. Left out, it stays.
            add_tags: Tags that the thread gets. One that is removed too is added.
            remove_tags: Tags that the thread loses, if it has them.
            priority: The new priority, from -1,000,000 to 1,000,000: workers take threads of a higher one first. Left
                out, it stays.

        Raises:
            InputError: There is no such thread, a label is not valid (`bad-label`), or the store keeps no labels
                (`store-lacks`).
            ConflictError: A run has the thread.
        """
        finding.label(self._config, thread, title, add_tags, remove_tags, priority)

    async def alabel(
        self,
        thread: str,
        *,
        title: str | None = UNSET,
        add_tags: Tags = (),
        remove_tags: Tags = (),
        priority: int = UNSET,
    ) -> None:
        """Change title, tags and priority of a thread; see `label`."""
        await self._unhurried(
            lambda: self.label(thread, title=title, add_tags=add_tags, remove_tags=remove_tags, priority=priority)
        )

    def fork(self, thread: str, *, at: int | None = None, to: str | None = None, keep_effects: bool = False) -> str:
        """Create a new thread from the state that *thread* had after the entry *at*. The old thread stays as it is.

        The fork has the status of its source: a fork of an interrupted thread is interrupted. One from the middle of a
        run is continued with `retry` or `resume`.

        With *keep_effects*, the first superstep of the fork gets the records that the same tasks made in *thread* after
        *at*: the results of `ctx.effect`, the model replies and tools, the people's answers. A request that the new
        execution repeats is not made again; any other one is.

        Args:
            at: `seq` of an entry; None forks the current state, with the outcomes of an open superstep.
            to: Id of the new thread; None makes one.
            keep_effects: Whether the first superstep gets the effects and answers that it had in *thread*.

        Returns:
            The id of the new thread.

        Raises:
            InputError: There is no such thread or entry, or *to* exists.
        """
        return forking.fork(self._config, thread, at, to, keep_effects=keep_effects)

    async def afork(
        self, thread: str, *, at: int | None = None, to: str | None = None, keep_effects: bool = False
    ) -> str:
        """Create a new thread from an entry of another; see `fork`."""
        return await self._unhurried(lambda: self.fork(thread, at=at, to=to, keep_effects=keep_effects))

    def copy_thread(self, thread: str, to: str | None = None) -> str:
        """Copy the thread with its whole journal, and return the id of the copy; None for *to* makes an id.

        The copy's last entry, `ThreadCopied`, names it and its source, so that the two cannot exchange their ids unnoticed.

        Raises:
            InputError: There is no such thread, there is one with the id *to* (`thread-exists`), or its log has a key
                that this runtime lacks (`log-key-needed`).
            ConflictError: The thread was pruned or deleted while it was read.
            StoreError: The store failed, or a large value is missing.
        """
        return maintenance.copied(self._config, thread, to)

    async def acopy_thread(self, thread: str, to: str | None = None) -> str:
        """Copy the thread with its whole journal; see `copy_thread`."""
        return await self._unhurried(lambda: self.copy_thread(thread, to))

    def adopt(self, thread: str) -> bool:
        """Assign a thread that waits for a newer build to this build, so that its workers drive it again.

        For a release that was rolled back (`graphrt builds allow`). Nothing runs; the journal gets a `ThreadMigrated`.

        Returns:
            False if the thread waits for no newer build. Nothing was changed then.

        Raises:
            InputError: There is no such thread, or this graph cannot continue it (`graph-changed`).
            ConflictError: A run has the thread.
        """
        return state_edits.adopt(self._config, thread)

    async def aadopt(self, thread: str) -> bool:
        """Assign a thread that waits for a newer build to this build; see `adopt`."""
        return await self._unhurried(lambda: self.adopt(thread))

    # -- keep house: check, move and delete what is stored ---------------------------------------------------------

    def check_threads(self) -> tuple[Compatibility, ...]:
        """Check before a deployment whether the threads that are not completed can continue with this graph.

        No node runs, so the code of nodes and routers is not compared, and neither are the questions of nodes. A
        question that was reworded is found only when its thread continues: it is matched by its `key=` or asked again.
        `Compatibility.pending` names the nodes to look at.

        Returns:
            0..n verdicts, one for each thread that is not completed.
        """
        return forking.check_threads(self._config)

    async def acheck_threads(self) -> tuple[Compatibility, ...]:
        """Check whether unfinished threads can continue with this graph; see `check_threads`."""
        return await self._unhurried(self.check_threads)

    def verify(self, *, replay: bool = False) -> Verification:
        """Read everything in the store and check it against its checksums; see `Store.verify`.

        Args:
            replay: Also replay the threads of this graph, which compares the results of reducers and routers.

        Raises:
            StoreError: The store cannot be read at all now. Damage does not raise: the report names it.
        """
        return maintenance.verified(self._config, replayed=replay)

    async def averify(self, *, replay: bool = False) -> Verification:
        """Read and check everything in the store; see `verify`."""
        return await self._unhurried(lambda: self.verify(replay=replay))

    def export_thread(self, thread: str, to: File, *, decrypted: bool = False) -> None:
        """Write the thread to one file, which any other store can import; see `Store.export_thread`."""
        maintenance.exported(self._config, thread, to, decrypted=decrypted)

    async def aexport_thread(self, thread: str, to: File, *, decrypted: bool = False) -> None:
        """Write the thread to one file; see `export_thread`."""
        await self._unhurried(lambda: self.export_thread(thread, to, decrypted=decrypted))

    def import_thread(self, source: File, *, thread: str | None = None) -> str:
        """Create a thread from an exported file, and return its id; see `Store.import_thread`."""
        return maintenance.imported(self._config, source, thread)

    async def aimport_thread(self, source: File, *, thread: str | None = None) -> str:
        """Create a thread from an exported file; see `import_thread`."""
        return await self._unhurried(lambda: self.import_thread(source, thread=thread))

    def delete_thread(self, thread: str) -> None:
        """Delete the thread with everything that belongs to it in the store.

        The file of its audit log ends with an entry that says so, or is removed: see `AuditLog(on_delete=)`.

        Raises:
            InputError: There is no such thread, or its log needs a key that the runtime lacks (`log-key-needed`).
            ConflictError: A run has the thread.
            StoreError: The store failed; or the thread is gone, and its log was not closed (`log-not-written`).
        """
        maintenance.delete(self._config, thread)

    async def adelete_thread(self, thread: str) -> None:
        """Delete the thread; see `delete_thread`."""
        await self._unhurried(lambda: self.delete_thread(thread))

    def prune(self, thread: str, *, before: int | None = None) -> int:
        """Remove old entries of the thread, up to the last commit or edit before the entry *before*.

        The last commit of a run that completes is removed only with the entry that says so. A snapshot replaces them,
        so that the thread continues as it would have. If the open superstep of an interrupted thread was edited, its
        questions are journalled again. Edits of any other unfinished thread are kept until it continues.

        Args:
            before: `seq` of an entry; None removes every entry that the current state does not need.

        Returns:
            The number of removed entries.
        """
        return pruning.prune(self._config, thread, before=before)

    async def aprune(self, thread: str, *, before: int | None = None) -> int:
        """Remove old entries of the thread; see `prune`."""
        return await self._unhurried(lambda: self.prune(thread, before=before))

    @overload
    def sweep(self, *, older_than_s: float, dry_run: Literal[False] = ..., **which: Unpack[Which]) -> int: ...
    @overload
    def sweep(
        self, *, older_than_s: float, dry_run: Literal[True], **which: Unpack[Which]
    ) -> tuple[ThreadInfo, ...]: ...
    def sweep(
        self,
        *,
        older_than_s: float,
        status: Status | None = None,
        graph: str | None = None,
        tenant: str | None = None,
        tags: Tags = (),
        limit: int | None = None,
        dry_run: bool = False,
    ) -> int | tuple[ThreadInfo, ...]:
        """Delete threads that were not written for *older_than_s* seconds.

        Threads that a run owns are kept, and those that are due or will continue by themselves: started threads,
        threads with mail, and sleeping threads.

        A hundred are deleted in one transaction, if the store supports that. A `Worker` sweeps by itself, if it has
        rules for that (`graphrt.workers.Retention`).

        Args:
            older_than_s: Seconds since the last commit of a thread.
            status: Only threads with this status; None: those that are completed, failed or cancelled.
            graph: Only threads of the graph with this name; None: those of any graph.
            tenant: As for `threads`.
            tags: As for `threads`.
            limit: How many to delete at most.
            dry_run: Delete nothing, and return the threads that would be deleted.

        Returns:
            The number of deleted threads.

        Raises:
            InputError: An argument is not valid, or the store cannot find threads by tenant and tags (`store-lacks`).
        """
        which = Which(status=status, graph=graph, tenant=tenant, tags=tags, limit=limit)
        verb = maintenance.old_threads if dry_run else maintenance.sweep
        return verb(self._config, older_than_s, which)

    @overload
    async def asweep(self, *, older_than_s: float, dry_run: Literal[False] = ..., **which: Unpack[Which]) -> int: ...
    @overload
    async def asweep(
        self, *, older_than_s: float, dry_run: Literal[True], **which: Unpack[Which]
    ) -> tuple[ThreadInfo, ...]: ...
    async def asweep(
        self,
        *,
        older_than_s: float,
        status: Status | None = None,
        graph: str | None = None,
        tenant: str | None = None,
        tags: Tags = (),
        limit: int | None = None,
        dry_run: bool = False,
    ) -> int | tuple[ThreadInfo, ...]:
        """Delete threads that were not written for *older_than_s* seconds; see `sweep`."""
        which = Which(status=status, graph=graph, tenant=tenant, tags=tags, limit=limit)
        verb = maintenance.old_threads if dry_run else maintenance.sweep
        return await self._unhurried(lambda: verb(self._config, older_than_s, which))

    def erase(
        self,
        where: Where,
        *,
        threads: Iterable[str] | None = None,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> ErasureReport:
        """Erase values from stored threads, with everything in the store that repeats them.

        The data that proves the threads stays.

        An erased value reads as `Erased`. The unit is one write of one field, one answer, effect, message or model
        reply: all of it goes. An entry `ValuesErased` says that, by whom and why. Each thread is erased in one
        transaction; after a crash, the same call completes the work. At the end the store overwrites what it freed,
        which rewrites a whole SQLite file.

        Args:
            where: What is erased. A text: values that contain it, in any text, key or bytes. A pair (thread, field):
                all writes of the field, in the thread and in its forks and copies, unless a prune removed the entry
                that names their source. Or a function of thread, entry number, field (None if the value is not a write
                to a field) and value, which returns True or False.
            threads: Ids of the threads to look through; None looks through the whole store.
            reason: Why, for the journal. Do not repeat the values in it.
            by: Who erases, for the journal; None takes the `user` of the runtime's `AuditLog`.
            dry_run: Change nothing, and report what would be erased.
            force: Erase also what an interrupted or failed thread still needs. It can then be read, and continues only
                after an `update`.

        Returns:
            The erased values, and the places that may still hold copies of them. Without *threads*, threads that are in
            the way are reported there.

        Raises:
            InputError: *where* is none of the three forms or raised (`bad-erasure`); or a thread of *threads* does not
                exist, or still needs a value (`erasure-needed`), or its log needs a key.
            ConflictError: Another run drives a thread of *threads*.
            StoreError: The store failed. The threads before were erased.
        """
        from graphrt._runs import erasing  # imported late: it is rarely needed, and `import graphrt` stays light

        return erasing.erase(self._config, where, threads=threads, reason=reason, by=by, dry_run=dry_run, force=force)

    async def aerase(
        self,
        where: Where,
        *,
        threads: Iterable[str] | None = None,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> ErasureReport:
        """Erase values from stored threads. See `erase`."""
        return await self._unhurried(
            lambda: self.erase(where, threads=threads, reason=reason, by=by, dry_run=dry_run, force=force)
        )

    def reindex(self) -> int:
        """List the open questions and the labels of this graph's threads again, from their journals.

        Needed only if that index was lost or damaged, since each commit keeps both up to date. Threads that a run owns
        and unreadable threads are skipped.

        Returns:
            The number of threads whose listing changed.
        """
        return finding.reindex(self._config)

    async def areindex(self) -> int:
        """List questions and labels again; see `reindex`."""
        return await self._unhurried(self.reindex)

    # -- what threads share ----------------------------------------------------------------------------------------

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store for this graph: threads that begin by themselves, at the times of a cron expression."""
        return Schedules(self._config, self._unhurried)

    @property
    def memory(self) -> SharedMemory:
        """The memory of the runtime's store, which all threads share: `put`, `get`, `search`, `delete` and more.

        Raises:
            InputError: The runtime has no store (`no-memory`), or its store keeps no memory (`store-lacks`).
        """
        from graphrt._runs.shared_memory import SharedMemory  # imported late, because few programs need it

        return SharedMemory(self._config, self._unhurried)

    # -- what it was made of ---------------------------------------------------------------------------------------

    @property
    def graph(self) -> CompiledGraph[S, Any, I_co]:
        """The graph that the runtime drives."""
        return self._graph

    @property
    def store(self) -> Store | None:
        """The store that keeps threads; None without a store."""
        return self._options.store

    @property
    def audit(self) -> AuditLog | None:
        """Settings for the journals as audit logs; None if they are not audited."""
        return self._options.audit

    @property
    def limits(self) -> Limits:
        """The limits of a run: those of the graph, overridden by those of the runtime."""
        return self._options.limits

    @property
    def harness(self) -> Any:
        """The harness that nodes reach as `ctx.harness`; None without a harness."""
        return self._options.harness

    @property
    def budget(self) -> Budget | None:
        """Limits on the usage of a run's model calls; None means no limit."""
        return self._options.budget

    @property
    def deps(self) -> Any:
        """The object that nodes reach as `ctx.deps`."""
        return self._options.deps

    @property
    def chain(self) -> bool | None:
        """Whether the journals of new threads are hash-chained; None chains them if the store is durable."""
        return self._options.chain

    @property
    def lease_s(self) -> float:
        """Seconds without a renewal after which an owner loses its thread."""
        return self._options.lease_s

    @property
    def migrations(self) -> tuple[Migration, ...]:
        """Migrations for threads that were started with an older graph."""
        return self._options.migrations

    @property
    def sinks(self) -> tuple[Callable[[Entry], Any], ...]:
        """Functions that are called with each journal entry, after its commit."""
        return self._options.sinks

    @property
    def clock(self) -> Callable[[], float]:
        """The function that returns the time, in seconds since the epoch."""
        return self._options.clock

    @property
    def sleep(self) -> Callable[[float], Any] | None:
        """The function of seconds that waits before a retry; None waits in real time."""
        return self._options.sleep

    @property
    def ids(self) -> Callable[[], str]:
        """The function that makes the ids of runs and of unnamed threads."""
        return self._options.ids

    @property
    def seed(self) -> int | None:
        """The seed of `ctx.random` in every run; None if each run draws its own."""
        return self._options.seed

    @property
    def worker_threads(self) -> int:
        """How many worker threads may run sync nodes, for all runs together."""
        return self._options.threads.most

    @property
    def models(self) -> Mapping[str, ChatModel]:
        """The models that replace those of agents, by agent name; empty if there are none."""
        return {} if self._options.doubles is None else self._options.doubles.models

    @property
    def tools(self) -> Mapping[str, AnyTool]:
        """The doubles that replace tools of agents, by tool name; empty if there are none."""
        return {} if self._options.doubles is None else self._options.doubles.tools

    @property
    def stream_models(self) -> bool | None:
        """Whether model calls are streamed; None streams them for readers, and in runs that a worker drives."""
        return self._options.stream_models

    @property
    def check_state(self) -> bool:
        """Whether a run that begins now compares the state before and after each superstep."""
        return self._options.checks_state

    # -- the runtime itself ----------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"Runtime({self._graph.name!r}, store={type(self.store).__name__ if self.store is not None else None})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks. No thread is read."""
        return maintenance.shown(self._options)

    if not TYPE_CHECKING:  # hidden from type checkers, which report unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    async def _unhurried(self, call: Callable[[], T]) -> T:
        """Return the result of *call*, made on a worker thread if the store may block."""
        store = self._config.store
        if store is None or not store.blocking:
            return call()
        from graphrt._drivers.blocking_calls import in_executor

        return await in_executor(call)

    def __enter__(self) -> Runtime[S, I_co]:
        self._config.threads.keep()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._check_doubles(error)

    async def __aenter__(self) -> Runtime[S, I_co]:
        self._config.threads.keep()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()
        self._check_doubles(error)

    def _check_doubles(self, error: tuple[object, ...]) -> None:
        """Check that the scripts in `tools=` were used up, at the end of a `with` block without an exception.

        Raises:
            ScriptError: Results are left over.
        """
        if self._options.doubles is not None and not any(error):
            self._options.doubles.assert_done()

    def close(self) -> None:
        """Cancel the runs that are still active, and free what the runtime opened.

        A store that the runtime opened from a URL is closed when the last of these runs has ended, because they still
        store that they were cancelled. In a forked child, a runtime of the parent is not changed.
        """
        if not self._home.elsewhere:
            maintenance.close(self._options, owns_store=self._owns_store)
