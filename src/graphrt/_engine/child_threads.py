"""Child threads, as the engine of their parent knows them (R24): which it has, and who of its tasks waits for one.

Ids are those without the tenant, which parent and children share: so they are the same whichever store, a tenant's or
the shared one, the process has that drives the thread. What a task was told of the end of a child is recorded as the
result of an effect, under a key that `outcome_key` makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphrt import events
from graphrt._engine.child_ids import is_child
from graphrt._engine.open_interrupt import THREAD

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Task

_OUTCOME: Final = "thread/"
"""What keys of outcomes begin with. Keys of `ctx.effect` end with a number after `#`, and no id of a thread has a `#`."""


def outcome_key(thread: str, retried: int) -> str:
    """Return the key under which a task records how *thread* ended, after the parent was retried so often."""
    return f"{_OUTCOME}{thread}#{retried}"


def heard(engine: RunState, key: str) -> None:
    """Note that a task recorded a result under *key*: a child whose end it was told is not cancelled any more."""
    if key.startswith(_OUTCOME):
        engine.forget_child(key[len(_OUTCOME) :].rpartition("#")[0])


def of_nested(engine: RunState, event: events.Event) -> None:
    """Apply what an entry of a nested graph says about child threads: they belong to the thread, and not to that graph."""
    if isinstance(event, events.ThreadStarted):
        have(engine, event)
    elif isinstance(event, events.EffectRecorded):
        heard(engine, event.key)


def started(task: Task, event: events.ThreadStarted) -> None:
    """Note on *task* that it starts a child thread. A row that was staged before the thread was made changes nothing."""
    known = task.more().threads.get(event.key)
    if known is None or known.thread != event.thread or not known.made:
        task.more().threads[event.key] = event
    have(task.engine, event)


def have(engine: RunState, event: events.ThreadStarted) -> None:
    """Note that the thread of *engine* has the child of *event*, unless that is the child of a thread it was copied from."""
    if not event.detached and is_child(engine.thread, event.thread):
        engine.start_child(event.thread)


def children_of(engine: RunState) -> tuple[str, ...]:
    """Return the child threads that are cancelled with the thread of *engine*, those of open nested graphs included."""
    found = dict(engine.children)
    for task in engine.tasks:
        if task.extra is not None and task.extra.child is not None:
            found.update(dict.fromkeys(children_of(task.extra.child)))
    return tuple(found)


def waiting_for(engine: RunState, thread: str | None = None) -> list[str]:
    """Return the ids of the open questions that wait for the child *thread*; None for those of any child."""
    return [
        question.id
        for question in engine.open_interrupts()
        if question.kind == THREAD and thread in (None, question.payload)
    ]
