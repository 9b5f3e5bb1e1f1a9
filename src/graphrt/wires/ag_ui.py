"""The events of AG-UI 1.0 (https://docs.ag-ui.com): an encoding of `conversation`.

The wire of the committed layer is a left fold over entries: the wire of a prefix is a prefix of the wire, in any process.
Live items write the same messages earlier, piece by piece. If their events are no longer valid, the stream ends with
`RUN_ERROR` and the code `withdrawn`, and the next connection gets everything again under the same ids.

| Journal | Events |
|---|---|
| an input, or a run that continues | `RUN_STARTED`, with the messages of the user; `STATE_SNAPSHOT` |
| a task | `STEP_STARTED`, `STEP_FINISHED`, named after its node |
| a model's reply | `REASONING_*`, `TEXT_MESSAGE_*`, `TOOL_CALL_*`, `TOOL_CALL_RESULT` |
| a nested graph, an agent that is a tool | `SUBAGENT_STARTED`, `_FINISHED` or `_ERROR`; what it shows carries its `subagentRunId` |
| an image, audio or a document that a model made | `ACTIVITY_SNAPSHOT` of the type `file`; in the result of a tool, a part of its content |
| a superstep that wrote fields that the reader may see | `STATE_DELTA`, a JSON Patch |
| a value of `ctx.emit` | `CUSTOM` |
| the end of the run | `RUN_FINISHED` with its outcome, interrupts and usage; `RUN_ERROR` if it failed |

The id of a message is that of its step, and the id of a run consists of its turn and its number in the turn. A run that
a worker hands over to another worker, or that a timer wakes, is one run of the protocol.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, final

from graphrt import events
from graphrt._display import fields_of
from graphrt.events import Entry, Usage
from graphrt.harness.media import Media
from graphrt.harness.messages import MediaPart, Part, TextPart
from graphrt.wires import chat_events as chat
from graphrt.wires.chat_events import path_of
from graphrt.wires.conversation import Conversation, line
from graphrt.wires.json_patch import json_patch
from graphrt.wires.plain_data import plain

__all__ = ["HEADERS", "VERSION", "AgUi", "AgUiEvent", "StateAt", "wire"]

AgUiEvent: TypeAlias = dict[str, Any]
"""One event of the protocol, as JSON data."""
StateAt: TypeAlias = Callable[[int], Any]
"""Returns the `Snapshot` of the thread after an entry: `lambda seq: runtime.state(thread, at=seq)`."""
HEADERS: Final = {"content-type": "text/event-stream"}
"""Headers of a response with the events."""
VERSION: Final = "1.0"
"""Version of the protocol."""


def wire(entries: Iterable[Entry], *, state_at: StateAt | None = None, shows: Collection[str] = ()) -> str:
    """Return the committed wire of *entries*, of a whole thread or from an input on. Also used for golden files.

    Args:
        entries: In order, from an input on.
        state_at: As for `AgUi`.
        shows: As for `AgUi`.
    """
    projection = AgUi(state_at=state_at, shows=shows)
    return "".join(line(event) for entry in entries for event in projection.entry(entry))


@final
class AgUi:
    """The events of a thread: feed it entries in order from an input on, and live items between them.

    Args:
        state_at: Reads the states of the thread. Without it, there are no states, and interrupts have no schema.
        shows: Names of the fields of the state that the reader may see; by default none.
    """

    def __init__(self, *, state_at: StateAt | None = None, shows: Collection[str] = ()) -> None:
        self._chat = Conversation()
        self._state_at = state_at
        self._shows = frozenset(shows)
        self._run = {"threadId": "", "runId": ""}
        self._steps: dict[str, str] = {}
        """Maps open tasks to their nodes."""
        self._named: Counter[tuple[str, str]] = Counter()
        """Number of open tasks per step, which is a path and a node. Parallel tasks of a node are one step."""
        self._subagents: list[str] = []
        """Paths of the open nested graphs, outermost first."""
        self._parts: dict[str, chat.Kind] = {}
        """Open text or reasoning to its kind."""
        self._told_at = 0
        """Number of the entry whose state was last written; 0 for none."""
        self._told: Any = None
        """The shown part of that state; None if it was not read yet."""

    @property
    def over(self) -> bool:
        """Whether the stream must end because its events are no longer valid."""
        return self._chat.over

    def reads(self, entry: Entry) -> bool:
        """Return whether `entry` reads a state for this entry, which may block on the store."""
        if self._state_at is None or entry.path:
            return False
        match entry.event:
            case events.RunInterrupted():
                return True
            case events.RunStarted() | events.RunResumed():
                return bool(self._shows)
            case events.SuperstepCommitted(wrote=wrote):
                return not self._shows.isdisjoint(wrote)
            case _:
                return False

    def entry(self, entry: Entry) -> list[AgUiEvent]:
        """Return the events of an entry."""
        return [event for chat_event in self._chat.entry(entry) for event in self._events(chat_event)]

    def had(self, seen: chat.Seen) -> None:
        """Skip the part of the current turn that the client has *seen*. Call this before the first entry."""
        self._chat.had(seen)

    def known(self, entry: Entry) -> None:
        """Fold an entry that the reader already has."""
        state_at, self._state_at = self._state_at, None
        try:
            for chat_event in self._chat.entry(entry):
                self._events(chat_event)
                if isinstance(chat_event, chat.RunBegan | chat.StateChanged):
                    self._told_at, self._told = chat_event.seq, None
        finally:
            self._state_at = state_at

    def live(self, mode: str, item: Any, missed: int = 0) -> list[AgUiEvent]:
        """Return the events of a live item of a stream mode. *missed*: items before it that did not arrive."""
        return [event for chat_event in self._chat.live(mode, item, missed) for event in self._events(chat_event)]

    def _events(self, chat_event: chat.ChatEvent) -> list[AgUiEvent]:  # noqa: C901, PLR0911, PLR0912 - a table: one line for each
        """Return the protocol's events for a chat event."""
        match chat_event:
            case chat.PartAdded(part=part, kind="text", text=text):
                return [{"type": "TEXT_MESSAGE_CONTENT", "messageId": _message(part), "delta": text}]
            case chat.PartAdded(part=part, text=text):
                return [{"type": "REASONING_MESSAGE_CONTENT", "messageId": part, "delta": text}]
            case chat.PartBegan(task=task, part=part, kind=kind):
                self._parts[part] = kind
                return _part_began(part, kind, _owner(task))
            case chat.PartEnded(part=part, kind=kind):
                self._parts.pop(part, None)
                return _part_ended(part, kind)
            case chat.TaskBegan(task=task, node=node):
                return self._task_began(task, node)
            case chat.TaskEnded(task=task, failed=failed):
                return self._task_ended(task, failed=failed)
            case chat.ToolCalled(task=task, step=step, call=call, name=name, arguments=arguments):
                begun = {"toolCallId": call, "toolCallName": name, "parentMessageId": step}
                text = arguments if isinstance(arguments, str) else json.dumps(plain(arguments), separators=(",", ":"))
                return [
                    {"type": "TOOL_CALL_START", **begun, **_owner(task)},
                    {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": text},
                    {"type": "TOOL_CALL_END", "toolCallId": call},
                ]
            case chat.ToolReturned(task=task, call=call, text=text, failed=failed, files=files):
                content = _content((TextPart(text=text), *files)) if files else text
                return [_tool_result(task, call, content, {"error": True} if failed else {})]
            case chat.FileMade(task=task, id=id_, file=file):
                activity = {"messageId": id_, "activityType": "file", "content": _file(file)}
                return [{"type": "ACTIVITY_SNAPSHOT", **activity, **_owner(task)}]
            case chat.ToolDenied(task=task, call=call):
                return [_tool_result(task, call, "The call was denied.", {"denied": True})]
            case chat.SubagentReplied():
                return _subagent(chat_event)
            case chat.Emitted(value=value):
                return [{"type": "CUSTOM", "name": "emit", "value": plain(value)}]
            case chat.StateChanged(seq=seq, wrote=wrote):
                return [] if self._shows.isdisjoint(wrote) else self._delta(seq)
            case chat.RunBegan():
                return self._run_began(chat_event)
            case chat.RunEnded(outcome="failed", error=error, usage=usage):
                return self._stopped(f"The run failed with {error}.", error, usage)
            case chat.RunEnded():
                return self._run_ended(chat_event)
            case chat.Withdrawn():
                return self._stopped("The shown state is out of date: load the thread again.", "withdrawn", {})
            case _:  # questions are in the outcome of the run; steps of a reply are its messages
                return []

    # -- runs and states -------------------------------------------------------------------------------------------

    def _run_began(self, began: chat.RunBegan) -> list[AgUiEvent]:
        run = f"{began.turn}/{began.number}" if began.number else began.turn
        self._run = {"threadId": began.thread, "runId": run}
        run_input: dict[str, Any] = {}
        if began.said:
            messages = [
                {
                    "id": message.id or f"{began.turn}/{number}",
                    "role": "user",
                    "content": _content(message.parts) if message.media else message.text,
                }
                for number, message in enumerate(began.said)
            ]
            run_input = {"input": {**self._run, "messages": messages}}
        wire_events: list[AgUiEvent] = [{"type": "RUN_STARTED", **self._run, "protocolVersion": VERSION, **run_input}]
        if self._shows and self._state_at is not None:
            self._told_at, self._told = began.seq, self._shown_at(began.seq)
            wire_events.append({"type": "STATE_SNAPSHOT", "snapshot": self._told})
        return wire_events

    def _shown_at(self, seq: int) -> Any:
        """Return the fields of the state that the reader may see, as JSON data."""
        assert self._state_at is not None  # noqa: S101 - the callers have looked
        values = fields_of(self._state_at(seq).values) or {}
        return {name: plain(value) for name, value in values.items() if name in self._shows}

    def _delta(self, seq: int) -> list[AgUiEvent]:
        """Return the change of the shown state since it was last written."""
        if self._state_at is None:
            return []
        before = self._shown_at(self._told_at) if self._told is None else self._told
        self._told_at, self._told = seq, self._shown_at(seq)
        patch = json_patch(before, self._told)
        return [{"type": "STATE_DELTA", "delta": patch}] if patch else []

    def _run_ended(self, ended: chat.RunEnded) -> list[AgUiEvent]:
        """Close the open parts, and the run."""
        wire_events = [event for part, kind in self._parts.items() for event in _part_ended(part, kind)]
        self._parts.clear()
        asked_paths = {path_of(question.task) for question in ended.questions}
        for path in reversed(self._subagents):
            interrupt_ids = [question.id for question in ended.questions if path_of(question.task) == path]
            end: dict[str, Any] = {"type": "SUBAGENT_FINISHED", "subagentRunId": path}
            if ended.outcome == "cancelled":
                end |= {"type": "SUBAGENT_ERROR", "message": "The run was cancelled.", "code": "cancelled"}
            elif ended.outcome == "interrupted":
                end["outcome"] = {
                    "type": "suspended",
                    **({"interruptIds": interrupt_ids} if path in asked_paths else {}),
                }
            wire_events.append(end)
        self._subagents.clear()
        wire_events += [{"type": "STEP_FINISHED", "stepName": node, **_at(path)} for path, node in self._named]
        self._steps.clear()
        self._named.clear()
        outcome: dict[str, Any] = {"type": {"interrupted": "interrupt"}.get(ended.outcome, ended.outcome)}
        if ended.questions:
            interrupts = () if self._state_at is None else self._state_at(ended.seq).interrupts
            schemas = {interrupt.id: interrupt.answer_schema for interrupt in interrupts}
            outcome["interrupts"] = [_interrupt(question, schemas.get(question.id)) for question in ended.questions]
        return [*wire_events, {"type": "RUN_FINISHED", **self._run, "outcome": outcome, **_usage(ended.usage)}]

    def _stopped(self, message: str, code: str, usage: Mapping[str, Usage]) -> list[AgUiEvent]:
        """End the run by an error, which may come while anything is open."""
        self._parts.clear()
        self._subagents.clear()
        self._steps.clear()
        self._named.clear()
        return [{"type": "RUN_ERROR", "message": message, "code": code, **_usage(usage)}]

    # -- steps and nested graphs -----------------------------------------------------------------------------------

    def _task_began(self, task: str, node: str) -> list[AgUiEvent]:
        """Begin a step, after its enclosing steps and nested graph."""
        if task in self._steps:
            return []
        path = path_of(task)
        wire_events: list[AgUiEvent] = []
        if path:
            name = path.rpartition("/")[2].partition(":")[2]
            wire_events += self._task_began(path, name)
            if path not in self._subagents:
                self._subagents.append(path)
                around = {"parentSubagentRunId": outer} if (outer := path_of(path)) else {}
                wire_events.append({"type": "SUBAGENT_STARTED", "subagentRunId": path, "name": name, **around})
        self._steps[task] = node
        self._named[path, node] += 1
        if self._named[path, node] == 1:
            wire_events.append({"type": "STEP_STARTED", "stepName": node, **_at(path)})
        return wire_events

    def _task_ended(self, task: str, *, failed: bool) -> list[AgUiEvent]:
        """End a step with the nested graph that it ran."""
        wire_events: list[AgUiEvent] = []
        inside = f"{task}/"
        for inner in [inner for inner in self._steps if inner.startswith(inside)]:  # abandoned with it
            wire_events += self._step_ended(inner)
        for path in [path for path in reversed(self._subagents) if path == task or path.startswith(inside)]:
            self._subagents.remove(path)
            end = {"type": "SUBAGENT_ERROR", "message": "It failed."} if failed else {"type": "SUBAGENT_FINISHED"}
            wire_events.append({**end, "subagentRunId": path})
        return wire_events + self._step_ended(task)

    def _step_ended(self, task: str) -> list[AgUiEvent]:
        node = self._steps.pop(task, None)
        if node is None:
            return []
        path = path_of(task)
        self._named[path, node] -= 1
        if self._named[path, node]:
            return []
        del self._named[path, node]
        return [{"type": "STEP_FINISHED", "stepName": node, **_at(path)}]


def _at(path: str) -> dict[str, str]:
    """Return the fields that attribute an event to a nested graph; empty at the top."""
    return {"subagentRunId": path} if path else {}


def _owner(task: str) -> dict[str, str]:
    return _at(path_of(task))


def _message(part: str) -> str:
    """Return the id of the message that a text is in: that of its step."""
    return part.removesuffix("/text")


def _part_began(part: str, kind: chat.Kind, owner: dict[str, str]) -> list[AgUiEvent]:
    if kind == "text":
        return [{"type": "TEXT_MESSAGE_START", "messageId": _message(part), "role": "assistant", **owner}]
    return [
        {"type": "REASONING_START", "messageId": part, **owner},
        {"type": "REASONING_MESSAGE_START", "messageId": part, "role": "reasoning", **owner},
    ]


def _part_ended(part: str, kind: chat.Kind) -> list[AgUiEvent]:
    if kind == "text":
        return [{"type": "TEXT_MESSAGE_END", "messageId": _message(part)}]
    return [{"type": "REASONING_MESSAGE_END", "messageId": part}, {"type": "REASONING_END", "messageId": part}]


def _content(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return texts and files as content parts."""
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            content += [{"type": "text", "text": part.text}] if part.text else []
        elif isinstance(part, Media):
            content.append(_file(part))
    return content


def _file(file: MediaPart) -> dict[str, Any]:
    """Return a file as a content part."""
    named = {"metadata": {"filename": file.name}} if file.name else {}
    if file.data is None:
        source: dict[str, Any] = {"type": "url", "value": str(file.url)}
        source |= {"mimeType": file.media_type} if file.media_type else {}
    else:
        source = {"type": "data", "value": b64encode(file.data).decode("ascii"), "mimeType": file.media_type}
    return {"type": file.kind, "source": source, **named}


def _tool_result(task: str, call: str, content: Any, metadata: dict[str, Any]) -> AgUiEvent:
    message = {"messageId": f"{call}/output", "toolCallId": call, "content": content, "role": "tool"}
    return {"type": "TOOL_CALL_RESULT", **message, **_owner(task), **({"metadata": metadata} if metadata else {})}


def _subagent(replied: chat.SubagentReplied) -> list[AgUiEvent]:
    """Return the messages of an agent that runs as a tool, as the sub-agent of that call."""
    around = {"parentSubagentRunId": outer} if (outer := path_of(replied.task)) else {}
    owner = {"subagentRunId": replied.call}
    wire_events: list[AgUiEvent] = [
        {"type": "SUBAGENT_STARTED", **owner, "name": replied.agent, **around, "parentToolCallId": replied.call}
    ]
    for number, (text, thinking) in enumerate(replied.replies):
        step = f"{replied.call}/{number}"
        parts: list[tuple[str, chat.Kind, str]] = [
            (f"{step}/reasoning", "reasoning", thinking), (f"{step}/text", "text", text)
        ]  # fmt: skip
        for part, kind, part_text in parts:
            if part_text:
                event_type = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
                wire_events += _part_began(part, kind, owner)
                wire_events.append({"type": event_type, "messageId": _message(part), "delta": part_text})
                wire_events += _part_ended(part, kind)
    return [*wire_events, {"type": "SUBAGENT_FINISHED", **owner}]


def _interrupt(question: chat.Question, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return an open question as an interrupt."""
    interrupt: dict[str, Any] = {"id": question.id, "reason": question.kind}
    if question.call:
        interrupt |= {"message": f"Approve the call of {question.tool}?", "toolCallId": question.call}
    elif isinstance(question.payload, str):
        interrupt["message"] = question.payload
    if schema:
        interrupt["responseSchema"] = plain(schema)
    if question.expires_at is not None:
        interrupt["expiresAt"] = datetime.fromtimestamp(question.expires_at, UTC).isoformat().replace("+00:00", "Z")
    return {
        **interrupt,
        **_owner(question.task),
        "metadata": {"node": question.node, "payload": plain(question.payload)},
    }


def _usage(usage: Mapping[str, Usage]) -> dict[str, Any]:
    """Return the usage of a run, one entry for each model."""
    per_model: list[dict[str, Any]] = []
    for name, model_usage in usage.items():
        provider, _, model = name.rpartition("/")
        names: dict[str, Any] = {"provider": provider.partition("/")[0], "model": model}
        counts = {
            "inputTokens": model_usage.input_tokens,
            "outputTokens": model_usage.output_tokens,
            "totalTokens": model_usage.input_tokens + model_usage.output_tokens,
            "reasoningTokens": model_usage.reasoning_tokens,
            "cachedInputTokens": model_usage.cached_tokens,
        }
        per_model.append({key: value for key, value in {**names, **counts}.items() if value or key == "totalTokens"})
    return {"usage": per_model} if per_model else {}
