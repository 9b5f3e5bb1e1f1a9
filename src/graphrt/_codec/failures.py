"""Storage of exceptions: an exception that a node raised is stored as a record and restored after a restart.

This is the codec's only lossy form. An exception whose class belongs neither to Python nor to graphrt is restored as a
`RecordedError` with the name of its class and its text. Causes, tracebacks and notes are never kept.

A *record* is a dict that the codec encodes like any other value. Its "kind" is one of:

- "python" and "graphrt": "name" of the class, "args" of the constructor, and "state", attributes by name.
- "group": "message", and "members", the records of the exceptions in an exception group.
- "recorded": "name" and "message" of a `RecordedError`.

`Codec.dump_error` and `Codec.load_error` are the callers. *dump* is the codec's `dump`.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final

from graphrt import errors
from graphrt._codec.refusal import DamagedError, NotStorable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RecordedError", "dump_error", "from_record"]

_MOST_TEXT: Final = 1_000_000
"""Characters after which a message is cut."""
_MOST_LEVELS: Final = 30
"""Levels of nested exception groups that are kept; a deeper group becomes a RecordedError."""


class RecordedError(Exception):
    """An exception read from a store whose class cannot be restored: only its name and text are known."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name
        """`__qualname__` of the exception's class."""
        self.message = message
        """`str()` of the exception."""

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


def _exceptions(module: Any, names: Any) -> dict[str, Any]:
    """Return the exception classes among the attributes *names* of a module, by name."""
    attributes = {name: getattr(module, name) for name in names}
    return {name: cls for name, cls in attributes.items() if isinstance(cls, type) and issubclass(cls, BaseException)}


_GROUPS: Final = frozenset({"BaseExceptionGroup", "ExceptionGroup"})
"""Not in `_BUILT_IN`, because they have their own kind of record."""
_BUILT_IN: Final[dict[str, Any]] = {
    name: cls
    for name, cls in _exceptions(builtins, dir(builtins)).items()
    if cls.__name__ == name and name not in _GROUPS  # IOError and EnvironmentError are aliases of OSError
}
_GRAPHRT: Final[dict[str, Any]] = _exceptions(errors, errors.__all__)
_NAMES_OF: Final[dict[type, str]] = {cls: name for name, cls in (_BUILT_IN | _GRAPHRT).items()}
_NOT_KEPT: Final = frozenset({"__notes__", "declared_at"})
"""Attributes that are not stored. `declared_at` is a path, which would make the journals of two machines differ
(R13)."""
_KEPT_STATE: Final = ("name", "path")
"""Attributes of ImportError, NameError and AttributeError that are stored although they are not in `args`."""


def dump_error(dump: Callable[[Any], bytes], error: BaseException) -> bytes:
    """Return *error* as the bytes of its record. Any exception can be written."""
    try:
        return dump(_record(dump, error, 0))
    except NotStorable:  # the parts can be stored, but not the whole; a "recorded" record always fits
        return dump(_recorded(error))


def _record(dump: Callable[[Any], bytes], error: BaseException, level: int) -> dict[str, Any]:
    """Return the most exact record of *error* that can be stored. *level* counts the enclosing exception groups."""
    cls = type(error)
    if cls in (ExceptionGroup, BaseExceptionGroup) and level < _MOST_LEVELS:
        # A user-defined subclass of a group is not in the closed tables, so it becomes a RecordedError.
        group: Any = error
        members = [_record(dump, member, level + 1) for member in group.exceptions]
        return {"kind": "group", "message": _clean(group.message), "members": members}
    name = _NAMES_OF.get(cls)
    if name is None:
        return _recorded(error)
    args: Any
    state: dict[str, Any]
    if name in _GRAPHRT:
        args, state = error.args, vars(error)
    else:
        # Take the constructor's arguments from `__reduce__`, because OSError drops the file name from `args`.
        reduced: Any = error.__reduce__()
        args = reduced[1]
        state = {key: getattr(error, key) for key in _KEPT_STATE if type(getattr(error, key, None)) is str}
    kind = "graphrt" if name in _GRAPHRT else "python"
    if not _is_storable(dump, args):  # without its arguments it cannot be reconstructed
        return _recorded(error)
    # An attribute that cannot be stored is left out: the exception can be restored without it.
    storable = {key: item for key, item in state.items() if key not in _NOT_KEPT and _is_storable(dump, item)}
    return {"kind": kind, "name": name, "args": args, "state": storable}


def _is_storable(dump: Callable[[Any], bytes], value: Any) -> bool:
    """Return True if *value*, a part of an exception, can be stored. Exceptions may contain arbitrary objects."""
    try:
        dump(value)
    except NotStorable:
        return False
    return True


def _recorded(error: BaseException) -> dict[str, Any]:
    """Return a record of the kind "recorded": the name and the text of *error*."""
    if type(error) is RecordedError:  # when stored again, it keeps the name of the original class
        name, message = error.type_name, error.message
    else:
        name = type(error).__qualname__
        try:
            message = str(error)
        except Exception as broken:  # noqa: BLE001 - __str__ of a user's exception may raise anything
            message = f"<its text cannot be had: {type(broken).__name__}>"
    return {"kind": "recorded", "name": _clean(name), "message": _clean(message)}


def _clean(text: str) -> str:
    """Return *text* as an exact str of at most _MOST_TEXT characters, with lone surrogates escaped."""
    return str(text)[:_MOST_TEXT].encode(errors="backslashreplace").decode()


def from_record(record: Any) -> BaseException:
    """Return the exception that *record* describes.

    Args:
        record: A decoded value: damaged data may have anything in its place.

    Raises:
        DamagedError: *record* is not a record. Any other error on damaged data means the same.
    """
    kind = record["kind"]
    if kind == "recorded":
        return RecordedError(_text(record["name"]), _text(record["message"]))
    if kind == "group":  # Python returns an ExceptionGroup if every member is an Exception
        return BaseExceptionGroup(_text(record["message"]), [from_record(member) for member in record["members"]])
    table = _GRAPHRT if kind == "graphrt" else _BUILT_IN if kind == "python" else {}
    cls = table.get(_text(record["name"]))
    args, state = record["args"], record["state"]
    if cls is None or type(args) is not tuple or type(state) is not dict:
        raise DamagedError("it is not a record of an exception")
    if kind == "graphrt":
        error = cls.__new__(cls, *args)  # the attributes come from `state`, so __init__ is not needed
        error.__dict__.update(state)
        return error  # type: ignore[no-any-return]  # of the closed table
    error = cls(*args)
    for key in _KEPT_STATE:
        if key in state:
            setattr(error, key, _text(state[key]))
    if type(error) is not cls:  # OSError(2, "...") creates a FileNotFoundError
        raise DamagedError(f"{record['name']} with these arguments is a {type(error).__name__}")
    return error  # type: ignore[no-any-return]  # of the closed table


def _text(value: Any) -> str:
    """Return *value* if it is text.

    Raises:
        DamagedError: It is not.
    """
    if type(value) is not str:
        raise DamagedError(f"text was expected, not {type(value).__name__}")
    return value
