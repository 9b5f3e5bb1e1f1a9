"""The possible outcomes of nodes, models, the harness, and people who are asked.

This module checks them and turns them into stubs that ask a `Chooser`. It runs no graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from graphrt.commands import END, START, Command, node_name
from graphrt.errors import closest
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_NODE_ASKED
from graphrt.graph import CompiledGraph
from graphrt.harness import FunctionModel, MockHarness
from graphrt.testing.exploring._user_functions import check_answers
from graphrt.testing.exploring._values import short
from graphrt.testing.exploring.routes._choices import Chooser
from graphrt.testing.route_coverage.arcs import Arc, arc_of, branches, shown

Graph = CompiledGraph[Any, Any, Any]
Ask = Callable[[], Chooser]
"""Returns the chooser of the current path."""


@dataclass(frozen=True, slots=True)
class Label:
    """The targets of a node that does nothing: a combination of labels of its routers, or a target of its Commands."""

    said: str
    goto: tuple[str, ...] | None
    """Targets, END as "END"; None leaves the edges in force."""
    arcs: tuple[Arc, ...] = ()
    fails: bool = False
    """Whether the node fails, which its `on_error` handles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """All alternatives of one exploration, checked."""

    inputs: tuple[Any, ...]
    """1..n inputs."""
    nodes: Mapping[str, Any]
    """Maps the path of a node to its alternatives. None: it does nothing, and its routers give each of their labels."""
    replies: Mapping[str, tuple[Any, ...]]
    """Maps an agent to the possible replies of its model."""
    harness: tuple[Any, ...] | None
    answers: Callable[[Any], Sequence[Any]]
    """Returns a person's possible answers to a question."""
    free: bool = False
    """Whether there are no alternatives, so that each node does nothing."""
    asked: tuple[str, ...] = ()
    """Parts left out because routers are called unchanged, or give one label at a time."""
    labels: Mapping[str, tuple[Label, ...]] = field(default_factory=dict[str, tuple[Label, ...]])
    """Maps the path of each node that does nothing to its targets."""

    def stubbed(self, graph: Graph, ask: Ask) -> Graph:
        """Return a copy of *graph* whose nodes with alternatives ask the chooser. Nested graphs are copied too."""
        return _stubbed(graph.without_queues(), "", self, ask)

    def models(self, ask: Ask) -> dict[str, Any]:
        """Return models that ask the chooser, by the names of their agents."""
        return {name: FunctionModel(_chosen("reply", name, items, ask)) for name, items in self.replies.items()}

    def of_harness(self, ask: Ask) -> dict[str, Any]:
        """Return the option `harness=`, if there are replies of the harness."""
        if self.harness is None:
            return {}
        return {"harness": MockHarness({_any_call: _chosen("harness", "harness", self.harness, ask)})}


def read(
    graph: Graph,
    input: Any,
    alternatives: Mapping[Any, Sequence[Any] | None] | None,
    replies: Mapping[str, Sequence[Any]] | None,
    harness: Sequence[Any] | None,
    answers: Callable[[Any], Sequence[Any]] | Sequence[Any],
) -> Alternatives:
    """Check the alternatives of a call.

    Raises:
        InputError: They name an unknown node, have an empty list, or contain an async function, or *answers* is neither
            a list nor a sync function. A result that no node can return is refused when it is chosen.
    """
    check_answers("answers=", answers)
    items_by_node = {node_name(key): items for key, items in (alternatives or {}).items()}
    inputs = _listed(items_by_node.pop(START, [input]), "the input (START)")
    free = (
        not items_by_node
        and not replies
        and harness is None
        and alternatives is None
        and not (callable(answers) or answers)
    )
    known = dict(_paths(graph, ""))
    if free:
        items_by_node = dict.fromkeys(path for path, (owner, name) in known.items() if name not in owner.nested)
    checked: dict[str, Any] = {}
    labels: dict[str, tuple[Label, ...]] = {}
    asked: list[str] = []
    for key, items in items_by_node.items():
        if not isinstance(key, str) or key not in known:
            raise UNKNOWN_NODE_ASKED(
                who="alternatives=",
                name=key,
                known_nodes=known,
                or_end=", one of a nested graph as 'outer/inner'",
                guess=closest(key, known),
            )
        owner, name = known[key]
        if items is None:
            labels[key], complete = _labels(owner, name)
            checked[key] = None
            if not complete:
                asked.append(f"labels of {key!r}, which feeds a join too: its router was asked as it is")
            elif lists := _lists(owner, name):
                asked.append(f"lists and Sends of {lists!r}: its labels were taken one at a time")
        else:
            checked[key] = _listed(items, f"node {key!r}")
            if waits := next((item for item in checked[key] if inspect.iscoroutinefunction(item)), None):
                raise INVALID_ARGUMENT(
                    argument=f"An alternative of node {key!r}", value=waits, wanted="a function that does not wait"
                )
    if free and any(edge["from"] == "START" and edge["kind"] == "conditional" for edge in graph.topology()["edges"]):
        asked.append("labels of START: its router was asked as it is")
    return Alternatives(
        inputs=inputs,
        nodes=checked,
        replies={name: _listed(items, f"agent {name!r}") for name, items in (replies or {}).items()},
        harness=None if harness is None else _listed(harness, "the harness"),
        answers=answers if callable(answers) else lambda _question: answers,
        free=free,
        asked=tuple(asked),
        labels=labels,
    )


