"""The process-wide registry of classes that the program made storable with `graphrt.stores.register_type`.

The only mutable state is a dict that `register` replaces, so codecs detect a change by identity. `tables` combines the
registry with the classes of one graph. For each class there is an `Entry`: its tag, encoder and decoder. For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

from graphrt._codec.containers import CONTAINER_DECODERS, CONTAINER_ENCODERS
from graphrt._codec.entries import builtin_base, custom_entry, entry_of
from graphrt._codec.entry import Entry
from graphrt._codec.leaves import LEAF_DECODERS, LEAF_ENCODERS
from graphrt._codec.own import OWN_TAGS, WORDS
from graphrt._codec.secrets import SECRET_TAG, decode_secret, encode_secret
from graphrt._codec.walk import PLAIN_ENCODERS, Decoder, Encoder
from graphrt._secret import Secret
from graphrt.errors import InputError, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.journal import (
    BAD_REGISTRATION,
    CLASS_WITH_SECRET,
    DUPLICATE_TAG,
    NO_STORED_FORM,
)

__all__ = [
    "BUILT_IN_DECODERS",
    "BUILT_IN_ENCODERS",
    "RESERVED_TAGS",
    "duplicate",
    "is_secret",
    "register",
    "registered_classes",
]

C = TypeVar("C", bound=type[Any])

BUILT_IN_ENCODERS: Final[dict[type, Encoder]] = (
    PLAIN_ENCODERS | LEAF_ENCODERS | CONTAINER_ENCODERS | {Secret: encode_secret}
)
BUILT_IN_DECODERS: Final[dict[str, Decoder]] = LEAF_DECODERS | CONTAINER_DECODERS | {SECRET_TAG: decode_secret}
RESERVED_TAGS: Final = frozenset({"blob", *BUILT_IN_DECODERS, *WORDS.values(), *OWN_TAGS})
"""Reserved tags: those of built-in types, of graphrt's own and pydantic's classes, and of blobs.

A blob is a large value that is stored separately; a reference to it has the tag "blob".
"""

_registered: dict[type, Entry] = {}
"""Entries by class. Never changed in place; codecs compare it by identity."""


@overload
def register(
    cls: C,
    *,
    tag: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> C: ...
@overload
def register(
    cls: None = None,
    *,
    tag: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[C], C]: ...
def register(
    cls: Any = None,
    *,
    tag: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Any:
    """Make instances of a class storable in every store of the process. Also usable as a decorator.

    Classes that the annotations of the state lead to need no registration. Registering a class again replaces its
    earlier registration. Values that were stored under an earlier tag stay readable, unless another class uses that
    tag.

    Args:
        cls: A dataclass, pydantic model, named tuple or enum, whose fields are stored; or any other class, together
            with *encode* and *decode*.
        tag: The name under which instances are stored, by default `cls.__qualname__`. It must not change as long as
            stored data contains it.
        encode: Converts an instance to a value that can be stored.
        decode: Converts that value back to an instance. It may be called with data that an older *encode* wrote.

    Returns:
        *cls*; without *cls*, a decorator.

    Raises:
        InputError: *cls* is not a class, is built in, a metaclass or an exception, or holds a secret; or only one of
            *encode* and *decode* was given, or *cls* needs both (`bad-registration`). *tag* is not text (`input`), or
            belongs to another type (`duplicate-tag`).
    """
    if cls is None:

        def decorator(decorated: Any) -> Any:
            """Register the class below `@register_type(...)`, with the arguments of the call, and return it."""
            return register(decorated, tag=tag, encode=encode, decode=decode)

        return decorator
    _check_class(cls)
    name: Any = cls.__qualname__ if tag is None else tag
    if type(name) is not str or not name:
        raise INVALID_ARGUMENT(
            argument=f"The tag of {cls.__qualname__}", value=name, wanted="a str that is not empty, or leave it out"
        )
    entry = _entry(cls, name, encode, decode)
    # The registrations that remain. A replaced class is omitted, so its tag is free.
    remaining = {
        registered_class: registered_entry
        for registered_class, registered_entry in _registered.items()
        if registered_class is not cls and not _is_older(registered_class, cls)
    }
    holder = next(
        (registered_class for registered_class, registered_entry in remaining.items() if registered_entry.tag == name),
        None,
    )
    if holder is not None or name in RESERVED_TAGS:
        raise duplicate(name, cls, holder)
    current = _registered.get(cls)
    if current is not None:  # two libraries may register the same class under different tags
        former = dict(((current.tag, current.decode), *current.former))
        former.pop(name, None)
        entry = entry._replace(former=tuple(former.items()))
    _replace({**remaining, cls: entry})
    return cls


def _replace(registered: dict[type, Entry]) -> None:
    """Set the registry. Tests also use it, to undo registrations."""
    global _registered  # noqa: PLW0603 - codecs notice a new dict, and other worker threads never see half a change
    _registered = registered


def registered_classes() -> dict[type, Entry]:
    """Return the entries by class, in the order of registration. Every change makes a new dict."""
    return _registered


def _is_older(old: type, new: type) -> bool:
    """Return True if *old* is an earlier definition of *new*: a module was reloaded, or a notebook cell ran again."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


