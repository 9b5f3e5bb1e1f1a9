"""Questions that tasks ask, and which answer belongs to which question (rule R10, matching).

A node that asked runs again from its start, maybe in another release, and asks again. What it asks now is compared here
with what was asked and answered before. Nothing pauses or goes on here: that is `pausing`'s.

Data: a task's questions stand in `Extra.interrupts` in the order in which they were first asked. One that is asked anew
is another question with the next version; the older ones stay, closed or with an answer that was discarded, so that
their ids are never used again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._codec import NotStorable
from graphrt._plan.fields import own

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Extra, Task

USED: Final = "used"
"""The fate of an answer that its node was given; any other is the reason why it was discarded."""


@final
class OpenInterrupt:
    """A question that a task asked; it stands until it is answered or closed."""

    __slots__ = (
        "answer",
        "answer_type",
        "answered",
        "closed",
        "expires_at",
        "fate",
        "fate_told",
        "id",
        "key",
        "kind",
        "logged",
        "newest",
        "node",
        "nth",
        "payload",
        "reworded",
        "stale",
        "told",
        "version",
    )

    def __init__(self, id: str, key: str, node: str, payload: Any, *, kind: str = "question", version: int = 1) -> None:
        self.id: str = id
        self.key: str = key
        """Ordinal or user's key inside the task, with the version if that is above 1."""
        self.node: str = node
        self.payload: Any = payload
        self.kind: str = kind
        self.version: int = version
        self.answer_type: Any = None
        """What the answer must be, as the codec describes types; None if anything will do."""
        self.expires_at: float | None = None
        """Seconds since the epoch; None if it waits for ever."""
        self.stale: bool = False
        """Whether the state was edited since it was asked: its answer counts, whatever the node asks then."""
        self.closed: str = ""
        """Why no answer is taken any more, though none was given; empty while it is open."""
        self.answered: bool = False
        self.answer: Any = None
        self.nth: int = 0
        """Number of its answer among those of its task, from 1."""
        self.fate: str = ""
        """What became of the answer: `used`, the reason why it was discarded, or empty while that is not known."""
        self.fate_told: bool = False
        """Whether the journal tells of the fate, or why it was closed."""
        self.reworded: bool = False
        """Whether the node asked with another payload, `newest`, when it was given the answer."""
        self.newest: Any = None
        self.logged: bool = False
        """Whether the entries of its own graph tell of it."""
        self.told: frozenset[str] = frozenset()
        """Paths of the graphs around it whose entries do."""

    @property
    def open(self) -> bool:
        """Whether it waits for an answer."""
        return not self.answered and self.current

    @property
    def static(self) -> bool:
        """Asked by interrupt_before or interrupt_after: any answer lets the run go on."""
        return self.kind in STATIC

    @property
    def base(self) -> str:
        """Its key without the version."""
        return self.key if self.version == 1 else self.key.removesuffix(f":{self.version}")

    @property
    def task_id(self) -> str:
        """The task that asked, of the graph that it is in."""
        return self.id.partition("/")[2].removesuffix(f"#{self.key}")

    @property
    def current(self) -> bool:
        """Whether its answer still counts, or would: it was neither closed nor discarded."""
        return not self.closed and self.fate in ("", USED)


STATIC: Final = ("before", "after")


