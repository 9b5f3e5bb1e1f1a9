"""A whole state: reading its class into fields, making the object that nodes see, validating an input.

The three kinds of state class (pydantic model, dataclass, TypedDict) differ only here. Values travel as a plain dict
of field names; a *view* of them is an instance of the user's class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, cast, final

import pydantic
import typing_extensions as te
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticUndefined

from graphrt._plan import hints
from graphrt._plan.fields import ABSENT, Field, describe, incoming_hint, is_mapping, make_check, own, read_marks
from graphrt.errors import InputError, Problem, closest, names
from graphrt.reducers import ReducedBy

Values = dict[str, Any]
"""The state as the engine holds it: field name to value; an absent TypedDict key is not there."""

EXTRA: Final = ""
"""Key under which a pydantic state with extra="allow" keeps what its fields do not name; never a field name."""


def short(value: Any, most: int = 80) -> str:
    """*value* as text, cut to *most* characters."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide the error being reported
        text = f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"
    return text if len(text) <= most else text[: most - 1] + "…"


def explain(error: Exception, name: str) -> str:
    """A validation error in one line, with the path inside the value."""
    if not isinstance(error, ValidationError):
        return f"{name}: {error}"
    parts: list[str] = []
    for item in error.errors(include_url=False, include_context=False):
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in item["loc"])
        parts.append(f"{name}{path}: {item['msg']}, got {short(item['input'])}")
    return "; ".join(parts[:5]) + (f"; and {len(parts) - 5} more" if len(parts) > 5 else "")


