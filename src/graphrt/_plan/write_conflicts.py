"""The judgement `write-conflict`: nodes that can share a superstep and declare to write the same last-value field (R6).

The search starts at every fan-out (a node with several successors) and proceeds superstep by superstep. Each branch of
the fan-out has a label (an int) that its descendants inherit. Nodes of one superstep with different labels run
concurrently. Nodes with the same label are alternatives of a router and do not. A node where branches meet gets a new
label.

To avoid false positives, targets of on_fatigue are not followed, and several targets of gotos count as alternatives.
Node numbers and the attributes of `Paths` are explained in `paths`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import collections.abc
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
from graphrt.errors._codes.findings import WRITE_CONFLICT

_AROUND: Final = (Command, list, collections.abc.Sequence)
"""Classes whose type argument is an update."""
_EFFORT: Final = 64
"""The search stops after visiting this multiple of the graph's nodes and edges."""
_EFFORT_OF_ONE: Final = 4
"""The same bound for one fan-out. Both keep compiling linear in the size of the graph."""


def write_conflicts(plan: Plan, paths: Paths) -> Iterator[Problem]:
    """Yield one problem for each set of nodes that conflict, in the order of their first nodes."""
    writers = _writers(plan)
    if not writers:
        return
    search = _Search(plan, paths, writers)
    groups: dict[tuple[int, ...], list[str]] = {}  # nodes that conflict: the fields for which they do
    for name in writers:
        for group in search.groups(name):
            groups.setdefault(group, []).append(name)
    for group in sorted(groups):
        fields = sorted(groups[group])
        listed = _and([plan.nodes[at].name for at in group])
        subject = f"Nodes {listed}" if len(group) == 2 else f"Some of the nodes {listed}"
        yield WRITE_CONFLICT(
            tasks=subject,
            all_of_them="both" if len(group) == 2 else "all of them",
            fields=fields,
            node=plan.nodes[group[0]].name,
            where=plan.spec_where(group[0]),
        )


def _and(node_names: list[str]) -> str:
    """Return node names as text, joined by commas and "and"; a long list is shortened."""
    if len(node_names) > 12:
        return names(node_names)
    return f"{', '.join(map(repr, node_names[:-1]))} and {node_names[-1]!r}"


def _writers(plan: Plan) -> dict[str, frozenset[int]]:
    """Return the last-value fields that two or more nodes declare to write, each with the indexes of these nodes."""
    nodes_by_field: dict[str, list[int]] = {}
    fields_by_hint: dict[int, frozenset[str]] = {}  # by the id of an annotation, which many nodes share
    if plan.update.whole is not None:  # nodes write no fields, and updates of the whole state never conflict
        return {}
    for node in plan.nodes:
        for name in plan.tool_writes(node.index):
            if not plan.state.fields[name].aggregates:
                nodes_by_field.setdefault(name, []).append(node.index)
        hint = plan.spec_hint(node.index)  # the return annotation
        # In a graph whose nodes return whole states, an annotation names every field and so says nothing.
        if node.policy.writes is None and (hint is hints.UNRESOLVED or plan.update.kind == "overwrite"):
            continue
        fields = fields_by_hint.get(id(hint)) if node.policy.writes is None else frozenset(node.policy.writes)
        if fields is None:
            fields = fields_by_hint[id(hint)] = _narrower(plan, hint)
        for name in fields:
            if not plan.state.fields[name].aggregates:
                nodes_by_field.setdefault(name, []).append(node.index)
    writers = {name: frozenset(nodes_by_field[name]) for name in plan.state.fields if name in nodes_by_field}
    return {name: nodes for name, nodes in writers.items() if len(nodes) > 1}


def _narrower(plan: Plan, hint: Any) -> frozenset[str]:
    """Return the fields that a return annotation names, or an empty set.

    They count only if the annotation lists every possible write and is narrower than the graph's Update: a node that
    returns the Update itself need not write all of its fields.
    """
    fields: set[str] = set()
    for cls in _updates(hint):
        if cls is None or cls is type(None) or cls is Interrupt:
            continue
        keys = None if cls is plan.update.cls else _keys(cls)
        if keys is None:  # this member may write anything
            return frozenset()
        fields |= keys
    written = frozenset(fields)
    return written if written < plan.update.names else frozenset()


