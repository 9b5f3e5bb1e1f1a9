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
        return [event for one in self._chat.entry(entry) for event in self._events(one)]

    def had(self, seen: chat.Seen) -> None:
        """Skip the part of the current turn that the client has *seen*. Call this before the first entry."""
        self._chat.had(seen)

    def known(self, entry: Entry) -> None:
        """Fold an entry that the reader already has."""
        state_at, self._state_at = self._state_at, None
        try:
            for one in self._chat.entry(entry):
                self._events(one)
                if isinstance(one, chat.RunBegan | chat.StateChanged):
                    self._told_at, self._told = one.seq, None
        finally:
            self._state_at = state_at

    def live(self, mode: str, item: Any, missed: int = 0) -> list[AgUiEvent]:
        """Return the events of a live item of a stream mode. *missed*: items before it that did not arrive."""
        return [event for one in self._chat.live(mode, item, missed) for event in self._events(one)]

    def _events(self, one: chat.ChatEvent) -> list[AgUiEvent]:  # noqa: C901, PLR0911, PLR0912 - a table: one line for each
        """Return the protocol's events for a chat event."""
        match one:
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
            case chat.ToolCalled(task=task, step=step, call=call, name=name, arguments=given):
                begun = {"toolCallId": call, "toolCallName": name, "parentMessageId": step}
                text = given if isinstance(given, str) else json.dumps(plain(given), separators=(",", ":"))
                return [
                    {"type": "TOOL_CALL_START", **begun, **_owner(task)},
                    {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": text},
                    {"type": "TOOL_CALL_END", "toolCallId": call},
                ]
            case chat.ToolReturned(task=task, call=call, text=text, failed=failed, files=files):
                content = _content((TextPart(text=text), *files)) if files else text
                return [_tool_result(task, call, content, {"error": True} if failed else {})]
            case chat.FileMade(task=task, id=id_, file=file):
                told = {"messageId": id_, "activityType": "file", "content": _file(file)}
                return [{"type": "ACTIVITY_SNAPSHOT", **told, **_owner(task)}]
            case chat.ToolDenied(task=task, call=call):
                return [_tool_result(task, call, "The call was denied.", {"denied": True})]
            case chat.SubagentReplied():
                return _subagent(one)
            case chat.Emitted(value=value):
                return [{"type": "CUSTOM", "name": "emit", "value": plain(value)}]
            case chat.StateChanged(seq=seq, wrote=wrote):
                return [] if self._shows.isdisjoint(wrote) else self._delta(seq)
            case chat.RunBegan():
                return self._run_began(one)
            case chat.RunEnded(outcome="failed", error=error, usage=usage):
                return self._stopped(f"The run failed with {error}.", error, usage)
            case chat.RunEnded():
                return self._run_ended(one)
            case chat.Withdrawn():
                return self._stopped("The shown state is out of date: load the thread again.", "withdrawn", {})
            case _:  # questions are in the outcome of the run; steps of a reply are its messages
                return []

    # -- runs and states -------------------------------------------------------------------------------------------

    def _run_began(self, began: chat.RunBegan) -> list[AgUiEvent]:
        run = f"{began.turn}/{began.number}" if began.number else began.turn
        self._run = {"threadId": began.thread, "runId": run}
        given: dict[str, Any] = {}
        if began.said:
            messages = [
                {
                    "id": one.id or f"{began.turn}/{number}",
                    "role": "user",
                    "content": _content(one.parts) if one.media else one.text,
                }
                for number, one in enumerate(began.said)
            ]
            given = {"input": {**self._run, "messages": messages}}
        found: list[AgUiEvent] = [{"type": "RUN_STARTED", **self._run, "protocolVersion": VERSION, **given}]
        if self._shows and self._state_at is not None:
            self._told_at, self._told = began.seq, self._shown_at(began.seq)
            found.append({"type": "STATE_SNAPSHOT", "snapshot": self._told})
        return found

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
        found = [event for part, kind in self._parts.items() for event in _part_ended(part, kind)]
        self._parts.clear()
        asked = {path_of(one.task) for one in ended.questions}
        for path in reversed(self._subagents):
            mine = [one.id for one in ended.questions if path_of(one.task) == path]
            told: dict[str, Any] = {"type": "SUBAGENT_FINISHED", "subagentRunId": path}
            if ended.outcome == "cancelled":
                told |= {"type": "SUBAGENT_ERROR", "message": "The run was cancelled.", "code": "cancelled"}
            elif ended.outcome == "interrupted":
                told["outcome"] = {"type": "suspended", **({"interruptIds": mine} if path in asked else {})}
            found.append(told)
        self._subagents.clear()
        found += [{"type": "STEP_FINISHED", "stepName": node, **_at(path)} for path, node in self._named]
        self._steps.clear()
        self._named.clear()
        outcome: dict[str, Any] = {"type": {"interrupted": "interrupt"}.get(ended.outcome, ended.outcome)}
        if ended.questions:
            known = () if self._state_at is None else self._state_at(ended.seq).interrupts
            schemas = {one.id: one.answer_schema for one in known}
            outcome["interrupts"] = [_interrupt(one, schemas.get(one.id)) for one in ended.questions]
        return [*found, {"type": "RUN_FINISHED", **self._run, "outcome": outcome, **_usage(ended.usage)}]

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
        found: list[AgUiEvent] = []
        if path:
            name = path.rpartition("/")[2].partition(":")[2]
            found += self._task_began(path, name)
            if path not in self._subagents:
                self._subagents.append(path)
                around = {"parentSubagentRunId": outer} if (outer := path_of(path)) else {}
                found.append({"type": "SUBAGENT_STARTED", "subagentRunId": path, "name": name, **around})
        self._steps[task] = node
        self._named[path, node] += 1
        if self._named[path, node] == 1:
            found.append({"type": "STEP_STARTED", "stepName": node, **_at(path)})
        return found

    def _task_ended(self, task: str, *, failed: bool) -> list[AgUiEvent]:
        """End a step with the nested graph that it ran."""
        found: list[AgUiEvent] = []
        inside = f"{task}/"
        for one in [one for one in self._steps if one.startswith(inside)]:  # abandoned with it
            found += self._step_ended(one)
        for path in [one for one in reversed(self._subagents) if one == task or one.startswith(inside)]:
            self._subagents.remove(path)
            told = {"type": "SUBAGENT_ERROR", "message": "It failed."} if failed else {"type": "SUBAGENT_FINISHED"}
            found.append({**told, "subagentRunId": path})
        return found + self._step_ended(task)

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
    found: list[dict[str, Any]] = []
    for one in parts:
        if isinstance(one, TextPart):
            found += [{"type": "text", "text": one.text}] if one.text else []
        elif isinstance(one, Media):
            found.append(_file(one))
    return found


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
    told = {"messageId": f"{call}/output", "toolCallId": call, "content": content, "role": "tool"}
    return {"type": "TOOL_CALL_RESULT", **told, **_owner(task), **({"metadata": metadata} if metadata else {})}


def _subagent(replied: chat.SubagentReplied) -> list[AgUiEvent]:
    """Return the messages of an agent that runs as a tool, as the sub-agent of that call."""
    around = {"parentSubagentRunId": outer} if (outer := path_of(replied.task)) else {}
    owner = {"subagentRunId": replied.call}
    found: list[AgUiEvent] = [
        {"type": "SUBAGENT_STARTED", **owner, "name": replied.agent, **around, "parentToolCallId": replied.call}
    ]
    for number, (text, thinking) in enumerate(replied.replies):
        step = f"{replied.call}/{number}"
        whole: list[tuple[str, chat.Kind, str]] = [
            (f"{step}/reasoning", "reasoning", thinking), (f"{step}/text", "text", text)
        ]  # fmt: skip
        for part, kind, said in whole:
            if said:
                content = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
                found += _part_began(part, kind, owner)
                found.append({"type": content, "messageId": _message(part), "delta": said})
                found += _part_ended(part, kind)
    return [*found, {"type": "SUBAGENT_FINISHED", **owner}]


def _interrupt(asked: chat.Question, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return an open question as an interrupt."""
    told: dict[str, Any] = {"id": asked.id, "reason": asked.kind}
    if asked.call:
        told |= {"message": f"Approve the call of {asked.tool}?", "toolCallId": asked.call}
    elif isinstance(asked.payload, str):
        told["message"] = asked.payload
    if schema:
        told["responseSchema"] = plain(schema)
    if asked.expires_at is not None:
        told["expiresAt"] = datetime.fromtimestamp(asked.expires_at, UTC).isoformat().replace("+00:00", "Z")
    return {**told, **_owner(asked.task), "metadata": {"node": asked.node, "payload": plain(asked.payload)}}


def _usage(usage: Mapping[str, Usage]) -> dict[str, Any]:
    """Return the usage of a run, one entry for each model."""
    found: list[dict[str, Any]] = []
    for name, one in usage.items():
        provider, _, model = name.rpartition("/")
        told: dict[str, Any] = {"provider": provider.partition("/")[0], "model": model}
        counts = {
            "inputTokens": one.input_tokens,
            "outputTokens": one.output_tokens,
            "totalTokens": one.input_tokens + one.output_tokens,
            "reasoningTokens": one.reasoning_tokens,
            "cachedInputTokens": one.cached_tokens,
        }
        found.append({key: value for key, value in {**told, **counts}.items() if value or key == "totalTokens"})
    return {"usage": found} if found else {}
