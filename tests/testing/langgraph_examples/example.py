"""`Example`: one published example of LangGraph, written anew, with all that an explorer needs to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphrt.graph import CompiledGraph


def no_options() -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Example:
    """A correct graph, small and without a network."""

    name: str
    graph: Callable[[], CompiledGraph[Any, Any]]
    """Makes the graph."""
    input: Mapping[str, Any]
    options: Callable[[], Mapping[str, Any]] = no_options
    """Makes the options of `Runtime` for one run: models that answer by rules, `deps`."""
    answers: Sequence[Any] = ()
    """Answers to the questions of a run with these options, in order."""
    alternatives: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    """Node to what it may return."""
    replies: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    """Agent to what its model may reply."""
    possible: Sequence[Any] = ()
    """Answers that a person may give to any question."""

    def __str__(self) -> str:
        return self.name
