"""`ErasureReport`: what `Runtime.erase` erased, and what may still hold the values.

A *line* is the stored form of one value in a record. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Left(NamedTuple):
    """Something that may still hold values that were to be erased."""

    thread: str | None
    """Id of the thread; None if it is not about one thread."""
    what: str
    """Why the values are left, or may be:

    | Word | Meaning |
    |---|---|
    | `needed` | the thread still needs them to go on |
    | `key` | the thread's log has a key that the runtime lacks |
    | `running` | another process drives the thread |
    | `damaged` | the thread cannot be read |
    | `text` | a text that was searched for is in an id, a name, a key or a reason, which are not values |
    | `digest` | a record has a digest of them without a salt, so that a guess can be confirmed |
    | `log-file` | the file of the audit log may still have them |
    | `store` | the store cannot overwrite the space that it freed |
    | `outside` | copies outside the store, such as exports and backups |
    """
    why: str
    """A sentence that says what is left, and what to do about it if anything can be done."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What `Runtime.erase` erased, or would erase in a dry run."""

    dry_run: bool
    """Whether nothing was changed."""
    threads: tuple[str, ...]
    """Threads that lost values, in order of creation; then deleted threads whose log files lost values."""
    records: int
    """Number of records that lost values. Values that were staged (stored beside the journal for a superstep that is
    not committed yet) may be erased too, but are not counted."""
    lines: int
    """Number of values: each write of a field, answer, effect, message or reply is one."""
    blobs: int
    """Number of large values that were deleted, since nothing refers to them any more."""
    model_calls: int
    """Number of remembered model replies among the values."""
    left: tuple[Left, ...]
    """What may still hold the values. The last one names what lies outside of the store, in every report."""
    items: int = 0
    """Number of items of the memory that were deleted; an erasure of a text looks through it."""

    def __str__(self) -> str:
        """Return the report as lines of text: the numbers, and then a line for each item of `left`."""
        verb = "would be erased" if self.dry_run else "were erased"
        lines = [
            (
                f"{self.lines} values of {self.records} records in {len(self.threads)} threads {verb}, "
                f"{self.blobs} large values and {self.model_calls} model replies among them"
            )
        ]
        if self.items:
            lines.append(f"{self.items} items of the memory {verb}")
        lines += [f"left: {f'thread {one.thread!r}: ' if one.thread else ''}{one.why}" for one in self.left]
        return "\n".join(lines)
