"""Rules about wiring: names, routes, Commands, and paths through the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphrt.compat.langgraph._flow import Flow, labels_of, shows_all
from graphrt.compat.langgraph._places import Places, is_foreign
from graphrt.compat.langgraph._read import END, START, Branch, GraphDescription, Node, Place, plain_function
from graphrt.compat.langgraph._rules import RULES, Finding
from graphrt.compat.langgraph._source import Source, mentions
from graphrt.compat.langgraph._topology import Judgement, judgements
from graphrt.errors import closest, names

_SHOWN = 8
"""Maximum number of nodes of a loop that the message names."""


def wiring_findings(
    graph: GraphDescription, flow: Flow, places: Places, parent: GraphDescription | None
) -> Iterator[Finding]:
    """Yield the problems of the wiring of *graph*; *parent* is the graph that it is a node of."""
    unknown = list(_unknown_nodes(graph, places))
    yield from unknown
    for branch, source in zip(graph.branches, flow.routers, strict=True):
        if branch.source in graph.nodes or branch.source == START:
            yield from _router(branch, source, graph, places)
    for name, node in graph.nodes.items():
        yield from _commands(node, flow.sources[name], flow, parent)
        yield from _annotations(node, None)
    if not unknown:  # paths through a graph with errors are meaningless, as in compile() of graphrt
        yield from _judged(graph, flow, places)
        yield from _runs_twice(graph, flow, places)
        yield from _dead_ends(graph, flow, places)


# ------------------------------------------------------------------------------------------------------------- names


def _unknown_nodes(graph: GraphDescription, places: Places) -> Iterator[Finding]:
    """Yield the mistakes that `compile()` of LangGraph refuses."""
    known = set(graph.nodes)
    sources = [start for start, _ in graph.edges] + [branch.source for branch in graph.branches]
    if START not in sources:
        yield RULES["no-entry"]()
    for start, end in graph.edges:
        for name, others in ((start, known | {START}), (end, known | {END})):
            if name not in others:
                edge = f"The edge {_shown(start)} -> {_shown(end)}"
                yield RULES["unknown-node"](
                    edge=edge, name=name, place=places.edge(start, end), guess=closest(name, list(known)) or ""
                )
    for branch in graph.branches:
        place = places.branch(branch.source, branch.name)
        if branch.source not in known | {START}:
            edge = f"The conditional edge of {branch.source!r}"
            yield RULES["unknown-node"](edge=edge, name=branch.source, place=place, guess=_guess(branch.source, known))
        for name in dict.fromkeys((branch.path_map or {}).values()):
            if name not in known | {END}:
                edge = f"The path map of the router {branch.name!r} of {_shown(branch.source)}"
                yield RULES["unknown-node"](edge=edge, name=name, place=place, guess=_guess(name, known))
    for node in graph.nodes.values():
        for name in node.targets:
            if name not in known | {END}:
                edge = (
                    f"destinations= of node {node.name!r}" if node.destinations else f"The annotation of {node.name!r}"
                )
                yield RULES["unknown-node"](
                    edge=edge, name=name, node=node.name, place=node.place, guess=_guess(name, known)
                )


def _guess(name: str, known: Iterable[str]) -> str:
    return closest(name, list(known)) or ""


def _shown(name: str) -> str:
    return {START: "START", END: "END"}.get(name, repr(name))


def _label(label: Any) -> str:
    return "None" if label is None else _shown(label) if isinstance(label, str) else repr(label)


def _router(branch: Branch, source: Source | None, graph: GraphDescription, places: Places) -> Iterator[Finding]:
    """Yield the problems of one router: labels without a target, targets without a label, no known label."""
    if is_foreign(branch.place):
        return
    labels, closed = labels_of(branch, source)
    of: dict[str, Any] = {"router": branch.name, "source": _shown(branch.source)}
    subject = f"The router {branch.name!r} of {_shown(branch.source)}"
    declared = places.branch(branch.source, branch.name) or branch.place
    yield from _returned(branch, source, labels, graph, subject)
    yield from _sends(source, graph, subject)
    sends = branch.sends or any(result.sends for result in (source.results if source is not None else ()))
    if branch.path_map is not None and closed and not sends and labels:
        dead = [label for label in branch.path_map if label not in labels]
        if dead:
            yield RULES["dead-route"](
                **of, dead=", ".join(map(_label, dead)), labels=", ".join(map(_label, labels)),
                targets=", ".join(dict.fromkeys(_shown(branch.path_map[label]) for label in dead)), place=declared,
                proved=len(labels) > 1,  # one that returns a constant is a stub, or not finished
            )  # fmt: skip
    elif branch.path_map is None and not closed and not branch.unresolved and not sends and not _may_send(branch):
        yield RULES["unchecked-router"](**of, place=branch.place or declared)
    yield from _annotations(None, branch)


def _may_send(branch: Branch) -> bool:
    """Return whether a router may return Sends, whose targets no annotation can name."""
    return branch.function is not None and mentions(branch.function, "Send")


def _returned(
    branch: Branch, source: Source | None, labels: Mapping[Any, int], graph: GraphDescription, subject: str
) -> Iterator[Finding]:
    """Yield labels of a router that lead nowhere."""
    known = {*graph.nodes, END}
    results = source.results if source is not None else []
    path_map = branch.path_map
    shown = names(graph.nodes if path_map is None else list(map(str, path_map)))
    error = "ValueError" if path_map is None else "KeyError"
    if any(result.implicit for result in results) and None not in (path_map or {}):
        label = "None, at the end of the function"
        yield RULES["unknown-route"](
            who=subject, label=label, labels=shown, error=error, place=branch.place, proved=False
        )
    for label, line in labels.items():
        if not line and shows_all(source):
            continue  # the annotation is wider than the code
        place = Place(file=branch.place.file, line=line) if line and branch.place is not None else branch.place
        if label is None if path_map is None else label not in path_map:
            yield RULES["unknown-route"](who=subject, label=_label(label), labels=shown, error=error, place=place)
        elif path_map is None and label not in known:
            yield RULES["unknown-target"](who=subject, name=label, place=place, guess=_guess(str(label), known))


def _sends(source: Source | None, graph: GraphDescription, subject: str) -> Iterator[Finding]:
    for result in source.results if source is not None else ():
        for name, line in result.sends.items():
            if name not in graph.nodes:
                yield RULES["unknown-target"](
                    who=subject, name=name, place=_line(source, line), guess=_guess(name, graph.nodes)
                )


def _line(source: Source | None, line: int) -> Place | None:
    return None if source is None else Place(file=source.file, line=line)


def _annotations(node: Node | None, branch: Branch | None) -> Iterator[Finding]:
    """Yield annotations that LangGraph drops because one of their names cannot be resolved."""
    item = node or branch
    if item is None or not item.unresolved or is_foreign(item.place):
        return
    texts = getattr(plain_function(item.function), "__annotations__", {})
    returned = str(texts.get("return", ""))
    if node is not None and "Command[" in returned and "Literal" in returned and not node.targets:
        lost, instead = "the targets of its Commands", "destinations=[...] to add_node"
    elif branch is not None and "Literal[" in returned and branch.path_map is None:
        lost, instead = "the labels of the router", "a path map to add_conditional_edges"
    else:
        return
    subject = f"node {node.name!r}" if node is not None else f"the router {item.name!r}"
    yield RULES["unread-annotation"](
        who=subject, problem=item.unresolved, lost=lost, instead=instead, place=item.place,
        node=node.name if node is not None else None,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- Commands


def _commands(node: Node, source: Source | None, flow: Flow, parent: GraphDescription | None) -> Iterator[Finding]:
    """Yield the problems of a node's gotos."""
    graph = flow.graph
    yield from _edges_beside(node, source, flow)
    if source is None:
        return
    subject = f"Node {node.name!r}"
    yield from _sends(source, graph, subject)
    gotos = {name: line for returned in source.results for name, line in returned.gotos.items()}
    for name, line in gotos.items():
        place = _line(source, line)
        if name not in graph.nodes and name != END:
            yield RULES["unknown-target"](
                who=subject, name=name, node=node.name, place=place, guess=_guess(name, [*graph.nodes, END])
            )
        elif node.annotated_targets is not None and name not in (*node.annotated_targets, *node.targets):
            yield RULES["undeclared-goto"](
                node=node.name, name=name, declared=names(node.annotated_targets), place=place
            )
    undeclared = [name for name in gotos if name in graph.nodes]
    if undeclared and node.annotated_targets is None and not node.targets and not node.unresolved:
        line = min(gotos[name] for name in undeclared)
        yield RULES["undeclared-command"](node=node.name, names=names(undeclared), place=_line(source, line))
    for result in source.results if parent is not None else ():
        for name, line in result.parent_gotos.items():
            if parent is not None and name not in parent.nodes and name != END:
                yield RULES["unknown-target"](
                    who=f"{subject}, by Command.PARENT,", name=name, node=node.name, place=_line(source, line),
                    guess=_guess(name, parent.nodes),
                )  # fmt: skip


