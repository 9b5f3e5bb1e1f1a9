"""Shared fixtures of the clauses: stores on one storage, helpers to write threads, and assertions with messages.

This module checks no rules itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final, TypeVar

from graphrt.errors import ConflictError, GraphrtError
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit, Record, StoredThread

K = TypeVar("K")
V = TypeVar("V")
E = TypeVar("E", bound=BaseException)

AT: Final = 1_700_000_000.25
"""The time of commits, in seconds since the epoch."""
LONG_S: Final = 600.0
"""Seconds of a lease that does not run out during a clause."""


class BrokenClauseError(AssertionError):
    """A store broke a rule of the store protocol."""


def rules_of(module: ModuleType) -> list[tuple[str, str, Callable[..., None]]]:
    """Return theme, name and function of each rule of a module: its own public functions, in order."""
    theme = module.__name__.rpartition(".")[2]
    members: dict[str, Any] = vars(module)
    return [
        (theme, name, value)
        for name, value in members.items()
        if not name.startswith("_")
        and getattr(value, "__module__", "") == module.__name__
        and isinstance(value, FunctionType)
    ]


class World:
    """The stores of one clause. Durable stores share one storage. All are closed when the clause ends.

    Args:
        make: Opens the storage, each time it is called.
    """

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._opened: list[Store] = []
        self.store: Store = self.open()

    def open(self) -> Store:
        """Open the storage once more, and return the store."""
        store = self._make()
        self._opened.append(store)
        return store

    def reopen(self) -> Store:
        """Close every store, open the storage again, and return the store."""
        self.close()
        self.store = self.open()
        return self.store

    def close(self) -> None:
        """Close every store."""
        while self._opened:
            self._opened.pop().close()

    def claim(self, thread: str = "t", *, store: Store | None = None, lease_s: float = LONG_S) -> Claim:
        """Claim a thread, which is created if it does not exist, and store the claim by an empty commit."""
        owner = store or self.store
        claim = owner.claim(thread, create=True, lease_s=lease_s, at=AT)
        owner.commit(claim, Commit(claim.head.seq, claim.head.updated_at))
        return claim

    def held(self, thread: str = "t", *, entries: int = 1) -> Claim:
        """Create a thread with *entries* records of one entry each, `b"1"`, `b"2"` and so on; return its claim."""
        claim = self.claim(thread)
        if entries:
            self.store.commit(claim, Commit(0, AT, [entry(n) for n in range(1, entries + 1)]))
        return claim

    def thread(self, thread: str = "t", *, entries: int = 1, **rest: Any) -> None:
        """Create a thread with *entries* records of one entry each, and release it; *rest* are fields of the commit."""
        records = [entry(n) for n in range(1, entries + 1)]
        self.store.commit(self.claim(thread), Commit(0, AT, records, release=True, **rest))

    def load(self, thread: str = "t", upto: int | None = None) -> StoredThread:
        """Load a thread."""
        return self.store.load(thread, upto=upto)

    def bodies(self, thread: str = "t", *, after: int = 0, upto: int | None = None) -> list[Any]:
        """Return the bodies of records, in order."""
        return [record.body for record in self.store.records(thread, after=after, upto=upto)]


def entry(seq: int, body: Any = None) -> Record:
    """Return a record of one entry; None for *body* takes the number of the entry."""
    return Record(seq, 1, str(seq).encode() if body is None else body)


def same(got: Any, wanted: Any, what: str) -> None:
    """Check that *got* equals *wanted* and has the same type; *what* is the name of the value in the error."""
    if type(got) is not type(wanted) or got != wanted:
        raise BrokenClauseError(f"{what}: got {_short(got)}, not {_short(wanted)}")


def holds(truth: object, what: str) -> None:
    """Check that *truth* is true; *what* is the error message otherwise."""
    if not truth:
        raise BrokenClauseError(what)


def refused(kind: type[E], call: Callable[..., Any], what: str, *, code: str | Iterable[str] = ()) -> E:
    """Check that *call* raises *kind*, with one of the codes *code* if there are any, and return the error."""
    codes = [code] if isinstance(code, str) else list(code)
    try:
        result = call()
    except kind as error:
        if codes and isinstance(error, GraphrtError) and error.code not in codes:
            raise BrokenClauseError(f"{what}: refused with the code {error.code!r}, not {codes}") from error
        return error
    raise BrokenClauseError(f"{what}: not refused with {kind.__name__}, but gave {_short(result)}")


def void(store: Store, claim: Claim, seq: int, what: str, *, code: str | Iterable[str] = ()) -> None:
    """Check that *claim*, on a thread at entry *seq*, is void: it can do nothing, and trying changes nothing.

    Args:
        store: The store to try it in.
        claim: The claim.
        seq: The last entry of the thread.
        what: Names the claim in the error.
        code: The codes with which a commit of records may be refused; empty for any.
    """
    owned = store.head(claim.thread).owned
    store.renew([claim])
    commit = Commit(seq, AT, [entry(seq + 1, b"void")])
    error = refused(ConflictError, lambda: store.commit(claim, commit), f"commit of {what}", code=code)
    holds(repr(claim.thread) in str(error), "the conflict does not name the thread")
    staging = Commit(seq, AT, stage=[("void", b"void")])
    refused(ConflictError, lambda: store.commit(claim, staging), f"staging of {what}")
    refused(ConflictError, lambda: store.prune(claim, seq), f"prune of {what}")
    store.release(claim)
    loaded = store.load(claim.thread)
    bodies = [*(record.body for record in loaded.records), *(body for _, body in loaded.staged)]
    same((loaded.head.owned, b"void" in bodies), (owned, False), f"owned, and written by {what}")


def _short(value: Any) -> str:
    """Return `repr(value)` for an error, shortened, since some clauses compare megabytes."""
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]}... of {len(text)} characters"


class BreakError(Exception):
    """Raised by values that fail while a store reads them."""


class Breaking(Mapping[K, V]):
    """A mapping that raises before its last item, after *good* complete iterations."""

    def __init__(self, items: Mapping[K, V], good: int) -> None:
        self._items = dict(items)
        self._good = good

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[K]:
        keys = list(self._items)
        if self._good <= 0:
            yield from keys[:-1]
            raise BreakError
        self._good -= 1
        yield from keys


class BreakingList(list[V]):
    """A list that raises before its last item, after *good* complete iterations."""

    def __init__(self, items: Iterable[V], good: int) -> None:
        super().__init__(items)
        self._good = good

    def __iter__(self) -> Iterator[V]:
        items = super().__iter__()
        if self._good <= 0:
            for _ in range(len(self) - 1):
                yield next(items)
            raise BreakError
        self._good -= 1
        yield from items
