"""Entries of the classes that the codec knows: a tag, an encoder and a decoder for each.

Covers dataclasses, named tuples, enums, and classes registered with `encode=` and `decode=`; pydantic models are in
`models`. Instances are rebuilt without their `__init__` and validators: a stored value was valid when it was written,
and is restored exactly (decision 0024).

Each kind of class has a function that creates its encoder and decoder:

- `encode(writer, value, depth)` returns a tagged object; *depth* counts the containers around *value*. `writer.enter`
  rejects values that are too deep or too large, based on the minimum number of bytes that the value takes.
- `decode(reader, node, depth)` receives a tagged object as *node*, and returns the value. `only(node)` is the part
  under "v". Any error that it raises means that the data is damaged.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from graphrt._codec.entry import NONE, Entry, complete, own_attributes, strangers
from graphrt._codec.models import model_entry
from graphrt._codec.pydantic_values import is_url, url_entry
from graphrt._codec.refusal import TAG, ClassChangedError, DamagedError, NotStorable
from graphrt._codec.walk import TAGGED_BYTES, Reader, Writer, only, text_of

__all__ = ["builtin_base", "custom_entry", "entry_of"]

_TUPLE: Final[Any] = tuple
"""For calls of tuple's own methods: a named tuple may override `__iter__` and `__new__`."""
_HEAP_TYPE: Final = 1 << 9
"""CPython's Py_TPFLAGS_HEAPTYPE in `__flags__`. Classes without it are written in C; so are some classes with it."""
_NEW_IN_C: Final[Any] = type(object.__new__)
"""Type of the `__new__` of classes that are written in C."""


def entry_of(cls: Any, tag: str) -> Entry | None:
    """Return the entry of an enum, model, URL, named tuple or dataclass; None for any other class.

    A subclass of a built-in type does not count as a dataclass, because its content is not in its attributes.
    """
    if issubclass(cls, Enum):
        return _enum_entry(cls, tag)
    if issubclass(cls, BaseModel):
        return model_entry(cls, tag)
    if is_url(cls):
        return url_entry(cls, tag)
    if builtin_base(cls) is tuple and hasattr(cls, "_field_defaults"):
        return _named_tuple_entry(cls, tag)
    if dataclasses.is_dataclass(cls) and builtin_base(cls) is None:
        return _dataclass_entry(cls, tag)
    return None


def builtin_base(cls: Any) -> Any:
    """Return the class written in C that *cls* derives from, for instance list; None if it is only object.

    The content of an instance is then not in its attributes.
    """
    bases: tuple[Any, ...] = cls.__mro__
    return next((base for base in bases if base is not object and _is_in_c(base)), None)


def _is_in_c(cls: Any) -> bool:
    """Return whether *cls* is written in C, with the test that `copyreg` uses.

    Many classes written in C are heap types, like those of class statements: `array` in Python 3.11, `deque` since
    3.12, `Decimal` since 3.13. They have a `__new__` that is bound to them, which a class statement cannot create.
    """
    new: Any = cls.__dict__.get("__new__")
    return not cls.__flags__ & _HEAP_TYPE or (isinstance(new, _NEW_IN_C) and new.__self__ is cls)


# -- by attributes -----------------------------------------------------------------------------------------------


def _slots_beside(cls: Any, fields: Iterable[str]) -> list[str]:
    """Return the slots of *cls* and its bases that are not fields. A value in one of them would be lost."""
    slots: list[str] = []
    for attributes in own_attributes(cls):
        declared = attributes.get("__slots__", ())
        slots += [declared] if isinstance(declared, str) else declared
    return [name for name in slots if name not in {*fields, "__dict__", "__weakref__"}]


