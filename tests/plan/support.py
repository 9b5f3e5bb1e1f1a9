"""Shared parts of the tests of the plan: tiny nodes, a state, and the findings of a builder as text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, TypedDict

from graphrt import Context, DefinitionError, GraphBuilder, Limits
from graphrt.errors import Problem


class State(TypedDict, total=False):
    text: str
    tries: int
    notes: list[str]


class Update(TypedDict, total=False):
    text: str
    tries: int
    notes: list[str]


def node(state: State) -> Update:
    return {}


def open_node(state: State, ctx: Context) -> Update:
    return {}


def builder(*names: str, state: Any = State, update: Any = Update) -> GraphBuilder[Any, Any]:
    """A builder with these nodes."""
    g: GraphBuilder[Any, Any] = GraphBuilder(state, update, name="triage")
    for name in names:
        g.add_node(name, node)
    return g


def findings(g: Any, *, limits: Any = None, allow: Iterable[str] | str = ()) -> list[Problem]:
    """All findings of compile()."""
    try:
        g.compile(limits=Limits() if limits is None else limits, allow=allow)
    except DefinitionError as error:
        return list(error.problems)
    return []


def texts(g: Any, **options: Any) -> list[str]:
    """The text of the findings for the user, without the places, which are lines of the test."""
    found = [str(dataclasses.replace(problem, where="")) for problem in findings(g, **options)]
    return [re.sub(r"\w+\.py:\d+", "app.py:1", text) for text in found]


def codes(g: Any, **options: Any) -> list[str]:
    """The codes of the findings."""
    return [problem.code for problem in findings(g, **options)]
