"""Child threads from the point of view of the parent's engine (R24): which exist, and which tasks wait for one.

A node starts a child with `ctx.start` and waits for its end with `ctx.wait`. `RunState.children` is the set of children
that are cancelled together with the thread and are not known to have ended. The set is folded from the journal:
`ThreadStarted` adds a child, and the recorded outcome of a child removes it. `ctx.wait` records that outcome as the
result of an effect, under a key that `outcome_key` makes, so that every later execution sees the same one.

The id of a child is derived from its parent's id and the task that starts it:

    <id of the parent>.<label>-<digest>        order-7.mail-0123456789abcdef

The label is readable, and the digest identifies the task and the call. So a repeated execution of the node finds the
child that it started, and the id alone identifies the parent. A copy or fork of a thread has a different id, so it is
not the parent of its source's children.

Ids are without the tenant, which parent and children share; in a store that tenants share, ids begin with the tenant and
`~`. So they are the same for a process that uses the tenant's store and for one that uses the store of all tenants. For
the terms, see docs/glossary.md.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from graphrt import events
from graphrt._engine.open_interrupt import THREAD

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Task

_OUTCOME: Final = "thread/"
"""Prefix of the keys of outcomes, followed by the child's id, a slash and a number. The key of a node's own effect
(`name#n`) contains a `#`, which thread ids cannot, so the effects of a node never collide with outcomes."""


def outcome_key(thread: str, retried: int) -> str:
    """Return the key of the effect under which a task records how the child *thread* ended.

    Args:
        retried: How often the parent was retried after this task had failed (`Extra.retried`). It is part of the key,
            because a failed child may have been fixed in the meantime: after a retry, the task reads its outcome again.
    """
    return f"{_OUTCOME}{thread}/{retried}"


def heard(engine: RunState, key: str) -> None:
    """Process the recorded result of the effect *key*; `evolve` calls this for every recorded effect.

    If it is the outcome of a child, the child has ended and no longer needs to be cancelled with the thread.
    """
    if key.startswith(_OUTCOME) and "#" not in key:
        engine.forget_child(key[len(_OUTCOME) :].rpartition("/")[0])


def of_nested(engine: RunState, event: events.Event) -> None:
    """Apply the child threads in an entry of a nested graph to *engine*, the engine of the outermost graph.

    `evolve` skips everything else in such entries, but children belong to the thread and not to the graph that started
    them.
    """
    if isinstance(event, events.ThreadStarted):
        have(engine, event)
    elif isinstance(event, events.EffectRecorded):
        heard(engine, event.key)


def started(task: Task, event: events.ThreadStarted) -> None:
    """Record on *task* that it starts a child thread, when `evolve` applies the event.

    `event.key` identifies the call of `ctx.start` in the task: by the given name, or by its ordinal. In a copy of a
    thread, the key first names the child of the source. The copy's own child, with another id, replaces it.

    The event is stored twice: before the child is created, and then with `made`, once it is known to exist. Staged
    events may be applied in either order, so the one without `made` does not replace the other.
    """
    known = task.more().threads.get(event.key)
    if known is None or known.thread != event.thread or not known.made:
        task.more().threads[event.key] = event
    have(task.engine, event)


def start(
    task: Task,
    root: RunState | None,
    key: str,
    thread: str,
    graph: str,
    *,
    detached: bool,
    made: bool,
    arguments: Any,
) -> events.ThreadStarted:
    """Record that *task* starts a child thread. Returns the event, which is stored before the child is created.

    Args:
        root: Engine of the run's own graph; None if *task* belongs to that graph.
        key: Identifies the call of `ctx.start` in the task.
        thread: Id of the child.
        graph: Name of its graph.
        detached: Whether it continues when this thread is cancelled.
        made: Whether it is known to exist.
        arguments: As `ThreadStarted.arguments`.
    """
    event = events.ThreadStarted(
        task=task.id, key=key, thread=thread, graph=graph, detached=detached, arguments=arguments
    )
    task.more().threads[key] = replace(event, made=made)
    for engine in (task.engine, root):  # so that a cancellation of this thread finds the child
        if engine is not None and not detached:
            engine.start_child(thread)
    return event


def made(task: Task, key: str) -> None:
    """Record that the child that *task* started with the call *key* exists."""
    threads = task.more().threads
    threads[key] = replace(threads[key], made=True)


def have(engine: RunState, event: events.ThreadStarted) -> None:
    """Add the child of *event* to those that are cancelled with the thread of *engine*.

    Detached children are excluded. So are children in entries that were copied from another thread, to which they
    belong according to their ids.
    """
    if not event.detached and is_child(engine.thread, event.thread):
        engine.start_child(event.thread)


def children_of(engine: RunState) -> tuple[str, ...]:
    """Return the child threads that are cancelled with *engine*'s thread, including those of open nested graphs."""
    threads = dict(engine.children)
    for task in engine.tasks:
        if task.extra is not None and task.extra.child is not None:
            threads.update(dict.fromkeys(children_of(task.extra.child)))
    return tuple(threads)


def waiting_for(engine: RunState, thread: str | None = None) -> list[str]:
    """Return the ids of the open questions that wait for the child *thread*, or for any child if it is None.

    `ctx.wait` asks such a question: its kind is THREAD, and its payload the id of the child.
    """
    return [
        question.id
        for question in engine.open_interrupts()
        if question.kind == THREAD and thread in (None, question.payload)
    ]


_LONGEST: Final = 120
"""Length up to which a parent's id is repeated in full in the ids of its children. Ids may have 200 characters: a
dot, a label of 40, `-` and a digest of 16 follow. For a longer id, the first 80 characters, `_` and a digest of 32
are used."""


def child_id(parent: str, task: str, key: str) -> str:
    """Return the id, without a tenant, of the child that a task starts: always the same for the same arguments.

    Args:
        parent: Id of the parent thread, with or without a tenant.
        task: Id of the task, such as `2.0:draft`.
        key: The call of `ctx.start` in the task: `name=` and the name it was given, else its ordinal from 0.
    """
    import hashlib  # imported here: it loads OpenSSL, and hardly any run has children

    # Without dots, which separate the generations.
    label = re.sub(r"[^A-Za-z0-9_-]", "_", key.removeprefix("name="))[:40]
    return f"{_before(parent)}{label}-{hashlib.sha256(f'{task}#{key}'.encode()).hexdigest()[:16]}"


def is_child(parent: str | None, thread: str | None) -> bool:
    """Return whether *thread* is a child of the thread *parent* itself: not a grandchild, nor a child of its source."""
    if parent is None or thread is None:
        return False
    before, thread = _before(parent), _bare(thread)
    return thread.startswith(before) and "." not in thread[len(before) :]


def _before(parent: str) -> str:
    """Return the prefix of the ids of all children of *parent*: its id and a dot. A long id is truncated and hashed."""
    parent = _bare(parent)
    if len(parent) > _LONGEST:
        import hashlib

        parent = f"{parent[: _LONGEST - 40]}_{hashlib.sha256(parent.encode()).hexdigest()[:32]}"
    return f"{parent}."


def _bare(thread: str) -> str:
    """Return the id *thread* without its tenant. Duplicates `stores.ids.bare_id`, which this layer may not import."""
    return thread.rpartition("~")[2]
