"""The items of a thread in a chat: one fold of its journal, which each chat protocol encodes.

`Conversation` takes entries in order, and live items between them, and returns *chat events*: a run began, a model wrote
text, a tool was called, a question was asked. `ui_messages` and `ag_ui` convert each to the events of their protocol.

The committed layer is a left fold over entries: each adds 0..n events, so the events of a prefix are a prefix of the
events, in any process. The text of a task's models is journalled when the task ends, and is shown then in one piece,
like the results of its tools. Replies of failed attempts are left out.

Live items form a layer above it. They show the same parts, under the same ids, piece by piece, and the commit does not
show these parts again. If an attempt is withdrawn, or the commit differs from what was shown, `Withdrawn` ends the
stream, and the next connection gets everything again under the same ids.

| Id | Names | Example |
|---|---|---|
| turn | all that follows an input; a pause and its answer do not end it | `t-1:1` |
| task | the task of a node, with the path of its nested graph | `2.0:nest/1.0:talk` |
| step | a reply of a model: the task and the number of the reply | `1.0:talk/0` |
| part | a text or reasoning of a step | `1.0:talk/0/text` |
| call | a tool call: the question about it, or the task and the model's id | `1.0:talk/call-1` |
| file | an image, audio or a document of a step | `1.0:talk/0/file/0` |
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from typing import Any, Final, cast, final

from graphrt import events
from graphrt.events import Entry, Usage
from graphrt.harness.agent.events import ModelEnded, ModelFailed, ModelStarted, ToolEnded, ToolStarted
from graphrt.harness.media import Audio, Document, Image
from graphrt.harness.messages import AssistantMessage, MediaPart, ToolMessage, UserMessage
from graphrt.harness.protocol import AgentReply, TextDelta, ThinkingDelta
from graphrt.wires.chat_events import (
    ChatEvent,
    Emitted,
    FileMade,
    Kind,
    Outcome,
    PartAdded,
    PartBegan,
    PartEnded,
    Question,
    QuestionAnswered,
    QuestionAsked,
    RunBegan,
    RunEnded,
    Seen,
    StateChanged,
    StepBegan,
    StepEnded,
    SubagentReplied,
    TaskBegan,
    TaskEnded,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    Withdrawn,
    path_of,
)

__all__ = ["Conversation", "goes_on", "inputs", "line"]

_TOOL: Final = "tool/"
"""Prefixes of the keys of tool calls, and of the actions of an agent inside a tool."""
_JSON: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""Created once, because `json.dumps` with options creates an encoder per call."""
_BY_THEMSELVES: Final = ("timer", "thread", "task")
"""Kinds of questions that a clock, a child thread or a worker answers: the run continues without the reader."""


def goes_on(found: Any) -> bool:
    """Return whether a thread continues without a person, given its `Snapshot`."""
    kinds = {interrupt.kind for interrupt in found.interrupts}
    # A queued task continues even if the thread also waits for something else.
    by_itself = "task" in kinds or bool(kinds and kinds.issubset(_BY_THEMSELVES))
    return bool(found.status == "running" or (found.status == "interrupted" and by_itself))


def inputs(entries: Iterable[Entry]) -> list[int]:
    """Return the positions of the entries with an input, where turns begin, in order."""
    return [entry.seq for entry in entries if isinstance(entry.event, events.RunStarted) and not entry.path]


def line(data: Any) -> str:
    """Return data as a server-sent event, on one line of ASCII."""
    return f"data: {_JSON.encode(data)}\n\n"


class _Call:
    """A tool call of a reply."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self, id: str, name: str, arguments: Any) -> None:
        self.id = id
        self.name = name
        self.arguments = arguments


class _Reply:
    """One reply of a model, as a step."""

    __slots__ = ("calls", "files", "text", "thinking")

    def __init__(self, text: str, thinking: str, files: tuple[MediaPart, ...], calls: list[_Call]) -> None:
        self.text = text
        self.thinking = thinking
        self.files = files
        self.calls = calls


class _Approval:
    """A tool call that needs a person's approval. It appears before its reply is journalled."""

    __slots__ = ("arguments", "id", "name", "used")

    def __init__(self, name: str, arguments: Any, id: str) -> None:
        self.name = name
        self.arguments = arguments
        self.id = id
        self.used = ""
        """Id that the model gave the call; empty until its reply is known."""


