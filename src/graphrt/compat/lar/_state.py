"""`GraphState`, the view of the state that functions get, and diffs between two states.

A state is a plain mapping of keys to values. Nothing here knows nodes, graphs or models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeGuard, final

BUDGET: Final = "token_budget"
"""The key that bounds the tokens of a run: a field of its own in the graph, which graphrt lowers."""


class Changes(TypedDict):
    """What a node wrote: the update of the field `values`."""

    written: dict[str, Any]
    deleted: list[str]


@final
class GraphState:
    """The state as a function sees it: `get`, `set`, `delete`, `get_all`, and `state["key"]`.

    Changes are collected and become the node's update when the function returns. A list, dict or set that was read and
    changed in place counts as written, so neither order of reading and writing loses anything.

    Args:
        initial: Keys and values. They are copied, so the caller's containers stay as they are.
    """

    __slots__ = ("_base", "_gone", "_read", "_written")

    def __init__(self, initial: Mapping[str, Any] | None = None) -> None:
        self._base: Mapping[str, Any] = {} if initial is None else initial
        self._read: dict[str, Any] = {}
        """Copies that were handed out, by key."""
        self._written: dict[str, Any] = {}
        self._gone: dict[str, None] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of *key*, or *default* if the state does not have it."""
        if key in self._written:
            return self._written[key]
        if key in self._gone or key not in self._base:
            return default
        if key not in self._read:
            self._read[key] = copied(self._base[key])
        return self._read[key]

    def set(self, key: str, value: Any) -> None:
        """Set *key* to *value*."""
        self._gone.pop(key, None)
        self._written[key] = value

    def delete(self, key: str) -> None:
        """Remove *key*; nothing happens if the state does not have it."""
        self._written.pop(key, None)
        if key in self._base:
            self._gone[key] = None

    def get_all(self) -> dict[str, Any]:
        """Return all keys and values in a new dict."""
        return {key: self.get(key) for key in self}

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(key)
        return self.get(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        return key in self._written or (key in self._base and key not in self._gone)

    def __iter__(self) -> Iterator[str]:
        yield from (key for key in self._base if key not in self._gone)
        yield from (key for key in self._written if key not in self._base)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"GraphState({self.get_all()!r})"

    def changes(self) -> Changes:
        """Return what was written and deleted so far; the values are copies."""
        in_place = {
            key: value
            for key, value in self._read.items()
            if key not in self._written and key not in self._gone and not same(value, self._base[key])
        }
        written = {key: copied(value) for key, value in {**in_place, **self._written}.items()}
        return Changes(written=written, deleted=list(self._gone))


def folded(current: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Return *current* with *changes*: the reducer of the field `values`."""
    return {key: value for key, value in current.items() if key not in changes["deleted"]} | changes["written"]


def both(first: Changes, second: Changes) -> Changes:
    """Return the changes that are *first* and then *second*: the reducer of what a branch wrote."""
    written = {key: value for key, value in first["written"].items() if key not in second["deleted"]}
    deleted = [key for key in first["deleted"] if key not in second["written"]]
    return Changes(
        written={**written, **second["written"]}, deleted=list(dict.fromkeys((*deleted, *second["deleted"])))
    )


def nothing_written() -> Changes:
    """Return changes that change nothing."""
    return Changes(written={}, deleted=[])


# -- diffs -------------------------------------------------------------------------------------------------------


def compute_state_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what differs between two states: `added`, `removed` and `updated`, each a mapping of keys to values.

    `removed` has the old values, the others the new ones. `modified` is the same mapping as `updated`, under the other
    name that Lár's documents use. Values of different types differ: 1, 1.0 and True are three values.
    """
    updated = {key: value for key, value in after.items() if key in before and not same(value, before[key])}
    return {
        "added": {key: value for key, value in after.items() if key not in before},
        "removed": {key: value for key, value in before.items() if key not in after},
        "updated": updated,
        "modified": dict(updated),
    }


def apply_diff(state: Mapping[str, Any], diff: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return *state* with *diff* in a new dict: `apply_diff(before, compute_state_diff(before, after)) == after`."""
    kept = {key: value for key, value in state.items() if key not in diff["removed"]}
    updated = diff["updated"] if "updated" in diff else diff["modified"]
    return {**kept, **diff["added"], **updated}


def copied(value: Any) -> Any:
    """Return *value* with its dicts, lists, tuples and sets copied, however deep; other objects are shared."""
    if _is_dict(value):
        return {key: copied(one) for key, one in value.items()}
    if _is_list(value):
        return [copied(one) for one in value]
    if _is_tuple(value):
        return tuple(copied(one) for one in value)
    return set(value) if _is_set(value) else value


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of equal types, in their containers too."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if _is_dict(one):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if _is_list(one) or _is_tuple(one):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - an array's comparison is an array; what cannot be compared counts as changed
        return False


def is_items(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether *value* is a list or a tuple; for type checkers, one of anything."""
    return isinstance(value, (list, tuple))


# Only the exact types: a subclass may hold more than its items.


def _is_dict(value: Any) -> TypeGuard[dict[Any, Any]]:
    return type(value) is dict


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return type(value) is list


def _is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    return type(value) is tuple


def _is_set(value: Any) -> TypeGuard[set[Any]]:
    return type(value) is set
