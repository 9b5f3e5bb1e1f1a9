"""The graph as sets of indexes, as the judgements see it: what surely follows a node, what a choice may lead to.

Nothing is judged here.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any, Final

from graphrt._plan import hints
from graphrt._plan.specs import BranchSpec
from graphrt._plan.tables import NO_DEFAULT, NodePlan, Plan
from graphrt.commands import Command, EndType

OUT: Final = -2
"""Stands for END in choices."""


class Paths:
    """The graph as sets of indexes: what surely follows a node, and what a choice may lead to."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        count = len(plan.nodes)
        self.sure: list[tuple[int, ...]] = [()] * (count + 1)
        """Static targets; the last one is START's."""
        self.joined: list[tuple[int, ...]] = [()] * (count + 1)
        self.choices: list[list[frozenset[int]]] = [[] for _ in range(count + 1)]
        """For each branch the targets of one choice; END is OUT."""
        self.side: list[tuple[int, ...]] = [()] * (count + 1)
        """Targets of on_error, on_fatigue and declared gotos."""
        self.open: set[int] = set()
        """Nodes that may return a Command to anywhere."""
        self.may_stop: set[int] = set()
        """Nodes with a router that may return an empty list, or a fatigue route out of everything."""
        self.lists: dict[int, bool] = {}
        """Whether a router of the node is annotated to return a list: several labels, or none."""
        for item in plan.spec.declared:
            if isinstance(item, BranchSpec):
                at = plan.by_name[item.src].index if isinstance(item.src, str) else -1  # -1 is START
                self.lists[at] = self.lists.get(at, False) or _gives_list(item.hint)
        for node in (*plan.nodes, plan.start):
            self._read(node)

    def _read(self, node: NodePlan) -> None:
        at = node.index
        self.sure[at] = tuple(target.index for target in node.static)
        self.joined[at] = tuple(self.plan.joins[join].dst.index for join in node.arrives)
        for branch in node.branches:
            targets = {OUT if target is None else target.index for target in branch.table.values()}
            if branch.default is not NO_DEFAULT:
                targets.add(OUT if branch.default is None else branch.default.index)
            self.choices[at].append(frozenset(targets))
        side = [route.index for route in (node.on_error, node.on_fatigue) if isinstance(route, NodePlan)]
        if node.on_fatigue is not None:
            self.may_stop.add(at)
        if node.goto is not None:
            side += [self.plan.by_name[ref].index for ref in node.goto if isinstance(ref, str)]
            if not side or any(isinstance(ref, EndType) for ref in node.goto):
                self.may_stop.add(at)
        elif at >= 0 and _may_command(self.plan, at):
            self.open.add(at)
        if self.lists.get(at):
            self.may_stop.add(at)
        self.side[at] = tuple(side)

    def targets(self, at: int) -> Iterator[int]:
        """Every node that may follow, the join's node included; END is left out."""
        yield from self.sure[at]
        yield from self.joined[at]
        for choice in self.choices[at]:
            yield from (target for target in choice if target != OUT)
        yield from self.side[at]


def _may_command(plan: Plan, at: int) -> bool:
    hint = plan.spec_hint(at)
    return any((typing.get_origin(member) or member) is Command for member in hints.members(hint))


def _gives_list(hint: Any) -> bool:
    return any(typing.get_origin(member) in (list, tuple) or member in (list, tuple) for member in hints.members(hint))
