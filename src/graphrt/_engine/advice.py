"""Advice for exceptions caused by well-known mistakes in a node, to replace the generic "Correct the node".

The texts become the "Fix" line of the error that ends a run. `failures` asks for texts about a task that failed for
good, `committing` for texts about a superstep that could not be folded or routed. Whether an exception is retried is
decided in `outcome`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from graphrt._arguments import is_mapping
from graphrt._engine.questions import effects_after
from graphrt._engine.task import Task
from graphrt.errors import GraphrtError, closest, names

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState

_OF_THE_CONTEXT = {
    "state": "the state is the node's first parameter, and a node returns what changes",
    "config": "there is no config: the thread is ctx.thread, and what the caller passed is ctx.deps",
    "get": "there is no config: the thread is ctx.thread, and what the caller passed is ctx.deps",
    "store": "the memory across threads is ctx.memory",
    "stream_writer": "use ctx.emit(value)",
    "writer": "use ctx.emit(value)",
    "runtime": "what the caller passed is ctx.deps",
    "context": "what the caller passed is ctx.deps",
}
"""Attributes that LangGraph users expect on a Context, and their equivalents in graphrt."""


_ABSENT = object()
"""Result of a look-up that found no attribute; the attribute itself may be None."""


def advice(engine: RunState, task: Task, error: BaseException) -> str:
    """Return advice about *error*, which the node of *task* raised; empty if the mistake is not known.

    The mistakes: a coroutine that was not awaited, a plain value that was, an attribute or subscript that the Context
    or the state does not have, and a key that is in the argument of the task's Send and not in the state.
    """
    owner = error.obj if isinstance(error, AttributeError) else None  # the object that lacks the attribute
    if inspect.iscoroutine(owner):
        how = (
            "await the call"
            if task.node.is_async
            else "await the call in an async node, or use ctx.call(function, ...)"
        )
        return f"The node uses a coroutine as if it were its result: {how}."
    if isinstance(error, RuntimeError) and "outside of a runnable context" in str(error):  # LangGraph's get_config()
        return (
            "interrupt(), get_stream_writer() and get_store() of LangGraph work only in converted graphs: use "
            "ctx.interrupt(payload), ctx.emit(value) and ctx.memory."
        )
    if isinstance(error, AttributeError):
        return _of_attribute(engine, task, owner, str(error.name))
    # CPython up to 3.13: "object str can't be used in 'await' expression"; later: "'str' object can't be awaited".
    if isinstance(error, TypeError) and str(error).endswith(("used in 'await' expression", "can't be awaited")):
        return (
            "The node awaits a call that returns a plain value: ctx.interrupt(...) and ctx.emit(...) are called without "
            "await."
        )
    if isinstance(error, TypeError) and str(error).endswith("object is not subscriptable"):
        # A TypeError does not carry the object. CPython's text names its class: "'X' object is not subscriptable".
        kind = str(error).partition("'")[2].partition("'")[0]
        if kind == "Context":
            return (
                "The node's second parameter is the Context, not a config: the thread is ctx.thread, what the caller "
                "passed is ctx.deps, and the argument of a Send is ctx.arg."
            )
        if kind == engine.plan.state.cls.__name__:
            return f"A field of the state is an attribute: state.{next(iter(engine.fields), 'field')}.{_of_send(task)}"
    if isinstance(error, KeyError) and error.args[:1] and (expression := _in_argument(task, error.args[0])):
        return f"The key is in the argument of the Send, not in the state: {expression}."
    return ""


def _of_attribute(engine: RunState, task: Task, owner: Any, name: str) -> str:
    """Return advice for the attribute *name* that *owner* lacks, if *owner* is the Context or the state; else empty.

    The state that a node is given is an instance of the user's state class, or a dict if that class is a TypedDict.
    """
    kind: Any = owner.__class__
    # Compared by name: the Context belongs to the drivers, a layer that the engine may not import.
    if kind.__module__ == "graphrt._drivers.context":
        if name in _OF_THE_CONTEXT:
            return f"The Context has no {name!r}: {_OF_THE_CONTEXT[name]}."
        guess = closest(name, [known for known in dir(kind) if not known.startswith("_")])
        return f"The Context has no {name!r}: did you mean ctx.{guess}?" if guess else ""
    if kind is dict and name in engine.fields and engine.plan.state.kind == "typeddict":
        return f"The state is a dictionary: state[{name!r}]."
    if kind is (dict if engine.plan.state.kind == "typeddict" else engine.plan.state.cls):
        if expression := _in_argument(task, name):
            return f"The attribute is in the argument of the Send, not in the state: {expression}."
        if kind is not dict and task.arg is not None:
            return f"The state has no {name!r}.{_of_send(task)}"
        if kind is not dict:
            guess = closest(name, engine.fields)
            return f"The state has no {name!r}: " + (
                f"did you mean {guess!r}?" if guess else f"its fields are {names(engine.fields)}."
            )
    return ""


def _in_argument(task: Task, name: Any) -> str:
    """Return the expression that reads *name* from the argument of the task's Send; empty if the argument lacks it.

    Args:
        name: The attribute or key that the node looked for elsewhere. A key may be of any type.
    """
    arg = task.arg
    if is_mapping(arg):
        return f"ctx.arg[{name!r}]" if name in arg else ""
    if arg is None or not isinstance(name, str):
        return ""
    # Looked up statically, so that a property of the argument does not run, and perhaps raise, while an error is
    # reported.
    return "" if inspect.getattr_static(arg, name, _ABSENT) is _ABSENT else f"ctx.arg.{name}"


def _of_send(task: Task) -> str:
    """Return a sentence that points a task started by a Send to its argument; empty for other tasks."""
    if task.arg is None:
        return ""
    return " The argument of the Send is ctx.arg, not the state."


def other_answer(engine: RunState, task: Task) -> str:
    """Return advice on how to replace the answer to the failed *task*; empty if that is not possible.

    R10: if a task failed after an answer, `resume` accepts another answer.
    """
    extra = task.more()
    answered = [question for question in extra.interrupts if question.replaceable]
    # With a nested graph (`child`), the error of the inner task already contains this advice.
    if engine.thread is None or extra.child is not None or not answered:
        return ""
    # A recorded result is looked up by name, so another answer would get the effect of this one (decision 0057).
    if any(effects_after(task, question) for question in answered):
        return ""
    answer = "answer" if len(answered) == 1 else "{id: answer}"
    return f"If the answer was wrong, replace it: resume({engine.thread!r}, {answer})."


def name_other_answer(engine: RunState, error: Exception) -> None:
    """Add advice on how to replace a task's answer to the `fix` of *error*, raised by the fold or a router.

    A wrong answer often causes a failure only after its node, for instance in a router that has no route for it. Only
    the first answered task is named.
    """
    # A task without extra data has no question and therefore no answer.
    ways = [way for task in engine.tasks if task.extra is not None and (way := other_answer(engine, task))]
    if ways and isinstance(error, GraphrtError):
        error.fix = f"{error.fix} {ways[0]}".strip()