class _Task:
    """The data of a task that has not ended."""

    def __init__(self) -> None:
        self.first = 0
        """Number of its first reply: above 0 if it has shown replies before a failure."""
        self.replies: list[_Reply] = []
        self.failed_attempts = 0
        """Failed attempts that made model calls. Replies before the last of these failures do not count."""
        self.results: defaultdict[str, list[tuple[Any, str]]] = defaultdict(list)
        """Maps the name of a tool to the recorded results of its calls with their keys, in order."""
        self.inner: defaultdict[str, list[_Reply]] = defaultdict(list)
        """Maps the key of a tool call to the replies of the agent that is the tool."""
        self.approvals: list[_Approval] = []
        self.inside: set[tuple[str, tuple[MediaPart, ...]]] = set()
        """Texts of the tasks of its nested graph, which its update also contains."""
        self.shown = 0
        """Number of replies that live items have shown completely."""
        self.text = ""
        """The text of the next reply shown so far by live items; `thinking` is the same for its reasoning."""
        self.thinking = ""
        self.run_at = 0
        """Number of the first reply of the agent's current run, less `first`; a node may run several agents."""
        self.has_gap = False
        """Whether live items, perhaps replies, are missing. If so, the next reply waits for the number of its call."""
        self.waiting: AgentReply | None = None
        """The reply that waits."""
        self.is_dirty = False
        """Whether live items of this execution were shown."""

    def count(self, replies: int) -> None:
        """Set the number of replies in the agent's current run, to account for replies among missing live items."""
        if not self.has_gap:
            self.run_at = self.shown - replies
            return
        # If another run began in the meantime, this number may be too small; then the commit withdraws the shown items.
        self.shown = max(self.shown, self.run_at + replies)
        self.text, self.thinking, self.has_gap = "", "", False


