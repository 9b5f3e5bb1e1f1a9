"""The possible successors of every node, as lists of indexes that all judgements of `compile()` share.

A node's index is its position in the plan. START has the index -1, so that it is the last item of every list; END is
OUT. A *branch* of a run is a sequence of nodes that follow each other; it ends at a node without a successor.

The successors of a node are the targets of its static edges, those of its conditional edges (`BranchPlan`), whose
routers return target labels, and the joins that it is a source of, that is, nodes that wait for several sources. A
`Command` with `goto` replaces them all, as does the target of the policy `on_error` if the node fails. The target of
`on_fatigue` runs instead of the node itself once the node was active too often. A router may also return `Send`s, each
of which starts a node with an argument.

Functions are inspected, never called. If there is no return annotation, the code of a node or router is searched for
the names `Command` and `Send`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import types
import typing
from opcode import opmap
from typing import Any, Final, NamedTuple, final

from graphrt._plan import hints
from graphrt._plan.tables import NO_DEFAULT, BranchPlan, NodePlan, Plan
from graphrt.commands import Command, EndType, Send

OUT: Final = -2
"""END, as a target."""


ONE, SOME, ALL = range(3)
"""How many targets a router names. ONE: exactly one. SOME: 0..n, since its annotation is a list. ALL: presumably every
target at once, since it has no annotation and its code builds a list."""


class Choice(NamedTuple):
    """One conditional edge."""

    targets: tuple[int, ...]
    """Possible targets without repetition, in declaration order; OUT for END."""
    names: int
    """The number of targets that the router names: ONE, SOME or ALL."""


@final
class Paths:
    """Successors of every node. Each list has one item per node, by index, and START as the last item."""

    def __init__(self, plan: Plan) -> None:
        self.plan: Plan = plan
        self.count: int = len(plan.nodes)
        self.sure: list[tuple[int, ...]] = [()] * (self.count + 1)
        """Targets of static edges: they always follow, unless a goto or on_error replaces the edges."""
        self.choices: list[tuple[Choice, ...]] = [()] * (self.count + 1)
        """Conditional edges, in declaration order."""
        self.instead: list[tuple[int, ...]] = [()] * (self.count + 1)
        """Targets of declared gotos and of on_error, which replace all edges; sorted, without END."""
        self.tired: list[tuple[int, ...]] = [()] * (self.count + 1)
        """The target of on_fatigue, OUT for END; 0..1 of them."""
        self.after: list[tuple[int, ...]] = [()] * (self.count + 1)
        """Every node that may follow in any way, including nodes behind joins; may contain duplicates."""
        self.stops: set[int] = set()
        """Nodes that may end their branch instead of following their edges: goto or on_error to END, or `goto=[]`."""
        self.leaves: set[int] = set()
        """Nodes whose Commands may lead to the enclosing graph. That ends this graph, so none of its joins can
        starve."""
        self.open: set[int] = set()
        """Nodes without a declared goto that may return a Command to any node."""
        self.sends: bool = False
        """True if some router may emit Sends to nodes that are not among its routes."""
        self._commands: dict[int, bool | None] = {}
        """Commands by the id of their return annotation, since many nodes share an annotation object."""
        for node in (*plan.nodes, plan.start):
            self._read(node)

    def _read(self, node: NodePlan) -> None:
        """Fill in the items of *node* in all lists."""
        at = node.index
        sure = tuple([target.index for target in node.static])
        after = self.sure[at] = sure
        if node.branches:
            self.choices[at] = tuple(map(self._choice, node.branches))
            after += tuple(target for choice in self.choices[at] for target in choice.targets if target != OUT)
        if node.arrives:
            after += tuple([self.plan.joins[join].dst.index for join in node.arrives])
        if node.goto is not None or node.on_error is not None or node.on_fatigue is not None:
            self._alternatives(node)
            after += self.instead[at] + tuple([target for target in self.tired[at] if target != OUT])
        # START and nested graphs return no Command.
        ends = bool(self.plan.spec.hands_over_to)  # whether its Commands may end the whole graph
        if at >= 0 and node.child is None and (ends or node.goto is None) and self._may_command(node):
            if node.goto is None:
                self.open.add(at)
            if ends:
                self.leaves.add(at)
        self.after[at] = after

    def _may_command(self, node: NodePlan) -> bool:
        """Return True if the node may return a Command: by its return annotation, else by its code."""
        hint = self.plan.spec_hint(node.index)
        if id(hint) not in self._commands:
            self._commands[id(hint)] = _commands(hint)
        from_hint = self._commands[id(hint)]
        return _mentions(node.fn, Command) if from_hint is None else from_hint

    def _choice(self, branch: BranchPlan) -> Choice:
        """Return a conditional edge as indexes; set `sends` if its router may start nodes outside its routes."""
        # A dict serves as an ordered set. In a plan, a target of None is END.
        targets = dict.fromkeys(OUT if target is None else target.index for target in branch.table.values())
        if branch.default is not NO_DEFAULT:
            targets[OUT if branch.default is None else branch.default.index] = None
        if not self.sends and _may_send(branch):
            nodes = self.plan.nodes
            # A Send is for a node that reads its argument: one with a context, or a nested graph. If the routes include
            # such a node, the Sends are assumed to go there.
            self.sends = not any(t != OUT and (nodes[t].wants_context or nodes[t].child) for t in targets)
        return Choice(tuple(targets), _names(branch))

    def _alternatives(self, node: NodePlan) -> None:
        """Set `instead`, `stops` and `tired`: what may follow *node* in place of its edges."""
        at = node.index
        instead: list[int] = []
        for ref in node.goto or ():
            if isinstance(ref, EndType):  # declared targets are END itself or names
                self.stops.add(at)
            else:
                instead.append(self.plan.by_name[ref].index)
        if node.goto is not None and not node.goto:  # `goto=[]`: its Commands lead nowhere
            self.stops.add(at)
        if isinstance(node.on_error, NodePlan):
            instead.append(node.on_error.index)
        elif node.on_error is not None:  # END
            self.stops.add(at)
        if node.on_fatigue is not None:
            self.tired[at] = (node.on_fatigue.index if isinstance(node.on_fatigue, NodePlan) else OUT,)
        self.instead[at] = tuple(sorted(instead))

    def edges(self, at: int) -> tuple[int, ...]:
        """Return the targets of a node's own edges: static, conditional, then joins; END is left out."""
        branch_targets = [target for choice in self.choices[at] for target in choice.targets if target != OUT]
        joined = [self.plan.joins[join].dst.index for join in self.plan.nodes[at].arrives]
        return (*self.sure[at], *branch_targets, *joined)

    def before(self) -> list[list[int]]:
        """Return the predecessors of each node, by index, with START as -1: the reverse of `after`."""
        predecessors: list[list[int]] = [[] for _ in range(self.count + 1)]
        for at in range(-1, self.count):
            for target in self.after[at]:
                predecessors[target].append(at)
        return predecessors


