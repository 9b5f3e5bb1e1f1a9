"""The reducer of a whole state: one function `(state, update) -> state` in place of per-field reducers.

A graph has one if its builder was given `reducer=`. Its updates may have any type: a number, an enum, a union of
models. Inside the engine and the journal an update is a dict of values by field. Such a graph's update is a dict with
the single key `WHOLE`, so that it is staged, stored, redacted and folded like any other. `UpdateSchema` wraps a node's
result and unwraps it for display (`shown`). `StateReducer.changes` is the only place where the function is called.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, final

from graphrt._arguments import is_mapping
from graphrt._plan.fields import ABSENT, reducer_label
from graphrt._plan.state import StateSchema, Values
from graphrt.errors import a_type, names

WHOLE: Final = "*"
"""Key of an update of the whole state. No field of a class can have this name."""
_MUTABLE: Final[frozenset[Any]] = frozenset({list, dict, set})


class StateChangedError(Exception):
    """The reducer changed *fields* of the given state in place. This error never leaves the engine."""

    def __init__(self, fields: list[str]) -> None:
        super().__init__(names(fields))
        self.fields = fields


class NotAStateError(Exception):
    """The reducer did not return a state; the text says why. This error never leaves the engine."""


@final
class StateReducer:
    """Folds updates of any type into a state.

    Args:
        fn: The user's pure function `(state, update) -> state`.
        state: Schema of the state.
    """

    __slots__ = ("fn", "name", "state")

    def __init__(self, fn: Callable[[Any, Any], Any], state: StateSchema) -> None:
        self.fn: Final = fn
        self.name: Final = reducer_label(fn)
        self.state: Final = state

    def changes(self, values: Values, update: Any, *, past: bool = False) -> Values:
        """Return the changes of *update*: new values by field, and ABSENT for a TypedDict key that is gone.

        A value is new if it is a different object. Values are not compared, since that may take time proportional to
        their size. The cost is that of the user's function plus one check per field.

        Args:
            values: The values before.
            update: A checked update.
            past: Whether the result was already committed. Then a field that is None is not an error.

        Raises:
            StateChangedError: The function changed the length of a list, dict or set of the state (R15).
            NotAStateError: It returned no state, or None for a field that cannot be None (R7).
            Exception: It raised.
        """
        sizes = [(name, value, len(value)) for name, value in values.items() if value.__class__ in _MUTABLE]
        new_state = self.fn(self.state.view(values), update)  # a separate view: it may assign to it
        changed = [name for name, value, size in sizes if len(value) != size]
        if changed:
            raise StateChangedError(changed)
        new_values = self._values(new_state)
        result: Values = {}
        for name, field in self.state.fields.items():
            value = new_values.get(name, ABSENT)
            if value is values.get(name, ABSENT):
                continue
            if value is ABSENT and field.required:
                raise NotAStateError(f"returned a state without the field {name!r}")
            if value is None and not (field.nullable or past):
                raise NotAStateError(f"returned a state whose field {name!r} is None, which it cannot be")
            result[name] = value
        return result

    def _values(self, new_state: Any) -> Mapping[str, Any]:
        """Return the values of the state *new_state* by field.

        Raises:
            NotAStateError: It is not a state.
        """
        state = self.state
        if state.kind == "typeddict":
            if not is_mapping(new_state):
                raise NotAStateError(f"returned {a_type(new_state)}, not a state, which is a mapping")
            self._refuse_unknown(new_state)
            return new_state
        if not isinstance(new_state, state.cls):
            raise NotAStateError(f"returned {a_type(new_state)}, not an instance of {state.cls.__name__}")
        if type(new_state) is not state.cls:
            self._refuse_unknown(state.values_of(new_state))
        attributes: Mapping[str, Any] | None = getattr(new_state, "__dict__", None)
        if attributes is not None and attributes.keys() >= state.fields.keys():
            return attributes
        return {name: getattr(new_state, name) for name in state.fields if hasattr(new_state, name)}  # slots

    def _refuse_unknown(self, new_state: Mapping[str, Any]) -> None:
        """Reject a state with keys, or fields of a subclass, that the state class does not have."""
        unknown = [name for name in new_state if name not in self.state.fields]
        if unknown:
            raise NotAStateError(f"returned a state with {names(unknown)}, which it does not declare")