def _updates(hint: Any) -> Iterator[Any]:
    """Yield the members of a return annotation, replacing Commands and lists of updates by their own members."""
    for member in hints.members(hint):
        if (typing.get_origin(member) or member) in _AROUND:
            yield from _updates((typing.get_args(member) or (Any,))[0])
        else:
            yield member


def _keys(cls: Any) -> frozenset[str] | None:
    """Return the field names of a TypedDict, model or dataclass; None for any other class."""
    origin = typing.get_origin(cls) or cls
    if te.is_typeddict(origin):
        return frozenset([*origin.__required_keys__, *origin.__optional_keys__])
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        return frozenset(origin.__pydantic_fields__)
    if isinstance(origin, type) and dataclasses.is_dataclass(origin):
        return frozenset(spec.name for spec in dataclasses.fields(origin))
    return None


class _Search:
    """Search for the writers of a field that can share a superstep. Creating it runs the whole search.

    Args:
        plan: The plan.
        paths: The successors.
        writers: By contested field, the nodes that declare to write it; two or more.
    """

    def __init__(self, plan: Plan, paths: Paths, writers: dict[str, frozenset[int]]) -> None:
        self.plan = plan
        self.paths = paths
        self.writers = writers
        self.together: dict[str, dict[int, int]] = {name: {at: at for at in nodes} for name, nodes in writers.items()}
        """By field, a union-find forest of its writers: writer to parent. One tree is one set that conflicts."""
        self.seen = 0
        """Nodes and edges visited so far."""
        self.labels = 0
        """The last label assigned."""
        self.size = paths.count + sum(map(len, paths.after)) + 16
        """Nodes and edges of the graph; small graphs get some more effort."""
        self.useful = self._useful()
        """By node, 1 if a writer is still ahead; the search visits only these nodes."""
        self.fields_of: dict[int, list[str]] = {}
        """By writer, the contested fields that it writes."""
        for name, nodes in writers.items():
            for at in nodes:
                self.fields_of.setdefault(at, []).append(name)
        for at in range(-1, paths.count):
            start = self._fan_out(at)
            if start:
                self._walk(at, start)

    def groups(self, name: str) -> list[tuple[int, ...]]:
        """Return the sets of two or more writers of the field that conflict, each in the order of the nodes."""
        sets: dict[int, list[int]] = {}
        for at in sorted(self.writers[name]):
            sets.setdefault(self._root(name, at), []).append(at)
        return [tuple(group) for group in sets.values() if len(group) > 1]

    def _root(self, name: str, at: int) -> int:
        """Return the root of a writer's tree in the forest of the field *name*; it stands for the set."""
        parent = self.together[name]
        while parent[at] != at:
            parent[at] = parent[parent[at]]  # path halving
            at = parent[at]
        return at

    def _useful(self) -> bytearray:
        """Return, by node, 1 if the node is a writer or can reach one."""
        predecessors = self.paths.before()
        useful = bytearray(self.paths.count + 1)
        work = sorted({at for nodes in self.writers.values() for at in nodes})
        for at in work:
            useful[at] = 1
        while work:
            for at in predecessors[work.pop()]:
                if not useful[at]:
                    useful[at] = 1
                    work.append(at)
        return useful

    def _fan_out(self, at: int) -> dict[int, int]:
        """Return the nodes that can follow *at*, each with its label; empty if *at* has fewer than two branches.

        A join that *at* arrives at counts as a branch. The targets of one router that names one of them share a label.
        """
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
        """Return an unused label."""
        self.labels += 1
        return self.labels

    def _walk(self, origin: int, active: dict[int, int]) -> None:
        """Follow a fan-out superstep by superstep.

        Args:
            origin: The node that fans out.
            active: The nodes of the first superstep after it, with their labels.
        """
        max_effort = min(self.seen + _EFFORT_OF_ONE * self.size, _EFFORT * self.size)
        arrived: dict[int, dict[int, int]] = {}  # by join, the sources that have arrived, with their labels
        # Label 0 is not used by any branch. A join with when="any" fires at once.
        self._arrive(origin, 0, arrived, active)
        deferred: dict[int, int] = {}  # deferred nodes, with their labels
        while (active or deferred) and self.seen < max_effort:
            active = self._defer(active, deferred)
            self._meet(active)
            # With a single label left nothing can run concurrently, unless a join or a deferred node still waits for
            # another branch.
            if len(set(active.values())) < 2 and not arrived and not deferred:
                return
            following: dict[int, int] = {}
            for at, label in active.items():
                self.seen += 1 + len(self.paths.after[at])
                for target in self._plain(at):
                    if self.useful[target] and following.setdefault(target, label) != label:
                        following[target] = self._label()
                self._arrive(at, label, arrived, following)
            active = following

    def _defer(self, active: dict[int, int], deferred: dict[int, int]) -> dict[int, int]:
        """Return the nodes that start now: those of *active* that are not deferred, else all that are *deferred*.

        Sends to a deferred node, which do not wait, are not known here.
        """
        if not self.plan.defers:
            return active
        for at in [at for at in active if self.plan.nodes[at].defer]:
            label = active.pop(at)
            if deferred.setdefault(at, label) != label:
                deferred[at] = self._label()
        if active:
            return active
        started = deferred.copy()
        deferred.clear()
        return started

    def _plain(self, at: int) -> Iterator[int]:
        """Yield the nodes that may follow in the next superstep other than through a join; END is left out."""
        paths = self.paths
        yield from paths.sure[at]
        for choice in paths.choices[at]:
            yield from (target for target in choice.targets if target != OUT)
        yield from paths.instead[at]

    def _arrive(self, at: int, label: int, arrived: dict[int, dict[int, int]], following: dict[int, int]) -> None:
        """Record in *arrived* that *at* arrived at its joins; add the nodes of joins that fire to *following*.

        Args:
            at: A node that ran, or START, which is never a source of a join.
            label: Its label.
            arrived: By join, the sources that have arrived, with their labels; changed in place.
            following: The nodes of the next superstep, with their labels; changed in place.
        """
        if at < 0:
            return
        for index in self.plan.nodes[at].arrives:
            join = self.plan.joins[index]
            if not self.useful[join.dst.index]:
                continue
            arrivals = arrived.setdefault(index, {})
            if at in arrivals and len(arrivals) >= join.need:
                arrivals.clear()  # the join has fired before: a repeated source starts the next round of arrivals (R5)
            arrivals[at] = label
            if len(arrivals) == join.need:  # later sources of the same round do not fire it again
                labels = set(arrivals.values())
                # A new label where branches meet.
                following[join.dst.index] = labels.pop() if len(labels) == 1 else self._label()

    def _meet(self, active: dict[int, int]) -> None:
        """Put the writers of a field that run in the same superstep under different labels into one set.

        Args:
            active: Nodes of the superstep, with their labels.
        """
        first_writers: dict[str, int] = {}  # by field, the first writer
        other_writers: dict[str, int] = {}  # by field, the first writer under another label than that one's
        for at in sorted(active):
            for name in self.fields_of.get(at, ()):
                if name not in first_writers:
                    first_writers[name] = at
                elif active[at] != active[first_writers[name]]:
                    self._unite(name, at, first_writers[name])
                    other_writers.setdefault(name, at)
        # Writers with the first one's label conflict with one that has another label.
        for at in sorted(active) if other_writers else ():
            for name in self.fields_of.get(at, ()):
                if name in other_writers and active[at] == active[first_writers[name]]:
                    self._unite(name, at, other_writers[name])

    def _unite(self, name: str, first: int, second: int) -> None:
        """Merge the sets of two writers of a field; the lower root represents both."""
        first, second = self._root(name, first), self._root(name, second)
        self.together[name][max(first, second)] = min(first, second)
