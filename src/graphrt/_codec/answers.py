"""Answer types of questions as plain JSON data, in a small closed grammar: `describe` writes it, `adapter` reads it.

    "int"                                       a key of `_NAMES`
    {"list": T} {"set": T} {"frozenset": T}     collections
    {"dict": [K, V]} {"tuple": [T, ...]} {"tuple...": T}
    {"union": [T, ...]}                         Optional as well
    {"literal": [value, ...]}                   text, integers, booleans, null; {"enum": [tag, name]}
    {"class": tag}                              a class that the codec knows

An answer may arrive after a restart, so its type is stored with the question. Stored data can only select from these
lists and from the tags of the classes that the codec knows (`Tables`); it never names code to import. `Codec.describe`
and `Codec.adapter` are the callers.

In both directions, *depth* counts the enclosing types, so that no input can exhaust Python's stack.
"""

from __future__ import annotations

import datetime as dt
import types
import typing
import uuid
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeGuard, Union, cast

import typing_extensions as te
from pydantic import InstanceOf, StrictBool, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from graphrt._codec.discovery import ALIASES
from graphrt._codec.refusal import MAX_DEPTH, DamagedError, NotStorable
from graphrt._codec.walk import UnknownTagError
from graphrt._type_adapters import adapter_of

if TYPE_CHECKING:
    from graphrt._codec.tables import Tables

__all__ = ["adapter", "describe", "type_text"]

_NAMES: Final[dict[str, Any]] = {
    "none": None,
    "any": Any,
    "bool": StrictBool,  # strict, as for approvals: neither "yes" nor 1 counts as True
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "date": dt.date,
    "datetime": dt.datetime,
    "time": dt.time,
    "timedelta": dt.timedelta,
    "decimal": Decimal,
    "uuid": uuid.UUID,
}
_TYPES: Final[dict[Any, str]] = {annotation: name for name, annotation in _NAMES.items()} | {
    type(None): "none",
    bool: "bool",
}
"""The reverse of `_NAMES`."""
_ONE: Final[dict[str, Any]] = {"list": list, "set": set, "frozenset": frozenset}
"""Collections with one type argument."""
# Typed as `Any`, because they are subscripted with types that are known only at run time.
_TUPLE: Final[Any] = tuple
_DICT: Final[Any] = dict
_UNION: Final[Any] = Union
_LITERAL: Final[Any] = Literal
_INSTANCE_OF: Final[Any] = InstanceOf
_LITERALS: Final = frozenset({Literal, te.Literal})


