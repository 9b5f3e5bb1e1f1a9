"""Detects types without storable values and gives advice, for refusals and for checking fields before any run.

A type is reported only if it is certain that none of its values can be stored. Protocols, abstract classes, type
variables, and classes that define their own pydantic schema are not reported: their values may be of other classes. For
the terms, see docs/glossary.md.
"""

from __future__ import annotations

import collections.abc as cabc
import dataclasses
import inspect
import types
import typing
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from datetime import tzinfo
from enum import Enum
from typing import Annotated, Any, Final

import typing_extensions as te
from pydantic import BaseModel

from graphrt._codec import registry
from graphrt._codec.discovery import ALIASES
from graphrt._codec.entries import entry_of

__all__ = ["Types", "why_no_instance"]

_FUNCTIONS: Final = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)
_RUNNING: Final = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
"""Types of running code. Like `_FUNCTIONS`, they have separate reasons."""
_ANYTHING: Final[tuple[Any, ...]] = (object, Any, te.Any)  # Any is a class from Python 3.11 on
_UNIONS: Final = (typing.Union, types.UnionType)
_MAY_BE_EMPTY: Final = frozenset(
    {list, dict, set, frozenset, deque, OrderedDict}
    | {cabc.Iterable, cabc.Collection, cabc.Sequence, cabc.MutableSequence, cabc.Set, cabc.MutableSet}
    | {cabc.Mapping, cabc.MutableMapping}
)
"""Containers that can be stored if they are empty, whatever the type of their items. The same is true of a tuple of any
length."""


# -- instances of a class ----------------------------------------------------------------------------------------


def why_no_instance(cls: Any, value: Any = None) -> str:
    """Return why instances of *cls* cannot be stored and what to do instead, as a clause about one of them.

    Args:
        cls: A class that no table of encoders has.
        value: The instance; None if there is only a field that would hold one.
    """
    own: str = cls.__qualname__

    def called(kind: str) -> str:
        """Describe the function, class or module by its own name."""
        name = "__qualname__" if issubclass(cls, type) else "__name__"
        return f"a {kind}" if value is None else f"the {kind} {getattr(value, name)}"

    if registry.is_secret(cls):
        return (
            f"is a {own}, and secrets are never stored: read it where it is used, or use graphrt.audit.Secret, "
            "of which only the place is stored"
        )
    if issubclass(cls, type):
        return f"is {called('class')}, which is code: store its name, or an instance"
    if issubclass(cls, _FUNCTIONS):
        return f"is {called('function')}, which is code: store what it gives, or a name for it"
    if issubclass(cls, _RUNNING):
        return f"is a {own}, which is code that runs: store a list of what it gives"
    if issubclass(cls, types.ModuleType):
        return f"is {called('module')}, which is code: store its name"
    if issubclass(cls, BaseException):
        return f"is an exception ({own}): store its text, or let the node raise it"
    return f"is {_unknown(cls, own)}"


def _unknown(cls: Any, name: str) -> str:
    """Return the kind of an instance of *cls*, a class without special support in the codec, and advice."""
    if name == "defaultdict":
        return "a defaultdict, whose factory is code: store dict(it)"
    if cls is object:
        return "an instance of object, which has no value: use None, a text or a member of an enum in its place"
    base = _built_in(cls)
    kind = f"a subclass of {base.__name__}" if base else "a class"
    return f"an instance of {name}, {kind} that the store does not know: {_remedy(cls, name)}"


def _built_in(cls: Any) -> Any:
    """Return the storable built-in class that *cls* derives from; None if there is none."""
    return next((base for base in cls.__mro__[1:-1] if base in registry.BUILT_IN_ENCODERS), None)


def _remedy(cls: Any, name: str) -> str:
    """Return advice on how to make an instance of *cls* storable, depending on the kind of class."""
    if entry_of(cls, name) is not None:  # its fields or members define how it is stored
        return f"use {name} in the annotation of a field, or call graphrt.stores.register_type({name})"
    register = f"call graphrt.stores.register_type({name}, encode=..., decode=...)"
    if issubclass(cls, tzinfo):
        return f"use datetime.timezone or zoneinfo.ZoneInfo, or {register}"
    base = _built_in(cls)
    plain = base.__name__ if base else next((to for kind, to in _PLAIN.items() if issubclass(cls, kind)), None)
    return f"store {plain}(it), or {register}" if plain else register


_PLAIN: Final[dict[Any, str]] = {
    memoryview: "bytes",
    cabc.Mapping: "dict",
    cabc.Set: "list",
    cabc.Sequence: "list",
    cabc.MappingView: "list",
}
"""A function that converts an instance of such a class to a storable value."""


# -- types of fields ---------------------------------------------------------------------------------------------


