"""Polls a thread that any process may drive: decides when it is settled, and how often to poll.

A process observes another process's work on a thread by polling the store (R20).

A thread that paused has open questions, each of a kind: TIMER (`ctx.sleep`) is answered by the clock, THREAD by the end
of a child thread, TASK by a worker of a queue, and most others by a person. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final, TypeAlias
from weakref import WeakSet

from graphrt._engine.open_interrupt import SIGNAL, TASK, THREAD, TIMER
from graphrt._runs.answers import moment_text
from graphrt._runs.arguments import check_number
from graphrt._runs.loading import the_store
from graphrt._runs.mail import moves
from graphrt._runs.run_config import RunConfig
from graphrt.errors import count
from graphrt.errors._codes.threads import UNKNOWN_ENTRY
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Head

Call: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Makes a call that may block, off the event loop."""

SHORTEST_S: Final = 0.005
_LONGEST_S: Final = 0.125
"""Seconds between two polls of a thread. They grow from the shortest to the longest while nothing happens."""
_GROWTH: Final = 1.2
"""Factor by which each pause is longer than the one before: a wait ends at most a fifth later than it could."""
_RESTING_LOOKS: Final = 400
"""Polls per second shared by all resting readers of a process (decision 0255). With up to 50 readers, this has no
effect."""


class Pauses:
    """Lengths of the pauses between polls of a store, in seconds; short again after something has happened.

    A reader *rests* once its pauses reach their full length. The more readers of the process rest, the longer each
    waits.
    """

    __slots__ = ("__weakref__", "_next_s")

    def __init__(self) -> None:
        self._next_s = SHORTEST_S

    def again(self, shortest_s: float = SHORTEST_S) -> None:
        """Record that something happened, so that the next pause takes *shortest_s* seconds."""
        self._next_s = shortest_s
        _resting.discard(self)

    def next_s(self) -> float:
        """Return the length of the next pause, and lengthen the one after it."""
        pause_s = self._next_s
        if pause_s >= _LONGEST_S:
            _resting.add(self)
            return max(pause_s, len(_resting) / _RESTING_LOOKS)
        self._next_s = longer(pause_s)
        return pause_s


_resting: Final = WeakSet[Pauses]()
"""The resting readers of this process."""


def longer(pause_s: float) -> float:
    """Return the length of the pause after one without news."""
    return min(pause_s * _GROWTH, _LONGEST_S)


def is_settled(head: Head) -> bool:
    """Return whether the last run has ended and released the thread. A "new" thread is claimed for its first entry."""
    return head.status not in ("running", "new") and not head.owned


def is_over(store: Store, head: Head) -> bool:
    """Return whether a thread is settled, and will not continue by itself.

    That would be mail from another process (R22), a timer (R23), the end of a child thread (R24), or a worker of a
    queue, which runs a task of the thread (R27).
    """
    if not is_settled(head) or waits_for(store, head) or moves(store, head):
        return False
    # *head* was read first: a driver may have taken what the thread waited for since then, and continued.
    return store.head(head.thread) == head


def waits_for(store: Store, head: Head) -> str:
    """Return, for people, what makes a paused thread continue by itself; empty if it waits for a person, or has ended.

    A store without an inbox does not know: there every paused thread looks like one that waits for a person.
    """
    if head.status != "interrupted" or "labels" not in store.offers:
        return ""
    questions = [question for question in store.questions(head.thread) if question.kind != SIGNAL]  # listed or not
    times = [
        question.expires_at for question in questions if question.kind == TIMER and question.expires_at is not None
    ]
    children = sum(question.kind == THREAD for question in questions)
    tasks = sum(question.kind == TASK for question in questions)
    # A task that a queue runs continues even if the thread waits for something else. Without one, a single question
    # that neither a time nor a child answers is for a person, and the thread waits for that too.
    if not tasks and len(times) + children < len(questions):
        return ""
    reasons = [f"it sleeps until {moment_text(min(times))}"] if times else []
    if children:
        reasons.append(f"it waits for {count(children, 'child thread')}, which a Worker may have to drive")
    if tasks:
        reasons.append(f"workers of queues have not run {count(tasks, 'task')} of it: does a Worker serve their queue?")
    return "; ".join(reasons)


def answers_itself(store: Store, head: Head, *, by: float = inf) -> bool:
    """Return whether a question of a paused thread answers itself before the time *by*, in seconds since the epoch.

    A timer does, and a question with an expiry.
    """
    if head.status != "interrupted" or "labels" not in store.offers:
        return False
    times = (question.expires_at for question in store.questions(head.thread))
    return any(time is not None and time < by for time in times)


def check_position(config: RunConfig, thread: str, after: int) -> None:
    """Check that the thread exists and has had the entry *after*.

    Raises:
        InputError: There is no such thread, or *after* lies beyond its end.
    """
    store = the_store(config)
    check_number("after", after)
    head = store.head(check_id(thread))
    if after > head.seq:
        raise UNKNOWN_ENTRY(
            thread=thread,
            seq=after,
            first=head.first,
            last=head.seq,
            wanted="the last entry that you have of this thread, or 0 for its beginning",
        )
