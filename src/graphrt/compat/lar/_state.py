"""`StateView`, the state as functions see it, and diffs between two states.

A state is a plain mapping of keys to values. This module knows nothing of nodes, graphs or models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, Protocol, TypedDict, TypeGuard

BUDGET: Final = "token_budget"
"""The key that bounds the tokens of a run: a separate field of the graph, which graphrt lowers."""


class Changes(TypedDict):
    """The writes of a node: the update of the field `values`."""

    written: dict[str, Any]
    deleted: list[str]


class StepOfNode(Protocol):
    """The context of a node object's `execute`: a step of a run, or a unit test."""

    note: dict[str, Any]
    """Data for the step's record that is not in the state."""

    def ask_model(self, node: Any, state: StateView) -> None:
        """Call the model of an LLMNode and write the answer to *state*."""
        ...

    def ask_person(self, node: Any, context: Mapping[str, Any]) -> str:
        """Return the choice of a person for a HumanJuryNode."""
        ...

    def run_graph(self, node: Any, state: StateView) -> None:
        """Run a BatchNode or an AdaptiveNode, and apply its writes to *state*."""
        ...

    def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Return the result of an async function."""
        ...


class StateView:
    """The state as a function sees it; see `GraphState`.

    Changes are collected and become the node's update when the function returns. A list or an object that was read and
    then changed in place counts as written, so no change is lost.

    Args:
        initial_state: Keys and values, which are copied on reading.
        step: The context of the node; None if no node uses the state.
    """

    __slots__ = ("_base", "_gone", "_read", "_seen", "_written", "step")

    def __init__(self, initial_state: Mapping[str, Any] | None = None, step: StepOfNode | None = None) -> None:
        self._base: Mapping[str, Any] = {} if initial_state is None else initial_state
        self._read: dict[str, Any] = {}
        """Copies that were returned, by key."""
        self._seen: set[str] = set()
        """Keys of which copies were returned. An undone change still counts as read."""
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
        """Return the keys written and deleted so far; the values are copies."""
        in_place = {
            key: value
            for key, value in self._read.items()
            if key not in self._written and key not in self._gone and not same(value, self._base[key])
        }
        written = {key: copied(value) for key, value in {**in_place, **self._written}.items()}
        return Changes(written=written, deleted=list(self._gone))

    def reads(self) -> list[str]:
        """Return the keys whose initial values were read, sorted: 0..n."""
        return sorted(self._seen)

    @property
    def budget(self) -> int | None:
        """The initial budget less the amount that graphrt deducted; None without one."""
        remaining: int | None = self._base.get(BUDGET)
        return remaining

    def charge(self, tokens: int) -> None:
        """Lower the budget by *tokens* that graphrt deducts, so that they do not count as changes by the node."""
        remaining = self.budget
        if remaining is None:
            return
        self._base = {**self._base, BUDGET: max(0, remaining - tokens)}
        self._read.pop(BUDGET, None)
        if type(self._written.get(BUDGET)) is int:
            self._written[BUDGET] -= tokens

    def mark(self) -> tuple[dict[str, Any], ...]:
        """Return the data that `back_to` needs to undo later changes."""
        return copied(self._read), copied(self._written), dict(self._gone)

    def back_to(self, mark: tuple[dict[str, Any], ...]) -> None:
        """Undo all changes that were made after *mark*."""
        self._read, self._written, self._gone = mark


def folded(current: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Return *current* with *changes* applied; the reducer of the field `values`."""
    return {key: value for key, value in current.items() if key not in changes["deleted"]} | changes["written"]


def both(first: Changes, second: Changes) -> Changes:
    """Return the combination of the changes *first* and then *second*; the reducer of a branch's writes."""
    written = {key: value for key, value in first["written"].items() if key not in second["deleted"]}
    deleted = [key for key in first["deleted"] if key not in second["written"]]
    return Changes(
        written={**written, **second["written"]}, deleted=list(dict.fromkeys((*deleted, *second["deleted"])))
    )


def nothing_written() -> Changes:
    """Return empty changes."""
    return Changes(written={}, deleted=[])


# -- diffs -------------------------------------------------------------------------------------------------------


def compute_state_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the differences between two states: `added`, `removed` and `updated`, each a mapping of keys to values.

    `removed` has the old values, the others the new ones. `modified` is the same mapping as `updated`, under the other
    name that Lár documents. Values of different types differ: 1, 1.0 and True are three values.
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
    remaining = {key: value for key, value in state.items() if key not in diff.get("removed", {})}
    return {**remaining, **diff.get("added", {}), **diff.get("updated", diff.get("modified", {}))}


_ATOMS: Final = frozenset(
    {str, int, float, bool, bytes, complex, type(None), type, type(Ellipsis), object, FunctionType, BuiltinFunctionType}
)
"""Types whose values are immutable, or are sentinels compared by identity."""


def copied(value: Any) -> Any:
    """Return a copy of *value* that shares no mutable parts. An object that cannot be copied is shared."""
    if type(value) in _ATOMS:
        return value
    if _is_dict(value):
        return {key: copied(item) for key, item in value.items()}
    if _is_list(value):
        return [copied(item) for item in value]
    if _is_tuple(value):
        return tuple(copied(item) for item in value)
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - a lock, a socket or a generator in it: whatever its class raises
        return value


def same(one: Any, other: Any) -> bool:
    """Return whether two values and their types are equal, including those in containers and attributes."""
    return _same(one, other, {})


def _same(left: Any, right: Any, compared: dict[tuple[int, int], tuple[Any, Any]]) -> bool:
    """Compare like `same`; *compared* has the ids of pairs already compared, which ends the recursion in cycles."""
    if left is right or type(left) is not type(right):
        return left is right
    if type(left) in _ATOMS:
        return bool(left == right)
    pair = (id(left), id(right))
    if pair in compared:
        return True
    compared[pair] = (left, right)  # kept alive, so that no other object gets the id of a temporary part
    if _is_dict(left):
        return left.keys() == right.keys() and all(_same(value, right[key], compared) for key, value in left.items())
    if _is_list(left) or _is_tuple(left):
        return len(left) == len(right) and all(_same(a, b, compared) for a, b in zip(left, right, strict=True))
    if _is_compared_by_identity(left):  # two copies are never equal: compare what `deepcopy` copies
        parts = _parts(left)
        return parts is not None and _same(parts, _parts(right), compared)
    try:
        equal = bool(left == right)
    except Exception:  # noqa: BLE001 - an array's comparison is an array; what cannot be compared counts as changed
        return False
    # Attributes as well, because the equality of a class may consider only some of them, such as an id.
    return equal and _same(getattr(left, "__dict__", None), getattr(right, "__dict__", None), compared)


def _is_compared_by_identity(value: object) -> bool:
    compares: Any = type(value).__eq__
    return compares is object.__eq__


def _parts(value: Any) -> Any:
    """Return the parts of an object as `pickle` would reduce it; None if it cannot be reduced."""
    try:
        return value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - whatever its class raises
        return None


def is_items(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether *value* is a list or a tuple; type checkers see its items as Any."""
    return isinstance(value, (list, tuple))


# Only the exact types: a subclass may hold more than its items.


def _is_dict(value: Any) -> TypeGuard[dict[Any, Any]]:
    return type(value) is dict


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return type(value) is list


def _is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    return type(value) is tuple
