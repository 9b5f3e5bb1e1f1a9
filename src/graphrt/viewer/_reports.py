"""Documents about a thread from other packages: prompts, the audit verdict, route coverage, a test, a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from graphrt._arguments import is_list
from graphrt.audit import head as head_of
from graphrt.errors import InputError
from graphrt.events import ModelReplied, RunResumed, RunStarted, ThreadUpdated, UsageRecorded, ValuesErased
from graphrt.harness.request import ModelRequest
from graphrt.runtime import Divergence
from graphrt.stores import Head
from graphrt.viewer._documents import Document, entry_document, message_document
from graphrt.viewer._graphs import Topology
from graphrt.viewer._threads import Thread, store_of
from graphrt.viewer._values import Bounds, Documents

NOT_REBUILT: Final = "It could not be rebuilt: the node asks for something else than it did then."
_SETTINGS: Final = (
    "model", "max_tokens", "temperature", "tool_choice", "top_p", "stop", "seed", "reasoning", "timeout_s",
)  # fmt: skip
"""Fields of a request besides messages, tools and output."""
_DID: Final = {"success": "ran", "error": "failed in", "handled": "failed in", "interrupted": "waits in"}
"""Maps the outcome of a task to a text about its thread."""
_TESTS: Final = 5
"""Maximum number of tests that are named for an arc."""
Asked = tuple[str, int, str]
"""The identity of a model call: task, failed attempts and key."""


# -- prompts -------------------------------------------------------------------------------------------------------


def asked_of(thread: Thread) -> Mapping[Asked, Any]:
    """Return the model requests, by executing the thread again and recording the requests of its nodes."""
    return thread.runtime.reexecute(thread.thread).requests


def key_of(event: ModelReplied | UsageRecorded) -> Asked:
    """Return the key of an entry's call."""
    return event.task, event.failed_attempts, event.key


def prompt_document(request: Any, bounds: Bounds) -> Document:
    """Return the `Prompt` of a request to a model or a harness."""
    make = Documents(bounds).of
    if not isinstance(request, ModelRequest):
        return {
            "messages": [_said(message, bounds) for message in (request if is_list(request) else [request])],
            "tools": [], "output": None, "settings": {},
        }  # fmt: skip
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": make(dict(tool.parameters))}
        for tool in request.tools
    ]
    settings = {name: getattr(request, name, None) for name in _SETTINGS}
    return {
        "messages": [message_document(message, bounds) for message in request.messages],
        "tools": tools,
        "output": None if request.output is None else make(request.output),
        "settings": {name: make(value) for name, value in settings.items() if value not in (None, (), "auto")},
    }


def _said(message: Any, bounds: Bounds) -> Document:
    if isinstance(message, str):
        return {"role": "user", "parts": [{"kind": "text", "text": Documents(bounds).of(message)}], "id": None}
    return message_document(message, bounds)


# -- compare -------------------------------------------------------------------------------------------------------


def compare_document(left: Thread, right: Thread, divergence: Divergence | None, bounds: Bounds) -> Document:
    """Return the `CompareDoc` of the first difference between two threads."""

    def side(thread: Thread, entry: Any) -> tuple[Document | None, int | None]:
        if entry is None:
            return None, None
        row = next((row["n"] for row in thread.rows if row["seq"] >= entry.seq), None)
        return entry_document(entry, bounds, code=thread.code), row

    left_entry, left_row = side(left, divergence.left if divergence is not None else None)
    right_entry, right_row = side(right, divergence.right if divergence is not None else None)
    if divergence is None:
        sentence = "They have the same entries."
    else:
        named = f" They differ in {', '.join(divergence.fields)}." if divergence.fields else ""
        sentence = f"{_did(left, left_row)}, and {_did(right, right_row)}.{named}"
    return {
        "same": divergence is None, "left": left_entry, "right": right_entry,
        "left_row": left_row, "right_row": right_row,
        "fields": [] if divergence is None else list(divergence.fields), "sentence": sentence,
    }  # fmt: skip


def _did(thread: Thread, number: int | None) -> str:
    """Return the steps of a thread that differ from those of another one."""
    if number is None:
        return f"{thread.thread} has ended before"
    row = thread.rows[number]
    verb = _DID.get(row["outcome"] or "")
    if verb is not None:
        return f"{thread.thread} {verb} {row['node']}"
    return (
        f"{thread.thread} has the {row['kind']} of row {number}"
        if row["kind"] != "ended"
        else f"{thread.thread} {row['text']}"
    )


# -- audit ---------------------------------------------------------------------------------------------------------


