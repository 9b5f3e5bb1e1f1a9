"""EncryptedStore: a wrapper around a store that encrypts all bodies.

This module knows which bodies a store has and to which place each is bound. The cipher is in `_sealing`. Whatever a
store must be able to search stays in plain text: thread ids, status, graph name, times, entry numbers, staged keys,
seals, titles and tags, ids of letters, name, graph and time of a schedule, and of an open question everything but what
it asks. Methods that have no body to encrypt call the same method of the inner store.

- A *claim* is the right to write a thread. Its number is its *epoch*. It is *void* once it was released or its lease of
  `lease_s` seconds, which commits and `renew` restart, has run out.
- A *record* has the journal entries of one commit; entries are numbered. A *snapshot* is the state after an entry,
  *staged* bodies are outcomes of tasks whose superstep is not committed yet, *blobs* are large values by name, *meta*
  are facts about the thread as a whole, and a *head* is its summary for listings. To erase values, `erase` puts records
  without them in place of the stored records with the same numbers.
- A *letter* is mail of a process that does not own the thread. A thread is *due* if a worker may drive it now.
- *Live items* are what a run shows between commits. A *follower* reads them in batches; the number of a batch is its
  *place*. A *schedule* starts threads at set times, and has a new `version` with each definition.
- `at`, `now` and other times are in seconds since the epoch. Listings begin after the thread or place `after` and have
  at most `limit` results, None for all. `upto` is the number of an entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NoReturn, final

from graphrt.stores import _refusals
from graphrt.stores._sealing import Keyring
from graphrt.stores._verifying import listed, other_blobs
from graphrt.stores.labels import Asked, QuestionFilter, ThreadFilter, finder
from graphrt.stores.live import Batch, relaying
from graphrt.stores.mail import Letter, postable
from graphrt.stores.protocol import (
    Claim,
    Commit,
    Head,
    Loaded,
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

    Blobs are stored under an HMAC of thread and name, so that equal values cannot be recognised. A copy of a thread, made
    by `Runtime.copy_thread`, is encrypted anew under its own id.

    Args:
        store: Any store. It is closed together with this one.
        keys: 32 random bytes each, by an id that is stored with every body. To rotate, add a key and make it current.
            Keep the other keys as long as anything that they sealed. A copy is written with the current key alone.
        current: Id of the key for new bodies, and for the names of new blobs. None: the first of *keys*.

    Raises:
        InputError: A key is not acceptable (`bad-key`).
        MissingExtraError: cryptography is not installed.
    """

    encrypted: bool = True
    """Exports contain plain text, so `export_thread` needs `decrypted=True`."""

    def __init__(self, store: Store, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        self.durable: bool = store.durable
        self.blocking: bool = store.blocking
        self._store: Final = store
        self._keys: Final = Keyring(keys, current=current)

    @property
    def _wrapped(self) -> Store:
        """The inner store, whose optional methods decide which ones this store has."""
        return self._store

    def __repr__(self) -> str:
        return f"<EncryptedStore over {self._store!r}, keys {', '.join(self._keys.ids)}>"

    def __reduce__(self) -> NoReturn:  # a pickle would carry the keys to a file or another process
        raise TypeError("an EncryptedStore is never pickled: its keys stay where they are")

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner. See `Store.claim`."""
        return self._store.claim(thread, create=create, lease_s=lease_s, at=at)

    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. See `Store.renew`."""
        self._store.renew(claims)

    def release(self, claim: Claim) -> None:
        """Release the thread. See `Store.release`."""
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

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing. See `Store.commit`."""
        thread = claim.thread
        # Checked before sealing, which needs bytes: the inner store sees only the ciphertext.
        _refusals.last_seq(commit, thread)
        _refusals.bytes_only(commit, thread)
        self._store.commit(claim, self._sealed(commit, thread))

    def _sealed(self, commit: Commit, thread: str) -> Commit:
        """Return *commit* with all of its bodies encrypted, each for its place; letters for their receivers."""
        snapshot, meta = commit.snapshot, commit.meta
        seal = self._keys.seal  # `and` below keeps a None; meta may be empty bytes, which are sealed too
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
        """Return *record* with its body encrypted. Its seal, hashes by which changes are found, stays plain."""
        seq, count, body, hashes = record
        return Record(seq, count, self._keys.seal(body, thread, "record", (seq, count)), hashes)

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> Loaded:
        """Load the thread as it is now, or as it was after the entry *upto*. See `Store.load`."""
        found = self._store.load(thread, upto=upto, after=after)
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
        """Return the stored *record* with its body decrypted. Its seal was not encrypted."""
        seq, count, body, hashes = record
        return Record(seq, count, self._keys.open(body, thread, "record", (seq, count)), hashes)

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
        """Return the stored *question* of *thread* with its body, which says what it asks, decrypted."""
        return question._replace(body=self._keys.open(question.body, thread, "question", question.place))

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a letter to *thread* until a commit takes it; return False if its *id* came before."""
        _refusals.check_letter(thread, id, body)
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
        """Note interest in *thread* for *for_s* seconds; return the place of its newest batch."""
        return relaying(self._store).follow_live(thread, for_s=for_s)

    def followed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have a follower. See `Relaying.followed`."""
        return relaying(self._store).followed(threads)

    def relay(self, thread: str, id: str, body: bytes, *, forget: int = 0) -> int:
        """Keep a batch of live items, delete those up to the place *forget*, return its place."""
        return relaying(self._store).relay(thread, id, self._keys.seal(body, thread, "live", id), forget=forget)

    def relayed(self, thread: str, *, after: int, limit: int) -> list[Batch]:
        """Return at most *limit* batches of *thread* after the place *after*."""
        found = relaying(self._store).relayed(thread, after=after, limit=limit)
        return [one._replace(body=self._keys.open(one.body, thread, "live", one.id)) for one in found]

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*."""
        relaying(self._store).forget_live(threads)

    def put_schedule(self, schedule: Scheduled, *, replaces: str | None) -> bool:
        """Keep *schedule*; return False if the store has another version than *replaces*."""
        sealed = self._keys.seal(schedule.body, schedule.name, "schedule", schedule.version)
        return schedulable(self._store).put_schedule(schedule._replace(body=sealed), replaces=replaces)

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Move a schedule from *due_at* to *to*; return False if version or time differ."""
        return schedulable(self._store).move_schedule(name, version, due_at=due_at, to=to)

    def schedules(self, *, graph: str | None = None, due_by: float | None = None) -> list[Scheduled]:
        """Return the schedules in the order of their names. See `Schedulable.schedules`."""
        found = schedulable(self._store).schedules(graph=graph, due_by=due_by)
        return [one._replace(body=self._keys.open(one.body, one.name, "schedule", one.version)) for one in found]

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule; return False if there was none."""
        return schedulable(self._store).delete_schedule(name)

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the entries up to *upto*, which has a snapshot, and all blobs but *keep_blobs*. See `Store.prune`."""
        if keep_blobs is None:
            return self._store.prune(claim, upto)
        keep = [one for name in keep_blobs for one in self._keys.names(claim.thread, name)]
        return self._store.prune(claim, upto, keep_blobs=keep)

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Replace *records*, delete snapshots after *snapshots_after* and blobs but *keep_blobs*, write *commit*."""
        thread = claim.thread
        _refusals.last_seq(commit, thread)
        _refusals.bytes_only(commit, thread)
        wanted = _refusals.replaced(records, thread)
        erasable(self._store).erase(
            claim,
            self._sealed(commit, thread),
            records=[self._sealed_record(thread, record) for record in wanted.values()],
            snapshots_after=snapshots_after,
            keep_blobs=[one for name in keep_blobs for one in self._keys.names(thread, name)],
        )

    # Private methods that only some stores have.

    def _scrub(self) -> list[str]:
        """Let the inner store overwrite what it has freed; return sentences about what is left."""
        return scrub(self._store)

    def _survey(self) -> Iterator[str | Finding]:
        """Yield ids of all threads and findings about the store itself, for `verify`."""
        inner = getattr(self._store, "_survey", None)
        return listed(self._store) if inner is None else inner()

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return the stored names of the blobs of *thread* that none of *names* has under any key, for `verify`."""
        stored = (one for name in names for one in self._keys.names(thread, name))
        return other_blobs(self._store, thread, stored)

    def close(self) -> None:
        """Close the inner store. May be called again."""
        self._store.close()
