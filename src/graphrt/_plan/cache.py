"""The result cache of one node: bounded, keyed by the node's inputs, kept by the compiled graph.

Only plain results are kept, as copies. A node says with `cache=` that its result follows from its inputs alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, final

from pydantic import BaseModel

from graphrt._plan.fields import is_mapping, own
from graphrt._plan.state import EXTRA
from graphrt.errors import UpdateError

if TYPE_CHECKING:
    from graphrt._plan.tables import NodePlan

DEFAULT_SIZE = 256
"""Results that a cache keeps if `cache=True`."""


@final
class NodeCache:
    """Results by key, the least recently used dropped first."""

    __slots__ = ("_key", "_results", "_size")

    def __init__(self, size: int, key: Callable[..., Hashable] | None) -> None:
        self._size = size
        self._key = key
        self._results: OrderedDict[Hashable, Any] = OrderedDict()

    def key(self, node: NodePlan, task: Any) -> Hashable:
        """The key of a task's inputs: the user's `key=`, or a digest of the state and the argument.

        Raises:
            UpdateError: The inputs have no canonical form, and the node has no `key=`.
        """
        if self._key is not None:
            key = self._key(task.state)
            return (key, canonical(task.arg)) if task.arg is not None else key
        values: Mapping[str, Any] = task.engine.values
        try:
            return canonical([{n: v for n, v in values.items() if n != EXTRA}, task.arg])
        except TypeError as error:
            raise UpdateError(
                f"The inputs of cached node {node.name!r} have no canonical form: {error}",
                code="cache-key",
                where=task.engine.where(task),
                fix="Give the node key=lambda state: ..., with what its result follows from.",
                node=node.name,
                boundary=True,
            ) from error

    def get(self, key: Hashable) -> tuple[bool, Any]:
        """(True, a copy of the result) if it is known, else (False, None)."""
        try:
            reply = self._results[key]
            self._results.move_to_end(key)
        except KeyError:
            return False, None
        return True, own(reply)

    def put(self, key: Hashable, reply: Any) -> None:
        """Keep a copy of *reply*, if it is a plain update or None."""
        if reply is not None and not isinstance(reply, Mapping):
            return
        self._results[key] = own(reply)
        while len(self._results) > self._size:
            try:
                self._results.popitem(last=False)
            except KeyError:  # another worker thread was faster
                return


_SEQUENCES: Any = (list, tuple)
_SETS: Any = (set, frozenset)


def canonical(value: Any) -> Hashable:
    """A hashable form of *value* that is equal for equal values of the same types only.

    Raises:
        TypeError: It holds an object that is compared by identity, or not hashable.
    """
    kind: Any = value.__class__
    if value is None:
        return None
    if is_mapping(value):
        return kind, frozenset((canonical(k), canonical(v)) for k, v in value.items())
    if isinstance(value, _SEQUENCES):
        return kind, tuple(canonical(item) for item in value)
    if isinstance(value, _SETS):
        return kind, frozenset(canonical(item) for item in value)
    if isinstance(value, BaseModel):
        return kind, canonical(dict(value.__dict__))
    if is_dataclass(kind):
        return kind, tuple(canonical(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, float):
        return kind, repr(value)  # 0.0 and -0.0 differ, NaN equals itself
    if kind.__hash__ in (None, object.__hash__):
        raise TypeError(f"a {kind.__name__} is compared by identity")
    return kind, value
