"""A question of a task: its data, the states that it can be in, and the kinds of questions.

`questions` moves it from state to state. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

from graphrt.commands import UNSET

OPEN, ANSWERED, USED, DISCARDED, WITHDRAWN = "open", "answered", "used", "discarded", "withdrawn"
"""States of a question."""


class Kind(NamedTuple):
    """What asks a question, and what answers it."""

    people: bool = True
    """Whether a person answers it; `resume` takes no answer to any other."""
    policy: bool = False
    """Whether the node's policy asks it, and not its code. No code gets the answer, and it depends on no state."""


TIMER, SIGNAL, THREAD, TASK, BEFORE, AFTER = "timer", "signal", "thread", "task", "before", "after"
KINDS: Final[Mapping[str, Kind]] = {
    "question": Kind(),  # `ctx.interrupt`, and an Interrupt that a node returns
    "approval": Kind(),  # a tool call of an agent
    "budget": Kind(),  # a model call beyond a budget
    "effect": Kind(),  # an effect with an unknown outcome, or with other arguments than before
    BEFORE: Kind(policy=True),  # `interrupt_before`
    AFTER: Kind(policy=True),  # `interrupt_after`
    TIMER: Kind(people=False),  # `ctx.sleep`: the clock
    SIGNAL: Kind(people=False),  # `ctx.receive`: a signal; the payload is its name
    THREAD: Kind(people=False),  # `ctx.wait`: the end of a child thread; the payload is its id
    TASK: Kind(people=False, policy=True),  # a node with a queue: the report of a worker; the payload is the queue
}
"""The kinds of questions."""
NOT_FOR_PEOPLE: Final = frozenset(name for name, kind in KINDS.items() if not kind.people)
"""Kinds of questions that no person answers."""
BY_TIMER, BY_DEFAULT, BY_EXPIRY, BY_THREAD = "timer", "default", "expiry", "thread"
"""Sources of an answer that no person gave: the timer fired, the default was taken, the question expired, or a child
thread ended."""
EXPIRED, FAILED_TASK, REWORDED, ENDED, EDITED = "expired", "failed-task", "reworded", "ended", "edited"
"""Reasons of a withdrawal or a discarded answer: no answer came in time; the answer was "fail", the task failed so, and
the thread was retried; the node asks with another payload; a worker has reported the end of the task; the state was
edited, which the task of a queue has to see."""
QUEUE: Final = "queue"
"""Key of the question of a task that is left to a queue, without its version."""


@final
class OpenInterrupt:
    """A question that a task asked, its answer, and what became of it.

    A question with a *key* of the user's is identified by that. Another one is identified by its ordinal inside the
    task together with its *payload*, the data to show.
    """

    __slots__ = (
        "answer",
        "answer_told",
        "answer_type",
        "answered",
        "asked",
        "by",
        "default",
        "end_told",
        "expires_at",
        "id",
        "key",
        "kind",
        "newest",
        "node",
        "nth",
        "payload",
        "reason",
        "reworded",
        "stale",
        "state",
        "told",
        "version",
    )

    def __init__(self, id: str, key: str, node: str, payload: Any, *, kind: str = "question", version: int = 1) -> None:
        self.id: str = id
        """Thread, task id and key: `thread/task#key`. Stable over re-execution."""
        self.key: str = key
        """What identifies it inside its task: the user's key, an ordinal, or a name such as `after`. If its version is
        above 1, a colon and the version follow."""
        self.node: str = node
        """Name of the node that asked."""
        self.payload: Any = payload
        """Data to show to the person who answers; the newest one, while a keyed question is open."""
        self.kind: str = kind
        """One of `KINDS`."""
        self.version: int = version
        """Number of this question among those with the same `base`, from 1: one that is worded anew is another one."""
        self.answer_type: Any = None
        """Type that the answer must have, as the codec describes types; None if any answer will do."""
        self.expires_at: float | None = None
        """Time at which it answers itself, in seconds since the epoch; None if it waits for ever."""
        self.default: Any = UNSET
        """The answer that it then gives itself; UNSET if its node gets an error instead."""
        self.state: str = OPEN
        """OPEN, ANSWERED, USED, DISCARDED or WITHDRAWN."""
        self.reason: str = ""
        """Why it was withdrawn, or why its answer was discarded; else empty."""
        self.stale: bool = False
        """Whether the state was edited after it was asked. An answer is then used whatever the node asks."""
        self.asked: bool = True
        """False if an entry answered it, or said what became of it, and the entry that raised it is not known yet."""
        self.answered: bool = False
        """Whether it has an answer."""
        self.answer: Any = None
        """The answer; only meaningful if `answered`."""
        self.by: str = ""
        """What answered it: empty for a person, else one of the `BY_` constants."""
        self.nth: int = 0
        """Number of its answer among those of its task, from 1; 0 without an answer."""
        self.reworded: bool = False
        """Whether the payload had changed, to `newest`, when the node was given the answer."""
        self.newest: Any = None
        """The payload with which the node was given the answer, if it differs from `payload`; else None."""
        self.told: frozenset[str] = frozenset()
        """Paths of the graphs whose entries have it: the graph whose task asked, and those around it. Each writes one
        `InterruptRaised` when the run pauses."""
        self.answer_told: bool = False
        """Whether the journal has its answer."""
        self.end_told: bool = False
        """Whether the journal says what became of the answer, or why the question was withdrawn."""

    @property
    def open(self) -> bool:
        """Whether it waits for an answer."""
        return self.state == OPEN

    @property
    def current(self) -> bool:
        """Whether an answer to it counts: it was not withdrawn, and no answer to it was discarded."""
        return self.state in (OPEN, ANSWERED, USED)

    def elapsed(self, now_s: float) -> str:
        """Return what answers it at the time *now_s*, as one of the `BY_` constants; empty if it waits on.

        Asked when a thread is resumed or looked at by a worker. BY_EXPIRY means that the node gets an error.
        """
        if self.expires_at is None or now_s < self.expires_at:
            return ""
        if self.kind == TIMER:
            return BY_TIMER
        return BY_EXPIRY if self.default is UNSET else BY_DEFAULT

    @property
    def static(self) -> bool:
        """Whether the node's policy asked it, and not its code; see `Kind.policy`."""
        return self.kind in KINDS and KINDS[self.kind].policy

    @property
    def of_change(self) -> bool:
        """Whether a call was repeated with other arguments (`changed=` and the key of its record), and asked it."""
        return self.kind == "effect" and self.key.startswith("changed=")

    @property
    def base(self) -> str:
        """The key without the version: the same for all wordings of one question."""
        return self.key if self.version == 1 else self.key.removesuffix(f":{self.version}")

    @property
    def task_id(self) -> str:
        """Id of the task that asked, `superstep.index:node`, after the path of its graph if that is nested."""
        return task_of(self.id)


def task_of(id_: str) -> str:
    """Return the id of the task that asked the question *id_*; ids of threads have no slash, names of nodes no `#`."""
    return id_.partition("/")[2].partition("#")[0]
