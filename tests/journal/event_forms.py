"""Events of every class with every field varied, for Hypothesis, and their comparison.

A new class of events, or a new field, gets its strategy here: tests/journal/test_wire_forms.py checks that it has one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from pydantic_core import to_json
from tests.codec import shapes, strategies

from graphrt import events
from graphrt._codec import Codec, RecordedError
from graphrt._usage.usage import COUNTS
from graphrt.errors import NodeError

CODEC = Codec(shapes.ALL)
PATH = "2.0:sub/"

text = strategies.TEXT
names = st.sampled_from(["a", "b", "search", "größe", "a:b", "a/b", "\x00", "$t", ""]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)
numbers = st.integers(0, 3) | st.integers(0, 2**70)
seconds = st.floats()
values = strategies.values(max_leaves=3)
arguments = st.none() | st.lists(st.integers() | st.text(), max_size=3).map(lambda items: to_json(items).decode())
fields = st.dictionaries(names, values, max_size=3)
by_place = st.dictionaries(st.integers(0, 9), values, max_size=2)
targets = st.lists(names, max_size=3).map(tuple)
digests = st.dictionaries(text, st.text("0123456789abcdef", max_size=8), max_size=2)
errors = st.one_of(
    st.builds(ValueError, text),
    st.builds(KeyError, text, st.tuples(text, st.integers() | st.none())),
    st.builds(RecordedError, text, text),
    st.builds(OSError, st.integers(1, 5), text),
    st.builds(NodeError, text, code=st.just("node-failed"), node=text),
    st.builds(ExceptionGroup, text, st.lists(st.builds(TypeError, text), min_size=1, max_size=2)),
)
failed = st.dictionaries(st.integers(0, 9), errors, max_size=2)
USAGE = {**dict.fromkeys(COUNTS, numbers), "cost_usd": st.none() | seconds}
usage = st.none() | st.builds(events.Usage, **USAGE)
JOIN = {"node": names, "sources": targets, "arrived": targets, "fired": st.booleans(), "emptied": st.booleans()}
joins = st.lists(st.builds(events.JoinStanding, **JOIN), max_size=2).map(tuple)
HANDLED = {"task": st.none(), "node": names, "arg": values}
handled = st.dictionaries(
    st.integers(0, 9),
    st.lists(st.tuples(numbers.filter(lambda n: n < 2**60), st.integers(0, 9), names, values), min_size=1, max_size=2),
    max_size=2,
)
"""By path, each task's superstep, index, node and argument: `instances` builds the tasks."""
DUE = {"next": targets, "sends": by_place, "errors": failed, "joins": joins}
TASK = {"task": st.none(), "node": names}
"""The task's id is made by `instance`: it begins with the path of the entry, and ends with the node."""
CALL = {**TASK, "key": text, "failed_attempts": numbers}
"""A call of a model by a task."""
amounts = st.builds(events.Amounts, *[numbers] * len(events.Amounts._fields))
erased = st.dictionaries(
    numbers.filter(lambda n: n < 2**60), st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple), max_size=2
)
places = st.lists(st.tuples(numbers, numbers, names), max_size=3)
"""Superstep, index and node of tasks; `instances` builds ids or outcomes from them."""
STATE: dict[str, st.SearchStrategy[Any]] = {
    "values": fields,
    "superstep": numbers,
    "steps": numbers,
    "visits": st.dictionaries(names, numbers, max_size=3),
    **DUE,
    "entering": st.booleans(),
    "usage": usage,
    "status": text,
    "run": text,
    "seed": st.none() | st.integers(),
    "cause": numbers,
    "fingerprint": text,
    "names": st.lists(text, max_size=3).map(tuple),
    "digests": digests,
    "granted": st.none() | amounts,
    "handled": handled,
    "held": places,
    "after": places,
    "waits": st.integers(0, 9),
    "signals": st.lists(st.tuples(text, text, values), max_size=3).map(tuple),
    "children": st.lists(text, max_size=3).map(tuple),
    "parent": st.none() | text,
    "began": digests,
    "args": by_place,
}

