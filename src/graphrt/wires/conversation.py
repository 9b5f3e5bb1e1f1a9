"""What a chat shows of a thread: one fold of its journal, which every protocol of chats spells.

`Conversation` takes entries in order, and live items between them, and returns *chat events*: a run began, a model wrote
text, a tool was called, a question was asked. `ui_messages` and `ag_ui` turn each into what their protocol has for it.

The committed layer is a left fold over entries: each adds 0..n events, so the events of a prefix are a prefix of the
events, in any process. What a task's models wrote is journalled with its end, and is shown then, in one piece, as are the
results of its tools. Replies of attempts that failed are left out.

Live items lie over it. They show the same parts, under the same ids, piece by piece; what they have shown is not shown
again at the commit. If an attempt is withdrawn, or something else was committed than was shown, `Withdrawn` ends the
stream, and the next connection gets everything anew under the same ids.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast, final

from graphrt import events
from graphrt.events import Entry, Usage
from graphrt.harness.agent.events import ToolEnded, ToolStarted
from graphrt.harness.media import Audio, Document, Image
from graphrt.harness.messages import AssistantMessage, MediaPart, ToolMessage, UserMessage
from graphrt.harness.protocol import AgentReply, TextDelta, ThinkingDelta

__all__ = [
    "ChatEvent",
    "Conversation",
    "Emitted",
    "FileMade",
    "PartAdded",
    "PartBegan",
    "PartEnded",
    "Question",
    "QuestionAnswered",
    "QuestionAsked",
    "RunBegan",
    "RunEnded",
    "Seen",
    "StateChanged",
    "StepBegan",
    "StepEnded",
    "SubagentReplied",
    "TaskBegan",
    "TaskEnded",
    "ToolCalled",
    "ToolDenied",
    "ToolReturned",
    "Withdrawn",
    "last_input",
    "line",
    "path_of",
]

Kind: TypeAlias = Literal["text", "reasoning"]
Outcome: TypeAlias = Literal["success", "interrupted", "cancelled", "failed"]
_TOOL: Final = "tool/"
"""How the keys of tool calls begin, and those of what an agent inside a tool does."""
_BY_THEMSELVES: Final = ("timer", "thread", "task")
"""Kinds of questions that a clock, a child thread or a worker answers: the run goes on without the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An open question that a person can answer, or a signal that the run waits for."""

    id: str
    kind: str
    """As `InterruptInfo.kind`."""
    node: str
    task: str
    payload: Any
    expires_at: float | None
    """Seconds since the epoch; None if it waits for ever."""
    call: str = ""
    """Id of the tool call that waits for an approval; empty for other questions."""
    tool: str = ""
    """Name of its tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegan:
    """A run began with an input, or went on after it had ended, paused or failed."""

    thread: str
    turn: str
    number: int
    """Counts the runs of the turn, from 0. A run that a worker hands over to another one is one run."""
    seq: int
    """Number of the entry at which it began."""
    said: tuple[UserMessage, ...]
    """0..n messages of the user in the input; none if the run goes on."""
    resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBegan:
    """A node shows something for the first time, or has begun."""

    task: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnded:
    """A task is committed."""

    task: str
    node: str
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBegan:
    """A reply of a model begins."""

    task: str
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded:
    """A reply of a model is complete, with the results of its tools."""

    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBegan:
    """A text or reasoning begins."""

    task: str
    step: str
    part: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAdded:
    """A text or reasoning grew."""

    part: str
    kind: Kind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEnded:
    """A text or reasoning is complete."""

    part: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMade:
    """A model made an image, audio or a document. It comes whole."""

    task: str
    step: str
    id: str
    file: MediaPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """A model called a tool."""

    task: str
    step: str
    call: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """A tool call has its result, a text for the model, perhaps with files."""

    task: str
    call: str
    text: str
    failed: bool
    files: tuple[MediaPart, ...] = ()
    """0..n images, audio and documents of the result, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDenied:
    """A person refused a tool call."""

    task: str
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentReplied:
    """An agent that is a tool replied. It is shown at the commit of its task, and not live."""

    task: str
    call: str
    """The tool call that it answers."""
    agent: str
    replies: tuple[tuple[str, str], ...]
    """Text and reasoning of 1..n replies, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """The run asks a person."""

    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered:
    """A question has its answer."""

    question: Question
    approved: bool
    """Of an approval; True for other questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """A node called `ctx.emit`. Such values are live alone."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """A superstep was committed that wrote fields of the state."""

    seq: int
    wrote: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run ended or paused."""

    outcome: Outcome
    seq: int
    questions: tuple[Question, ...] = ()
    """1..n open questions of a run that was interrupted."""
    error: str = ""
    """Name of the class of the error that failed the run. The error's text may quote the state."""
    usage: Mapping[str, Usage]
    """Name of a model to what its calls used in this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """What was shown does not hold any more. Nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a client has of the present turn. It may be more than the journal: a task that paused has shown replies live."""

    texts: tuple[tuple[Kind, str], ...] = ()
    """0..n whole texts and reasonings, in order."""
    calls: frozenset[str] = frozenset()
    """Ids of tool calls."""
    results: frozenset[str] = frozenset()
    """Ids of tool calls whose result it has."""
    files: tuple[str, ...] = ()
    """0..n files that models made, as `data:` URLs, in order."""


ChatEvent: TypeAlias = (
    RunBegan
    | TaskBegan
    | TaskEnded
    | StepBegan
    | StepEnded
    | PartBegan
    | PartAdded
    | PartEnded
    | FileMade
    | ToolCalled
    | ToolReturned
    | ToolDenied
    | SubagentReplied
    | QuestionAsked
    | QuestionAnswered
    | Emitted
    | StateChanged
    | RunEnded
    | Withdrawn
)
"""Something that a chat shows."""


def last_input(entries: Iterable[Entry]) -> int | None:
    """Return the position of the last entry with an input, at which the present turn begins; None if there is none."""
    found = None
    for entry in entries:
        if isinstance(entry.event, events.RunStarted) and not entry.path:
            found = entry.seq
    return found


def line(data: Any) -> str:
    """Return data as a server-sent event, on one line of ASCII."""
    return f"data: {json.dumps(data, separators=(',', ':'), allow_nan=False)}\n\n"


def path_of(task: str) -> str:
    """Return the path of a task's nested graph: the id of the task that runs it; empty at the top."""
    return task.rpartition("/")[0]


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
    """A tool call that a person is asked about. It comes before the reply that made it is journalled."""

    __slots__ = ("arguments", "id", "name", "used")

    def __init__(self, name: str, arguments: Any, id: str) -> None:
        self.name = name
        self.arguments = arguments
        self.id = id
        self.used = ""
        """Id that the model gave the call; empty until its reply is known."""