@final
class Conversation:
    """The chat events of a thread: feed it entries in order from an input on, and live items between them."""

    def __init__(self) -> None:
        self.over: bool = False
        """Whether the stream must end because the shown items are no longer valid."""
        self.began_at: int = 0
        """Number of the entry at which the current or last run began or continued; 0 before the first."""
        self._turn = ""
        self._runs = 0
        """Number of runs of the turn so far."""
        self._is_running = False
        self._usage: dict[str, Usage] = {}
        self._tasks: defaultdict[str, _Task] = defaultdict(_Task)
        self._begun: dict[str, str] = {}
        """Maps open tasks to their nodes."""
        self._questions: dict[str, Question] = {}
        self._shown: dict[str, str] = {}
        """Maps parts to their shown text."""
        self._ended: set[str] = set()
        """Parts that are complete."""
        self._has_gaps = False
        """Whether live items of the open superstep are missing, so a task that is new here may have begun earlier."""
        self._had: list[tuple[Kind, str]] = []
        """Texts that the client has from an earlier stream and that did not occur here yet; `_had_files` is the same
        for files."""
        self._had_files: list[str] = []

    def had(self, seen: Seen) -> None:
        """Skip the part of the current turn that the client has *seen*. Call this before the first entry."""
        self._had += seen.texts
        self._had_files += seen.files
        self._shown |= dict.fromkeys(seen.calls, "")
        self._ended |= {f"{call}/output" for call in seen.results}

    # -- the committed layer ---------------------------------------------------------------------------------------

    def entry(self, entry: Entry) -> list[ChatEvent]:
        """Return the chat events of an entry."""
        return _valid(self._committed(entry))

    def _committed(self, entry: Entry) -> list[ChatEvent]:
        match entry.event:
            case events.RunStarted(input=values) if not entry.path:
                self._questions.clear()
                ended = self._run_ended(entry, "cancelled") if self._is_running else []  # it was abandoned
                self._turn, self._runs = f"{entry.thread}:{entry.seq}", 0
                return ended + self._run_began(entry, tuple(_messages_in([values], UserMessage)), resumed=False)
            case events.RunResumed() if not entry.path:  # a run that was handed over is still open
                return [] if self._is_running else self._run_began(entry, (), resumed=True)
            case events.ModelReplied() as replied:
                self._replied(replied)
            case events.UsageRecorded(usage=usage, model=model):
                self._use(model, usage)
            case events.EffectRecorded(task=task, key=key, result=result) if key.startswith(_TOOL):
                name = key.removeprefix(_TOOL).partition("/")[0]
                recorded: Any = result
                if isinstance(recorded, Mapping) and not key.endswith("/approved"):
                    self._tasks[task].results[name].append((cast("Any", recorded), key))
            case events.TaskSucceeded(task=task, node=node, updates=updates):
                return self._task_ended(task, node, _messages_in(updates, AssistantMessage, ToolMessage), failed=False)
            case events.TaskFailed(task=task, node=node):
                return self._task_ended(task, node, [], failed=True)
            case events.InterruptRaised() as raised if not entry.path:  # a nested one is raised again
                return self._asked(raised, _of_thread(entry, raised.id))
            case events.InterruptAnswered(id=id_, answer=answer):
                return self._answered(_of_thread(entry, id_), answer)
            case event:
                closed = [shown for id_ in _closed_by(event) for shown in self._closed(_of_thread(entry, id_))]
                return closed if entry.path else closed + self._at_boundary(entry, event)
        return []

    def _run_began(self, entry: Entry, messages: tuple[UserMessage, ...], *, resumed: bool) -> list[ChatEvent]:
        self._is_running, self.began_at = True, entry.seq
        number, self._runs = self._runs, self._runs + 1
        thread, turn, seq = entry.thread or "", self._turn, entry.seq
        return [RunBegan(thread=thread, turn=turn, number=number, seq=seq, said=messages, resumed=resumed)]

    def _at_boundary(self, entry: Entry, event: events.Event) -> list[ChatEvent]:
        """Return the chat events of a commit of the outermost graph, or of the end of a run."""
        match event:
            case events.SuperstepCommitted(wrote=wrote):
                self._has_gaps = False
                return [StateChanged(seq=entry.seq, wrote=wrote)] if wrote else []
            case events.RunCompleted():
                return self._run_ended(entry, "success")
            case events.RunInterrupted(interrupts=ids):
                own = (_of_thread(entry, id_) for id_ in ids)
                questions = tuple(self._questions[id_] for id_ in own if id_ in self._questions)
                return self._run_ended(entry, "interrupted", questions) if questions else []
            case events.RunFailed(error=error):
                return self._run_ended(entry, "failed", error=error)
            case events.RunCancelled():
                began = (
                    [] if self._is_running else self._run_began(entry, (), resumed=True)
                )  # a paused thread was cancelled
                return began + self._run_ended(entry, "cancelled")
            case _:
                return []

    def _run_ended(
        self, entry: Entry, outcome: Outcome, questions: tuple[Question, ...] = (), error: str = ""
    ) -> list[ChatEvent]:
        usage, self._usage, self._is_running = self._usage, {}, False
        self._begun.clear()
        return [RunEnded(outcome=outcome, seq=entry.seq, questions=questions, error=error, usage=usage)]

    def _use(self, model: str | None, usage: Usage | None) -> None:
        if usage is not None:
            name = model or ""
            self._usage[name] = self._usage[name] + usage if name in self._usage else usage

    def _replied(self, replied: events.ModelReplied) -> None:
        """Keep a reply until its task ends."""
        self._use(replied.model, replied.usage)
        open_task = self._tasks[replied.task]
        if replied.failed_attempts > open_task.failed_attempts:  # earlier replies are no longer needed
            open_task.replies.clear()
            open_task.inner.clear()
            open_task.failed_attempts = replied.failed_attempts
        if replied.key.startswith(_TOOL):
            name, digest = [*replied.key.split("/", 3), "", ""][1:3]
            open_task.inner[f"{_TOOL}{name}/{digest}"].append(_reply_of(replied.reply))
        else:
            open_task.replies.append(_reply_of(replied.reply))

    def _task_ended(self, task: str, node: str, messages: list[Any], *, failed: bool) -> list[ChatEvent]:
        """Return the parts of a finished task that were not shown yet: replies, tool results and messages.

        Args:
            task: Id of the task.
            node: Name of its node.
            messages: Messages in its update. The messages of a conversation have the results of all its tool calls.
            failed: Whether it failed.
        """
        open_task = self._tasks.pop(task, None) or _Task()
        results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
        ids = {call.id for reply in open_task.replies for call in reply.calls}
        chat_events = self._task_began(task, node)
        for number, reply in enumerate(open_task.replies, open_task.first):
            chat_events += self._whole_reply(task, number, reply, open_task)
            for call in reply.calls:
                recorded, key = _recorded(open_task.results[call.name], call.id, ids)
                text, files, is_error = _result_of(results.get(call.id) or recorded)
                id_ = _call_id(task, call, open_task)
                if open_task.inner[key]:
                    replies = tuple((inner.text, inner.thinking) for inner in open_task.inner.pop(key))
                    chat_events.append(SubagentReplied(task=task, call=id_, agent=call.name, replies=replies))
                chat_events += self._tool_returned(task, id_, text, files, failed=is_error)
            chat_events += self._step_ended(f"{task}/{number}")
        texts = {(reply.text, () if reply.text else reply.files) for reply in open_task.replies} | open_task.inside
        own = [
            message for message in messages
            if isinstance(message, AssistantMessage) and (message.text or message.media)
            and (message.text, () if message.text else message.media) not in texts
        ]  # fmt: skip
        if path := path_of(task):
            self._tasks[path].inside |= texts | {
                (message.text, () if message.text else message.media) for message in own
            }
        for number, message in enumerate(own, open_task.first + len(open_task.replies)):  # what the node says itself
            chat_events += self._whole_reply(task, number, _Reply(message.text, "", message.media, []), open_task)
            chat_events += self._step_ended(f"{task}/{number}")
        if failed:  # it may run again under the same id, and then show other replies
            self._tasks[task].first = open_task.first + len(open_task.replies)
        self._begun.pop(task, None)
        return [*chat_events, TaskEnded(task=task, node=node, failed=failed)]

    def _asked(self, raised: events.InterruptRaised, id_: str) -> list[ChatEvent]:
        """Return the chat events of a question, which has the id *id_* in this thread."""
        if raised.kind in _BY_THEMSELVES or id_ in self._questions:
            return []
        # A question of a nested graph is raised for the task that runs it; its id has the whole path.
        inside = id_.partition("/")[2].partition("#")[0]
        task = inside if inside.startswith(f"{raised.task}/") else raised.task
        payload: Any = raised.payload
        call = tool = ""
        chat_events = self._task_began(task, raised.node)
        if raised.kind == "approval" and payload.__class__ is dict and "tool" in payload:
            call, tool = f"{task}/{raised.key}", str(payload["tool"])
            open_task = self._tasks[task]
            if all(approval.id != call for approval in open_task.approvals):
                open_task.approvals.append(_Approval(tool, payload.get("arguments"), call))
            chat_events += self._tool_called(task, task, call, tool, payload.get("arguments"))
        question = Question(
            id=id_, kind=raised.kind, node=raised.node, task=task, payload=payload,
            expires_at=raised.expires_at, call=call, tool=tool,
        )  # fmt: skip
        self._questions[id_] = question
        return chat_events if raised.kind == "signal" else [*chat_events, QuestionAsked(question=question)]

    def _answered(self, id_: str, answer: Any) -> list[ChatEvent]:
        question = self._questions.pop(id_, None)
        if question is None or question.kind == "signal":
            return []
        value: Any = answer
        approved = not question.call or bool(value.get("approve") if hasattr(value, "get") else value)
        chat_events: list[ChatEvent] = [QuestionAnswered(question=question, approved=approved)]
        if not approved:
            self._ended.add(f"{question.call}/output")
            chat_events.append(ToolDenied(task=question.task, call=question.call))
        return chat_events

    def _closed(self, id_: str) -> list[ChatEvent]:
        """Return the chat events of a question that accepts no answer any more. A tool call keeps its approval."""
        question = self._questions.get(id_)
        return self._answered(id_, None) if question is not None and not question.call else []

    # -- the live layer --------------------------------------------------------------------------------------------

    def live(self, mode: str, item: Any, missed: int = 0) -> list[ChatEvent]:
        """Return the chat events of a live item of a stream mode. *missed*: items before it that did not arrive."""
        return _valid(self._live(mode, item, missed))

    def _live(self, mode: str, item: Any, missed: int) -> list[ChatEvent]:
        if missed:  # they may also belong to unknown tasks
            self._has_gaps = True
            for open_task in self._tasks.values():
                open_task.has_gap = True
        if mode == "custom":
            return [Emitted(value=item)]
        task = str(item.task_id)
        if task not in self._tasks:
            self._tasks[task].has_gap = self._has_gaps
        if mode == "live":
            if item.what in ("withdrawn", "retrying") and self._tasks[task].is_dirty:
                return self._void()
            if item.what == "started":  # it runs again from the start, and shows its earlier replies again
                open_task = self._tasks[task]
                open_task.shown = open_task.run_at = 0
                open_task.text = open_task.thinking = ""
                open_task.is_dirty = False
                return self._task_began(task, item.node)
            return []
        began = self._task_began(task, item.node)  # its start is not shown if it goes on after a pause
        chat_events = self._piece(task, item.item)
        self._tasks[task].is_dirty |= bool(chat_events)
        return [*began, *chat_events]

    def _piece(self, task: str, item: Any) -> list[ChatEvent]:
        """Return the chat events of a piece of a reply. The text of an agent inside a tool waits for the commit."""
        open_task = self._tasks[task]
        number = open_task.first + open_task.shown
        match item:
            case TextDelta(text=text) if not open_task.has_gap:
                open_task.text += text
                return self._part(task, number, "text", open_task.text)
            case ThinkingDelta(text=text) if not open_task.has_gap:
                open_task.thinking += text
                return self._part(task, number, "reasoning", open_task.thinking)
            case ModelFailed():  # another attempt shows its reply from the beginning, and so withdraws this one
                open_task.text = open_task.thinking = ""
                return []
            case AgentReply() | ModelStarted() | ModelEnded():
                return self._model(task, open_task, cast("Any", item))  # the class of the output is not known
            case ToolStarted() | ToolEnded():
                return self._tool(task, open_task, item)
            case _:
                return []

    def _model(self, task: str, open_task: _Task, item: AgentReply[Any] | ModelStarted | ModelEnded) -> list[ChatEvent]:
        """Return the chat events of a whole reply, once its number is known."""
        had_gap, reply = open_task.has_gap, open_task.waiting
        match item:
            case ModelStarted(call=call):
                open_task.count(call - 1)
                return []
            case ModelEnded(call=call):  # comes after the reply
                open_task.waiting = None
                open_task.count(call)
                if not had_gap or reply is None:
                    return []
            case AgentReply() if had_gap:
                open_task.waiting = item
                return []
            case AgentReply() as reply:
                open_task.shown += 1
                open_task.text, open_task.thinking = "", ""
        whole = _Reply(reply.text, reply.thinking, reply.media, [])
        return self._whole_reply(task, open_task.first + open_task.shown - 1, whole, open_task)

    def _tool(self, task: str, open_task: _Task, item: ToolStarted | ToolEnded) -> list[ChatEvent]:
        """Return the chat events of a tool call that has begun, or that has its result."""
        call = item.call
        id_ = _call_id(task, _Call(call.id, call.name, call.arguments), open_task)
        if isinstance(item, ToolStarted):  # not before, because until then a person may have to approve it
            step = f"{task}/{open_task.first + open_task.shown - 1}"
            return [] if open_task.has_gap else self._tool_called(task, step, id_, call.name, call.arguments)
        if item.error or id_ not in self._shown:  # shown at the commit
            return []
        return self._tool_returned(task, id_, item.text, _files_in(item.content), failed=False)

    def _void(self) -> list[ChatEvent]:
        """End the stream: what it showed is no longer valid."""
        self.over = True
        return [Withdrawn()]

    # -- parts -----------------------------------------------------------------------------------------------------

    def _task_began(self, task: str, node: str) -> list[ChatEvent]:
        """Begin a task, once."""
        if task in self._begun:
            return []
        self._begun[task] = node
        return [TaskBegan(task=task, node=node)]

    def _step_began(self, task: str, step: str) -> list[ChatEvent]:
        """Begin a step, once."""
        if f"{step}/step" in self._shown:
            return []
        self._shown[f"{step}/step"] = ""
        return [StepBegan(task=task, step=step)]

    def _step_ended(self, step: str) -> list[ChatEvent]:
        """End a step, once."""
        if f"{step}/step" not in self._shown or f"{step}/step" in self._ended:
            return []
        self._ended.add(f"{step}/step")
        return [StepEnded(step=step)]

    def _whole_reply(self, task: str, number: int, reply: _Reply, open_task: _Task) -> list[ChatEvent]:
        """Show the missing parts of a whole reply: reasoning, text, files and its tool calls."""
        chat_events = self._part(task, number, "reasoning", reply.thinking, whole=True)
        chat_events += self._part(task, number, "text", reply.text, whole=True)
        chat_events += self._files(task, f"{task}/{number}", reply.files)
        for call in reply.calls:
            chat_events += self._tool_called(
                task, f"{task}/{number}", _call_id(task, call, open_task), call.name, call.arguments
            )  # fmt: skip
        return chat_events

    def _part(self, task: str, number: int, kind: Kind, text: str, *, whole: bool = False) -> list[ChatEvent]:
        """Show the missing part of a text or of reasoning; *text* is its content so far, or, if *whole*, all of it."""
        step = f"{task}/{number}"
        part = f"{step}/{kind}"
        shown = self._shown.get(part)
        if part in self._ended or (not text and shown is None):
            return []
        if not text.startswith(shown or ""):
            return self._void()
        if shown is None and self._had:
            if whole and (kind, text) in self._had:
                self._had.remove((kind, text))
                self._ended.add(part)
                return []
            if not whole and any(kind == had_kind and had_text.startswith(text) for had_kind, had_text in self._had):
                return []  # it may turn out to be a text that the client has
        chat_events = self._step_began(task, step)
        if shown is None:
            chat_events.append(PartBegan(task=task, step=step, part=part, kind=kind))
        if text != shown and text:
            chat_events.append(PartAdded(part=part, kind=kind, text=text[len(shown or "") :]))
        self._shown[part] = text
        if whole:
            self._ended.add(part)
            chat_events.append(PartEnded(part=part, kind=kind))
        return chat_events

    def _files(self, task: str, step: str, files: tuple[MediaPart, ...]) -> list[ChatEvent]:
        """Show the files of a reply, each once."""
        chat_events: list[ChatEvent] = []
        for number, file in enumerate(files):
            id_ = f"{step}/file/{number}"
            if id_ in self._ended:
                continue
            self._ended.add(id_)
            if self._had_files and (url := file.data_url()) in self._had_files:
                self._had_files.remove(url)
                continue
            chat_events += [*self._step_began(task, step), FileMade(task=task, step=step, id=id_, file=file)]
        return chat_events

    def _tool_called(self, task: str, step: str, call: str, name: str, arguments: Any) -> list[ChatEvent]:
        """Show a tool call, once, in the step that made it."""
        if call in self._shown:
            return []
        self._shown[call] = name
        return [
            *self._step_began(task, step), ToolCalled(task=task, step=step, call=call, name=name, arguments=arguments)
        ]  # fmt: skip

    def _tool_returned(
        self, task: str, call: str, text: str, files: tuple[MediaPart, ...], *, failed: bool
    ) -> list[ChatEvent]:
        """Show the result of a tool call, once."""
        if f"{call}/output" in self._ended:
            return []
        self._ended.add(f"{call}/output")
        return [ToolReturned(task=task, call=call, text=text, failed=failed, files=files)]


