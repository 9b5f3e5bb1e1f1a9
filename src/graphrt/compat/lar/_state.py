"""`StateView`, the state as functions see it, and diffs between two states.

A state is a plain mapping of keys to values. Nothing here knows nodes, graphs or models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, Protocol, TypedDict, TypeGuard

BUDGET: Final = "token_budget"
"""The key that bounds the tokens of a run: a field of its own in the graph, which graphrt lowers."""


class Changes(TypedDict):
    """What a node wrote: the update of the field `values`."""

    written: dict[str, Any]
    deleted: list[str]


class StepOfNode(Protocol):
    """What `execute` of a node object works in: a step of a run, or a unit test."""

    note: dict[str, Any]
    """What the step's record says and the state does not."""

    def ask_model(self, node: Any, state: StateView) -> None:
        """Let an LLMNode ask its model and write the answer to *state*."""
        ...

    def ask_person(self, node: Any, context: Mapping[str, Any]) -> str:
        """Return the choice of a person for a HumanJuryNode."""
        ...

    def run_graph(self, node: Any, state: StateView) -> None:
        """Run a BatchNode or an AdaptiveNode, and write to *state* what it wrote."""
        ...

    def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Return the result of an async function."""
        ...


class StateView:
    """The state as a function sees it; see `GraphState`.

    Changes are collected and become the node's update when the function returns. A value that was read and changed in
    place, a list or an object, counts as written, so neither order of reading and writing loses anything.

    Args:
        initial_state: Keys and values, which are copied when they are read.
        step: What the node works in. None, if no node does.
    """

    __slots__ = ("_base", "_gone", "_read", "_seen", "_written", "step")

    def __init__(self, initial_state: Mapping[str, Any] | None = None, step: StepOfNode | None = None) -> None:
        self._base: Mapping[str, Any] = {} if initial_state is None else initial_state
        self._read: dict[str, Any] = {}
        """Copies that were handed out, by key."""
        self._seen: set[str] = set()
        """Keys of which copies were handed out; a change that is undone was read all the same."""
        self._written: dict[str, Any] = {}
        self._gone: dict[str, None] = {}
        self.step: Any = step

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of *key*, or *default* if the state does not have it."""
        if key in self._written:
            return self._written[key]
        if key in self._gone or key not in self._base:
            return default
        if key not in self._read:
            self._read[key] = copied(self._base[key])
            self._seen.add(key)
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
        return f"{type(self).__name__}({self.get_all()!r})"

    def changes(self) -> Changes:
        """Return what was written and deleted so far; the values are copies."""
        in_place = {
            key: value
            for key, value in self._read.items()
            if key not in self._written and key not in self._gone and not same(value, self._base[key])
        }
        written = {key: copied(value) for key, value in {**in_place, **self._written}.items()}
        return Changes(written=written, deleted=list(self._gone))

    def reads(self) -> list[str]:
        """Return the keys whose values at the beginning were read, sorted: 0..n."""
        return sorted(self._seen)

    @property
    def budget(self) -> int | None:
        """The budget at the beginning, less what graphrt took off it; None without one."""
        left: int | None = self._base.get(BUDGET)
        return left

    def charge(self, tokens: int) -> None:
        """Lower the budget by *tokens* that graphrt takes off it itself, so that they are no change of the node."""
        left = self.budget
        if left is None:
            return
        self._base = {**self._base, BUDGET: max(0, left - tokens)}
        self._read.pop(BUDGET, None)
        if type(self._written.get(BUDGET)) is int:
            self._written[BUDGET] -= tokens

    def mark(self) -> tuple[dict[str, Any], ...]:
        """Return what `back_to` needs to undo later changes."""
        return copied(self._read), copied(self._written), dict(self._gone)

    def back_to(self, mark: tuple[dict[str, Any], ...]) -> None:
        """Undo all changes that were made after *mark*."""
        self._read, self._written, self._gone = mark


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
    kept = {key: value for key, value in state.items() if key not in diff.get("removed", {})}
    return {**kept, **diff.get("added", {}), **diff.get("updated", diff.get("modified", {}))}


_ATOMS: Final = frozenset(
    {str, int, float, bool, bytes, complex, type(None), type, type(Ellipsis), object, FunctionType, BuiltinFunctionType}
)
"""Types whose values cannot change, or, as a sentinel, are known by their identity."""


def copied(value: Any) -> Any:
    """Return a copy of *value* that shares nothing which can change. An object that cannot be copied is shared."""
    if type(value) in _ATOMS:
        return value
    if _is_dict(value):
        return {key: copied(one) for key, one in value.items()}
    if _is_list(value):
        return [copied(one) for one in value]
    if _is_tuple(value):
        return tuple(copied(one) for one in value)
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - a lock, a socket or a generator in it: whatever its class raises
        return value


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of equal types, in their containers and attributes too."""
    return _same(one, other, {})


def _same(one: Any, other: Any, compared: dict[tuple[int, int], tuple[Any, Any]]) -> bool:
    """Compare as `same` does; pairs that are *compared* already, by their ids, end the way round objects in a circle."""
    if one is other or type(one) is not type(other):
        return one is other
    if type(one) in _ATOMS:
        return bool(one == other)
    pair = (id(one), id(other))
    if pair in compared:
        return True
    compared[pair] = (one, other)  # held, so that no other object gets the id of a part that was made for comparison
    if _is_dict(one):
        return one.keys() == other.keys() and all(_same(value, other[key], compared) for key, value in one.items())
    if _is_list(one) or _is_tuple(one):
        return len(one) == len(other) and all(_same(a, b, compared) for a, b in zip(one, other, strict=True))
    if _is_compared_by_identity(one):  # two copies are never equal: compare what `deepcopy` copies
        parts = _parts(one)
        return parts is not None and _same(parts, _parts(other), compared)
    try:
        equal = bool(one == other)
    except Exception:  # noqa: BLE001 - an array's comparison is an array; what cannot be compared counts as changed
        return False
    # Attributes besides: what a class compares may be a part of them, such as an id.
    return equal and _same(getattr(one, "__dict__", None), getattr(other, "__dict__", None), compared)


def _is_compared_by_identity(value: object) -> bool:
    compares: Any = type(value).__eq__
    return compares is object.__eq__


def _parts(value: Any) -> Any:
    """Return what an object is made of, as `pickle` takes it apart; None if it cannot be taken apart."""
    try:
        return value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - whatever its class raises
        return None


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