class Types:
    """Finds out whether a type has values that can be stored.

    `whole` is true for a field itself, where None and empty containers do not count, because the field is meant for
    other values. It is false for the fields of a class that is stored by its fields, because these may never have any
    other value.

    Args:
        known: The classes that have an encoder.
        custom: Those of them whose encoder is a user function, which may store anything.
        is_own: Returns whether a class that is not in *known* can nevertheless be stored.
    """

    def __init__(self, known: Iterable[Any], custom: frozenset[Any], is_own: Callable[[Any], bool]) -> None:
        self._known: frozenset[Any] = frozenset(known)
        self._custom = custom
        self._is_own = is_own
        self._open: set[Any] = set()
        """Classes whose fields are being checked, because a class may refer to itself."""

    def why_never(self, hint: Any) -> str | None:
        """Return why a field with the annotation *hint* can never hold a storable value.

        Returns:
            The reason, as a clause about the value; None if there is such a value, or if that is not certain.
        """
        return self.why(hint, whole=True)

    def why(self, hint: Any, *, whole: bool) -> str | None:
        """Return why no value of the type *hint* can be stored; None if one can, or if that is not certain."""
        origin = typing.get_origin(hint)
        args: tuple[Any, ...] = typing.get_args(hint)
        base: Any = hint if origin is None else origin
        if isinstance(base, (typing.NewType, *ALIASES)):
            return self.why(_meant(base), whole=whole)
        if origin in (Annotated, te.Required, te.NotRequired, te.ReadOnly):
            # A validator in the metadata may make a value that does not fit the type.
            return None if any(_converts(data) for data in args[1:]) else self.why(args[0], whole=whole)
        if origin in _UNIONS:
            return self._union(args, whole=whole)
        if base is type:
            return why_no_instance(type)
        if base is tuple:
            return self._tuple(args, whole=whole)
        if base in _MAY_BE_EMPTY:
            return self._any(args, whole=True) if whole else None
        return self._class(base) if isinstance(base, type) else None

    def _any(self, hints: Iterable[Any], *, whole: bool) -> str | None:
        """Return the first reason among *hints*. One is enough, because a value has parts of all these types."""
        return next((reason for hint in hints if (reason := self.why(hint, whole=whole)) is not None), None)

    def _union(self, hints: tuple[Any, ...], *, whole: bool) -> str | None:
        """Return the reason for the first alternative if none of the alternatives can be stored."""
        if types.NoneType in hints and not whole:
            return None
        reasons = [self.why(hint, whole=whole) for hint in hints if hint is not types.NoneType]
        return None if None in reasons else next(iter(reasons), None)

    def _tuple(self, hints: tuple[Any, ...], *, whole: bool) -> str | None:
        """Return why a tuple cannot be stored. A tuple of any length may be empty, and then it can."""
        if Ellipsis in hints and not whole:
            return None
        return self._any((hint for hint in hints if hint is not Ellipsis), whole=whole)

    def _class(self, cls: Any) -> str | None:
        """Return why no instance of *cls* can be stored."""
        if cls in self._known:
            return None if cls in self._custom or cls in self._open else self._fields(cls)
        if cls in _ANYTHING or inspect.isabstract(cls) or getattr(cls, "_is_protocol", False) or te.is_typeddict(cls):
            return None
        if cls.__module__ == "collections.abc" or (_converts(cls) and not registry.is_secret(cls)):
            return None
        # A value may be an instance of such a subclass.
        if self._is_own(cls) or any(issubclass(known_class, cls) for known_class in self._known):
            return None
        return why_no_instance(cls)

    def _fields(self, cls: Any) -> str | None:
        """Return the reason for the first required field of *cls* that cannot be stored, with its name."""
        self._open.add(cls)
        try:
            for name, hint in _required(cls):
                if (reason := self.why(hint, whole=False)) is not None:
                    return f"has the field {name!r} of {cls.__qualname__}, which {reason}"
        finally:
            self._open.discard(cls)
        return None


def _meant(alias: Any) -> Any:
    """Resolve a NewType or alias to its type; Any if it contains an unknown name.

    Type parameters are not substituted.
    """
    if isinstance(alias, typing.NewType):
        return alias.__supertype__
    try:
        return alias.__value__
    except NameError:
        return Any


def _converts(data: Any) -> bool:
    """Return True if *data*, a class or the metadata of an annotation, defines its own pydantic validation."""
    return hasattr(data, "__get_pydantic_core_schema__") or hasattr(data, "__get_validators__")


def _required(cls: Any) -> list[tuple[str, Any]]:
    """Return the names and annotations of the required fields of the known class *cls*."""
    if issubclass(cls, Enum):
        return []
    if issubclass(cls, BaseModel):
        return [(name, field.annotation) for name, field in cls.model_fields.items() if not field.metadata]
    try:
        hints = te.get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001 - evaluating an annotation may raise anything
        return []
    if dataclasses.is_dataclass(cls):
        return [
            (field.name, hints[field.name]) for field in dataclasses.fields(cls) if field.init and field.name in hints
        ]
    return [(name, hints[name]) for name in getattr(cls, "_fields", ()) if name in hints]
