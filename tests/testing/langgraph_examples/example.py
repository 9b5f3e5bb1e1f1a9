"""`Example`: a published example of LangGraph, rewritten, with everything that an explorer needs to run it."""

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
    """Builds the graph."""
    input: Mapping[str, Any]
    options: Callable[[], Mapping[str, Any]] = no_options
    """Builds the options of `Runtime` for one run: models that answer by rules, `deps`."""
    answers: Sequence[Any] = ()
    """Answers to the questions of a run with these options, in order."""
    alternatives: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    """Node to its possible results."""
    replies: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    """Agent to the possible replies of its model."""
    possible: Sequence[Any] = ()
    """Possible answers of a person to any question."""

    def __str__(self) -> str:
        return self.name
