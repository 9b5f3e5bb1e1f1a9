"""Validation of one value against a type hint, with pydantic.

It extends pydantic: `typing.TypedDict` works on every supported Python, and the markers of an update are rejected even
for types that accept anything. `state` and `updates` decide which hint a value is checked against.

The markers of an update are removed before a value is checked, so inside a value they are mistakes. They are not the
markers and reducers in an Annotated (`graphrt.reducers`), which define how a field is kept and folded and which
pydantic ignores. *localns* has the local names around the graph's builder, which annotations may refer to. For the
terms, see docs/glossary.md.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, NamedTuple, cast

import annotated_types
import typing_extensions as te
from pydantic import BaseModel, PydanticUserError
from pydantic.errors import PydanticUndefinedAnnotation

from graphrt import reducers
from graphrt._plan import hints
from graphrt._type_adapters import adapter_of
from graphrt.commands import DELETE, UNSET, Replacement
from graphrt.errors import Problem
from graphrt.errors._codes.findings import UNCHECKABLE_TYPE

Check = Callable[[Any], Any]
"""Takes a value and returns the validated one; raises ValueError (pydantic's ValidationError is one)."""


class Checked(NamedTuple):
    """The check of a hint."""

    check: Check
    exact: Any = None
    """Class whose instances pass `check` unchanged, so that the call can be skipped; None if no class does."""
    repeatable: bool = True
    """False if a second check of a value may change or reject it, because the type runs functions or parses JSON."""


class NotPlainError(ValueError):
    """The value is a marker of an update (DELETE, Overwrite, UNSET) where a plain value was expected."""

    def __init__(self, value: Any) -> None:
        super().__init__(f"{value!r} is a marker of an update, and no value")


def is_marker(value: Any) -> bool:
    """Return True if *value* is DELETE, UNSET or an Overwrite."""
    return value is DELETE or value is UNSET or value.__class__ is Replacement


def check_anything(value: Any) -> Any:
    """Return any value that is not a marker; copy a list, dict or set, so that it is not aliased (R15).

    Raises:
        NotPlainError: *value* is a marker.
    """
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
"""Settings of a pydantic configuration that concern single values, not the model as a whole."""


def pydantic_config(cls: Any) -> Mapping[str, Any]:
    """Return the pydantic configuration of *cls*; empty if it has none."""
    return getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}


def settings(cls: Any) -> dict[str, Any]:
    """Return the settings in the pydantic configuration of *cls* that apply to its fields one by one."""
    return {name: value for name, value in pydantic_config(cls).items() if name in _KEPT}


class Checks:
    """Factory of the checks of one class's fields. A type that pydantic cannot check is added to *problems*.

    Args:
        cls: The class of the state or of the updates, whose pydantic settings apply.
        localns: Names for forward references.
        problems: Gets the findings of `compile()`.
    """

    def __init__(self, cls: Any, localns: Mapping[str, Any] | None, problems: list[Problem]) -> None:
        self.config = settings(cls)
        self.localns = localns
        self.problems = problems

    def of(self, hint: Any, name: str) -> Checked:
        """Return the check of field *name* with type *hint*; after a problem, one that accepts all but markers."""
        try:
            return checker(hint, self.config, self.localns)
        except (PydanticUserError, PydanticUndefinedAnnotation, NameError, TypeError) as error:
            problem = str(error).split("\n", maxsplit=1)[0]
            self.problems.append(UNCHECKABLE_TYPE(field=name, annotation=hints.describe(hint), problem=problem))
            return Checked(check_anything)


def checker(hint: Any, config: Mapping[str, Any] | None = None, localns: Mapping[str, Any] | None = None) -> Checked:
    """Return the check that validates a value against *hint*, in pydantic's lax mode unless *config* says strict (R7).

    Raises:
        PydanticUserError: pydantic cannot make a schema for *hint*.
        PydanticUndefinedAnnotation, NameError, TypeError: *hint* is not a type, or a name in it cannot be resolved.
    """
    base = hints.bare(hint)
    unconstrained = is_unconstrained(hint)
    if base is Any and unconstrained:
        return Checked(check_anything)
    # An arbitrary class is checked with isinstance(); pydantic would refuse it as the type of a field.
    options = {"arbitrary_types_allowed": True, **(config or {})}
    adapter = adapter_of(portable(hint, localns), options)
    check: Check = adapter.validator.validate_python
    if _has_aliases(adapter.core_schema):  # both names, as for an input that is validated whole
        check = partial(adapter.validator.validate_python, by_alias=True, by_name=True)
    repeatable = _is_repeatable(adapter.core_schema)
    if not _refuses_markers(hint):  # else the compiled validator does it, without a Python call around it
        return Checked(_guarded(check), repeatable=repeatable)
    # An exact class only for a type without constraints, since these could reject or change a value.
    return Checked(check, base if unconstrained and _passes_unchanged(base, options) else None, repeatable)


