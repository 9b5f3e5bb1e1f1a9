"""Signatures of user functions: which arguments a node or router takes, and whether it is async.

For plain functions and methods, the code object is inspected, which is faster; `inspect.signature` handles any other
callable. Nothing here calls a function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple, get_origin

from graphrt._arguments import is_async
from graphrt._plan.quoting import short

# Bits of `co_flags`: inspect.CO_VARARGS (the function has `*args`), CO_GENERATOR, CO_COROUTINE and CO_ASYNC_GENERATOR.
_VARARGS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x20, 0x80, 0x200


_OF_GENERATOR = "Return one update instead of yielding; ctx.emit(value) shows progress."


class Shape(NamedTuple):
    """Calling convention of a function, or the reason why it cannot be a node."""

    wants_context: bool
    """True if the function is called as `fn(state, ctx)`."""
    is_async: bool
    problem: str | None = None
    """The reason why the function cannot be a node, as a clause with "it"; None if it can."""
    hint: str = ""
    """Advice if the argument was not a function; otherwise empty."""


def node_shape(fn: Any) -> Shape:
    """Return the calling convention of a node's function: `fn(state)` or `fn(state, ctx)`.

    A second positional parameter without a default receives the context.
    """
    if isinstance(fn, FunctionType) and not _passes_on(fn):
        return _from_code(fn, bound=0)
    if isinstance(fn, MethodType) and isinstance(fn.__func__, FunctionType) and not _passes_on(fn.__func__):
        return _from_code(fn.__func__, bound=1)
    if not callable(fn):
        return Shape(False, False, f"{short(fn)} cannot be called", _instead(fn))
    call = getattr(fn, "__call__", None)  # noqa: B004 - the method itself is wanted
    awaited = is_async(fn)
    if any(inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function) for function in (fn, call)):
        return Shape(False, awaited, "it is a generator: a node returns one update", _OF_GENERATOR)
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature: called with the state alone
        return Shape(False, awaited)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(1 for p in positional if p.default is p.empty)
    star = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    missing = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    return _judge(len(positional), required, missing, star=star, is_async=awaited)


def _instead(value: Any) -> str:
    """Return advice for *value*, which cannot be called.

    The objects are recognised by their attributes, since their classes are in higher layers of the code, from which
    this module must not import.
    """
    if hasattr(value, "invoke") and hasattr(value, "get_state"):
        return "Convert the graph of LangGraph first: add_node('sub', graphrt.compat.langgraph.convert(graph)[0])."
    if hasattr(value, "invoke") and hasattr(value, "get_graph"):  # a Runnable of LangChain, which may be a model
        return "Call it in a function: def work(state): return {'answer': runnable.invoke(state['question'])}."
    if hasattr(value, "invoke") and hasattr(value, "profile"):
        return "Put the model into an agent: add_node('ask', Agent(model), input='question', output='answer')."
    if hasattr(value, "compile") and hasattr(value, "add_node"):
        return "A graph is a node once it is compiled: add_node('sub', builder.compile())."
    if hasattr(getattr(value, "graph", None), "__graphrt_plan__"):
        return "Pass the graph, not what drives it: add_node('sub', runtime.graph)."
    return "Pass the function itself: add_node('work', work), not what a call of it returned."


def _passes_on(fn: FunctionType) -> bool:
    """Return True if *fn* is a wrapper with `*args`, whose signature is that of its `__wrapped__`."""
    return bool(fn.__code__.co_flags & _VARARGS) and "__wrapped__" in fn.__dict__


def _from_code(fn: FunctionType, bound: int) -> Shape:
    """Return the calling convention of a plain function; *bound* is 1 for a method, whose `self` is bound, else 0."""
    code = fn.__code__
    flags = code.co_flags
    if flags & (_GENERATOR | _ASYNC_GENERATOR):
        return Shape(False, False, "it is a generator: a node returns one update", _OF_GENERATOR)
    positional = code.co_argcount - bound
    if positional > 0 and _is_context(fn, code.co_varnames[bound]):
        return Shape(False, False, "its first parameter is annotated as the context")
    required = positional - len(fn.__defaults__ or ())
    missing: list[str] = []
    if code.co_kwonlyargcount:
        only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        missing = [name for name in only if name not in (fn.__kwdefaults__ or {})]
    # inspect.markcoroutinefunction() leaves its mark in `__dict__`, not in the flags.
    is_async = bool(flags & _COROUTINE) or (bool(fn.__dict__) and inspect.iscoroutinefunction(fn))
    # Below 0 if even `self` has a default.
    return _judge(positional, max(required, 0), missing, star=bool(flags & _VARARGS), is_async=is_async)


def _is_context(fn: FunctionType, parameter: str) -> bool:
    """Return whether *parameter* of *fn* is annotated as graphrt's Context."""
    try:
        annotation = fn.__annotations__.get(parameter)
    except Exception:  # noqa: BLE001 - Python 3.14 evaluates annotations here, and a name may be undefined
        return False
    if isinstance(annotation, str):
        annotation = fn.__globals__.get(annotation.partition("[")[0])
    # Compared by name: the Context belongs to the drivers, a higher layer.
    return getattr(get_origin(annotation) or annotation, "__module__", "") == "graphrt._drivers.context"


def _judge(positional: int, required: int, missing: list[str], *, star: bool, is_async: bool) -> Shape:
    """Return the calling convention that follows from a function's parameters.

    Args:
        positional: Number of positional parameters.
        required: How many of these have no default.
        missing: Names of keyword-only parameters without a default, for which no value could be passed.
        star: The function has `*args`.
        is_async: It is a coroutine function.
    """
    if missing:
        return Shape(False, is_async, f"it has keyword-only parameters without a default: {', '.join(missing)}")
    if required > 2:
        return Shape(False, is_async, f"it wants {required} positional arguments")
    if positional == 0 and not star:
        return Shape(False, is_async, "it takes no positional argument")
    return Shape(required == 2, is_async)


def router_problem(fn: Callable[..., Any]) -> str | None:
    """Return why *fn* cannot be a router, as a clause with "it", or None.

    A router is a sync function, called as `fn(state)` or, like a node, as `fn(state, ctx)`.
    """
    shape = node_shape(fn)
    if shape.problem:  # routers are called like nodes, but the fix for a generator differs
        return shape.problem.replace("a node returns one update", "a router returns labels or Sends")
    if shape.is_async:
        return "it is async: a router is a pure plain function; put the work into a node that returns a Command"
    return None
