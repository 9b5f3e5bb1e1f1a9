"""Lowers node objects to a compiled graph: every reachable object becomes a node, and its links become edges.

```text
   next_node ──> static edge          path_map, default_node ──> conditional edge on the decision
   error_node ─> goto of a Command    nodes of a BatchNode ────> a nested graph, with one more for each branch
```

The state of the graph has the program's keys in one field, because any node may set any key. `compile()` checks the
graph like any other, with one exception: a cycle without a way out is only a warning, since Lár documents that such
objects run until fatigue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, TypedDict

from graphrt._drivers.context import Context
from graphrt.commands import END, START
from graphrt.compat.lar._adaptive import AdaptiveState, adaptive_graph, noted
from graphrt.compat.lar._designs import AdaptiveNode
from graphrt.compat.lar._functions import Outside, Place, function_of, route_of, ways
from graphrt.compat.lar._inside import Inside
from graphrt.compat.lar._models import Models
from graphrt.compat.lar._nodes import (
    LAST_ERROR,
    ROUTER_DECISION,
    Ask,
    BaseNode,
    BatchNode,
    HumanJuryNode,
    LLMNode,
    RouterNode,
    error_text,
    has_own_execute,
)
from graphrt.compat.lar._state import BUDGET, Changes, both, folded, nothing_written, same
from graphrt.errors import DefinitionError
from graphrt.errors._codes.compat import BATCH_IN_ITSELF, BRANCHES_CONFLICT, BRANCHES_FAILED
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.limits import Limits
from graphrt.reducers import add, append, ephemeral

_SETTLE: Final = "settle"
_ENDLESS: Final = ("endless-loop", "no-way-out")
"""Codes of the findings about cycles."""


class EndlessLoopWarning(UserWarning):
    """Node objects form a cycle without a way out: they run until fatigue, `max_steps` or a budget ends the run."""


class LarState(TypedDict, total=False):
    """The state of a graph of node objects."""

    values: Annotated[dict[str, Any], folded]
    """The program's keys and values, apart from `token_budget`."""
    token_budget: int | None
    """The rest of the budget, which graphrt lowers by the tokens used."""
    note: Annotated[dict[str, Any], ephemeral]
    """Data for the step's record that is not in the state."""


class BranchState(LarState, total=False):
    """The state of a branch of a batch."""

    written: Annotated[Changes, both]
    """Everything that the branch wrote and deleted."""
    spent: Annotated[int, add]
    """The amount by which its nodes lowered the budget themselves, besides the tokens of their models."""


class BatchState(TypedDict, total=False):
    """The state of a batch. Branches begin with the same values, and their writes are merged when all have ended."""

    values: dict[str, Any]
    token_budget: int | None
    outcomes: Annotated[list[Any], append]
    """`[name, Changes, spent]` of each branch that succeeded, in the order of the branches."""
    written: Changes
    spent: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """Node objects as a graph, with the data that its records need."""

    graph: CompiledGraph[Any, Any, Any]
    objects: Mapping[str, BaseNode]
    """Maps names of nodes, including nested ones, to their objects."""
    asks: bool
    """Whether a node may ask a person, so that the run needs a thread."""
    shares: Mapping[str, int]
    """Maps names of the nodes of batches to the number of branches that share their budget."""
    inside: Inside
    """The inner runs of steps, in a run of the graph."""
    circles: Sequence[str]
    """The findings of `compile()` about cycles: 0..n sentences."""


@dataclass(slots=True, kw_only=True)
class _Work:
    """The shared data of all graphs of one lowering."""

    models: Models
    ask: Ask | None
    limits: Limits
    outside: Outside
    objects: dict[str, BaseNode] = field(default_factory=dict[str, BaseNode])
    inside: bool = False
    """Whether the graphs are part of a design, and so branches."""
    open: list[BatchNode] = field(default_factory=list[BatchNode])
    """The batches whose branches are being lowered, outermost first."""
    shares: dict[str, int] = field(default_factory=dict[str, int])
    """See `Lowering.shares`."""
    inner: Inside = field(default_factory=Inside)
    circles: list[str] = field(default_factory=list[str])
    """See `Lowering.circles`."""

    def name(self, node: BaseNode) -> str:
        """Return a unique name for *node*: its class, with a number after the first node of that class."""
        kind = type(node).__name__
        name, number = kind, 1
        while name in self.objects:
            number += 1
            name = f"{kind}_{number}"
        self.objects[name] = node
        return name


def lower(
    start: BaseNode,
    *,
    models: Models | None = None,
    ask: Ask | None = None,
    limits: Limits | None = None,
    outside: Outside | None = None,
) -> Lowering:
    """Return the graph of all node objects that are reachable from *start*.

    Args:
        start: The first node.
        models: Who answers the nodes that ask a model.
        ask: Asks the questions of `HumanJuryNode`; None pauses.
        limits: Limits of the graph and of each branch in it.
        outside: Data from outside the graph.

    Raises:
        InputError: A branch of a batch leads back to the batch (`input`).
        DefinitionError: The graph has problems other than cycles without a way out.
    """
    work = _Work(models=models or Models(), ask=ask, limits=limits or Limits(), outside=outside or Outside())
    graph = _graph(start, work, name="lar", stop=None)
    asks = any(isinstance(node, HumanJuryNode) for node in work.objects.values())
    return Lowering(
        graph=graph,
        objects=dict(work.objects),
        asks=asks,
        shares=dict(work.shares),
        inside=work.inner,
        circles=work.circles,
    )


