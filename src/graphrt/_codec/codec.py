"""The codec: writes a Python value as one line of JSON and reads it back, exactly or not at all.

`Codec` is the only class of this package that the rest of graphrt uses. The other modules define how each type is
written. Terms:

- A value of one of JSON's own types is *plain*. Any other value is *tagged*: it is written as `{"$t": tag, "v": ...}`,
  where the tag names its type.
- The *tables* have an encoder for each class and a decoder for each tag that this codec knows. They are built from
  annotations and from the registry of classes that the program passed to `register_type`.
- A *refusal* is a `NotStorable`. It contains the reason, and the path of the part that cannot be stored.
- The data contains the hash of a blob in place of the blob.
- The data contains the name of a `Secret`'s field in place of the `Secret`.
- A *Writer* is the walk from a value to JSON data, a *Reader* the walk back. *depth* counts the containers around a
  value, so the walk of a whole value starts at 0.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from graphrt._codec import answers, failures, registry
from graphrt._codec.entry import Entry
from graphrt._codec.own import own_by_class, own_by_tag
from graphrt._codec.refusal import MAX_BYTES, MAX_DEPTH, TAG, TOO_LONG, ClassChangedError, DamagedError, NotStorable
from graphrt._codec.tables import Tables
from graphrt._codec.texts import CannotHoldError, TextRules, TextWalk
from graphrt._codec.unstorable import Types, why_no_instance
from graphrt._codec.walk import FetchError, Reader, TooDeepError, UnknownTagError, Watching, Writer
from graphrt._secret import Secret
from graphrt.errors import InputError, StoreError, names
from graphrt.errors._codes.journal import CLASS_CHANGED, DAMAGED_VALUE, UNKNOWN_TYPE

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["Codec"]

_TAG_BYTES: Final = to_json(TAG)
"""The tag key `$t` as JSON text, quotes included."""
_NO_STACK: Final = "is nested too deeply for what is left of Python's stack"
"""Refusal reason if encoding raised a RecursionError before it reached the codec's own depth limit."""
_ESCAPE: Final = rb"\u"
"""A JSON escape, which may hide the tag key: `\\u0024t` is `$t`."""
_FLAT: Final = frozenset({int, bool, type(None)})
"""Types whose values contain no other values and cannot be refused, except for very large integers."""
_SMALL: Final = 2**63
"""Integers of a smaller magnitude are encoded without a comparison with MAX_INT."""


