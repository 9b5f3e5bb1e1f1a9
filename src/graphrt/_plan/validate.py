"""The errors of a declared graph: every wiring mistake, in declaration order. No user code is called.

Judgements about paths through the graph are in `reachability`, `starving_joins`, `endless_loops`, `write_conflicts` and
`deleted_sources`; they run only on graphs without errors.

Each declaration has `where`, the `file:line` of the call. A *ref* is what the user passed for a node: its name, START,
END, or an invalid value. *what* is the declaration as text, for messages. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum
from typing import Any, Final

from graphrt._arguments import is_mapping
from graphrt._plan import specs
from graphrt._plan.callables import node_shape, router_problem
from graphrt._plan.node_attributes import fields_of
from graphrt._plan.nodes import (
    MAX_NAME,
    bad_keeping,
    leaking,
    name_problem,
    other_updates,
    policy_problems,
    targets_in_a_type,
    tool_problems,
    unknown_reads,
    unknown_sources,
    unknown_targets,
    unknown_writes,
)
from graphrt._plan.specs import BranchSpec, EdgeSpec, GraphSpec, JoinSpec, NodeSpec, ToolUse, show
from graphrt._plan.state import short
from graphrt.commands import END, RESERVED_NAMES, START, EndType, StartType
from graphrt.errors import Problem, closest, names
from graphrt.errors._codes.findings import (
    BAD_LIMIT_IN_GRAPH,
    BAD_LIMIT_OPTION,
    BAD_NAME,
    BAD_ROUTER_SIGNATURE,
    BAD_SIGNATURE,
    DEAD_ROUTE,
    DEPTH_LIMIT_OF_GRAPH,
    DUPLICATE_EDGE,
    DUPLICATE_NODE,
    DUPLICATE_SOURCE,
    EMPTY_ROUTES,
    END_AS_SOURCE,
    IMPOSSIBLE_LABEL,
    JOIN_OF_START,
    JOIN_WITHOUT_SOURCES,
    LABEL_WITHOUT_ROUTE,
    MIXED_EDGES,
    NO_ENTRY,
    RESERVED_NAME,
    START_AS_TARGET,
    START_TO_END,
    TOOL_STATE_IN_NODE,
    UNKNOWN_NODE,
)
from graphrt.limits import Limits


def errors(spec: GraphSpec, limits: Limits) -> list[Problem]:
    """Return all errors of *spec*: of state, Update and builder calls, then by declaration, then of the whole graph."""
    return [*spec.state.problems, *spec.update.problems, *spec.problems, *_Checks(spec, limits).run()]


MOST_GUESSES: Final = 20_000
"""Maximum number of name comparisons for "did you mean" guesses. Without a limit, they grow with mistakes times
nodes."""


class _Checks:
    """One pass over the declarations, which records those seen so far to detect repetitions and mixed edges."""

    def __init__(self, spec: GraphSpec, limits: Limits) -> None:
        self.spec = spec
        self.limits = limits
        self.nodes: dict[str, NodeSpec] = {}  # the first declaration of each name, known before the pass
        self.edges: dict[tuple[Hashable, Hashable], str] = {}  # (source, target) to where the edge was declared
        self.branches: dict[tuple[Hashable, int], list[Any]] = {}  # (source, id of the router) to routes, as given
        self.joins: set[tuple[frozenset[Hashable], Hashable]] = set()
        self.static: set[Hashable] = set()  # sources of static edges; those of joins do not count as mixed
        self.branching: set[Hashable] = set()  # sources of conditional edges
        self.mixed: set[Hashable] = set()  # sources that were reported as having both
        self.has_entry = False
        self.guesses: dict[object, str] = {}  # misspelt name to node, so that a repeated mistake costs nothing
        self.compared = 0
        self.known = ""  # text of all node names, made once
        for item in spec.declared:
            if isinstance(item, NodeSpec) and isinstance(item.name, str):
                self.nodes.setdefault(item.name, item)

    def run(self) -> Iterator[Problem]:
        """Yield the errors of all declarations, then those of the graph as a whole."""
        handlers: dict[type, Callable[[Any], Iterator[Problem]]] = {
            Problem: lambda problem: iter((problem,)),  # an error that the builder found, in its place
            NodeSpec: self._node,
            EdgeSpec: self._edge,
            JoinSpec: self._join,
            BranchSpec: self._branch,
        }
        for item in self.spec.declared:
            yield from handlers[type(item)](item)
        if not self.has_entry:
            known_nodes = f"; nodes: {names(self.nodes)}" if self.nodes else "; it has no nodes either"
            yield NO_ENTRY(graph=self.spec.name, nodes=known_nodes)
        yield from self._limits()

    def _limits(self) -> Iterator[Problem]:
        """Yield the problems of the `limits=` of `compile()`."""
        limits: Any = self.limits
        if not isinstance(limits, Limits):
            yield BAD_LIMIT_OPTION(
                owner="graph", option="limits", given=short(limits), wanted="Limits(max_steps=...), or leave it out"
            )
            return
        for text in limits.problems():
            yield BAD_LIMIT_IN_GRAPH(owner="The limits of the graph", problem=text)

    def _node(self, node: NodeSpec) -> Iterator[Problem]:
        """Yield the errors of a node. A node with a bad name has no other errors, since no message could name it."""
        name = node.name
        problem = name_problem(name)
        if problem:
            yield BAD_NAME(
                name=short(name),
                owner=f"a node: {problem}",
                wanted=f"a string of 1 to {MAX_NAME} characters",
                where=node.where,
            )
            return
        if name in RESERVED_NAMES:  # texts that mean START or END
            yield RESERVED_NAME(node=name, where=node.where)
        first_spec = self.nodes[name]
        if first_spec is not node:  # a second declaration of the name
            at = f" at {first_spec.where}" if first_spec.where else ""
            yield DUPLICATE_NODE(node=name, at=at or " above", where=node.where)
        if getattr(node.fn, "__graphrt_plan__", None) is None:  # not a compiled graph has its plan there
            shape = node_shape(node.fn)
            yield from targets_in_a_type(node)
            if shape.problem:
                yield BAD_SIGNATURE(
                    who=f"Node {name!r}", problem=shape.problem, node=name, where=node.where, fix=shape.hint or None
                )
        else:
            for target in node.fn.__graphrt_plan__.spec.hands_over_to:
                if isinstance(target, (str, EndType)):  # else the nested graph's own compile() reports it
                    what = f"hands_over_to= of nested graph {node.fn.__graphrt_plan__.name!r} in node {name!r}"
                    yield from self._target(target, what, node.where)
            yield from unknown_sources(node, self.spec.state)
            yield from unknown_targets(node, self.spec.update)
            yield from leaking(node, self.spec.state)
            yield from other_updates(node, self.spec.update)
            yield from self._depth(node)
        yield from bad_keeping(node, self.spec.update)
        yield from unknown_reads(f"Node {name!r}", node.fields, self.spec.state, node=name, where=node.where)
        yield from self._policy(node)
        for use in node.tools:
            yield from self._tool(node, use)

    def _tool(self, node: NodeSpec, use: ToolUse) -> Iterator[Problem]:
        """Yield the errors in the fields and targets declared by a tool that *node* offers."""
        for problem in tool_problems(use, self.spec.update, cached=node.policy.cache is not False):
            yield TOOL_STATE_IN_NODE(tool=use.tool, node=node.name, problem=problem, where=node.where)
        for target in use.goto:
            yield from self._target(target, f"goto= of tool {use.tool!r} of node {node.name!r}", node.where)

    def _depth(self, node: NodeSpec) -> Iterator[Problem]:
        """Yield a problem if the nested graph *node* has more levels of nested graphs than a run may have."""
        depth = 1 + node.fn.__graphrt_plan__.levels
        limit = getattr(self.limits, "max_depth", None)  # anything may have been given as limits
        if isinstance(limit, int) and 0 < limit < depth:
            yield DEPTH_LIMIT_OF_GRAPH(node=node.name, depth=depth, limit=limit, where=node.where)

    def _policy(self, node: NodeSpec) -> Iterator[Problem]:
        """Yield the errors of a node's policy, the arguments of `add_node` besides name and function."""
        policy = node.policy
        if policy is _PLAIN or (policy == _PLAIN and policy.cache is False):  # cache=0 equals False and is an error
            return
        for finding, problem in policy_problems(node):
            yield finding(owner=f"Node {node.name!r}", node=node.name, problem=problem, where=node.where)
        routes = [("on_error", policy.on_error), ("on_fatigue", policy.on_fatigue)]
        routes += [("goto", target) for target in policy.goto or ()]
        routes += [("hands_over_to", target) for target in policy.hands_over_to or ()]
        for option, ref in routes:
            if ref is not None:
                yield from self._target(ref, f"{option}= of node {node.name!r}", node.where)
        yield from unknown_writes(node, self.spec.update)

    def _edge(self, edge: EdgeSpec) -> Iterator[Problem]:
        """Yield the errors of a static edge."""
        src, dst = edge.src, edge.dst
        what = f"edge {show(src)} -> {show(dst)}"
        yield from self._source(src, what, edge.where)
        yield from self._target(dst, what, edge.where)
        if src is START:
            self.has_entry = True
            if dst is END:
                yield START_TO_END(edge=what, where=edge.where)
        if not _hashable(src) or not _hashable(dst):  # reported above as unknown; it cannot be a key below
            return
        key = (src, dst)
        if key in self.edges:
            at = f" at {self.edges[key]}" if self.edges[key] else ""
            yield DUPLICATE_EDGE(
                edge=what, at=at or " above", node=src if isinstance(src, str) else None, where=edge.where
            )
        else:
            self.edges[key] = edge.where
        self.static.add(src)
        yield from self._mixed(src, edge.where)

    def _join(self, join: JoinSpec) -> Iterator[Problem]:
        """Yield the errors of a join."""
        what = f"join [{', '.join(show(s) for s in join.sources)}] -> {show(join.dst)}"
        if not join.sources:
            yield JOIN_WITHOUT_SOURCES(join=what, where=join.where)
        for src in join.sources:
            if src is START:
                yield JOIN_OF_START(join=what, where=join.where)
            else:
                yield from self._source(src, what, join.where)
        yield from self._target(join.dst, what, join.where)
        count = len(join.sources)
        is_number = isinstance(join.when, int) and not isinstance(join.when, bool)  # True would count as 1
        if count and join.when not in ("all", "any") and not (is_number and 1 <= join.when <= count):
            yield BAD_LIMIT_OPTION(
                owner=what,
                option="when",
                given=repr(join.when),
                wanted=f"'all', 'any' or a whole number from 1 to {count}",
                where=join.where,
            )
        if join.starved not in ("error", "ignore", "run"):
            yield BAD_LIMIT_OPTION(
                owner=what,
                option="starved",
                given=repr(join.starved),
                wanted="'error', 'ignore' or 'run'",
                where=join.where,
            )
        if not all(_hashable(ref) for ref in (*join.sources, join.dst)):
            return
        key = (frozenset(join.sources), join.dst)
        if len(key[0]) < count or key in self.joins:
            yield DUPLICATE_SOURCE(
                join=what,
                problem="names a source twice" if len(key[0]) < count else "is declared twice",
                where=join.where,
            )
        self.joins.add(key)

    def _branch(self, branch: BranchSpec) -> Iterator[Problem]:
        """Yield the errors of a conditional edge."""
        src = branch.src
        router = getattr(branch.router, "__name__", None) or type(branch.router).__name__
        what = f"conditional edge {show(src)} -> {router}()"
        yield from self._source(src, what, branch.where)
        if src is START:
            self.has_entry = True
        node = src if isinstance(src, str) else None
        problem = router_problem(branch.router)
        if problem:
            yield BAD_ROUTER_SIGNATURE(branch=what, problem=problem, node=node, where=branch.where)
        fields = fields_of(branch.router)
        yield from unknown_reads(f"The {what}", fields, self.spec.state, node=node, where=branch.where)
        pairs = specs.pairs(branch.routes)
        if not pairs and branch.default is None:
            yield EMPTY_ROUTES(branch=what, node=node, where=branch.where)
        for label, target in pairs:
            yield from self._target(target, f"route {show(label)} of the {what}", branch.where)
        if branch.default is not None:
            yield from self._target(branch.default, f"default= of the {what}", branch.where)
        if pairs:
            yield from self._labels(branch, [label for label, _ in pairs], what, node)
        # The router by id, since a callable object may not be hashable.
        key = (src if _hashable(src) else id(src), id(branch.router))
        if branch.routes in self.branches.get(key, ()):
            yield DUPLICATE_EDGE(edge=what, at=" above", node=node, where=branch.where)
        self.branches.setdefault(key, []).append(branch.routes)
        if _hashable(src):
            self.branching.add(src)
            yield from self._mixed(src, branch.where)

    def _labels(self, branch: BranchSpec, routed_labels: list[Any], what: str, node: str | None) -> Iterator[Problem]:
        """Yield a problem for each mismatch between the routes and the labels in the router's return annotation.

        Args:
            branch: The conditional edge. `branch.labels` are the labels in the annotation and whether the list is
                complete that the router returns; None if it names none.
            routed_labels: The labels that have a route.
            what: The edge as text.
            node: Name of its source; None for START and for values that are not names.
        """
        dead_route_fix = "Remove the route, or correct the router's return annotation."
        for label in routed_labels:
            if not isinstance(label, (str, int, Enum)):
                yield IMPOSSIBLE_LABEL(label=show(label), branch=what, node=node, where=branch.where)
        if branch.labels is None:
            return
        labels, closed = branch.labels
        for label in labels:
            if label not in routed_labels and branch.default is None:
                guess = closest(label, [k for k in routed_labels if isinstance(k, str)])
                yield LABEL_WITHOUT_ROUTE(
                    branch=what,
                    label=show(label),
                    known_labels=_shown(k for k in routed_labels if not isinstance(k, EndType)),
                    node=node,
                    where=branch.where,
                    fix=f"Did you mean {guess!r}? Otherwise add a route for it, or a default=." if guess else None,
                )
        if not closed:
            return
        # In a list of nodes END has two labels, the object and its text; the router needs to return only one of them.
        listed = not is_mapping(branch.routes)
        either = listed and bool({END, END.value} & {*labels})
        for label in routed_labels:
            # The last condition: an impossible label was reported above.
            if label in labels or (either and label in (END, END.value)) or not isinstance(label, (str, int, Enum)):
                continue
            if label is not END or not listed:  # of the two labels for END in a list, only the text is reported
                label_text = "END" if listed and label == END.value else show(label)
                yield DEAD_ROUTE(
                    label=label_text,
                    branch=what,
                    labels=_shown(labels),
                    node=node,
                    where=branch.where,
                    fix=dead_route_fix,
                )

    def _source(self, ref: Any, what: str, where: str) -> Iterator[Problem]:
        """Yield an error if *ref* cannot be a source: END, or not a node."""
        if isinstance(ref, EndType):
            yield END_AS_SOURCE(edge=what, where=where)
        elif not isinstance(ref, StartType):
            yield from self._known(ref, what, where)

    def _target(self, ref: Any, what: str, where: str) -> Iterator[Problem]:
        """Yield an error if *ref* cannot be a target: START, or not a node."""
        if isinstance(ref, StartType):
            yield START_AS_TARGET(edge=what, where=where)
        elif not isinstance(ref, EndType):
            yield from self._known(ref, what, where)

    def _known(self, ref: Any, what: str, where: str) -> Iterator[Problem]:
        """Yield an error if *ref* is not the name of a node, with a hint suited to the value."""
        if isinstance(ref, str) and ref in self.nodes:
            return
        guess = self._guess(ref)
        if isinstance(ref, str) and ref in RESERVED_NAMES:  # "START" or "__start__", and the same for END
            end = "START" if "START" in ref.upper() else "END"
            hint = f"Pass the object {end} (from graphrt import {end}), not its name."
        elif guess:
            hint = f"Did you mean {guess!r}? Otherwise define {ref!r} with @g.node before compile()."
        elif callable(ref):
            hint = "Add the function first, with @g.node or add_node(name, fn), or pass the name of a node."
        elif not isinstance(ref, str):
            hint = "Pass the name of a node, what @g.node returned, or START or END themselves."
        else:
            self.known = self.known or names(self.nodes) or "no nodes"
            hint = f"Known: {self.known}. Define it with @g.node before compile()."
        yield UNKNOWN_NODE(edge=what, name=show(ref), node=ref if isinstance(ref, str) else None, where=where, fix=hint)

    def _guess(self, ref: object) -> str:
        """Return the node that *ref* most likely means, or an empty string."""
        if not isinstance(ref, str):
            return ""
        if ref not in self.guesses:  # "" is also a result: nothing is similar, or the limit was reached
            self.compared += len(self.nodes)
            guess = self.compared <= MOST_GUESSES or not self.guesses  # the first mistake always gets one
            self.guesses[ref] = closest(ref, self.nodes) if guess else ""
        return self.guesses[ref]

    def _mixed(self, src: Hashable, where: str) -> Iterator[Problem]:
        """Yield an error, once for each source, if *src* has static and conditional edges."""
        if src in self.static and src in self.branching and src not in self.mixed:
            self.mixed.add(src)
            yield MIXED_EDGES(
                source="START" if src is START else f"Node {src!r}",
                node=src if isinstance(src, str) else None,
                where=where,
            )


_PLAIN: Final = specs.Policy()
"""The policy of a node without any policy argument."""


def _shown(labels: Iterable[Any]) -> str:
    """Return labels as text for a message."""
    return ", ".join(map(show, labels))


def _hashable(value: object) -> bool:
    """Return True if *value* can be a dict key, since a user may pass anything for a node."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