def _closed_by(event: events.Event) -> tuple[str, ...]:
    """Return the ids of the questions that accept no answer any more after *event*."""
    match event:
        case events.InterruptWithdrawn(id=id_) | events.InterruptExpired(id=id_):
            return (id_,)
        case events.SuperstepAbandoned(interrupts=ids):
            return ids
        case _:
            return ()


def _of_thread(entry: Entry, id_: str) -> str:
    """Return the id under which a question is answered. The entries of a copied thread name the source thread."""
    return f"{entry.thread}/{id_.partition('/')[2]}"


def _valid(chat_events: list[ChatEvent]) -> list[ChatEvent]:
    """Return *chat_events* up to the event that withdraws the shown items, if any."""
    at = next((number for number, event in enumerate(chat_events) if isinstance(event, Withdrawn)), len(chat_events))
    return chat_events[: at + 1]


def _call_id(task: str, call: _Call, open_task: _Task) -> str:
    """Return the id of a tool call: the id of the question to a person about it, or a new id."""
    new_id = f"{task}/{call.id}"
    for approval in open_task.approvals:
        if approval.used in ("", call.id) and approval.name == call.name and approval.arguments == call.arguments:
            approval.used = call.id
            return approval.id
    return new_id


def _recorded(results: list[tuple[Any, str]], call: str, ids: Container[str]) -> tuple[Any, str]:
    """Take the recorded result of a call, and its key; None if it has none.

    Args:
        results: The results of its tool, in order.
        call: Id that the model gave the call.
        ids: Ids of all calls of the task. A result with another id is from an earlier attempt or a person.
    """
    by_id = (at for at, (result, _) in enumerate(results) if result.get("call") == call)
    of_others = (at for at, (result, _) in enumerate(results) if result.get("call") not in ids)
    at = next(chain(by_id, of_others), None)
    return (None, "") if at is None else results.pop(at)


