"""The entry of one class, and what the encoders and decoders of classes with attributes have in common.

These are dataclasses and named tuples (`entries`) and pydantic models (`models`). Their encoders refuse an instance
with an attribute that is not a field. Their decoders fill in the defaults of fields that stored data lacks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from graphrt._codec.refusal import ClassChangedError
from graphrt._codec.walk import Decoder, Encoder

__all__ = ["NONE", "Entry", "complete", "own_attributes", "strangers"]

NONE: Final = object()
"""In place of a default: the field has no default."""


class Entry(NamedTuple):
    """Tag, encoder and decoder of one class."""

    cls: Any
    tag: str
    """The name under which stored data has instances of the class."""
    encode: Encoder
    decode: Decoder
    own: bool = False
    """True if the user registered the class with `encode=` and `decode=`, its own functions."""


def strangers(cls: Any, attributes: Iterable[str]) -> str:
    """Return the reason to refuse an instance of *cls*, as a clause; empty if its *attributes* may be left out.

    Args:
        cls: The class, a dataclass, named tuple or model.
        attributes: Names of attributes of the instance that are not fields, and so would be lost. Those of cached
            properties may be left out: they are computed again.
    """
    found = [name for name in attributes if not isinstance(_class_attribute(cls, name), functools.cached_property)]
    if not found:
        return ""
    return (
        f"is a {cls.__qualname__} with the attribute {found[0]!r}, which is not a field of it: "
        f"declare the field, or give graphrt.stores.register_type({cls.__qualname__}) encode= and decode="
    )


def _class_attribute(cls: Any, name: str) -> Any:
    """Return the attribute as its class has it; None if only the instance has it. Descriptors are not called."""
    return next((own[name] for own in own_attributes(cls) if name in own), None)


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
        values: Stored values by field; gets the defaults.
        names: All fields of the class.
        default: Returns the default of a field, or NONE.
        optional: Returns True if a field may stay without a value, as one with init=False that was never set.

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
