"""The schema of a whole state: reads a state class into fields, and validates inputs.

The kinds of state class (pydantic model, dataclass, TypedDict) differ only here and in `views`. Everywhere else the
state is a dict of values by field name; a *view* of it is an instance of the user's class.

No message quotes a value of an untracked or redacted field. A reducer is the function that folds updates into a field;
its *identity* is the value from which it starts. *localns* has the local names around the graph's builder, which
annotations may refer to; *where* is the location that an error names. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast, final

import pydantic
import typing_extensions as te
from pydantic import AliasPath, BaseModel, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic_core import PydanticUndefined

from graphrt._arguments import is_mapping
from graphrt._plan import hints
from graphrt._plan.fields import ABSENT, Field, describe, incoming_hint, own, read_marks
from graphrt._plan.quoting import explain, quoted, short
from graphrt._plan.value_checks import Checks, is_marker, pydantic_config
from graphrt._plan.views import EXTRA, Values, dataclass_view, finder, keeping, pydantic_view
from graphrt.errors import InputError, Place, Problem, closest, names, said
from graphrt.errors._codes.arguments import (
    BAD_INPUT,
    INPUT_OF_WRONG_KIND,
    MISSING_FIELD,
    UNKNOWN_KEY,
)
from graphrt.errors._codes.findings import (
    BAD_ANNOTATION,
    BAD_STATE,
    FIELD_NEEDS_DEFAULT,
)
from graphrt.reducers import ReducedBy

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo  # loads a good part of pydantic that nothing here needs

__all__ = ["EXTRA", "StateSchema", "Values", "explain", "field_hint", "short"]


@final
class Recorded(dict[str, Any]):
    """The values of an input that a journal has. They were validated, which may have changed them, and are not again."""


@final
class StateSchema:
    """The fields of a state class, and operations on all of them. Problems are collected for `compile()` to raise."""

    # fmt: off
    __slots__ = (
        "_also", "_hidden", "as_mapping", "assigned", "cls", "fields", "keeps", "kind", "problems", "redacted",
        "title", "unquoted", "untracked", "varying", "view",
    )
    # fmt: on

    def __init__(
        self,
        cls: Any,
        localns: Mapping[str, Any] | None = None,
        *,
        title: str = "state",
        unquoted: frozenset[str] = frozenset(),
    ) -> None:
        self.cls: Any = typing.get_origin(cls) or cls
        self.title: str = title
        """Name of the class in error messages: `state`, or `graph input`."""
        self.fields: dict[str, Field] = {}
        """Fields by name, in declaration order."""
        self.problems: list[Problem] = []
        self._also: frozenset[str] = frozenset()
        """Keys that an input may have in addition to the fields: aliases, InitVars."""
        self.view: Callable[[Values], Any] = dict[str, Any].copy
        """Makes the view, the object that nodes and routers receive. It shares the values, but not the dict itself."""
        self.as_mapping: Callable[[Any], Any] = getattr(self.cls, "__graphrt_as_mapping__", _unchanged)
        """Turns an input into a mapping of fields if it is an instance of a class that stands for the state; returns any
        other unchanged. The state class may define it: a converted graph has such classes."""
        self.kind: str = _kind(self.cls)
        """"pydantic", "dataclass", "typeddict" or "unknown"."""
        match self.kind:
            case "pydantic":
                self._read_pydantic(self.cls, localns)
            case "dataclass":
                self._read_dataclass(cls, localns)
            case "typeddict":
                self._read_typeddict(cls, localns)
            case _:
                self.problems.append(BAD_STATE(cls=short(cls)))
        for field in self.fields.values():
            self._require_default(field)
        self.keeps: int = keeping(self.kind, self.cls, tuple(self.fields))
        """Where views keep their values, as returned by `views.keeping`; the engine uses it to compare view and
        dict."""
        self.assigned: Callable[[Any, Values], list[str]] = finder(self.kind, self.cls, tuple(self.fields), self.view)
        """Function from a view and its values to the names that a node assigned, which is an error (R15)."""
        self.varying: frozenset[str] = frozenset(
            field.name for field in self.fields.values() if field.varies and not (field.untracked or field.ephemeral)
        )
        """Stored fields whose defaults may differ at each call."""
        self.untracked: frozenset[str] = frozenset(field.name for field in self.fields.values() if field.untracked)
        self.redacted: frozenset[str] = frozenset(field.name for field in self.fields.values() if field.redacted)
        self.unquoted: frozenset[str] = self.untracked | self.redacted | (unquoted & self.fields.keys())
        """Fields whose values messages must not quote (R16, decision 0126)."""
        self._hidden: frozenset[str] = self.unquoted
        """Names and aliases of these fields, under which a pydantic validation error may list them."""
        if self.unquoted and self.kind == "pydantic":
            self._hidden |= {a for n in self.unquoted for a in hints.aliases_of(self.cls.__pydantic_fields__[n])}

    # -- reading the class ---------------------------------------------------------------------------------------

    def _require_default(self, field: Field) -> None:
        """Report an ephemeral or untracked field without a default: it would have no value after a reset (R16)."""
        # The key of a TypedDict may be absent, or begin with its reducer's identity.
        if field.has_default or (self.kind == "typeddict" and (field.ephemeral or field.identity is not None)):
            return
        for marked, problem in (
            (field.untracked, "untracked and has no default to return to after a resume"),
            (field.ephemeral, "ephemeral and has no default to return to after its superstep"),
        ):
            if marked:
                self.problems.append(FIELD_NEEDS_DEFAULT(field=field.name, problem=problem))

    def _add(self, field: Field, metadata: Iterable[Any], checks: Checks) -> None:
        """Add *field* with the reducer and markers in *metadata*, taken from its Annotated.

        Updates are checked against a custom reducer's second parameter, else the field's type (R7).
        """
        read_marks(field, metadata, self.problems)
        whole = checks.of(field.annotation, field.name)
        field.check_whole, field.repeatable = whole.check, whole.repeatable
        declared = incoming_hint(field.reduce, checks.localns) if field.aggregates else hints.UNRESOLVED
        if declared is hints.UNRESOLVED:
            field.settle(whole, field.annotation)
        else:
            field.settle(checks.of(declared, field.name), declared)
        self.fields[field.name] = field

    def _read_pydantic(self, cls: type[BaseModel], localns: Mapping[str, Any] | None) -> None:
        try:
            complete_model(cls, localns)
        except (PydanticUndefinedAnnotation, NameError) as error:
            self.problems.append(unresolved(cls, error))
            return
        self._read_infos(cls.__pydantic_fields__, Checks(cls, localns, self.problems))
        self._also = frozenset(a for info in cls.__pydantic_fields__.values() for a in hints.aliases_of(info))
        self.view = pydantic_view(cls, tuple(self.fields))

    def _read_infos(self, infos: Mapping[str, FieldInfo], checks: Checks) -> None:
        """Add the fields of a class processed by pydantic: a model or a pydantic dataclass."""
        for name, info in infos.items():
            field = Field(name, field_hint(info))
            extra: Any = info.json_schema_extra  # where `reduced()` puts its reducer and markers
            _set_pydantic_default(field, info, self.cls)
            self._add(field, (*info.metadata, *([extra] if isinstance(extra, ReducedBy) else ())), checks)

    def _read_dataclass(self, cls: Any, localns: Mapping[str, Any] | None) -> None:
        """Read a dataclass; unlike `self.cls`, *cls* has the type arguments of a generic class."""
        checks = Checks(self.cls, localns, self.problems)
        infos: Mapping[str, FieldInfo] | None = getattr(self.cls, "__pydantic_fields__", None)
        if infos is not None:  # made by `pydantic.dataclasses.dataclass`
            self._read_infos(infos, checks)
        else:
            type_hints = self._hints(cls, localns)
            for spec in dataclasses.fields(self.cls) if type_hints is not None else ():
                field = Field(spec.name, hints.without_qualifiers((type_hints or {}).get(spec.name, Any)))
                if spec.default is not dataclasses.MISSING:
                    field.has_default, value = True, spec.default
                    field.make_default = lambda value=value: own(value)
                elif spec.default_factory is not dataclasses.MISSING:
                    field.call(spec.default_factory)
                field.required = spec.init and not field.has_default
                mark = spec.metadata.get("graphrt")  # where `reduced()` puts its reducer and markers
                self._add(field, (*hints.metadata_of(field.annotation), *([mark] if mark is not None else ())), checks)
        declared: Mapping[str, Any] = self.cls.__dataclass_fields__
        # The rest are the InitVars.
        self._also = frozenset(declared) - {spec.name for spec in dataclasses.fields(self.cls)} - _class_vars(declared)
        self.view = dataclass_view(self.cls, tuple(self.fields))

    def _read_typeddict(self, cls: Any, localns: Mapping[str, Any] | None) -> None:
        """Read a TypedDict; *cls* as for `_read_dataclass`."""
        checks = Checks(self.cls, localns, self.problems)
        for name, hint in (self._hints(cls, localns) or {}).items():
            field = Field(name, hints.without_qualifiers(hint))
            required = hints.is_required(hint, otherwise=name in self.cls.__required_keys__)
            self._add(field, hints.metadata_of(hint), checks)
            field.required = required and field.identity is None and not field.ephemeral
            if field.untracked and not required:  # it may be absent after a resume
                field.has_default = True

    def _hints(self, cls: Any, localns: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the resolved annotations of *cls*; if one cannot be resolved, report a problem and return None."""
        try:
            return hints.class_hints(cls, localns)
        except (NameError, TypeError, SyntaxError) as error:
            self.problems.append(unresolved(self.cls, error))
            return None

    # -- values --------------------------------------------------------------------------------------------------

    def initial(self, graph_input: Any, *, where: str | Place, given_as: StateSchema | None = None) -> Values:
        """Return the initial values from an input, validated as a whole, with defaults and sharing no containers.

        Args:
            graph_input: An instance of the state class, or a mapping of its fields.
            where: The place to name in an error, for instance `graph 'x'`.
            given_as: The graph's input schema, if it has one: an input that is not a state is first validated by it.

        Raises:
            InputError: Unknown keys, missing fields or wrong types. All mistakes of one kind are reported at once.
        """
        if graph_input.__class__ is Recorded:
            return self.unchecked(graph_input)
        graph_input = self.as_mapping(graph_input)
        if self.is_instance(graph_input):
            return self._initial_instance(graph_input, where)
        if given_as is not None:
            values = given_as.initial(graph_input, where=where)
            graph_input = values | values.pop(EXTRA, {})
        if not is_mapping(graph_input):
            self._refuse_kind(graph_input, where)
        keys: Mapping[str, Any] = graph_input
        self.refuse_unknown(keys, where)
        if self.kind == "pydantic":
            return self._initial_pydantic(keys, where)
        values = {name: own(value) for name, value in keys.items() if name in self.fields}
        missing = [name for name, field in self.fields.items() if field.required and name not in values]
        if missing:
            raise self._missing(missing, where)
        checked = self._check_all(values, where)
        if self.kind == "dataclass":
            return self._initial_dataclass(checked, {key: keys[key] for key in keys if key in self._also}, where)
        for name, field in self.fields.items():  # fields missing from the input (decision 0008)
            if name not in checked and field.identity is not None:
                checked[name] = field.identity()
        return {name: checked[name] for name in self.fields if name in checked}

    def is_instance(self, value: Any) -> bool:
        """Return True if *value* is an instance of the class, a model or dataclass; a TypedDict has no instances."""
        return self.kind != "typeddict" and isinstance(value, self.cls)

    def by_names(self, keys: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an input with the names of a model's fields in place of their aliases, which pydantic reads first."""
        if self.kind != "pydantic" or self._also.isdisjoint(keys):
            return keys
        named = {key: value for key, value in keys.items() if key in self.fields or key not in self._also}
        for name, info in self.cls.__pydantic_fields__.items():
            for choice in getattr(info.validation_alias, "choices", (info.validation_alias,)):
                path: Any = AliasPath(choice) if isinstance(choice, str) else choice
                value = PydanticUndefined if path is None else path.search_dict_for_path(dict(keys))
                if value is not PydanticUndefined:
                    named[name] = value
                    break
        return named

    def unchecked(self, field_values: Mapping[str, Any]) -> Values:
        """Return *field_values* with defaults and without validation: `Erased()`, for example, fits no type."""
        values: Values = {EXTRA: field_values[EXTRA]} if EXTRA in field_values else {}
        for name, field in self.fields.items():
            value = own(field_values[name]) if name in field_values else field.reset()
            if value is not ABSENT:
                values[name] = value
        return values

    def _initial_instance(self, instance: Any, where: str | Place) -> Values:
        """Return the values of a state instance, checking those that assignments may have made invalid."""
        values = self.values_of(instance)
        more = {name: values.pop(name) for name in [*values] if name not in self.fields}
        self.refuse_unknown(more, where)
        missing = [name for name in self.fields if name not in values]
        if missing:  # the instance was made by model_construct() or object.__new__
            raise self._missing(missing, where)
        trusted = {n: own(values[n]) for n in self.validated(values) if not is_marker(values[n])}
        checked = self._check_all({name: value for name, value in values.items() if name not in trusted}, where)
        result = {name: trusted[name] if name in trusted else checked[name] for name in self.fields}
        # EXTRA is the key for values that a model with extra="allow" received in addition to its fields.
        return {**result, EXTRA: own(more)} if more else result

    @staticmethod
    def values_of(instance: Any, *, set_only: bool = False) -> Values:
        """Return the values of a model or dataclass instance by field, also those that only a subclass declares.

        Args:
            set_only: Only the fields that were set when a pydantic model was made or later. For a dataclass, all.
        """
        if not isinstance(instance, BaseModel):
            specs = dataclasses.fields(instance)
            return {spec.name: getattr(instance, spec.name) for spec in specs if hasattr(instance, spec.name)}
        names = [n for n in type(instance).__pydantic_fields__ if not set_only or n in instance.model_fields_set]
        extra: Mapping[str, Any] = getattr(instance, "__pydantic_extra__", None) or {}
        return {**{name: getattr(instance, name) for name in names if hasattr(instance, name)}, **extra}

    def validated(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Return the fields of a state instance with *values* that are not checked again, since that could change them.

        Pydantic validated the values when the instance was made, and never validates static defaults. Other fields are
        checked again, because assigned values and changes in place have not been.
        """
        infos: Mapping[str, FieldInfo] | None = getattr(self.cls, "__pydantic_fields__", None)
        if infos is None:  # a dataclass without pydantic, which validates nothing
            return frozenset()
        return frozenset(
            name
            for name, field in self.fields.items()
            if name in values and (not field.repeatable or values[name] is infos[name].default)
        )

    def _initial_pydantic(self, input_values: Mapping[str, Any], where: str | Place) -> Values:
        """Return the initial values from a mapping, for a model: pydantic checks them and fills in defaults."""
        cls: type[BaseModel] = self.cls
        try:
            instance: Any = cls.__pydantic_validator__.validate_python(dict(input_values), by_alias=True, by_name=True)
        except ValidationError as error:
            missing = [str(e["loc"][0]) for e in error.errors() if e["type"] == "missing" and len(e["loc"]) == 1]
            if missing and len(missing) == error.error_count():  # there is no other problem
                raise self._missing(missing, where) from None
            raise self._bad_values([explain(error, "", self._hidden)], where) from None
        except Exception as error:
            raise self._refused(error, where) from error
        attributes: dict[str, Any] = instance.__dict__
        values = {name: own(value) for name, value in attributes.items() if name in self.fields}
        if any(map(is_marker, values.values())):  # a field of type Any accepts markers, so reject them here
            self._check_all({name: value for name, value in values.items() if is_marker(value)}, where)
        if instance.__pydantic_extra__:
            values[EXTRA] = own(instance.__pydantic_extra__)
        return values

    def _initial_dataclass(self, checked: Values, also: Values, where: str | Place) -> Values:
        """Return the values, with defaults, of an instance created from *checked* and *also* (values of InitVars)."""
        init_fields = {spec.name for spec in dataclasses.fields(self.cls) if spec.init}
        try:
            instance = self.cls(**{name: value for name, value in checked.items() if name in init_fields}, **also)
        except ValidationError as error:
            raise self._bad_values([explain(error, "", self._hidden)], where) from None
        except Exception as error:
            raise self._refused(error, where) from error
        values = {name: own(getattr(instance, name)) for name in self.fields if hasattr(instance, name)}
        values.update(
            {name: value for name, value in checked.items() if name not in init_fields}
        )  # fields with init=False
        missing = [name for name in self.fields if name not in values]
        if missing:  # a field with init=False that __post_init__ did not set
            raise self._missing(missing, where)
        return values

    def _check_all(self, values: Mapping[str, Any], where: str | Place) -> Values:
        """Return *values* validated field by field; raise a single error that names all that do not fit."""
        checked: Values = {}
        errors: list[str] = []
        for name, value in values.items():
            try:
                checked[name] = own(self.fields[name].check_whole(value))
            except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything
                errors.append(explain(error, name, self.unquoted))
        if errors:
            raise self._bad_values(errors, where)
        return checked

    def _refused(self, error: Exception, where: str | Place) -> InputError:
        """Return the error for an input for which user code, such as a validator, raised *error*."""
        return BAD_INPUT(
            who="The input",
            state_class=self.cls.__name__,
            problems=f"{type(error).__name__}: {said(error)}",
            field=None,
            where=where,
        )

    def _refuse_kind(self, graph_input: Any, where: str | Place) -> NoReturn:
        """Raise the error for an input that is neither a mapping nor an instance of the state class."""
        expected = f"a mapping with the keys of {self.cls.__name__}"
        if self.kind != "typeddict":
            expected = f"{self.cls.__name__} or a mapping of its fields"
        raise INPUT_OF_WRONG_KIND(
            who="The input",
            wanted=expected,
            given=f"{type(graph_input).__name__}: {quoted(graph_input, self.unquoted)}",
            known="fields " + names(self.fields),
            where=where,
        )

    def unknown(self, keys: Iterable[Any]) -> list[Any]:
        """Return those of the *keys* of an input that are not fields; none if the class allows any."""
        if self.kind == "pydantic" and self.cls.model_config.get("extra") == "allow":
            return []
        return [key for key in keys if key not in self.fields and key not in self._also]

    def refuse_unknown(self, input_values: Mapping[str, Any], where: str | Place) -> None:
        """Reject an input with keys that are not fields."""
        unknown = self.unknown(input_values)
        if unknown:
            guess = closest(unknown[0], map(str, (*self.fields, *self._also)))
            raise UNKNOWN_KEY(
                who="The input",
                unknown=unknown,
                schema=self.title,
                fields=self.fields,
                field=str(unknown[0]),
                where=where,
                guess=guess,
            )

    def _missing(self, missing: list[str], where: str | Place) -> InputError:
        """Return the error for an input that lacks the fields *missing*."""
        return MISSING_FIELD(
            missing=missing,
            field=missing[0],
            where=where,
            known="; ".join(
                f"{name}: {describe(self.fields[name].annotation)}" for name in missing if name in self.fields
            ),
        )

    def _bad_values(self, errors: list[str], where: str | Place) -> InputError:
        """Return the error for an input whose values do not fit, as described by *errors*."""
        return BAD_INPUT(
            who="The input",
            state_class=self.cls.__name__,
            problems="; ".join(errors),
            field=None,
            where=where,
            known=", ".join(f"{name}: {describe(field.annotation)}" for name, field in self.fields.items()),
        )

    def own_all(self, values: Mapping[str, Any]) -> Values:
        """Return a copy of *values* that shares no container with them (R15)."""
        return {name: own(value) for name, value in values.items()}


def unresolved(cls: Any, error: Exception) -> Problem:
    """Return the problem for an annotation of *cls* that refers to an unknown name, or is not a type."""
    marked = isinstance(error, TypeError) and "Overwrite" in str(getattr(cls, "__annotations__", ""))
    return BAD_ANNOTATION(
        cls=cls.__name__, problem=str(error).split("\n", maxsplit=1)[0], fix=NOT_A_TYPE if marked else None
    )


NOT_A_TYPE: Final = (
    "Overwrite is a function and not a type: annotate the field with its own type. A node may return Overwrite(value) "
    "for any field."
)


def complete_model(cls: type[BaseModel], localns: Mapping[str, Any] | None) -> None:
    """Make pydantic resolve the forward references of *cls*, as it would when the model is first used.

    Raises:
        PydanticUndefinedAnnotation: A name cannot be found.
    """
    if not cls.__pydantic_complete__:
        cls.model_rebuild(raise_errors=True, _types_namespace=dict(localns or {}))


def field_hint(info: FieldInfo) -> Any:
    """Return the whole annotation of a pydantic field: its type, its constraints and its discriminator."""
    hint: Any = info.annotation
    if info.metadata:  # pydantic removes the metadata from the annotation
        hint = te.Annotated[(hint, *info.metadata)]
    if info.discriminator is not None:
        hint = te.Annotated[hint, pydantic.Field(discriminator=info.discriminator)]
    return hint


def _set_pydantic_default(field: Field, info: FieldInfo, cls: Any) -> None:
    """Set whether *field* of *cls* is required, and its default; *info* is pydantic's FieldInfo."""
    field.required = info.is_required() and info.init is not False
    if info.is_required():
        return
    make: Callable[[], Any]
    if info.default_factory is None:
        value = info.default if info.default is not PydanticUndefined else ABSENT
        make = lambda: own(value)  # noqa: E731 - a def in each branch would be longer
        field.has_default, field.make_default = True, make
    elif info.default_factory_takes_validated_data:  # it needs an input, and a reset has none
        return
    else:
        make = cast("Callable[[], Any]", info.default_factory)
        field.call(make)
    if info.validate_default or (info.validate_default is None and pydantic_config(cls).get("validate_default")):
        field.call(lambda: field.check_whole(make()))


def _class_vars(declared: Mapping[str, Any]) -> set[str]:
    """Return the names of the ClassVars in `__dataclass_fields__`; only the private `_field_type` identifies them."""
    return {name for name, spec in declared.items() if "CLASSVAR" in repr(spec._field_type)}


def _kind(cls: Any) -> str:
    """Return the kind of a state class, as `StateSchema.kind`. A RootModel is not a state: its value has no fields."""
    if te.is_typeddict(cls):
        return "typeddict"
    if isinstance(cls, type) and issubclass(cls, BaseModel) and not cls.__pydantic_root_model__:
        return "pydantic"
    if isinstance(cls, type) and dataclasses.is_dataclass(cls):
        return "dataclass"
    return "unknown"


def _unchanged(graph_input: Any) -> Any:
    return graph_input
