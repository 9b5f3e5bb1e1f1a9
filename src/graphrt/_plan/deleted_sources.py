"""The judgement `deleted-source`: a node deletes a field that a node of another branch declares to read.

Branches run concurrently: they are different targets of one fan-out. The order of their nodes is not fixed, so the
reader may find the field empty. A node that leads to the deleting node reads in time, and a node that follows it knows
that the field is gone; neither is reported.

Only declared reads and deletes count (`node_attributes`), so a graph without such declarations costs nothing here. Node
numbers and the attributes of `Paths` are explained in `paths`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphrt._plan.paths import ONE, Paths
from graphrt._plan.tables import Plan
from graphrt.errors import Problem
from graphrt.errors._codes.findings import DELETED_SOURCE


def deleted_sources(plan: Plan, paths: Paths) -> Iterator[Problem]:
    """Yield one problem for each pair of a deleting and a reading node, ordered by the deleting node."""
    declared = [(node, fields) for node in plan.nodes if (fields := plan.spec_fields(node.index)) is not None]
    deleting = [(node, fields.deletes) for node, fields in declared if fields.deletes]
    if not deleting:
        return
    before = paths.before()
    for node, deletes in deleting:
        above = _reaching(node.index, before)
        for reader, fields in declared:
            shared = [name for name in deletes if name in fields.reads]
            if not shared or reader.index in above:  # reads in time; `above` includes the node itself
                continue
            beside = _reaching(reader.index, before)
            # If it is in `beside`, the deleting node leads to the reader, which then knows about the deletion.
            if node.index not in beside and _side_by_side(paths, above, beside):
                where = plan.spec_where(node.index)
                yield DELETED_SOURCE(node=node.name, fields=shared, reader=reader.name, where=where)


def _reaching(target: int, before: list[list[int]]) -> set[int]:
    """Return *target* and every node from which it can be reached; *before* has the predecessors of each node."""
    found = {target}
    work = [target]
    while work:
        for at in before[work.pop()]:
            if at not in found:
                found.add(at)
                work.append(at)
    return found


def _side_by_side(paths: Paths, one: set[int], other: set[int]) -> bool:
    """Return True if some node starts two different targets at once, one in *one* and the other in *other*.

    The targets of gotos and error policies are ignored: in doubt, nothing is reported.

    Args:
        paths: The successors.
        one: A node, and every node that can lead to it.
        other: Another node, and every node that can lead to it.
    """
    for at in one & other:
        # Targets in one group exclude each other; targets in different groups start together. A router that names ONE
        # target forms a group, as does each target of any other edge, including joins.
        groups: list[tuple[int, ...]] = [(target,) for target in paths.sure[at]]
        if at >= 0:  # START never arrives at a join
            groups += [(paths.plan.joins[join].dst.index,) for join in paths.plan.nodes[at].arrives]
        for choice in paths.choices[at]:
            groups += [choice.targets] if choice.names == ONE else [(target,) for target in choice.targets]
        for n, first in enumerate(groups):
            for second in groups[n + 1 :]:
                if _meets(first, second, one, other) or _meets(second, first, one, other):
                    return True
    return False


def _meets(first: tuple[int, ...], second: tuple[int, ...], one: set[int], other: set[int]) -> bool:
    """Return True if a target in *first* leads to one of the nodes, and another target in *second* to the other."""
    return any(a in one and b in other and a != b for a in first for b in second)
