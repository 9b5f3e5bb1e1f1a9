"""The codec: a Python value as one line of JSON and back, exactly or not at all.

The public face of the package to the rooms above; how each type is written is in the files next to this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from graphrt._codec import answers, failures, registry
from graphrt._codec.own import own_by_class
from graphrt._codec.refusal import MAX_BYTES, MAX_DEPTH, TAG, TOO_LONG, DamagedError, NotStorable
from graphrt._codec.tables import FetchError, Tables
from graphrt._codec.walk import Reader, TooDeepError, UnknownTagError, Watching, Writer
from graphrt.errors import InputError, StoreError, names

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["Codec"]

_TAG_BYTES: Final = to_json(TAG)
_NO_STACK: Final = "is nested too deeply for what is left of Python's stack"
_ESCAPE: Final = rb"\u"
_FLAT: Final = frozenset({int, bool, type(None)})
"""Types of values with nothing in them that could be refused: but for large numbers."""
_SMALL: Final = 2**63


class Codec:
    """Writes and reads the values of one graph.

    Args:
        types: Annotations, for instance the class of the state; every class they lead to is known.

    Raises:
        InputError: Two classes would be stored under one tag (`duplicate-tag`).
    """

    __slots__ = ("_tables", "_types")

    def __init__(self, types: Iterable[Any] = ()) -> None:
        self._types = tuple(types)
        self._tables = Tables(self._types, registry.registered_classes())

    def _current(self) -> Tables:
        tables = self._tables
        registered = registry.registered_classes()
        if tables.registered is not registered:
            self._tables = tables = Tables(self._types, registered)
        return tables

    # -- values ----------------------------------------------------------------------------------------------------

    def dump(self, value: Any, path: str = "") -> bytes:
        """*value* as UTF-8 JSON without a line break; the same value always gives the same bytes.

        Args:
            path: Where the value stands; the path in a refusal begins with it.

        Raises:
            NotStorable: Some part of it would not come back exactly.
        """
        kind: Any = value.__class__
        if kind in _FLAT and (kind is not int or -_SMALL < value < _SMALL):
            return to_json(value)
        return self._encoded(value, path, 0)

    def _encoded(self, value: Any, path: str, depth: int) -> bytes:
        tables = self._tables
        if tables.registered is not registry._registered:
            tables = self._current()
        encoders = tables.encoders
        try:
            try:
                data = to_json(encoders[type(value)](Writer(encoders), value, depth))
            except PydanticSerializationError:  # a lone surrogate: look where
                encoders[type(value)](Writer(encoders, strict=True), value, depth)
                raise
            except TooDeepError:  # perhaps because it contains itself: look where
                watching = Watching(encoders)
                watching[type(value)](Writer(watching), value, depth)
                raise
            if len(data) > MAX_BYTES:
                raise NotStorable(TOO_LONG)
        except NotStorable as refusal:
            refusal.below(path)
            raise
        except RecursionError:
            raise NotStorable(_NO_STACK, path) from None
        return data

    def load(self, data: bytes, fetch: Callable[[str], bytes] | None = None) -> Any:
        """The value that `dump` wrote.

        Args:
            fetch: Returns the bytes of a large value, by their SHA-256; raises KeyError if there are none.

        Raises:
            StoreError: *data* is damaged (`damaged-value`) or holds a class that is not known (`unknown-type`).
        """
        try:
            node = from_json(data, allow_inf_nan=False)
            if is_plain(data):
                return node
            return Reader(self._current().decoders, fetch).value(node, 0)
        except UnknownTagError as unknown:
            raise self._unknown(unknown.tag) from None
        except FetchError as failed:
            raise failed.error from None
        except (StoreError, InputError):
            raise
        except Exception as error:
            raise _damaged(error, data) from error

    # -- types -----------------------------------------------------------------------------------------------------

    def knows(self, cls: type) -> bool:
        """Whether instances of exactly *cls* can be written."""
        return cls in self._current().encoders or own_by_class(cls) is not None

    def describe(self, annotation: Any) -> Any:
        """An answer type as plain JSON data, for `adapter`.

        Raises:
            NotStorable: The type is outside the small grammar that can be written.
        """
        return answers.describe(annotation, self._current())

    def adapter(self, plain: Any) -> TypeAdapter[Any]:
        """What validates an answer against the type that `describe` wrote.

        Raises:
            StoreError: *plain* is damaged (`damaged-value`) or names a class that is not known (`unknown-type`).
        """
        try:
            return answers.adapter(plain, self._current())
        except UnknownTagError as unknown:
            raise self._unknown(unknown.tag) from None
        except Exception as error:
            raise _damaged(error, repr(plain).encode(errors="replace")) from error

    # -- errors ----------------------------------------------------------------------------------------------------

    def dump_error(self, error: BaseException) -> bytes:
        """An exception, which always can be written: exactly if it is Python's or graphrt's, else as a RecordedError."""
        return failures.dump_error(self, error)

    def load_error(self, data: bytes) -> BaseException:
        """The exception that `dump_error` wrote.

        Raises:
            StoreError: *data* is damaged.
        """
        record = self.load(data)
        try:
            return failures.from_record(record)
        except Exception as error:
            raise _damaged(error, data) from error

    def _unknown(self, tag: Any) -> StoreError:
        return StoreError(
            f"The data holds a value of the type {tag!r}, which is not known here.",
            code="unknown-type",
            known=names(sorted(self._tables.classes)) or "no classes besides Python's own",
            fix="declare the class in the state, or call graphrt.stores.register_type(Cls, tag=...) before the data is read",
            value=tag,
        )


def is_plain(data: bytes, *, deep: bool = True) -> bool:
    """Whether *data* is JSON that stands for itself: it has no tag, not even in disguise, and cannot be too deep.

    Args:
        deep: Whether it could be; else that is not looked at.
    """
    # One byte is found many times faster than two.
    return (
        (b"$" not in data or _TAG_BYTES not in data)
        and (b"\\" not in data or _ESCAPE not in data)
        and (not deep or len(data) < MAX_DEPTH or data.count(b"[") + data.count(b"{") < MAX_DEPTH)
    )


def _damaged(error: Exception, data: bytes) -> StoreError:
    begin = data[:60]
    why = str(error) if isinstance(error, DamagedError) else f"{type(error).__name__}: {error}"
    return StoreError(
        f"Stored data cannot be read: {why[:300]}.",
        code="damaged-value",
        where=f"{len(data)} bytes that begin with {begin!r}",
        fix="restore the data from a backup; if a class changed, give its new fields defaults",
    )
