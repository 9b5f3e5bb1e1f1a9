"""Verification of a whole store: every thread in turn, then rows that belong to no thread. The same for all stores.

This module defines the report and the order of the checks. What the bytes of a thread must be is decided in `_journal`:
each commit stores its entries as a record, records are linked by hashes, large values are stored apart as blobs, and a
*replay* folds the entries again and compares the result with what was stored.

Two private methods of a store report more than the protocol can. Only this module, and stores that wrap another one,
call them. `_survey()` yields the ids of all threads and findings about the store itself. `_other_blobs(thread, names)`
returns the names of the stored blobs of a thread that are not in *names*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from graphrt.errors import GraphrtError, InputError, StoreError
from graphrt.stores.values import Finding

if TYPE_CHECKING:
    from graphrt.stores.protocol import Store

_MOST: Final = 20
"""Findings that are reported of one thread."""
_TRIES: Final = 5
"""How often a thread is read at most, if it is being written meanwhile."""

Further: TypeAlias = "Callable[[Store, str], None]"
"""A further check of the thread with this id, such as a replay; raises what it finds wrong."""


class Verification(NamedTuple):
    """The report of `verify`."""

    threads: int
    """Number of threads that were checked."""
    entries: int
    """Number of entries of these threads."""
    findings: tuple[Finding, ...]
    """All findings, thread by thread: at most 20 for each thread."""

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged. Waste does not count."""
        return not any(finding.kind == "damage" for finding in self.findings)

    @property
    def damaged(self) -> tuple[str, ...]:
        """Ids of the damaged threads, in order of creation."""
        return tuple(
            dict.fromkeys(one.thread for one in self.findings if one.kind == "damage" and one.thread is not None)
        )


def verify(store: Store, further: Further | None = None) -> Verification:
    """Read everything in *store* and check that it is what was written. Nothing is changed.

    Args:
        store: The store.
        further: A check that each thread without findings has to pass as well: a replay, if the caller has the graph.

    Raises:
        StoreError: The store itself cannot be read now: it is closed, locked or unreachable. Damage is in the report
            and raises nothing.
    """
    threads = entries = 0
    findings: list[Finding] = []
    for one in _surveyed(store):
        if isinstance(one, Finding):
            findings.append(one)
            continue
        found = _thread(store, one, further)  # number of entries, and findings
        if found is not None:
            threads += 1
            entries += found[0]
            findings += found[1][:_MOST]
    return Verification(threads, entries, tuple(findings))


def _surveyed(store: Store) -> Iterator[str | Finding]:
    """Yield the ids of the threads, and findings about the store itself.

    Raises:
        StoreError: The store cannot be accessed now.
    """
    try:
        yield from store._survey()
    except StoreError as error:
        _world(error)
        yield Finding(None, "damage", "file", f"The threads cannot be listed to their end: {error.what}")


def _thread(store: Store, thread: str, further: Further | None) -> tuple[int, list[Finding]] | None:
    """Return the number of entries and the findings of *thread*, or None if the thread was deleted meanwhile."""
    # A thread that was written during the check may look damaged: a finding counts only if the thread did not change,
    # or at the last try.
    left = _TRIES
    while True:
        left -= 1
        try:
            before = _standing(store, thread)
            entries, findings = _once(store, thread, further)
            if not findings or not left or before == _standing(store, thread):
                return entries, findings
        except InputError:  # it was deleted meanwhile
            return None


def _standing(store: Store, thread: str) -> Any:
    """Return a value that changes with every write to the thread, or None if its head is damaged."""
    try:
        head = store.head(thread)
    except StoreError as error:
        _world(error)
        return None
    return head.seq, head.first, head.epoch, head.updated_at, head.owned


def _once(store: Store, thread: str, further: Further | None) -> tuple[int, list[Finding]]:
    """Read *thread* once, and return the number of its entries and the findings.

    Raises:
        InputError: There is no such thread (`unknown-thread`).
        StoreError: The store cannot be accessed now.
    """
    # An upward import, allowed by name in pyproject.toml: only the journal knows what bodies must be (decision 0045).
    from graphrt._journal.verifying import Check

    check = Check(store, thread)
    findings: list[Finding] = []
    try:
        # A problem is the last three fields of a finding: code, sentence, number of the entry.
        findings += [Finding(thread, "damage", *problem) for problem in check.problems()]
        if further is not None and not findings:
            further(store, thread)
    except InputError as error:
        if error.code == "unknown-thread":
            raise
        # Others come from the further check.
        findings.append(Finding(thread, "damage", "replay", error.what))
    except GraphrtError as error:
        _world(error)
        # Nothing was loaded yet; a record cannot be decoded; or the further check failed.
        code = "head" if check.head is None else "record" if isinstance(error, StoreError) else "replay"
        findings.append(Finding(thread, "damage", code, error.what, error.seq))
    except Exception as error:  # noqa: BLE001 - arbitrary bytes may raise anything
        findings.append(Finding(thread, "damage", "record", f"It cannot be read: {type(error).__name__}: {error}"))
    # Only after a clean check: a damaged body may be the one that names a blob.
    if not findings:
        left = store._other_blobs(thread, check.named)
        if left:
            findings.append(Finding(thread, "waste", "blob", f"Nothing refers to {len(left)} of its large values."))
    return check.entries, findings


def _world(error: GraphrtError) -> None:
    """Raise *error* again if it is about access to the store (closed, locked, unreachable), not about stored data."""
    from graphrt._journal.verifying import WORLD  # the codes of such errors

    if error.code in WORLD:
        raise error
