"""A question of a task: its data, its possible states, and the kinds of questions.

`questions` implements the state transitions. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from graphrt.commands import UNSET

OPEN, ANSWERED, USED, DISCARDED, WITHDRAWN = "open", "answered", "used", "discarded", "withdrawn"
"""States of a question."""


class Kind(NamedTuple):
    """Who asks a question, and who answers it."""

    people: bool = True
    """Whether a person answers it; `resume` accepts answers only to these."""
    policy: bool = False
    """Whether the node's policy asks it, not its code. The answer is not passed to code, and does not depend on the
    state."""


InterruptKind: TypeAlias = Literal[
    "question", "approval", "budget", "effect", "before", "after", "signal", "thread", "timer", "task"
]
"""The names in `KINDS`, as a type."""
TIMER, SIGNAL, THREAD, TASK, BEFORE, AFTER = "timer", "signal", "thread", "task", "before", "after"
KINDS: Final[Mapping[str, Kind]] = {
    "question": Kind(),  # `ctx.interrupt`, and an Interrupt that a node returns
    "approval": Kind(),  # a tool call of an agent
    "budget": Kind(),  # a model call beyond a budget
    "effect": Kind(),  # an effect with an unknown outcome, or with different arguments than before
    BEFORE: Kind(policy=True),  # `interrupt_before`
    AFTER: Kind(policy=True),  # `interrupt_after`
    TIMER: Kind(people=False),  # `ctx.sleep`: the clock
    SIGNAL: Kind(people=False),  # `ctx.receive`: a signal; the payload is its name
    THREAD: Kind(people=False),  # `ctx.wait`: the end of a child thread; the payload is its id
    TASK: Kind(people=False, policy=True),  # a node with a queue: the report of a worker; the payload is the queue
}
"""The kinds of questions."""
NOT_FOR_PEOPLE: Final = frozenset(name for name, kind in KINDS.items() if not kind.people)
"""Kinds of questions that are not answered by a person."""
ASKED_BY_CODE: Final = frozenset(name for name, kind in KINDS.items() if kind.people and not kind.policy)
"""Kinds of questions that a node, an agent or an effect asks a person."""
BY_TIMER, BY_DEFAULT, BY_EXPIRY, BY_THREAD = "timer", "default", "expiry", "thread"
"""Sources of an answer other than a person: the timer fired, the default was used, the question expired, or a child
thread ended."""
EXPIRED, FAILED_TASK, REWORDED, ENDED, EDITED = "expired", "failed-task", "reworded", "ended", "edited"
"""Reasons for a withdrawal or a discarded answer: no answer came in time; the answer was "fail", the task failed and
the thread was retried; the node asks with another payload; a worker reported the end of the task; the state was edited,
which a queued task has to see."""
QUEUE: Final = "queue"
"""Key of the question of a task that is left to a queue, without its version."""


@final
class OpenInterrupt:
    """A question that a task asked, its answer, and its end.

    A question with a user-defined *key* is identified by it. Any other question is identified by its ordinal within the
    task together with its *payload*, the data to show.
    """

    __slots__ = (
        "answer",
        "answer_logged",
        "answer_type",
        "answered",
        "asked",
        "by",
        "default",
        "end_logged",
        "expires_at",
        "id",
        "key",
        "kind",
        "logged_in",
        "newest",
        "node",
        "nth",
        "payload",
        "reason",
        "reworded",
        "stale",
        "state",
        "version",
    )

    def __init__(self, id: str, key: str, node: str, payload: Any, *, kind: str = "question", version: int = 1) -> None:
        self.id: str = id
        """Thread, task id and key: `thread/task#key`. Stable across re-execution."""
        self.key: str = key
        """Its identity within its task: the user's key, an ordinal, or a name such as `after`, followed by a colon and
        the version if that is above 1."""
        self.node: str = node
        """Name of the node that asked."""
        self.payload: Any = payload
        """Data to show to the person who answers; the latest payload while a keyed question is open."""
        self.kind: str = kind
        """One of `KINDS`."""
        self.version: int = version
        """Version of this question among those with the same `base`, from 1. A reworded question gets a new version."""
        self.answer_type: Any = None
        """Required type of the answer, in the codec's description; None for any answer."""
        self.expires_at: float | None = None
        """Time at which it answers itself, in seconds since the epoch; None if it waits forever."""
        self.default: Any = UNSET
        """The default answer at that time; UNSET if the node gets an error instead."""
        self.state: str = OPEN
        """OPEN, ANSWERED, USED, DISCARDED or WITHDRAWN."""
        self.reason: str = ""
        """Why it was withdrawn, or why its answer was discarded; else empty."""
        self.stale: bool = False
        """Whether the state was edited after it was asked. An answer is then used even if the node asks something
        else."""
        self.asked: bool = True
        """False if an entry answered it or recorded its end, but the entry that raised it has not been read yet."""
        self.answered: bool = False
        """Whether it has an answer."""
        self.answer: Any = None
        """The answer; only meaningful if `answered`."""
        self.by: str = ""
        """The source of the answer: empty for a person, else one of the `BY_` constants."""
        self.nth: int = 0
        """Ordinal of its answer among those of its task, from 1; 0 without an answer."""
        self.reworded: bool = False
        """Whether the payload had changed to `newest` when the node received the answer."""
        self.newest: Any = None
        """The payload with which the node received the answer, if it differs from `payload`; else None."""
        self.logged_in: frozenset[str] = frozenset()
        """Paths of the graphs whose entries contain it: the graph of the asking task and its enclosing graphs. Each
        writes one `InterruptRaised` when the run pauses."""
        self.answer_logged: bool = False
        """Whether the journal contains its answer."""
        self.end_logged: bool = False
        """Whether the journal contains the outcome of the answer, or the reason for the withdrawal."""

    @property
    def open(self) -> bool:
        """Whether it waits for an answer."""
        return self.state == OPEN

    @property
    def current(self) -> bool:
        """Whether an answer to it is valid: it was not withdrawn, and its answer was not discarded."""
        return self.state in (OPEN, ANSWERED, USED)

    @property
    def replaceable(self) -> bool:
        """Whether it has a valid answer from a person: `resume` may replace it if the task fails (R10).

        The answer to a question of the node's policy, such as `interrupt_before`, only lets the task continue.
        """
        return self.answered and self.current and not self.by and self.kind in ASKED_BY_CODE

    def elapsed(self, now_s: float) -> str:
        """Return the source of its answer at *now_s*, one of the `BY_` constants; empty if it is still waiting.

        Called when a thread is resumed or checked by a worker. BY_EXPIRY means that the node gets an error.
        """
        if self.expires_at is None or now_s < self.expires_at:
            return ""
        if self.kind == TIMER:
            return BY_TIMER
        return BY_EXPIRY if self.default is UNSET else BY_DEFAULT

    @property
    def static(self) -> bool:
        """Whether the node's policy asked it, not its code; see `Kind.policy`."""
        return self.kind in KINDS and KINDS[self.kind].policy

    @property
    def of_change(self) -> bool:
        """Whether it was asked because a call was repeated with other arguments (key `changed=<key of the record>`)."""
        return self.kind == "effect" and self.key.startswith("changed=")

    @property
    def base(self) -> str:
        """The key without the version: the same for all versions of one question."""
        return self.key if self.version == 1 else self.key.removesuffix(f":{self.version}")

    @property
    def task_id(self) -> str:
        """Id of the task that asked: `superstep.index:node`, preceded by the path of its graph if it is nested."""
        return task_of(self.id)


def task_of(id_: str) -> str:
    """Return the id of the task that asked the question *id_*. Thread ids contain no slash, and node names no `#`."""
    return id_.partition("/")[2].partition("#")[0]
