"""The edges of a plan as indexes: what surely follows a node, what a choice may lead to, what a Command may do.

Read once for all judgements. START has the index -1, which is also the last place of every list. Functions are looked
at, never called: one that says nothing about what it returns is searched for the words Command and Send.
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
"""Stands for END in choices."""


ONE, SOME, ALL = range(3)
"""What a router names: one target; several, or none (it is annotated to return a list); presumably all of them at once
(it has no annotation, and its code makes a list)."""


class Choice(NamedTuple):
    """One conditional edge."""

    targets: tuple[int, ...]
    """Where it may lead, OUT for END; in declaration order."""
    names: int
    """ONE, SOME or ALL of them."""


@final
class Paths:
    """The graph as lists of indexes, one place for each node and the last one for START."""

    def __init__(self, plan: Plan) -> None:
        self.plan: Plan = plan
        self.count: int = len(plan.nodes)
        self.sure: list[tuple[int, ...]] = [()] * (self.count + 1)
        """Static targets."""
        self.choices: list[tuple[Choice, ...]] = [()] * (self.count + 1)
        self.instead: list[tuple[int, ...]] = [()] * (self.count + 1)
        """Targets of declared gotos and of on_error: taken instead of all edges."""
        self.tired: list[tuple[int, ...]] = [()] * (self.count + 1)
        """The target of on_fatigue, OUT for END."""
        self.after: list[tuple[int, ...]] = [()] * (self.count + 1)
        """Every node that may follow, nodes of joins included."""
        self.stops: set[int] = set()
        """Nodes that may end their branch instead of following their edges: goto or on_error to END."""
        self.open: set[int] = set()
        """Nodes that may return a Command to anywhere."""
        self.sends: bool = False
        """Whether some router may emit Sends to nodes that are not among its routes."""
        self._commands: dict[int, bool | None] = {}
        for node in (*plan.nodes, plan.start):
            self._read(node)

    def _read(self, node: NodePlan) -> None:
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
        if node.goto is None and at >= 0 and node.child is None and self._may_command(node):
            self.open.add(at)
        self.after[at] = after

    def _may_command(self, node: NodePlan) -> bool:
        hint = self.plan.spec_hint(node.index)
        if id(hint) not in self._commands:
            self._commands[id(hint)] = _commands(hint)
        known = self._commands[id(hint)]
        return _mentions(node.fn, Command) if known is None else known

    def _choice(self, branch: BranchPlan) -> Choice:
        targets = dict.fromkeys(OUT if target is None else target.index for target in branch.table.values())
        if branch.default is not NO_DEFAULT:
            targets[OUT if branch.default is None else branch.default.index] = None
        if not self.sends and _may_send(branch):
            nodes = self.plan.nodes
            self.sends = not any(t != OUT and (nodes[t].wants_context or nodes[t].child) for t in targets)
        return Choice(tuple(targets), _names(branch))

    def _alternatives(self, node: NodePlan) -> None:
        at = node.index
        instead: list[int] = []
        for ref in node.goto or ():
            if isinstance(ref, EndType):
                self.stops.add(at)
            else:
                instead.append(self.plan.by_name[ref].index)
        if node.goto is not None and not node.goto:
            self.stops.add(at)
        if isinstance(node.on_error, NodePlan):
            instead.append(node.on_error.index)
        elif node.on_error is not None:
            self.stops.add(at)
        if node.on_fatigue is not None:
            self.tired[at] = (node.on_fatigue.index if isinstance(node.on_fatigue, NodePlan) else OUT,)
        self.instead[at] = tuple(sorted(instead))

    def edges(self, at: int) -> tuple[int, ...]:
        """Where the edges of a node lead if nothing is taken instead of them: static, conditional and joins."""
        chosen = [target for choice in self.choices[at] for target in choice.targets if target != OUT]
        joined = [self.plan.joins[join].dst.index for join in self.plan.nodes[at].arrives]
        return (*self.sure[at], *chosen, *joined)

    def before(self) -> list[list[int]]:
        """For each node those that it may follow, START as -1."""
        found: list[list[int]] = [[] for _ in range(self.count + 1)]
        for at in range(-1, self.count):
            for target in self.after[at]:
                found[target].append(at)
        return found


def _commands(hint: Any) -> bool | None:
    """Whether a return annotation allows a Command; None if it does not say."""
    if hint is hints.UNRESOLVED:
        return None
    found = list(hints.members(hint))
    if any((typing.get_origin(member) or member) is Command for member in found):
        return True
    return None if Any in found or object in found else False


def _names(branch: BranchPlan) -> int:
    if branch.hint is not hints.UNRESOLVED:
        return SOME if hints.gives_list(branch.hint) else ONE
    function = hints.function_behind(branch.router)
    codes = [] if function is None else [function.__code__]
    while codes:
        code = codes.pop()
        if _BUILD_LIST in code.co_code[::2] or "list" in code.co_names or "sorted" in code.co_names:
            return ALL
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return ONE


_BUILD_LIST: Final = opmap["BUILD_LIST"]


def _may_send(branch: BranchPlan) -> bool:
    if branch.hint is hints.UNRESOLVED:
        return _mentions(branch.router, Send)
    return any(
        part is Send
        for member in hints.members(branch.hint)
        for arg in (member, *typing.get_args(member))
        for part in hints.members(arg)
    )


def _mentions(fn: Any, wanted: type) -> bool:
    """Whether the code of *fn*, or of a function that it names, names *wanted*."""
    seen: set[types.CodeType] = set()
    work: list[tuple[Any, int]] = [(fn, 0)]
    while work:
        found, depth = work.pop()
        function = hints.function_behind(found)
        if function is None:
            continue
        known = function.__globals__
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            if code in seen:
                continue
            seen.add(code)
            codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
            for name in (*code.co_names, *code.co_freevars):
                value = known.get(name)
                if name == wanted.__name__ or value is wanted:
                    return True
                if depth < 2 and isinstance(value, types.FunctionType):
                    work.append((value, depth + 1))
    return False
