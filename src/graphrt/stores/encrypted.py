"""EncryptedStore: a wrapper around a durable store that encrypts all bodies.

This module knows which bodies a store has and to which place each is bound. The cipher is in `_sealing`. Whatever a
store must be able to search stays in plain text: thread ids, status, graph name, times, entry numbers, staged keys,
seals, titles and tags, ids of letters, name, graph and time of a schedule, and of an open question everything but what it asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, final

from graphrt._forks import Emptied, FreshLock
from graphrt.errors._codes.stores import NOT_DURABLE
from graphrt.stores import _refusals
from graphrt.stores._blob_names import BlobNames
from graphrt.stores._copying import copy_thread
from graphrt.stores._sealing import Keyring
from graphrt.stores._verifying import listed
from graphrt.stores.labels import Asked, QuestionFilter, ThreadFilter, finder
from graphrt.stores.live import Batch, relaying
from graphrt.stores.mail import Letter, postable
from graphrt.stores.protocol import (
    Claim,
    Commit,
    Head,
    Loaded,
    Payload,
    Question,
    Record,
    Saved,
    Status,
    Store,
    erasable,
)
from graphrt.stores.schedules import Scheduled, schedulable
from graphrt.stores.verbs import Finding, StoreVerbs, delete_many, scrub

__all__ = ["EncryptedStore"]


@final
class EncryptedStore(StoreVerbs):
    """A store that keeps its bodies encrypted in another store (AES-256-GCM). Needs the extra `graphrt[crypto]`.

    A body is bound to its thread and its place. One that was changed or moved is refused (`store-damaged`), and so is
    a plain one (`downgrade-refused`). Encryption cannot detect that a whole thread was put back to an earlier state;
    chained journals are for that.

    Blobs are stored under an HMAC of thread and name, so that equal values cannot be recognised. Their names are listed
    in further blobs, one for each commit with new blobs, so that a copy finds them.

    A copy is encrypted anew under its own id. Blobs are written first, and one transaction then makes the thread
    visible, so that no reader sees half of it. Snapshots of older states follow. If any of this fails, the copy is
    removed again.

    Args:
        store: A durable store. It is closed together with this one.
        keys: 32 random bytes each, by an id that is stored with every body. To rotate, add a key and make it current.
            Keep the other keys as long as anything that they sealed. A copy is written with the current key alone.
        current: Id of the key for new bodies, and for the names of new blobs. None: the first of *keys*.

    Raises:
        InputError: A key is not acceptable (`bad-key`), or *store* is not durable.
        MissingExtraError: cryptography is not installed.
    """

    durable: bool = True
    encrypted: bool = True
    """Exports contain plain text, so `export_thread` needs `decrypted=True`."""

    def __init__(self, store: Store, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        if not store.durable:
            raise NOT_DURABLE(store=store)
        self.blocking: bool = store.blocking
        self._store: Final = store
        self._keys: Final = Keyring(keys, current=current)
        self._lists: Final[dict[tuple[str, int], BlobNames]] = {}
        """Blob names of claimed threads, by thread and epoch. While a claim holds, no other process adds to them."""
        # In the child of a fork, the lists belong to the parent's claims, and another thread may have held the lock.
        self._forks: Final = Emptied(self._lists)
        self._lock: Final = FreshLock()

    @property
    def _wrapped(self) -> Store:
        return self._store

    def __repr__(self) -> str:
        return f"<EncryptedStore over {self._store!r}, keys {', '.join(self._keys.ids)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an EncryptedStore is never pickled: its keys stay where they are")

    # ------------------------------------------------------------------------------------ passed to the inner store

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner. See `Store.claim`."""
        return self._store.claim(thread, create=create, lease_s=lease_s, at=at)

    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. See `Store.renew`."""
        self._store.renew(claims)

    def release(self, claim: Claim) -> None:
        """Release the thread. See `Store.release`."""
        self._lists.pop((claim.thread, claim.epoch), None)
        self._store.release(claim)

    def head(self, thread: str) -> Head:
        """Return the head of *thread*. See `Store.head`."""
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
        """Return the heads of the threads with at least one entry, in order of creation. See `Store.heads`."""
        return self._store.heads(
            status=status, graph=graph, prefix=prefix, updated_before=updated_before, after=after, limit=limit
        )

    def delete(self, thread: str) -> None:
        """Delete the thread with everything stored of it. See `Store.delete`."""
        self._store.delete(thread)

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Delete those of *threads* that have no owner. See `StoreVerbs.delete_many`."""
        return delete_many(self._store, threads, updated_before=updated_before)

    # ---------------------------------------------------------------------------------------------------- encrypted

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing. See `Store.commit`."""
        thread = claim.thread
        # Checked before sealing, which needs bytes: the inner store sees only the ciphertext.
        _refusals.last_seq(commit, thread)
        _refusals.bytes_only(commit, thread)
        sealed = self._sealed(commit, thread)
        if commit.blobs:
            self._names(claim).commit(self._store, claim, sealed, commit.blobs)
        else:
            self._store.commit(claim, sealed)
        if commit.release:
            self._lists.pop((thread, claim.epoch), None)

    def _sealed(self, commit: Commit, thread: str) -> Commit:
        """Return *commit* with all of its bodies encrypted."""
        snapshot, meta = commit.snapshot, commit.meta
        seal = self._keys.seal
        return commit._replace(
            records=[self._sealed_record(thread, record) for record in commit.records],
            stage=[(key, seal(body, thread, "staged", key)) for key, body in commit.stage],
            snapshot=snapshot and Saved(snapshot.seq, seal(snapshot.body, thread, "snapshot", snapshot.seq)),
            blobs={
                self._keys.name(thread, name): seal(body, thread, "blob", name) for name, body in commit.blobs.items()
            },
            meta=None if meta is None else seal(meta, thread, "meta", ""),
            questions=commit.questions
            and [one._replace(body=seal(one.body, thread, "question", one.place)) for one in commit.questions],
            posts=[(to, id_, seal(body, to, "mail", id_)) for to, id_, body in commit.posts],
        )

    def _sealed_record(self, thread: str, record: Record) -> Record:
        seq, count, body, plain = record
        return Record(seq, count, self._keys.seal(body, thread, "record", (seq, count)), plain)

    def load(self, thread: str, *, upto: int | None = None) -> Loaded:
        """Load the thread as it is now, or as it was after the entry *upto*. See `Store.load`."""
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
        """Return an iterator over the records of *thread*, in order. See `Store.records`."""
        found = self._store.records(thread, after=after, upto=upto)
        return (self._record(thread, record) for record in found)

    def _record(self, thread: str, record: Record) -> Record:
        seq, count, body, plain = record
        return Record(seq, count, self._keys.open(body, thread, "record", (seq, count)), plain)

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the named blobs that exist. See `Store.blobs`."""
        # A blob may have been written under any key of the ring, so it is looked up under all of them (decision 0046).
        stored = {name: self._keys.names(thread, name) for name in names}
        found = self._store.blobs(thread, [one for ones in stored.values() for one in ones])
        there: dict[str, bytes] = {}
        for name, ones in stored.items():
            # A blob is never replaced: if it was stored again after a rotation, the one under the other key counts.
            body = next((found[one] for one in reversed(ones) if one in found), None)
            if body is not None:
                there[name] = self._keys.open(body, thread, "blob", name)
        return there

    def find(
        self, wanted: ThreadFilter, *, after: str | None = None, newest_first: bool = False, limit: int | None = None
    ) -> list[Head]:
        """Return the heads of the threads that *wanted* lets pass. See `Findable.find`."""
        return finder(self._store, "find").find(wanted, after=after, newest_first=newest_first, limit=limit)

    def inbox(self, wanted: QuestionFilter, *, after: str | None = None, limit: int | None = None) -> list[Asked]:
        """Return the open questions that *wanted* lets pass, the oldest first. See `Findable.inbox`."""
        found = finder(self._store, "inbox").inbox(wanted, after=after, limit=limit)
        return [one._replace(question=self._question(one.head.thread, one.question)) for one in found]

    def questions(self, thread: str) -> list[Question]:
        """Return the open questions of *thread*. See `Findable.questions`."""
        return [self._question(thread, one) for one in finder(self._store, "questions").questions(thread)]

    def _question(self, thread: str, question: Question) -> Question:
        return question._replace(body=self._keys.open(question.body, thread, "question", question.place))

    def post(self, thread: str, id: str, body: Payload) -> bool:
        """Keep a letter to *thread* until a commit takes it. See `Postable.post`."""
        _refusals.check_letter(thread, id, body, durable=True)
        return postable(self._store).post(thread, id, self._keys.seal(body, thread, "mail", id))

    def mail(self, thread: str) -> list[Letter]:
        """Return the letters of *thread* that were not taken yet. See `Postable.mail`."""
        found = postable(self._store).mail(thread)
        return [one._replace(body=self._keys.open(one.body, thread, "mail", one.id)) for one in found]

    def mailed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have letters. See `Postable.mailed`."""
        return postable(self._store).mailed(threads)

    def due(
        self,
        *,
        now: float,
        graphs: Iterable[str] | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        """Return the heads of the threads that are due and have no living owner. See `Postable.due`."""
        return postable(self._store).due(now=now, graphs=graphs, prefix=prefix, after=after, limit=limit)

    def follow_live(self, thread: str, *, for_s: float) -> int:
        """Note that a follower reads live items. See `Relaying.follow_live`."""
        return relaying(self._store).follow_live(thread, for_s=for_s)

    def followed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have a follower. See `Relaying.followed`."""
        return relaying(self._store).followed(threads)

    def relay(self, thread: str, id: str, body: bytes, *, forget: int = 0) -> int:
        """Keep a batch of live items. See `Relaying.relay`."""
        return relaying(self._store).relay(thread, id, self._keys.seal(body, thread, "live", id), forget=forget)

    def relayed(self, thread: str, *, after: int, limit: int) -> list[Batch]:
        """Return batches of live items. See `Relaying.relayed`."""
        found = relaying(self._store).relayed(thread, after=after, limit=limit)
        return [one._replace(body=self._keys.open(one.body, thread, "live", one.id)) for one in found]

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete batches of live items. See `Relaying.forget_live`."""
        relaying(self._store).forget_live(threads)

    def put_schedule(self, schedule: Scheduled, *, replaces: str | None) -> bool:
        """Keep *schedule*. See `Schedulable.put_schedule`."""
        sealed = self._keys.seal(schedule.body, schedule.name, "schedule", schedule.version)
        return schedulable(self._store).put_schedule(schedule._replace(body=sealed), replaces=replaces)

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next. See `Schedulable.move_schedule`."""
        return schedulable(self._store).move_schedule(name, version, due_at=due_at, to=to)

    def schedules(self, *, graph: str | None = None, due_by: float | None = None) -> list[Scheduled]:
        """Return the schedules in the order of their names. See `Schedulable.schedules`."""
        found = schedulable(self._store).schedules(graph=graph, due_by=due_by)
        return [one._replace(body=self._keys.open(one.body, one.name, "schedule", one.version)) for one in found]

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. See `Schedulable.delete_schedule`."""
        return schedulable(self._store).delete_schedule(name)

    def copy(self, thread: str, to: str, *, at: float) -> None:
        """Copy the thread with everything stored of it to the id *to*, sealed anew. See `Store.copy`."""
        # The inner store's own `copy` would not do: bodies are bound to the id of their thread.

        def blobs() -> list[str]:
            names = BlobNames(self._keys, thread)
            names.read(self._store)
            return sorted(names.known)

        copy_thread(self, thread, to, at=at, blobs=blobs)

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the records up to the entry *upto*. See `Store.prune`."""
        if keep_blobs is None:
            return self._store.prune(claim, upto)
        # The pages of the list of names are blobs too, which the caller does not know of.
        keep = [one for name in keep_blobs for one in self._keys.names(claim.thread, name)]
        return self._store.prune(claim, upto, keep_blobs=[*keep, *self._names(claim).pages(self._store)])

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Replace records, remove what repeats them, and write *commit*. See `Store.erase`."""
        thread = claim.thread
        _refusals.last_seq(commit, thread)
        _refusals.bytes_only(commit, thread)
        wanted = _refusals.replaced(records, thread, durable=True)
        sealed = self._sealed(commit, thread)
        names = self._names(claim)
        names.read(self._store)
        kept = names.known.intersection(keep_blobs)
        blobs = dict(sealed.blobs)
        # The list of names is written anew: the name of an erased value is its SHA-256, which confirms a guess of it.
        blobs |= names.page([*kept, *commit.blobs])
        try:
            erasable(self._store).erase(
                claim,
                sealed._replace(blobs=blobs),
                records=[self._sealed_record(thread, record) for record in wanted.values()],
                snapshots_after=snapshots_after,
                keep_blobs=[one for name in kept for one in self._keys.names(thread, name)],
            )
        finally:
            self._lists.pop((thread, claim.epoch), None)  # read again before the next commit with blobs

    # The private methods of the inner store, if it has them: see `SqliteStore` and `_verifying`.

    def _make_room(self) -> bool:
        make: Any = getattr(self._store, "_make_room", bool)
        return bool(make())

    def _tidy(self) -> None:
        tidy: Any = getattr(self._store, "_tidy", bool)
        tidy()

    def _scrub(self) -> list[str]:
        return scrub(self._store)

    def _survey(self) -> Iterator[str | Finding]:
        inner = getattr(self._store, "_survey", None)
        return listed(self._store) if inner is None else inner()

    def _blob_names(self, thread: str) -> list[str]:
        """Return the names of the stored blobs in plain, and stored names that no key explains as they are."""
        inner = getattr(self._store, "_blob_names", None)
        if inner is None:
            return []
        there = set(inner(thread))
        names = BlobNames(self._keys, thread)
        there.difference_update(names.pages(self._store))
        found: list[str] = []
        for name in names.known:
            stored = there.intersection(self._keys.names(thread, name))
            if stored:
                there -= stored
                found.append(name)
        return [*found, *there]

    def _names(self, claim: Claim) -> BlobNames:
        with self._lock:
            return self._lists.setdefault((claim.thread, claim.epoch), BlobNames(self._keys, claim.thread))

    # ----------------------------------------------------------------------------------------------------- closing

    def close(self) -> None:
        """Close the inner store. May be called again."""
        self._lists.clear()
        self._store.close()
