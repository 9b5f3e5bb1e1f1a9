"""The documents of the page: plain functions of results of `Runtime` (`page/types.d.ts` has their forms)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, final

from graphrt import events
from graphrt._arguments import is_mapping
from graphrt._display import fields_of
from graphrt.events import Entry, ModelReplied, Usage, event_kind
from graphrt.harness.messages import AssistantMessage, ProviderPart, SystemMessage, TextPart, ToolMessage, UserMessage
from graphrt.runtime import InterruptInfo, ThreadInfo
from graphrt.stores import Head
from graphrt.viewer._rows import WAITS, text_of, tool_calls_of, tool_of
from graphrt.viewer._threads import Thread, store_of
from graphrt.viewer._values import Bounds, Documents, Path, part_of, path_of
from graphrt.wires import plain_data

Document = dict[str, Any]

_OF_REPLIES: Final = frozenset({"parts", "text", "tool_calls", "thinking", "finish_reason", "thinking_blocks"})
"""Parts of a recorded reply that the page shows by name; the others are its `rest`."""


# -- threads -------------------------------------------------------------------------------------------------------


def thread_row(info: ThreadInfo, usage: Usage | None, error: str | None, build: int | None) -> Document:
    """Return the `ThreadRow` of a thread in a listing."""
    document = plain_data.thread(info)
    del document["tenant"]
    return {
        **document, "error": error, "cost_usd": None if usage is None else usage.cost_usd,
        "tokens": None if usage is None else usage.total_tokens, "build": build,
    }  # fmt: skip


def question(info: InterruptInfo, bounds: Bounds, *, code: bool) -> Document:
    """Return the `Question` of an open question."""
    document = plain_data.question(info, typed=code)
    document["schema"] = document.pop("answer_schema")
    document["task"] = document.pop("task_id")
    document["payload"] = Documents(bounds).of(info.payload if code else plain_data.untagged(info.payload))
    document["default"] = Documents(bounds).of(document["default"])
    document["answerable"] = info.answerable
    return document


def thread_document(thread: Thread, head: Head, bounds: Bounds) -> Document:
    """Return the `ThreadDoc`."""
    about, graph = thread.about, thread.graph
    runtime = thread.runtime
    rows = {row["seq"]: row["n"] for row in reversed(thread.rows) if row["kind"] in ("input", "resumed")}
    status, error = head.status if not head.owned or head.status == "new" else "running", None
    following = about.next
    questions: tuple[InterruptInfo, ...] = ()
    stopped: tuple[str, ...] = ()
    if thread.code and not head.owned:  # a long thread is not folded at every commit
        snapshot = runtime.state(thread.thread)
        status, error = snapshot.status, snapshot.error
        following, questions, stopped = snapshot.next, snapshot.interrupts, snapshot.stopped
    elif not thread.code:
        open_items = runtime.inbox(graph=head.graph, limit=1_000) if "labels" in store_of(runtime).offers else ()
        questions = tuple(item.interrupt for item in open_items if item.thread == thread.thread)
        error = about.runs[-1]["error"] if about.runs and status == "failed" else None
    return {
        "graph": graph["graph"], "thread": thread.thread, "status": status, "title": head.title,
        "tags": sorted(head.tags), "tenant": head.tenant, "seq": thread.seq, "first": head.first,
        "created_at": head.created_at, "updated_at": head.updated_at, "owned": head.owned,
        "priority": head.priority, "code": thread.code, "version": graph["version"],
        "fingerprint": graph["fingerprint"], "topology": graph["topology"], "rows": len(thread.rows),
        "next": [] if status == "completed" else list(following), "error": error,
        "questions": [question(info, bounds, code=thread.code) for info in questions], "stopped": list(stopped),
        "runs": [{**run, "row": rows.get(run["seq"], 0)} for run in about.runs],
        "usage": plain_data.usage(about.usage),
        "origin": None if about.origin is None else {**about.origin, "graph": about.origin["graph"] or head.graph},
        "children": list(about.children), "erased": about.erased, "redaction": about.redaction,
    }  # fmt: skip


def state_document(thread: Thread, at: int | None, bounds: Bounds) -> Document:
    """Return the `StateDoc`: the state after the entry *at* or, without the graph's code, the last written values."""
    if thread.code:
        snapshot = thread.runtime.state(thread.thread, at=at)
        values, seq, status = _fields(snapshot.values), snapshot.seq, snapshot.status
    else:
        written: dict[str, Any] = {}
        seq = thread.seq if at is None else at
        for row in thread.rows:
            if row["seq"] <= seq:
                written |= {path[0]: value for _, path, value in row["ops"]}
        return {"at": seq, "status": None, "values": written, "code": False}
    documents = {name: Documents(bounds, ("s", seq, name)).of(value) for name, value in values.items()}
    return {"at": seq, "status": status, "values": documents, "code": True}


def _fields(values: Any) -> dict[str, Any]:
    by_name = fields_of(values)
    return {"state": values} if by_name is None else by_name


# -- entries -------------------------------------------------------------------------------------------------------


