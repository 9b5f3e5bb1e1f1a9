"""The errors of a declared graph: every mistake of wiring, in declaration order. Nothing of the user's is called.

Judgements about paths through the graph live in `reachability`, `starving_joins`, `endless_loops` and
`write_conflicts`; they run on graphs without errors only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum
from typing import Any, Final

from graphrt._plan import specs
from graphrt._plan.callables import node_shape, router_problem
from graphrt._plan.fields import is_mapping
from graphrt._plan.nodes import MAX_NAME, leaking, name_problem, policy_problems, targets_in_a_type, unknown_writes
from graphrt._plan.specs import BranchSpec, EdgeSpec, GraphSpec, JoinSpec, NodeSpec, show
from graphrt._plan.state import short
from graphrt.commands import END, RESERVED_NAMES, START, EndType, StartType
from graphrt.errors import Problem, closest, names
from graphrt.limits import Limits


def errors(spec: GraphSpec, limits: Limits) -> list[Problem]:
    """Return all errors of *spec*: of state, Update and builder calls, then by declaration, then of the whole graph."""
    return [*spec.state.problems, *spec.update.problems, *spec.problems, *_Checks(spec, limits).run()]


MOST_GUESSES: Final = 20_000
"""Most comparisons of names that guess what misspelt ones mean. Unbounded, they grow as mistakes times nodes."""


class _Checks:
    """One pass over the declarations; what was seen so far shows repetitions and mixed edges."""

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
        handlers: dict[type, Callable[[Any], Iterator[Problem]]] = {
            Problem: lambda problem: iter((problem,)),
            NodeSpec: self._node,
            EdgeSpec: self._edge,
            JoinSpec: self._join,
            BranchSpec: self._branch,
        }
        for item in self.spec.declared:
            yield from handlers[type(item)](item)
        if not self.has_entry:
            known = f"; nodes: {names(self.nodes)}" if self.nodes else "; it has no nodes either"
            yield Problem(
                code="no-entry",
                message=f"Graph {self.spec.name!r} has no edge from START{known}.",
                hint="Call add_edge(START, node), set_entry(node) or set_conditional_entry(...).",
            )
        yield from self._limits()

    def _limits(self) -> Iterator[Problem]:
        given: Any = self.limits
        if not isinstance(given, Limits):
            yield Problem(
                code="bad-limit",
                message=f"limits= is {short(given)}, which is not a Limits object.",
                hint="Pass Limits(max_steps=...), or leave it out.",
            )
            return
        for text in given.problems():
            yield Problem(code="bad-limit", message=f"Limits: {text}.", hint="Correct the limit.")

    def _node(self, node: NodeSpec) -> Iterator[Problem]:
        name = node.name
        problem = name_problem(name)
        if problem:
            yield Problem(
                code="bad-name",
                message=f"{short(name)} cannot be the name of a node: {problem}.",
                hint=f"Use a string of 1 to {MAX_NAME} characters.",
                where=node.where,
            )
            return
        if name in RESERVED_NAMES:
            yield Problem(
                code="reserved-name",
                message=f"A node cannot be named {name!r}: that is an end of every graph.",
                node=name,
                hint="Choose another name.",
                where=node.where,
            )
        first = self.nodes[name]
        if first is not node:
            at = f" at {first.where}" if first.where else ""
            yield Problem(
                code="duplicate-node",
                message=f"Node {name!r} is defined twice; the first definition is{at or ' above'}.",
                node=name,
                hint="Rename one of them; to replace a node in a test, use graph.with_nodes().",
                where=node.where,
            )
        if getattr(node.fn, "__graphrt_plan__", None) is None:
            shape = node_shape(node.fn)
            yield from targets_in_a_type(node)
            if shape.problem:
                yield Problem(
                    code="bad-signature",
                    message=f"Node {name!r} cannot be called as fn(state) or fn(state, ctx): {shape.problem}.",
                    node=name,
                    hint=shape.hint
                    or "Take the state, and the context as a second positional parameter without default.",
                    where=node.where,
                )
        else:
            yield from leaking(node, self.spec.state)
        yield from self._policy(node)

    def _policy(self, node: NodeSpec) -> Iterator[Problem]:
        policy = node.policy
        if policy is _PLAIN or (policy == _PLAIN and policy.cache is False):  # cache=0 equals False and is an error
            return
        for code, text in policy_problems(node):
            yield Problem(
                code=code,
                message=f"Node {node.name!r}: {text}.",
                node=node.name,
                hint="Correct the value.",
                where=node.where,
            )
        routes = [("on_error", policy.on_error), ("on_fatigue", policy.on_fatigue)]
        routes += [("goto", target) for target in policy.goto or ()]
        for option, ref in routes:
            if ref is not None:
                yield from self._target(ref, f"{option}= of node {node.name!r}", node.where)
        yield from unknown_writes(node, self.spec.state)

    def _edge(self, edge: EdgeSpec) -> Iterator[Problem]:
        src, dst = edge.src, edge.dst
        what = f"edge {show(src)} -> {show(dst)}"
        yield from self._source(src, what, edge.where)
        yield from self._target(dst, what, edge.where)
        if src is START:
            self.has_entry = True
            if dst is END:
                yield Problem(
                    code="start-to-end",
                    message=f"The {what} leads past every node: nothing would run.",
                    hint="Lead START to a node; for runs that may end at once, give START a router with a route to END.",
                    where=edge.where,
                )
        if not _hashable(src) or not _hashable(dst):
            return
        key = (src, dst)
        if key in self.edges:
            at = f" at {self.edges[key]}" if self.edges[key] else ""
            yield Problem(
                code="duplicate-edge",
                message=f"The {what} is declared twice; the first is{at or ' above'}.",
                node=src if isinstance(src, str) else None,
                hint="Remove one of them.",
                where=edge.where,
            )
        else:
            self.edges[key] = edge.where
        self.static.add(src)
        yield from self._mixed(src, edge.where)

    def _join(self, join: JoinSpec) -> Iterator[Problem]:
        what = f"join [{', '.join(show(s) for s in join.sources)}] -> {show(join.dst)}"
        if not join.sources:
            yield Problem(
                code="empty-routes", message=f"The {what} has no sources.", hint="Name them.", where=join.where
            )
        for src in join.sources:
            if src is START:
                yield Problem(
                    code="unknown-node",
                    message=f"The {what} waits for START, which never runs.",
                    hint="Join nodes; what START leads to runs by itself.",
                    where=join.where,
                )
            else:
                yield from self._source(src, what, join.where)
        yield from self._target(join.dst, what, join.where)
        count = len(join.sources)
        whole = isinstance(join.when, int) and not isinstance(join.when, bool)
        if count and join.when not in ("all", "any") and not (whole and 1 <= join.when <= count):
            yield Problem(
                code="bad-limit",
                message=f"The {what} has when={join.when!r}.",
                hint=f"Use 'all', 'any' or a whole number from 1 to {count}.",
                where=join.where,
            )
        if join.starved not in ("error", "ignore", "run"):
            yield Problem(
                code="bad-limit",
                message=f"The {what} has starved={join.starved!r}.",
                hint="Use 'error', 'ignore' or 'run'.",
                where=join.where,
            )
        if not all(_hashable(ref) for ref in (*join.sources, join.dst)):
            return
        key = (frozenset(join.sources), join.dst)
        if len(key[0]) < count or key in self.joins:
            yield Problem(
                code="duplicate-edge",
                message=f"The {what} {'names a source twice' if len(key[0]) < count else 'is declared twice'}.",
                hint="Name each source once.",
                where=join.where,
            )
        self.joins.add(key)

    def _branch(self, branch: BranchSpec) -> Iterator[Problem]:
        src = branch.src
        router = getattr(branch.router, "__name__", None) or type(branch.router).__name__
        what = f"conditional edge {show(src)} -> {router}()"
        yield from self._source(src, what, branch.where)
        if src is START:
            self.has_entry = True
        node = src if isinstance(src, str) else None
        problem = router_problem(branch.router)
        if problem:
            yield Problem(
                code="bad-signature",
                message=f"The router of the {what} cannot be called as router(state): {problem}.",
                node=node,
                hint="Take the state, return a label, a list of labels or a list of Sends.",
                where=branch.where,
            )
        pairs = specs.pairs(branch.routes)
        if not pairs and branch.default is None:
            yield Problem(
                code="empty-routes",
                message=f"The {what} has no routes.",
                node=node,
                hint="Map each label to a node or END, or list the possible nodes.",
                where=branch.where,
            )
        for label, target in pairs:
            yield from self._target(target, f"route {show(label)} of the {what}", branch.where)
        if branch.default is not None:
            yield from self._target(branch.default, f"default= of the {what}", branch.where)
        if pairs:
            yield from self._labels(branch, [label for label, _ in pairs], what, node)
        told = (src if _hashable(src) else id(src), id(branch.router))
        if branch.routes in self.branches.get(told, ()):
            yield Problem(
                code="duplicate-edge",
                message=f"The {what} is declared twice.",
                node=node,
                hint="Remove one of them.",
                where=branch.where,
            )
        self.branches.setdefault(told, []).append(branch.routes)
        if _hashable(src):
            self.branching.add(src)
            yield from self._mixed(src, branch.where)

    def _labels(self, branch: BranchSpec, known: list[Any], what: str, node: str | None) -> Iterator[Problem]:
        dead = "Remove the route, or correct the router's return annotation."
        for label in known:
            if not isinstance(label, (str, int, Enum)):
                yield Problem(
                    code="dead-route",
                    message=f"Route {show(label)} of the {what} is never taken: labels are strings, booleans, integers "
                    "and members of an Enum.",
                    node=node,
                    hint="Use one of these as the label, and let the router return it.",
                    where=branch.where,
                )
        if branch.labels is None:
            return
        labels, closed = branch.labels
        for label in labels:
            if label not in known and branch.default is None:
                guess = closest(label, [k for k in known if isinstance(k, str)])
                yield Problem(
                    code="unknown-route",
                    message=f"The router of the {what} can return {show(label)}, which has no route; known: "
                    f"{_shown(k for k in known if not isinstance(k, EndType))}.",
                    node=node,
                    hint=f"Did you mean {guess!r}? Otherwise add a route for it, or a default=."
                    if guess
                    else "Add a route for it, or a default=.",
                    where=branch.where,
                )
        if not closed:
            return
        # In a list of nodes END is two labels, the object and its text: the router needs to return either.
        listed = not is_mapping(branch.routes)
        either = listed and bool({END, END.value} & {*labels})
        for label in known:
            if label in labels or (either and label in (END, END.value)) or not isinstance(label, (str, int, Enum)):
                continue
            if label is not END or not listed:
                shown = "END" if listed and label == END.value else show(label)
                yield Problem(
                    code="dead-route",
                    message=f"Route {shown} of the {what} is never taken: the router returns {_shown(labels)} only.",
                    node=node,
                    hint=dead,
                    where=branch.where,
                )

    def _source(self, ref: Any, what: str, where: str) -> Iterator[Problem]:
        if isinstance(ref, EndType):
            yield Problem(
                code="end-as-source",
                message=f"The {what} starts at END, where every branch is over.",
                hint="Start it at the node that leads to END.",
                where=where,
            )
        elif not isinstance(ref, StartType):
            yield from self._known(ref, what, where)

    def _target(self, ref: Any, what: str, where: str) -> Iterator[Problem]:
        if isinstance(ref, StartType):
            yield Problem(
                code="start-as-target",
                message=f"The {what} leads to START, which is only where the input comes in.",
                hint="Lead it to the node that START leads to.",
                where=where,
            )
        elif not isinstance(ref, EndType):
            yield from self._known(ref, what, where)

    def _known(self, ref: Any, what: str, where: str) -> Iterator[Problem]:
        if isinstance(ref, str) and ref in self.nodes:
            return
        guess = self._guess(ref)
        if isinstance(ref, str) and ref in RESERVED_NAMES:
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
        yield Problem(
            code="unknown-node",
            message=f"The {what} names a node that was never added: {show(ref)}.",
            node=ref if isinstance(ref, str) else None,
            hint=hint,
            where=where,
        )

    def _guess(self, ref: object) -> str:
        """Return the node that *ref* most likely means, or an empty string."""
        if not isinstance(ref, str):
            return ""
        if ref not in self.guesses:
            self.compared += len(self.nodes)
            guess = self.compared <= MOST_GUESSES or not self.guesses  # the first mistake always gets one
            self.guesses[ref] = closest(ref, self.nodes) if guess else ""
        return self.guesses[ref]

    def _mixed(self, src: Hashable, where: str) -> Iterator[Problem]:
        if src in self.static and src in self.branching and src not in self.mixed:
            self.mixed.add(src)
            yield Problem(
                code="mixed-edges",
                message=f"{'START' if src is START else f'Node {src!r}'} has both static and conditional edges.",
                node=src if isinstance(src, str) else None,
                hint="Let the router return a list that holds the fixed target too, or put a node in between.",
                where=where,
            )


_PLAIN: Final = specs.Policy()


def _shown(labels: Iterable[Any]) -> str:
    return ", ".join(map(show, labels))


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
