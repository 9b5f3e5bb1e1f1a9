"""One field of a state: its type, reducer, markers and default, and how its updates fold.

This module reads the declaration of a single field; `state` reads the state class as a whole. The engine folds the
values: at the end of a superstep, the updates returned by nodes become the next state, field by field.

A field is declared as `Annotated[type, mark, ...]`, or by `reduced(...)` as its default. A *mark* is a reducer or a
marker. A *reducer* is a function `(current, incoming) -> new` that folds an update into the field; its *identity* is
the value from which it starts. The *markers* are `ephemeral`, `untracked` and `redacted`. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

import inspect
import typing
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Any, Final, final

import typing_extensions as te

from graphrt import reducers
from graphrt._arguments import is_async
from graphrt._plan import hints
from graphrt._plan.copying import own
from graphrt._plan.hints import describe
from graphrt._plan.value_checks import Check, Checked, check_anything
from graphrt.errors import Problem
from graphrt.errors._codes.findings import BAD_REDUCER, INNER_REDUCER, QUOTED_REDUCER, SEVERAL_REDUCERS

__all__ = [
    "ABSENT",
    "ADD",
    "APPEND",
    "CALL",
    "LAST",
    "Field",
    "describe",
    "own",
    "read_marks",
    "reducer_label",
]

LAST, APPEND, CALL, ADD = range(4)
"""Kinds of fold: LAST takes the last value, APPEND adds items at the end, in place where R15 allows,
CALL calls the reducer, ADD uses `+`."""


@final
class _Absent(Enum):
    """The type of ABSENT, an enum with one member, so that type checkers know it after an `is`."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent.ABSENT
"""The field has no value at all: a key that is missing in a TypedDict."""

_UNBOXED: Final = (int, float, str, bytes, type(None), Enum)
"""Types whose values cannot change in place."""


@final
class Field:
    """Schema of one state field: how it is declared, validated, folded and reset.

    It starts with the attributes of a field without any mark. `read_marks`, `settle` and the code that reads the state
    class then set the differences.
    """

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
        "nullable",
        "redacted",
        "reduce",
        "reducer_name",
        "repeatable",
        "required",
        "untracked",
        "update_hint",
        "varies",
    )

    def __init__(self, name: str, annotation: Any) -> None:
        self.name: str = name
        self.annotation: Any = annotation
        """The declared type, with the Annotated around it."""
        self.check: Check = check_anything
        """Validates one value of an update and returns it; raises ValueError (pydantic's ValidationError is one)."""
        self.check_whole: Check = check_anything
        """Validates a complete value of the field: in an input, or inside `Overwrite()`, which skips the reducer.

        It differs from `check` if the reducer's second parameter or the graph's Update class declares another type.
        """
        self.repeatable: bool = True
        """False if `check_whole` may change or reject a value that pydantic validated before."""
        self.reduce: Callable[[Any, Any], Any] = reducers.overwrite
        """The reducer: `(current, incoming) -> new`."""
        self.kind: int = LAST
        """LAST, APPEND, CALL or ADD."""
        self.aggregates: bool = False
        """True if several tasks of one superstep may write the field (R6)."""
        self.identity: Callable[[], Any] | None = None
        """Returns the value from which the reducer starts; None if the reducer has no identity."""
        self.make_default: Callable[[], Any] | None = None
        """Returns a fresh default; None if the field has no value by default."""
        self.varies: bool = False
        """True if the default may differ at each call, as that of a function does: then the journal has to keep it."""
        self.has_default: bool = False
        """True if a node may write DELETE, which resets the field: it has a default, or may be absent."""
        self.required: bool = True
        """True if an input must have the field (a TypedDict key may be NotRequired)."""
        self.ephemeral: bool = False
        """True if the value lives for one superstep and is then reset (R16)."""
        self.untracked: bool = False
        """True if the value is never stored (R16)."""
        self.redacted: bool = False
        """True if the texts of the value are replaced when it enters the thread."""
        self.nullable: bool = _takes_none(annotation)
        """False if the type definitely excludes None, so a reducer must not return it (R7)."""
        self.reducer_name: str = "overwrite"
        self.update_hint: Any = annotation
        """The type that `check` checks against, for messages."""
        self.exact: Any = None
        """Class whose instances pass `check` unchanged, so that the call can be skipped; None if no class does."""
        self.boxed: bool = True
        """False if no value can be a list, dict or set, so that the engine need not track its length (R15)."""

    def settle(self, checked: Checked, update_hint: Any) -> None:
        """Set the check of updates, its type, and the derived attributes that save the engine work: `exact` and `boxed`.

        Args:
            checked: The check of one value of an update.
            update_hint: The type that it checks against.
        """
        self.check = checked.check
        self.update_hint = update_hint
        self.exact = checked.exact
        # A called reducer may return a container even if its types say otherwise, and APPEND creates a list.
        flat = _is_scalar(self.annotation) and _is_scalar(update_hint)
        self.boxed = not (flat and self.kind in (LAST, ADD))

    def reset(self) -> Any:
        """Return the value an ephemeral field is reset to: its default, else its reducer's identity, else ABSENT."""
        factory = self.make_default or self.identity
        return factory() if factory is not None else ABSENT

    def default(self) -> Any:
        """Return a fresh default, or ABSENT."""
        return self.make_default() if self.make_default is not None else ABSENT

    def call(self, factory: Callable[[], Any]) -> None:
        """Make *factory*, a `default_factory` of the user's, return the default. That of a class does not vary."""
        self.has_default, self.make_default = True, factory
        self.varies = not isinstance(factory, type)