def audit_document(thread: Thread, head: Head) -> Document:
    """Return the `AuditDoc`: whether the journal is unchanged, and what was erased and redacted.

    Reading verifies that each record follows the previous one, and checks the MACs if the runtime has the key.

    Raises:
        StoreError: An entry is missing or damaged; `damaged` makes the document of that.
    """
    erasures: list[Document] = []
    redactions: list[Document] = []
    heads: list[Document] = []
    for entry in thread.entries(head.first - 1):
        event = entry.event
        if isinstance(event, ValuesErased) and not entry.path:
            erasure = {"seq": entry.seq, "at": entry.at, "by": event.by, "reason": event.reason}
            erasures.append({**erasure, "lines": event.lines})
        rules = event.redaction if isinstance(event, RunStarted | RunResumed | ThreadUpdated) else ""
        if rules and (not redactions or redactions[-1]["rules"] != rules):
            redactions.append({"seq": entry.seq, "rules": rules})
    with suppress(InputError):  # it is not chained, so it has no head
        tree_head = head_of(store_of(thread.runtime), thread.thread)
        heads.append({"seq": tree_head.seq, "at": tree_head.at / 1e6, "digest": tree_head.root.hex()})
    audit = thread.runtime.audit
    keyed = audit is not None and audit.keys is not None
    sentence = "The journal has no hash chain, so nothing shows whether it was changed."
    if heads:
        sentence = f"Its {head.seq - head.first + 1} entries are as they were written{', by who has the key' if keyed else ''}."
    return {
        "verdict": "intact" if heads else "unchecked", "sentence": sentence, "chained": bool(heads), "keyed": keyed,
        "problems": [], "heads": heads, "erasures": erasures, "redactions": redactions,
    }  # fmt: skip


def damaged(problem: str) -> Document:
    """Return the `AuditDoc` of a journal that cannot be read."""
    return {
        "verdict": "damaged", "sentence": problem, "chained": True, "keyed": False, "problems": [problem],
        "heads": [], "erasures": [], "redactions": [],
    }  # fmt: skip


# -- coverage ------------------------------------------------------------------------------------------------------


def coverage_document(file: Path, graph: str, topology: Topology) -> Document:
    """Return the `CoverageDoc` of a graph, from pytest's measurements.

    Raises:
        InputError: The file cannot be read, or has no data about the graph.
    """
    from graphrt.testing.route_coverage.data import load
    from graphrt.testing.route_coverage.summary import summarise

    summary = summarise(load(file), [graph])
    arcs: list[Document] = []
    for graph_coverage in summary.graphs:
        edges = _edges(topology, graph_coverage.path)
        for arc in (*graph_coverage.taken, *graph_coverage.missing):
            tests = graph_coverage.taken.get(arc, ())
            possible = True if arc in graph_coverage.possible else False if arc in graph_coverage.impossible else None
            arc_document = {
                "id": arc.id, "path": graph_coverage.path, "kind": arc.kind, "source": arc.source, "target": arc.target,
                "label": arc.label, "taken": arc in graph_coverage.taken, "tests": len(tests),
                "sample": list(tests[:_TESTS]), "possible": possible, "edge": edges.get(arc),
            }  # fmt: skip
            arcs.append(arc_document)
    return {
        "graph": graph, "file": file.name, "percent": round(summary.percent, 2), "count": summary.count,
        "taken": summary.taken, "arcs": arcs,
    }  # fmt: skip


def _edges(topology: Topology, path: str) -> dict[Any, int]:
    """Return the arcs of the graph at *path*, a path of node names, that are edges, with the index of the edge."""
    from graphrt.testing.route_coverage.arcs import arc_of

    inner: Topology | None = topology
    for name in path.split("/") if path else ():
        nodes: list[dict[str, Any]] = inner["nodes"] if inner is not None else []
        inner = next((node.get("graph") for node in nodes if node["name"] == name), None)
    edges: list[dict[str, Any]] = inner["edges"] if inner is not None else []
    return {arc_of(edge): at for at, edge in enumerate(edges) if edge["kind"] != "join"}


# -- a test --------------------------------------------------------------------------------------------------------


def case_document(thread: Thread, at: int | None) -> Document:
    """Return the `CaseDoc`: a pytest file for the superstep after the entry *at*, or for the last superstep if None.

    Raises:
        InputError: No superstep follows, the graph cannot be imported, or the store keeps encrypted values.
    """
    from graphrt.testing.cases import case_of

    with TemporaryDirectory(prefix="graphrt-case-") as folder:
        path = case_of(thread.runtime, thread.thread, at, to=folder)
        return {"name": path.name, "text": path.read_text(encoding="utf-8"), "seq": at or 0}
