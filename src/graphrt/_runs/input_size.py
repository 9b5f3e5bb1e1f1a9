"""The size of what callers send to a thread: inputs, answers, signals and edits, bounded by `Limits.max_input_bytes`.

The size is that of the encoded form, so that it is the same for each store. Updates of nodes are not bounded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from graphrt._codec import NotStorable
from graphrt._engine.storability import Stamped
from graphrt.limits import Limits


def check_size(limits: Limits, size: int) -> None:
    """Check that what a caller sends to a thread takes at most `Limits.max_input_bytes`.

    Args:
        size: Bytes that it takes in the journal, or in a letter.

    Raises:
        NotStorable: It takes more.
    """
    most = limits.max_input_bytes
    if most is not None and size > most:
        raise TooLarge(f"takes {size:,} bytes, and max_input_bytes allows {most:,}")


@final
class TooLarge(NotStorable):
    """What a caller sends takes more bytes than the limits allow."""

    @property
    def fix(self) -> str:
        """The remedy: a sentence without its full stop."""
        return (
            "Keep large data in a file or a store of its own and send its path or reference, or raise"
            " Limits(max_input_bytes=...)"
        )


def size_of(values: Mapping[str, Any]) -> int:
    """Return the bytes that *values* take in the journal, from what `storable` returned; 0 without a store."""
    if not isinstance(values, Stamped):
        return 0
    return sum(map(len, values.lines.values())) + sum(map(len, values.blobs.values()))
