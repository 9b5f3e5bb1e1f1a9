"""A viewer's data for one caller: the threads of its runtimes, in the caller's tenant."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from threading import Lock
from time import monotonic, time
from typing import Any, Final, TypeVar, cast, final

import graphrt
from graphrt._arguments import is_mapping
from graphrt.errors import GraphrtError, StoreError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.serving import UNKNOWN_PATH
from graphrt.errors._codes.threads import UNKNOWN_THREAD
from graphrt.events import Usage
from graphrt.runtime import InboxItem, Runtime, ThreadInfo
from graphrt.serve._asgi import checked_runtimes
from graphrt.stores import Head, Store, TenantStore, open_store
from graphrt.viewer import _documents as documents
from graphrt.viewer import _reports as reports
from graphrt.viewer._graphs import graph_document
from graphrt.viewer._no_graph import nothing
from graphrt.viewer._threads import Thread, Threads, store_of
from graphrt.viewer._values import WHOLE, Bounds

T = TypeVar("T")
Document = dict[str, Any]
_TENANTS: Final = 1_000
"""Maximum number of tenants whose runtimes are cached."""
_PAGE: Final = 100
"""Maximum number of threads of a page."""
_ROWS: Final = 2_000
"""Maximum number of rows and entries of a page."""
_SUMMED: Final = 4_000
"""Maximum number of threads whose usage is cached."""
_SUMMING_S: Final = 0.5
"""Maximum seconds for reading the usage of threads in a listing; further threads are listed without it."""
_BUSY_S: Final = 0.02
"""The same limit while the store is being written: below 0.5 % of a processor for a page that polls every 5 s."""
_RECENTLY_S: Final = 10.0
"""Seconds after a commit for which a store counts as being written."""


def runtimes_of(source: Any) -> tuple[dict[str, Runtime[Any, Any]], Runtime[Any, Any] | None]:
    """Return the runtimes by the names of their graphs, and a runtime for the threads of any graph.

    Args:
        source: A runtime, several runtimes, or a store or its URL, whose graphs are unknown.

    Raises:
        InputError: It is something else, a runtime has no store, or two have graphs of one name.
    """
    if isinstance(source, str | Store):
        store = open_store(source) if isinstance(source, str) else source
        return {}, Runtime(nothing(), store=store)
    return checked_runtimes(source), None


@final
class Library:
    """The view of one caller, created by `Libraries.of`. Thread-safe."""

    def __init__(
        self,
        runtimes: Mapping[str, Runtime[Any, Any]],
        any_graph: Runtime[Any, Any] | None,
        *,
        threads: Threads,
        bounds: Bounds,
        coverage: Path | None,
    ) -> None:
        self.runtimes: Final = dict(runtimes)
        self._any: Final = any_graph
        self._threads: Final = threads
        self._bounds: Final = bounds
        self._coverage: Final = coverage
        self._used: Final[OrderedDict[tuple[str, str, int], tuple[Usage | None, str | None]]] = OrderedDict()

    def runtime(self, graph: str) -> Runtime[Any, Any]:
        """Return the runtime for the threads of *graph*.

        Raises:
            InputError: The viewer does not show that graph.
        """
        runtime = self.runtimes.get(graph, self._any)
        if runtime is None:
            raise UNKNOWN_PATH(path=f"graph {graph!r}")
        return runtime

    def use(self, graph: str, thread: str, make: Callable[[Thread, Head], T]) -> T:
        """Return the result of *make* for a thread.

        Raises:
            InputError: There is no such thread of this graph.
        """
        runtime = self.runtime(graph)
        head = store_of(runtime).head(thread)
        if head.graph != graph or not head.seq:
            raise UNKNOWN_THREAD(thread=thread)
        return cast("T", self._threads.get(runtime, graph, thread, make))

    # -- documents -------------------------------------------------------------------------------------------------

    def head(self, at: float, **rights: Any) -> Document:
        """Return the `Head`, with the caller's *rights*."""
        store: Any = store_of(self._any if self._any is not None else next(iter(self.runtimes.values())))
        path = getattr(store, "path", None)  # for a file
        note = [] if self.runtimes else ["The code of the graphs is not available: fields show the last writes."]
        return {
            "mode": "served", "version": graphrt.__version__, "made_at": at, "title": Path(str(path)).name if path else "Threads",
            "graphs": [{"graph": name, "version": runtime.graph.version} for name, runtime in self.runtimes.items()],
            "thread": None, "coverage": list(self.runtimes) if self._coverage is not None else [],
            "cases": bool(self.runtimes), "notes": note, **rights,
        }  # fmt: skip

    def graph(self, graph: str) -> Document:
        """Return the `GraphDoc` of a graph whose code is at hand."""
        return graph_document(self._with_code(graph).graph)

    def _with_code(self, graph: str) -> Runtime[Any, Any]:
        if graph not in self.runtimes:
            raise UNKNOWN_PATH(path=f"code of graph {graph!r}")
        return self.runtimes[graph]

    def threads(self, query: Mapping[str, str]) -> Document:
        """Return a `ThreadsPage`: threads, those that were created last first."""
        limit, cursor = _limit(query), _cursor(query.get("after", ""))
        filters: dict[str, Any] = {"status": query.get("status") or None}
        filters["tags"] = [query["tag"]] if query.get("tag") else ()
        pairs: list[tuple[str, ThreadInfo]] = []
        for graph, runtime in self._sources(query.get("graph") or None):
            for key, more in _searches(query.get("text", "")):
                place = f"{key}{graph or ''}"
                if cursor and place not in cursor:
                    continue  # this source has no more
                after = cursor.get(place) or None
                page = runtime.threads(graph=graph, newest_first=True, limit=limit + 1, after=after, **filters, **more)
                pairs += [(place, info) for info in page]
        shown, following = _page_of(
            pairs, cursor, limit, order=lambda info: -info.created_at, token=lambda info: info.thread
        )
        return {"threads": self._rows({(info.graph, info.thread): info for info in shown}.values()), "next": following}

    def _sources(self, graph: str | None) -> list[tuple[str | None, Runtime[Any, Any]]]:
        """Return the runtimes whose threads are listed, each with the name of the graph that it is for."""
        if graph is not None:
            return [(graph, self.runtime(graph))]
        return [(None, self._any)] if self._any is not None else [*self.runtimes.items()]

    def _rows(self, threads: Iterable[ThreadInfo]) -> list[Document]:
        infos = list(threads)
        busy = any(time() - info.updated_at < _RECENTLY_S for info in infos)
        until = monotonic() + (_BUSY_S if busy else _SUMMING_S)
        return [self._row(info, known_only=monotonic() > until) for info in infos]

    def _row(self, info: ThreadInfo, *, known_only: bool) -> Document:
        runtime = self.runtimes.get(info.graph)
        key = (info.graph, info.thread, info.seq)
        if key not in self._used and not known_only and info.status not in ("running", "new"):
            usage, error = None, None
            try:
                if runtime is not None:
                    snapshot = runtime.state(info.thread)
                    usage, error = snapshot.usage, snapshot.error
                else:
                    error = info.error
            except GraphrtError:  # an unreadable thread is also listed
                pass
            self._used[key] = usage, error
            while len(self._used) > _SUMMED:
                self._used.popitem(last=False)
        usage, error = self._used.get(key, (None, None))
        return documents.thread_row(info, usage, error, runtime.graph.version if runtime is not None else None)

    def inbox(self, query: Mapping[str, str]) -> Document:
        """Return an `InboxPage`: open questions, the oldest first."""
        limit, cursor = _limit(query), _cursor(query.get("after", ""))
        pairs: list[tuple[str, InboxItem]] = []
        for graph, runtime in self._sources(query.get("graph") or None):
            place = graph or ""
            if "labels" in store_of(runtime).offers and (not cursor or place in cursor):
                page = runtime.inbox(graph=graph, limit=limit + 1, after=cursor.get(place) or None)
                pairs += [(place, item) for item in page]
        shown, following = _page_of(
            pairs, cursor, limit, order=lambda item: item.asked_at, token=lambda item: item.token
        )
        names = ("graph", "thread", "title", "status", "asked_at")
        questions = [
            {
                **documents.question(item.interrupt, self._bounds, code=item.graph in self.runtimes),
                **{name: getattr(item, name) for name in names},
            }
            for item in shown
        ]
        return {"questions": questions, "next": following}

    def thread(self, graph: str, thread: str) -> Document:
        """Return the `ThreadDoc`."""
        return self.use(graph, thread, lambda loaded, head: documents.thread_document(loaded, head, self._bounds))

    def rows(self, graph: str, thread: str, first: int, limit: int) -> Document:
        """Return a `RowsPage`."""

        def page(loaded: Thread, _head: Head) -> Document:
            rows = self._first(loaded.rows[first : first + _ROWS], limit)
            return {"rows": rows, "total": len(loaded.rows), "seq": loaded.seq}

        return self.use(graph, thread, page)

    def _first(self, documents: Iterable[Document], limit: int) -> list[Document]:
        """Return the first *limit* documents, fewer if they are large."""
        chosen: list[Document] = []
        room = 4 * self._bounds.value
        for document in islice(documents, min(limit, _ROWS)):
            chosen.append(document)
            room -= len(str(document))
            if room <= 0:
                break
        return chosen

    def entries(self, graph: str, thread: str, after: int, limit: int) -> Document:
        """Return an `EntriesPage`."""

        def page(loaded: Thread, head: Head) -> Document:
            all_documents = (
                documents.entry_document(entry, self._bounds, code=loaded.code) for entry in loaded.entries(after)
            )
            shown = self._first(all_documents, limit)
            return {"entries": shown, "more": bool(shown) and shown[-1]["seq"] < head.seq}

        return self.use(graph, thread, page)

    def state(self, graph: str, thread: str, at: int | None) -> Document:
        """Return the `StateDoc`."""
        return self.use(graph, thread, lambda loaded, _: documents.state_document(loaded, at, self._bounds))

    def call(self, graph: str, thread: str, seq: int, problem: str) -> Document:
        """Return the `CallDoc`; *problem* is the reason why its prompt cannot be requested."""

        def made(loaded: Thread, _head: Head) -> Document:
            entry = documents.entry_at(loaded, seq)
            if entry is None or not hasattr(entry.event, "failed_attempts") or not hasattr(entry.event, "key"):
                raise UNKNOWN_PATH(path=f"model call {seq}")
            task = str(getattr(entry.event, "task", ""))
            node = next((row["node"] for row in loaded.rows if row["task"] == task), None) or task.rpartition(":")[2]
            document = documents.call_document(entry, self._bounds, code=loaded.code, node=node)
            return {**document, "prompt_problem": problem if loaded.code else _WITHOUT_CODE}

        return self.use(graph, thread, made)

    def prompt(self, graph: str, thread: str, seq: int) -> Document:
        """Return the `PromptDoc`. The nodes of the thread run again, on the recorded data."""

        def made(loaded: Thread, _head: Head) -> Document:
            if not loaded.code:
                return {"seq": seq, "prompt": None, "problem": _WITHOUT_CODE}
            entry = documents.entry_at(loaded, seq)
            key = None if entry is None else reports.key_of(cast("Any", entry.event))
            if loaded.asked is None:
                loaded.asked = reports.asked_of(loaded)
            if key is None or key not in loaded.asked:
                return {"seq": seq, "prompt": None, "problem": reports.NOT_REBUILT}
            return {"seq": seq, "prompt": reports.prompt_document(loaded.asked[key], self._bounds), "problem": ""}

        return self.use(graph, thread, made)

    def conversation(self, graph: str, thread: str) -> Document:
        """Return the `ConversationDoc`."""

        def made(loaded: Thread, head: Head) -> Document:
            return documents.conversation_document(loaded.entries(head.first - 1), self._bounds, code=loaded.code)

        return self.use(graph, thread, made)

    def value(self, graph: str, thread: str, ref: str) -> Document:
        """Return the `ValueDoc`."""
        return self.use(graph, thread, lambda loaded, _: documents.value_document(loaded, ref, WHOLE))

    def compare(self, graph: str, thread: str, other: str) -> Document:
        """Return the `CompareDoc` of two threads of a graph."""
        runtime = self._with_code(graph)
        right: list[Thread] = []
        self.use(graph, other, lambda loaded, _: right.append(loaded))
        divergence = runtime.diff(thread, other)
        return self.use(
            graph, thread, lambda loaded, _: reports.compare_document(loaded, right[0], divergence, self._bounds)
        )

    def audit(self, graph: str, thread: str) -> Document:
        """Return the `AuditDoc`."""
        try:
            return self.use(graph, thread, reports.audit_document)
        except StoreError as error:
            return reports.damaged(error.what)

    def coverage(self, graph: str) -> Document:
        """Return the `CoverageDoc` of a graph."""
        if self._coverage is None or graph not in self.runtimes:
            raise UNKNOWN_PATH(path=f"coverage of graph {graph!r}")
        return reports.coverage_document(self._coverage, graph, self.graph(graph)["topology"])

    def case(self, graph: str, thread: str, at: int | None) -> Document:
        """Return the `CaseDoc` of the superstep after the entry *at*."""
        self._with_code(graph)
        return self.use(graph, thread, lambda loaded, _: reports.case_document(loaded, at))


