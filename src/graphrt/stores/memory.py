"""MemoryStore: threads in this process, for as long as the store is open.

Leases do not run out here: an owner in the same process cannot die alone. A claim holds until it is released or the
store is closed. Nothing in this module reads a clock or a file.

- A *claim* is the right to write a thread. Its number is its *epoch*. It is *void* once it was released.
- A *record* has the journal entries of one commit; entries are numbered by `seq`. A *snapshot* is the state after an
  entry, *staged* bodies are outcomes of tasks whose superstep is not committed yet, *blobs* are large values by name,
  *meta* are facts about the thread as a whole, and a *head* is its summary for listings.
- A *letter* is mail of a process that does not own the thread. A thread is *due* if a worker may drive it now.
- `at` and other times are in seconds since the epoch. Listings begin after the thread `after` and have at most `limit`
  results, None for all. `upto`, and `after` of `records`, are numbers of entries.

Private methods that return or change a `KeptThread` are called under the lock. Those that return heads take it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, final

from graphrt._forks import Home, OwnLock
from graphrt.stores import _refusals
from graphrt.stores._kept_thread import KeptThread
from graphrt.stores._live_board import LiveBoard, Relaying
from graphrt.stores._mailbox import Posting
from graphrt.stores._schedule_table import ScheduleTable, Scheduling
from graphrt.stores._searching import Searching
from graphrt.stores.ids import check_id
from graphrt.stores.mail import Letter
from graphrt.stores.protocol import Claim, Commit, Head, Loaded, Question, Record, Status
from graphrt.stores.verbs import StoreVerbs

__all__ = ["MemoryStore"]

_SEQ: Final = attrgetter("seq")


@final
class MemoryStore(Searching, Posting, Scheduling, Relaying, StoreVerbs):
    """A store in this process, which keeps threads until it is closed. Runtimes and worker threads may share it.

    It keeps the same bytes as any other store, and loses them with the process.
    """

    durable: bool = False
    blocking: bool = False

    def __init__(self) -> None:
        self._threads: dict[str, KeptThread] = {}
        home = Home("This memory store")
        self._guard = OwnLock(home)
        self._schedule_table = ScheduleTable(home)
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
            kept = self._open().get(thread)
            if kept is None:
                if not create:
                    raise _refusals.unknown_thread(thread)
                kept = self._threads[thread] = KeptThread(thread, at)
            elif kept.claim is not None:
                raise _refusals.held(thread, f"claim number {kept.epoch}, of this process; it holds until released")
            kept.epoch += 1
            claim = Claim(kept.head()._replace(owned=True), lease_s)  # `kept.claim` is set only below
            kept.claim = claim
            return claim

    def renew(self, claims: Iterable[Claim]) -> None:
        """Do nothing: a claim holds until it is released."""

    def release(self, claim: Claim) -> None:
        """Release the thread, and delete it if it has no entries. Do nothing if the claim is void."""
        with self._guard:
            kept = self._threads.get(claim.thread)
            if kept is not None and kept.claim is claim:
                self._free(kept)

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing. See `Store.commit`."""
        with self._guard:
            self._open()
            seq = _refusals.last_seq(commit, claim.thread)
            _refusals.bytes_only(commit, claim.thread)
            kept = self._owned(claim)
            if kept.seq != commit.expected:
                raise _refusals.moved(claim.thread, commit.expected, kept.seq)
            self._write(kept, commit, seq)

    def head(self, thread: str) -> Head:
        """Return the head of *thread*. See `Store.head`."""
        with self._guard:
            return self._get(thread).head()

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
        most = _refusals.page_size(limit, updated_before=updated_before)  # -1 without a limit, which no length equals
        with self._guard:
            # A dict keeps the order of insertion, which is the order of creation.
            everything = iter(list(self._open().values()))
            if after is not None:
                last = self._get(after)  # skipped before the filters apply, which it need not match
                while next(everything) is not last:
                    pass
            found: list[Head] = []
            for kept in everything:
                if len(found) == most:
                    break
                head = kept.listed()
                if (
                    kept.seq
                    and (status is None or head.status == status)
                    and (graph is None or kept.graph == graph)
                    and (prefix is None or kept.id.startswith(prefix))
                    and (updated_before is None or kept.updated_at < updated_before)
                ):
                    found.append(head)
            return found

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> Loaded:
        """Load the thread as it is now, or as it was after the entry *upto*. See `Store.load`."""
        with self._guard:
            kept = self._get(thread)
            seq = kept.seq if upto is None else upto
            at = bisect_right(kept.snapshots, seq, key=_SEQ)
            snapshot = kept.snapshots[at - 1] if at and not after else None
            records = kept.part(snapshot.seq if snapshot else after, upto)
            # Staged bodies belong to the newest state only.
            staged = tuple(kept.staged.items()) if seq >= kept.seq else ()
            return Loaded(kept.head(), kept.meta, snapshot, records, staged)

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Return an iterator over the records from entry *after* + 1 to entry *upto*, in order. See `Store.records`.

        A record that lies only partly in this range is included, whole.
        """
        with self._guard:
            return iter(self._get(thread).part(after, upto))  # a new list, which is read without the lock

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the named blobs that exist. See `Store.blobs`."""
        with self._guard:
            kept = self._open().get(check_id(thread))
            return {name: kept.blobs[name] for name in names if name in kept.blobs} if kept else {}

    def delete(self, thread: str) -> None:
        """Delete the thread with everything stored of it. See `Store.delete`."""
        with self._guard:
            kept = self._get(thread)
            if kept.claim is not None:
                raise _refusals.held(thread, f"claim number {kept.epoch}, of this process; it holds until released")
            del self._threads[thread]
            self._board.forget([thread])

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the entries up to *upto*, which has a snapshot, and all blobs but *keep_blobs*. See `Store.prune`."""
        keep = None if keep_blobs is None else set(keep_blobs)
        with self._guard:
            self._open()
            kept = self._owned(claim)
            if all(saved.seq != upto for saved in kept.snapshots):
                raise _refusals.no_snapshot(claim.thread, upto, (saved.seq for saved in kept.snapshots))
            gone = bisect_right(kept.records, upto, key=_SEQ)  # number of records to delete
            before = kept.first
            if gone:
                kept.first = kept.records[gone - 1].seq + 1
                del kept.records[:gone]
            kept.snapshots = [saved for saved in kept.snapshots if saved.seq >= upto]
            if keep is not None:
                kept.blobs = {name: body for name, body in kept.blobs.items() if name in keep}
            return kept.first - before

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Erase values, and write *commit*, all in one transaction. See `Erasable.erase`.

        Stored records are replaced by *records* of the same numbers, without the values. Snapshots of entries after
        *snapshots_after*, and all blobs but *keep_blobs*, are deleted.
        """
        wanted = _refusals.replaced(records, claim.thread)
        keep = set(keep_blobs)
        with self._guard:
            self._open()
            seq = _refusals.last_seq(commit, claim.thread)
            kept = self._owned(claim)
            if kept.seq != commit.expected:
                raise _refusals.moved(claim.thread, commit.expected, kept.seq)
            # Positions of the stored records. All are checked before the first one is replaced.
            places = {record.seq: at for at, record in enumerate(kept.records)}
            for record in wanted.values():
                at = places.get(record.seq)
                if at is None or kept.records[at].count != record.count:
                    raise _refusals.no_record(claim.thread, record)
            for record in wanted.values():
                kept.records[places[record.seq]] = record
            kept.snapshots = [saved for saved in kept.snapshots if saved.seq <= snapshots_after]
            kept.blobs = {name: body for name, body in kept.blobs.items() if name in keep}
            self._board.forget([claim.thread])  # live items may show the erased values too
            self._write(kept, commit, seq)

    def _write(self, kept: KeptThread, commit: Commit, seq: int) -> None:
        """Write *commit*, with its letters to other threads, after all other checks. Called under the lock.

        A letter to a thread that does not exist, or has no entries, is dropped: the commit of one thread must not fail
        because another was deleted. `post` raises in this case, because it has no other work.

        Args:
            kept: The thread.
            commit: What is written.
            seq: Number of the thread's last entry after it.
        """
        posts = tuple(commit.posts)  # read before anything changes
        kept.write(commit, seq)
        for thread, id_, body in posts:
            other = self._threads.get(thread)
            if other is not None and other.seq:
                other.post(id_, body)
        if commit.release:
            self._free(kept)

    def _listed(self) -> list[tuple[int, Head, Sequence[Question]]]:
        """Return number, head and open questions of all threads with entries, for searching, in order of creation."""
        with self._guard:
            # A dict keeps the order of insertion, which is the order of creation.
            threads = [kept for kept in self._open().values() if kept.seq]
            return [(kept.number, kept.listed(), tuple(kept.questions.values())) for kept in threads]

    def _number(self, thread: str) -> int:
        """Return the number of *thread*, which tells the order of creation."""
        with self._guard:
            return self._get(thread).number

    def _standing(self, thread: str) -> tuple[Head, Sequence[Question]]:
        """Return head and open questions of *thread*, for searching."""
        with self._guard:
            kept = self._get(thread)
            return kept.head(), tuple(kept.questions.values())

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a letter to *thread* until a commit takes it; return False if its *id* came before."""
        _refusals.check_letter(check_id(thread), id, body)
        with self._guard:
            kept = self._get(thread)
            if not kept.seq:
                raise _refusals.unknown_thread(thread)
            return kept.post(id, body)

    def mail(self, thread: str) -> list[Letter]:
        """Return the letters of *thread* that were not taken yet. See `Postable.mail`."""
        with self._guard:
            box = self._get(thread).mailbox
            return [] if box is None else list(box.letters.values())

    def mailed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have letters. See `Postable.mailed`."""
        with self._guard:
            known = self._open()
            return [thread for thread in {*threads} if thread in known and known[thread].has_mail]

    def _boxes(self) -> list[tuple[int, Head, Sequence[Question], bool]]:
        """Return number, head and open questions of all threads with entries, and whether letters may make them due, for `due`."""
        with self._guard:
            return [
                (kept.number, kept.head(), tuple(kept.questions.values()), kept.is_moved)
                for kept in self._open().values()
                if kept.seq
            ]

    def _rank_of(self, thread: str) -> tuple[int, int]:
        """Return the place of *thread* in the order of `due`: the highest priority first, then order of creation."""
        with self._guard:
            kept = self._get(thread)
            return -kept.head().priority, kept.number

    @property
    def _table(self) -> ScheduleTable:
        """Schedules, which start threads at set times; used by the base class `Scheduling`."""
        self._open()
        return self._schedule_table

    @property
    def _board(self) -> LiveBoard:
        """Items that runs show between commits; used by the base class `Relaying`."""
        self._open()
        return self._live_board

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return the names of the thread's blobs that are not in *names*, for `verify`: nothing refers to them."""
        with self._guard:
            return sorted(set(self._get(thread).blobs).difference(names))

    def close(self) -> None:
        """Delete all threads and void all claims. May be called again. In a forked child it does nothing."""
        if self._guard.home.elsewhere:
            return
        with self._guard:
            self._closed = True
            self._threads.clear()

    def _open(self) -> dict[str, KeptThread]:
        """Return the threads by id, if the store is not closed.

        Raises:
            StoreError: It is closed (`store-closed`).
        """
        if self._closed:
            raise _refusals.closed("This memory store")
        return self._threads

    def _get(self, thread: str) -> KeptThread:
        """Return *thread*.

        Raises:
            InputError: There is no such thread (`unknown-thread`), or the id is not valid.
            StoreError: The store is closed.
        """
        kept = self._open().get(check_id(thread))
        if kept is None:
            raise _refusals.unknown_thread(thread)
        return kept

    def _owned(self, claim: Claim) -> KeptThread:
        """Return the thread that *claim* holds.

        Raises:
            ConflictError: The claim is void (`lost-lease`).
        """
        kept = self._threads.get(claim.thread)
        if kept is None or kept.claim is not claim:
            state = "there is no such thread now" if kept is None else f"its newest claim is number {kept.epoch}"
            raise _refusals.lost(claim.thread, claim.epoch, state)
        return kept

    def _free(self, kept: KeptThread) -> None:
        """End the claim on *kept*, and delete the thread if it has no entries."""
        kept.free(self._threads)