FIELDS: dict[Any, dict[str, st.SearchStrategy[Any]]] = {
    events.RunStarted: {
        "graph": text,
        "fingerprint": text,
        "thread": st.none() | text,
        "seed": st.integers(),
        "input": fields,
        "fresh": st.booleans(),
        "user": text,
        "redaction": text,
        "parent": st.none() | text,
        "digests": digests,
    },
    events.RunResumed: {"verb": text, "thread": st.none() | text, "user": text, "redaction": text},
    events.InterruptAnswered: {"id": text, "answer": values, "nth": numbers, "by": text},
    events.InterruptExpired: {"id": text},
    events.InterruptWithdrawn: {"id": text, "reason": text},
    events.AnswerUsed: {"id": text, "reworded": st.booleans(), "payload": values, "nth": st.integers(0, 9)},
    events.AnswerDiscarded: {"id": text, "reason": text, "nth": st.integers(0, 9)},
    events.SuperstepAbandoned: {
        "superstep": numbers,
        "tasks": places,
        "finished": places,
        "interrupts": st.lists(text, max_size=2).map(tuple),
        "effects": st.lists(text, max_size=2).map(tuple),
        "next": targets,
        "usage": usage,
        "threads": st.lists(text, max_size=2).map(tuple),
        "said": fields,
    },
    events.InterruptRaised: {
        "id": text,
        **TASK,
        "payload": values,
        "key": text,
        "answer_type": st.none() | st.sampled_from(["int", {"list": "str"}, {"union": ["int", "none"]}]),
        "expires_at": st.none() | seconds,
        "usage": usage,
        "kind": text,
        "version": numbers,
        "stale": st.booleans(),
        "default": values,
        "has_default": st.booleans(),
    },
    events.TaskRetried: {
        **TASK,
        "attempt": numbers,
        "delay_s": seconds,
        "error": text,
        "message": text,
        "usage": usage,
    },
    events.EffectStarted: {
        **TASK,
        "key": text,
        "starts": st.integers(1, 9),
        "answers": numbers,
        "arguments": arguments,
    },
    events.EffectRecorded: {
        **TASK,
        "key": text,
        "result": values,
        "answers": numbers,
        "arguments": arguments,
        "memory": places,
    },
    events.ModelReplied: {
        **CALL,
        "reply": st.dictionaries(st.text("ab", max_size=3), values, max_size=3),
        "usage": usage,
        "model": st.none() | text,
        "answers": numbers,
        "agent": st.none() | text,
    },
    events.UsageRecorded: {
        **CALL,
        "nth": st.integers(1, 9),
        "usage": st.builds(events.Usage, **USAGE),
        "model": st.none() | text,
    },
    events.ReplyStopped: {**CALL, "text": values, "model": st.none() | text, "attempt": st.integers(1, 9)},
    events.RepliesDiscarded: {**TASK, "failed_attempts": numbers},
    events.BudgetHeld: {**CALL, "reservations": st.lists(amounts, min_size=1, max_size=3).map(tuple)},
    events.BudgetReleased: CALL,
    events.BudgetGranted: {**TASK, "question": text, "of": text, "amounts": amounts},
    events.TaskSucceeded: {
        **TASK,
        "updates": st.lists(fields, max_size=3).map(tuple),
        "goto": st.none() | targets,
        "sends": by_place,
        "usage": usage,
        "edited": st.booleans(),
        "above": st.booleans(),
    },
    events.TaskFailed: {
        **TASK,
        "error": text,
        "message": text,
        "handler": st.none() | names,
        "exception": st.none() | errors,
        "usage": usage,
    },
    events.OutcomeDropped: TASK,
    events.NodeFatigued: {"node": names, "visits": numbers, "route": names},
    events.SuperstepCommitted: {
        "superstep": numbers,
        "wrote": targets,
        **DUE,
        "handled": handled,
        "after": places,
        "waits": st.integers(0, 9),
    },
    events.TasksRouted: {"reason": text, **DUE, "handled": handled, "waits": st.integers(0, 9)},
    events.ThreadUpdated: {
        "values": fields,
        "as_node": st.none() | names,
        "next": st.none() | targets,
        "sends": by_place,
        "errors": failed,
        "joins": joins,
        "open": st.booleans(),
        "handled": handled,
        "goto": st.none() | targets,
        "fresh": st.booleans(),
        "user": text,
        "redaction": text,
        "waits": st.integers(0, 9),
    },
    events.StateSaved: STATE,
    events.ThreadForked: {"source": text, "at": numbers, "state": st.none()},
    events.ThreadLabelled: {
        "title": st.none() | text,
        "tags": st.lists(text, max_size=3).map(tuple),
        "user": text,
        "priority": st.integers(-1_000_000, 1_000_000),
    },
    events.ThreadMigrated: {"source": text, "target": text, "why": text, "values": st.none() | fields},
    events.ValuesErased: {"by": text, "reason": text, "records": numbers, "lines": numbers, "erased": erased},
    events.HistoryPruned: {"upto": numbers},
    events.ThreadCopied: {"source": text, "thread": text},
    events.ThreadDeleted: {"user": text},
    events.MemoryWritten: {
        **TASK,
        "namespace": values,
        "key": values,
        "value": values,
        "deleted": st.booleans(),
        "expires_s": st.none() | seconds,
        "expires_at": st.none() | seconds,
        "embedded": values,
    },
    events.RunInterrupted: {"interrupts": st.lists(text, max_size=3).map(tuple), "folded": digests},
    events.RunCompleted: {"steps": numbers, "folded": digests},
    events.RunFailed: {"error": text, "message": text, "node": st.none() | names, "folded": digests},
    events.RunCancelled: {"reason": text, "folded": digests, "threads": st.lists(text, max_size=3).map(tuple)},
    events.RunHandedOver: {"reason": text},
    events.SignalReceived: {"id": text, "name": text, "value": values, "user": text},
    events.SignalTaken: {"id": text, "interrupt": text},
    events.LetterDropped: {"id": text, "what": text, "reason": text},
    events.ThreadStarted: {
        **TASK,
        "key": text,
        "thread": text,
        "graph": text,
        "detached": st.booleans(),
        "made": st.booleans(),
        "arguments": arguments,
    },
}