# isinstance() alone would leave type checkers with a mapping of unknown keys and values.
_NAMES: Final = frozenset(reducers.__all__) - reducers.NEITHER
"""Names that, as a string in `Annotated`, are probably meant as a reducer or marker (R7)."""


def _takes_none(hint: Any) -> bool:
    """Return True if *hint* may allow None. A class is tested; any other annotation is assumed to allow None."""
    for member in hints.members(hint):
        kind: Any = typing.get_origin(member) or member
        if kind is typing.Literal:
            if None in typing.get_args(member):
                return True
            continue
        try:
            if not isinstance(kind, type) or isinstance(None, kind):
                return True
        except TypeError:  # a protocol that isinstance() does not support
            return True
    return False


def _is_scalar(hint: Any) -> bool:
    """Return True if every member of *hint*, a type or a union, is one of `_UNBOXED`."""
    return all(isinstance(member, type) and issubclass(member, _UNBOXED) for member in hints.members(hint))


def read_marks(field: Field, metadata: Iterable[Any], problems: list[Problem]) -> None:
    """Set the reducer and markers of *field* from its marks; add misuse to *problems*.

    Args:
        field: The field, with its type.
        metadata: The metadata of its Annotated, and the results of `reduced()`. Anything that is not a mark is skipped:
            it may be meant for pydantic.
        problems: Receives the findings of `compile()`.
    """
    found_reducers: list[Any] = []
    for mark in metadata:
        if isinstance(mark, reducers.ReducedBy):
            found_reducers.append(mark.reducer)  # made by `reduced(...)`
            for marker in mark.markers:
                _set_marker(field, marker)
        elif isinstance(mark, reducers.Marker):
            _set_marker(field, mark)
        elif _is_reducer(mark):
            found_reducers.append(mark)
        elif isinstance(mark, str) and mark in _NAMES:  # "append" instead of append, which would have no effect
            problems.append(QUOTED_REDUCER(field=field.name, mark=mark))
    # In `list[Annotated[int, append]]` the reducer annotates the item, where it has no effect.
    problems += [
        INNER_REDUCER(mark=reducer_label(mark), field=field.name)
        for mark in hints.metadata_inside(field.annotation)
        if reducers.is_own(mark)
    ]
    if len(found_reducers) > 1:
        problems.append(
            SEVERAL_REDUCERS(
                field=field.name, number=len(found_reducers), reducers=", ".join(map(reducer_label, found_reducers))
            )
        )
    if found_reducers:
        _set_reducer(field, found_reducers[0], problems)
    # An int field named `token_budget` decreases as model calls use tokens.
    elif field.name == reducers.TOKEN_BUDGET and {*hints.members(field.annotation)} <= {int, type(None)}:
        _set_reducer(field, reducers.spend, problems)


def _set_marker(field: Field, marker: reducers.Marker) -> None:
    """Record the marker `ephemeral`, `redacted` or `untracked`; there are no others."""
    if marker is reducers.ephemeral:
        field.ephemeral = True
    elif marker is reducers.redacted:
        field.redacted = True
    else:
        field.untracked = True


def _is_reducer(mark: Any) -> bool:
    """Return True if *mark* is callable and neither a class nor a pydantic constraint."""
    return callable(mark) and not isinstance(mark, type) and not hasattr(mark, "__get_pydantic_core_schema__")


def reducer_label(fn: Any) -> str:
    """Return the name of a reducer or marker for fingerprints and messages."""
    if isinstance(fn, reducers.Marker):
        return fn.name
    inner = getattr(fn, "func", None)  # functools.partial
    if inner is not None and not hasattr(fn, "__name__"):
        return f"partial({reducer_label(inner)})"
    name, path = getattr(fn, "__name__", None), getattr(fn, "__qualname__", None)
    if path and name and path.rpartition(".")[2] != name:
        # The user set `__name__`, for instance on a closure, whose path would be the same for all arguments.
        return str(name)
    return str(path or name or type(fn).__qualname__)


