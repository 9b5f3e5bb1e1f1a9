"""A graph as declared with the builder: nodes, edges, joins and branches, and the source line of each.

The data is frozen but may still contain errors. `validate` finds them; `tables` turns a valid spec into the plan that
the engine runs. For the terms, see docs/glossary.md.

A `ChosenGraph` in place of a node's function is a nested graph chosen when its task starts, based on the argument of
the Send that starts it. The argument is in the journal, so the same graph is chosen again when the journal is folded or
a run is resumed. The engine calls `choose` and creates a separate node for the task (`_engine.chosen_nodes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeAlias, final

from graphrt._plan.state import StateSchema, short
from graphrt._plan.updates import UpdateSchema
from graphrt.commands import END, EndType, StartType
from graphrt.limits import RetryPolicy

Ref: TypeAlias = object
"""A node's name, START or END; before validation also anything else that the user passed."""
Starved: TypeAlias = Literal["error", "ignore", "run"]
"""Outcome of a join that can no longer fire: fail the run, end it, or fire with the sources that arrived (R5)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy arguments of a node: how it is run."""

    retry: RetryPolicy | None = None
    timeout_s: float | None = None
    """Seconds for one attempt; None for no limit."""
    idle_timeout_s: float | None = None
    """Seconds that an attempt may continue without a heartbeat or other activity; None for no limit."""
    on_error: Ref = None
    """The node, or END, that follows if the node fails; None if a failure fails the run."""
    on_fatigue: Ref = None
    """The node, or END, that runs instead if the node would exceed `max_visits`; None if that fails the run."""
    max_visits: Any = "graph"
    """Maximum number of supersteps in which the node is active: a number, None for no limit, or "graph" for the
    graph's limit."""
    cache: bool | int = False
    """Number of results to cache; True for the default size, False for no cache."""
    key: Callable[..., Hashable] | None = None
    """Function of the state whose result is the cache key; None for a key derived from the state's values."""
    writes: tuple[str, ...] | None = None
    """Fields that the node declares to write, for the finding `write-conflict`; None if only its annotation names
    them."""
    goto: tuple[Ref, ...] | None = None
    """Nodes that its Commands may lead to; None if undeclared: any node."""
    hands_over_to: tuple[Ref, ...] | None = None
    """For a nested graph, nodes of the enclosing graph that its Commands with `graph=PARENT` may lead to, in addition
    to those that the nested graph itself declares; None for no others."""
    interrupt_before: bool = False
    """True if the run pauses before the node runs, until it is resumed."""
    interrupt_after: bool = False
    """True if the run pauses after the node's update is committed, before its edges are followed."""
    defer: bool = False
    """True if a plain activation of the node waits until no other task is due."""
    version: str | None = None
    """Free text included in the fingerprint; change it when the meaning of the node changes."""
    tools: tuple[str, ...] | None = None
    """Names of the tools that the agent of the run may use for this node. None, the default, allows all of its tools; in a
    nested graph, all that need no approval."""
    budget: Any = None
    """A Budget for the model calls of each task; None for no limit."""
    input: Any = None
    """For a nested graph, its input: a mapping from its fields to fields of the enclosing graph, or a function of that
    graph's state and optionally the argument of the Send. None for fields with the same names."""
    output: Any = None
    """For a nested graph, its output: a mapping from fields of the enclosing graph to its fields, or a function of its
    last state; None for fields with the same names."""
    update_of: Callable[[Any], Any] | None = None
    """For a nested graph, a function that converts each of its updates to an update of the enclosing graph, or to None;
    None if the two graphs have the same update type."""
    stateful: str | None = None
    """For a nested graph, the field of the enclosing graph that keeps its state between tasks; None if each task starts
    afresh."""
    inline: bool = False
    """True if a sync node runs on the event loop of an asyncio run (R19). Not part of the fingerprint."""
    queue: str | None = None
    """Queue whose workers run the node on a thread; None if the driver runs it. Not part of the fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFields:
    """Fields of the state that a node uses."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Fields that it may write, deleted ones included. Empty if that is unknown."""
    deletes: tuple[str, ...] = ()
    """Fields that it always deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The state access declared by a tool of a node's agent, and the nodes it may lead to."""

    tool: str
    """Name of the tool."""
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    goto: tuple[Ref, ...]
    below: bool = False
    """Whether the tool belongs to an agent that is itself a tool."""

    @classmethod
    def of(cls, tool: Any, *, below: bool) -> ToolUse:
        """Return the declarations of *tool*, a `graphrt.harness.Tool`."""
        policy = tool.policy
        return cls(tool=tool.spec.name, reads=policy.reads, writes=policy.writes, goto=policy.goto, below=below)


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as declared."""

    name: Any
    fn: Any
    """The function, or a compiled graph."""
    policy: Policy
    where: str = ""
    """`file:line` of the call that added it; empty if unknown. The same holds for the other specs."""
    hint: Any = None
    """The function's return annotation, resolved if possible; `hints.UNRESOLVED` if not."""
    fields: NodeFields | None = None
    """The fields that the function declares to use; None if it declares none."""
    tools: tuple[ToolUse, ...] = ()
    """The declarations of the tools that the node offers to its agent: 0..n, only for tools given to the builder as
    objects."""
    given: frozenset[str] = frozenset()
    """Names of the policy arguments that were given. The builder's defaults do not override these."""


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    """A static edge as declared."""

    src: Ref
    dst: Ref
    where: str = ""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A join as declared: *dst* waits for all, any or a number of *sources*."""

    sources: tuple[Ref, ...]
    dst: Ref
    when: Any = "all"
    """The number of sources that must arrive, or "all" or "any"."""
    starved: Any = "error"
    """A `Starved`, once validated."""
    where: str = ""


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """A conditional edge as declared."""

    src: Ref
    router: Any
    routes: Any
    """As given: a mapping of labels to nodes, or a list of nodes."""
    default: Ref = None
    """Target of any label without a route; None if such a label is an error."""
    where: str = ""
    labels: tuple[tuple[Any, ...], bool] | None = None
    """Labels in the router's return annotation, and whether the list is complete; None if it names no label."""
    hint: Any = None
    """The router's return annotation, resolved if possible."""