def own_fields(kind: Any) -> set[str]:
    """The fields of *kind*."""
    return {field.name for field in dataclasses.fields(kind)}


@st.composite
def instances(draw: Any, kind: Any, path: str = "") -> Any:
    """An event of the class *kind*, as stored under *path*."""
    made = {name: draw(strategy) for name, strategy in FIELDS[kind].items()}
    if "handled" in made:
        made["handled"] = {
            at: tuple(
                events.HandledTask(task=f"{path}{superstep}.{index}:{node}", node=node, arg=arg)
                for superstep, index, node, arg in tasks
            )
            for at, tasks in made["handled"].items()
        }
    for name in ("after", "tasks", "finished", "held"):
        if name in made:
            made[name] = tuple(f"{path}{superstep}.{index}:{node}" for superstep, index, node in made[name])
    if "held" in made:
        kinds = (events.TaskSucceeded, events.TaskFailed)
        made["held"] = tuple(
            replace(draw(instances(kinds[at % 2], path)), task=task, node=task[len(path) :].partition(":")[2])
            for at, task in enumerate(made["held"])
        )
    if "memory" in made:
        ids = [f"{path}{superstep}.{index}:{node}" for superstep, index, node in made["memory"]]
        made["memory"] = tuple(replace(draw(instances(events.MemoryWritten, path)), task=task) for task in ids)
    if "state" in made:
        made["state"] = draw(instances(events.StateSaved, path))
    if "task" in made:
        made["task"] = f"{path}{draw(st.integers(0, 99))}.{draw(st.integers(0, 9))}:{made['node']}"
        if "node" not in own_fields(kind):
            del made["node"]
    return kind(**made)


@st.composite
def logged(draw: Any) -> tuple[str, Any]:
    """A path and an event of any class under it."""
    path = draw(st.sampled_from(["", "", PATH, f"{PATH}1.1:dëep/"]))
    return path, draw(instances(draw(st.sampled_from(list(FIELDS))), path))


def alike(one: Any, other: Any) -> bool:
    """Whether two events, or parts of them, are deeply equal, with equal types for values of users."""
    if isinstance(one, BaseException):
        return type(one) is type(other) and repr(one) == repr(other) and alike(parts(one), parts(other))
    if isinstance(one, Mapping):
        return isinstance(other, Mapping) and alike(list(one.items()), list(other.items()))
    if isinstance(one, (list, tuple)) and type(one) in (list, tuple, events.Amounts):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    if type(one) in FIELDS or isinstance(one, (events.HandledTask, events.JoinStanding, events.Usage)):
        return type(one) is type(other) and all(
            alike(getattr(one, name), getattr(other, name)) for name in own_fields(type(one))
        )
    return shapes.same(one, other)


def parts(error: BaseException) -> list[Any]:
    """The stored parts of an exception."""
    return [error.args if not isinstance(error, BaseExceptionGroup) else list(error.exceptions), str(error)]
