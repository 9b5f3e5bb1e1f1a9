"""Python values as bytes and back, exactly or not at all: the codec of everything that is stored.

Only names of the files beside this one are given out here. The codec itself is loaded when a value is first stored: most
runs keep none.
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
