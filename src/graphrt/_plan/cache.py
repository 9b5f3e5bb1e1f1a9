"""Result cache of one node (`cache=`): bounded, keyed by the node's inputs, held by the compiled graph.

Only mappings, lists of mappings and None are cached, as copies; a Command or an Interrupt is not. With `cache=` the
author of a node declares that its result depends only on its inputs.

The driver calls `get` before it calls a node with a cache, and passes the node's result to `put`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, final

from pydantic import BaseModel

from graphrt._arguments import is_mapping
from graphrt._plan.fields import own
from graphrt.errors._codes.nodes import CACHE_KEY

DEFAULT_SIZE = 256
"""Number of results that a cache keeps under `cache=True`."""


@final
class NodeCache:
    """Results by key, at most *size* of them; the least recently used is dropped first.

    All runs of a compiled graph share it, so worker threads may use it at the same time. It has no lock: each operation
    on the OrderedDict is atomic, and the code handles changes by other threads between two operations.

    Args:
        size: Number of results to keep, 1 or more.
        key: The user's `key=`, a function of the state; None if the node has none.
    """

    __slots__ = ("_key", "_results", "_size")

    def __init__(self, size: int, key: Callable[..., Hashable] | None) -> None:
        self._size = size
        self._key = key
        self._results: OrderedDict[Hashable, Any] = OrderedDict()

    def key(self, node: str, task: Any) -> Hashable:
        """Return the key of the inputs of a task: the state, or what the user's `key=` returns for it, and `ctx.arg`.

        Args:
            node: Name of the node, for the error.
            task: The engine's Task, one activation of the node. `state` is the state as the node gets it, `arg` the
                argument of the Send that started the task (None without one), `engine.values` the state as a dict.

        Raises:
            UpdateError: The inputs have no canonical form, or the result of `key=` is not hashable (`cache-key`). An
                error raised by `key=` itself is propagated unchanged.
        """
        inputs = self._key(task.state) if self._key is not None else task.engine.values
        try:
            if self._key is None:
                return canonical([inputs, task.arg])
            hash(inputs)
            # Without an argument, the result of `key=` is the whole key.
            return (inputs, canonical(task.arg)) if task.arg is not None else inputs
        except (TypeError, RecursionError) as error:  # RecursionError: a value contains itself
            raise CACHE_KEY(node=node, error=error, where=task.engine.where(task)) from error

    def get(self, key: Hashable) -> tuple[bool, Any]:
        """Return (True, a copy of the result) if *key* is cached, else (False, None)."""
        try:
            reply = self._results[key]
            self._results.move_to_end(key)
        except KeyError:  # not cached, or dropped by another worker thread between the two lines
            return False, None
        return True, own(reply)  # a copy, since the result may become part of a state, which changes (R15)

    def put(self, key: Hashable, reply: Any) -> None:
        """Cache a copy of *reply* if it is a mapping, a list of these, or None; ignore any other reply."""
        updates: Any = reply if issubclass(type(reply), (list, tuple)) else (reply,)
        if reply is not None and not all(isinstance(update, Mapping) for update in updates):
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
    """Return a hashable form of *value*. Two forms are equal only if the values are equal and have the same types.

    Raises:
        TypeError: *value* contains an object that is compared by identity, or that is not hashable.
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
    if isinstance(value, BaseModel):  # by its fields, since most models are not hashable
        return kind, canonical([value.__dict__, value.__pydantic_extra__])
    if is_dataclass(kind):
        return kind, tuple(canonical(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, float):
        return kind, repr(value)  # repr() distinguishes -0.0 from 0.0, and makes NaN equal to itself
    # An object compared by identity stays equal to itself when it changes. None: it is not hashable.
    if kind.__hash__ in (None, object.__hash__):
        raise TypeError(f"a {kind.__name__} is compared by identity")
    return kind, value