class _Task:
    """What is known of a task that has not ended."""

    def __init__(self) -> None:
        self.first = 0
        """Number of its first reply: above 0 if replies of it were shown before it failed."""
        self.replies: list[_Reply] = []
        self.failed_attempts = 0
        """Attempts of the task that failed after model calls. Replies before the last one of them do not count."""
        self.results: defaultdict[str, list[tuple[Any, str]]] = defaultdict(list)
        """Name of a tool to the recorded results of its calls, in order, each with its key."""
        self.inner: defaultdict[str, list[_Reply]] = defaultdict(list)
        """Key of a tool call to the replies of the agent that is the tool."""
        self.approvals: list[_Approval] = []
        self.shown = 0
        """Replies that live items have shown to their end."""
        self.text = ""
        """What live items have shown of the next reply; likewise `thinking`."""
        self.thinking = ""
        self.has_gap = False
        """Whether live items of the next reply are missing, so that its text waits for its end."""
        self.is_dirty = False
        """Whether live items of this execution were shown."""


@final
class Conversation:
    """The chat events of a thread: feed it entries in order from an input on, and live items between them."""

    def __init__(self) -> None:
        self.over: bool = False
        """Whether the stream has to end, because what it showed does not hold any more."""
        self.began_at: int = 0
        """Number of the entry at which the present or last run began or went on; 0 before the first."""
        self._turn = ""
        self._runs = 0
        """Runs of the turn that began."""
        self._is_running = False
        self._usage: dict[str, Usage] = {}
        self._tasks: defaultdict[str, _Task] = defaultdict(_Task)
        self._begun: dict[str, str] = {}
        """Task that has begun and not ended to its node."""
        self._questions: dict[str, Question] = {}
        self._shown: dict[str, str] = {}
        """Part to what was shown of it."""
        self._ended: set[str] = set()
        """Parts that are complete."""
        self._has_gaps = False
        """Whether live items of the open superstep are missing, so that a task that is new here may have begun before."""
        self._had: list[tuple[Kind, str]] = []
        """Texts that the client has of an earlier stream, and that did not come here yet; likewise `_had_files`."""
        self._had_files: list[str] = []

    def had(self, seen: Seen) -> None:
        """Do not show what the client has *seen* of the present turn. Call it before the first entry."""
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
            case events.RunStarted(input=given) if not entry.path:
                self._questions.clear()
                found = self._run_ended(entry, "cancelled") if self._is_running else []  # it was abandoned
                self._turn, self._runs = f"{entry.thread}:{entry.seq}", 0
                return found + self._run_began(entry, tuple(_messages_in([given], UserMessage)), resumed=False)
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
            case events.InterruptRaised() as asked if not entry.path:  # inside, it is raised once more when it is used
                return self._asked(asked, entry.thread or "")
            case events.InterruptAnswered(id=id_, answer=answer):
                return self._answered(id_, answer)
            case event:
                return [] if entry.path else self._at_boundary(entry, event)
        return []

    def _run_began(self, entry: Entry, said: tuple[UserMessage, ...], *, resumed: bool) -> list[ChatEvent]:
        self._is_running, self.began_at = True, entry.seq
        number, self._runs = self._runs, self._runs + 1
        thread, turn, seq = entry.thread or "", self._turn, entry.seq
        return [RunBegan(thread=thread, turn=turn, number=number, seq=seq, said=said, resumed=resumed)]

    def _at_boundary(self, entry: Entry, event: events.Event) -> list[ChatEvent]:
        """Return the chat events of a commit of the outermost graph, or of the end of a run."""
        match event:
            case events.SuperstepCommitted(wrote=wrote):
                self._has_gaps = False
                return [StateChanged(seq=entry.seq, wrote=wrote)] if wrote else []
            case events.RunCompleted():
                return self._run_ended(entry, "success")
            case events.RunInterrupted(interrupts=ids):
                questions = tuple(self._questions[id_] for id_ in ids if id_ in self._questions)
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
        known = self._tasks[replied.task]
        if replied.failed_attempts > known.failed_attempts:  # the replies before are of no use any more
            known.replies.clear()
            known.inner.clear()
            known.failed_attempts = replied.failed_attempts
        if replied.key.startswith(_TOOL):
            name, digest = [*replied.key.split("/", 3), "", ""][1:3]
            known.inner[f"{_TOOL}{name}/{digest}"].append(_reply_of(replied.reply))
        else:
            known.replies.append(_reply_of(replied.reply))

    def _task_ended(self, task: str, node: str, said: list[Any], *, failed: bool) -> list[ChatEvent]:
        """Return what is not shown yet of a task that has ended: its replies, the results of its tools, its messages.

        Args:
            task: Id of the task.
            node: Name of its node.
            said: Messages in its update. Those of a conversation have the results of all its tool calls.
            failed: Whether it failed.
        """
        known = self._tasks.pop(task, None) or _Task()
        results = {one.tool_call_id: one for one in said if isinstance(one, ToolMessage)}
        found = self._task_began(task, node)
        for number, reply in enumerate(known.replies, known.first):
            found += self._whole_reply(task, number, reply, known)
            for call in reply.calls:
                recorded, key = _recorded(known, call)
                text, files, is_error = _result_of(results.get(call.id) or recorded)
                id_ = _call_id(task, call, known)
                if known.inner[key]:
                    replies = tuple((one.text, one.thinking) for one in known.inner.pop(key))
                    found.append(SubagentReplied(task=task, call=id_, agent=call.name, replies=replies))
                found += self._tool_returned(task, id_, text, files, failed=is_error)
            found += self._step_ended(f"{task}/{number}")
        texts = {(reply.text, () if reply.text else reply.files) for reply in known.replies}
        own = [
            one for one in said
            if isinstance(one, AssistantMessage) and (one.text or one.media)
            and (one.text, () if one.text else one.media) not in texts
        ]  # fmt: skip
        for number, one in enumerate(own, known.first + len(known.replies)):  # what the node says itself
            found += self._whole_reply(task, number, _Reply(one.text, "", one.media, []), known)
            found += self._step_ended(f"{task}/{number}")
        if failed:  # it may run again, under the same id, and then shows other replies
            self._tasks[task].first = known.first + len(known.replies)
        self._begun.pop(task, None)
        return [*found, TaskEnded(task=task, node=node, failed=failed)]

    def _asked(self, asked: events.InterruptRaised, thread: str) -> list[ChatEvent]:
        """Return the chat events of a question."""
        if asked.kind in _BY_THEMSELVES or asked.id in self._questions:
            return []
        # A question of a nested graph is raised for the task that runs it; its id has the whole path.
        inside = asked.id.removeprefix(f"{thread}/").partition("#")[0]
        task = inside if inside.startswith(f"{asked.task}/") else asked.task
        payload: Any = asked.payload
        call = tool = ""
        found = self._task_began(task, asked.node)
        if asked.kind == "approval" and payload.__class__ is dict and "tool" in payload:
            call, tool = f"{task}/{asked.key}", str(payload["tool"])
            known = self._tasks[task]
            if all(one.id != call for one in known.approvals):
                known.approvals.append(_Approval(tool, payload.get("arguments"), call))
            found += self._tool_called(task, task, call, tool, payload.get("arguments"))
        question = Question(
            id=asked.id, kind=asked.kind, node=asked.node, task=task, payload=payload,
            expires_at=asked.expires_at, call=call, tool=tool,
        )  # fmt: skip
        self._questions[asked.id] = question
        return found if asked.kind == "signal" else [*found, QuestionAsked(question=question)]

    def _answered(self, id_: str, answer: Any) -> list[ChatEvent]:
        question = self._questions.pop(id_, None)
        if question is None or question.kind == "signal":
            return []
        given: Any = answer
        approved = not question.call or bool(given.get("approve") if hasattr(given, "get") else given)
        found: list[ChatEvent] = [QuestionAnswered(question=question, approved=approved)]
        if not approved:
            self._ended.add(f"{question.call}/output")
            found.append(ToolDenied(task=question.task, call=question.call))
        return found

    # -- the live layer --------------------------------------------------------------------------------------------

    def live(self, mode: str, item: Any, missed: int = 0) -> list[ChatEvent]:
        """Return the chat events of a live item of a stream mode. *missed*: items before it that did not arrive."""
        return _valid(self._live(mode, item, missed))

    def _live(self, mode: str, item: Any, missed: int) -> list[ChatEvent]:
        if missed:  # they may be of tasks that are not known yet, too
            self._has_gaps = True
            for known in self._tasks.values():
                known.has_gap = True
        if mode == "custom":
            return [Emitted(value=item)]
        task = str(item.task_id)
        if task not in self._tasks:
            self._tasks[task].has_gap = self._has_gaps
        if mode == "live":
            if item.what in ("withdrawn", "retrying") and self._tasks[task].is_dirty:
                return self._void()
            if item.what == "started":  # it runs again from its beginning, and shows its earlier replies again
                known = self._tasks[task]
                known.shown, known.text, known.thinking, known.is_dirty = 0, "", "", False
                return self._task_began(task, item.node)
            return []
        found = self._piece(task, item.item)
        self._tasks[task].is_dirty |= bool(found)
        return found

    def _piece(self, task: str, item: Any) -> list[ChatEvent]:
        """Return the chat events of a piece of a reply. What an agent inside a tool says waits for the commit."""
        known = self._tasks[task]
        number = known.first + known.shown
        match item:
            case TextDelta(text=text) if not known.has_gap:
                known.text += text
                return self._part(task, number, "text", known.text)
            case ThinkingDelta(text=text) if not known.has_gap:
                known.thinking += text
                return self._part(task, number, "reasoning", known.thinking)
            case AgentReply(text=text, thinking=thinking, media=media):
                known.shown += 1
                known.text, known.thinking, known.has_gap = "", "", False
                return self._whole_reply(task, number, _Reply(text, thinking, media, []), known)
            case ToolStarted(call=call):  # not before: until then it may turn out that a person is asked
                made = _Call(call.id, call.name, call.arguments)
                step = f"{task}/{number - 1}"
                return self._tool_called(task, step, _call_id(task, made, known), call.name, call.arguments)
            case ToolEnded(call=call) if not item.error:
                ended = _Call(call.id, call.name, call.arguments)
                files = _files_in(item.content)
                return self._tool_returned(task, _call_id(task, ended, known), item.text, files, failed=False)
            case _:
                return []

    def _void(self) -> list[ChatEvent]:
        """End the stream: what it showed does not hold any more."""
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

    def _whole_reply(self, task: str, number: int, reply: _Reply, known: _Task) -> list[ChatEvent]:
        """Show what is missing of a whole reply: reasoning, text, files and its tool calls."""
        found = self._part(task, number, "reasoning", reply.thinking, whole=True)
        found += self._part(task, number, "text", reply.text, whole=True)
        found += self._files(task, f"{task}/{number}", reply.files)
        for call in reply.calls:
            found += self._tool_called(
                task, f"{task}/{number}", _call_id(task, call, known), call.name, call.arguments
            )  # fmt: skip
        return found

    def _part(self, task: str, number: int, kind: Kind, text: str, *, whole: bool = False) -> list[ChatEvent]:
        """Show what is missing of a text or of reasoning: *text* is all of it so far, or the *whole*."""
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
            if not whole and any(kind == one and had.startswith(text) for one, had in self._had):
                return []  # it may become a text that the client has
        found = self._step_began(task, step)
        if shown is None:
            found.append(PartBegan(task=task, step=step, part=part, kind=kind))
        if text != shown and text:
            found.append(PartAdded(part=part, kind=kind, text=text[len(shown or "") :]))
        self._shown[part] = text
        if whole:
            self._ended.add(part)
            found.append(PartEnded(part=part, kind=kind))
        return found

    def _files(self, task: str, step: str, files: tuple[MediaPart, ...]) -> list[ChatEvent]:
        """Show the files of a reply, each once."""
        found: list[ChatEvent] = []
        for number, file in enumerate(files):
            id_ = f"{step}/file/{number}"
            if id_ in self._ended:
                continue
            self._ended.add(id_)
            if self._had_files and (url := file.data_url()) in self._had_files:
                self._had_files.remove(url)
                continue
            found += [*self._step_began(task, step), FileMade(task=task, step=step, id=id_, file=file)]
        return found

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