def _reply_of(reply: Mapping[str, Any]) -> _Reply:
    """Parse a reply in stored form."""
    calls: list[_Call] = []
    for call in reply.get("tool_calls", ()):
        try:
            arguments: Any = json.loads(call["arguments"] or "{}")
        except ValueError:  # the model wrote invalid arguments
            arguments = call["arguments"]
        calls.append(_Call(call["id"], call["name"], arguments))
    parts: Any = reply.get("parts", ())
    text = "".join(part["text"] for part in parts if part["kind"] == "text")
    return _Reply(text, str(reply.get("thinking", "")), tuple(reply.get("media", ())), calls)


def _messages_in(updates: Iterable[Mapping[str, Any]], *classes: type) -> list[Any]:
    """Return the messages of the given *classes* in the lists of updates."""
    messages: list[Any] = []
    for update in updates:
        for value in update.values():
            if isinstance(value, list | tuple):
                messages += [item for item in cast("Iterable[Any]", value) if isinstance(item, classes)]
    return messages


def _result_of(result: Any) -> tuple[str, tuple[MediaPart, ...], bool]:
    """Return text, files and failure of a tool's result, from a message of the conversation or from the journal."""
    if isinstance(result, ToolMessage):
        return result.text, result.media, result.error
    if result is None:
        return "The call was not made.", (), True
    return str(result.get("text", "")), _files_in(result.get("content", ())), bool(result.get("error"))


def _files_in(content: Iterable[Any]) -> tuple[MediaPart, ...]:
    return tuple(part for part in content if isinstance(part, Image | Audio | Document))
