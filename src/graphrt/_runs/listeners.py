"""The listeners of a run: the runtime's sinks, including those that watch runs in detail, and the log.

A *sink* is a function that receives each journal entry of a runtime's runs (`Runtime(sinks=)`). The *log* is the Python
logger `graphrt.runs`. graphrt's own sinks have additional methods and attributes:

- `__graphrt_watch__(opened)` creates a watcher for a run, or returns None. A watcher receives the run's entries like a
  sink. It also sees when attempts, model calls, tool calls and commits begin and end. No journal can hold these times,
  since a journal must be the same in any order of completion (R13).
- `__graphrt_edited__(entry, thread)` receives entries written outside runs, with the tenant-qualified id of their
  thread.
- `__graphrt_conflict__(graph)` counts failed attempts to claim a thread.
- `__graphrt_reads__` marks a listener that never changes an entry. If all listeners have the mark, they receive the
  journal's own objects instead of copies.
- `__graphrt_later__(make)` takes a function that builds the entries of a step, and calls it only if and when it needs
  them.

Nothing here is called if there is neither a sink nor a log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from graphrt._runs import run_log
from graphrt.stores.ids import shared_id

if TYPE_CHECKING:
    from graphrt._runs.run_config import RunConfig
    from graphrt.events import Entry, Usage
    from graphrt.harness.messages import ToolCall

__all__ = ["OpenedRun", "RunWatcher", "Sink", "conflicted", "listeners", "of_edits"]

Sink: TypeAlias = Callable[["Entry"], Any]
T = TypeVar("T")


class OpenedRun(NamedTuple):
    """The description of a run that its watcher receives before the first entry."""

    graph: str
    """Name of the graph."""
    thread: str | None
    """Id of the thread including its tenant, so unique across all tenants of a store; None for a run without a
    thread."""
    run: str
    """Id of the run."""
    seq: int
    """Number of the thread's last entry; 0 for a new thread or a run without a thread."""
    taken_over: bool
    """Whether the process that previously drove the thread died during its run."""
    entries: Callable[[int], Iterator[Entry]]
    """Reads the thread's entries after a given number, oldest first. Empty without a thread."""


class RunWatcher(Protocol):
    """Watches one run; `graphrt.otel` has an implementation.

    Methods must neither raise nor block, since the run waits for them.
    """

    def __call__(self, entry: Entry, /) -> Any:
        """Receive an entry of the run after its commit."""
        ...

    def attempt(self, task: str, node: str, attempt: int, /) -> Callable[[str, str | None], None]:
        """Record the start of a task attempt. The attempt runs in the context of this call.

        Returns:
            A function that is called in the same context when the attempt ends, with its outcome ("success", "error",
            "interrupted" or "stopped") and the name of the error's class, None without an error.
        """
        ...

    async def model_call(self, task: str, failed_attempts: int, key: str, call: Callable[[], Awaitable[T]], /) -> T:
        """Make a model call with *call* and return its result. Calls answered from the journal do not get here.

        Args:
            task: Id of the task.
            failed_attempts: Number of attempts of the task that failed before this one.
            key: Name of the call within the task, as in the journal.
            call: Makes the call.
        """
        ...

    async def tool_call(self, call: ToolCall, make: Callable[[], Awaitable[T]], /) -> T:
        """Make an agent's tool call with *make* and return its result.

        As with model calls, recorded calls do not get here.
        """
        ...

    def asks(self, model: str, messages: Any, /) -> None:
        """Record the model and the messages of the running model call. Called for each attempt of the call."""
        ...

    def billed(self, usage: Usage, /) -> None:
        """Record the usage of a failed but billed attempt of the running model call."""
        ...

    def headers(self) -> Mapping[str, str]:
        """Return headers for an HTTP request of the running model call, such as the id of its trace."""
        ...

    def committed(self, seq: int, count: int, size: int, seconds: float, /) -> None:
        """Record that a store accepted a commit ending with entry *seq*, with *count* entries and *size* bytes."""
        ...

    def ended(self, error: BaseException | None, /) -> None:
        """Record that the run is closed; *error* is what its caller gets, None if it did not fail."""
        ...


def listeners(config: RunConfig, opened: OpenedRun) -> tuple[tuple[Sink, ...], RunWatcher | None]:
    """Return the functions that get each entry of a run, and the watcher of the run, if there is one.

    `ActiveRun` calls this when a run is opened. If several sinks watch, only the first one watches attempts and calls,
    since code can be inside only one span of a trace. All get the entries.
    """
    sinks: list[Sink] = []
    watcher: RunWatcher | None = None
    for sink in config.sinks:
        watch = getattr(sink, "__graphrt_watch__", None)
        if watch is None:
            sinks.append(sink)
            continue
        run_watcher: RunWatcher | None = watch(opened)
        if run_watcher is None:  # it skips this run entirely, including its entries
            continue
        sinks.append(run_watcher)
        watcher = watcher if watcher is not None else run_watcher
    if run_log.wanted():
        sinks.append(run_log.RunLog(opened.graph, config.store, taken_over=opened.taken_over))
    return tuple(sinks), watcher


def of_edits(config: RunConfig) -> tuple[Sink, ...]:
    """Return the functions that get the entries of edits, forks and prunes, which happen outside runs."""
    sinks: list[Sink] = []
    for sink in config.sinks:
        edited = getattr(sink, "__graphrt_edited__", None)
        sinks.append(sink if edited is None else _with_shared_id(config, edited))
    if run_log.wanted():
        sinks.append(run_log.RunLog(config.plan.name, config.store))
    return tuple(sinks)


def _with_shared_id(config: RunConfig, edited: Callable[[Entry, str | None], Any]) -> Sink:
    """Return a function that passes an entry on to *edited* with the tenant-qualified id of the thread."""

    def hear(entry: Entry) -> Any:
        return edited(entry, None if entry.thread is None else shared_id(config.store, entry.thread))

    return hear


def conflicted(config: RunConfig) -> None:
    """Report a conflict to the sinks that count them: another owner held a thread that was to be claimed."""
    for sink in config.sinks:
        count = getattr(sink, "__graphrt_conflict__", None)
        if count is not None:
            count(config.plan.name)
