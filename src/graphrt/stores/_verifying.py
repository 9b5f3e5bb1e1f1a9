"""Verifying a whole store: each thread in turn, and what belongs to no thread. One way for every kind of store.

What a report is, and the order of the checks; what a thread's bytes must be is the journal's to say. A store may tell
more than the protocol does by two methods of its own, which only this module calls: `_survey`, the ids of its threads
and what is wrong with the store itself, and `_blob_names`, the large values of a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

from graphrt.errors import GraphrtError, InputError, StoreError
from graphrt.stores.protocol import Store

_PAGE: Final = 500
"""Threads that are listed at once."""
_MOST: Final = 20
"""Findings that are told of one thread."""
_TRIES: Final = 5
"""How often a thread is read that somebody writes meanwhile."""

Further = Callable[[Store, str], None]
"""A check that knows more of threads: raises what is wrong with one."""


class Finding(NamedTuple):
    """Something that is not as it was written."""

    thread: str | None
    """None if it belongs to no thread."""
    kind: Literal["damage", "waste"]
    """Waste takes room, and harms nothing."""
    code: str
    """`record`, `gap`, `tail`, `snapshot`, `staged`, `blob`, `head`, `replay`, `orphan` or `file`."""
    what: str
    """A sentence that says what is wrong."""
    seq: int | None = None
    """The entry, if it is about one."""


class Verification(NamedTuple):
    """What `verify` found."""

    threads: int
    """How many were looked at."""
    entries: int
    """How many entries they have."""
    findings: tuple[Finding, ...]
    """What is wrong, thread by thread: at most 20 of each."""

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not any(finding.kind == "damage" for finding in self.findings)

    @property
    def damaged(self) -> tuple[str, ...]:
        """The damaged threads, in the order in which they were made."""
        return tuple(
            dict.fromkeys(one.thread for one in self.findings if one.kind == "damage" and one.thread is not None)
        )


def verify(store: Store, further: Further | None = None) -> Verification:
    """Read everything that *store* holds and see that it is what was written; nothing is changed.

    Raises:
        StoreError: The store itself cannot be read now: it is closed, locked, or away. What is damaged is told in the
            report and raises nothing.
    """
    threads = entries = 0
    findings: list[Finding] = []
    for one in _surveyed(store):
        if isinstance(one, Finding):
            findings.append(one)
            continue
        found = _thread(store, one, further)
        if found is not None:
            threads += 1
            entries += found[0]
            findings += found[1][:_MOST]
    return Verification(threads, entries, tuple(findings))


def _surveyed(store: Store) -> Iterator[str | Finding]:
    """The ids of the threads, and what is wrong with the store itself."""
    survey = getattr(store, "_survey", None)
    try:
        yield from listed(store) if survey is None else survey()
    except StoreError as error:
        _world(error)
        yield Finding(None, "damage", "file", f"The threads cannot be listed to their end: {error.what}")


def listed(store: Store) -> Iterator[str]:
    """The ids of all threads."""
    after: str | None = None
    while True:
        heads = store.heads(after=after, limit=_PAGE)
        yield from (head.thread for head in heads)
        if len(heads) < _PAGE:
            return
        after = heads[-1].thread


def _thread(store: Store, thread: str, further: Further | None) -> tuple[int, list[Finding]] | None:
    """How many entries *thread* has, and what is wrong with it; None if it is gone."""
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
    """What changes whenever somebody writes the thread; None if that cannot be read."""
    try:
        head = store.head(thread)
    except StoreError as error:
        _world(error)
        return None
    return head.seq, head.first, head.epoch, head.updated_at, head.owned


def _once(store: Store, thread: str, further: Further | None) -> tuple[int, list[Finding]]:
    # The journal is above the stores: this is a convenience that reaches up, as `graph.run()` is one.
    from graphrt._journal.verifying import Check

    check = Check(store, thread)
    findings: list[Finding] = []
    try:
        findings += [Finding(thread, "damage", *told) for told in check.problems()]
        if further is not None and not findings:
            further(store, thread)
    except InputError as error:
        if error.code == "unknown-thread":
            raise
        findings.append(Finding(thread, "damage", "replay", error.what))
    except GraphrtError as error:
        _world(error)
        code = "head" if check.head is None else "record" if isinstance(error, StoreError) else "replay"
        findings.append(Finding(thread, "damage", code, error.what, error.seq))
    except Exception as error:  # noqa: BLE001 - of bytes that are not ours anything may come
        findings.append(Finding(thread, "damage", "record", f"It cannot be read: {type(error).__name__}: {error}"))
    names = getattr(store, "_blob_names", None)
    if names is not None and not findings:
        left = check.unnamed(names(thread))
        if left:
            findings.append(Finding(thread, "waste", "blob", f"Nothing refers to {len(left)} of its large values."))
    return check.entries, findings


def _world(error: GraphrtError) -> None:
    """Raise *error* again if it says nothing of what is stored."""
    from graphrt._journal.verifying import WORLD

    if error.code in WORLD:
        raise error