def _edges_beside(node: Node, source: Source | None, flow: Flow) -> Iterator[Finding]:
    """Yield nodes whose edges are followed in addition to the gotos of their Commands."""
    graph = flow.graph
    goto = flow.gotos[node.name]
    edges = [end for start, end in graph.edges if start == node.name and end != END]
    routers = [branch.name for branch in graph.branches if branch.source == node.name]
    sent = {name for result in (source.results if source is not None else ()) for name in result.sends}
    other = [name for name in goto.targets if name not in edges and name not in sent]
    # An edge to END, or a router beside a goto to the same nodes, adds nothing.
    if not other or not (edges or routers):
        return
    shown = [f"an edge to {_shown(end)}" for end in edges] + [f"the router {name!r}" for name in routers]
    seen = [line for name, line in goto.seen.items() if name in other]
    place = _line(source, min(seen)) if seen and source is not None else node.place
    yield RULES["edges-beside-goto"](
        node=node.name, edges=" and ".join(shown), gotos=", ".join(map(_shown, other)), place=place, proved=bool(seen)
    )


# ------------------------------------------------------------------------------------------------------------- paths


def _judged(graph: GraphDescription, flow: Flow, places: Places) -> Iterator[Finding]:
    """Yield the findings of graphrt's `compile()`, in LangGraph's words."""
    for judgement in judgements(flow.wiring):
        node = graph.nodes[judgement.nodes[0]] if judgement.nodes else None
        if judgement.code == "unreachable-node" and node is not None and not node.is_error_handler:
            yield RULES[judgement.code](node=node.name, place=places.node(node.name) or node.place)
        elif judgement.code == "starving-join" and len(judgement.nodes) == 3:
            yield _starving(judgement, graph, flow, places)
        elif judgement.code == "endless-loop":
            shown = [repr(name) for name in judgement.nodes]
            loop = " -> ".join(shown if len(shown) <= _SHOWN else [*shown[:_SHOWN], "..."])
            yield RULES[judgement.code](node=judgement.nodes[0], loop=loop, place=_of_loop(judgement, places, node))
        elif judgement.code == "write-conflict":
            yield _conflict(judgement, graph, flow)


