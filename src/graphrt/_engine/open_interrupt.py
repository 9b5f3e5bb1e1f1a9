"""A question that a task asked, with its answer and what became of it (R10).

A task that asks pauses, and its thread waits. When the question is answered, the node runs again from its start and
asks again; `questions` decides which question and answer match what it asks then. A question with a *key* is identified
by that key. Another one is identified by its ordinal inside the task together with its *payload*, the data to show.
"""

from __future__ import annotations

from typing import Any, Final, final

from graphrt.commands import UNSET

USED: Final = "used"
"""Value of `fate` for an answer that its node was given; any other fate says why the answer was discarded."""
EXPIRED: Final = "expired"
"""Reason for which a question is closed, or its answer discarded, when no answer came in time."""
FAILED_TASK: Final = "failed-task"
"""Reason for which the answer "fail" is discarded: the task failed as it says, and the thread was retried."""
TIMER: Final = "timer"
"""Kind of the question that `ctx.sleep` asks of the clock. No person can answer it."""
SIGNAL: Final = "signal"
"""Kind of the question that `ctx.receive` asks: a signal answers it."""
THREAD: Final = "thread"
"""Kind of the question that `ctx.wait` asks: the end of a child thread answers it. Its payload is that thread's id."""
TASK: Final = "task"
"""Kind of the question of a task that workers of a queue run: what they report closes it. The payload is the queue."""
NOT_FOR_PEOPLE: Final = frozenset({TIMER, SIGNAL, THREAD, TASK})
"""Kinds of questions that no person answers."""
BY_TIMER, BY_DEFAULT, BY_EXPIRY, BY_THREAD = "timer", "default", "expiry", "thread"
"""Sources of an answer that no person gave: the timer fired, the default was taken, the question expired, or a child
thread ended."""
STATIC: Final = ("before", "after")
"""Kinds of questions that the node's policy asks, and not its code; `task` is another one."""


@final
class OpenInterrupt:
    """A question that a task asked; it is open until it is answered or closed."""

    __slots__ = (
        "answer",
        "answer_type",
        "answered",
        "by",
        "closed",
        "default",
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
        """Thread, task id and key: `thread/task#key`. Stable over re-execution."""
        self.key: str = key
        """What identifies it inside its task: the user's key, an ordinal, or a name such as `after`. If its version is
        above 1, a colon and the version follow."""
        self.node: str = node
        """Name of the node that asked."""
        self.payload: Any = payload
        """Data to show to the person who answers; the newest one, while a keyed question is open."""
        self.kind: str = kind
        """`question`, `approval`, `budget`, `effect`, `before`, `after`, `timer`, `signal`, `thread` or `task`."""
        self.version: int = version
        """Number of this question among those with the same `base`, from 1: one that is worded anew is another one."""
        self.answer_type: Any = None
        """Type that the answer must have, as the codec describes types; None if any answer will do."""
        self.expires_at: float | None = None
        """Time at which it answers itself, in seconds since the epoch; None if it waits for ever."""
        self.default: Any = UNSET
        """The answer that it then gives itself; UNSET if its node gets an error instead."""
        self.stale: bool = False
        """Whether the state was edited after it was asked. An answer is then used whatever the node asks."""
        self.closed: str = ""
        """Reason why it takes no answer any more although it has none, such as `reworded`; empty while it is open."""
        self.answered: bool = False
        """Whether it has an answer."""
        self.answer: Any = None
        """The answer; only meaningful if `answered`."""
        self.by: str = ""
        """What answered it: empty for a person, else one of the `BY_` constants."""
        self.nth: int = 0
        """Number of its answer among those of its task, from 1; 0 without an answer."""
        self.fate: str = ""
        """`used`, or the reason why the answer was discarded; empty while that is not known."""
        self.fate_told: bool = False
        """Whether the journal says what became of the answer, or why the question was closed."""
        self.reworded: bool = False
        """Whether the payload had changed, to `newest`, when the node was given the answer."""
        self.newest: Any = None
        """The payload with which the node was given the answer, if it differs from `payload`; else None."""
        self.logged: bool = False
        """Whether the graph whose task asked has journalled it; else its event is logged when the run pauses."""
        self.told: frozenset[str] = frozenset()
        """Paths of enclosing graphs that have journalled it already, so that each writes one `InterruptRaised`."""

    @property
    def open(self) -> bool:
        """Whether it waits for an answer."""
        return not self.answered and self.current

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
        """Whether the node's policy asked it (`interrupt_before`, `interrupt_after`, `queue`), and not its code.

        No code of the node gets the answer, and nothing in the question depends on the state.
        """
        return self.kind in STATIC or self.kind == TASK

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
        return self.id.partition("/")[2].removesuffix(f"#{self.key}")  # ids of threads have no slash

    @property
    def current(self) -> bool:
        """Whether an answer to it counts: it is not closed, and no answer to it was discarded."""
        return not self.closed and self.fate in ("", USED)
