"""One field of a state: its type, reducer, markers and default, and how a value of it is checked and owned.

Reading the declaration of a field lives here; the whole state (all fields, the class) does not.
"""

from __future__ import annotations

import copy
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeGuard, final

from pydantic import BaseModel, PydanticUserError
from pydantic.errors import PydanticUndefinedAnnotation

from graphrt import reducers
from graphrt._plan import hints
from graphrt.commands import DELETE, UNSET, Replacement
from graphrt.errors import Problem

LAST, APPEND, CALL, ADD = range(4)
"""Kinds of fold: take the last value; add at the end (in place where that is safe); call the reducer; `+`."""


@final
class _Absent(Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent.ABSENT
"""The field has no value at all: a key that is not in a TypedDict."""


class NotPlainError(ValueError):
    """The value is a marker of an update (DELETE, Overwrite, UNSET) where a plain value was expected."""


def check_anything(value: Any) -> Any:
    """Take any value but a marker; a list, dict or set as a copy, so that nothing is aliased."""
    kind = value.__class__
    if kind in _COPIED:
        return kind(value)
    if kind is Replacement or value is DELETE or value is UNSET:
        raise NotPlainError(value)
    return value


_COPIED: Final = frozenset({list, dict, set})


def own(value: Any) -> Any:
    """A copy of *value* that shares no container with it.

    Lists, dicts, sets and tuples are copied at every depth, models and dataclass instances deeply. Anything else, and
    whatever cannot be copied (a lock, a client), is kept by reference.
    """
    kind: Any = value.__class__
    if kind in _SCALARS:
        return value
    if kind is list:
        return [own(item) for item in value]
    if kind is dict:
        return {key: own(item) for key, item in value.items()}
    if kind is tuple:
        return tuple([own(item) for item in value])
    if kind is set:
        return set(value)
    if issubclass(kind, (BaseModel, list, dict, set, bytearray)) or hasattr(kind, "__dataclass_fields__"):
        try:
            return copy.deepcopy(value)
        except Exception:  # noqa: BLE001 - __deepcopy__ and __reduce_ex__ are user code: any error means no copy
            return value
    return value


_UNBOXED: Final = (int, float, str, bytes, type(None), Enum)
_SCALARS: Final = frozenset({int, str, float, bool, type(None), bytes, frozenset})


@final
class Field:
    """One field of the state, as the plan needs it."""

    __slots__ = (
        "aggregates",
        "annotation",
        "boxed",
        "check",
        "check_whole",
        "ephemeral",
        "exact",
        "has_default",
        "identity",
        "kind",
        "make_default",
        "name",
        "reduce",
        "reducer_name",
        "required",
        "untracked",
    )

    def __init__(self, name: str, annotation: Any) -> None:
        self.name = name
        self.annotation = annotation
        self.check: Callable[[Any], Any] = check_anything
        """Validates one value of an update; raises ValueError (pydantic's ValidationError is one)."""
        self.check_whole: Callable[[Any], Any] = check_anything
        """Validates a whole value of the field: input, and what stands in Overwrite()."""
        self.reduce: Callable[[Any, Any], Any] = reducers.overwrite
        self.kind = LAST
        self.aggregates = False
        """Whether several tasks of one superstep may write it."""
        self.identity: Callable[[], Any] | None = None
        """Makes the value that the reducer starts from where there is none."""
        self.make_default: Callable[[], Any] | None = None
        self.has_default = False
        self.required = True
        """Whether the state class wants it in an input (a TypedDict key may be NotRequired)."""
        self.ephemeral = False
        self.untracked = False
        self.reducer_name = "overwrite"
        self.exact: Any = None
        """A class whose instances pass `check` unchanged, so that it need not be called; None if there is none."""
        self.boxed = True
        """Whether a value may be a list, dict or set."""

    def settle(self, update_hint: Any) -> None:
        """Derive the fast path's shortcuts, once the update's type of the field is known."""
        self.exact = update_hint if update_hint in (int, bool) and self.check is not check_anything else None
        scalar = all(isinstance(m, type) and issubclass(m, _UNBOXED) for m in hints.members(hints.bare(self.annotation)))
        self.boxed = not (scalar and self.kind in (LAST, ADD))

    def reset(self) -> Any:
        """What an ephemeral field goes back to: its default, else what its reducer starts from, else ABSENT."""
        if self.make_default is None and self.identity is not None:
            return self.identity()
        return self.default()

    def default(self) -> Any:
        """A fresh default, or ABSENT."""
        return self.make_default() if self.make_default is not None else ABSENT


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether *value* is a mapping; unlike isinstance, for type checkers too one of anything to anything."""
    return isinstance(value, Mapping)


def describe(annotation: Any) -> str:
    """The annotation as people write it."""
    bare = hints.bare(annotation)
    if isinstance(bare, type) and typing.get_origin(bare) is None:
        return bare.__name__
    return str(bare).replace("typing.", "").replace("typing_extensions.", "")


def read_marks(field: Field, metadata: Iterable[Any], problems: list[Problem]) -> None:
    """Set reducer and markers of *field* from what stands beside its type."""
    found: list[Any] = []
    for mark in metadata:
        if isinstance(mark, reducers.ReducedBy):
            found.append(mark.reducer)
            for marker in mark.markers:
                _set_marker(field, marker)
        elif isinstance(mark, reducers.Marker):
            _set_marker(field, mark)
        elif _is_reducer(mark):
            found.append(mark)
    if len(found) > 1:
        problems.append(
            Problem(
                code="bad-reducer",
                message=f"Field {field.name!r} has {len(found)} reducers: {', '.join(map(reducer_label, found))}.",
                hint="Keep one reducer in its Annotated[...].",
            )
        )
    if found:
        _set_reducer(field, found[0], problems)


def _set_marker(field: Field, marker: reducers.Marker) -> None:
    if marker is reducers.ephemeral:
        field.ephemeral = True
    else:
        field.untracked = True


def _is_reducer(mark: Any) -> bool:
    return callable(mark) and not isinstance(mark, type) and not hasattr(mark, "__get_pydantic_core_schema__")


def reducer_label(fn: Any) -> str:
    """The reducer's name as it stands in fingerprints and messages."""
    if getattr(fn, "__module__", None) == reducers.__name__:
        return str(fn.__name__)
    return str(getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__qualname__)


def _set_reducer(field: Field, fn: Any, problems: list[Problem]) -> None:
    field.reduce = fn
    field.reducer_name = reducer_label(fn)
    if fn is reducers.overwrite:
        return
    field.aggregates = True
    field.kind = APPEND if fn is reducers.append else ADD if fn is reducers.add else CALL
    if fn in reducers.AGGREGATING_IDENTITY:
        base = typing.get_origin(hints.bare(field.annotation)) or hints.bare(field.annotation)
        start = reducers.AGGREGATING_IDENTITY[fn]
        if isinstance(base, type) and base.__module__ in ("builtins", "decimal", "datetime", "fractions"):
            field.identity = base
        elif start is not None:
            field.identity = start
        return
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        inspect.Signature(parameters).bind(None, None)
    except TypeError:
        problems.append(
            Problem(
                code="bad-reducer",
                message=f"Reducer {field.reducer_name!r} of field {field.name!r} cannot be called as "
                f"reducer(current, incoming): it takes {inspect.Signature(parameters)}.",
                hint="Give it exactly two positional parameters, or write a small function around it.",
            )
        )


def incoming_hint(fn: Any) -> Any:
    """What a custom reducer declares for its second parameter; UNRESOLVED if it says nothing."""
    if getattr(fn, "__module__", None) == reducers.__name__:
        return hints.UNRESOLVED
    try:
        parameters = [p for p in inspect.signature(fn).parameters.values() if p.kind in (0, 1)]
        hint = typing.get_type_hints(fn, include_extras=True).get(parameters[1].name, hints.UNRESOLVED)
    except (TypeError, ValueError, NameError, IndexError, AttributeError):
        return hints.UNRESOLVED
    return hints.UNRESOLVED if _has_type_variable(hint) else hint


def _has_type_variable(hint: Any) -> bool:
    return isinstance(hint, typing.TypeVar) or any(_has_type_variable(arg) for arg in typing.get_args(hint))


def make_check(hint: Any, *, strict: bool, name: str, problems: list[Problem]) -> Callable[[Any], Any]:
    """The check for *hint*; a hint that pydantic cannot check is a problem and then takes anything."""
    try:
        return hints.checker(hint, strict=strict) or check_anything
    except (PydanticUserError, PydanticUndefinedAnnotation, NameError, TypeError) as error:
        problems.append(
            Problem(
                code="bad-state",
                message=f"The type of field {name!r}, {describe(hint)}, cannot be checked: {error}".split("\n")[0],
                hint="Use a type that pydantic knows, or Any.",
            )
        )
        return check_anything