def describe(annotation: Any, tables: Tables, depth: int = 0) -> Any:
    """Return *annotation* as data of the grammar.

    Args:
        annotation: A type.
        tables: The classes that have tags.
        depth: Levels of types around this one.

    Raises:
        NotStorable: The type is outside the grammar, or nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise NotStorable(f"is nested more than {MAX_DEPTH} levels deep")
    annotation = _plain(annotation)
    if not _is_hashable(annotation):
        raise NotStorable(f"is {annotation!r}, which is not a type")
    name = _TYPES.get(annotation)
    if name is not None:
        return name
    origin = typing.get_origin(annotation) or annotation
    args = typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return {"union": [describe(arg, tables, depth + 1) for arg in args]}
    if origin in _LITERALS:
        return {"literal": [_describe_literal(value, tables) for value in args]}
    collection = _describe_collection(annotation, origin, args, tables, depth + 1)
    if collection is not None:
        return collection
    if isinstance(annotation, type):  # not for a generic alias such as `Box[int]`, whose tag would lose the argument
        tag = _tag_of(origin, tables)
        if tag is not None:
            return {"class": tag}
    raise NotStorable(f"is the type {_shown(annotation)}, which cannot be an answer type that survives a restart")


def type_text(plain: Any) -> str:
    """Return a type that `describe` wrote as text for people, such as `Verdict | list[str]`."""
    if not isinstance(plain, dict):
        return str(plain)
    form, content = next(iter(cast("dict[str, Any]", plain).items()))
    if form == "class":
        return str(content)
    if form == "literal":
        return " | ".join(map(repr, content))
    items: list[Any] = content if content.__class__ is list else [content]
    inner = [type_text(item) for item in items]
    if form == "tuple...":
        return f"tuple[{inner[0]}, ...]"
    return " | ".join(inner) if form == "union" else f"{form}[{', '.join(inner)}]"


def _describe_collection(annotation: Any, origin: Any, args: Any, tables: Tables, depth: int) -> Any:
    """Return a collection type as data of the grammar; None if *annotation* is another type.

    Args:
        annotation: The type. A bare one, such as `list`, has items of any type.
        origin: The collection's class.
        args: The type arguments of *annotation*; empty for a bare type, and for `tuple[()]`.
        tables: As for `describe`.
        depth: As for `describe`, for the type arguments.
    """
    if origin is tuple and args[1:] != (Ellipsis,) and annotation is not tuple:
        return {"tuple": [describe(arg, tables, depth) for arg in args]}
    if origin is tuple:
        return {"tuple...": describe(args[0] if args else Any, tables, depth)}
    if origin is dict:
        return {"dict": [describe(arg, tables, depth) for arg in args or (Any, Any)]}
    key = next((key for key, cls in _ONE.items() if origin is cls), None)
    return None if key is None else {key: describe(args[0] if args else Any, tables, depth)}


def _plain(annotation: Any) -> Any:
    """Return *annotation* without the aliases and NewTypes around it.

    Raises:
        NotStorable: A name in an alias is undefined.
    """
    for _ in range(MAX_DEPTH):  # bounded, because an alias may refer to itself
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, ALIASES):
            try:
                annotation = annotation.__value__
            except NameError as error:  # PEP 695: the value is evaluated lazily and contains an undefined name
                raise NotStorable(f"is the alias {annotation}, in which {error}") from None
        else:
            break
    return annotation


def _is_hashable(value: Any) -> bool:
    """Return True if *value* can be looked up in `_TYPES`. Users may pass any object as a type."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _tag_of(cls: Any, tables: Tables) -> str | None:
    """Return the tag of *cls*; None if it is not in the table, as built-in types are not."""
    return next((tag for tag, entry in tables.classes.items() if entry.cls is cls), None)