def entry_document(entry: Entry, bounds: Bounds, *, code: bool) -> Document:
    """Return the `EntryDoc`."""
    values = _of_entry(entry)
    own = {name: values.pop(name) for name in ("seq", "at", "run", "cause", "path", "event")}
    data = {
        name: Documents(bounds, ("e", entry.seq, name)).of(value if code else plain_data.untagged(value))
        for name, value in values.items()
    }
    return {**own, "data": data}


def _of_entry(entry: Entry) -> dict[str, Any]:
    """Return the fields of an entry and of its event, with unconverted values."""
    event = entry.event
    body = {field.name: getattr(event, field.name) for field in fields(event)}
    usage = body.get("usage")
    if isinstance(usage, Usage):
        body["usage"] = plain_data.usage(usage)
    return {
        **{name: getattr(entry, name) for name in ("seq", "at", "run", "cause", "path")},
        "event": event_kind(event),
        **body,
    }


def entry_at(thread: Thread, seq: int) -> Entry | None:
    """Return the entry *seq*; None if there is none."""
    entry = next(iter(thread.entries(max(seq - 1, 0))), None)
    return entry if entry is not None and entry.seq == seq else None


def value_document(thread: Thread, ref: str, bounds: Bounds) -> Document:
    """Return the `ValueDoc` of a truncated value.

    Raises:
        InputError: There is no such value.
    """
    value = _referred(thread, path_of(ref))
    data: Any = getattr(value, "data", None) if hasattr(value, "media_type") else value
    if isinstance(data, bytes | bytearray):
        return {"value": None, "text": None, "data": b64encode(data[: bounds.media]).decode()}
    if isinstance(value, str):
        return {"value": None, "text": value[: bounds.text], "data": None}
    return {"value": Documents(bounds).of(value), "text": None, "data": None}


def _referred(thread: Thread, path: Path) -> Any:
    """Resolve a reference to a value: part of an entry, a state or a change."""
    match path:
        case ("e", int(seq), str(name), *rest):
            entry = entry_at(thread, seq)
            value = part_of({} if entry is None else _of_entry(entry), (name,))
            return part_of(value if thread.code else plain_data.untagged(value), tuple(rest))
        case ("s", int(seq), str(name), *rest) if thread.code:
            return part_of(_fields(thread.runtime.state(thread.thread, at=seq).values), (name, *rest))
        case ("c", int(seq), str(task), int(number), *rest) if thread.code:
            changes = thread.runtime.changes(thread.thread)
            change = next(
                (candidate for candidate in changes if candidate.seq == seq and candidate.task_id == task), None
            )
            operations = () if change is None else change.operations
            return part_of(operations, (number, -1, *rest))
        case _:
            return part_of({}, path)


# -- model calls -----------------------------------------------------------------------------------------------------


def call_document(entry: Entry, bounds: Bounds, *, code: bool, node: str) -> Document:
    """Return the `CallDoc` of an entry of a model call, without its prompt."""
    event: Any = entry.event
    reply: Any = event.reply if isinstance(event, ModelReplied) else {}
    reply = reply if code else plain_data.untagged(reply)
    recorded: Mapping[str, Any] = reply if is_mapping(reply) else {}
    calls = [
        {
            "id": str(call.get("id", "")),
            "name": str(call.get("name", "")),
            "arguments": Documents(bounds).of(call.get("arguments")),
        }
        for call in tool_calls_of(recorded)
    ]
    rest = {name: value for name, value in recorded.items() if name not in _OF_REPLIES and value}
    return {
        "seq": entry.seq, "at": entry.at, "task": event.task, "node": node, "model": event.model,
        "usage": plain_data.usage(event.usage) if isinstance(event.usage, Usage) else None,
        "reply": {
            "text": Documents(bounds, ("e", entry.seq, "reply")).of(text_of(recorded)),
            "thinking": Documents(bounds).of(recorded.get("thinking") or ""),
            "tool_calls": calls,
            "finish": str(recorded.get("finish_reason", "")),
            "rest": Documents(bounds, ("e", entry.seq, "reply")).of(rest) if rest else None,
        },
        "prompt": None, "prompt_problem": "",
    }  # fmt: skip


def message_document(message: Any, bounds: Bounds) -> Document:
    """Return the `Message` for a message in a prompt."""
    parts: list[Document] = []
    make: Callable[[Any], Any] = lambda value: Documents(bounds).of(value)  # noqa: E731 - as short as it is used
    match message:
        case SystemMessage():
            parts.append({"kind": "text", "text": make(message.text)})
        case UserMessage():
            parts += [_part(part, make) for part in message.parts]
        case AssistantMessage():
            parts += [{"kind": "thinking", "text": make(thought.text)} for thought in message.thinking if thought.text]
            parts += [{"kind": "text", "text": make(message.text)}] if message.text else []
            parts += [{"kind": "media", "media": make(item)} for item in message.media]
            parts += [
                {"kind": "call", "id": call.id, "name": call.name, "arguments": make(dict(call.arguments))}
                for call in message.tool_calls
            ]
        case ToolMessage():
            content: Any = message.content or message.text
            value: Any = make(content) if isinstance(content, str) else [_part(part, make) for part in content]
            parts.append(
                {"kind": "result", "id": message.tool_call_id, "name": "", "error": message.error, "value": value}
            )
        case _:
            parts.append({"kind": "data", "value": make(message)})
    return {"role": getattr(message, "role", "data"), "parts": parts, "id": getattr(message, "id", None)}