class Codec:
    """Encoder and decoder of the values of one graph.

    Args:
        types: Annotations, for instance the state class. The codec knows every class reachable from them, and every
            class that is registered explicitly, now or later.

    Raises:
        InputError: Two classes would be stored under the same tag (`duplicate-tag`). Methods that encode or decode also
            raise it after the program has registered a class with the tag of another class.
    """

    __slots__ = ("_forgiving", "_plain", "_tables", "_types")

    def __init__(self, types: Iterable[Any] = (), *, plain: frozenset[str] | None = None) -> None:
        # Kept, because the tables are rebuilt whenever the program registers a class.
        self._types = tuple(types)
        self._plain = plain
        self._tables = Tables(self._types, registry.registered_classes(), plain)
        self._forgiving: dict[frozenset[str], Codec] = {}

    def forgiving(self, plain: Iterable[str] = ()) -> Codec:
        """Return a codec that reads values that no longer fit their classes as plain data.

        Plain data is the stored form of an instance: a dict of its fields, a list for a named tuple, the member's name
        for an enum. Values inside it are read as usual. Needed for threads of an older graph (R14).

        Args:
            plain: Names (`__qualname__`) of classes whose values are always read as plain data. Values of other classes
                are read as plain data if they do not fit, or if the class is unknown.
        """
        classes = frozenset(plain)
        if classes not in self._forgiving:
            self._forgiving[classes] = Codec(self._types, plain=classes)
        return self._forgiving[classes]

    def _current(self) -> Tables:
        """Return the tables, rebuilt if a class was registered since they were built.

        Raises:
            InputError: Two classes would be stored under the same tag (`duplicate-tag`).
        """
        tables = self._tables
        registered = registry.registered_classes()
        if tables.registered is not registered:
            met_secrets = tables.encoders.met_secrets
            self._tables = tables = Tables(self._types, registered, self._plain)
            tables.encoders.met_secrets = met_secrets
        return tables

    # -- values ----------------------------------------------------------------------------------------------------

    def dump(self, value: Any, path: str = "", blobs: dict[str, bytes] | None = None) -> bytes:
        """Return *value* as UTF-8 JSON without a line break. The same value always gives the same bytes.

        Args:
            value: Any Python value.
            path: Location of the value, for instance the name of a field. The path in a refusal begins with it.
            blobs: Receives the bytes of images, audio and documents by their SHA-256, which replaces them in the
                result. None: the result contains the bytes.

        Raises:
            NotStorable: Some part of the value would not come back exactly, or the value is too large or too deep.
        """
        # Fast path: the most common small values cannot be refused, so they are written without a walk.
        kind: Any = value.__class__
        if kind in _FLAT and (kind is not int or -_SMALL < value < _SMALL):
            return to_json(value)
        return self._encoded(value, path, 0, blobs=blobs)

    def rewrite(self, value: Any, path: str, rules: TextRules) -> Any:
        """Return *value* with its texts replaced according to *rules*; *value* itself if no text was replaced.

        Redaction (`graphrt.audit`) uses this to replace personal data when a value enters a thread. The result is
        rebuilt from the encoded form, so it equals what a store would return. Secrets are passed through unchanged.

        Args:
            value: Any Python value.
            path: The field that the value belongs to, or empty. It is the first of the names that *rules* receive with
                each text; the others are the fields and keys on the way to the text.
            rules: Called for each text, and for each value that is not a text.

        Raises:
            NotStorable: Some part of the value has no encoded form.
            CannotHoldError: The value cannot hold the replacement of a text. Errors raised by *rules* are propagated
                unchanged.
        """
        secrets: list[Any] = []
        node = from_json(self._encoded(value, path, 0, secrets), allow_inf_nan=False)
        tables = self._current()

        def entry(tag: str) -> Entry | None:
            """Return the entry of the class with *tag*; None if the tag is that of a built-in type."""
            return tables.classes.get(tag) or own_by_tag(tag)

        walk = TextWalk(entry, rules)
        node = walk.node(node, (path,) if path else ())
        if not walk.changed:
            return value
        misfit = ""
        try:
            # None for `fetch`: encoders write no references to blobs.
            return Reader(tables.decoders, None, secrets).value(node, 0)
        except Exception as error:  # noqa: BLE001 - decoders may raise anything
            misfit = type(error).__name__
        # Raised outside the `except`, so that the decoder's error, which may quote the text, is not chained.
        raise CannotHoldError(f"its class refuses the text ({misfit})")

    @property
    def met_secrets(self) -> bool:
        """True once a value that contains a Secret was encoded; few graphs have any.

        Callers check this cheap flag before they call `secrets_in`, which encodes a value.
        """
        return self._tables.encoders.met_secrets

    def secrets_in(self, value: Any) -> list[Secret[Any]]:
        """Return the Secrets in *value*, so that a runtime can keep in memory what is never stored.

        They are in the order of the walk. A Secret that occurs twice in *value* is listed twice.

        Raises:
            NotStorable: Some part of the value has no encoded form.
        """
        secrets: list[Any] = []
        self._encoded(value, "", 0, secrets)
        return secrets

    def _encoded(
        self,
        value: Any,
        path: str,
        depth: int,
        secrets: list[Any] | None = None,
        blobs: dict[str, bytes] | None = None,
    ) -> bytes:
        """Encode *value* by a walk over its parts, for `dump`, `rewrite` and `secrets_in`.

        Args:
            value: Any Python value.
            path: The path in a refusal begins with it. A Secret in the value is written as this text.
            depth: Containers around the value.
            secrets: Receives the Secrets in the value, each of which is then written as its index in this list.
            blobs: As for `dump`.

        Raises:
            NotStorable: As for `dump`.
        """
        tables = self._tables
        # A class was registered in the meantime; checked inline to save a call.
        if tables.registered is not registry._registered:
            tables = self._current()
        encoders = tables.encoders
        try:
            # The common walk skips slow checks that are rarely needed. If it fails, a second walk with these checks
            # raises a NotStorable that names the part; the bare `raise` is reached if that walk finds nothing. Its data
            # is discarded, so its Writer needs neither field nor secrets.
            try:
                writer = Writer(encoders, field=path, secrets=secrets, blobs=blobs)
                data = to_json(encoders[type(value)](writer, value, depth))
            except PydanticSerializationError:  # a lone surrogate in some text
                encoders[type(value)](Writer(encoders, strict=True), value, depth)
                raise
            except TooDeepError:  # the value may contain itself, which is the more useful reason to report
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
        """Return the value that `dump` wrote.

        Args:
            data: Bytes that `dump` returned.
            fetch: Returns the bytes of a large value (a blob) by their SHA-256 in hex; raises KeyError if the blob is
                missing. Any other error of *fetch* is propagated unchanged. None if *data* cannot contain references to
                blobs.

        Raises:
            StoreError: *data* is damaged (`damaged-value`) or has the tag of an unknown class (`unknown-type`).
        """
        try:
            node = from_json(data, allow_inf_nan=False)
            if is_plain(data):
                return node
            return Reader(self._current().decoders, fetch).value(node, 0)
        except UnknownTagError as unknown:
            raise self._unknown(unknown.tag) from None
        except FetchError as failed:  # the data is not damaged: an error of *fetch*, wrapped to pass the readers
            raise failed.error from None
        except (StoreError, InputError):  # from a user's `decode=`, or from `_current` if two classes have the same tag
            raise
        except Exception as error:
            raise _damaged(error, data) from error

    # -- types -----------------------------------------------------------------------------------------------------

    def knows(self, cls: type) -> bool:
        """Return True if the codec has an encoder for instances of exactly *cls*."""
        return cls in self._current().encoders or own_by_class(cls) is not None

    def why_unknown(self, value: object) -> str | None:
        """Return why no instance of the class of *value* can be stored, as `NotStorable.why`; None if some can.

        The parts of *value* are not looked at, so this costs the same for a value of any size.
        """
        cls = type(value)
        return None if self.knows(cls) else why_no_instance(cls, value)

    def why_never(self, annotation: Any) -> str | None:
        """Return why a field with this annotation can never hold a storable value; None and `[]` do not count.

        Returns:
            The reason, as `NotStorable.why`; None if there is such a value, or if that is not certain.
        """
        tables = self._current()
        custom = frozenset(entry.cls for entry in tables.classes.values() if entry.by_functions)
        return Types(tables.encoders, custom, lambda cls: own_by_class(cls) is not None).why_never(annotation)

    def describe(self, annotation: Any) -> Any:
        """Return an answer type as plain JSON data, for `adapter`.

        An answer type is the type that a node requires for the answer to its question. It is stored with the question,
        because the answer may arrive after a restart.

        Raises:
            NotStorable: The type is outside the grammar of `answers`.
        """
        return answers.describe(annotation, self._current())

    def adapter(self, plain: Any) -> TypeAdapter[Any]:
        """Return a pydantic adapter that validates answers of the type that `describe` wrote as *plain*.

        Raises:
            StoreError: *plain* is damaged (`damaged-value`) or has the tag of an unknown class (`unknown-type`).
        """
        try:
            return answers.adapter(plain, self._current())
        except UnknownTagError as unknown:
            raise self._unknown(unknown.tag) from None
        except InputError:  # two classes have the same tag; the data is not damaged
            raise
        except Exception as error:
            raise _damaged(error, repr(plain).encode(errors="replace")) from error

    # -- errors ----------------------------------------------------------------------------------------------------

    def dump_error(self, error: BaseException) -> bytes:
        """Return *error* as bytes. Any exception can be written.

        Exceptions of Python and of graphrt are restored exactly, except for cause, traceback and notes. Any other
        exception, or one with an argument that cannot be stored, becomes a RecordedError.
        """
        return failures.dump_error(self.dump, error)

    def load_error(self, data: bytes) -> BaseException:
        """Return the exception that `dump_error` wrote.

        Raises:
            StoreError: As for `load`, or *data* is not a record of an exception (`damaged-value`).
        """
        record = self.load(data)
        try:
            return failures.from_record(record)
        except Exception as error:
            raise _damaged(error, data) from error

    def _unknown(self, tag: Any) -> StoreError:
        """Return the error for data with an unknown *tag* (`unknown-type`); it lists the tags of all known classes."""
        return UNKNOWN_TYPE(value=tag, known=names(sorted(self._tables.classes)) or "no classes besides Python's own")


