"""The listeners of a run: the sinks of its runtime, those of them that watch each run more closely, and the log.

A *sink* is a function that gets each journal entry of the runs of a runtime (`Runtime(sinks=)`). The *log* is the
Python logger `graphrt.runs`. graphrt's own sinks have more methods and attributes:

- `__graphrt_watch__(opened)` makes a watcher for a run, or returns None. A watcher gets the run's entries as a sink
  does. It also sees when attempts, model calls, tool calls and commits begin and end. No journal can hold these times,
  since a journal must be the same in any order of completion (R13).
- `__graphrt_edited__(entry, thread)` gets the entries that are written outside runs, with the id of their thread over
  all tenants of the store.
- `__graphrt_conflict__(graph)` counts the times that a thread could not be claimed.
- `__graphrt_reads__` marks a listener that never changes an entry. It gets the objects of the journal itself, and not
  copies, if all other listeners have the mark too.
- `__graphrt_later__(make)` takes a function that makes the entries of a step, and calls it when, and if, it needs them.

Nothing here is called while there is neither sink nor log.
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
    """What a watcher gets to know of its run before the first entry."""

    graph: str
    """Name of the graph."""
    thread: str | None
    """Id of the thread, with its tenant, so unique over all tenants of a store; None for a run without one."""
    run: str
    """Id of the run."""
    seq: int
    """Number of the thread's last entry; 0 for a new thread, or without one."""
    taken_over: bool
    """Whether the process that drove the thread before died during its run."""
    entries: Callable[[int], Iterator[Entry]]
    """Reads the thread's entries after a number, oldest first. Empty without a thread."""


class RunWatcher(Protocol):
    """Watches one run; `graphrt.otel` has one. No method may raise, or wait for anything: the run waits for it."""

    def __call__(self, entry: Entry, /) -> Any:
        """Take an entry of the run, after its commit."""
        ...

    def attempt(self, task: str, node: str, attempt: int, /) -> Callable[[str, str | None], None]:
        """Note that an attempt of a task begins. It runs in the context of this call.

        Returns:
            A function that is called in the same context at its end, with its outcome ("success", "error",
            "interrupted" or "stopped") and the name of the error's class, None without an error.
        """
        ...

    async def model_call(self, task: str, failed_attempts: int, key: str, call: Callable[[], Awaitable[T]], /) -> T:
        """Make a model call by *call*, and return its result. Calls that the journal answers do not come here.

        Args:
            task: Id of the task.
            failed_attempts: Attempts of the task that failed before this one.
            key: Name of the call inside the task, as in the journal.
            call: Makes the call.
        """
        ...

    async def tool_call(self, call: ToolCall, make: Callable[[], Awaitable[T]], /) -> T:
        """Make a tool call of an agent by *make*, and return its result. Like a model call, it is a new one."""
        ...

    def asks(self, model: str, messages: Any, /) -> None:
        """Note which model the running model call asks, and with what messages. Called for each attempt of the call."""
        ...

    def billed(self, usage: Usage, /) -> None:
        """Note the usage of an attempt of the running model call that failed and was billed."""
        ...

    def headers(self) -> Mapping[str, str]:
        """Return headers for an HTTP request of the running model call, such as the id of its trace."""
        ...

    def committed(self, seq: int, count: int, size: int, seconds: float, /) -> None:
        """Note that a store took a commit, which ended with entry *seq* and has *count* entries and *size* bytes."""
        ...

    def ended(self, error: BaseException | None, /) -> None:
        """Note that the run is closed; *error* is what its caller gets, None if it did not fail."""
        ...


def listeners(config: RunConfig, opened: OpenedRun) -> tuple[tuple[Sink, ...], RunWatcher | None]:
    """Return the functions that get each entry of a run, and the watcher of the run, if there is one.

    `ActiveRun` calls this when a run is opened. Of several sinks that watch, the first one watches attempts and calls:
    code can be inside one span of a trace only. All get the entries.
    """
    heard: list[Sink] = []
    watcher: RunWatcher | None = None
    for sink in config.sinks:
        watch = getattr(sink, "__graphrt_watch__", None)
        if watch is None:
            heard.append(sink)
            continue
        one: RunWatcher | None = watch(opened)
        if one is None:  # it does not want this run, not even its entries
            continue
        heard.append(one)
        watcher = watcher if watcher is not None else one
    if run_log.wanted():
        heard.append(run_log.RunLog(opened.graph, config.store, taken_over=opened.taken_over))
    return tuple(heard), watcher


def of_edits(config: RunConfig) -> tuple[Sink, ...]:
    """Return the functions that get the entries of edits, forks and prunes, which happen outside runs."""
    heard: list[Sink] = []
    for sink in config.sinks:
        edited = getattr(sink, "__graphrt_edited__", None)
        heard.append(sink if edited is None else _with_shared_id(config, edited))
    if run_log.wanted():
        heard.append(run_log.RunLog(config.plan.name, config.store))
    return tuple(heard)


def _with_shared_id(config: RunConfig, edited: Callable[[Entry, str | None], Any]) -> Sink:
    """Return a function that passes an entry on to *edited*, with the thread's id over all tenants."""

    def hear(entry: Entry) -> Any:
        return edited(entry, None if entry.thread is None else shared_id(config.store, entry.thread))

    return hear


def conflicted(config: RunConfig) -> None:
    """Let sinks that count conflicts count one: a thread could not be claimed, because another owner has it."""
    for sink in config.sinks:
        count = getattr(sink, "__graphrt_conflict__", None)
        if count is not None:
            count(config.plan.name)
