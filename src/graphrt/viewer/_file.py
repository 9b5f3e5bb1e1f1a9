"""`html`: a thread as one file, readable without a server, a network or graphrt."""

from __future__ import annotations

import gzip
import json
import time
from os import PathLike
from pathlib import Path
from typing import Any, Final

import graphrt
from graphrt.errors import GraphrtError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.threads import THREAD_WITHOUT_STORE
from graphrt.events import Entry, ModelReplied
from graphrt.runtime import Runtime
from graphrt.stores import Head
from graphrt.viewer import _documents as documents
from graphrt.viewer import _page
from graphrt.viewer import _reports as reports
from graphrt.viewer._threads import Thread, Threads, store_of
from graphrt.viewer._values import Bounds

_BOUNDS: Final = Bounds(text=32_768, value=400_000, media=400_000, fetches=False)
_NO_PROMPTS: Final = (
    "The file was written without prompts: `graphrt show TARGET THREAD --html FILE --prompts` adds them."
)
_CUT: Final = (
    f"Texts are cut after {_BOUNDS.text:,} characters, and values after {_BOUNDS.value:,}: the store has the rest."
)


def html(
    runtime: Runtime[Any, Any],
    thread: str,
    *,
    prompts: bool = False,
    coverage: str | PathLike[str] | None = None,
    target: str = "",
) -> str:
    """Return *thread* as one HTML document: for build artefacts, issues, or auditors.

    It contains the journal in plain text, including personal data and secrets of the thread.

    Args:
        runtime: A runtime with the thread's store and graph. With another graph, the file is made without the code of
            the thread's graph, and so without reducers.
        thread: Id of the thread.
        prompts: Whether to rebuild prompts, which journals do not store, by running the nodes again on the recorded
            data. This calls no model and runs no tool or effect.
        coverage: File written by `pytest --graphrt-cov`, to show over the graph.
        target: The command line's target for the thread's graph, for commands to copy.

    Raises:
        InputError: There is no such thread, or the runtime has no store.
        StoreError: The journal is damaged.
    """
    unchecked: Any = runtime
    if not isinstance(unchecked, Runtime):
        raise INVALID_ARGUMENT(argument="The first argument of html()", value=unchecked, wanted="a Runtime")
    if runtime.store is None:
        raise THREAD_WITHOUT_STORE(what="html() was asked for a thread")
    head = store_of(runtime).head(thread)

    def made(loaded: Thread, present: Head) -> dict[str, Any]:
        return _data(loaded, present, prompts=prompts, coverage=coverage, target=target)

    data: dict[str, Any] = Threads(_BOUNDS).get(runtime, head.graph, thread, made)
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    if '{"$cut":' in text:
        data["head"]["notes"].append(_CUT)
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return _page.document(gzip.compress(text.encode(), 9, mtime=0), f"{head.title or thread} - graphrt")


def _data(
    thread: Thread, head: Head, *, prompts: bool, coverage: str | PathLike[str] | None, target: str
) -> dict[str, Any]:
    """Return the `FileData`."""
    entries: list[Any] = []
    calls: list[Entry] = []
    nodes = {row["task"]: row["node"] for row in thread.rows if row["task"] is not None}
    for entry in thread.entries(head.first - 1):
        entries.append(documents.entry_document(entry, _BOUNDS, code=thread.code))
        if isinstance(entry.event, ModelReplied):
            calls.append(entry)
    notes: list[str] = []
    requests: Any = {}
    if prompts and thread.code:
        requests = reports.asked_of(thread)
    coverage_part = (
        {} if coverage is None or not thread.code else {"coverage": _coverage(thread, Path(coverage), notes)}
    )
    name = thread.graph["graph"]
    top = {
        "mode": "file", "version": graphrt.__version__, "made_at": time.time(), "title": head.title or head.thread,
        "graphs": [{"graph": name, "version": thread.graph["version"]}],
        "thread": {"graph": name, "thread": thread.thread},
        "user": "", "acting": [], "prompts": False, "cases": False, "target": target, "notes": notes,
        "coverage": [name] if coverage_part.get("coverage") else [],
    }  # fmt: skip
    return {
        "head": top,
        "graph": thread.graph,
        "thread": documents.thread_document(thread, head, _BOUNDS),
        "rows": thread.rows,
        "entries": entries,
        "calls": {str(entry.seq): _call(entry, requests, nodes, prompts=prompts, code=thread.code) for entry in calls},
        "conversation": documents.conversation_document(thread.entries(head.first - 1), _BOUNDS, code=thread.code),
        "audit": reports.audit_document(thread, head),
        "coverage": None,
        "cases": _cases(thread),
        **coverage_part,
    }


def _call(entry: Entry, requests: Any, nodes: dict[str, str], *, prompts: bool, code: bool) -> dict[str, Any]:
    event: Any = entry.event
    node = nodes.get(event.task) or event.task.rpartition(":")[2]
    document = documents.call_document(entry, _BOUNDS, code=code, node=node)
    request = requests.get(reports.key_of(event))
    if request is not None:
        return {**document, "prompt": reports.prompt_document(request, _BOUNDS)}
    return {**document, "prompt_problem": reports.NOT_REBUILT if prompts else _NO_PROMPTS}


def _coverage(thread: Thread, file: Path, notes: list[str]) -> dict[str, Any] | None:
    try:
        return reports.coverage_document(file, thread.graph["graph"], thread.graph["topology"])
    except GraphrtError as error:
        notes.append(error.what)
        return None


def _cases(thread: Thread) -> dict[str, Any]:
    """Return a test of the last superstep with any effect, by the entry before its row, if it can be written."""
    last = next((row for row in reversed(thread.rows) if row["kind"] == "task" and not row["path"]), None)
    if last is None or not thread.code:
        return {}
    try:
        return {str(last["seq"] - 1): reports.case_document(thread, last["seq"] - 1)}
    except GraphrtError:  # for example, no imported module has the graph
        return {}