def _part(part: Any, make: Callable[[Any], Any]) -> Document:
    if isinstance(part, TextPart):
        return {"kind": "text", "text": make(part.text)}
    if isinstance(part, ProviderPart):
        return {"kind": "data", "value": make(part)}
    return {"kind": "media", "media": make(part)}


# -- conversation ----------------------------------------------------------------------------------------------------


def conversation_document(entries: Iterable[Entry], bounds: Bounds, *, code: bool) -> Document:
    """Return the `ConversationDoc`: inputs, replies with their tool results, questions, failures."""
    talk = _Conversation(bounds, code=code)
    for entry in entries:
        talk.add(entry)
    return {"messages": talk.messages}


@final
class _Conversation:
    """A fold of entries to messages."""

    def __init__(self, bounds: Bounds, *, code: bool) -> None:
        self._bounds = bounds
        self._code: Final = code
        self._room = 16 * bounds.value
        self.messages: list[Document] = []
        self._calls: list[tuple[str, Document, list[Document]]] = []
        """Tool calls without a result: task, call, and the parts of its message."""
        self._questions: dict[str, Document] = {}
        self._user = ""

    def add(self, entry: Entry) -> None:
        """Fold the next entry."""
        event: Any = entry.event
        match event:
            case events.RunResumed():
                self._user = event.user
            case events.RunStarted() if not entry.path:
                self._user = event.user
                messages = [item for value in event.input.values() if _is_list(value) for item in value]
                messages = [item for item in messages if isinstance(item, UserMessage)][-1:]
                parts = message_document(messages[0], self._bounds)["parts"] if messages else [self._data(event.input)]
                self._say(entry, "user", parts)
            case events.ModelReplied():
                reply = call_document(entry, self._bounds, code=self._code, node="")["reply"]
                parts = [{"kind": kind, "text": reply[name]} for kind, name in _TEXTS if reply[name]]
                media: Any = event.reply.get("media", ()) if self._code else ()
                parts += [{"kind": "media", "media": Documents(self._bounds).of(item)} for item in media]
                calls: list[Document] = [{"kind": "call", **call} for call in reply["tool_calls"]]
                self._say(entry, "assistant", parts := [*parts, *calls])
                self._calls += [(event.task, call, parts) for call in calls]
            case events.EffectRecorded():
                self._result(event)
            case events.InterruptRaised() if event.kind not in WAITS:
                asked_part = {"id": event.id, "payload": self._data(event.payload)["value"]}
                part = {"kind": "question", **asked_part, "answer": None, "answered": False, "by": ""}
                self._questions[event.id] = part
                self._say(entry, "assistant", [part])
            case events.InterruptAnswered() if event.id in self._questions:
                answer = self._data(event.answer)["value"]
                self._questions[event.id] |= {"answer": answer, "answered": True, "by": event.by or self._user}
            case events.RunFailed() if not entry.path:
                self._say(entry, "assistant", [{"kind": "error", "text": f"{event.error}: {event.message}"}])
            case _:
                pass

    def _result(self, event: events.EffectRecorded) -> None:
        """Insert the result of a tool after its call."""
        tool, name = tool_of(event.key)
        pending = next(
            (
                candidate
                for candidate in self._calls
                if tool and candidate[0] == event.task and candidate[1]["name"] == name
            ),
            None,
        )
        if pending is None:
            return
        self._calls.remove(pending)
        result: Any = event.result if self._code else plain_data.untagged(event.result)
        value: Any = result.get("text", result) if is_mapping(result) else result
        failed = is_mapping(result) and bool(result.get("error"))
        part = {
            "kind": "result",
            "id": pending[1]["id"],
            "name": name,
            "error": failed,
            **self._data(value, kind=False),
        }
        pending[2].insert(pending[2].index(pending[1]) + 1, part)

    def _data(self, value: Any, *, kind: bool = True) -> Document:
        shown = Documents(self._bounds).of(value if self._code else plain_data.untagged(value))
        return {"kind": "data", "value": shown} if kind else {"value": shown}

    def _say(self, entry: Entry, role: str, parts: list[Document]) -> None:
        self.messages.append({"role": role, "parts": parts, "id": None, "seq": entry.seq, "at": entry.at})
        self._room -= len(str(parts))
        if self._room <= 0:
            self._bounds = _SHORT


_SHORT: Final = Bounds(text=200, value=2_000, media=0, fetches=False)
"""Limits for the later messages of a conversation that is too large."""
_TEXTS: Final = (("thinking", "thinking"), ("text", "text"))
"""Kinds of parts, with the fields of a reply that they show."""


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
