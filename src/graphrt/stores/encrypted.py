"""EncryptedStore: a store around a store, in which no body is readable without the key.

Which bodies there are, and where each belongs, lives here; the cipher is in `_sealing`. What a store must be able to
look for stays plain: ids of threads, status, graph, times, numbers of entries, keys of what is staged, and seals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from types import TracebackType
from typing import Any, Final, NoReturn, final

import typing_extensions as te

from graphrt._forks import Emptied, FreshLock
from graphrt.errors import InputError
from graphrt.stores import _refusals
from graphrt.stores._copying import copy_thread
from graphrt.stores._sealing import Keyring
from graphrt.stores._verifying import listed
from graphrt.stores.protocol import Claim, Commit, Head, Loaded, Record, Saved, Status, Store
from graphrt.stores.verbs import Finding, StoreVerbs, delete_many

__all__ = ["EncryptedStore"]

_AT_ONCE: Final = 64
"""Pages of the list of names that are asked for together."""


@final
class EncryptedStore(StoreVerbs):
    """Keeps bodies encrypted in another store (AES-256-GCM). Needs the extra `graphrt[crypto]`.

    A body is bound to its thread and its place: one that was changed, or moved to another place, is refused
    (`store-damaged`), and so is a plain one (`downgrade-refused`). What this cannot see is a whole thread that was put
    back to an earlier state; chained journals are for that.

    Blobs are stored under an HMAC of thread and name, so that equal values are not recognisable. Their names are listed
    in further blobs, one for each commit that brings new ones, so that a copy finds them. A copy is written anew under
    its own id: large values first, and then with one transaction all that makes it a thread, so that nobody sees half
    of one. What follows are snapshots of older states; if that fails, the copy is removed again.

    Args:
        store: A durable store. It is closed with this one.
        keys: 32 random bytes each, by an id that is stored beside every body. To rotate, add a key and make it current;
            the others have to stay as long as anything that they sealed. A copy is written with the current key alone.
        current: Id of the key for new bodies, and for the names of new blobs. None: the first of *keys*.

    Raises:
        InputError: A key will not do (`bad-key`), or the store is not durable.
        MissingExtraError: cryptography is not installed.
    """

    durable: bool = True
    encrypted: bool = True
    """What an export writes is not what is stored, but plain."""

    def __init__(self, store: Store, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        if not store.durable:
            raise InputError(
                f"{store!r} is not durable: it keeps objects, and nothing at rest that could be encrypted.",
                fix="Wrap a durable store.",
            )
        self.blocking: bool = store.blocking
        self._store: Final = store
        self._keys: Final = Keyring(keys, current=current)
        self._lists: Final[dict[tuple[str, int], _Names]] = {}
        self._forks: Final = Emptied(self._lists)
        self._lock: Final = FreshLock()

    def __repr__(self) -> str:
        return f"<EncryptedStore over {self._store!r}, keys {', '.join(self._keys.ids)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an EncryptedStore is never pickled: its keys stay where they are")

    # ------------------------------------------------------------------------------------------------- as it comes

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Take the thread for writing, at once or not at all. See `Store.claim`."""
        return self._store.claim(thread, create=create, lease_s=lease_s, at=at)

    def renew(self, claims: Iterable[Claim]) -> None:
        """Let the leases of *claims* begin anew. See `Store.renew`."""
        self._store.renew(claims)

    def release(self, claim: Claim) -> None:
        """Give the thread back. See `Store.release`."""
        self._lists.pop((claim.thread, claim.epoch), None)
        self._store.release(claim)

    def head(self, thread: str) -> Head:
        """How *thread* stands. See `Store.head`."""
        return self._store.head(thread)

    def heads(
        self,
        *,
        status: Status | None = None,
        graph: str | None = None,
        prefix: str | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        """Threads with at least one entry, in the order in which they were made. See `Store.heads`."""
        return self._store.heads(
            status=status, graph=graph, prefix=prefix, updated_before=updated_before, after=after, limit=limit
        )

    def delete(self, thread: str) -> None:
        """Forget the thread and everything of it. See `Store.delete`."""
        self._store.delete(thread)

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Forget threads that nobody holds. See `StoreVerbs.delete_many`."""
        return delete_many(self._store, threads, updated_before=updated_before)

    # ---------------------------------------------------------------------------------------------------- encrypted

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing. See `Store.commit`."""
        thread = claim.thread
        _refusals.last_seq(commit, thread)
        _refusals.bytes_only(commit, thread)
        snapshot, meta = commit.snapshot, commit.meta
        seal = self._keys.seal
        sealed = commit._replace(
            records=[
                Record(seq, count, seal(body, thread, "record", (seq, count)), plain)
                for seq, count, body, plain in commit.records
            ],
            stage=[(key, seal(body, thread, "staged", key)) for key, body in commit.stage],
            snapshot=snapshot and Saved(snapshot.seq, seal(snapshot.body, thread, "snapshot", snapshot.seq)),
            blobs={
                self._keys.name(thread, name): seal(body, thread, "blob", name) for name, body in commit.blobs.items()
            },
            meta=None if meta is None else seal(meta, thread, "meta", ""),
        )
        if commit.blobs:
            self._names(claim).commit(self._store, claim, sealed, commit.blobs)
        else:
            self._store.commit(claim, sealed)
        if commit.release:
            self._lists.pop((thread, claim.epoch), None)

    def load(self, thread: str, *, upto: int | None = None) -> Loaded:
        """The thread as it stands, or as it stood after the entry *upto*. See `Store.load`."""
        found = self._store.load(thread, upto=upto)
        meta, snapshot = found.meta, found.snapshot
        opened = self._keys.open
        return found._replace(
            meta=None if meta is None else opened(meta, thread, "meta", ""),
            snapshot=snapshot and Saved(snapshot.seq, opened(snapshot.body, thread, "snapshot", snapshot.seq)),
            records=[self._record(thread, record) for record in found.records],
            staged=[(key, opened(body, thread, "staged", key)) for key, body in found.staged],
        )

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Records of *thread* in order. See `Store.records`."""
        found = self._store.records(thread, after=after, upto=upto)
        return (self._record(thread, record) for record in found)

    def _record(self, thread: str, record: Record) -> Record:
        seq, count, body, plain = record
        return Record(seq, count, self._keys.open(body, thread, "record", (seq, count)), plain)

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Those of the named large values that are there."""
        stored = {name: self._keys.names(thread, name) for name in names}
        found = self._store.blobs(thread, [one for ones in stored.values() for one in ones])
        there: dict[str, bytes] = {}
        for name, ones in stored.items():
            body = next((found[one] for one in reversed(ones) if one in found), None)
            if body is not None:
                there[name] = self._keys.open(body, thread, "blob", name)
        return there

    def copy(self, thread: str, to: str, *, at: float) -> None:
        """Copy the thread with everything of it, sealed anew, under the id *to*. See `Store.copy`."""

        def blobs() -> list[str]:
            names = _Names(self._keys, thread)
            names.read(self._store)
            return sorted(names.known)

        copy_thread(self, thread, to, at=at, blobs=blobs)

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Forget the records up to the entry *upto*. See `Store.prune`."""
        if keep_blobs is None:
            return self._store.prune(claim, upto)
        keep = [one for name in keep_blobs for one in self._keys.names(claim.thread, name)]
        return self._store.prune(claim, upto, keep_blobs=[*keep, *self._names(claim).pages(self._store)])

    def _make_room(self) -> bool:
        make: Any = getattr(self._store, "_make_room", bool)
        return bool(make())

    def _tidy(self) -> None:
        tidy: Any = getattr(self._store, "_tidy", bool)
        tidy()

    def _survey(self) -> Iterator[str | Finding]:
        inner = getattr(self._store, "_survey", None)
        return listed(self._store) if inner is None else inner()

    def _blob_names(self, thread: str) -> list[str]:
        """True names, and what is stored under a name that no key makes."""
        inner = getattr(self._store, "_blob_names", None)
        if inner is None:
            return []
        there = set(inner(thread))
        names = _Names(self._keys, thread)
        there.difference_update(names.pages(self._store))
        found: list[str] = []
        for name in names.known:
            stored = there.intersection(self._keys.names(thread, name))
            if stored:
                there -= stored
                found.append(name)
        return [*found, *there]

    def _names(self, claim: Claim) -> _Names:
        with self._lock:
            return self._lists.setdefault((claim.thread, claim.epoch), _Names(self._keys, claim.thread))

    # ------------------------------------------------------------------------------------------------ open and shut

    def close(self) -> None:
        """Close the store around which this one is; may be called again."""
        self._lists.clear()
        self._store.close()

    def __enter__(self) -> te.Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> te.Self:
        await self._store.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lists.clear()
        await self._store.__aexit__(kind, error, traceback)


class _Names:
    """The list of a thread's blobs by their true names: sealed pages, numbered from 0, each a blob itself."""

    def __init__(self, keys: Keyring, thread: str) -> None:
        self._keys: Final = keys
        self._thread: Final = thread
        self._count: int | None = None
        self.known: set[str] = set()
        """What the pages name; some of it may have been pruned."""
        self._lock: Final = Lock()

    def read(self, store: Store) -> int:
        """Read all pages; how many there are."""
        if self._count is None:
            count, known = 0, set[str]()
            while True:
                numbers = range(count, count + _AT_ONCE)
                pages = {number: self._pages(number) for number in numbers}
                found = store.blobs(self._thread, [one for ones in pages.values() for one in ones])
                for number, ones in pages.items():
                    page = next((found[one] for one in ones if one in found), None)
                    if page is None:
                        break
                    known.update(json.loads(self._keys.open(page, self._thread, "names", number)))
                    count += 1
                if count <= numbers[-1]:
                    break
            self._count, self.known = count, known
        return self._count

    def pages(self, store: Store) -> list[str]:
        """What the pages are stored as."""
        with self._lock:
            return [one for number in range(self.read(store)) for one in self._pages(number)]

    def commit(self, store: Store, claim: Claim, sealed: Commit, blobs: Iterable[str]) -> None:
        """Write *sealed*, and in the same transaction a page with those names that are new."""
        with self._lock:  # two commits at once must not take one number for their pages
            number = self.read(store)
            new = [name for name in blobs if name not in self.known]
            more: dict[str, Any] = dict(sealed.blobs)
            if new:
                page = json.dumps(new).encode()
                more[self._pages(number)[0]] = self._keys.seal(page, self._thread, "names", number)
            try:
                store.commit(claim, sealed._replace(blobs=more))
            except BaseException:
                self._count = None  # whether the page is there is not known now
                raise
            self._count = number + bool(new)
            self.known.update(new)

    def _pages(self, number: int) -> list[str]:
        """What the page may be stored as."""
        return self._keys.names(self._thread, f"\0names {number}")
