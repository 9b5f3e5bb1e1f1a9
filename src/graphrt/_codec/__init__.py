"""The codec of stored values: a Python value is converted to JSON bytes and restored exactly, or it is rejected.

The codec belongs to the lowest layer of the code. This module only exports names. `Codec`, `RecordedError` and
`register` are imported at first use, because most runs store nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrt._codec.refusal import BLOB_BYTES, MAX_BYTES, MAX_DEPTH, NotStorable

if TYPE_CHECKING:
    from graphrt._codec.codec import Codec
    from graphrt._codec.failures import RecordedError
    from graphrt._codec.registry import register

__all__ = ["BLOB_BYTES", "MAX_BYTES", "MAX_DEPTH", "Codec", "NotStorable", "RecordedError", "register"]


def __getattr__(name: str) -> Any:
    """Import one of the three names when it is first asked for (PEP 562)."""
    if name == "Codec":
        from graphrt._codec.codec import Codec

        return Codec
    if name == "RecordedError":
        from graphrt._codec.failures import RecordedError

        return RecordedError
    if name == "register":
        from graphrt._codec.registry import register

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
