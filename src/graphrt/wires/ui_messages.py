"""The UI message stream of the AI SDK (`x-vercel-ai-ui-message-stream: v1`), as a projection of a thread's journal.

The wire of the committed layer is a left fold over entries: each entry adds 0..n chunks, so the wire of a prefix is a
prefix of the wire, in any process. What a task's models said is journalled with its end, and is written then, in one
piece, as are the results of its tools. Replies of attempts that failed are left out.

Live items lie over it. They write the same parts, under the same ids, piece by piece; what they have written is not
written again at the commit. If an attempt is withdrawn, or something else was committed than was shown, the stream ends
with `abort`, and the next connection gets the message anew under the same id.

A *turn*, from an input to the end of the run, is one message. Its id is made of the thread and the position of the
input, so a pause for an approval and the answer continue the same message.

| Journal | Chunks |
|---|---|
| an input | `start` |
| a model's reply | `start-step`, reasoning, text, `tool-input-available`, `tool-output-available` or `-error`, `finish-step` |
| an approval | `tool-input-available`, `tool-approval-request`; its answer: `tool-approval-response`, `tool-output-denied` |
| another question, and its answer | `data-question`, twice under the same id |
| a value of `ctx.emit` | `data-custom`, transient |
| the end of the run | `finish`; `abort` if it was cancelled, `error` and `finish` if it failed |
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast, final

from graphrt import events
from graphrt.events import Entry
from graphrt.harness.agent.events import ToolEnded, ToolStarted
from graphrt.harness.messages import AssistantMessage, ToolMessage
from graphrt.harness.protocol import AgentReply, TextDelta, ThinkingDelta
from graphrt.wires.plain_data import plain

__all__ = ["DONE", "HEADERS", "Chunk", "UiMessages", "last_input", "line", "wire"]

Chunk: TypeAlias = dict[str, Any]
"""One chunk of the stream."""
HEADERS: Final = {"content-type": "text/event-stream", "x-vercel-ai-ui-message-stream": "v1"}
"""Headers of a response with the stream."""
DONE: Final = "data: [DONE]\n\n"
"""What comes after the last chunk of a response."""
_TOOL: Final = "tool/"
"""How the keys of tool calls begin, and those of what an agent inside a tool does."""


def line(chunk: Chunk) -> str:
    """Return a chunk as it goes over the wire."""
    return f"data: {json.dumps(chunk, separators=(',', ':'), allow_nan=False)}\n\n"


def wire(entries: Iterable[Entry]) -> str:
    """Return the committed wire of *entries*: of a whole thread, or from an input on. For golden files, too."""
    projection = UiMessages()
    return "".join(line(chunk) for entry in entries for chunk in projection.entry(entry))


def last_input(entries: Iterable[Entry]) -> int | None:
    """Return the position of the last entry with an input, at which the present message begins; None if there is none."""
    found = None
    for entry in entries:
        if isinstance(entry.event, events.RunStarted) and not entry.path:
            found = entry.seq
    return found


class _Call:
    """A tool call of a reply."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self, id: str, name: str, arguments: Any) -> None:
        self.id = id
        self.name = name
        self.arguments = arguments


class _Reply:
    """One reply of a model, as a step of the message."""

    __slots__ = ("calls", "text", "thinking")

    def __init__(self, text: str, thinking: str, calls: list[_Call]) -> None:
        self.text = text
        self.thinking = thinking
        self.calls = calls


class _Approval:
    """A tool call that a person is asked about. It comes before the reply that made it is journalled."""

    __slots__ = ("arguments", "name", "tool_call", "used")

    def __init__(self, name: str, arguments: Any, tool_call: str) -> None:
        self.name = name
        self.arguments = arguments
        self.tool_call = tool_call
        self.used = ""
        """Id that the model gave the call; empty until its reply is known."""


class _Task:
    """What is known of a task that has not ended."""

    def __init__(self) -> None:
        self.replies: list[_Reply] = []
        self.failed_attempts = 0
        """Attempts of the task that failed after model calls. Replies before the last one of them do not count."""
        self.results: defaultdict[str, deque[Any]] = defaultdict(deque)
        """Name of a tool to the recorded results of its calls, in order."""
        self.approvals: list[_Approval] = []
        self.shown = 0
        """Replies that live items have shown to their end."""
        self.text = ""
        """What live items have shown of the next reply; likewise `thinking`."""
        self.thinking = ""
        self.has_gap = False
        """Whether live items of the next reply are missing, so that its text waits for its end."""
        self.is_dirty = False
        """Whether live items of this execution were written."""