def _commands(hint: Any) -> bool | None:
    """Return True if a return annotation allows a Command, False if it excludes one, None if it does not say."""
    if hint is hints.UNRESOLVED:
        return None
    members = list(hints.members(hint))
    if any((typing.get_origin(member) or member) is Command for member in members):
        return True
    return None if Any in members or object in members else False


def _names(branch: BranchPlan) -> int:
    """Return ONE, SOME or ALL, from the router's annotation or, without one, from whether its code builds a list."""
    if branch.hint is not hints.UNRESOLVED:
        return SOME if hints.gives_list(branch.hint) else ONE
    function = hints.function_behind(branch.router)
    codes = [] if function is None else [function.__code__]
    while codes:
        code = codes.pop()
        # CPython's code units have two bytes, so opcodes are at even offsets.
        if _BUILD_LIST in code.co_code[::2] or "list" in code.co_names or "sorted" in code.co_names:
            return ALL
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return ONE


_BUILD_LIST: Final = opmap["BUILD_LIST"]
"""The opcode of a list display such as `[a, b]`."""


def _may_send(branch: BranchPlan) -> bool:
    """Return True if the router may return a Send, alone or in a list."""
    if branch.hint is hints.UNRESOLVED:
        return _mentions(branch.router, Send)
    return any(
        part is Send
        for member in hints.members(branch.hint)
        for arg in (member, *typing.get_args(member))
        for part in hints.members(arg)
    )


def _mentions(fn: Any, cls: type) -> bool:
    """Return True if the code of *fn*, or of global functions that it names (up to two levels deep), names *cls*.

    Args:
        fn: A node's function or a router.
        wanted: `Command` or `Send`, possibly under an alias.
    """
    seen: set[types.CodeType] = set()  # functions may call each other recursively
    work: list[tuple[Any, int]] = [(fn, 0)]
    while work:
        candidate, depth = work.pop()
        function = hints.function_behind(candidate)
        if function is None:
            continue
        global_names = function.__globals__
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            if code in seen:
                continue
            seen.add(code)
            # The code of nested functions and lambdas is among the constants.
            codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
            for name in (*code.co_names, *code.co_freevars):
                value = global_names.get(name)
                if name == cls.__name__ or value is cls:
                    return True
                if depth < 2 and isinstance(value, types.FunctionType):
                    work.append((value, depth + 1))
    return False