def _listed(items: Any, of: str) -> tuple[Any, ...]:
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
        raise INVALID_ARGUMENT(
            argument=f"The alternatives of {of}", value=items, wanted="a list, with one item for each alternative"
        )  # pyright: ignore[reportUnknownArgumentType]
    if not items:
        raise INVALID_ARGUMENT(argument=f"The alternatives of {of}", value=[], wanted="at least one, or leave it out")
    return tuple(items)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def _paths(graph: Graph, above: str) -> Iterator[tuple[str, tuple[Graph, str]]]:
    for name in graph.nodes:
        yield above + name, (graph, name)
        nested = graph.nested.get(name)
        if nested is not None:
            yield from _paths(nested, f"{above}{name}/")


# -- nodes whose routers give each of their labels -----------------------------------------------------------------


def _labels(graph: Graph, name: str) -> tuple[tuple[Label, ...], bool]:
    """Return the possible targets of a node that does nothing, and whether the list has all of its routes."""
    topology = graph.topology()
    edges = [edge for edge in topology["edges"] if edge["from"] == name]
    routes = [edges for (source, _), edges in sorted(branches(topology).items()) if source == name]
    labels: list[Label] = []
    joined = any(edge["kind"] == "join" for edge in edges)
    if routes and not joined:
        for chosen in product(*routes):
            arcs = tuple(map(arc_of, chosen))
            text = ", ".join(f"{arc.target} by label {arc.label!r}" for arc in arcs)
            labels.append(Label(text, tuple(dict.fromkeys(arc.target for arc in arcs)), arcs))
    gotos = [edge["to"] for edge in edges if edge["kind"] == "goto"]
    labels += [Label(f"{target} by a Command", (target,), (Arc("goto", name, target),)) for target in gotos]
    if not labels or (any(edge["kind"] == "static" for edge in edges) and gotos):
        labels.insert(0, Label("wherever its edges lead", None))
    if any(edge["kind"] == "on_error" for edge in edges):
        labels.append(Label("its on_error node, since it fails", None, fails=True))
    return tuple(labels), not (routes and joined)


def _lists(graph: Graph, name: str) -> str | None:
    """Return the router of node *name* whose labels are its targets, so that it may return lists and Sends; or None."""
    for (source, _), edges in branches(graph.topology()).items():
        if source != name:
            continue
        if all(not edge.get("default") and shown(edge["label"]) == edge["to"] for edge in edges):
            return str(edges[0]["router"])
    return None


# -- stubs ---------------------------------------------------------------------------------------------------------


def _stubbed(graph: Graph, above: str, alternatives: Alternatives, ask: Ask) -> Graph:
    stubs: dict[str, Any] = {}
    nested = graph.nested
    for name in graph.nodes:
        path = above + name
        if path in alternatives.nodes:
            items = alternatives.nodes[path]
            stubs[name] = _free(path, alternatives.labels[path], ask) if items is None else _node(path, items, ask)
        elif name in nested:
            stubs[name] = _stubbed(nested[name], f"{path}/", alternatives, ask)
    return graph.with_nodes(stubs)


def _node(path: str, items: tuple[Any, ...], ask: Ask) -> Callable[[Any, Any], Any]:
    chosen = _chosen("node", path, items, ask)

    def stub(state: Any, ctx: Any) -> Any:
        return chosen(state, ctx)

    return stub


def _chosen(kind: str, name: str, items: tuple[Any, ...], ask: Ask) -> Callable[..., Any]:
    """Return a function that applies the chosen one of *items*: returns, raises or calls it.

    It is called with a request, or with the state and the context; an item may omit the context.
    """
    texts = [short(item) for item in items]

    def take(*arguments: Any) -> Any:
        chooser = ask()
        choice = chooser.choose(kind, name, texts, items)
        item = choice.value
        if isinstance(item, BaseException):
            raise item
        if callable(item) and not isinstance(item, type):
            result = item(arguments[0]) if len(arguments) > 1 and not _takes_context(item) else item(*arguments)
            chooser.came_to(choice, deepcopy(result))
            return result
        return deepcopy(item)

    return take


def _free(path: str, labels: tuple[Label, ...], ask: Ask) -> Callable[[Any, Any], Any]:
    texts = [label.said for label in labels]

    def stub(state: Any, ctx: Any) -> Any:  # noqa: ARG001 - a node that a Send starts takes its context
        label: Label = ask().choose("route", path, texts, labels, free=True).value
        if label.fails:
            raise RuntimeError("the explorer lets this node fail")
        if label.goto is None:
            return None
        return Command(goto=[END if target == "END" else target for target in label.goto])

    return stub


def _any_call(_request: Any) -> bool:
    return True


def _takes_context(function: Any) -> bool:
    """Return whether *function* takes the context: like a node, by a second positional parameter without a default."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    return len(positional) > 1