@final
class UiMessages:
    """The chunks of a thread: feed it entries in order from an input on, and live items between them."""

    def __init__(self) -> None:
        self.over: bool = False
        """Whether the stream has to end, because what it wrote does not hold any more."""
        self._tasks: defaultdict[str, _Task] = defaultdict(_Task)
        self._questions: dict[str, tuple[str, str]] = {}
        """Open question to its kind, and for an approval the id of its tool call."""
        self._written: dict[str, str] = {}
        """Part of the message to what was written of it."""
        self._ended: set[str] = set()
        """Parts that are complete."""

    # -- the committed layer ---------------------------------------------------------------------------------------

    def entry(self, entry: Entry) -> list[Chunk]:
        """Return the chunks of an entry."""
        match entry.event:
            case events.RunStarted() if not entry.path:
                message = f"{entry.thread}:{entry.seq}"
                self._questions.clear()
                return [{"type": "start", "messageId": message, "messageMetadata": {"thread": entry.thread}}]
            case events.ModelReplied(task=task, key=key) if not key.startswith(_TOOL):
                known = self._tasks[task]
                if entry.event.failed_attempts > known.failed_attempts:  # the replies before are of no use any more
                    known.replies.clear()
                    known.failed_attempts = entry.event.failed_attempts
                known.replies.append(_reply_of(entry.event.reply))
            case events.EffectRecorded(task=task, key=key, result=result) if key.startswith(_TOOL):
                name = key.removeprefix(_TOOL).partition("/")[0]
                if isinstance(result, Mapping) and not key.endswith("/approved"):
                    self._tasks[task].results[name].append(result)
            case events.TaskSucceeded() | events.TaskFailed():
                updates = entry.event.updates if isinstance(entry.event, events.TaskSucceeded) else ()
                return self._end(entry.event.task, _messages_in(updates))
            case events.InterruptRaised() as asked:
                return self._asked(asked)
            case events.InterruptAnswered(id=id_, answer=answer):
                return self._answered(id_, answer)
            case event:
                return [] if entry.path else self._run_ended(event)
        return []

    def _run_ended(self, event: events.Event) -> list[Chunk]:
        """Return the chunks of the end of a run."""
        match event:
            case events.RunCompleted():
                return [{"type": "finish", "finishReason": "stop"}]
            case events.RunInterrupted():
                waits = any(kind == "approval" for kind, _ in self._questions.values())
                return [{"type": "finish", "finishReason": "tool-calls" if waits else "other"}]
            case events.RunFailed(error=error):  # its text may quote the state
                failed = {"type": "error", "errorText": f"The run failed with {error}."}
                return [failed, {"type": "finish", "finishReason": "error"}]
            case events.RunCancelled():
                return [{"type": "abort", "reason": "cancelled"}]
            case _:
                return []

    def _end(self, task: str, said: list[Any]) -> list[Chunk]:
        """Return what is not written yet of a task that has ended: its replies, the results of its tools, its messages.

        Args:
            task: Id of the task.
            said: Messages in its update. Those of a conversation have the results of all its tool calls.
        """
        known = self._tasks.pop(task, None) or _Task()
        results = {one.tool_call_id: one for one in said if isinstance(one, ToolMessage)}
        chunks: list[Chunk] = []
        for number, reply in enumerate(known.replies):
            chunks += self._replied(task, number, reply, known)
            for call in reply.calls:
                found = results.get(call.id) or (known.results[call.name] or deque([None])).popleft()
                text, error = _result_of(found)
                chunks += self._tool_output(_tool_call(task, call, known), text, error=error)
            chunks += self._step_end(f"{task}/{number}")
        texts = {reply.text for reply in known.replies}
        canned = [one for one in said if isinstance(one, AssistantMessage) and one.text and one.text not in texts]
        for number, one in enumerate(canned, len(known.replies)):  # what the node says itself
            chunks += self._replied(task, number, _Reply(one.text, "", []), known)
            chunks += self._step_end(f"{task}/{number}")
        return chunks

    def _asked(self, asked: events.InterruptRaised) -> list[Chunk]:
        """Return the chunks of a question that a person can answer."""
        payload: Any = asked.payload
        if asked.kind == "approval" and payload.__class__ is dict and "tool" in payload:
            call = _Approval(str(payload["tool"]), payload.get("arguments"), f"{asked.task}/{asked.key}")
            known = self._tasks[asked.task]
            call = next((one for one in known.approvals if one.tool_call == call.tool_call), call)
            if call not in known.approvals:
                known.approvals.append(call)
            self._questions[asked.id] = ("approval", call.tool_call)
            request = {"type": "tool-approval-request", "approvalId": asked.id, "toolCallId": call.tool_call}
            return [*self._tool_input(asked.task, call.tool_call, call.name, call.arguments), request]
        if asked.kind in ("signal", "thread", "timer", "task"):  # not for people
            return []
        self._questions[asked.id] = (asked.kind, "")
        told = {"id": asked.id, "kind": asked.kind, "node": asked.node, "payload": plain(payload), "open": True}
        return [{"type": "data-question", "id": asked.id, "data": told}]

    def _answered(self, id_: str, answer: Any) -> list[Chunk]:
        kind, tool_call = self._questions.pop(id_, ("", ""))
        if kind == "approval":
            given: Any = answer
            refused = not (given.get("approve") if hasattr(given, "get") else given)
            chunks: list[Chunk] = [{"type": "tool-approval-response", "approvalId": id_, "approved": not refused}]
            if refused:
                self._ended.add(f"{tool_call}/output")
                chunks.append({"type": "tool-output-denied", "toolCallId": tool_call})
            return chunks
        if kind:
            return [{"type": "data-question", "id": id_, "data": {"id": id_, "kind": kind, "open": False}}]
        return []

    # -- the live layer --------------------------------------------------------------------------------------------

    def live(self, mode: str, item: Any, missed: int = 0) -> list[Chunk]:
        """Return the chunks of a live item of a stream mode. *missed*: items before it that did not arrive."""
        if missed:
            for known in self._tasks.values():
                known.has_gap = True
        if mode == "custom":
            return [{"type": "data-custom", "data": plain(item), "transient": True}]
        task = str(item.task_id)
        if mode == "live":
            if item.what in ("withdrawn", "retrying") and self._tasks[task].is_dirty:
                return self._void()
            if item.what == "started":  # it runs again from its beginning, and shows its earlier replies again
                known = self._tasks[task]
                known.shown, known.text, known.thinking, known.is_dirty = 0, "", "", False
            return []
        chunks = self._piece(task, item.item)
        self._tasks[task].is_dirty |= bool(chunks)
        return chunks

    def _piece(self, task: str, item: Any) -> list[Chunk]:
        """Return the chunks of a piece of a reply. What an agent inside a tool says is not shown."""
        known = self._tasks[task]
        number = known.shown
        match item:
            case TextDelta(text=text) if not known.has_gap:
                known.text += text
                return self._part(task, number, "text", known.text)
            case ThinkingDelta(text=text) if not known.has_gap:
                known.thinking += text
                return self._part(task, number, "reasoning", known.thinking)
            case AgentReply(text=text, thinking=thinking):
                known.shown, known.text, known.thinking, known.has_gap = number + 1, "", "", False
                return self._replied(task, number, _Reply(text, thinking, []), known)
            case ToolStarted(call=call):  # not before: until then it may turn out that a person is asked
                made = _Call(call.id, call.name, call.arguments)
                step = f"{task}/{number - 1}"
                return self._tool_input(step, _tool_call(task, made, known), call.name, call.arguments)
            case ToolEnded(call=call) if not item.error:
                ended = _Call(call.id, call.name, call.arguments)
                return self._tool_output(_tool_call(task, ended, known), item.text, error=False)
            case _:
                return []

    def _void(self) -> list[Chunk]:
        """End the stream: what it wrote does not hold any more."""
        self.over = True
        return [{"type": "abort", "reason": "withdrawn"}]

    # -- parts of the message --------------------------------------------------------------------------------------

    def _step(self, step: str) -> list[Chunk]:
        """Begin a step, once."""
        if f"{step}/step" in self._written:
            return []
        self._written[f"{step}/step"] = ""
        return [{"type": "start-step"}]

    def _step_end(self, step: str) -> list[Chunk]:
        """End a step, once."""
        if f"{step}/step" not in self._written or f"{step}/step" in self._ended:
            return []
        self._ended.add(f"{step}/step")
        return [{"type": "finish-step"}]

    def _replied(self, task: str, number: int, reply: _Reply, known: _Task) -> list[Chunk]:
        """Write what is missing of a whole reply: reasoning, text and the inputs of its tool calls."""
        chunks = self._part(task, number, "reasoning", reply.thinking, whole=True)
        chunks += self._part(task, number, "text", reply.text, whole=True)
        for call in reply.calls:
            chunks += self._tool_input(f"{task}/{number}", _tool_call(task, call, known), call.name, call.arguments)
        return chunks

    def _part(self, task: str, number: int, kind: str, text: str, *, whole: bool = False) -> list[Chunk]:
        """Write what is missing of a text or of reasoning: *text* is all of it so far, or the *whole*."""
        part = f"{task}/{number}/{kind}"
        written = self._written.get(part)
        if part in self._ended or (not text and written is None):
            return []
        if not text.startswith(written or ""):
            return self._void()
        chunks = self._step(f"{task}/{number}")
        if written is None:
            chunks.append({"type": f"{kind}-start", "id": part})
        if text != written and text:
            chunks.append({"type": f"{kind}-delta", "id": part, "delta": text[len(written or "") :]})
        self._written[part] = text
        if whole:
            self._ended.add(part)
            chunks.append({"type": f"{kind}-end", "id": part})
        return chunks

    def _tool_input(self, step: str, tool_call: str, name: str, arguments: Any) -> list[Chunk]:
        """Write a tool call, once, in the step that made it."""
        if tool_call in self._written:
            return []
        self._written[tool_call] = name
        told = {"toolCallId": tool_call, "toolName": name, "input": plain(arguments), "dynamic": True}
        return [*self._step(step), {"type": "tool-input-available", **told}]

    def _tool_output(self, tool_call: str, text: str, *, error: bool) -> list[Chunk]:
        """Write the result of a tool call, once."""
        part = f"{tool_call}/output"
        if part in self._ended:
            return []
        self._ended.add(part)
        if error:
            return [{"type": "tool-output-error", "toolCallId": tool_call, "errorText": text, "dynamic": True}]
        return [{"type": "tool-output-available", "toolCallId": tool_call, "output": text, "dynamic": True}]


