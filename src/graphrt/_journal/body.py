"""A body while it is written or read: the lines of a batch, and the values collected in the process.

`batch_format` describes the lines; this module only contains the container shared by the codecs of events and fields.
In short: line 0 is the structure, JSON that lists the events without user values, and every other line is one encoded
value. The structure refers to a value by the number of its line, and to the name of a node or field by its number in
`Names`.

A large value (blob) is the encoded value of a field that exceeds a size. It is stored once, separate from the bodies,
and its line contains a reference to it. The bytes of an image, of audio and of a document are blobs too, of any size;
the line of a value with such files refers to them, and is not a blob itself. The codecs of `field_codecs` call the
methods here, for each field of an event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt._engine.storability import Stamped, stamp

if TYPE_CHECKING:
    from graphrt._codec import Codec

VERSION: Final = 4
"""Version of the structure, the only one that is read and written. Unreleased builds wrote 1 to 3 (decision 0168)."""
ERASED_LINE: Final = b'{"$t":"erased","v":null}'
"""The replacement of a line that was erased."""
ERASED_BEGIN: Final = b'{"$t":"erased"'
"""Prefix of an erased value. A text cannot be mistaken for it, because JSON escapes the quotes inside a string."""
ERASED_TEXT: Final = "(erased)"
"""The text that replaces an erased error message."""


class Vouch(NamedTuple):
    """Digests of other rows in a record, so that changes of those rows are detected (decision 0044)."""

    names: tuple[int, str] | None = None
    """Number of names after the record, and the digest of their list. Only the first record of a thread has it."""
    staged: Mapping[str, str] = MappingProxyType({})
    """Maps the key of each staged task to the end of its body; to an empty string if the body may still be replaced."""
    snapshot: tuple[int, str] | None = None
    """Entry and digest of a snapshot taken since the previous record; None if there was none."""


NOTHING: Final = Vouch()
"""For a record that vouches for no other data."""


@final
class Names:
    """The names of a thread's nodes and fields: each is written once, and referred to by its number afterwards.

    They are numbered in the order of their first use. The number of a stored name is never reused. A stored body lists
    the names that it introduces, and the thread's meta lists all, so that a reader knows them from the start.
    """

    __slots__ = ("_numbers", "accounted", "known")

    def __init__(self, known: Sequence[str] = ()) -> None:
        self.known: list[str] = list(known)
        """Names by number."""
        self._numbers: dict[str, int] = {name: at for at, name in enumerate(self.known)}
        self.accounted: int | None = None
        """Number of names covered by the records read so far, set when the first record or a snapshot is read. None
        before that: `add` then checks nothing."""

    def put(self, name: str) -> int:
        """Return the number of *name*; a new name gets the next one."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.known)
            self.known.append(name)
        return number

    def number(self, name: str) -> int | None:
        """Return the number of *name*; None if it has none yet."""
        return self._numbers.get(name)

    def add(self, names: Sequence[Any]) -> None:
        """Add the names that a body introduces, in its order.

        Raises:
            TypeError: A name is not text.
            ValueError: A name has a different number than when it was written.
        """
        for name in names:
            if not isinstance(name, str):
                raise TypeError("a name is text")
            number = self.put(name)
            if self.accounted is not None:
                # Bodies introduce names in the order of their numbers, so a gap means that the list in the meta, which
                # no hash chain covers, was changed (decision 0044).
                if number > self.accounted:
                    raise ValueError("a name has another number than when it was written")
                self.accounted = max(self.accounted, number + 1)

    def forget(self, length: int) -> None:
        """Forget all but the first *length* names, because the body that introduced the others was not stored.

        Only writers call it. `accounted` stays, since only `add` uses it, for readers.
        """
        for name in self.known[length:]:
            del self._numbers[name]
        del self.known[length:]


