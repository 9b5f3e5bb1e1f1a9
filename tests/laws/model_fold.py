"""The half of the reference model that computes a new state: updates, conflicts (R6), and the fold (R2, R16).

It does not decide which tasks run next. Like the other half it does not import graphrt and copies freely.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TypeAlias

from .description import MISSING, Field, Graph, State, Value, mix, thaw

Update: TypeAlias = dict[str, tuple[str, Value]]
"""Field -> (op, value), where op is "set", "overwrite" or "delete"."""


@dataclass(frozen=True)
class Task:
    """One activation of one node in one superstep; *sent* distinguishes a Send from a plain activation."""

    node: str
    arg: int | None = None
    sent: bool = False


@dataclass(frozen=True)
class Failure:
    """One way in which a run failed: the error's class and the names in it."""

    kind: str
    nodes: frozenset[str] = frozenset()
    field: str | None = None


def update_of(graph: Graph, task: Task, snapshot: State, visits: dict[str, int]) -> Update:
    """The writes of the script of the task's node: field -> (op, value)."""
    node = graph.node(task.node)
    update: Update = {}
    for write in node.turn(visits[task.node]).writes:
        value = write.value(graph, snapshot, task.arg if node.context else None)
        update[write.field] = (write.op, None if write.op == "delete" else value)
    return update


def undeletable(graph: Graph, task: Task, update: Update) -> list[Failure]:
    """DELETE needs a default, or a TypedDict, where the key may be absent."""
    return [
        Failure("UpdateError", frozenset({task.node}), name)
        for name, (op, _) in update.items()
        if op == "delete" and graph.style != "typeddict" and graph.field(name).default is MISSING
    ]


def find_conflicts(graph: Graph, tasks: list[Task], updates: list[Update]) -> list[Failure]:
    """Two writes of a field that does not aggregate, or an Overwrite or DELETE beside any other write."""
    conflicts: list[Failure] = []
    for each in graph.fields:
        writers = [task.node for task, update in zip(tasks, updates, strict=True) if each.name in update]
        ops = [update[each.name][0] for update in updates if each.name in update]
        exclusive = each.reducer == "overwrite" or any(op != "set" for op in ops)
        if len(writers) > 1 and exclusive:
            conflicts.append(Failure("ConcurrentUpdateError", frozenset(writers), each.name))
    return conflicts


def fold(graph: Graph, state: State, updates: list[Update]) -> State:
    """R16: ephemeral fields are reset first. R2: then every update, in task order."""
    folded = copy.deepcopy(state)
    for each in graph.fields:
        if each.ephemeral:
            reset(folded, each)
    for update in updates:
        for name, (op, value) in update.items():
            if op == "delete":
                delete(folded, graph.field(name))
            elif op == "overwrite":
                folded[name] = copy.deepcopy(value)
            else:
                folded[name] = reduce(graph.field(name), folded.get(name), copy.deepcopy(value))
    return folded


def delete(state: State, each: Field) -> None:
    """Reset to the default, or make absent."""
    state.pop(each.name, None)
    if each.default is not MISSING:
        state[each.name] = thaw(each.default)


def reset(state: State, each: Field) -> None:
    """Reset to the default or the identity of the reducer, or make absent: as if the run had no input for it."""
    delete(state, each)
    if each.default is MISSING and each.has_identity:
        state[each.name] = identity(each)


def identity(each: Field) -> Value:
    """The identity of a reducer that has one."""
    return [] if each.is_list else 0


def reduce(each: Field, current: Value, incoming: Value) -> Value:
    """One reducer, once; None means "no value yet", which an absent field reads as."""
    if each.reducer == "overwrite":
        return incoming
    if each.reducer == "first":
        return incoming if current is None else current
    if each.is_list:
        return reduce_list(each, current, incoming)
    assert isinstance(incoming, int)
    assert current is None or isinstance(current, int)
    if current is None:
        return incoming
    results = {
        "add": current + incoming,
        "min": min(current, incoming),
        "max": max(current, incoming),
        "mix": mix(current, incoming),
    }
    return results[each.reducer]


def reduce_list(each: Field, current: Value, incoming: Value) -> list[int]:
    """`append`: one after the other.

    `union`: each item once, in first-seen order (an Overwrite may have left duplicates).
    """
    assert isinstance(incoming, list)
    assert current is None or isinstance(current, list)
    result: list[int] = []
    for item in [*(current or []), *incoming]:
        if each.reducer == "append" or item not in result:
            result.append(item)
    return result
