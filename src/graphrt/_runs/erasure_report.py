"""`ErasureReport`: what `Runtime.erase` erased, and what may still hold the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Left(NamedTuple):
    """Something that may still hold values that were to be erased."""

    thread: str | None
    """Id of the thread; None if it is not about one thread."""
    what: str
    """`needed`, `key`, `running`, `damaged`, `unreadable`, `text`, `digest`, `log-file`, `store` or `outside`."""
    why: str
    """A sentence that says what is left, and what to do about it if anything can be done."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What `Runtime.erase` erased, or would erase in a dry run."""

    dry_run: bool
    """Whether nothing was changed."""
    threads: tuple[str, ...]
    """Threads that lost values, in order of creation."""
    records: int
    """Number of records that lost values; what was staged is not counted."""
    lines: int
    """Number of values: each write of a field, answer, effect, message or reply is one."""
    blobs: int
    """Number of large values that were deleted, since nothing refers to them any more."""
    model_calls: int
    """Number of remembered model replies among the values."""
    left: tuple[Left, ...]
    """What may still hold the values. The last one names what lies outside of the store, in every report."""

    def __str__(self) -> str:
        verb = "would be erased" if self.dry_run else "were erased"
        lines = [
            (
                f"{self.lines} values of {self.records} records in {len(self.threads)} threads {verb}, "
                f"{self.blobs} large values and {self.model_calls} model replies among them"
            )
        ]
        lines += [f"left: {f'thread {one.thread!r}: ' if one.thread else ''}{one.why}" for one in self.left]
        return "\n".join(lines)