@final
class Body:
    """A body while it is written or read: its lines, the names that it may refer to, and the collected values.

    Args:
        codec: Turns values into lines, and lines into values.
        names: Names of the thread by number. New ones are added while writing.
        untracked: Fields that are never stored (R16), so that no line is written for them.
    """

    __slots__ = ("blobs", "codec", "fetch", "lines", "names", "path", "untracked", "vouched", "written")

    def __init__(self, codec: Codec, names: Names, untracked: frozenset[str] = frozenset()) -> None:
        self.codec: Codec = codec
        self.names: Names = names
        self.untracked: frozenset[str] = untracked
        self.lines: list[bytes] = [b""]
        """Encoded lines by number. Line 0 is reserved for the structure."""
        self.blobs: dict[str, bytes] = {}
        """Large values and files by the SHA-256 of their bytes, to be stored next to the body."""
        self.path: str = ""
        """Path of the nested graph whose event is written or read; empty at the top."""
        self.fetch: Callable[[str], bytes] | None = None
        """Loads a large value by its name. None while writing."""
        self.written: list[tuple[str, int]] = []
        """Fields of the top graph that the body writes, in order: name, and number of the value's line. The hash chain
        extends the digests of these fields."""
        self.vouched: Vouch = NOTHING
        """The digests of other rows that the body contains; set by `batch_format.decode`."""

    def put(self, value: Any) -> int:
        """Write *value* on a separate line, and return the line's number."""
        return self.line(self.codec.dump(value, "", self.blobs))

    def line(self, line: bytes) -> int:
        """Add an already encoded value, and return its line number."""
        self.lines.append(line)
        return len(self.lines) - 1

    def get(self, at: int) -> Any:
        """Return the value on line *at*, decoded.

        Raises:
            IndexError: There is no such line, or it is the structure.
            StoreError: The line is damaged, or has the tag of an unknown class.
        """
        if at <= 0:  # the structure, or counted from the end
            raise IndexError
        return self.codec.load(self.lines[at], self.fetch)

    def is_erased(self, at: int) -> bool:
        """Return whether the value on line *at* was erased.

        Raises:
            IndexError: There is no such line, or it is the structure.
        """
        if at <= 0:
            raise IndexError
        return self.lines[at] == ERASED_LINE

    def put_fields(self, values: Mapping[str, Any]) -> list[int]:
        """Write one line per field, and return a flat list: number of a name, number of its line, and so on."""
        # An update that was checked when its node returned (R7) is a `Stamped`, a dict with its encoded values: `lines`
        # by field, without untracked ones, and `blobs` by name. `stamp` converts any other dict to one.
        stamped = values if isinstance(values, Stamped) else stamp(self.codec, values, self.untracked)
        self.blobs.update(stamped.blobs)
        pairs: list[int] = []
        for name, line in stamped.lines.items():
            pairs.append(self.names.put(name))
            at = len(self.lines)
            self.lines.append(line)
            pairs.append(at)
            if not self.path:  # a nested graph's writes count when they reach the outermost graph
                self.written.append((name, at))
        return pairs

    def get_fields(self, pairs: Sequence[int]) -> dict[str, Any]:
        """Return the fields that `put_fields` wrote as *pairs*, by name."""
        names, lines, load, fetch = self.names.known, self.lines, self.codec.load, self.fetch
        values: dict[str, Any] = {}
        for number, at in zip(pairs[::2], pairs[1::2], strict=True):
            # Negative numbers would count from the end; line 0 is the structure.
            if number < 0 or at <= 0:
                raise IndexError  # as for numbers that are too large; `decode` makes it a StoreError
            name = names[number]
            values[name] = load(lines[at], fetch)
            if not self.path:  # as in `put_fields`
                self.written.append((name, at))
        return values

    def put_error(self, error: BaseException) -> int:
        """Write an exception on a separate line, and return the line's number."""
        return self.line(self.codec.dump_error(error))

    def get_error(self, at: int) -> BaseException:
        """Return the exception on line *at*.

        A `RecordedError` replaces an exception that was erased, or whose class belongs neither to Python nor to
        graphrt; only its name and text are stored.
        """
        if self.is_erased(at):
            from graphrt._codec import RecordedError  # rarely needed

            return RecordedError("Erased", ERASED_TEXT)
        return self.codec.load_error(self.lines[at])
