"""`LongText`: random access to a text of many megabytes, from a str, documents or a file.

It never copies its source. A file is mapped into memory, and an index of its characters is built once per process. This
module knows nothing of models and searches.
"""

from __future__ import annotations

import io
import mmap
import os
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Protocol, final, overload

from graphrt._forks import FreshLock
from graphrt.errors._codes.recursion import NOT_A_LONG_TEXT

__all__ = ["LongText"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WINDOW: Final = 1 << 16
"""Characters of a window, and bytes of a block of a file."""
_MARKED: Final = 1 << 12
"""Number of characters at each end that are part of a text's mark."""
_MOST_FILES: Final = 8
"""Maximum number of files whose index is cached."""


class _Part(Protocol):
    """The source of a LongText."""

    @property
    def length(self) -> int: ...
    def read(self, start: int, end: int, /) -> str: ...


@final
class LongText:
    """A text that is read in parts. Offsets count characters; documents are joined by single line breaks.

    Make one with `LongText.of(...)`. It is never changed, so it may be used from several tasks and worker threads.
    """

    __slots__ = ("_part", "documents", "length", "mark")

    def __init__(self, part: _Part, documents: Documents | None = None) -> None:
        self._part: Final = part
        self.length: Final = part.length
        """Number of characters."""
        self.documents: Final = documents if documents is not None else Documents((), array("Q"))
        """Name and first offset of each document, in order; empty for a single text."""
        ends = self.read(0, _MARKED) + self.read(self.length - _MARKED, self.length)
        self.mark: Final = f"{self.length}-{sha256(ends.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        """Length and a digest of both ends, which suffice to detect that the text was replaced."""

    @classmethod
    def of(cls, value: Any, /) -> LongText:
        """Return *value* as a LongText.

        Args:
            value: A text; a sequence of texts; a mapping of names to texts; a path of a file in UTF-8, which is mapped
                into memory; a binary file, which is mapped if possible and else read; or a LongText.

        Raises:
            InputError: It is something else (`not-a-long-text`).
            OSError: The file cannot be read.
        """
        if isinstance(value, LongText):
            return value
        if isinstance(value, str):
            return cls(_Whole(value))
        if hasattr(value, "__fspath__"):
            return _opened(value)
        if isinstance(value, io.IOBase):
            return _of_file(value)
        named: Any = value
        names: list[str] | None = None
        if isinstance(value, Mapping):
            texts, names = list(named.values()), [str(name) for name in named]
        elif isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
            texts = list(named)
        else:
            raise NOT_A_LONG_TEXT(given=value)
        invalid = [text for text in texts if not isinstance(text, str)]
        if invalid:
            raise NOT_A_LONG_TEXT(given=invalid[0])
        part = _Texts(texts)
        return cls(part, Documents(names, part.starts))

    def read(self, start: int, end: int, /) -> str:
        """Return the characters from *start* to before *end*; offsets outside the text are clamped."""
        start, end = max(0, start), min(end, self.length)
        text = self._part.read(start, end) if start < end else ""
        return text if text.isascii() else _SURROGATE.sub("\ufffd", text)  # stores and sockets reject them

    def find(self, literal: str, start: int, end: int, /, *, ignore_case: bool = False) -> Iterator[int]:
        """Yield the offsets of *literal* between *start* and *end*, without overlaps.

        The time is linear in the text. A case-insensitive search compares characters by their lower case, if that is a
        single character.
        """
        wanted = _lower(literal) if ignore_case else literal
        size = len(wanted)
        at = start
        while at + size <= end:
            stop = min(end, at + _WINDOW + size)
            text = self.read(at, stop)
            if ignore_case:
                text = _lower(text)
            begin = 0
            while (offset := text.find(wanted, begin)) >= 0:
                yield at + offset
                begin = offset + size
            at = max(at + begin, stop - size + 1)  # a match may cross the border of two windows

    def __repr__(self) -> str:
        return f"LongText({self.length} characters, {len(self.documents)} documents)"


@final
class Documents(Sequence[tuple[str, int]]):
    """Name and first offset of each document. Unnamed documents are named by their numbers."""

    __slots__ = ("_names", "_starts")

    def __init__(self, names: Sequence[str] | None, starts: array[int]) -> None:
        self._names = names
        self._starts = starts

    def between(self, start: int, end: int) -> range:
        """Return the numbers of the documents that begin between *start* and *end*."""
        return range(bisect_left(self._starts, start), bisect_left(self._starts, end))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, at: int) -> tuple[str, int]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[str, int]]: ...
    def __getitem__(self, at: int | slice) -> tuple[str, int] | list[tuple[str, int]]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        return str(number) if self._names is None else self._names[number], self._starts[number]


def _lower(text: str) -> str:
    """Return *text* in lower case, with the same number of characters."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


class _Whole:
    """A text in memory."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.length = len(text)

    def read(self, start: int, end: int) -> str:
        return self._text[start:end]


class _Texts:
    """Several texts in memory, with a line break after each but the last."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self.starts = array("Q")
        at = 0
        for text in texts:
            self.starts.append(at)
            at += len(text) + 1
        self.length = max(0, at - 1)

    def read(self, start: int, end: int) -> str:
        if start >= end:
            return ""
        number = bisect_right(self.starts, start) - 1
        pieces: list[str] = []
        while start < end:
            first, text = self.starts[number], self._texts[number]
            pieces.append(text[start - first : end - first])
            number += 1
            start = first + len(text)
            if start < end:
                pieces.append("\n")
                start += 1
        return "".join(pieces)


class _File:
    """A file in UTF-8, mapped into memory. Bytes that are not UTF-8 are read as U+FFFD."""

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self._data = data
        self._bytes = array("Q")
        """Offset in bytes of each block."""
        self._chars = array("Q")
        """Offset in characters of each block."""
        at = chars = 0
        size = len(data)
        while at < size:
            self._bytes.append(at)
            self._chars.append(chars)
            end = min(at + _WINDOW, size)
            for _ in range(3):  # a character has at most three bytes that continue it
                if end < size and data[end] & 0xC0 == 0x80:
                    end += 1
            block = data[at:end]
            chars += len(block) if block.isascii() else len(block.decode("utf-8", "replace"))
            at = end
        self._bytes.append(at)
        self.length = chars

    def read(self, start: int, end: int) -> str:
        if start >= end:
            return ""
        first = bisect_right(self._chars, start) - 1
        last = bisect_right(self._chars, end - 1) - 1
        # Block by block, as they were counted, since a malformed character at the border of two blocks counts as two.
        blocks = [
            self._data[self._bytes[number] : self._bytes[number + 1]].decode("utf-8", "replace")
            for number in range(first, last + 1)
        ]
        offset = self._chars[first]
        return "".join(blocks)[start - offset : end - offset]


_files: Final[OrderedDict[tuple[Any, ...], LongText]] = OrderedDict()
"""Opened files by path, inode, size and time of change, most recently used last."""
_lock: Final = FreshLock()


def _opened(path: os.PathLike[Any]) -> LongText:
    with open(path, "rb") as file:  # noqa: PTH123 - any PathLike
        return _of_file(file, os.fspath(path))


def _of_file(file: Any, path: Any = None) -> LongText:
    try:
        file_stat = os.fstat(file.fileno())
    except (OSError, AttributeError):
        data = file.read()
        if not isinstance(data, bytes):
            raise NOT_A_LONG_TEXT(given=file) from None
        return LongText(_File(data))
    key = (path, file_stat.st_dev, file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns)
    with _lock:
        known = _files.get(key)
        if known is not None:
            _files.move_to_end(key)
            return known
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file_stat.st_size else b""
    text = LongText(_File(data))
    with _lock:
        _files[key] = text
        while len(_files) > _MOST_FILES:
            _files.popitem(last=False)
    return text