def is_plain(data: bytes) -> bool:
    """Return True if *data* is JSON that needs no `Reader`: it is shallow and has no tag, not even an escaped one.

    A Reader, the walk from JSON data to a value, also rejects data that is nested too deeply. Data cannot be nested
    more deeply than the number of its opening brackets, or than half its length. False only means that a Reader has to
    check.
    """
    # The search for one byte is many times faster than that for two, so it goes first.
    return (
        (b"$" not in data or _TAG_BYTES not in data)
        and (b"\\" not in data or _ESCAPE not in data)
        and (len(data) < 2 * MAX_DEPTH or data.count(b"[") + data.count(b"{") < MAX_DEPTH)
    )


def _damaged(error: Exception, data: bytes) -> StoreError:
    """Return the error for *data* that could not be decoded (`damaged-value`), with *error* as the reason.

    Both are truncated, since damaged data may be long: the reason to 300 characters, the data to its first 60 bytes.
    """
    begin = data[:60]
    if isinstance(error, ClassChangedError):
        return CLASS_CHANGED(why=str(error)[:300], size=len(data), begin=begin)
    why = str(error) if isinstance(error, DamagedError) else f"{type(error).__name__}: {error}"
    return DAMAGED_VALUE(why=why[:300], size=len(data), begin=begin)