@final
class StateSchema:
    """The fields of a state class, and what is done with all of them at once."""

    __slots__ = ("_aliases", "cls", "fields", "has_ephemeral", "kind", "problems", "view")

    def __init__(self, cls: Any, localns: Mapping[str, Any] | None = None) -> None:
        self.cls: Any = cls
        self.fields: dict[str, Field] = {}
        self.problems: list[Problem] = []
        self._aliases: frozenset[str] = frozenset()
        self.view: Callable[[Values], Any] = dict[str, Any].copy
        """Makes the object that nodes and routers see; shares values, never the dict itself."""
        self.kind: str = _kind(cls)
        match self.kind:
            case "pydantic":
                self._read_pydantic(cls)
            case "dataclass":
                self._read_dataclass(cls, localns)
            case "typeddict":
                self._read_typeddict(cls, localns)
            case _:
                self.problems.append(
                    Problem(
                        code="bad-state",
                        message=f"{cls!r} cannot be a state.",
                        hint="Use a pydantic model, a dataclass or a TypedDict class.",
                    )
                )
        for field in self.fields.values():
            if field.untracked and not field.has_default and field.identity is None:
                self.problems.append(
                    Problem(
                        code="bad-reducer",
                        message=f"Field {field.name!r} is untracked and has no default to return to after a resume.",
                        hint="Give the field a default.",
                    )
                )
        self.has_ephemeral: bool = any(field.ephemeral for field in self.fields.values())

    # -- reading the class ---------------------------------------------------------------------------------------

    def _add(self, field: Field, metadata: tuple[Any, ...], whole: Any, *, strict: bool) -> None:
        read_marks(field, metadata, self.problems)
        field.check_whole = make_check(whole, strict=strict, name=field.name, problems=self.problems)
        field.check = field.check_whole
        declared = incoming_hint(field.reduce) if field.aggregates else hints.UNRESOLVED
        if declared is not hints.UNRESOLVED:
            field.check = make_check(declared, strict=strict, name=field.name, problems=self.problems)
        field.settle(whole if declared is hints.UNRESOLVED else declared)
        self.fields[field.name] = field

    def _read_pydantic(self, cls: type[BaseModel]) -> None:
        strict = bool(cls.model_config.get("strict"))
        for name, info in cls.model_fields.items():
            field = Field(name, info.annotation)
            extra = [info.json_schema_extra] if isinstance(info.json_schema_extra, ReducedBy) else []
            # The annotation of a FieldInfo is bare; its constraints stand in the metadata beside the reducer.
            kept = tuple(m for m in info.metadata if m is not None)
            whole: Any = te.Annotated[(info.annotation, *kept)] if kept else info.annotation
            if info.discriminator is not None:
                whole = te.Annotated[whole, pydantic.Field(discriminator=info.discriminator)]
            if not info.is_required():
                field.has_default = True
                field.make_default = _pydantic_default(info)
            field.required = info.is_required()
            self._add(field, (*info.metadata, *extra), whole, strict=strict)
        aliases: set[str] = set()
        for info in cls.model_fields.values():
            for alias in (info.alias, info.validation_alias):
                aliases.update(_alias_names(alias))
        self._aliases = frozenset(aliases)
        self.view = _pydantic_view(cls, tuple(self.fields))

    def _read_dataclass(self, cls: Any, localns: Mapping[str, Any] | None) -> None:
        found = self._hints(cls, localns)
        for spec in dataclasses.fields(cls):
            hint = found.get(spec.name, Any)
            field = Field(spec.name, hint)
            if spec.default is not dataclasses.MISSING:
                field.has_default, value = True, spec.default
                field.make_default = lambda value=value: own(value)
            elif spec.default_factory is not dataclasses.MISSING:
                field.has_default, field.make_default = True, spec.default_factory
            field.required = not field.has_default
            mark = spec.metadata.get("graphrt")
            metadata = (*hints.metadata_of(hint), *([mark] if mark is not None else ()))
            self._add(field, metadata, hint, strict=False)
        self.view = _dataclass_view(cls, tuple(self.fields))

    def _read_typeddict(self, cls: Any, localns: Mapping[str, Any] | None) -> None:
        required: frozenset[str] = cls.__required_keys__
        strict = bool(getattr(cls, "__pydantic_config__", {}).get("strict"))
        for name, hint in self._hints(cls, localns).items():
            field = Field(name, hint)
            self._add(field, hints.metadata_of(hint), hints.without_qualifiers(hint), strict=strict)
            field.required = name in required and field.identity is None and not field.ephemeral
            if field.untracked and name not in required:
                field.has_default = True

    def _hints(self, cls: Any, localns: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            return hints.class_hints(cls, localns)
        except (NameError, TypeError, SyntaxError) as error:
            self.problems.append(
                Problem(
                    code="bad-state",
                    message=f"The annotations of {cls.__name__} cannot be resolved: {error}",
                    hint="Define the named types before GraphBuilder(...), at module level or in the same function.",
                )
            )
            return {}

    # -- values --------------------------------------------------------------------------------------------------

    def initial(self, given: Any, *, where: str, only: frozenset[str] | None = None) -> Values:
        """The initial values from an input: validated whole, with defaults, sharing no container with it.

        Args:
            given: An instance of the state class, or a mapping of its fields.
            where: What to name in an error, for instance `graph 'x'`.
            only: Fields that the input may name, None for all.

        Raises:
            InputError: Unknown keys, missing fields, wrong types: all of them at once.
        """
        if self.kind != "typeddict" and isinstance(given, self.cls):
            values = {name: getattr(given, name) for name in self.fields if hasattr(given, name)}
            extra = getattr(given, "__pydantic_extra__", None)
            checked = self._check_all(values, where)
            return {**checked, EXTRA: own(extra)} if extra else checked
        if not is_mapping(given):
            wanted = self.cls.__name__ if self.kind != "typeddict" else f"a mapping with the keys of {self.cls.__name__}"
            alternative = " or a mapping of its fields" if self.kind != "typeddict" else ""
            raise InputError(
                f"The input must be {wanted}{alternative}, not {type(given).__name__}: {short(given)}.",
                code="bad-input",
                where=where,
                known=f"fields {names(self.fields)}",
                fix="Pass the fields that the graph starts with.",
            )
        self._refuse_unknown(given, where, only)
        if self.kind == "pydantic":
            return self._initial_pydantic(given, where)
        values = {key: own(value) for key, value in given.items()}
        missing = [name for name, field in self.fields.items() if field.required and name not in values]
        if missing:
            raise self._missing(missing, where)
        checked = self._check_all(values, where)
        if self.kind == "dataclass":
            return self._initial_dataclass(checked, where)
        for name, field in self.fields.items():
            if name not in checked and field.identity is not None:
                checked[name] = field.identity()
        return {name: checked[name] for name in self.fields if name in checked}

    def _initial_pydantic(self, given: Mapping[str, Any], where: str) -> Values:
        cls = cast("type[BaseModel]", self.cls)
        try:
            made = cls.__pydantic_validator__.validate_python(dict(given), by_alias=True, by_name=True)
        except ValidationError as error:
            missing = [str(e["loc"][0]) for e in error.errors() if e["type"] == "missing" and len(e["loc"]) == 1]
            if missing and len(missing) == error.error_count():
                raise self._missing(missing, where) from None
            raise self._bad_values([explain(error, "input")], where) from None
        values = {name: own(value) for name, value in made.__dict__.items() if name in self.fields}
        if made.__pydantic_extra__:
            values[EXTRA] = own(made.__pydantic_extra__)
        return values

    def _initial_dataclass(self, checked: Values, where: str) -> Values:
        try:
            made = self.cls(**checked)
        except Exception as error:
            raise InputError(
                f"{self.cls.__name__} refused the input: {type(error).__name__}: {error}",
                code="bad-input",
                where=where,
                fix="Pass values that the dataclass accepts.",
            ) from error
        return {name: own(getattr(made, name)) for name in self.fields}

    def _check_all(self, values: Mapping[str, Any], where: str) -> Values:
        checked: Values = {}
        errors: list[str] = []
        for name, value in values.items():
            try:
                checked[name] = own(self.fields[name].check_whole(value))
            except ValueError as error:
                errors.append(explain(error, name))
        if errors:
            raise self._bad_values(errors, where)
        return checked

    def _refuse_unknown(self, given: Mapping[str, Any], where: str, only: frozenset[str] | None) -> None:
        allowed: Collection[str] = only if only is not None else self.fields.keys()
        if self.kind == "pydantic" and only is None:
            if self.cls.model_config.get("extra") == "allow":
                return
            allowed = {*allowed, *self._aliases}
        unknown = [key for key in given if key not in allowed]
        if unknown:
            guess = closest(unknown[0], [str(name) for name in allowed])
            raise InputError(
                f"The input has {'keys that are' if len(unknown) > 1 else 'a key that is'} no field of the "
                f"{'graph input' if only is not None else 'state'}: {names(unknown)}.",
                code="unknown-key",
                where=where,
                known=f"fields {names(sorted(map(str, allowed)) if only is not None else self.fields)}",
                fix=f"Did you mean {guess!r}?" if guess else "Remove it, or declare the field.",
                field=str(unknown[0]),
            )

    def _missing(self, missing: list[str], where: str) -> InputError:
        return InputError(
            f"The input lacks {'fields that have' if len(missing) > 1 else 'a field that has'} no default: "
            f"{names(missing)}.",
            code="missing-field",
            where=where,
            known="; ".join(f"{name}: {describe(self.fields[name].annotation)}" for name in missing if name in self.fields),
            fix="Pass them, or give the fields defaults.",
            field=missing[0],
        )

    def _bad_values(self, errors: list[str], where: str) -> InputError:
        return InputError(
            f"The input does not fit {self.cls.__name__}: {'; '.join(errors)}.",
            code="bad-input",
            where=where,
            known=", ".join(f"{name}: {describe(field.annotation)}" for name, field in self.fields.items()),
            fix="Pass values of the declared types.",
        )

    def own_all(self, values: Values) -> Values:
        """A copy of *values* that shares no container with them."""
        return {name: own(value) for name, value in values.items()}


def _kind(cls: Any) -> str:
    if te.is_typeddict(cls):
        return "typeddict"
    if isinstance(cls, type) and issubclass(cls, BaseModel) and not cls.__pydantic_root_model__:
        return "pydantic"
    if isinstance(cls, type) and dataclasses.is_dataclass(cls):
        return "dataclass"
    return "unknown"


def _alias_names(alias: Any) -> list[str]:
    if alias is None:
        return []
    if isinstance(alias, str):
        return [alias]
    choices = getattr(alias, "choices", None)
    if choices is not None:
        return [name for choice in choices for name in _alias_names(choice)]
    path = getattr(alias, "path", None)
    return [path[0]] if path else []


def _pydantic_default(info: Any) -> Callable[[], Any]:
    if info.default_factory is not None:
        if info.default_factory_takes_validated_data:
            return lambda: ABSENT  # needs the other fields of an input: there is none to reset from
        factory: Callable[[], Any] = info.default_factory
        return factory
    value = info.default if info.default is not PydanticUndefined else ABSENT
    return lambda: own(value)


def _pydantic_view(cls: type[BaseModel], field_names: tuple[str, ...]) -> Callable[[Values], Any]:
    new, put = cls.__new__, object.__setattr__
    # Every field counts as set; one set serves all views, since assigning a field adds only a name that is there.
    everything = set(field_names)

    def view(values: Values) -> Any:
        made = new(cls)
        put(made, "__dict__", values.copy())
        put(made, "__pydantic_fields_set__", everything)
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    def full_view(values: Values) -> Any:
        """For extra="allow", private attributes and model_post_init."""
        own_values = values.copy()
        extra = own_values.pop(EXTRA, None)
        made = new(cls)
        put(made, "__dict__", own_values)
        put(made, "__pydantic_fields_set__", set(everything))
        put(made, "__pydantic_extra__", ({**extra} if extra else {}) if allows_extra else None)
        put(made, "__pydantic_private__", None)
        if cls.__pydantic_post_init__:
            made.model_post_init(None)
        return made

    allows_extra = cls.model_config.get("extra") == "allow"
    return full_view if allows_extra or cls.__pydantic_post_init__ or cls.__private_attributes__ else view


def _dataclass_view(cls: Any, field_names: tuple[str, ...]) -> Callable[[Values], Any]:
    new, put = object.__new__, object.__setattr__

    def view(values: Values) -> Any:
        made = new(cls)
        made.__dict__.update(values)
        return made

    def slots_view(values: Values) -> Any:
        made = new(cls)
        for name, value in values.items():
            put(made, name, value)
        return made

    has_dict = any("__dict__" in base.__dict__ for base in cls.__mro__)
    return view if has_dict else slots_view
