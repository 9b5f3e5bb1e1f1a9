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
    predecessors = paths.before()
    for node, deletes in deleting:
        ancestors = _reaching(node.index, predecessors)
        for reader, fields in declared:
            shared = [name for name in deletes if name in fields.reads]
            if not shared or reader.index in ancestors:  # reads in time; `ancestors` includes the node itself
                continue
            reader_ancestors = _reaching(reader.index, predecessors)
            # If it is in `reader_ancestors`, the deleting node leads to the reader, which then knows of the deletion.
            if node.index not in reader_ancestors and _side_by_side(paths, ancestors, reader_ancestors):
                where = plan.spec_where(node.index)
                yield DELETED_SOURCE(node=node.name, fields=shared, reader=reader.name, where=where)


def _reaching(target: int, predecessors: list[list[int]]) -> set[int]:
    """Return *target* and every node from which it can be reached; *predecessors* has those of each node."""
    nodes = {target}
    work = [target]
    while work:
        for at in predecessors[work.pop()]:
            if at not in nodes:
                nodes.add(at)
                work.append(at)
    return nodes


def _side_by_side(paths: Paths, one_side: set[int], other_side: set[int]) -> bool:
    """Return True if some node starts two different targets at once, one in *one_side* and the other in *other_side*.

    The targets of gotos and error policies are ignored: in doubt, nothing is reported.

    Args:
        paths: The successors.
        one_side: A node, and every node that can lead to it.
        other_side: Another node, and every node that can lead to it.
    """
    for at in one_side & other_side:
        # Targets in one group exclude each other; targets in different groups start together. A router that names ONE
        # target forms a group, as does each target of any other edge, including joins.
        groups: list[tuple[int, ...]] = [(target,) for target in paths.sure[at]]
        if at >= 0:  # START never arrives at a join
            groups += [(paths.plan.joins[join].dst.index,) for join in paths.plan.nodes[at].arrives]
        for choice in paths.choices[at]:
            groups += [choice.targets] if choice.names == ONE else [(target,) for target in choice.targets]
        for n, first in enumerate(groups):
            for second in groups[n + 1 :]:
                if _meets(first, second, one_side, other_side) or _meets(second, first, one_side, other_side):
                    return True
    return False


def _meets(first: tuple[int, ...], second: tuple[int, ...], one_side: set[int], other_side: set[int]) -> bool:
    """Return True if a target in *first* leads to one of the nodes, and another target in *second* to the other."""
    return any(a in one_side and b in other_side and a != b for a in first for b in second)
