"""The items of a chat, as events: the result of folding a journal, which each chat protocol encodes.

`conversation` explains their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from graphrt.events import Usage
from graphrt.harness.messages import MediaPart, UserMessage

__all__ = [
    "ChatEvent",
    "Emitted",
    "FileMade",
    "Kind",
    "Outcome",
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
    "path_of",
]

Kind: TypeAlias = Literal["text", "reasoning"]
Outcome: TypeAlias = Literal["success", "interrupted", "cancelled", "failed"]


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
    """Seconds since the epoch; None if it waits forever."""
    call: str = ""
    """Id of the tool call that needs an approval; empty for other questions."""
    tool: str = ""
    """Name of its tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegan:
    """A run began with an input, or continued after an end, a pause or a failure."""

    thread: str
    turn: str
    number: int
    """Counts the runs of the turn, from 0. A run that a worker hands over to another worker is one run."""
    seq: int
    """Number of the entry at which it began."""
    said: tuple[UserMessage, ...]
    """0..n messages of the user in the input; none if the run continues."""
    resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBegan:
    """A node began, or shows something for the first time."""

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
    """A part of the reply, text or reasoning, begins."""

    task: str
    step: str
    part: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAdded:
    """A text or reasoning was extended."""

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
    """A model made an image, audio or a document, which comes as a whole."""

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
    """An agent that is a tool replied. It is shown when its task commits, not live."""

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
    """For an approval; True for other questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """A node called `ctx.emit`. Such values are live only."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """A superstep that wrote fields of the state was committed."""

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
    """Maps the name of a model to the usage of its calls in this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """The shown items are no longer valid. Nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The client's part of the current turn.

    It may be more than the journal has: a paused task may have shown replies live.
    """

    texts: tuple[tuple[Kind, str], ...] = ()
    """Complete texts and reasonings, 0..n, in order."""
    calls: frozenset[str] = frozenset()
    """Ids of tool calls."""
    results: frozenset[str] = frozenset()
    """Ids of tool calls whose result it has."""
    files: tuple[str, ...] = ()
    """Files made by models, as `data:` URLs, 0..n, in order."""


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


def path_of(task: str) -> str:
    """Return the path of a task's nested graph: the id of the task that runs it; empty at the top."""
    return task.rpartition("/")[0]
