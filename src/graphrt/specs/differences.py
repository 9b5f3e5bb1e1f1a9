"""`GraphDiff`: the differences between two graphs, as text and as data.

It compares manifests, so it sees prompts and fields of ready-made nodes, but functions only by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from graphrt._arguments import is_list, is_mapping
from graphrt.specs.manifest import GraphSpec

_MISSING: Final = object()
_WHOLE: Final = ("name", "update", "reducer", "overwrite", "input", "output", "allow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference."""

    what: Literal["added", "removed", "changed"]
    of: str
    """Its kind: "node", "edge", "conditional edge", "route", "join", "field", "limit", "policy", "argument", ..."""
    name: str
    """Its name, such as "draft" or "draft -> review"."""
    before: Any = None
    """The old value as data; None if it was added."""
    after: Any = None
    """The new value as data; None if it was removed."""

    def __str__(self) -> str:
        text = f"{self.of} {self.name}: {self.what}"
        if self.what == "changed":
            return f"{text} from {_short(self.before)} to {_short(self.after)}"
        value = self.after if self.what == "added" else self.before
        return text if value is None or isinstance(value, (dict, list)) else f"{text} ({_short(value)})"


@dataclass(frozen=True, slots=True)
class GraphDiff:
    """The differences between two graphs, in the order of the manifest. False if there are none."""

    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "no differences"


def diff(before: GraphSpec, after: GraphSpec) -> GraphDiff:
    """Return the differences from *before* to *after*."""
    return GraphDiff(tuple(_graphs(_data(before), _data(after), "")))


def _data(spec: GraphSpec) -> dict[str, Any]:
    return spec.to_data()


def _graphs(old: Mapping[str, Any], new: Mapping[str, Any], inside: str) -> Iterator[Change]:
    """Yield the changes of a graph; *inside* is the prefix for names of parts of a nested graph."""
    for key in _WHOLE:
        yield from _value("graph", f"{inside}{key}", old.get(key, _MISSING), new.get(key, _MISSING))
    yield from _states(old.get("state"), new.get("state"), inside)
    yield from _nodes(_by(old["nodes"], "name"), _by(new["nodes"], "name"), inside)
    yield from _order("nodes", [n["name"] for n in old["nodes"]], [n["name"] for n in new["nodes"]], inside)
    old_edges, new_edges = old.get("edges", []), new.get("edges", [])
    yield from _keyed("edge", _edges(old_edges), _edges(new_edges), inside)
    yield from _order("edges", list(_edges(old_edges)), list(_edges(new_edges)), inside)
    yield from _branches(old.get("conditional_edges", []), new.get("conditional_edges", []), inside)
    yield from _keyed("join", _joins(old.get("joins", [])), _joins(new.get("joins", [])), inside)
    yield from _order("joins", list(_joins(old.get("joins", []))), list(_joins(new.get("joins", []))), inside)
    yield from _keyed("limit", old.get("limits", {}), new.get("limits", {}), inside)


def _states(old: Any, new: Any, inside: str) -> Iterator[Change]:
    if not is_mapping(old) or not is_mapping(new):
        yield from _value("state", f"{inside}class", _MISSING if old is None else old, _MISSING if new is None else new)
        return
    for key in ("class", "kind"):
        yield from _value("state", f"{inside}{key}", old.get(key, _MISSING), new.get(key, _MISSING))
    fields: dict[str, Any] = old.get("fields") or {}
    others: dict[str, Any] = new.get("fields") or {}
    for name in dict.fromkeys((*fields, *others)):
        if name in fields and name in others:
            for key in dict.fromkeys((*fields[name], *others[name])):
                label = f"{inside}{name}.{key}"
                yield from _value("field", label, fields[name].get(key, _MISSING), others[name].get(key, _MISSING))
        else:
            yield from _value("field", f"{inside}{name}", fields.get(name, _MISSING), others.get(name, _MISSING))
    yield from _order("fields", list(fields), list(others), inside)


