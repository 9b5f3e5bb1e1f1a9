"""What a builder collected, as it was declared: nodes, edges, joins, branches, and where each was written.

Frozen data only; it may be wrong. `validate` says how, `tables` turns a right one into what the engine runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeAlias

from graphrt._plan.state import StateSchema, short
from graphrt._plan.updates import UpdateSchema
from graphrt.commands import EndType, StartType
from graphrt.limits import RetryPolicy

Ref: TypeAlias = object
"""A node's name, START, END, or whatever the user passed instead."""
Starved: TypeAlias = Literal["error", "ignore", "run"]


@dataclass(frozen=True, slots=True)
class Policy:
    """How a node is run, beyond its function."""

    retry: RetryPolicy | None = None
    timeout_s: float | None = None
    on_error: Ref = None
    on_fatigue: Ref = None
    max_visits: Any = "graph"
    """A number, None for no limit, or "graph" for the graph's limit."""
    cache: bool | int = False
    key: Callable[..., Hashable] | None = None
    writes: tuple[str, ...] | None = None
    goto: tuple[Ref, ...] | None = None
    interrupt_before: bool = False
    interrupt_after: bool = False
    version: str | None = None
    tools: tuple[str, ...] | None = None
    """Those that an agent may use; None, which nobody wrote, is none of them."""
    budget: Any = None
    input: Any = None
    output: Any = None
    inline: bool = False
    """Whether a sync node runs on the event loop of an asyncio run. No part of the fingerprint."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    name: Any
    fn: Any
    """The function, or a compiled graph."""
    policy: Policy
    where: str = ""
    hint: Any = None
    """The function's return annotation, resolved where it could be."""


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    src: Ref
    dst: Ref
    where: str = ""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    sources: tuple[Ref, ...]
    dst: Ref
    when: Any = "all"
    starved: Any = "error"
    where: str = ""


@dataclass(frozen=True, slots=True)
class BranchSpec:
    src: Ref
    router: Any
    routes: Any
    """As given: a mapping of labels to nodes, or a list of nodes."""
    default: Ref = None
    where: str = ""
    labels: tuple[tuple[Any, ...], bool] | None = None
    """What the router's return annotation says: its labels, and whether there can be others."""
    hint: Any = None
    """The router's return annotation, resolved where it could be."""


Declared: TypeAlias = NodeSpec | EdgeSpec | JoinSpec | BranchSpec


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """A whole graph as declared."""

    name: str
    state: StateSchema
    update: UpdateSchema
    declared: tuple[Declared, ...]
    """In the order of the calls."""
    where: str = ""
    input: Any = None
    output: Any = None
    input_names: frozenset[str] | None = None
    output_names: frozenset[str] | None = None
    problems: tuple[Any, ...] = field(default=())
    """Found while the calls were made, for instance a misspelt policy argument."""


def pairs(routes: Any) -> list[tuple[Any, Ref]]:
    """The (label, target) pairs of a routes argument; a list of nodes maps each to itself."""
    known: Mapping[Any, Any] | Iterable[Any] = routes or ()
    if isinstance(known, Mapping):
        return [(label, known[label]) for label in known]
    result: list[tuple[Any, Ref]] = []
    for target in known:
        if isinstance(target, EndType):
            result += [(target, target), (target.value, target)]
        else:
            result.append((target, target))
    return result


def show(ref: Ref) -> str:
    """A reference as it is shown in messages: without addresses, so that the same graph gives the same text."""
    if isinstance(ref, (StartType, EndType)):
        return ref.name
    if isinstance(ref, Enum):
        return f"{type(ref).__name__}.{ref.name}"
    if isinstance(ref, str):
        return repr(ref)
    if not callable(ref):
        return re.sub(" at 0x[0-9a-fA-F]+", "", short(ref))
    return f"{getattr(ref, '__name__', None) or type(ref).__name__}()"
