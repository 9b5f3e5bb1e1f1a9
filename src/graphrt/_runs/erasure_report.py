"""`ErasureReport`: the values that `Runtime.erase` erased, and the places that may still hold them.

A *line* is the stored form of one value in a record. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Leftover(NamedTuple):
    """A place that may still hold values that should have been erased."""

    thread: str | None
    """Id of the thread; None if the place does not belong to one thread."""
    what: str
    """Why the values remain, or may remain:

    | Word | Meaning |
    |---|---|
    | `needed` | the thread still needs them to continue |
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
    """A sentence about a remaining copy, and how to remove it if that is possible."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """The values that `Runtime.erase` erased, or would erase in a dry run."""

    dry_run: bool
    """Whether nothing was changed."""
    threads: tuple[str, ...]
    """Threads from which values were erased, in order of creation, then deleted threads whose log files had values
    erased."""
    records: int
    """Number of records from which values were erased. Staged values (stored beside the journal for an uncommitted
    superstep) may be erased too, but are not counted."""
    lines: int
    """Number of values. Each field write, answer, effect, message or reply counts as one."""
    blobs: int
    """Number of large values that were deleted because nothing refers to them any more."""
    model_calls: int
    """Number of remembered model replies among the values."""
    left: tuple[Leftover, ...]
    """The places that may still hold the values. In every report, the last one covers copies outside the store."""
    items: int = 0
    """Number of memory items that were deleted. Only erasing a text searches the memory."""

    def __str__(self) -> str:
        """Return the report as text: the counts, then a line for each item of `left`."""
        verb = "would be erased" if self.dry_run else "were erased"
        lines = [
            (
                f"{self.lines} values of {self.records} records in {len(self.threads)} threads {verb}, "
                f"{self.blobs} large values and {self.model_calls} model replies among them"
            )
        ]
        if self.items:
            lines.append(f"{self.items} items of the memory {verb}")
        lines += [
            f"left: {f'thread {leftover.thread!r}: ' if leftover.thread else ''}{leftover.why}"
            for leftover in self.left
        ]
        return "\n".join(lines)