def reachable(start: BaseNode, stop: BaseNode | None = None) -> list[BaseNode]:
    """Return the node objects that are reachable from *start*, in the order in which they are found.

    *stop* and what follows it are left out, unless *start* is *stop* itself. Branches of batches are not entered.
    """
    nodes: dict[int, BaseNode] = {id(start): start}
    waiting = [start]
    while waiting:
        for node in waiting.pop(0).successors():
            if node is not stop and id(node) not in nodes:
                nodes[id(node)] = node
                waiting.append(node)
    return list(nodes.values())


def _graph(start: BaseNode, work: _Work, *, name: str, stop: BaseNode | None) -> CompiledGraph[Any, Any, Any]:
    nodes = reachable(start, stop)
    branch = work.inside or bool(work.open)
    names: dict[int, Any] = {id(node): work.name(node) for node in nodes}
    targets = names if stop is None or id(stop) in names else {**names, id(stop): END}
    builder: GraphBuilder[Any, Any, Any] = GraphBuilder(BranchState if branch else LarState, name=name)
    for node in nodes:
        place = Place(
            name=names[id(node)],
            targets=targets,
            models=work.models,
            ask=work.ask,
            branch=branch,
            outside=work.outside,
            inside=work.inner,
        )
        _add(builder, node, place, work)
    builder.add_edge(START, names[id(start)])
    try:
        return builder.compile(limits=work.limits)
    except DefinitionError as error:
        circles = [problem.message for problem in error.problems if problem.code in _ENDLESS]
        if len(circles) < len(error.problems):
            raise
        work.circles += circles
    return builder.compile(limits=work.limits, allow=_ENDLESS)


def _add(builder: GraphBuilder[Any, Any, Any], node: BaseNode, place: Place, work: _Work) -> None:
    name, targets = place.name, place.targets

    def target(to: Any) -> Any:
        return END if to is None else targets[id(to)]

    if has_own_execute(node):
        known = [candidate for candidate in ways(node) if id(candidate) in targets]
        builder.add_node(name, function_of(node, place), goto=[*dict.fromkeys((*map(target, known), END))])
        return
    if isinstance(node, RouterNode):
        builder.add_node(name, function_of(node, place))
        routes = {label: target(to) for label, to in node.path_map.items()}
        default = None if node.default_node is None else target(node.default_node)
        builder.add_conditional_edges(name, route_of(node), routes, default)
        return
    next_node, error_node = getattr(node, "next_node", None), getattr(node, "error_node", None)
    if isinstance(node, (BatchNode, AdaptiveNode)):
        graph = _batch(node, work, name=name) if isinstance(node, BatchNode) else _designed(node, work, name=name)
        builder.add_node(
            name,
            graph,
            input=lambda state: {key: state[key] for key in ("values", BUDGET) if key in state},
            output=lambda last: _ended(last, node, place),
        )
        if error_node is None:
            builder.add_edge(name, target(next_node))
        else:
            paths = {"ended": target(next_node), "failed": target(error_node)}
            builder.add_conditional_edges(name, _way_on, paths)
        return
    if error_node is None:
        builder.add_node(name, function_of(node, place))
    else:
        builder.add_node(name, function_of(node, place), goto=[target(error_node)])
    builder.add_edge(name, target(next_node))


# -- objects that are graphs themselves ----------------------------------------------------------------------------


def _way_on(state: Mapping[str, Any]) -> str:
    """Return the target of a node that is itself a graph. If another node handles its error, the error is recorded."""
    return "failed" if "error" in state["note"] else "ended"


def _ended(last: Mapping[str, Any], node: BatchNode | AdaptiveNode, place: Place) -> dict[str, Any]:
    """Return the update of a node that is itself a graph from the last state of that graph."""
    everything: Changes = last.get("written", nothing_written())
    changes = Changes(written=dict(everything["written"]), deleted=list(everything["deleted"]))
    note: dict[str, Any] = noted(last, node) if isinstance(node, AdaptiveNode) else {}
    if last.get("error") is not None:
        note |= {"error": last["error"], "error_type": "NodeError"}
    update: dict[str, Any] = {"values": changes, "note": note}
    spent: int = last.get("spent", 0)
    if BUDGET in changes["written"]:
        update[BUDGET] = changes["written"].pop(BUDGET)
    elif BUDGET in changes["deleted"]:
        changes["deleted"].remove(BUDGET)
        update[BUDGET] = None
    elif spent:
        update[BUDGET] = last[BUDGET]  # also lowered by the tokens of models
    if place.branch:
        update |= {"written": everything, "spent": spent}
    return update