def _shown(annotation: Any) -> str:
    """Describe a rejected type, for the error."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _describe_literal(value: Any, tables: Tables) -> Any:
    """Return one value of a Literal as data of the grammar.

    Raises:
        NotStorable: It is a member of an unknown enum, or of a type that the grammar does not have, such as bytes.
    """
    if isinstance(value, Enum):
        tag = _tag_of(type(value), tables)
        if tag is None:
            raise NotStorable(
                f"names a member of {type(value).__qualname__}, a class that the store does not know: use it in the annotation of a field"
            )
        return {"enum": [tag, value.name]}
    if type(value) in (str, int, bool, type(None)):
        return value
    raise NotStorable(f"names the literal {value!r}, which cannot be part of an answer type")


# -- reading -----------------------------------------------------------------------------------------------------


def adapter(plain: Any, tables: Tables) -> TypeAdapter[Any]:
    """Return a pydantic adapter that validates answers of the type *plain*, which is data of the grammar.

    Raises:
        DamagedError: *plain* is not in the grammar. Any other error on damaged data means the same.
        UnknownTagError: *plain* has the tag of a class that the codec does not know.
    """
    return adapter_of(_annotation(plain, tables, 0))


def _annotation(plain: Any, tables: Tables, depth: int) -> Any:
    """Return the type that *plain* describes; the errors are those of `adapter`."""
    if depth > MAX_DEPTH:
        raise DamagedError(f"it is nested more than {MAX_DEPTH} levels deep")
    if type(plain) is str:
        if plain not in _NAMES:
            raise DamagedError(f"{plain!r} is not a name of an answer type")
        return _NAMES[plain]
    kind, inner = _item(plain)
    return _collection(kind, inner, tables, depth)


def _item(plain: Any) -> tuple[Any, Any]:
    """Return key and value of an object of the grammar, which has exactly one key: the kind of type.

    Raises:
        DamagedError: *plain* is not a dict with one key.
    """
    items = list(_mapping(plain).items())
    if len(items) != 1:
        raise DamagedError("it is not an answer type")
    return items[0]


def _mapping(plain: Any) -> dict[Any, Any]:
    """Return *plain* if it is a dict, else raise a DamagedError."""
    if not _is_dict(plain):
        raise DamagedError("it is not an answer type")
    return plain


# Plain isinstance() would leave type checkers with a dict or list of unknown contents.
def _is_dict(plain: Any) -> TypeGuard[dict[Any, Any]]:
    return isinstance(plain, dict)


def _is_list(plain: Any) -> TypeGuard[list[Any]]:
    return isinstance(plain, list)


def _collection(kind: Any, inner: Any, tables: Tables, depth: int) -> Any:
    """Return the type that the object `{kind: inner}` describes; the errors are those of `adapter`."""
    if kind in _ONE:
        return _ONE[kind][_annotation(inner, tables, depth + 1)]
    if kind == "tuple...":
        return _TUPLE[_annotation(inner, tables, depth + 1), ...]
    if kind == "class":
        return _class(inner, tables.classes)
    if kind == "literal":
        return _exact(_LITERAL[_some(kind, [_literal(value, tables.classes) for value in _listed(inner)])])
    return _compound(kind, tuple(_annotation(part, tables, depth + 1) for part in _listed(inner)))


def _exact(literal: Any) -> Any:
    """Return *literal* with a validator that distinguishes True from 1, which pydantic treats as equal."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        """Return the literal that pydantic matched to *value*; reject the match if only one of the two is a bool."""
        matched = handler(value)
        if isinstance(matched, bool) is not isinstance(value, bool):
            raise PydanticCustomError(
                "literal_error",
                "Input should be {wanted}, not {given}",
                {"wanted": repr(matched), "given": repr(value)},
            )
        return matched

    return te.Annotated[literal, WrapValidator(check)]


def _listed(inner: Any) -> list[Any]:
    """Return *inner* if it is a list.

    Raises:
        DamagedError: It is not.
    """
    if not _is_list(inner):
        raise DamagedError(f"a list was expected, not {type(inner).__name__}")
    return inner


def _compound(kind: Any, parts: tuple[Any, ...]) -> Any:
    """Return the dict, tuple of fixed length or union of the types *parts*.

    Raises:
        DamagedError: *kind* is none of these, or has a wrong number of parts.
    """
    if kind == "dict" and len(parts) == 2:
        return _DICT[parts]
    if kind == "tuple":
        return _TUPLE[parts]
    if kind == "union":
        return _UNION[_some(kind, parts)]
    raise DamagedError(f"{kind!r} is not a kind of answer type")


def _some(kind: str, parts: Iterable[Any]) -> tuple[Any, ...]:
    """Return *parts* as a tuple. Python accepts neither an empty union nor an empty Literal.

    Raises:
        DamagedError: *parts* is empty.
    """
    members = tuple(parts)
    if not members:
        raise DamagedError(f"{kind!r} is empty")
    return members


def _class(tag: Any, classes: Mapping[str, Any]) -> Any:
    """Return the type of an answer that is an instance of the class with *tag*.

    Args:
        tag: As stored; any value.
        classes: Entries (`entry.Entry`) by tag.

    Raises:
        UnknownTagError: No class has the tag.
    """
    entry = classes.get(tag) if type(tag) is str else None
    if entry is None:
        raise UnknownTagError(tag)
    # pydantic may be unable to validate a class that was registered with encode= and decode=. An answer must then be an
    # instance of the class.
    return _INSTANCE_OF[entry.cls] if entry.by_functions else entry.cls


def _literal(value: Any, classes: Mapping[str, Any]) -> Any:
    """Return the value of a Literal that `_describe_literal` wrote; *classes* as for `_class`.

    Raises:
        DamagedError: It is not one. KeyError for an unknown name and ValueError for other damage mean the same.
        UnknownTagError: It is a member of an enum that the codec does not know.
    """
    if type(value) is dict:  # {"enum": [tag, name]}: `_item` returns its key and its value
        tag, name = _listed(_item(value)[1])
        # Raises if the tag is unknown; the class may be wrapped for pydantic, so use the entry's own.
        _class(tag, classes)
        cls = classes[tag].cls
        if not issubclass(cls, Enum):
            raise DamagedError(f"{tag!r} is not an enum")
        return cls.__members__[name]
    if type(value) not in (str, int, bool, type(None)):
        raise DamagedError(f"{value!r} is not a literal")
    return value