def _of_loop(judgement: Judgement, places: Places, first: Node | None) -> Place | None:
    """Return the line of the edge that closes the loop, else of another of its edges, else of its first node."""
    edges = [places.edge(*pair) for pair in zip(judgement.nodes, judgement.nodes[1:], strict=False)]
    return next((place for place in reversed(edges) if place is not None), first.place if first is not None else None)


def _starving(judgement: Judgement, graph: GraphDescription, flow: Flow, places: Places) -> Finding:
    target, runs, skipped = judgement.nodes
    joins = [join for join in graph.waiting if join.target == target]
    join = next((join for join in joins if {runs, skipped} <= set(join.sources)), joins[0])
    edge = f"[{', '.join(map(repr, join.sources))}] -> {target!r}"
    place = places.edge(join.sources, target) or graph.nodes[target].place
    return RULES[judgement.code](
        node=target,
        edge=edge,
        runs=runs,
        skipped=skipped,
        place=place,
        proved=judgement.proved and not flow.sends_anywhere,
    )


def _conflict(judgement: Judgement, graph: GraphDescription, flow: Flow) -> Finding:
    proved = judgement.proved and all(
        flow.always_writes(name, key) for name in judgement.nodes for key in judgement.keys
    )
    subject = (
        f"Nodes {_and(judgement.nodes)}" if len(judgement.nodes) == 2 else f"Some of the nodes {_and(judgement.nodes)}"
    )
    writer = next((name for name in judgement.nodes if graph.nodes[name].place is not None), judgement.nodes[0])
    return RULES[judgement.code](
        node=judgement.nodes[0], who=subject, keys=names(judgement.keys),
        has="has" if len(judgement.keys) == 1 else "have",
        place=graph.nodes[writer].place, proved=proved,
    )  # fmt: skip