Declared: TypeAlias = NodeSpec | EdgeSpec | JoinSpec | BranchSpec


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """A whole graph as declared: its schema, and every declaration of its builder."""

    name: str
    state: StateSchema
    update: UpdateSchema
    declared: tuple[Declared, ...]
    """In the order of the calls."""
    where: str = ""
    file: str = ""
    """Path of the file in `where`. It differs between machines, so it never appears in messages or stored values."""
    input: Any = None
    """Class of the input schema; None if an input is the whole state."""
    output: Any = None
    """Class of the output schema; None if the output is the whole state."""
    input_schema: StateSchema | None = None
    """The schema of `input`, which validates inputs; None if an input is the whole state."""
    output_schema: StateSchema | None = None
    """The schema of `output`; None if the output is the whole state."""
    version: int = 0
    """Number of the build, which is not part of the fingerprint."""
    hands_over_to: tuple[Ref, ...] = ()
    """Where it is nested: nodes of the enclosing graph, or END, that Commands with `graph=PARENT` may lead to."""
    problems: tuple[Any, ...] = field(default=())
    """Problems found while the builder was called, for instance a misspelt policy argument."""

    @property
    def input_names(self) -> frozenset[str] | None:
        """Fields of the input schema; None for all fields."""
        return None if self.input_schema is None else frozenset(self.input_schema.fields)

    @property
    def output_names(self) -> frozenset[str] | None:
        """Fields of the output schema; None for all fields."""
        return None if self.output_schema is None else frozenset(self.output_schema.fields)


def pairs(routes: Any) -> list[tuple[Any, Ref]]:
    """Return the (label, target) pairs of a routes argument, in order.

    In a list of nodes, every node is its own label. END is listed twice, as the object and as text, since a router may
    return either.

    Args:
        routes: A mapping of labels to nodes, or an iterable of nodes; None or empty for no routes.
    """
    given_routes: Mapping[Any, Any] | Iterable[Any] = routes or ()
    if isinstance(given_routes, Mapping):
        return [(label, given_routes[label]) for label in given_routes]
    result: list[tuple[Any, Ref]] = []
    for target in given_routes:
        if isinstance(target, EndType):
            result += [(target, target), (target.value, target)]
        else:
            result.append((target, target))
    return result


def routes_to(labels: Iterable[Any]) -> Mapping[Any, Ref] | list[Ref]:
    """Return the routes of a conditional edge declared without any: each of the router's *labels* names a node or END.

    An Enum member names the node by its value if that is a str, else by its name.
    """
    targets: dict[Any, Ref] = {}
    for label in labels:
        name = label
        if isinstance(label, Enum):
            name = label.value if isinstance(label.value, str) else label.name
        targets[label] = END if name == END.value else name
    # A list has END under both labels, the object and its text.
    return list(targets.values()) if all(isinstance(label, (str, EndType)) for label in targets) else targets


def show(ref: Ref) -> str:
    """Return a reference or a label as text for messages.

    Memory addresses are removed, so that a graph always gives the same text.
    """
    if isinstance(ref, (StartType, EndType)):
        return ref.name
    if isinstance(ref, Enum):
        return f"{type(ref).__name__}.{ref.name}"
    if isinstance(ref, str):
        return repr(ref)
    if not callable(ref):
        return re.sub(" at 0x[0-9a-fA-F]+", "", short(ref))
    return f"{getattr(ref, '__name__', None) or type(ref).__name__}()"


@final
class ChosenGraph:
    """The result of `chosen_graph`, passed to `add_node` in place of a function."""

    __slots__ = ("choose", "states")

    def __init__(self, choose: Callable[[Any], Any], states: tuple[type[Any], ...]) -> None:
        self.choose: Callable[[Any], Any] = choose
        """Pure function from the argument of a Send to a compiled graph."""
        self.states: tuple[type[Any], ...] = states
        """State classes that the chosen graphs may have, in addition to that of the enclosing graph.

        The codec of the enclosing graph must know them before any graph is chosen.
        """

    def __call__(self, state: Any, ctx: Any) -> Any:
        """Make `compile()` treat this as a node function that takes a context; it is never called."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"chosen_graph({getattr(self.choose, '__qualname__', self.choose)!s})"
