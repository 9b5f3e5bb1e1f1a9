"""Runs `compile()` on the wiring of a LangGraph graph with stub nodes, and reports its findings in LangGraph's terms.

LangGraph follows all exits of a node: its edges, its routers, and the gotos of its Commands. In graphrt a goto replaces
the edges, and a node has edges or routers, not both. So the exits of a node become parallel conditional edges, where an
edge beside a router becomes one with a single route. Error handlers become `on_error`.

A router may name one target or several, and some targets are unknown. The graph is compiled under the assumptions of a
`View`, and findings under the strictest view are proved.

Stubs and fields have numbered names, `n3` and `f0`, since LangGraph allows any name. So the names in a message of
`compile()` can be mapped back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypedDict

from graphrt._drivers.context import Context
from graphrt.commands import END, START, Command
from graphrt.compat.langgraph import _read
from graphrt.errors import DefinitionError, Problem
from graphrt.graph import GraphBuilder
from graphrt.reducers import append

ONE: Final = "one"
SOME: Final = "some"
ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Targets of one router, or of the Commands of a node."""

    targets: tuple[str, ...]
    """Names of nodes and `"__end__"`, without repetition."""
    several: bool
    """Whether it may name any number of them at once."""
    known: bool
    """Whether the list is complete."""
    ways: tuple[tuple[str, ...], ...] = ()
    """The sets of targets that it names together, if known; empty if it names each target alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The exits of each node, and the keys that it may write. START is also a key of *edges* and *choices*."""

    nodes: tuple[str, ...]
    edges: Mapping[str, tuple[str, ...]]
    choices: Mapping[str, tuple[Choice, ...]]
    waiting: tuple[_read.WaitingEdge, ...]
    handlers: Mapping[str, str]
    """By node, its error handler."""
    open: frozenset[str]
    """Nodes that may go anywhere by Commands."""
    writes: Mapping[str, frozenset[str]]
    """By node, the keys that it writes and that accept only one value in a superstep."""
    sends: bool
    """Whether unknown nodes are started by Sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Assumptions about unknown results."""

    several: Literal["one", "some", "all"]
    """How many targets a router names that may name several: one, some or all."""
    anywhere: bool
    """Whether routers and Commands with unknown targets lead to every node; otherwise they lead nowhere."""


GENEROUS: Final = View(several=SOME, anywhere=True)
"""Everything can happen. What cannot run or end under this view never does."""
VIEWS: Final[Mapping[str, tuple[View, ...]]] = {
    "unreachable-node": (GENEROUS,),
    "endless-loop": (GENEROUS,),
    "starving-join": (View(several=ALL, anywhere=False), View(several=SOME, anywhere=False)),
    "write-conflict": (View(several=ONE, anywhere=False), View(several=ALL, anywhere=False)),
}
"""By code, the views to check. Findings of the first view are proved; those of the others are possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One finding of `compile()`, with the names of LangGraph."""

    code: str
    nodes: tuple[str, ...]
    """As in the message. For a join: its target, a source that runs and one that may not. For a loop: its nodes."""
    keys: tuple[str, ...]
    proved: bool


def judgements(wiring: Wiring) -> list[Judgement]:
    """Return the findings of `compile()`, by code in the order of `VIEWS`, each finding once."""
    problems_by_view: dict[View, list[Problem]] = {}
    judged: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Judgement] = {}
    keys = sorted({key for written in wiring.writes.values() for key in written})
    # If every router names one known target, all views are the same.
    is_known = all(choice.known and not choice.several for many in wiring.choices.values() for choice in many)
    for code, views in VIEWS.items():
        for view in views[:1] if is_known and not wiring.open else views:
            if view not in problems_by_view:
                problems_by_view[view] = _problems(wiring, keys, view)
            for problem in problems_by_view[view]:
                if problem.code == code:
                    nodes = tuple(wiring.nodes[int(number)] for number in re.findall(r"'n(\d+)'", problem.message))
                    named = tuple(keys[int(number)] for number in re.findall(r"'f(\d+)'", problem.message))
                    proved = view is views[0]
                    judged.setdefault(
                        (code, nodes[:1], named), Judgement(code=code, nodes=nodes, keys=named, proved=proved)
                    )
    return [judgement for judgement in judged.values() if not _of_unknown_routes(judgement, wiring)]


def _of_unknown_routes(judgement: Judgement, wiring: Wiring) -> bool:
    """Return whether a join seems to starve only because the routes to one of its sources are unknown."""
    return judgement.code == "starving-join" and any(node not in reached(wiring) for node in judgement.nodes)


def reached(wiring: Wiring) -> frozenset[str]:
    """Return the nodes that edges, joins and known choices lead to."""
    seen = {_read.START}
    work = [_read.START]
    joins: dict[str, list[str]] = {}
    for join in wiring.waiting:
        for source in join.sources:
            joins.setdefault(source, []).append(join.target)
    while work:
        at = work.pop()
        chosen = [target for choice in wiring.choices.get(at, ()) if choice.known for target in choice.targets]
        handler = wiring.handlers.get(at)
        for target in (*wiring.edges.get(at, ()), *joins.get(at, ()), *chosen, *([handler] if handler else ())):
            if target not in seen:
                seen.add(target)
                work.append(target)
    return frozenset(seen)


