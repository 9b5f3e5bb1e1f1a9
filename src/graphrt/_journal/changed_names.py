"""Mapping of renamed nodes and changed joins between the versions of a user's graph (R14).

A thread may have entries of several versions of its graph. Its meta keeps, with the names of its last graph, `renamed`,
which maps older node names to later ones, and `joins`, which maps former joins to their replacements. A `Migration`
updates both, so that each version adds to the data of earlier ones (decision 0022).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from graphrt._engine.join_state import JoinKey
from graphrt._plan.tables import Plan


def name_in_last_graph(name: str, meta: Mapping[str, Any]) -> str:
    """Return the name, in the thread's last graph, of the node that an entry calls *name*.

    Args:
        name: The name in an entry.
        meta: The thread's meta, as stored.
    """
    renamed: Mapping[str, str] = meta.get("renamed") or {}
    if name not in renamed:
        return name
    topology: Mapping[str, Any] = meta.get("topology") or {}
    is_new = any(node["name"] == name for node in topology.get("nodes", ()))  # a later node reused the older name
    return name if is_new else renamed[name]


def renamed_nodes(meta: Mapping[str, Any], renames: Mapping[str, str]) -> dict[str, str]:
    """Return the current names of renamed nodes, by each earlier name.

    Args:
        meta: The thread's meta, as stored.
        renames: What the present migration renames.
    """
    earlier: Mapping[str, str] = meta.get("renamed") or {}
    return {**{old: renames.get(name, name) for old, name in earlier.items()}, **renames}


def changed_joins(
    meta: Mapping[str, Any], renames: Mapping[str, str], plan: Plan, *, is_same: bool
) -> dict[JoinKey, JoinKey]:
    """Return the replacements of former joins, by former join, all with the current names of their nodes.

    A join of the last graph that *plan* lacks is replaced by a new join before the same node: the one that shares most
    sources with it, or the first of several. If none shares any source, there is no replacement.

    Args:
        meta: The thread's meta, as stored.
        renames: What the present migration renames.
        plan: The present graph.
        is_same: Whether *plan* is the thread's last graph.
    """

    def now(node: str, sources: Any) -> JoinKey:
        return renames.get(node, node), tuple(sorted(renames.get(name, name) for name in sources))

    earlier = {
        now(record["node"], record["before"]): now(record["node"], record["now"]) for record in meta.get("joins") or ()
    }
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
    """Return *joins*, each also under older names of sources that were renamed once and removed later.

    The current graph has no other name for these nodes, so older entries are folded with the old name.
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
    """Convert *changed*, the result of `changed_joins`, to the form of the meta."""
    return [{"node": node, "before": list(before), "now": list(now)} for (node, before), (_, now) in changed.items()]


def are_joins(data: Any) -> bool:
    """Return whether *data* has the form that `joins_as_data` gives it."""
    return all(
        item.__class__ is dict
        and item.get("node").__class__ is str
        and all(
            names.__class__ is list and all(name.__class__ is str for name in names)
            for names in (item.get("before"), item.get("now"))
        )
        for item in data
    )


def _joins_of(topology: Mapping[str, Any]) -> list[JoinKey]:
    """Return the joins of *topology*, which has one edge per source of a join."""
    sources: dict[tuple[str, int], list[str]] = {}
    for edge in topology.get("edges") or ():
        if edge["kind"] == "join":
            sources.setdefault((edge["to"], edge["join"]), []).append(edge["from"])
    return [(node, tuple(names)) for (node, _), names in sources.items()]
