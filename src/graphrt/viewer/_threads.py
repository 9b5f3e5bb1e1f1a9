"""The viewer's cached view of a thread: its rows and the data of its head, folded once and extended when it grows.

The next request for a thread reads from the last read entry on, so that watching costs only the new entries. The cache
is dropped if the journal has changed: by an erasure, a prune, or another thread with the same id.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, Final, final

from graphrt import events
from graphrt.errors import GraphrtError
from graphrt.events import Entry, Usage
from graphrt.runtime import Runtime, StateChange
from graphrt.stores import Head, Store
from graphrt.viewer._graphs import SeenGraph, graph_document
from graphrt.viewer._rows import Rows, plain_id
from graphrt.viewer._values import Bounds
from graphrt.wires import plain_data

_KEPT: Final = 16
"""Maximum number of threads that are kept folded."""
_ENDS: Final[Mapping[type[Any], str]] = {
    events.RunCompleted: "completed",
    events.RunFailed: "failed",
    events.RunInterrupted: "interrupted",
    events.RunCancelled: "cancelled",
    events.RunHandedOver: "handed over",
}


def store_of(runtime: Runtime[Any, Any]) -> Store:
    """Return the store of a runtime, which must have one."""
    store = runtime.store
    assert store is not None  # noqa: S101 - a viewer refuses a runtime without one
    return store


@final
class Thread:
    """A viewed thread.

    Args:
        runtime: A runtime with the thread's store and, if its code is available, the thread's graph.
        thread: Id of the thread.
        graph: Name of its graph.
        bounds: Size limits of values.
    """

    def __init__(self, runtime: Runtime[Any, Any], thread: str, graph: str, bounds: Bounds) -> None:
        self.runtime: Final = runtime
        self.thread: Final = thread
        self._bounds: Final = bounds
        self.code: bool = runtime.graph.name == graph
        """Whether the code of the thread's graph is available and compatible."""
        self._changes: Iterator[StateChange] = iter(())
        if self.code:
            try:
                self._changes = runtime.changes(thread)
            except GraphrtError:  # such as a thread of an older graph that this one cannot continue
                self.code = False
        self._seen = None if self.code else SeenGraph(graph)
        self.graph: dict[str, Any] = graph_document(runtime.graph) if self._seen is None else self._seen.document
        """The `GraphDoc`."""
        self._rows = Rows(self.graph["topology"], code=self.code, bounds=bounds)
        self.about: About = About()
        self.seq: int = 0
        """Number of the last entry read."""
        self.asked: Mapping[tuple[str, int, str], Any] | None = None
        """Model requests, if the thread was executed again; None if it has grown since."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows so far."""
        return self._rows.rows

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Iterate over the entries after the entry *after*, with values in stored form if the code is missing."""
        return self.runtime.entries(self.thread, after=after, raw=not self.code)

    def read(self, upto: int) -> None:
        """Read the entries stored since, at least up to the entry *upto*.

        Raises:
            StoreError: The journal is damaged, or has values of unknown classes.
        """
        if upto <= self.seq:
            return
        changes = list(self._changes)  # changes may be ahead of the entries, and wait for them

        def new() -> Iterable[Entry]:
            for entry in self.entries(self.seq):
                if entry.seq > upto:
                    return
                self.about.add(entry)
                if self._seen is not None:
                    self._seen.add(entry)
                yield entry

        self._rows.add(new(), changes)
        self.seq, self.asked = upto, None


@final
class About:
    """Data about the thread as a whole, from its entries."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.usage: Usage = Usage()
        self.origin: dict[str, Any] | None = None
        self.children: list[dict[str, str]] = []
        self.erased = 0
        """Number of erased values."""
        self.redaction = ""
        self._used = Usage()
        """Id of the current run."""
        self.next: tuple[str, ...] = ()
        """Nodes that became due with the last commit."""

    def add(self, entry: Entry) -> None:  # noqa: C901, PLR0912 - one branch for each event
        """Process the next entry."""
        event = entry.event
        if entry.path:
            return
        match event:
            case events.RunStarted():
                self._begin(entry, event.user, event.fingerprint, event.redaction)
                if event.parent is not None:
                    self.origin = self.origin or _origin("child", event.parent)
            case events.RunResumed():
                build = self.runs[-1]["build"] if self.runs else ""
                self._begin(entry, event.user, build, event.redaction)
            case events.TaskSucceeded() | events.TaskFailed():
                if isinstance(event.usage, Usage):
                    self._used += event.usage
                    self.usage += event.usage
            case events.SuperstepCommitted():
                self.next = event.next
                if self.runs:
                    self.runs[-1]["supersteps"] += 1
            case events.TasksRouted():
                self.next = event.next
            case events.ThreadUpdated():
                self.next = self.next if event.next is None else event.next
            case events.ThreadForked():
                self.origin = _origin("fork", event.source, event.at)
                self.next = event.state.next
            case events.ThreadCopied():
                self.origin = _origin("copy", event.source, entry.seq - 1)
            case events.ThreadStarted():
                if not any(child["thread"] == plain_id(event.thread) for child in self.children):
                    self.children.append({"thread": plain_id(event.thread), "graph": event.graph, "task": event.task})
            case events.ValuesErased():
                self.erased += event.lines
            case _:
                status = _ENDS.get(type(event))
                if status is not None:
                    self._end(entry, status)

    def _begin(self, entry: Entry, user: str, build: str, redaction: str) -> None:
        self._used, self.redaction = Usage(), redaction
        run = {
            "id": entry.run, "row": 0, "seq": entry.seq, "at": entry.at, "ended_at": None, "status": "running",
            "user": user, "supersteps": 0, "usage": plain_data.usage(Usage()), "error": None, "build": build,
        }  # fmt: skip
        self.runs.append(run)

    def _end(self, entry: Entry, status: str) -> None:
        if not self.runs:
            return
        run = self.runs[-1]
        run |= {"ended_at": entry.at, "status": status, "usage": plain_data.usage(self._used)}
        if isinstance(entry.event, events.RunFailed):
            run["error"] = f"{entry.event.error}: {entry.event.message}"