def _valid(found: list[ChatEvent]) -> list[ChatEvent]:
    """Return *found* up to the event that withdraws what was shown, if there is one."""
    at = next((number for number, one in enumerate(found) if isinstance(one, Withdrawn)), len(found))
    return found[: at + 1]


def _call_id(task: str, call: _Call, known: _Task) -> str:
    """Return the id of a tool call: that under which a person was asked about it, or one of its own."""
    own = f"{task}/{call.id}"
    for one in known.approvals:
        if one.used in ("", call.id) and one.name == call.name and one.arguments == call.arguments:
            one.used = call.id
            return one.id
    return own


def _recorded(known: _Task, call: _Call) -> tuple[Any, str]:
    """Take the recorded result of a call, and its key; None if it has none."""
    results = known.results[call.name]
    return results.pop(0) if results else (None, "")


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
    return _Reply(text, str(reply.get("thinking", "")), tuple(reply.get("media", ())), calls)


def _messages_in(updates: Iterable[Mapping[str, Any]], *classes: type) -> list[Any]:
    """Return the messages of *classes* in the lists of updates."""
    found: list[Any] = []
    for update in updates:
        for value in update.values():
            if isinstance(value, list | tuple):
                found += [one for one in cast("Iterable[Any]", value) if isinstance(one, classes)]
    return found


def _result_of(found: Any) -> tuple[str, tuple[MediaPart, ...], bool]:
    """Return text, files and failure of a tool's result, as a message of the conversation or as the journal has it."""
    if isinstance(found, ToolMessage):
        return found.text, found.media, found.error
    if found is None:
        return "The call was not made.", (), True
    return str(found.get("text", "")), _files_in(found.get("content", ())), bool(found.get("error"))


def _files_in(content: Iterable[Any]) -> tuple[MediaPart, ...]:
    return tuple(one for one in content if isinstance(one, Image | Audio | Document))