def ask(
    engine: Engine, task: Task, name: str, payload: Any, answer_type: Any, *, keyed: bool, kind: str
) -> OpenInterrupt:
    """The question that stands for what *task* asks now: answered, still open, or new.

    Args:
        name: Key or ordinal of the question inside its task.
        answer_type: What the answer must be, as plain data.
        keyed: The name alone says which question it is, whatever its payload.
    """
    extra = task.more()
    version = 1
    last = next((q for q in reversed(extra.interrupts) if not q.static and q.base == name), None)
    if last is not None:
        if last.current:
            same = _same(engine, last.payload, payload)
            if last.answer_type == answer_type and (keyed or last.stale or same):
                if last.answered:
                    last.fate, last.reworded = USED, not same
                    last.newest = None if same else own(payload)
                elif keyed and not same:
                    last.payload, last.logged, last.told = own(payload), False, frozenset()
                return last
            if not last.answered:
                last.closed = "reworded"
            else:
                last.fate = "reworded" if last.answer_type == answer_type else "retyped"
        version = last.version + 1
    taken = {q.key for q in extra.interrupts}
    while (key := name if version == 1 else f"{name}:{version}") in taken:
        version += 1  # a user's key may look like a version of another one
    question = OpenInterrupt(
        f"{engine.interrupt_prefix(task)}{key}", key, task.node.name, own(payload), kind=kind, version=version
    )
    question.answer_type = answer_type
    extra.interrupts.append(question)
    return question


def _same(engine: Engine, one: Any, other: Any) -> bool:
    """Whether two payloads say the same: equal, or of equal bytes, as a NaN is that equals nothing."""
    with contextlib.suppress(Exception):  # `==` is user code; where it fails the bytes decide
        if one == other:
            return True
    dump = engine.plan.codec.dump
    try:
        return dump(one) == dump(other)
    except NotStorable:
        return False


def take_answer(extra: Extra, question: OpenInterrupt, answer: Any, *, nth: int, replace: bool) -> None:
    """Note the *answer* to *question*; it replaces an earlier one.

    Args:
        nth: Number of the answer, where an entry tells it: one that is told again changes nothing.
        replace: It is to replace the one that was given, if there is one.
    """
    if question.answered and nth <= question.nth and not replace:
        return
    if question.answered:
        question.fate, question.fate_told, question.reworded, question.newest = "", False, False, None
    question.nth = nth or extra.answers + 1
    extra.answers = max(extra.answers, question.nth)
    question.answered, question.answer = True, own(answer)


def returned_answer(extra: Extra) -> Any:
    """The answer to the last Interrupt that the node returned, which is used with this; None if there is none."""
    found = [question for question in extra.interrupts if question.answered and question.base.startswith("returned")]
    if not found:
        return None
    found[-1].fate = USED
    return own(found[-1].answer)


def replaceable(engine: Engine) -> list[tuple[Task, OpenInterrupt]]:
    """Answered questions of tasks that failed, with their tasks, those of nested graphs included: a new answer may help.

    Where no task failed, but what they came to could not be folded or routed, it may be the answer of any of them.
    """
    from graphrt._engine.task import DONE, HANDLED

    found: list[tuple[Task, OpenInterrupt]] = []
    if engine.held:
        return found  # they are folded
    # Not the status: what is staged of a failed task makes it due again.
    failed = [task for task in engine.tasks if task.status != HANDLED and task.extra and task.extra.failure is not None]
    for task in failed or engine.tasks:
        extra = task.extra
        if extra is None or task.status == HANDLED or (failed and task.status == DONE):
            continue
        if extra.child is not None:
            found += replaceable(extra.child)
        else:
            found += [(task, q) for q in extra.interrupts if q.answered and q.current and not q.static]
    return found


def all_questions(engine: Engine) -> Iterator[OpenInterrupt]:
    """All questions of the open superstep, answered and closed ones and those of nested graphs included."""
    yield from engine.after
    for task in engine.tasks:
        if task.extra is not None:
            yield from task.extra.interrupts
            if task.extra.child is not None:
                yield from all_questions(task.extra.child)


def effects_after(task: Task, question: OpenInterrupt) -> list[str]:
    """Keys of effects that *task* began or recorded after *question* was answered, as far as that is known."""
    extra = task.more()
    keys = [*extra.intents, *(key for key in extra.effects if key not in extra.intents)]
    found: list[str] = []
    for key in keys:
        answers = extra.effect_answers.get(key)
        if answers is None or not question.nth or answers >= question.nth:
            found.append(key)
    return found