def _nodes(old: Mapping[str, Any], new: Mapping[str, Any], inside: str) -> Iterator[Change]:
    for name in dict.fromkeys((*old, *new)):
        if name not in old or name not in new:
            yield from _value("node", f"{inside}{name}", old.get(name, _MISSING), new.get(name, _MISSING))
            continue
        old_node, new_node = old[name], new[name]
        if old_node["kind"] != new_node["kind"]:
            yield Change(
                what="changed", of="node", name=f"{inside}{name}", before=old_node["kind"], after=new_node["kind"]
            )
            continue
        for key in dict.fromkeys((*old_node, *new_node)):
            before, after = old_node.get(key, _MISSING), new_node.get(key, _MISSING)
            label = f"{inside}{name}.{key}"
            if key == "policy":
                ours, theirs = old_node.get(key, {}), new_node.get(key, {})
                yield from _keyed("policy", ours, theirs, f"{inside}{name}.")
            elif key == "graph" and is_mapping(before) and is_mapping(after):
                yield from _graphs(before, after, f"{inside}{name}/")
            elif key == "work" and is_list(before) and is_list(after):
                yield from _nodes(_by(before, "name"), _by(after, "name"), f"{inside}{name}/")
                yield from _order("nodes", list(_by(before, "name")), list(_by(after, "name")), f"{inside}{name}/")
            else:
                yield from _value("argument", label, before, after)


def _branches(old: Sequence[Any], new: Sequence[Any], inside: str) -> Iterator[Change]:
    ours, theirs = _numbered(old), _numbered(new)
    for name in dict.fromkeys((*ours, *theirs)):
        label = f"{inside}{name}"
        if name not in ours or name not in theirs:
            yield from _value("conditional edge", label, ours.get(name, _MISSING), theirs.get(name, _MISSING))
            continue
        old_branch, new_branch = ours[name], theirs[name]
        for key in ("router", "default"):
            yield from _value(
                "conditional edge", f"{label}.{key}", old_branch.get(key, _MISSING), new_branch.get(key, _MISSING)
            )
        routes, others = _routes(old_branch["routes"]), _routes(new_branch["routes"])
        changes = list(_keyed("route", routes, others, f"{label}."))
        yield from changes
        # A list instead of a mapping, or another order.
        if not changes and old_branch["routes"] != new_branch["routes"]:
            yield from _value("conditional edge", f"{label}.routes", old_branch["routes"], new_branch["routes"])
    yield from _order("conditional edges", list(ours), list(theirs), inside)


def _keyed(of: str, old: Mapping[str, Any], new: Mapping[str, Any], inside: str) -> Iterator[Change]:
    for key in dict.fromkeys((*old, *new)):
        yield from _value(of, f"{inside}{key}", old.get(key, _MISSING), new.get(key, _MISSING))


def _value(of: str, name: str, before: Any, after: Any) -> Iterator[Change]:
    if before is _MISSING and after is not _MISSING:
        yield Change(what="added", of=of, name=name, after=after)
    elif after is _MISSING and before is not _MISSING:
        yield Change(what="removed", of=of, name=name, before=before)
    elif before is not after and not _equal(before, after):
        yield Change(what="changed", of=of, name=name, before=before, after=after)


def _order(of: str, old: list[str], new: list[str], inside: str) -> Iterator[Change]:
    old_order, new_order = [name for name in old if name in new], [name for name in new if name in old]
    if old_order != new_order:
        yield Change(what="changed", of="order", name=f"{inside}{of}", before=old_order, after=new_order)


def _equal(before: Any, after: Any) -> bool:
    """Return whether two values are the same data: True is not 1, and 1 is not 1.0."""
    if type(before) is not type(after):
        return False
    if is_mapping(before):
        return list(before) == list(after) and all(_equal(before[key], after[key]) for key in before)
    if is_list(before):
        return len(before) == len(after) and all(map(_equal, before, after))
    return bool(before == after)


def _by(several: Sequence[Any], key: str) -> dict[str, Any]:
    return {item[key]: item for item in several}


def _edges(edges: Sequence[Any]) -> dict[str, Any]:
    return {f"{edge['from']} -> {edge['to']}": None for edge in edges}


def _joins(joins: Sequence[Any]) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    for join in joins:
        name = f"{' + '.join(join['from'])} -> {join['to']}"
        settings = {key: value for key, value in join.items() if key in ("when", "starved")}
        while name in by_name:
            name += " (again)"
        by_name[name] = settings
    return by_name


def _numbered(branches: Sequence[Any]) -> dict[str, Any]:
    """Return conditional edges by their source; the second edge of a source is "source (2)"."""
    by_name: dict[str, Any] = {}
    seen: dict[str, int] = {}
    for branch in branches:
        source = branch["from"]
        seen[source] = seen.get(source, 0) + 1
        by_name[source if seen[source] == 1 else f"{source} ({seen[source]})"] = branch
    return by_name


def _routes(routes: Any) -> dict[str, Any]:
    if is_mapping(routes):
        return {f"{label!r}": target for label, target in routes.items()}
    targets: dict[str, Any] = {}
    for route in routes:
        label = route["label"] if is_mapping(route) else route
        targets[label["enum"] if is_mapping(label) else repr(label)] = route["to"] if is_mapping(route) else route
    return targets


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