def _is_repeatable(schema: Any) -> bool:
    """Return True if *schema*, of pydantic-core or a part of one, accepts each value that it has validated, unchanged.

    That is not certain of a schema that calls functions, such as an AfterValidator, or parses JSON. Pydantic's internal
    functions, for instance for paths, accept what they return. Instances of models and dataclasses pass as they are.
    """
    if isinstance(schema, (list, tuple)):
        parts = cast("Sequence[Any]", schema)
        return all(map(_is_repeatable, parts))
    if not isinstance(schema, dict):
        return True
    node = cast("dict[str, Any]", schema)
    match node.get("type"):
        case "json":
            return False
        case "function-before" | "function-after" | "function-wrap" | "function-plain":
            function = node["function"]["function"]
            module = getattr(getattr(function, "func", function), "__module__", None)  # `func`: of a partial
            if not str(module).startswith("pydantic._internal."):
                return False
        case "model" | "dataclass" if not _revalidates(node.get("config")):
            return True
        case _:
            pass
    return all(_is_repeatable(part) for key, part in node.items() if key not in ("metadata", "serialization"))


def _has_aliases(schema: Any) -> bool:
    """Return True if *schema*, of pydantic-core or a part of one, has fields with aliases at any depth."""
    if isinstance(schema, (list, tuple)):
        return any(map(_has_aliases, cast("Sequence[Any]", schema)))
    if not isinstance(schema, dict):
        return False
    node = cast("dict[str, Any]", schema)
    return "validation_alias" in node or any(map(_has_aliases, node.values()))


def _revalidates(config: Mapping[str, Any] | None) -> bool:
    """Return True if a class with this pydantic *config* validates instances again."""
    return config is not None and config.get("revalidate_instances", "never") != "never"


def _passes_unchanged(base: Any, options: Mapping[str, Any]) -> bool:
    """Return True if pydantic accepts every instance of exactly *base* and returns it unchanged.

    Then the check can be skipped. *options* are pydantic's settings: some of them change strings, another rejects NaN.
    """
    if base is str:
        return not any(options.get(name) for name in options if name.startswith("str_"))
    return base is int or base is bool or (base is float and options.get("allow_inf_nan", True))


def _guarded(check: Check) -> Check:
    """Return *check* preceded by a test that rejects the markers of an update."""

    def guarded(value: Any) -> Any:
        if value is DELETE or value is UNSET or value.__class__ is Replacement:
            raise NotPlainError(value)
        return check(value)

    return guarded


def is_unconstrained(hint: Any) -> bool:
    """Return True if the Annotated around *hint* has only reducers, markers and strings, and no pydantic constraint."""
    return all(is_inert(mark) for mark in hints.metadata_of(hint))


def is_inert(mark: Any) -> bool:
    """Return True if pydantic ignores *mark* in an Annotated: a reducer, a marker or a text."""
    if isinstance(mark, (reducers.Marker, reducers.ReducedBy, str)):
        return True
    return callable(mark) and not hasattr(mark, "__get_pydantic_core_schema__")


def _refuses_markers(hint: Any) -> bool:
    """Return True if pydantic is certain to reject DELETE, UNSET and Overwrite as values of *hint*."""
    marks = hints.metadata_of(hint)
    if not all(is_inert(mark) or isinstance(mark, annotated_types.BaseMetadata) for mark in marks):
        return False  # a validator that runs before the type's own may accept anything
    return all(hints.metadata_of(member) == () and _is_definite(member) for member in _parts(hints.bare(hint)))


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, with their Annotated kept; for any other hint, the hint itself."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _is_definite(member: Any) -> bool:
    """Return True if *member* is a type whose values pydantic fully knows, so that it rejects a marker."""
    kind: Any = typing.get_origin(member) or member
    if kind is Literal:
        return True
    return isinstance(kind, type) and _is_definite_class(kind)


