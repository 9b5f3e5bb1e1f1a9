"""Nodes that versions of a user's graph renamed, and joins that they changed, under the names in older entries (R14).

A thread may have entries of several versions of its graph. Its meta keeps, in the names of its last graph, `renamed`:
older names of nodes to the later ones; and `joins`: joins that are gone, each with the one that took its place. A
`Migration` renames both again, so that each version adds to what the earlier ones left (decision 0022).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from graphrt._engine.join_state import JoinKey
from graphrt._plan.tables import Plan


def name_in_last_graph(name: str, meta: Mapping[str, Any]) -> str:
    """Return what the thread's last graph called the node that some entry calls *name*.

    Args:
        name: The name in an entry.
        meta: The thread's meta, as stored.
    """
    renamed: Mapping[str, str] = meta.get("renamed") or {}
    if name not in renamed:
        return name
    topology: Mapping[str, Any] = meta.get("topology") or {}
    is_new = any(node["name"] == name for node in topology.get("nodes", ()))  # a later node took over the older name
    return name if is_new else renamed[name]


def renamed_nodes(meta: Mapping[str, Any], again: Mapping[str, str]) -> dict[str, str]:
    """Return the names that renamed nodes have now, by each name that they had.

    Args:
        meta: The thread's meta, as stored.
        again: What the present migration renames.
    """
    earlier: Mapping[str, str] = meta.get("renamed") or {}
    return {**{old: again.get(name, name) for old, name in earlier.items()}, **again}


def changed_joins(
    meta: Mapping[str, Any], again: Mapping[str, str], plan: Plan, *, is_same: bool
) -> dict[JoinKey, JoinKey]:
    """Return the joins that took the place of others, by those others; all in the present names of their nodes.

    A join that the last graph had and *plan* does not have is followed by a join before the same node that is new: the
    one that shares most sources with it, the first of several. If none shares any, nothing follows it.

    Args:
        meta: The thread's meta, as stored.
        again: What the present migration renames.
        plan: The present graph.
        is_same: Whether *plan* is the thread's last graph.
    """

    def now(node: str, sources: Any) -> JoinKey:
        return again.get(node, node), tuple(sorted(again.get(name, name) for name in sources))

    earlier = {now(one["node"], one["before"]): now(one["node"], one["now"]) for one in meta.get("joins") or ()}
    if is_same:
        return earlier
    before = dict.fromkeys(now(*key) for key in _joins_of(meta.get("topology") or {}))
    present = [(join.dst.name, tuple(sorted(plan.nodes[at].name for at in join.sources))) for join in plan.joins]
    followed: dict[JoinKey, JoinKey] = {}
    for node, sources in before:
        shared = {
            key: len(set(sources).intersection(key[1])) for key in present if key[0] == node and key not in before
        }
        if (node, sources) not in present and any(shared.values()):
            followed[node, sources] = max(shared, key=shared.__getitem__)
    return {**{old: followed.get(key, key) for old, key in earlier.items()}, **followed}


def under_older_names(
    joins: Mapping[JoinKey, JoinKey], renamed: Mapping[str, str], plan: Plan
) -> dict[JoinKey, JoinKey]:
    """Return *joins*, each also under the older names of sources that one version renamed and a later one removed.

    The present graph knows no other name of such a node, so an older entry that names it is folded with that name.
    """
    older: dict[str, list[str]] = {}
    for name, last in renamed.items():
        if last not in plan.by_name:
            older.setdefault(last, []).append(name)
    return {
        (node, tuple(sorted(named))): now
        for (node, sources), now in joins.items()
        for named in product(*([name, *older.get(name, ())] for name in sources))
    }


def joins_as_data(changed: Mapping[JoinKey, JoinKey]) -> list[dict[str, Any]]:
    """Return *changed*, what `changed_joins` returned, as the meta keeps it."""
    return [{"node": node, "before": list(before), "now": list(now)} for (node, before), (_, now) in changed.items()]


def are_joins(data: Any) -> bool:
    """Return whether *data* has the form that `joins_as_data` gives it."""
    return all(
        one.__class__ is dict
        and one.get("node").__class__ is str
        and all(
            names.__class__ is list and all(name.__class__ is str for name in names)
            for names in (one.get("before"), one.get("now"))
        )
        for one in data
    )


def _joins_of(topology: Mapping[str, Any]) -> list[JoinKey]:
    """Return the joins of *topology*, which has an edge for each source of each."""
    sources: dict[tuple[str, int], list[str]] = {}
    for edge in topology.get("edges") or ():
        if edge["kind"] == "join":
            sources.setdefault((edge["to"], edge["join"]), []).append(edge["from"])
    return [(node, tuple(names)) for (node, _), names in sources.items()]