_WITHOUT_CODE: Final = "The code of the graph is not available."


def _searches(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the filters that find *text*: in ids and in titles."""
    if not text:
        return [("", {})]
    return [("id ", {"prefix": text}), ("title ", {"title": text})]


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit") or "50"
    return max(min(int(text), _PAGE), 1) if text.isascii() and text.isdecimal() and len(text) < 9 else _PAGE


def _page_of(
    pairs: list[tuple[str, T]],
    cursor: Mapping[str, str],
    limit: int,
    *,
    order: Callable[[T], float],
    token: Callable[[T], str],
) -> tuple[list[T], str | None]:
    """Return the first *limit* items of several sources, and the place of the next page; None if there are no more.

    Args:
        pairs: Up to *limit* + 1 items of each source, each with the name of its source.
        cursor: The place of this page.
        order: Sort key of the items.
        token: Where a source continues after an item.
    """
    pairs.sort(key=lambda pair: order(pair[1]))
    rest = {place for place, _ in pairs[limit:]}
    following = {place: cursor.get(place, "") for place in rest}
    following |= {place: token(item) for place, item in pairs[:limit] if place in rest}
    return [item for _, item in pairs[:limit]], json.dumps(following) if rest else None


def _cursor(after: str) -> dict[str, str]:
    """Parse the place of a page: for each source that has more, the last shown item.

    Raises:
        InputError: It is not a valid place.
    """
    if not after:
        return {}
    try:
        places: Any = json.loads(after)
        if is_mapping(places):
            return {str(key): str(value) for key, value in places.items()}
    except (ValueError, RecursionError):
        pass
    raise INVALID_ARGUMENT(argument="after=", value=after[:80], wanted="the `next` of a page")


@final
class Libraries:
    """The items shown to each tenant."""

    def __init__(self, source: Any, *, bounds: Bounds, coverage: Path | None) -> None:
        self._runtimes, self._any = runtimes_of(source)
        self._bounds: Final = bounds
        self._coverage: Final = coverage
        self._threads: Final = Threads(bounds)
        self._lock: Final = Lock()
        self._known: Final[OrderedDict[str | None, Library]] = OrderedDict()

    def of(self, tenant: str | None) -> Library:
        """Return the threads that callers of *tenant* see; None means all threads of the store."""
        with self._lock:
            library = self._known.get(tenant)
            if library is None:
                runtimes = {name: _of_tenant(runtime, tenant) for name, runtime in self._runtimes.items()}
                any_graph = None if self._any is None else _of_tenant(self._any, tenant)
                library = self._known[tenant] = Library(
                    runtimes, any_graph, threads=self._threads, bounds=self._bounds, coverage=self._coverage
                )
                while len(self._known) > _TENANTS:
                    self._known.popitem(last=False)
            self._known.move_to_end(tenant)
            return library


def _of_tenant(runtime: Runtime[Any, Any], tenant: str | None) -> Runtime[Any, Any]:
    return runtime if tenant is None else runtime.with_store(TenantStore(store_of(runtime), tenant))