def _and(shown: Iterable[str]) -> str:
    first = [repr(name) for name in shown]
    return f"{', '.join(first[:-1])} and {first[-1]}"


def _runs_twice(graph: GraphDescription, flow: Flow, places: Places) -> Iterator[Finding]:
    """Yield nodes that one fan-out reaches by edges along branches of different length."""
    after: dict[str, list[str]] = {}
    for start, end in graph.edges:
        if end in graph.nodes:
            after.setdefault(start, []).append(end)
    repeated: dict[str, set[str]] = {}
    proved: set[str] = set()
    fans = [(origin, tuple(targets), True) for origin, targets in after.items()]
    for origin, choices in flow.wiring.choices.items():
        for choice in choices:
            fans += [(origin, way, len(choice.ways) == 1) for way in choice.ways]
            if choice.several and choice.known:
                fans.append((origin, choice.targets, False))
    for origin, targets, is_sure in fans:
        if len(targets) > 1:
            for name, sources in _met_again(origin, targets, after, graph).items():
                repeated.setdefault(name, set()).update(sources)
                proved.update([name] if is_sure else [])
    # The successors of such a node also run twice, and are not reported again. Nor are nodes of a loop.
    again = {below for name in repeated for below in _below(name, after)}
    for name, sources in repeated.items():
        if name in again:
            continue
        ordered = [node for node in (START, *graph.nodes) if node in sources]
        yield RULES["runs-twice"](
            node=name, sources=", ".join(map(_shown, ordered)),
            place=places.edge(ordered[-1], name) or places.node(name) or graph.nodes[name].place, proved=name in proved,
        )  # fmt: skip


def _met_again(
    origin: str, targets: Iterable[str], after: Mapping[str, Iterable[str]], graph: GraphDescription
) -> dict[str, set[str]]:
    """Return nodes that run in two supersteps after *origin* has started its targets, with the nodes before them.

    A successor of such a node also runs twice, and is left out. Two path lengths per node suffice, so no node is
    visited more than twice. A deferred node waits for all branches.
    """
    lengths: dict[str, set[int]] = {}
    before: dict[str, set[str]] = {}
    work = [(target, 0, origin) for target in targets]
    while work:
        name, length, source = work.pop()
        if name == origin:
            return {}  # a loop, in which everything runs again
        if name not in graph.nodes or graph.nodes[name].defer:
            continue
        before.setdefault(name, set()).add(source)
        known = lengths.setdefault(name, set())
        if length not in known and len(known) < 2:
            known.add(length)
            work += [(target, length + 1, name) for target in after.get(name, ())]
    twice = {name for name, known in lengths.items() if len(known) > 1}
    return {name: before[name] for name in twice if len(before[name]) > 1 and twice.isdisjoint(before[name])}


def _below(name: str, after: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the nodes that edges lead to from a node; itself only if it is on a loop of edges."""
    seen: set[str] = set()
    work = [name]
    while work:
        for target in after.get(work.pop(), ()):
            if target not in seen:
                seen.add(target)
                work.append(target)
    return seen


def _dead_ends(graph: GraphDescription, flow: Flow, places: Places) -> Iterator[Finding]:
    """Yield nodes without successors, in a graph that marks its end elsewhere."""
    says_so = any(end == END for _, end in graph.edges) or any(
        END in (branch.path_map or {}).values() for branch in graph.branches
    )
    leaving = {start for start, _ in graph.edges} | {branch.source for branch in graph.branches}
    leaving |= {source for join in graph.waiting for source in join.sources}
    for name, node in graph.nodes.items() if says_so else ():
        goto = flow.gotos[name]
        foreign = node.function is not None and mentions(node.function, "Command")
        if name not in leaving and not goto.targets and not goto.open and not node.is_error_handler and not foreign:
            yield RULES["dead-end"](node=name, place=places.node(name) or node.place, proved=False)