def _is_class(cls: Any) -> bool:
    # A separate function, because after an inline isinstance() pyright would infer a partly unknown type for *cls*.
    return isinstance(cls, type)


def is_secret(cls: Any) -> bool:
    """Return True if the class *cls* is one of pydantic's secret types, which are never stored."""
    from pydantic import Secret, SecretBytes, SecretStr  # loads hashlib; needed only when a value or class is checked

    return issubclass(cls, (SecretStr, SecretBytes, Secret))


def _check_class(cls: Any) -> None:
    """Reject classes that cannot be registered, even with `encode=` and `decode=`.

    Raises:
        InputError: *cls* is not a class, holds a secret, or is of a kind that the codec handles itself: a built-in
            type, a metaclass, an exception (`bad-registration`).
    """
    if not _is_class(cls):
        raise BAD_REGISTRATION(cls=repr(cls), problem="is not a class")
    if is_secret(cls):
        raise CLASS_WITH_SECRET(cls=cls.__qualname__)
    if cls in (*BUILT_IN_ENCODERS, object) or issubclass(cls, (type, BaseException)):
        raise BAD_REGISTRATION(cls=cls.__qualname__, problem="is built in, a metaclass or an exception class")


def _entry(cls: Any, tag: str, encode: Callable[[Any], Any] | None, decode: Callable[[Any], Any] | None) -> Entry:
    """Return the entry of *cls*: with the user's functions, or derived from its fields if neither is given.

    Raises:
        InputError: One of the two functions is missing or cannot be called, or the class has no fields to store
            (`bad-registration`).
    """
    if encode is not None and decode is not None:
        if not all(map(callable, (encode, decode))):
            raise NO_STORED_FORM(cls=cls.__qualname__, problem="encode= and decode= are not functions")
        return custom_entry(cls, tag, encode, decode)
    if encode is not None or decode is not None:
        raise NO_STORED_FORM(cls=cls.__qualname__, problem="only one of encode= and decode= was given")
    entry = entry_of(cls, tag)
    if entry is None:
        built_in = builtin_base(cls)  # the built-in class that it derives from, for instance list, or None
        kind = f"a kind of {built_in.__name__}" if built_in else "no dataclass, model, named tuple or enum"
        raise NO_STORED_FORM(cls=cls.__qualname__, problem=f"it is {kind}")
    return entry


def duplicate(tag: str, cls: Any, other: Any | None) -> InputError:
    """Return the error for two types with the same tag; *other* is None if the tag is one of the codec's own."""
    holder = f"{other.__module__}.{other.__qualname__}" if other else "a built-in type"
    return DUPLICATE_TAG(
        module=cls.__module__,
        cls=cls.__qualname__,
        value=tag,
        holder=holder,
        known=names(sorted(RESERVED_TAGS)) if other is None else "",
    )
