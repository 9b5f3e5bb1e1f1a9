"""The classes that the fields of a state lead to, as plain data: their fields, members and types (rule R14).

A stored value of such a class can only be read while the class still fits it, so the classes belong to the fingerprint
of a graph. They are found through unions, containers, aliases and fields of other classes. The data of a class is:

- `kind`: `model`, `dataclass`, `typeddict`, `namedtuple`, `enum`, or `alias`, for `type X = ...` and NewTypes;
- `fields`: by name, `type` as text and `classes`, the names of the classes in this type; of an alias only these two;
- `order`: names of the fields of a named tuple, whose values are stored by their position;
- `required`: names of the keys that a TypedDict must have;
- `private` and `extra`: names of the private attributes of a model, and true if it allows undeclared fields;
- `members`: names of the members of an enum, sorted; those of a Flag with their numbers, which are stored.

Empty parts are omitted. Defaults are not in the data, because every value of a field is stored. Classes of Python,
pydantic and graphrt are omitted: they change between versions and do not belong to the user. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum, Flag
from typing import Any, Final, final

import typing_extensions as te
from pydantic import BaseModel

from graphrt._plan import hints
from graphrt._plan.hints import describe
from graphrt._plan.state import complete_model, field_hint

__all__ = ["StateClasses"]

_NOT_OF_THE_USER: Final = frozenset(
    {*sys.stdlib_module_names, "pydantic", "pydantic_core", "typing_extensions", "graphrt"}
)
"""Top-level modules whose classes are left out. `__main__` is not one of them."""


@final
class StateClasses:
    """The classes that some annotations lead to, found by a breadth-first walk.

    Args:
        annotations: Starting points of the walk, for instance the annotations of a state's fields.
    """

    __slots__ = ("_names", "_queue", "_taken", "bare", "data")

    def __init__(self, annotations: Iterable[Any]) -> None:
        self.data: dict[str, dict[str, Any]] = {}
        """The data of each class by its `__qualname__`. If several classes share a name, later ones in the walk get a
        number appended."""
        self.bare: dict[str, frozenset[str]] = {}
        """By class name, the fields without a default: without them, a stored value cannot be read."""
        self._names: dict[int, str] = {}
        """Names by the id of a class, alias or NewType. `_taken` keeps these alive, so that no id is used twice."""
        self._taken: dict[str, Any] = {}
        self._queue: deque[str] = deque()
        for annotation in annotations:
            self.names_in(annotation)
        while self._queue:
            name = self._queue.popleft()
            self.data[name] = self._described(name, self._taken[name])

    def names_in(self, annotation: Any) -> list[str]:
        """Return the names of the classes in *annotation* itself, each once, in order."""
        return list(dict.fromkeys(self._name(definition) for definition in _named(annotation)))

    def typed(self, annotation: Any) -> dict[str, Any]:
        """Return a type as data: its text, and the names of its classes if it has any."""
        data: dict[str, Any] = {"type": describe(annotation)}
        if names := self.names_in(annotation):
            data["classes"] = names
        return data

    def _name(self, definition: Any) -> str:
        """Return the name of a class, alias or NewType; queue it if it is new."""
        known_name = self._names.get(id(definition))
        if known_name is not None:
            return known_name
        qualname = str(getattr(definition, "__qualname__", definition.__name__))
        name, number = qualname, 2
        while name in self._taken:
            name, number = f"{qualname} ({number})", number + 1
        self._names[id(definition)] = name
        self._taken[name] = definition
        self._queue.append(name)
        return name

    def _described(self, name: str, definition: Any) -> dict[str, Any]:
        """Return the data of a class, alias or NewType, and record its fields without a default."""
        if isinstance(definition, typing.NewType):
            return {"kind": "alias", **self.typed(definition.__supertype__)}
        kind = _kind(definition)
        if kind is None:  # an alias: `_named` yields nothing
            try:
                value: Any = definition.__value__
            except NameError:  # PEP 695: the value is evaluated lazily, and a name in it is undefined
                value = Any
            return {"kind": "alias", **self.typed(value)}
        if kind == "enum":
            members: Mapping[str, Any] = definition.__members__
            numbers = (
                {member: int(value.value) for member, value in members.items()}
                if issubclass(definition, Flag)
                else None
            )
            return {"kind": kind, "members": sorted(members) if numbers is None else numbers}
        fields, bare = self._fields(kind, definition)
        self.bare[name] = frozenset(bare)
        data: dict[str, Any] = {"kind": kind, "fields": {field: self.typed(hint) for field, hint in fields.items()}}
        if kind == "namedtuple":
            data["order"] = list(fields)
        elif kind == "typeddict":
            data["required"] = sorted(bare)
        elif kind == "model":
            if definition.__private_attributes__:
                data["private"] = sorted(definition.__private_attributes__)
            if definition.model_config.get("extra") == "allow":
                data["extra"] = True
        return data

    def _fields(self, kind: str, cls: Any) -> tuple[dict[str, Any], list[str]]:
        """Return the annotations of the fields of *cls* by name, and the fields without a default."""
        if kind == "model":
            if not cls.__pydantic_complete__:
                with suppress(Exception):  # a name is still unknown: the annotation contains it as text
                    complete_model(cls, self._near())
            infos = cls.__pydantic_fields__
            return {n: field_hint(info) for n, info in infos.items()}, [n for n, i in infos.items() if i.is_required()]
        field_hints = self._hints(cls)
        if kind == "typeddict":
            required = [n for n, h in field_hints.items() if hints.is_required(h, otherwise=n in cls.__required_keys__)]
            return {name: hints.without_qualifiers(hint) for name, hint in field_hints.items()}, required
        if kind == "namedtuple":
            return {n: field_hints.get(n, Any) for n in cls._fields}, [
                n for n in cls._fields if n not in cls._field_defaults
            ]
        specs = dataclasses.fields(cls)
        # A field with init=False may stay without a value.
        missing = dataclasses.MISSING
        bare = [
            spec.name for spec in specs if spec.init and spec.default is missing and spec.default_factory is missing
        ]
        return {spec.name: hints.without_qualifiers(field_hints.get(spec.name, spec.type)) for spec in specs}, bare

    def _hints(self, cls: Any) -> dict[str, Any]:
        """Return the annotations of *cls*; unresolved if one of them contains an unknown name."""
        # The names of its module come first, as in Python; then the classes met so far, for those in a function.
        for near in (dict[str, Any], self._near):
            with suppress(Exception):  # evaluating an annotation may raise anything
                return hints.class_hints(cls, near())
        try:
            return dict(te.get_annotations(cls, format=te.Format.FORWARDREF))
        except Exception:  # noqa: BLE001 - the same
            return {}

    def _near(self) -> dict[str, Any]:
        """Return the classes met so far by their own names."""
        return {definition.__name__: definition for definition in self._taken.values()}


def _named(annotation: Any) -> Iterator[Any]:
    """Yield the user's classes, aliases and NewTypes that are in *annotation*, in order.

    Their own fields and values are not inspected, so that this terminates for types that contain themselves.
    """
    work = [annotation]
    while work:
        hint = work.pop()
        if isinstance(hint, typing.TypeVar):
            work += [bound for bound in (*hint.__constraints__[::-1], hint.__bound__) if bound is not None]
            continue
        origin = typing.get_origin(hint)
        args = typing.get_args(hint)
        if origin in (typing.Literal, te.Literal):  # the text of the type has the members
            continue
        if origin is typing.Annotated:
            args = args[:1]
        work += [arg for arg in args if not isinstance(arg, (list, str))][::-1]
        base: Any = hint if origin is None else origin
        is_named = hints.is_alias(base) or isinstance(base, typing.NewType) or _kind(base) is not None
        if is_named and not _is_foreign(base):
            yield base


def _is_foreign(definition: Any) -> bool:
    """Return True if a class, alias or NewType belongs to Python, pydantic or graphrt."""
    module = str(getattr(definition, "__module__", None) or "")
    if module.partition(".")[0] not in _NOT_OF_THE_USER:
        return False
    # Classes created by `make_dataclass` and `create_model` belong to the user, but in some versions have the
    # function's module.
    attribute: Any = sys.modules.get(module)
    for name in str(getattr(definition, "__qualname__", definition.__name__)).split("."):
        attribute = getattr(attribute, name, None)
    return attribute is definition


def _kind(cls: Any) -> str | None:
    """Return the kind of a class as used in the data; None for anything without fields or members."""
    if not _is_class(cls) or cls in (Enum, BaseModel):
        return None
    if issubclass(cls, Enum):
        return "enum"
    if issubclass(cls, BaseModel):
        return "model"
    if te.is_typeddict(cls):
        return "typeddict"
    if tuple in cls.__mro__:
        return "namedtuple" if hasattr(cls, "_fields") and hasattr(cls, "_field_defaults") else None
    return "dataclass" if dataclasses.is_dataclass(cls) else None


def _is_class(value: Any) -> bool:
    # A separate function: after an inline isinstance(), pyright would infer a partly unknown type for the caller's
    # value.
    return isinstance(value, type)
