"""LangGraph graphs that are nodes of another graph, converted to nested graphs.

A nested graph gets the channels that its input schema shares with the parent's state. It returns the *values* of its
output channels, which the parent's reducers fold. graphrt would fold its updates; LangGraph folds the values, so the
converted graph does too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from graphrt.compat.langgraph import _langgraph as lg
from graphrt.compat.langgraph._fields import HANDED_UP, Fields
from graphrt.compat.langgraph._messages import random_id
from graphrt.compat.langgraph._nodes import Reader
from graphrt.compat.langgraph._read import ROOT, GraphDescription
from graphrt.compat.langgraph._results import outcome_of


def input_of(inner: GraphDescription, reader: Reader) -> Callable[[Any, Any], Any]:
    """Return the function that makes the input of *inner* from the parent's state, or from the argument of a Send.

    Args:
        inner: The nested graph.
        reader: Reads the node's input from the state.
    """
    keys = frozenset(inner.inputs)

    def make_input(state: Any, arg: Any) -> Any:
        value = reader.read(state, {"configurable": {}}) if arg is None else arg
        if inner.inputs == (ROOT,):
            return {ROOT: value}
        return {key: item for key, item in _mapping(value).items() if key in keys}

    return make_input


def output_of(inner: GraphDescription, fields: Fields) -> Callable[[Any], Any]:
    """Return the function that turns the last state of *inner* into an update of its parent's *fields*."""
    outputs = inner.outputs

    def back(last: Any) -> Any:
        handed = last.get(HANDED_UP)
        if handed is not None:
            return _one([{key: value} for key, value in handed if key in fields.channels], fields)
        value = last.get(ROOT) if outputs == (ROOT,) else {key: last[key] for key in outputs if key in last}
        return _one(outcome_of(value, fields).updates, fields)

    return back


def _one(updates: list[dict[str, Any]], fields: Fields) -> dict[str, Any]:
    """Merge updates into one, because a nested graph returns one update."""
    return {key: fields.written(key, value, random_id) for update in updates for key, value in update.items()}


def _mapping(value: Any) -> Any:
    """Return an input as a mapping."""
    if lg.is_a(value, Mapping):
        return value
    if lg.is_a(value, BaseModel):
        names: Any = value.__class__.model_fields
        return {name: getattr(value, name) for name in names}
    if dataclasses.is_dataclass(value) and not lg.is_a(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {}
