"""The entry of one class, and the code shared by classes with attributes.

These are dataclasses and named tuples (`entries`) and pydantic models (`models`). Their encoders reject an instance
with an attribute that is not a field. Their decoders fill in the defaults of fields that are missing in stored data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from graphrt._codec.refusal import ClassChangedError
from graphrt._codec.walk import Decoder, Encoder

__all__ = ["NONE", "Entry", "complete", "own_attributes", "strangers"]

NONE: Final = object()
"""Sentinel for a field without a default."""


class Entry(NamedTuple):
    """Tag, encoder and decoder of one class."""

    cls: Any
    tag: str
    """The name of the class in stored data."""
    encode: Encoder
    decode: Decoder
    by_functions: bool = False
    """True if functions define the stored form: those of a registration, or those of a pydantic value class. The value
    under "v" is then not the fields of the class."""
    former: tuple[tuple[str, Decoder], ...] = ()
    """Earlier tags of the class in this process, with their decoders. They can be read but are not written."""


def strangers(cls: Any, attributes: Iterable[str]) -> str:
    """Return the reason to reject an instance of *cls*, as a clause; empty if its *attributes* may be left out.

    Args:
        cls: The class, a dataclass, named tuple or model.
        attributes: Names of attributes of the instance that are not fields, and would therefore be lost. Cached
            properties may be left out, because they are computed again.
    """
    undeclared = [name for name in attributes if not isinstance(_class_attribute(cls, name), functools.cached_property)]
    if not undeclared:
        return ""
    return (
        f"is a {cls.__qualname__} with the attribute {undeclared[0]!r}, which is not a field of it: "
        f"declare the field, or give graphrt.stores.register_type({cls.__qualname__}) encode= and decode="
    )


def _class_attribute(cls: Any, name: str) -> Any:
    """Return the attribute from the class; None if only the instance has it. Descriptors are not called."""
    return next((attributes[name] for attributes in own_attributes(cls) if name in attributes), None)


def own_attributes(cls: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the attributes in the body of *cls* and of each base, in method resolution order."""
    for base in cls.__mro__:
        yield base.__dict__


def complete(
    cls: Any,
    values: dict[str, Any],
    names: Iterable[str],
    default: Callable[[str], Any],
    optional: Callable[[str], bool],
) -> None:
    """Add to *values*, in place, the defaults of fields that were added to *cls* after the values were stored.

    Args:
        cls: The class, for messages.
        values: Stored values by field, to which the defaults are added.
        names: All fields of the class.
        default: Returns the default of a field, or NONE.
        optional: Returns True if a field may stay without a value, such as one with init=False that was never set.

    Raises:
        ClassChangedError: A name in *values* is not a field, or a field has neither a value nor a default.
    """
    unknown = [name for name in values if name not in names]
    if unknown:
        raise ClassChangedError(f"{cls.__qualname__} has no field {unknown[0]!r}")
    for name in names:
        if name not in values:
            value = default(name)
            if value is not NONE:
                values[name] = value
            elif not optional(name):
                raise ClassChangedError(f"the field {name!r} of {cls.__qualname__} has neither a value nor a default")