def _is_definite_class(cls: Any) -> bool:
    """Return True if pydantic validates *cls* without user code that could accept a marker."""
    if cls in _DEFINITE or te.is_typeddict(cls):
        return True
    if issubclass(cls, Enum):
        return cls._missing_.__func__ is Enum._missing_.__func__  # type: ignore[attr-defined]  # a class method
    if issubclass(cls, BaseModel):
        schema_method: Any = cls.__get_pydantic_core_schema__
        model_method: Any = BaseModel.__get_pydantic_core_schema__
        # The value of a RootModel may have any type, and a model validator may accept anything.
        lax = cls.__pydantic_root_model__ or cls.__pydantic_decorators__.model_validators
        return schema_method.__func__ is model_method.__func__ and not lax
    if hasattr(cls, "__get_pydantic_core_schema__") or not dataclasses.is_dataclass(cls):
        return False
    # Validators are in the class as pydantic's decorators left them; `@pydantic.dataclass` collects them.
    decorators: Any = getattr(cls, "__pydantic_decorators__", None)
    bases: list[type] = type.mro(cls)  # type: ignore[arg-type]  # narrowed to instances of dataclasses too
    value_types = (type(value).__name__ for base in bases for value in vars(base).values())
    return "PydanticDescriptorProxy" not in value_types and not (decorators and decorators.model_validators)


_DEFINITE: Final = frozenset({int, str, float, bool, bytes, type(None), list, dict, set, tuple, frozenset})


# -- on all Pythons ----------------------------------------------------------------------------------------------


def portable(
    hint: Any,
    localns: Mapping[str, Any] | None = None,
    enclosing: Mapping[Any, tuple[Any, Any]] | None = None,
    *,
    closed: bool = True,
) -> Any:
    """Return *hint* with every TypedDict in it replaced by one that pydantic accepts on every Python.

    pydantic refuses `typing.TypedDict` below Python 3.12, and silently drops the unknown keys of any TypedDict.

    Args:
        hint: Any annotation.
        localns: Names for forward references.
        enclosing: TypedDicts that are being replaced, with the hint and the replacement of each.
        closed: Reject unknown keys, as the state itself does (decision 0008); a language model's answers may have them.
    """
    enclosing = enclosing or {}
    base = typing.get_origin(hint) or hint
    if not te.is_typeddict(base):
        return hints.mapped(hint, lambda arg: portable(arg, localns, enclosing, closed=closed))
    if base not in enclosing:
        return _replaced(hint, base, localns, enclosing, closed=closed)
    outer_hint, replacement = enclosing[base]
    # A generic TypedDict may contain itself with ever new arguments; its inner levels are checked as mappings.
    return replacement if hint == outer_hint else dict[str, Any]


def _replaced(
    hint: Any, base: Any, localns: Mapping[str, Any] | None, enclosing: Mapping[Any, tuple[Any, Any]], *, closed: bool
) -> Any:
    """Return a TypedDict of typing_extensions with the fields of *hint*, a TypedDict; the arguments as for `portable`.

    *base* is *hint* without the type arguments of a generic TypedDict.
    """
    factory: Any = te.TypedDict  # Any, since type checkers accept only a literal call
    replacement = factory(base.__name__, {})
    enclosing = {**enclosing, base: (hint, replacement)}
    fields: dict[str, Any] = {}
    for name, value in hints.class_hints(hint, localns).items():
        inner = portable(hints.without_qualifiers(value), localns, enclosing, closed=closed)
        required = hints.is_required(value, otherwise=name in base.__required_keys__)
        fields[name] = te.Required[inner] if required else te.NotRequired[inner]
    # Set afterwards, since a field of a recursive TypedDict has the replacement itself as its type.
    replacement.__annotations__ = fields
    config: Mapping[str, Any] = getattr(base, "__pydantic_config__", {})
    replacement.__pydantic_config__ = (
        {"extra": "forbid", "arbitrary_types_allowed": True, **config} if closed else config
    )
    replacement.__module__ = base.__module__
    replacement.__doc__ = base.__doc__
    return replacement