def _origin(kind: str, thread: str, at: int | None = None) -> dict[str, Any]:
    return {"kind": kind, "graph": "", "thread": plain_id(thread), "at": at}


@final
class Threads:
    """The most recently viewed threads, folded. Thread-safe."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds: Final = bounds
        self._lock: Final = Lock()
        self._kept: Final[OrderedDict[tuple[str | None, str, str], _Kept]] = OrderedDict()

    def get(self, runtime: Runtime[Any, Any], graph: str, thread: str, use: Callable[[Thread, Head], Any]) -> Any:
        """Return the result of *use* for the thread in its present state, without concurrent use by other callers.

        Args:
            runtime: A runtime with the store of the caller's tenant.
            graph: Name of the thread's graph.
            thread: Id of the thread.
            use: A function of the thread and of its head.
        """
        store = store_of(runtime)
        head = store.head(thread)
        key = (getattr(store, "tenant", None), graph, thread)
        with self._lock:
            cached = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        with cached.lock:
            known = cached.thread
            try:
                if known is None or not cached.fits(head):
                    known = Thread(runtime, thread, graph, self._bounds)
                erased = known.about.erased
                known.read(head.seq)
                if known.about.erased > erased and cached.thread is known:
                    # The earlier fold contains values that are now erased.
                    known = Thread(runtime, thread, graph, self._bounds)
                    known.read(head.seq)
            except BaseException:
                cached.thread = None
                raise
            cached.thread, cached.made_at, cached.first = known, head.created_at, head.first
            return use(known, head)


class _Kept:
    """A cache slot for one thread."""

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self.thread: Thread | None = None
        self.made_at = 0.0
        self.first = 1

    def fits(self, head: Head) -> bool:
        """Return whether the journal of *head* continues from where the thread was last read."""
        return (
            self.thread is not None
            and head.created_at == self.made_at
            and head.first == self.first
            and head.seq >= self.thread.seq
        )
