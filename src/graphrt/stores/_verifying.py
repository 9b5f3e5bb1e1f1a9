"""Verification of a whole store, the same for all stores: every thread in turn, then rows that belong to no thread.

This module defines the report and the order of the checks. `_journal` defines the valid bytes of a thread. Each commit
stores its entries as a record, records are linked by hashes, and large values are stored separately as blobs. A
*replay* folds the entries again and compares the result with the stored data.

Two private methods of a store report more than the protocol can. Only this module, and stores that wrap another one,
call them. `_survey()` yields the ids of all threads and findings about the store itself. `_other_blobs(thread, names)`
returns the names of the stored blobs of a thread that are not in *names*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from graphrt.errors import GraphrtError, InputError, StoreError
from graphrt.stores.values import StoreFinding

if TYPE_CHECKING:
    from graphrt.stores.protocol import Store

_MOST: Final = 20
"""Maximum number of findings reported per thread."""
_TRIES: Final = 5
"""Maximum number of times that a thread is read if it is written in the meantime."""

_ABOUT_THE_GRAPH: Final = ("graph-changed", "older-build")
"""Codes of errors of a replay whose graph cannot continue the thread."""

Further: TypeAlias = "Callable[[Store, str], None]"
"""A further check of the thread with this id, such as a replay; raises an error for a problem."""


class Verification(NamedTuple):
    """The report of `verify`."""

    threads: int
    """Number of threads that were checked."""
    entries: int
    """Number of entries of these threads."""
    findings: tuple[StoreFinding, ...]
    """All findings, thread by thread: at most 20 for each thread."""

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged. Waste is no damage, and neither is a thread that could not be replayed."""
        return not any(finding.kind == "damage" for finding in self.findings)

    @property
    def damaged(self) -> tuple[str, ...]:
        """Ids of the damaged threads, in order of creation."""
        return tuple(
            dict.fromkeys(
                finding.thread for finding in self.findings if finding.kind == "damage" and finding.thread is not None
            )
        )


def verify(store: Store, further: Further | None = None) -> Verification:
    """Read everything in *store* and check that it is unchanged since it was written. Nothing is changed.

    Args:
        store: The store.
        further: A check that each thread without findings has to pass as well: a replay, if the caller has the graph.

    Raises:
        StoreError: The store itself cannot be read now: it is closed, locked or unreachable. Damage is in the report
            and raises nothing.
    """
    threads = entries = 0
    findings: list[StoreFinding] = []
    for item in _surveyed(store):
        if isinstance(item, StoreFinding):
            findings.append(item)
            continue
        result = _thread(store, item, further)  # number of entries, and findings
        if result is not None:
            threads += 1
            entries += result[0]
            findings += result[1][:_MOST]
    return Verification(threads, entries, tuple(findings))


def _surveyed(store: Store) -> Iterator[str | StoreFinding]:
    """Yield the ids of the threads, and findings about the store itself.

    Raises:
        StoreError: The store cannot be accessed now.
    """
    try:
        yield from store._survey()
    except StoreError as error:
        _world(error)
        yield StoreFinding(None, "damage", "file", f"The threads cannot be listed to their end: {error.what}")


def _thread(store: Store, thread: str, further: Further | None) -> tuple[int, list[StoreFinding]] | None:
    """Return the number of entries and the findings of *thread*, or None if the thread was deleted meanwhile."""
    # A thread that was written during the check may look damaged: a finding counts only if the thread did not change,
    # or at the last try.
    tries_left = _TRIES
    while True:
        tries_left -= 1
        try:
            state_before = _standing(store, thread)
            entries, findings = _once(store, thread, further)
            if not findings or not tries_left or state_before == _standing(store, thread):
                return entries, findings
        except InputError:  # it was deleted in the meantime
            return None


def _standing(store: Store, thread: str) -> Any:
    """Return a value that changes with every write to the thread, or None if its head is damaged."""
    try:
        head = store.head(thread)
    except StoreError as error:
        _world(error)
        return None
    return head.seq, head.first, head.epoch, head.updated_at, head.owned


def _once(store: Store, thread: str, further: Further | None) -> tuple[int, list[StoreFinding]]:
    """Read *thread* once, and return the number of its entries and the findings.

    Raises:
        InputError: There is no such thread (`unknown-thread`).
        StoreError: The store cannot be accessed now.
    """
    # An upward import, allowed by name in pyproject.toml: only the journal knows what bodies must be (decision 0045).
    from graphrt._journal.verifying import Check

    check = Check(store, thread)
    findings: list[StoreFinding] = []
    try:
        # A problem is the last three fields of a finding: code, sentence, number of the entry.
        findings += [StoreFinding(thread, "damage", *problem) for problem in check.problems()]
        if further is not None and not findings:
            further(store, thread)
    except InputError as error:
        if error.code == "unknown-thread":
            raise
        # Other errors come from the further check. One about the graph says nothing about the stored data.
        kind: Literal["damage", "skipped"] = "skipped" if error.code in _ABOUT_THE_GRAPH else "damage"
        findings.append(StoreFinding(thread, kind, "replay", error.what))
    except GraphrtError as error:
        _world(error)
        # Nothing is loaded yet, a record cannot be decoded, or the further check failed.
        code = "head" if check.head is None else "record" if isinstance(error, StoreError) else "replay"
        findings.append(StoreFinding(thread, "damage", code, error.what, error.seq))
    except Exception as error:  # noqa: BLE001 - arbitrary bytes may raise anything
        findings.append(StoreFinding(thread, "damage", "record", f"It cannot be read: {type(error).__name__}: {error}"))
    # Only after a clean check, since a damaged body may name a blob.
    if not findings:
        unreferenced = store._other_blobs(thread, check.named)
        if unreferenced:
            findings.append(
                StoreFinding(thread, "waste", "blob", f"Nothing refers to {len(unreferenced)} of its large values.")
            )
    return check.entries, findings


def _world(error: GraphrtError) -> None:
    """Re-raise *error* if it is about access to the store (closed, locked, unreachable) instead of stored data."""
    from graphrt._journal.verifying import WORLD  # the codes of such errors

    if error.code in WORLD:
        raise error
