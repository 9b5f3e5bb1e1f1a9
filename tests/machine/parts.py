"""Parts of the model: entries, tasks and their questions, and the world outside a drive. Values, no rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from laws.description import Target
from laws.model import FailedError
from laws.model_fold import Failure, Task, Update

if TYPE_CHECKING:
    from .flow import Flow


class Entry(NamedTuple):
    """An event, its path, and its result."""

    kind: str
    path: str
    job: int | None = None
    data: Any = None


class Item(NamedTuple):
    """A task that is due; *rescues*: it handles a failure."""

    task: Task
    rescues: bool = False


@dataclass
class Question:
    """The question of a task: `id` without the thread."""

    id: str
    key: str
    node: str
    payload: Any
    typed: bool = False
    answered: bool = False
    answer: Any = None
    nth: int = 0
    """Number of its answer among those of its task."""
    base: str = ""
    """Its first key: a withdrawn question is asked again under a longer key."""
    stale: bool = False
    """The state was edited since it was asked."""
    closed: str = ""
    """The reason of its withdrawal."""
    fate: str = ""
    """The fate of the answer."""
    fate_told: bool = False
    told: set[str] = field(default_factory=set[str])
    """Paths of the graphs whose entries contain it."""

    @property
    def static(self) -> bool:
        """Asked by the policy of the node."""
        return self.key in ("before", "after")

    @property
    def open(self) -> bool:
        return not self.answered and not self.closed


@dataclass
class Job:
    """A task of the open superstep."""

    id: str
    item: Item
    status: str = "due"
    """due, paused, done, handled, failed."""
    attempt: int = 1
    untold: int = 0
    """Retries without an entry."""
    starts: dict[int, int] = field(default_factory=dict[int, int])
    results: dict[int, int] = field(default_factory=dict[int, int])
    loose: set[int] = field(default_factory=set[int])
    """Pure effects of the execution that runs: no result of theirs is stored before it ends (decision 0023)."""
    questions: list[Question] = field(default_factory=list[Question])
    answers_ahead: dict[str, Any] = field(default_factory=dict[str, Any])
    """Answers to a nested graph and to its node, by id."""
    updates: list[Update] = field(default_factory=list[Update])
    goto: tuple[Target, ...] | None = None
    known: bool = False
    """Its end is known: an `interrupt_after` releases it."""
    edited: bool = False
    """An edit from outside ended it."""
    dropped: bool = False
    """Its outcome was dropped, since it could not be folded, but its existence is known."""
    has_failed: bool = False
    """One of its failures was recorded, after which a retry may have made it due again."""
    answers: int = 0
    """Number of its answers."""
    heard: dict[int, int] = field(default_factory=dict[int, int])
    """Number of its answers when it started or performed an effect."""
    failures: tuple[Failure, ...] = ()
    child: Flow | None = None

    @property
    def ended(self) -> bool:
        return self.status in ("done", "handled")

    @property
    def touched(self) -> bool:
        """Whether any fact about it is known."""
        asked = any(question.answered or question.told or question.key != "before" for question in self.questions)
        known = self.results or self.starts or asked or self.dropped or self.has_failed or self.child is not None
        return self.status not in ("due", "paused") or self.attempt > 1 or bool(known)

    def open(self) -> list[Question]:
        return [question for question in self.questions if question.open]


@dataclass
class Outside:
    """The world outside a drive."""

    thread: str
    broken: set[str]
    cancels: set[str] = field(default_factory=set[str])
    """Nodes that cancel the run when they begin."""
    backwards: bool = False
    """Of the tasks that run, the last one ends next."""
    halted: bool = False
    done: Counter[str] = field(default_factory=Counter[str])
    stored: Callable[[], None] = lambda: None
    """Called wherever known facts become durable: all recorded entries, and the facts about tasks (R9, R11)."""
    keeps: bool = False
    """Whether the durable thread is saved each time."""
    kept: list[Any] = field(default_factory=list[Any])


class UndecidedError(FailedError):
    """The rules do not decide which of several conflicts is raised, and whose tasks run again: one of *choices*."""

    def __init__(self, choices: list[list[int]], *failures: Failure) -> None:
        super().__init__(*failures)
        self.choices = choices
