"""MemoryStore: threads in this process, for as long as the store is open.

Leases do not expire here, because an owner in the same process cannot die alone. A claim holds until it is released or
the store is closed. This module reads neither a clock nor a file.

- A *claim* is the right to write a thread. Its number is its *epoch*. It is *void* once it was released.
- A *record* has the journal entries of one commit; entries are numbered by `seq`. A *snapshot* is the state after an
  entry. *Staged* bodies are outcomes of tasks whose superstep is not committed yet. *Blobs* are large values by name,
  *meta* are facts about the thread as a whole, and a *head* is its summary for listings.
- A *message* is mail of a process that does not own the thread. A thread is *due* if a worker may drive it now.
- `at` and other times are in seconds since the epoch. `upto`, and `after` of `records`, are numbers of entries.

It has no index: a query checks all rows. Private methods are called under the lock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, final

from graphrt._forks import Home, OwnLock
from graphrt.errors._codes.stores import STORE_CLOSED
from graphrt.errors._codes.threads import CONFLICT, LOST_LEASE, THREAD_HAS_MOVED, UNKNOWN_THREAD
from graphrt.stores import _checks
from graphrt.stores._kept_thread import KeptThread
from graphrt.stores._label_rows import Position, from_token, to_token
from graphrt.stores._live_board import LiveBoard
from graphrt.stores._memory_items import checked_writes, found_in, written
from graphrt.stores.filters import (
    DueFilter,
    Filter,
    FollowerFilter,
    MailFilter,
    MemoryFilter,
    NamespaceFilter,
    QuestionFilter,
    ThreadFilter,
    place_of,
)
from graphrt.stores.ids import check_id
from graphrt.stores.values import (
    EVERYTHING,
    Claim,
    Commit,
    Head,
    LiveBatch,
    MemoryWrite,
    NewBatch,
    Offer,
    OpenQuestion,
    Record,
    StoredItem,
    StoredSchedule,
    StoredThread,
)
from graphrt.stores.verbs import StoreVerbs

__all__ = ["MemoryStore"]

_SEQ: Final = attrgetter("seq")


@final
class MemoryStore(StoreVerbs):
    """An in-process store, which keeps threads until it is closed. Runtimes and worker threads may share it.

    It keeps the same bytes as any other store, and loses them with the process.
    """

    durable: bool = False
    blocking: bool = False
    offers: frozenset[Offer] = EVERYTHING

    def __init__(self) -> None:
        self._threads: dict[str, KeptThread] = {}
        home = Home("This memory store")
        self._guard = OwnLock(home)
        self._schedules: dict[str, StoredSchedule] = {}
        self._memory: dict[tuple[str, str], tuple[StoredItem, frozenset[str]]] = {}
        """Items of the memory with their words, by namespace and key."""
        self._live_board = LiveBoard(home)
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._threads)} threads{', closed' if self._closed else ''}>"

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner. See `Store.claim`.

        *lease_s* has no effect.
        """
        check_id(thread)
        with self._guard:
            stored = self._open().get(thread)
            if stored is None:
                if not create:
                    raise UNKNOWN_THREAD(thread=thread)
                stored = KeptThread(thread, at)
            elif stored.claim is not None:
                raise CONFLICT(
                    thread=thread, known=f"claim number {stored.epoch}, of this process; it holds until released"
                )
            stored.epoch += 1
            claim = Claim(stored.head()._replace(owned=True), lease_s)  # `stored.claim` is set only below
            stored.claim = claim
            self._threads[thread] = stored  # last: a Ctrl-C before this leaves nothing behind
            return claim

    def renew(self, claims: Iterable[Claim]) -> None:
        """Do nothing: a claim holds until it is released."""

    def release(self, claim: Claim) -> None:
        """Release the thread, and delete it if it has no entries. Do nothing if the claim is void."""
        with self._guard:
            stored = self._threads.get(claim.thread)
            if stored is not None and stored.claim is claim:
                stored.free(self._threads)

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing. See `Store.commit`."""
        with self._guard:
            seq = _checks.check_commit(commit, claim.thread)
            stored = self._owned(claim)
            if stored.seq != commit.expected:
                raise THREAD_HAS_MOVED(thread=claim.thread, expected=commit.expected, got=stored.seq)
            self._write(stored, commit, seq)

    def head(self, thread: str) -> Head:
        """Return the head of *thread*. See `Store.head`."""
        with self._guard:
            return self._get(thread).head()

    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        """Return a page of rows. See `Store.query`."""
        with self._guard:
            if isinstance(wanted, MemoryFilter):
                self._open()
                return found_in(wanted, self._memory.values())[:limit]
            table = self._table(wanted)
            if after is not None:
                begin = self._place(wanted, after)
                table = [keyed_row for keyed_row in table if keyed_row[0] > begin]
            rows = [row for _, row in sorted(table, key=lambda keyed_row: keyed_row[0]) if wanted.fits(row)]
            return rows[:limit]

    def _table(self, wanted: Filter[Any]) -> list[tuple[tuple[Any, ...], Any]]:
        """Return all rows of the kind of *wanted*, sorted, each with its sort key."""
        threads_by_id = self._open()
        threads: Iterable[KeptThread] = (stored for stored in threads_by_id.values() if stored.seq)
        match wanted:
            case ThreadFilter():
                if wanted.ids is not None:  # few, so they are looked up directly
                    threads = [
                        threads_by_id[id_] for id_ in {*wanted.ids} if id_ in threads_by_id and threads_by_id[id_].seq
                    ]
                step = -1 if wanted.newest_first else 1
                return [
                    ((step * stored.number,), stored.listed())
                    for stored in threads
                    if stored.mail or not wanted.has_mail
                ]
            case DueFilter():
                due = [(stored.number, stored.head()) for stored in threads if stored.is_due(wanted.now)]
                return [((-head.priority, number), head) for number, head in due]
            case QuestionFilter():
                if wanted.thread is not None:
                    threads = (self._get(wanted.thread),)
                return [
                    (
                        (question.asked_at, stored.number, question.place),
                        OpenQuestion(stored.listed(), question, to_token(position)),
                    )
                    for stored in threads
                    for question in stored.questions.values()
                    for position in [Position(question.asked_at, stored.id, question.place)]
                ]
            case MailFilter():
                return [((message.place,), message) for message in self._get(wanted.thread).mail.values()]
            case NamespaceFilter():
                rows = {item.namespace for item, _ in self._memory.values() if wanted.covers(item)}
                return [((f"{name}/",), name) for name in rows]
            case FollowerFilter():
                return [((thread,), thread) for thread in self._live_board.followed(wanted.threads)]
            case _:
                return [((row.name,), row) for row in self._schedules.values()]

    def _place(self, wanted: Filter[Any], after: str) -> tuple[Any, ...]:
        """Return the place of *after* in the order of `_table`."""
        match wanted:
            case ThreadFilter():  # also for a thread without entries, which is not listed
                return (self._get(after).number * (-1 if wanted.newest_first else 1),)
            case DueFilter():
                stored = self._get(after)
                return (-stored.head().priority, stored.number)
            case QuestionFilter():
                asked_at, thread, place = from_token(after)
                stored_or_none = self._threads.get(thread)
                return (asked_at, 0 if stored_or_none is None else stored_or_none.number, place)
            case MailFilter():
                return (place_of(after),)
            case NamespaceFilter():
                return (f"{after}/",)
            case _:
                return (after,)

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> StoredThread:
        """Load the thread in its present state, or as it was after the entry *upto*. See `Store.load`."""
        with self._guard:
            stored = self._get(thread)
            seq = stored.seq if upto is None else upto
            at = bisect_right(stored.snapshots, seq, key=_SEQ)
            snapshot = stored.snapshots[at - 1] if at and not after else None
            records = stored.part(snapshot.seq if snapshot else after, upto)
            # Staged bodies belong to the newest state only.
            staged = tuple(stored.staged.items()) if seq >= stored.seq else ()
            return StoredThread(stored.head(), stored.meta, snapshot, records, staged)

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Return an iterator over the records from entry *after* + 1 to entry *upto*, in order. See `Store.records`.

        A record that lies only partly in this range is included, whole.
        """
        with self._guard:
            return iter(self._get(thread).part(after, upto))  # a new list, which is read without the lock

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the named blobs that exist. See `Store.blobs`."""
        with self._guard:
            stored = self._open().get(check_id(thread))
            return {name: stored.blobs[name] for name in names if name in stored.blobs} if stored else {}

    def delete(self, thread: str) -> None:
        """Delete the thread with all its stored data. See `Store.delete`."""
        with self._guard:
            stored = self._get(thread)
            if stored.claim is not None:
                raise CONFLICT(
                    thread=thread, known=f"claim number {stored.epoch}, of this process; it holds until released"
                )
            del self._threads[thread]
            self._live_board.forget([thread])

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the entries up to *upto*, which has a snapshot, and all blobs but *keep_blobs*. See `Store.prune`."""
        keep = None if keep_blobs is None else set(keep_blobs)
        with self._guard:
            stored = self._owned(claim)
            if all(saved.seq != upto for saved in stored.snapshots):
                raise _checks.no_snapshot(claim.thread, upto, (saved.seq for saved in stored.snapshots))
            deletions = bisect_right(stored.records, upto, key=_SEQ)  # number of records to delete
            old_first = stored.first
            if deletions:
                stored.first = stored.records[deletions - 1].seq + 1
                del stored.records[:deletions]
            stored.snapshots = [saved for saved in stored.snapshots if saved.seq >= upto]
            if keep is not None:
                stored.blobs = {name: body for name, body in stored.blobs.items() if name in keep}
            return stored.first - old_first

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Erase values, and write *commit*, all in one transaction. See `Store.erase`.

        Stored records are replaced by *records* of the same numbers, without the values. Snapshots of entries after
        *snapshots_after*, and all blobs but *keep_blobs*, are deleted.
        """
        replacements = _checks.replaced(records, claim.thread)
        keep = set(keep_blobs)
        with self._guard:
            seq = _checks.check_commit(commit, claim.thread)
            stored = self._owned(claim)
            if stored.seq != commit.expected:
                raise THREAD_HAS_MOVED(thread=claim.thread, expected=commit.expected, got=stored.seq)
            # Positions of the stored records. All are checked before the first one is replaced.
            places = {record.seq: at for at, record in enumerate(stored.records)}
            for record in replacements.values():
                at = places.get(record.seq)
                if at is None or stored.records[at].count != record.count:
                    raise _checks.no_record(claim.thread, record)
            for record in replacements.values():
                stored.records[places[record.seq]] = record
            stored.snapshots = [saved for saved in stored.snapshots if saved.seq <= snapshots_after]
            stored.blobs = {name: body for name, body in stored.blobs.items() if name in keep}
            self._live_board.forget([claim.thread])  # live items may also contain the erased values
            self._write(stored, commit, seq)

    def _write(self, stored: KeptThread, commit: Commit, seq: int) -> None:
        """Write *commit*, with its messages to other threads, after all other checks. Called under the lock.

        A message to a thread that does not exist, or has no entries, is dropped, because the deletion of one thread
        must not fail the commit of another. `post` raises in this case, because it does nothing else.

        Args:
            stored: The thread.
            commit: What is written.
            seq: Number of the thread's last entry after it.
        """
        posts, memory = tuple(commit.posts), commit.memory  # read before anything changes
        writes = checked_writes(memory, commit.at) if memory else ()
        stored.write(commit, seq)
        if writes:
            self._remember(writes, commit.at)
        for thread, id_, body in posts:
            recipient = self._threads.get(thread)
            if recipient is not None and recipient.seq:
                recipient.post(id_, body)
        if commit.release:
            stored.free(self._threads)

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a message to *thread* until a commit takes it; return False if its *id* came before."""
        _checks.check_message(check_id(thread), id, body)
        with self._guard:
            stored = self._get(thread)
            if not stored.seq:
                raise UNKNOWN_THREAD(thread=thread)
            return stored.post(id, body)

    def put_schedule(self, schedule: StoredSchedule, *, replaces: str | None) -> bool:
        """Keep *schedule* if the store has the version *replaces* of its name, or none for None; else return False."""
        with self._guard:
            self._open()
            current = self._schedules.get(schedule.name)
            if (None if current is None else current.version) != replaces:
                return False
            self._schedules[schedule.name] = schedule
            return True

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Set when the schedule is due next to *to*, if it has this *version* and is due at *due_at*; else False."""
        with self._guard:
            self._open()
            current = self._schedules.get(name)
            if current is None or (current.version, current.due_at) != (version, due_at):
                return False
            self._schedules[name] = current._replace(due_at=to)
            return True

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule. Returns False if there was none."""
        with self._guard:
            self._open()
            return self._schedules.pop(name, None) is not None

    def write_memory(self, writes: Sequence[MemoryWrite], *, at: float) -> None:
        """Write to the memory, outside of any thread. See `Store.write_memory`."""
        checked = checked_writes(writes, at)
        with self._guard:
            self._open()
            self._remember(checked, at)

    def _remember(self, writes: Iterable[MemoryWrite], at: float) -> None:
        """Make the changes *writes*, which were checked, at *at*."""
        for write in writes:
            name = (write.namespace, write.key)
            previous = self._memory.pop(name, None)
            if write.body is not None:
                self._memory[name] = (written(write, previous and previous[0], at), frozenset(write.words))

    def purge_memory(self, *, expired_by: float, namespace: str = "") -> int:
        """Delete expired items. See `Store.purge_memory`."""
        living = MemoryFilter(now=expired_by, namespace=namespace)
        all_items = replace(living, now=float("-inf"))
        with self._guard:
            self._open()
            expired = [
                name for name, (item, _) in self._memory.items() if all_items.covers(item) and not living.covers(item)
            ]
            for name in expired:
                del self._memory[name]
            return len(expired)

    def follow_live(self, threads: Iterable[str], *, for_s: float) -> dict[str, int]:
        """Register interest in *threads* for *for_s* seconds, and return the places of their newest batches, or 0."""
        board = self._board()
        return {thread: board.follow(thread, for_s) for thread in [check_id(thread) for thread in threads]}

    def relay(self, batches: Sequence[NewBatch]) -> list[int]:
        """Keep batches of live items, and return their places. See `Store.relay`."""
        board = self._board()
        return [board.relay(check_id(batch.thread), batch.id, batch.body, batch.forget) for batch in batches]

    def relayed(self, thread: str, *, after: int, limit: int) -> list[LiveBatch]:
        """Return at most *limit* batches of *thread* after the place *after*, in order."""
        return self._board().after(check_id(thread), after, limit)

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*."""
        self._board().forget(threads)

    def _board(self) -> LiveBoard:
        """Return the live items, which have their own lock, because drivers use them while a run commits."""
        self._open()
        return self._live_board

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return the names of the thread's blobs that are not in *names*, and so unreferenced, for `verify`."""
        with self._guard:
            return sorted(set(self._get(thread).blobs).difference(names))

    def close(self) -> None:
        """Delete all threads and void all claims. May be called again. In a forked child it does nothing."""
        if self._guard.home.elsewhere:
            return
        with self._guard:
            self._closed = True
            self._threads.clear()
            self._memory.clear()

    def _open(self) -> dict[str, KeptThread]:
        """Return the threads by id, if the store is not closed.

        Raises:
            StoreError: It is closed (`store-closed`).
        """
        if self._closed:
            raise STORE_CLOSED(store="This memory store")
        return self._threads

    def _get(self, thread: str) -> KeptThread:
        """Return *thread*.

        Raises:
            InputError: There is no such thread (`unknown-thread`), or the id is not valid.
            StoreError: The store is closed.
        """
        stored = self._open().get(check_id(thread))
        if stored is None:
            raise UNKNOWN_THREAD(thread=thread)
        return stored

    def _owned(self, claim: Claim) -> KeptThread:
        """Return the thread that *claim* holds.

        Raises:
            ConflictError: The claim is void (`lost-lease`).
            StoreError: The store is closed.
        """
        stored = self._threads.get(claim.thread)
        if stored is None or stored.claim is not claim:
            self._open()  # a closed store has no threads
            state = "there is no such thread now" if stored is None else f"its newest claim is number {stored.epoch}"
            raise LOST_LEASE(thread=claim.thread, epoch=claim.epoch, known=state)
        return stored
