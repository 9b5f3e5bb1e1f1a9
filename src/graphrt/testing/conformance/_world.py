"""What a clause stands on: stores opened anew on one storage, short ways to write, and checks that say what broke.

Only what clauses share; no rule about stores is checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from graphrt.errors import GraphrtError
from graphrt.stores.protocol import Claim, Commit, Loaded, Record, Store

K = TypeVar("K")
V = TypeVar("V")
E = TypeVar("E", bound=BaseException)

AT: Final = 1_700_000_000.25
"""Seconds since the epoch: what clauses take for the time."""
LONG_S: Final = 600.0
"""Seconds of a lease that no clause outlasts."""


class BrokenClauseError(AssertionError):
    """A store did not keep its word."""


class World:
    """The stores of one clause, all of them on the same storage if it is durable; closed when the clause ends."""

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._opened: list[Store] = []
        self.store: Store = self.open()

    def open(self) -> Store:
        """The storage, opened anew."""
        store = self._make()
        self._opened.append(store)
        return store

    def reopen(self) -> Store:
        """Close every store and open the storage anew."""
        self.close()
        self.store = self.open()
        return self.store

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()

    def claim(self, thread: str = "t", *, store: Store | None = None, lease_s: float = LONG_S) -> Claim:
        return (store or self.store).claim(thread, create=True, lease_s=lease_s, at=AT)

    def held(self, thread: str = "t", *, entries: int = 1) -> Claim:
        """A claim on a thread with so many entries, one for each record: `b"1"`, `b"2"`, ..."""
        claim = self.claim(thread)
        if entries:
            self.store.commit(claim, Commit(0, AT, [entry(n) for n in range(1, entries + 1)]))
        return claim

    def thread(self, thread: str = "t", *, entries: int = 1, **rest: Any) -> None:
        """A thread with so many entries and what else a commit takes, held by nobody."""
        records = [entry(n) for n in range(1, entries + 1)]
        self.store.commit(self.claim(thread), Commit(0, AT, records, release=True, **rest))

    def load(self, thread: str = "t", upto: int | None = None) -> Loaded:
        return self.store.load(thread, upto=upto)

    def bodies(self, thread: str = "t", *, after: int = 0, upto: int | None = None) -> list[Any]:
        return [record.body for record in self.store.records(thread, after=after, upto=upto)]


def entry(seq: int, body: Any = None) -> Record:
    """A record of one entry; its body is its number if none is given."""
    return Record(seq, 1, str(seq).encode() if body is None else body)


def same(got: Any, wanted: Any, what: str) -> None:
    """See that *got* equals *wanted* and is of its type."""
    if type(got) is not type(wanted) or got != wanted:
        raise BrokenClauseError(f"{what}: got {_short(got)}, not {_short(wanted)}")


def holds(truth: object, what: str) -> None:
    if not truth:
        raise BrokenClauseError(what)


def refused(kind: type[E], call: Callable[..., Any], what: str, *, code: str | Iterable[str] = ()) -> E:
    """See that *call* raises *kind*, with one of *code* if it is given; returns the error."""
    codes = [code] if isinstance(code, str) else list(code)
    try:
        got = call()
    except kind as error:
        if codes and isinstance(error, GraphrtError) and error.code not in codes:
            raise BrokenClauseError(f"{what}: refused with the code {error.code!r}, not {codes}") from error
        return error
    raise BrokenClauseError(f"{what}: not refused with {kind.__name__}, but gave {_short(got)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]}... of {len(text)} characters"


class BreakError(Exception):
    """Raised by values that break while a store reads them."""


class Breaking(Mapping[K, V]):
    """A mapping whose reading breaks before its last item, from the pass numbered *good* on (counted from 0)."""

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
    """A list whose reading breaks before its last item, from the pass numbered *good* on (counted from 0)."""

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
