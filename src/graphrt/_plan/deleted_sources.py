"""The judgement `deleted-source`: a node deletes a field that a node of another branch declares to read.

Branches are what runs side by side: two targets of one fan-out. The order of their nodes is not fixed, so the reader
may find the field empty. A node from which the deleting one can be reached reads in time, and one that can be reached
from it knows that the field is gone; neither is reported.

Only the fields count that nodes declare to read and delete (`node_attributes`), so a graph without such declarations costs
nothing here. The numbers of nodes and the attributes of `Paths` are explained in `paths`. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphrt._plan.paths import ONE, Paths
from graphrt._plan.tables import Plan
from graphrt.errors import Problem
from graphrt.errors._codes.findings import DELETED_SOURCE


def deleted_sources(plan: Plan, paths: Paths) -> Iterator[Problem]:
    """Yield one problem for each pair of a deleting and a reading node, by the deleting one."""
    declared = [(node, fields) for node in plan.nodes if (fields := plan.spec_fields(node.index)) is not None]
    deleting = [(node, fields.deletes) for node, fields in declared if fields.deletes]
    if not deleting:
        return
    before = paths.before()
    for node, deletes in deleting:
        above = _reaching(node.index, before)
        for reader, fields in declared:
            shared = [name for name in deletes if name in fields.reads]
            if not shared or reader.index in above:  # reads in time; the node itself is in `above`, too
                continue
            beside = _reaching(reader.index, before)
            # In `beside`, the deleting node can lead to the reader, which then knows.
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
    """Return True if some node starts two different targets at once, of which one is in *one* and one in *other*.

    The targets of gotos and of error policies are not looked at: for them nothing is reported, in favour of the graph.

    Args:
        paths: The successors.
        one: A node, and every node that can lead to it.
        other: Another node, and every node that can lead to it.
    """
    for at in one & other:
        # Targets of one group exclude each other, those of different groups start together: a router that names ONE
        # target has a group, and so has each target of any other edge, joins included.
        groups: list[tuple[int, ...]] = [(target,) for target in paths.sure[at]]
        if at >= 0:  # START arrives at no join
            groups += [(paths.plan.joins[join].dst.index,) for join in paths.plan.nodes[at].arrives]
        for choice in paths.choices[at]:
            groups += [choice.targets] if choice.names == ONE else [(target,) for target in choice.targets]
        for n, first in enumerate(groups):
            for second in groups[n + 1 :]:
                if _meets(first, second, one, other) or _meets(second, first, one, other):
                    return True
    return False


def _meets(first: tuple[int, ...], second: tuple[int, ...], one: set[int], other: set[int]) -> bool:
    """Return True if a target in *first* leads to the one node, and another one in *second* to the other node."""
    return any(a in one and b in other and a != b for a in first for b in second)
