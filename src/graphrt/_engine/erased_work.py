"""The places where an engine still holds erased values: fields, open tasks and due tasks (decision 0129).

A thread that still needs an erased value can be read, but not driven, because nodes are not called with `Erased` unless
the type of the field allows it. `run`, `resume` and `retry` refuse such a thread, and `erase` refuses to make one, with
the names that these functions return. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from graphrt._engine.erased_values import erased_in
from graphrt.commands import ERASED

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task


def erased_fields(engine: Engine, values: Mapping[str, Any]) -> list[str]:
    """Return the fields of *values* that hold erased values which their types do not allow, in schema order.

    Args:
        values: The state by field: the engine's own, or the one that a run would start with.
    """
    names: list[str] = []
    for name, field in engine.fields.items():
        value = values.get(name)
        if value is not None and erased_in(value):
            try:
                field.check_whole(value)
            except Exception:  # noqa: BLE001 - the user's validator may raise anything about it
                names.append(name)
    return names


def holds_erased(engine: Engine) -> bool:
    """Return whether values, open tasks or due nodes hold erased values; `replay` then does not call routers again."""
    return any(map(erased_in, engine.values.values())) or any(True for _ in erased_work(engine))


def erased_work(engine: Engine) -> Iterator[str]:
    """Yield descriptions of the erased values that the next tasks need, as phrases for an error.

    That may be the argument of a Send, the outcome of a task, an answer, an effect, or the reply of a model.
    """
    # `waiting`: tasks that an edit made due while a superstep was open.
    for due in (*engine.due, *engine.waiting):
        if due.arg is ERASED:
            yield f"the argument of node {due.node.name!r}"
    for question in engine.questions.values() if not engine.path else ():  # including those of nested graphs
        if question.payload is ERASED or question.answer is ERASED:
            yield f"question {question.id!r} or its answer"
    for task in engine.tasks:
        yield from _of_task(task)


def _of_task(task: Task) -> Iterator[str]:
    """Yield the erased inputs and results of *task* in the open superstep, including nested graphs."""
    if task.arg is ERASED:
        yield f"the argument of task {task.id}"
    if any(erased_in(value) for update in task.updates for value in update.values()):
        yield f"the outcome of task {task.id}"
    extra = task.extra
    if extra is None:
        return
    if any(
        effect.result is ERASED for effect in extra.effects.values()
    ):  # not `in`, which calls `__eq__` of the user's objects
        yield f"an effect of task {task.id}"
    writes = extra.memory.get(task.execution)
    memory_writes = [
        *(() if writes is None else writes.items.values()),
        *(write for e in extra.effects.values() for write in e.memory),
    ]
    if any(
        erased_in(part) for write in memory_writes for part in (write.namespace, write.key, write.value, write.embedded)
    ):
        yield f"what task {task.id} wrote to the memory"
    child = extra.child
    if child is not None:
        yield from (
            f"field {name!r} of the graph nested in task {task.id}" for name in erased_fields(child, child.values)
        )
        yield from erased_work(child)
    replies: list[Any] = list(extra.models.replies.values()) if extra.models is not None else []
    if any(reply.reply is ERASED for reply in replies):
        yield f"what a model replied to task {task.id}"