_typed_dict: Final[Any] = TypedDict
_literal: Final[Any] = Literal
"""Type checkers do not know the arguments of either."""


def _stub(state: Any, ctx: Context) -> None:
    """Do nothing. It takes a context, because a Send may start it."""


def _going_anywhere(state: Any, ctx: Context) -> Command:  # noqa: ARG001
    """Stub of a node whose Commands may go anywhere."""
    return Command()


def _problems(wiring: Wiring, keys: Sequence[str], view: View) -> list[Problem]:
    """Return the findings of `compile()` under the assumptions of *view*."""
    # A graph needs a field; "other" has a reducer, and so no conflicts.
    fields: dict[str, Any] = {**{f"f{index}": Any for index in range(len(keys))}, "other": Annotated[list[Any], append]}
    state: Any = _typed_dict("state", fields, total=False)
    builder: GraphBuilder[Any, Any] = GraphBuilder(state, name="graph")
    number = {name: f"n{index}" for index, name in enumerate(wiring.nodes)}
    field = {key: f"f{index}" for index, key in enumerate(keys)}
    refs: dict[str, Any] = {**number, _read.START: START, _read.END: END}
    for name in wiring.nodes:
        goes_anywhere = name in wiring.open and view.anywhere
        handler = wiring.handlers.get(name)
        builder.add_node(
            number[name],
            _going_anywhere if goes_anywhere else _stub,
            writes=tuple(field[key] for key in sorted(wiring.writes.get(name, ()))),
            on_error=number[handler] if handler else None,
        )
    for name in (_read.START, *wiring.nodes):
        _add_outgoing(builder, refs, name, wiring, view)
    for join in wiring.waiting:
        if join.target != _read.END:
            builder.add_join([refs[source] for source in dict.fromkeys(join.sources)], refs[join.target])
    try:
        builder.compile()
    except DefinitionError as error:
        return list(error.problems)
    return []


def _add_outgoing(builder: Any, refs: Mapping[str, Any], name: str, wiring: Wiring, view: View) -> None:
    edges = [target for target in wiring.edges.get(name, ()) if name != _read.START or target != _read.END]
    choices: list[Choice] = []
    for choice in wiring.choices.get(name, ()):
        targets = choice.targets
        if not choice.known:
            targets = (*wiring.nodes, _read.END) if view.anywhere else (_read.END,)
        choices.append(choice if choice.known else Choice(targets=targets, several=True, known=False))
    if name == _read.START and wiring.sends and view.anywhere:
        choices.append(Choice(targets=(*wiring.nodes, _read.END), several=True, known=False))
    if name == _read.START and not edges and not choices:
        choices.append(Choice(targets=(_read.END,), several=False, known=True))
    if not choices:
        for target in edges:
            builder.add_edge(refs[name], refs[target])
        return
    for target in edges:
        builder.add_conditional_edges(refs[name], _router(("t0",), ONE), {"t0": refs[target]})
    for at, choice in enumerate(choices):
        if choice.ways:
            _add_ways(builder, refs, name, choice, at)
            continue
        routes = {f"t{index}": refs[target] for index, target in enumerate(choice.targets)}
        if routes:
            several = view.several if choice.several else ONE
            # A router that names all its targets at once becomes several routers with one target each.
            for group in _groups(routes, several):
                builder.add_conditional_edges(refs[name], _router(tuple(group), several), group)


def _add_ways(builder: Any, refs: Mapping[str, Any], name: str, choice: Choice, at: int) -> None:
    """Add one stub for each set of targets that are named together, and a router that chooses a stub."""
    if len(choice.ways) == 1:
        for target in choice.ways[0]:
            builder.add_conditional_edges(refs[name], _router(("t0",), ONE), {"t0": refs[target]})
        return
    routes: dict[str, str] = {}
    for way in choice.ways:
        stub = f"way {len(routes)} of choice {at} of {name}"
        builder.add_node(stub, _stub)
        routes[f"t{len(routes)}"] = stub
        for target in way:
            builder.add_edge(stub, refs[target])
    builder.add_conditional_edges(refs[name], _router(tuple(routes), ONE), routes)


def _groups(routes: Mapping[str, Any], several: str) -> Iterable[dict[str, Any]]:
    if several != ALL:
        return [dict(routes)]
    return [{label: target} for label, target in routes.items() if target is not END] or [dict(routes)]


def _router(labels: tuple[str, ...], several: str) -> Callable[[Any], Any]:
    """Return a router whose annotation says which labels it returns, and whether in a list."""

    def route(state: Any) -> Any:  # never called  # noqa: ARG001
        return labels

    literal: Any = _literal[labels]
    route.__annotations__ = {"state": Any, "return": list[literal] if several == SOME else literal}
    return route