def _set_reducer(field: Field, fn: Any, problems: list[Problem]) -> None:
    """Make *fn* the field's reducer; add to *problems* if it cannot be. A field without a reducer gets `overwrite`."""
    field.reduce = fn
    field.reducer_name = reducer_label(fn)
    if fn is reducers.overwrite:
        return
    field.aggregates = True
    field.kind = APPEND if fn is reducers.append else ADD if fn is reducers.add else CALL
    field.identity = _identity(fn, field.annotation)
    misfit = _misfit(fn, field) or uncallable(fn)
    if misfit is not None:
        message, hint = misfit
        problems.append(
            BAD_REDUCER(reducer=field.reducer_name, owner=f"field {field.name!r}", problem=message, fix=hint)
        )


def _identity(fn: Any, annotation: Any) -> Callable[[], Any] | None:
    """Return the factory of reducer *fn*'s identity: the field's built-in type if it has one, else the reducer's own.

    Returns:
        A function without arguments, such as `list`; for a user's reducer, its attribute `identity`. None if there is
        none for this field.
    """
    built_in = reducers.known(fn)  # the properties of a built-in reducer; None for a user's reducer
    if built_in is None:
        declared: Any = getattr(fn, "identity", None)
        return declared if callable(declared) else None
    start: Any = built_in.identity
    bare = hints.bare(annotation)
    base: Any = typing.get_origin(bare) or bare
    if isinstance(base, type) and base.__module__ in ("builtins", "decimal", "datetime", "fractions", "collections"):
        try:
            base()
        except TypeError:  # a datetime has no zero: use the reducer's own identity, which may be None
            base = start
        start = base
    factory: Callable[[], Any] | None = start
    return factory


def _misfit(fn: Any, field: Field) -> tuple[str, str] | None:
    """Return (why a built-in reducer cannot fold the field's type, the fix), or None if it can or might."""
    built_in = reducers.known(fn)
    if built_in is None or not built_in.fits:
        return None
    for member in hints.members(field.annotation):
        if not _fits(typing.get_origin(member) or member, built_in):
            return (
                f"cannot fold {describe(field.annotation)}: it wants {built_in.wanted}",
                f"Declare {built_in.wanted}, or use another reducer.",
            )
    return None


def _fits(kind: Any, built_in: reducers.BuiltIn) -> bool:
    """Return whether a built-in reducer can or might fold a value of *kind*, a type or another annotation."""
    if te.is_typeddict(kind):
        kind = dict
    if not isinstance(kind, type) or kind is type(None) or getattr(kind, "_is_protocol", False):
        return True
    if built_in.exact and issubclass(kind, Collection):  # a list is a Sequence as well
        return any(issubclass(fit, kind) for fit in built_in.fits)
    return kind not in _KNOWN or issubclass(kind, built_in.fits)


_KNOWN: Final = frozenset(
    {int, float, complex, bool, str, bytes, list, tuple, set, frozenset, dict, deque, OrderedDict}
)
"""Types that `_fits` checks for every reducer; any other class may define its own `+` or iteration."""


def uncallable(fn: Any) -> tuple[str, str] | None:
    """Return (why *fn* cannot be called as reducer(current, incoming), the fix), or None."""
    plain = "Make it a plain function that returns the new value; slow work belongs into a node."
    call = getattr(fn.__class__, "__call__", None)  # noqa: B004 - the method itself is wanted
    if is_async(fn):
        return "is async", plain
    if inspect.isgeneratorfunction(fn) or inspect.isgeneratorfunction(call):
        return "is a generator", plain
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a builtin without a signature
        return None
    try:
        signature.bind(None, None)
    except TypeError:
        return (
            f"cannot be called as reducer(current, incoming): it takes {_parameters(signature)}",
            "Give it exactly two positional parameters, or write a small function around it.",
        )
    return None


def _parameters(signature: inspect.Signature) -> str:
    """Return the parameters as text, for instance `(left, right)`."""
    return str(signature.replace(return_annotation=inspect.Signature.empty))


def incoming_hint(fn: Any, localns: Mapping[str, Any] | None) -> Any:
    """Return the annotation of a custom reducer's second parameter, against which updates are checked (R7).

    Args:
        fn: A reducer.
        localns: Local names around the graph's builder, for annotations given as strings.

    Returns:
        The annotation; UNRESOLVED for a built-in reducer, and if it is missing, generic or cannot be resolved.
    """
    if reducers.is_own(fn):
        return hints.UNRESOLVED
    hint = hints.parameter_hint(fn, 1, localns)
    if hint is hints.UNRESOLVED or isinstance(hint, (str, typing.ForwardRef)) or hints.has_type_variable(hint):
        return hints.UNRESOLVED
    return hint
