"""Parser for Amazon's event streams: splits the bytes into frames, and reads their headers and payload.

A frame is passed on unchanged or dropped, since its checksums cover every byte.

Source:
    The format is that of application/vnd.amazon.eventstream: total length, length of the headers (4 bytes each), a
    checksum, headers, payload, a checksum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct, error
from typing import Final

_PRELUDE: Final = Struct(">III")
_LENGTH: Final = Struct(">H")
_CHECKSUM_BYTES: Final = 4
_TEXT: Final = 7
"""Type of a header whose value is a text; Amazon sends no others in answers of models."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame."""

    whole: bytes
    headers: dict[str, str]
    payload: bytes


@dataclass(slots=True)
class FrameReader:
    """Parses the frames of a stream, whose bytes may be cut into pieces anywhere."""

    _rest: bytes = b""
    _strange: bool = field(default=False)
    """Whether the bytes are not frames. All further bytes are then passed on as they are."""

    def add(self, piece: bytes) -> Iterator[Frame]:
        """Yield the 0..n frames that *piece* completes."""
        self._rest += piece
        while not self._strange and len(self._rest) >= _PRELUDE.size:
            length, headers, _ = _PRELUDE.unpack_from(self._rest)
            if length < _PRELUDE.size + headers + _CHECKSUM_BYTES:
                self._strange = True
            elif len(self._rest) < length:
                return
            else:
                frame, self._rest = self._rest[:length], self._rest[length:]
                start = _PRELUDE.size + headers
                yield Frame(frame, _headers(frame[_PRELUDE.size : start]), frame[start:-_CHECKSUM_BYTES])
        if self._strange and self._rest:
            yield self.rest()

    def rest(self) -> Frame:
        """Return the bytes of the incomplete frame."""
        data, self._rest = self._rest, b""
        return Frame(data, {}, b"")


def _headers(data: bytes) -> dict[str, str]:
    """Return the headers before the first one whose value is not a text."""
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            end = at + 1 + data[at]
            if data[end] != _TEXT:
                break
            (length,) = _LENGTH.unpack_from(data, end + 1)
            start = end + 1 + _LENGTH.size
            headers[data[at + 1 : end].decode()] = data[start : start + length].decode()
            at = start + length
    except (IndexError, error, UnicodeDecodeError):
        pass  # the client reports the problem
    return headers