def _designed(node: AdaptiveNode, work: _Work, *, name: str) -> CompiledGraph[Any, Any, Any]:
    """Return the graph of an AdaptiveNode."""

    def graph_of(first: BaseNode, title: str) -> CompiledGraph[Any, Any, Any]:
        inside = _Work(
            models=work.models, ask=work.ask, limits=work.limits, outside=work.outside, inside=True, inner=work.inner
        )
        return _graph(first, inside, name=title, stop=None)

    return adaptive_graph(
        node,
        name=name,
        models=work.models,
        limits=work.limits,
        graph_of=graph_of,
        states=(BranchState, BatchState, AdaptiveState),
    )


# -- batches -------------------------------------------------------------------------------------------------------


def _batch(batch: BatchNode, work: _Work, *, name: str) -> CompiledGraph[Any, Any, Any]:
    """Return the graph of a batch: its branches in parallel, each a nested graph, and then `settle`.

    All branches run in one superstep, and both their edges and their errors lead to `settle`, which runs once after all
    of them. So a branch that fails does not stop the others.
    """
    if any(opened is batch for opened in work.open):
        raise BATCH_IN_ITSELF(name=name)
    work.open.append(batch)
    builder: GraphBuilder[Any, Any, Any] = GraphBuilder(BatchState, name=name)
    models = sum(_asks_a_model(start, batch.next_node, {id(batch)}) for start in batch.nodes)
    work.shares[name] = max(1, models)
    branches: dict[str, str] = {}
    for number, start in enumerate(batch.nodes):
        branch = f"branch {number}"
        graph = _graph(start, work, name=f"{name}, {branch}", stop=batch.next_node)
        branches[branch] = f"{type(start).__name__} of {branch}"
        builder.add_node(
            branch,
            graph,
            on_error=_SETTLE,
            input=lambda state: _begun(state, models),
            output=partial(_outcome, branches[branch]),
        )
        builder.add_edge(START, branch).add_edge(branch, _SETTLE)

    def settle(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        outcomes: list[Any] = state.get("outcomes", [])
        failed = [f"{branches[failure.node]}: {error_text(failure.error)}" for failure in ctx.failures]
        error: Any = None
        if failed:
            error = BRANCHES_FAILED(failed=len(failed), total=len(branches), details="; ".join(failed))
        joined = nothing_written()
        if error is None:
            error = _conflict(outcomes)
        if error is None:
            for _, changes, _ in outcomes:
                joined = both(joined, changes)
            decided = [changes["written"] for _, changes, _ in outcomes if ROUTER_DECISION in changes["written"]]
            if decided:  # the decision of the first branch is kept
                joined["written"][ROUTER_DECISION] = decided[0][ROUTER_DECISION]
            spent = sum(amount for _, _, amount in outcomes)
            update: dict[str, Any] = {"written": joined, "spent": spent, "error": None}
            if spent:
                update[BUDGET] = max(0, state[BUDGET] - spent)
            return update
        if batch.error_node is None:
            raise error
        joined["written"][LAST_ERROR] = error_text(error)
        return {"written": joined, "error": error_text(error)}

    builder.add_node(_SETTLE, settle)
    if not batch.nodes:
        builder.add_edge(START, _SETTLE)
    work.open.pop()
    return builder.compile(limits=work.limits)  # its only edges lead to `settle`


def _outcome(branch: str, last: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update of a batch from the last state of a branch."""
    return {"outcomes": [[branch, last.get("written", nothing_written()), last.get("spent", 0)]]}


def _begun(state: Mapping[str, Any], models: int) -> dict[str, Any]:
    """Return the input of a branch: the values, and an equal share of the budget, so that the total is within it."""
    budget = state.get(BUDGET)
    branch_input: dict[str, Any] = {"values": state["values"]}
    if budget is not None:
        branch_input[BUDGET] = budget // max(1, models)
    return branch_input


def _conflict(outcomes: list[Any]) -> Any:
    """Return the error for the first key that branches set to different values or one deleted; None without one."""
    wrote: dict[str, tuple[str, Any]] = {}
    for branch, changes, _ in outcomes:
        new_values = {**changes["written"], **dict.fromkeys(changes["deleted"], _GONE)}
        new_values.pop(ROUTER_DECISION, None)
        for key, value in new_values.items():
            if key in wrote and not same(wrote[key][1], value):
                first, before = wrote[key]
                return BRANCHES_CONFLICT(key=key, details=f"{first} {before!r}, {branch} {value!r}")
            wrote.setdefault(key, (branch, value))
    return None


class _Gone:
    def __repr__(self) -> str:
        return "nothing (it deleted the key)"


_GONE: Final = _Gone()


def _asks_a_model(start: BaseNode, stop: BaseNode | None, seen: set[int]) -> bool:
    """Return whether a branch may ask a model, so that it needs a share of the budget.

    Args:
        start: First node of the branch.
        stop: The node at which it ends.
        seen: Ids of batches that were entered.
    """
    for node in reachable(start, stop):
        if isinstance(node, (LLMNode, AdaptiveNode)):
            return True
        if isinstance(node, BatchNode) and id(node) not in seen:
            seen.add(id(node))
            if any(_asks_a_model(branch, node.next_node, seen) for branch in node.nodes):
                return True
    return False
