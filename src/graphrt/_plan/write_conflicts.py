"""The judgement `write-conflict`: nodes that can share a superstep and declare that they write one last-value field.

Followed from each fan-out on, superstep by superstep: what descends from different targets of the fan-out runs side by
side, what a router chooses between does not. Nodes that one target of the fan-out leads to carry its label; where
branches meet in one node, that goes on as one.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any, Final

import typing_extensions as te
from pydantic import BaseModel

from graphrt._plan import hints
from graphrt._plan.paths import ONE, OUT, Paths
from graphrt._plan.tables import Plan
from graphrt.commands import Command, Interrupt
from graphrt.errors import Problem, names

_EFFORT: Final = 64
"""Nodes and edges looked at, for each one of the graph, before the search is broken off."""
_EFFORT_OF_ONE: Final = 4
"""The same for what follows from one fan-out."""


def write_conflicts(plan: Plan, paths: Paths) -> Iterator[Problem]:
    """One problem for each set of nodes that conflict, in the order of their first nodes."""
    writers = _writers(plan)
    if not writers:
        return
    search = _Search(plan, paths, writers)
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in writers:
        for group in search.groups(name):
            groups.setdefault(group, []).append(name)
    for group in sorted(groups):
        fields = sorted(groups[group])
        shown = _and([plan.nodes[at].name for at in group])
        who = f"Nodes {shown}" if len(group) == 2 else f"Some of the nodes {shown}"
        yield Problem(
            code="write-conflict",
            message=f"{who} can run in one superstep, and {'both' if len(group) == 2 else 'all of them'} write "
            f"{names(fields)}, {'which has' if len(fields) == 1 else 'which have'} no aggregating reducer.",
            node=plan.nodes[group[0]].name,
            hint=f"Give the field{'' if len(fields) == 1 else 's'} a reducer, write different fields, or run the nodes "
            "one after the other.",
            where=plan.spec_where(group[0]),
        )


def _and(shown: list[str]) -> str:
    if len(shown) > 12:
        return names(shown)
    return f"{', '.join(map(repr, shown[:-1]))} and {shown[-1]!r}"


def _writers(plan: Plan) -> dict[str, frozenset[int]]:
    """Last-value fields with several nodes that declare to write them."""
    found: dict[str, list[int]] = {}
    known: dict[int, frozenset[str]] = {}
    for node in plan.nodes:
        hint = plan.spec_hint(node.index)
        if node.policy.writes is None and (hint is hints.UNRESOLVED or plan.update.kind == "overwrite"):
            continue
        wrote = known.get(id(hint)) if node.policy.writes is None else frozenset(node.policy.writes)
        if wrote is None:
            wrote = known[id(hint)] = _narrower(plan, hint)
        for name in wrote:
            if not plan.state.fields[name].aggregates:
                found.setdefault(name, []).append(node.index)
    return {name: frozenset(found[name]) for name in plan.state.fields if len(found.get(name, ())) > 1}


def _narrower(plan: Plan, hint: Any) -> frozenset[str]:
    """Fields that a return type names, if it is narrower than the Update and says all that can be written."""
    found: set[str] = set()
    for member in hints.members(hint):
        cls = member
        if (typing.get_origin(member) or member) is Command:
            cls = hints.bare((typing.get_args(member) or (Any,))[0])
        if cls is None or cls is type(None) or cls is Interrupt:
            continue
        keys = None if cls is plan.update.cls else _keys(cls)
        if keys is None:
            return frozenset()
        found |= keys
    written = frozenset(found)
    return written if written < plan.update.names else frozenset()


def _keys(cls: Any) -> frozenset[str] | None:
    origin = typing.get_origin(cls) or cls
    if te.is_typeddict(origin):
        return frozenset([*origin.__required_keys__, *origin.__optional_keys__])
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        return frozenset(origin.__pydantic_fields__)
    if isinstance(origin, type) and dataclasses.is_dataclass(origin):
        return frozenset(spec.name for spec in dataclasses.fields(origin))
    return None


class _Search:
    """Finds which writers of a field can share a superstep; `seen` counts the nodes and edges that it looked at."""

    def __init__(self, plan: Plan, paths: Paths, writers: dict[str, frozenset[int]]) -> None:
        self.plan = plan
        self.paths = paths
        self.writers = writers
        self.together: dict[str, dict[int, int]] = {name: {at: at for at in nodes} for name, nodes in writers.items()}
        """For each field and writer another writer of its set (union-find)."""
        self.seen = 0
        self.labels = 0
        self.size = paths.count + sum(map(len, paths.after)) + 16
        self.useful = self._useful()
        self.fields_of: dict[int, list[str]] = {}
        for name, nodes in writers.items():
            for at in nodes:
                self.fields_of.setdefault(at, []).append(name)
        for at in range(-1, paths.count):
            start = self._fan_out(at)
            if start:
                self._walk(at, start)

    def groups(self, name: str) -> list[tuple[int, ...]]:
        """Sets of writers of the field that conflict, each in the order of the nodes."""
        sets: dict[int, list[int]] = {}
        for at in sorted(self.writers[name]):
            sets.setdefault(self._root(name, at), []).append(at)
        return [tuple(group) for group in sets.values() if len(group) > 1]

    def _root(self, name: str, at: int) -> int:
        parent = self.together[name]
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    def _useful(self) -> bytearray:
        """Nodes from which a writer can still be reached."""
        before = self.paths.before()
        useful = bytearray(self.paths.count + 1)
        work = sorted({at for nodes in self.writers.values() for at in nodes})
        for at in work:
            useful[at] = 1
        while work:
            for at in before[work.pop()]:
                if not useful[at]:
                    useful[at] = 1
                    work.append(at)
        return useful

    def _fan_out(self, at: int) -> dict[int, int]:
        """Nodes that run side by side right after *at*, with labels; empty if there are not two of them."""
        start: dict[int, int] = {}
        for target in self.paths.sure[at]:
            start[target] = self._label()
        for choice in self.paths.choices[at]:
            label = self._label()
            for target in choice.targets:
                if target != OUT:
                    start[target] = self._label() if choice.names != ONE or target in start else label
        arrives = at >= 0 and self.plan.nodes[at].arrives
        if len(set(start.values())) + bool(arrives) < 2:
            return {}
        return {target: label for target, label in start.items() if self.useful[target]}

    def _label(self) -> int:
        self.labels += 1
        return self.labels

    def _walk(self, origin: int, now: dict[int, int]) -> None:
        most = min(self.seen + _EFFORT_OF_ONE * self.size, _EFFORT * self.size)
        arrived: dict[int, dict[int, int]] = {}
        self._arrive(origin, 0, arrived, {})
        while now and self.seen < most:
            self._meet(now)
            if len(set(now.values())) < 2 and not arrived:
                return
            following: dict[int, int] = {}
            for at, label in now.items():
                self.seen += 1 + len(self.paths.after[at])
                for target in self._plain(at):
                    if self.useful[target] and following.setdefault(target, label) != label:
                        following[target] = self._label()
                self._arrive(at, label, arrived, following)
            now = following

    def _plain(self, at: int) -> Iterator[int]:
        paths = self.paths
        yield from paths.sure[at]
        for choice in paths.choices[at]:
            yield from (target for target in choice.targets if target != OUT)
        yield from paths.instead[at]

    def _arrive(self, at: int, label: int, arrived: dict[int, dict[int, int]], following: dict[int, int]) -> None:
        """Note the arrivals of *at*; what fires is added to *following*."""
        if at < 0:
            return
        for index in self.plan.nodes[at].arrives:
            join = self.plan.joins[index]
            if not self.useful[join.dst.index]:
                continue
            there = arrived.setdefault(index, {})
            if at in there and len(there) >= join.need:
                there.clear()
            there[at] = label
            if len(there) == join.need:
                labels = set(there.values())
                following[join.dst.index] = labels.pop() if len(labels) == 1 else self._label()

    def _meet(self, now: dict[int, int]) -> None:
        """Join in one set the writers of a field that run now and carry different labels."""
        first: dict[str, int] = {}
        other: dict[str, int] = {}
        for at in sorted(now):
            for name in self.fields_of.get(at, ()):
                if name not in first:
                    first[name] = at
                elif now[at] != now[first[name]]:
                    self._unite(name, at, first[name])
                    other.setdefault(name, at)
        for at in sorted(now) if other else ():  # those that share the first one's label meet another one
            for name in self.fields_of.get(at, ()):
                if name in other and now[at] == now[first[name]]:
                    self._unite(name, at, other[name])

    def _unite(self, name: str, one: int, two: int) -> None:
        one, two = self._root(name, one), self._root(name, two)
        self.together[name][max(one, two)] = min(one, two)
