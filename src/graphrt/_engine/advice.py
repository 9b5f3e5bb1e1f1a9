"""What to do about an exception of a node that comes of a well-known mistake: said in the place of "correct the node".

Nothing else may live here: no exception is changed, and none is judged.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from graphrt._engine.questions import effects_after
from graphrt._engine.task import Task
from graphrt._plan.fields import is_mapping
from graphrt.errors import GraphrtError

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine

_OF_THE_CONTEXT = {
    "state": "the state is the node's first parameter, and a node returns what changes",
    "config": "there is no config: the thread is ctx.thread, and what the caller passed is ctx.deps",
    "get": "there is no config: the thread is ctx.thread, and what the caller passed is ctx.deps",
    "store": "pass the store of your own as deps= of the Runtime, and use ctx.deps",
    "stream_writer": "use ctx.emit(value)",
    "runtime": "what the caller passed is ctx.deps",
    "context": "what the caller passed is ctx.deps",
}


_ABSENT = object()


def advice(engine: Engine, task: Task, error: BaseException) -> str:
    """What to do about *error*, which the node of *task* raised; empty if nothing better is known than to look."""
    owner = error.obj if isinstance(error, AttributeError) else None
    if inspect.iscoroutine(owner):
        how = (
            "await the call"
            if task.node.is_async
            else "await the call in an async node, or use ctx.call(function, ...)"
        )
        return f"The node uses a coroutine as if it were its result: {how}."
    if isinstance(error, AttributeError):
        return _of_attribute(engine, task, owner, str(error.name))
    if isinstance(error, TypeError) and str(error).endswith("object is not subscriptable"):
        kind = str(error).partition("'")[2].partition("'")[0]
        if kind == "Context":
            return (
                "The node's second parameter is the Context, not a config: the thread is ctx.thread, what the caller "
                "passed is ctx.deps, and the argument of a Send is ctx.arg."
            )
        if kind == engine.plan.state.cls.__name__:
            return f"A field of the state is an attribute: state.{next(iter(engine.fields), 'field')}.{_of_send(task)}"
    if isinstance(error, KeyError) and error.args[:1] and (there := _in_argument(task, error.args[0])):
        return f"The key is in the argument of the Send, not in the state: {there}."
    return ""


def _of_attribute(engine: Engine, task: Task, owner: Any, name: str) -> str:
    kind: Any = owner.__class__
    if kind.__module__ == "graphrt._drivers.context" and name in _OF_THE_CONTEXT:
        return f"The Context has no {name!r}: {_OF_THE_CONTEXT[name]}."
    if kind is dict and name in engine.fields and engine.plan.state.kind == "typeddict":
        return f"The state is a dictionary: state[{name!r}]."
    if kind is (dict if engine.plan.state.kind == "typeddict" else engine.plan.state.cls):
        if there := _in_argument(task, name):
            return f"The attribute is in the argument of the Send, not in the state: {there}."
        if kind is not dict and task.arg is not None:
            return f"The state has no {name!r}.{_of_send(task)}"
    return ""


def _in_argument(task: Task, name: Any) -> str:
    """How the node reads *name* in the argument of its Send; empty if it is not there. Runs no code of the argument."""
    arg = task.arg
    if is_mapping(arg):
        return f"ctx.arg[{name!r}]" if name in arg else ""
    if arg is None or not isinstance(name, str):
        return ""
    return "" if inspect.getattr_static(arg, name, _ABSENT) is _ABSENT else f"ctx.arg.{name}"


def _of_send(task: Task) -> str:
    if task.arg is None:
        return ""
    return " The argument of the Send is ctx.arg, not the state."


def other_answer(engine: Engine, task: Task) -> str:
    """How to replace the answer that the failed *task* was given; empty if it was given none, or it must stay."""
    extra = task.more()
    given = [
        question for question in extra.interrupts if question.answered and question.current and not question.static
    ]
    if engine.thread is None or extra.child is not None or not given:
        return ""
    if any(effects_after(task, question) for question in given):
        return ""
    answer = "answer" if len(given) == 1 else "{id: answer}"
    return f"If the answer was wrong, replace it: resume({engine.thread!r}, {answer})."


def name_other_answer(engine: Engine, error: Exception) -> None:
    """Let *error*, which ended a superstep after its tasks, say how to replace the answer that one of them was given."""
    ways = [way for task in engine.tasks if task.extra is not None and (way := other_answer(engine, task))]
    if ways and isinstance(error, GraphrtError):
        error.fix = f"{error.fix} {ways[0]}".strip()