def _default_of(field: dataclasses.Field[Any]) -> Any:
    """Return a new default value for the field; NONE if it has no default."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return NONE


def _dataclass_entry(cls: Any, tag: str) -> Entry:
    """Return the entry of a dataclass, whose stored form has the values by field name."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    names = fields.keys()
    slots = _slots_beside(cls, names)
    put = object.__setattr__  # bypasses frozen dataclasses and a user-defined `__setattr__`

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_BYTES)
        values: dict[str, Any] = {}
        for name, field in fields.items():
            try:
                values[name] = getattr(value, name)
            except AttributeError:
                # Only a field with init=False and no default may be unset. For any other, the decoder would fill in the
                # default, or reject the data.
                if field.init or _default_of(field) is not NONE:
                    raise NotStorable(f"is a {cls.__qualname__} without a value for its field {name!r}") from None
        attributes = getattr(value, "__dict__", {})
        if attributes.keys() - names or slots:  # attributes of the instance that are not fields
            undeclared = [name for name in (*attributes, *slots) if name not in names and hasattr(value, name)]
            if reason := strangers(cls, undeclared):
                raise NotStorable(reason)
        return {TAG: tag, "v": writer.named(values, depth + 1)}

    def decode(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        values = reader.named(only(node), depth)
        complete(cls, values, names, lambda name: _default_of(fields[name]), lambda name: not fields[name].init)
        instance = object.__new__(cls)
        for name, value in values.items():
            put(instance, name, value)
        return instance

    return Entry(cls, tag, encode, decode)


# -- named tuples ------------------------------------------------------------------------------------------------


def _named_tuple_entry(cls: Any, tag: str) -> Entry:
    """Return the entry of a named tuple, whose stored form has the values in the order of the fields."""
    fields: tuple[str, ...] = tuple(cls._fields)
    defaults: Mapping[str, Any] = cls._field_defaults

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_BYTES + len(value))
        if reason := strangers(cls, getattr(value, "__dict__", {})):
            raise NotStorable(reason)
        if len(value) != len(fields):
            # Created by `tuple.__new__`, bypassing the class's own.
            raise NotStorable(f"is a {cls.__qualname__} of {len(value)} values, not {len(fields)}")
        items: list[Any] = list(_TUPLE.__iter__(value))
        encoded = [writer.at(f".{name}", item, depth + 1) for name, item in zip(fields, items, strict=True)]
        return {TAG: tag, "v": encoded}

    def decode(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        items = reader.items(only(node), depth)
        missing = fields[len(items) :]  # fields added at the end of the class after the value was stored
        if len(items) > len(fields) or any(name not in defaults for name in missing):
            raise ClassChangedError(f"{cls.__qualname__} has {len(fields)} fields, and {len(items)} values were stored")
        return _TUPLE.__new__(cls, [*items, *(defaults[name] for name in missing)])

    return Entry(cls, tag, encode, decode)


# -- enums -------------------------------------------------------------------------------------------------------


def _enum_entry(cls: Any, tag: str) -> Entry:
    """Return the entry of an enum, whose stored form has the member's name; for combined flags, their number."""
    members: dict[str, Any] = dict(cls.__members__)

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_BYTES)
        name = value._name_
        if name is not None and members.get(name) is value:
            return {TAG: tag, "v": name}
        number = value._value_  # not a single member: a combination of flags has no name
        if number.__class__ is not int or cls(number) is not value:
            raise NotStorable(f"is {value!r}, which is not among the members of {cls.__qualname__}")
        # `at` calls the encoder of int, which returns the int itself or rejects one with too many digits. An int is not
        # a container, so its depth does not matter. The empty step leaves the path of a refusal unchanged.
        return {TAG: tag, "v": writer.at("", number, depth)}

    def decode(_reader: Reader, node: dict[str, Any], _depth: int) -> Any:
        name = only(node)
        if name.__class__ is int:  # combined flags: the number itself is stored, so no decoder is needed
            try:
                return cls(name)
            except ValueError:
                raise ClassChangedError(f"{cls.__qualname__} has no members that make up {name}") from None
        member = members.get(text_of(name))
        if member is None:
            raise ClassChangedError(f"{cls.__qualname__} has no member {name!r}")
        return member

    return Entry(cls, tag, encode, decode)


# -- user functions -------------------------------------------------------------------------------------


def custom_entry(cls: Any, tag: str, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Entry:
    """Return the entry of a class that the program registered with encode and decode functions.

    Args:
        cls: The class.
        tag: Its tag.
        write: The user's `encode=`, from an instance to any value that can be stored.
        read: The user's `decode=`, from that value to an instance.
    """

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_BYTES)
        try:
            plain = write(value)
        except Exception as error:
            reason = f"is a {cls.__qualname__}, whose encode= raised {type(error).__name__}: {error}"
            raise NotStorable(reason) from error
        # The empty step keeps a refusal's path at the instance, not at a part of what encode= returned. The depth is
        # one greater, because this object encloses the value, which may be a container itself.
        return {TAG: tag, "v": writer.at("", plain, depth + 1)}

    def decode(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        instance = read(reader.value(only(node), depth + 1))
        if instance.__class__ is not cls:
            raise DamagedError(f"decode= of {cls.__qualname__} gave {type(instance).__name__}")
        return instance

    return Entry(cls, tag, encode, decode, by_functions=True)