def _tool_call(task: str, call: _Call, known: _Task) -> str:
    """Return the id of a tool call in the message: that under which a person was asked about it, or one of its own."""
    own = f"{task}/{call.id}"
    for one in known.approvals:
        if one.used in ("", call.id) and one.name == call.name and one.arguments == call.arguments:
            one.used = call.id
            return one.tool_call
    return own


def _reply_of(reply: Mapping[str, Any]) -> _Reply:
    """Return a reply of its stored form."""
    calls: list[_Call] = []
    for call in reply.get("tool_calls", ()):
        try:
            arguments: Any = json.loads(call["arguments"] or "{}")
        except ValueError:  # the model wrote something else
            arguments = call["arguments"]
        calls.append(_Call(call["id"], call["name"], arguments))
    parts: Any = reply.get("parts", ())
    text = "".join(part["text"] for part in parts if part["kind"] == "text")
    return _Reply(text, str(reply.get("thinking", "")), calls)


def _messages_in(updates: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the messages in the lists of updates."""
    found: list[Any] = []
    for update in updates:
        for value in update.values():
            if isinstance(value, list | tuple):
                items = cast("Iterable[Any]", value)
                found += [one for one in items if isinstance(one, AssistantMessage | ToolMessage)]
    return found


def _result_of(found: Any) -> tuple[str, bool]:
    """Return text and failure of a tool's result, as a message of the conversation or as the journal has it."""
    if isinstance(found, ToolMessage):
        return found.text, found.error
    if found is None:
        return "The call was not made.", True
    return str(found.get("text", "")), bool(found.get("error"))
