"""Who hears of a run: the sinks of its runtime, those of them that watch each run more closely, and the log.

A sink with the method `__graphrt_watch__` is asked for a watcher of each run, and may return None. A watcher gets the run's entries as a sink
does, and besides it sees what no journal can hold, since a journal must be the same whoever was faster (R13): when
attempts, model calls, tool calls and commits begin and end. A listener with the attribute `__graphrt_reads__` gets the
entries of the journal itself, if no other one needs copies. If it also has the method `__graphrt_later__`, it is given a
function that makes the entries of a step of the fast path, and calls it when, and if, it needs them. Nothing here is
called while there is neither sink nor log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from graphrt._runs import run_log

if TYPE_CHECKING:
    from graphrt._runs.run_config import RunConfig
    from graphrt.events import Entry
    from graphrt.harness.messages import ToolCall

__all__ = ["OpenedRun", "RunWatcher", "Sink", "conflicted", "listeners", "of_edits"]

Sink: TypeAlias = Callable[["Entry"], Any]
T = TypeVar("T")


class OpenedRun(NamedTuple):
    """What a watcher is told of its run, before the first entry."""

    graph: str
    """Name of the graph."""
    thread: str | None
    """Id of the thread; None for a run without one."""
    run: str
    """Id of the run."""
    seq: int
    """Number of the thread's last entry; 0 for a new thread, or without one."""
    taken_over: bool
    """Whether the thread was left running by an owner that died."""
    entries: Callable[[int], Iterator[Entry]]
    """Reads the thread's entries after a number, oldest first. Empty without a thread."""


class RunWatcher(Protocol):
    """Watches one run. No method may raise, or wait for anything: the run waits for it."""

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
        """Make a model call that no journal remembers, and return what it returns."""
        ...

    async def tool_call(self, call: ToolCall, make: Callable[[], Awaitable[T]], /) -> T:
        """Make a tool call that no journal remembers, and return what it returns."""
        ...

    def asks(self, model: str, messages: Any, /) -> None:
        """Note which model the running model call asks, and what. Called for each attempt of the call."""
        ...

    def headers(self) -> Mapping[str, str]:
        """Return headers for an HTTP request of the running model call."""
        ...

    def committed(self, seq: int, count: int, size: int, seconds: float, /) -> None:
        """Note that a store took a commit, which ended with entry *seq* and has *count* entries and *size* bytes."""
        ...

    def ended(self, error: BaseException | None, /) -> None:
        """Note that the run is closed; *error* is what its caller gets."""
        ...


def listeners(config: RunConfig, opened: OpenedRun) -> tuple[tuple[Sink, ...], RunWatcher | None]:
    """Return the functions that get each entry of a run, and the watcher of the run, if there is one.

    Of several sinks that watch, the first one watches attempts and calls: code can be inside one span only. All get
    the entries.
    """
    heard: list[Sink] = []
    watcher: RunWatcher | None = None
    for sink in config.sinks:
        watch = getattr(sink, "__graphrt_watch__", None)
        if watch is None:
            heard.append(sink)
            continue
        one: RunWatcher | None = watch(opened)
        if one is None:
            continue
        heard.append(one)
        watcher = watcher if watcher is not None else one
    if run_log.wanted():
        heard.append(run_log.RunLog(opened.graph, taken_over=opened.taken_over))
    return tuple(heard), watcher


def of_edits(config: RunConfig) -> tuple[Sink, ...]:
    """Return the functions that get the entries of edits, forks and prunes, which happen outside runs."""
    return (*config.sinks, run_log.RunLog(config.plan.name)) if run_log.wanted() else config.sinks


def conflicted(config: RunConfig) -> None:
    """Tell sinks that count conflicts that a thread could not be claimed, because another owner has it."""
    for sink in config.sinks:
        count = getattr(sink, "__graphrt_conflict__", None)
        if count is not None:
            count(config.plan.name)
