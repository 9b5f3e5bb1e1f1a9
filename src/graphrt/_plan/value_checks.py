"""What validates a value against a hint: pydantic, on all Pythons, and closed to the markers of an update.

Which hint a field's values are checked against is decided by `state` and `updates`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

import annotated_types
import typing_extensions as te
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation

from graphrt import reducers
from graphrt._plan import hints
from graphrt.commands import DELETE, UNSET, Replacement
from graphrt.errors import Problem

Check = Callable[[Any], Any]
"""Takes a value, returns the validated one; raises ValueError (pydantic's ValidationError is one)."""


class Checked(NamedTuple):
    """How the values of a hint are checked."""

    check: Check
    exact: Any = None
    """A class whose instances pass unchanged, so that `check` need not be called; None if there is none."""


class NotPlainError(ValueError):
    """The value is a marker of an update (DELETE, Overwrite, UNSET) where a plain value was expected."""

    def __init__(self, value: Any) -> None:
        super().__init__(f"{value!r} is a marker of an update, and no value")


def is_marker(value: Any) -> bool:
    """Whether *value* is DELETE, UNSET or an Overwrite."""
    return value is DELETE or value is UNSET or value.__class__ is Replacement


def check_anything(value: Any) -> Any:
    """Take any value but a marker; a list, dict or set as a copy, so that nothing is aliased."""
    kind = value.__class__
    if kind in _COPIED:
        return kind(value)
    if kind is Replacement or value is DELETE or value is UNSET:
        raise NotPlainError(value)
    return value


_COPIED: Final = frozenset({list, dict, set})

_KEPT: Final = frozenset(
    {"strict", "str_to_lower", "str_to_upper", "str_strip_whitespace", "str_min_length", "str_max_length"}
    | {"use_enum_values", "allow_inf_nan", "coerce_numbers_to_str", "regex_engine", "revalidate_instances"}
    | {"val_json_bytes", "hide_input_in_errors", "ser_json_bytes"}
)
"""What of a state's pydantic configuration says how one value is checked."""


def settings(cls: Any) -> dict[str, Any]:
    """The part of the pydantic configuration of *cls* that holds for each of its fields."""
    config: Mapping[str, Any] = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    return {name: value for name, value in config.items() if name in _KEPT}


class Checks:
    """Makes the checks of one class's fields; what pydantic cannot check becomes a problem."""

    def __init__(self, cls: Any, localns: Mapping[str, Any] | None, problems: list[Problem], code: str) -> None:
        self.config = settings(cls)
        self.localns = localns
        self.problems = problems
        self.code = code

    def of(self, hint: Any, name: str) -> Checked:
        """The check of *hint*, which stands for the field *name*; anything passes if it cannot be checked."""
        try:
            return checker(hint, self.config, self.localns)
        except (PydanticUserError, PydanticUndefinedAnnotation, NameError, TypeError) as error:
            self.problems.append(
                Problem(
                    code=self.code,
                    message=f"The type of field {name!r}, {hints.describe(hint)}, cannot be checked: {error}".split(
                        "\n", maxsplit=1
                    )[0],
                    hint="Use a type that pydantic knows, or Any.",
                )
            )
            return Checked(check_anything)


def checker(hint: Any, config: Mapping[str, Any] | None = None, localns: Mapping[str, Any] | None = None) -> Checked:
    """What validates a value against *hint* and returns the validated value.

    Raises:
        PydanticUserError: pydantic cannot make a schema for *hint*.
    """
    base = hints.bare(hint)
    unconstrained = is_unconstrained(hint)
    if base is Any and unconstrained:
        return Checked(check_anything)
    options = {"arbitrary_types_allowed": True, **(config or {})}
    shaped = portable(hint, localns)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(shaped, config=ConfigDict(**options))  # type: ignore[typeddict-item]  # filtered above
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        adapter = TypeAdapter(shaped)
    check: Check = adapter.validator.validate_python
    if not _refuses_markers(hint):
        return Checked(_guarded(check))
    return Checked(check, base if unconstrained and _passes_unchanged(base, options) else None)


def _passes_unchanged(base: Any, options: Mapping[str, Any]) -> bool:
    """Whether pydantic accepts every instance of exactly *base* and returns it unchanged."""
    if base is str:
        return not any(options.get(name) for name in options if name.startswith("str_"))
    return base is int or base is bool or (base is float and options.get("allow_inf_nan", True))


def _guarded(check: Check) -> Check:
    def guarded(value: Any) -> Any:
        if value is DELETE or value is UNSET or value.__class__ is Replacement:
            raise NotPlainError(value)
        return check(value)

    return guarded


def is_unconstrained(hint: Any) -> bool:
    """Whether only reducers and markers of ours stand in the Annotated around *hint*."""
    return all(is_inert(mark) for mark in hints.metadata_of(hint))


def is_inert(mark: Any) -> bool:
    """Whether pydantic makes nothing of *mark*: a reducer, a marker, a text."""
    if isinstance(mark, (reducers.Marker, reducers.ReducedBy, str)):
        return True
    return callable(mark) and not hasattr(mark, "__get_pydantic_core_schema__")


def _refuses_markers(hint: Any) -> bool:
    """Whether pydantic surely refuses DELETE, UNSET and Overwrite where *hint* stands."""
    marks = hints.metadata_of(hint)
    if not all(is_inert(mark) or isinstance(mark, annotated_types.BaseMetadata) for mark in marks):
        return False  # a validator before the type's own may take anything
    return all(hints.metadata_of(member) == () and _is_definite(member) for member in _parts(hints.bare(hint)))


def _parts(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _is_definite(member: Any) -> bool:
    kind: Any = typing.get_origin(member) or member
    if kind is Literal:
        return True
    return isinstance(kind, type) and _is_definite_class(kind)


def _is_definite_class(cls: Any) -> bool:
    if cls in _DEFINITE or issubclass(cls, Enum) or te.is_typeddict(cls):
        return True
    if issubclass(cls, BaseModel):
        made: Any = cls.__get_pydantic_core_schema__
        usual: Any = BaseModel.__get_pydantic_core_schema__
        lax = cls.__pydantic_root_model__ or cls.__pydantic_decorators__.model_validators
        return made.__func__ is usual.__func__ and not lax
    return not hasattr(cls, "__get_pydantic_core_schema__") and dataclasses.is_dataclass(cls)


_DEFINITE: Final = frozenset({int, str, float, bool, bytes, type(None), list, dict, set, tuple, frozenset})


# -- on all Pythons ----------------------------------------------------------------------------------------------


def portable(
    hint: Any, localns: Mapping[str, Any] | None = None, busy: frozenset[Any] = frozenset(), *, closed: bool = True
) -> Any:
    """*hint* with every TypedDict in it replaced by one that pydantic takes on all Pythons; *closed* refuses extras.

    pydantic refuses `typing.TypedDict` below Python 3.12, and drops the unknown keys of one silently.
    """
    base = typing.get_origin(hint) or hint
    if te.is_typeddict(base):
        if base in busy:
            return dict[str, Any]  # a recursive TypedDict: its inner levels are checked as mappings
        return _replaced(hint, base, localns, busy | {base}, closed=closed)
    return hints.mapped(hint, lambda arg: portable(arg, localns, busy, closed=closed))


def _replaced(hint: Any, base: Any, localns: Mapping[str, Any] | None, busy: frozenset[Any], *, closed: bool) -> Any:
    fields: dict[str, Any] = {}
    for name, value in hints.class_hints(hint, localns).items():
        inner = portable(hints.without_qualifiers(value), localns, busy, closed=closed)
        required = hints.is_required(value, otherwise=name in base.__required_keys__)
        fields[name] = inner if required else te.NotRequired[inner]
    make: Any = te.TypedDict  # called at run time, which no checker follows
    made = make(base.__name__, fields)
    config: Mapping[str, Any] = getattr(base, "__pydantic_config__", {})
    made.__pydantic_config__ = {"extra": "forbid", "arbitrary_types_allowed": True, **config} if closed else config
    made.__module__ = base.__module__
    made.__doc__ = base.__doc__
    return made
