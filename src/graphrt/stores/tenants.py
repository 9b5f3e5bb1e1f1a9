"""TenantStore: the threads of one tenant in a store that several tenants share.

A *tenant* is a customer whose threads are kept apart from those of others. A tenant's thread `order-7` is the thread
`acme~order-7` of the shared store. Every call maps ids on the way in, and heads, claims and errors on the way out. No
check that could be forgotten hides the threads of others: no id that can be given names one (decision 0151).

Only this mapping belongs here. The form of ids is in `ids`. Terms and arguments of the store protocol:

- A *claim* is the right to write a thread. Its number is its *epoch*. It is *void* once it was released or its lease of
  `lease_s` seconds, which commits and `renew` restart, has run out.
- A *record* has the journal entries of one commit; entries are numbered. A *head* is the summary of a thread, a
  *snapshot* the state after an entry. *Blobs* are large values by name. To erase values, records replace stored ones.
- A *letter* is mail of a process that does not own the thread. A thread is *due* if a worker may drive it now.
- *Live items* are what a run shows between commits. A *follower* reads them in batches; the number of a batch is its
  *place*. A *schedule* starts threads at set times, and has a new `version` with each definition.
- `at`, `now` and other times are in seconds since the epoch. Listings begin after the thread or place `after` and have
  at most `limit` results, None for all. `upto` is the number of an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeVar, final

from graphrt.errors import GraphrtError, StoreError
from graphrt.errors._codes.labels import TENANT_OF_TENANT
from graphrt.stores import _refusals
from graphrt.stores._label_rows import thread_of, wrong_token
from graphrt.stores._verifying import other_blobs
from graphrt.stores.ids import BETWEEN, check_bare_id, check_id, check_tenant, tenant_of
from graphrt.stores.labels import Asked, QuestionFilter, ThreadFilter, finder
from graphrt.stores.live import Batch, relaying
from graphrt.stores.mail import Letter, postable
from graphrt.stores.protocol import Claim, Commit, Head, Loaded, Question, Record, Status, Store, erasable
from graphrt.stores.schedules import Scheduled, schedulable
from graphrt.stores.verbs import StoreVerbs, delete_many, scrub

__all__ = ["TenantStore"]

T = TypeVar("T")


class _Claim(Claim):
    """A claim of the shared store, under the id that the tenant knows."""

    __slots__ = ("inner",)

    def __init__(self, inner: Claim, head: Head) -> None:
        super().__init__(head, inner.lease_s, inner.former)  # *head* has the tenant's id, `inner.head` the shared one
        self.inner: Final = inner


@final
class TenantStore(StoreVerbs):
    """The threads of one tenant in a store that tenants share: it sees, lists, claims, copies and deletes no others.

    Two tenants may have threads with equal ids. Closing it releases its claims. The shared store stays open, unless
    `open_store` opened it for this tenant alone.

    Args:
        store: The shared store. An `EncryptedStore` belongs inside and not around: bodies are then bound to the tenant.
        tenant: 1 to 64 of the characters that ids have.

    Raises:
        InputError: *tenant* is not such a name, or *store* is a tenant's already (`bad-tenant`).
    """

    def __init__(self, store: Store, tenant: str) -> None:
        self.tenant: Final = check_tenant(tenant)
        """The tenant whose threads it has."""
        if isinstance(store, TenantStore):
            raise TENANT_OF_TENANT(tenant=tenant, first=store.tenant)
        self.durable: bool = store.durable
        self.blocking: bool = store.blocking
        self.encrypted: bool = bool(getattr(store, "encrypted", False))
        self._store: Final = store
        self._prefix: Final = f"{tenant}{BETWEEN}"
        self._held: Final[dict[int, _Claim]] = {}
        """Claims that callers got and have not released, by their `id()`."""
        self._closed = False
        self.closes_shared: bool = False
        """Whether closing it closes the shared store too."""

    @property
    def _wrapped(self) -> Store:
        """The shared store, whose optional methods decide which ones this store has."""
        return self._store

    def __repr__(self) -> str:
        return f"<TenantStore of {self.tenant!r} over {self._store!r}>"

    def shared_id(self, thread: str) -> str:
        """Return the id that the thread has in the shared store.

        Raises:
            InputError: *thread* is not a valid id (`bad-thread`), or names a tenant (`unknown-thread`).
        """
        check_id(thread)
        if BETWEEN in thread:  # it may be another tenant's: the error is that of a thread that does not exist
            raise _refusals.unknown_thread(thread)
        return self._prefix + thread

    def _new_id(self, thread: str) -> str:
        """Return the id of a new thread or schedule in the shared store; refuse an invalid one (`bad-thread`)."""
        return self._prefix + check_bare_id(thread)

    def _own(self, head: Head) -> Head:
        """Return *head* of the shared store with the id that the tenant knows."""
        return head._replace(thread=head.thread.removeprefix(self._prefix))

    def _mapped(self, call: Callable[[], T]) -> T:
        """Return the result of *call*; its errors name threads as the tenant does. Refuse if this object is closed."""
        if self._closed:
            raise _refusals.closed(f"The store of the tenant {self.tenant!r}")
        try:
            return call()
        except GraphrtError as error:
            self._rename(error)
            raise

    def _rename(self, error: GraphrtError) -> None:
        """Replace the shared store's ids in *error*, in place, by those that the tenant knows."""
        texts = error.__dict__
        for name, value in texts.items():
            if isinstance(value, str):
                texts[name] = value.replace(self._prefix, "")
        error.args = tuple(arg.replace(self._prefix, "") if isinstance(arg, str) else arg for arg in error.args)

    def _inner(self, claim: Claim) -> Claim:
        """Return the claim of the shared store behind *claim*; refuse one that another store object gave."""
        if not isinstance(claim, _Claim):
            raise _refusals.lost(claim.thread, claim.epoch, "it was given by another store object")
        return claim.inner

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        """Claim the thread for writing, without waiting for another owner. See `Store.claim`."""
        shared = self._new_id(thread) if create else self.shared_id(thread)
        inner = self._mapped(lambda: self._store.claim(shared, create=create, lease_s=lease_s, at=at))
        claim = _Claim(inner, self._own(inner.head))
        self._held[id(claim)] = claim
        return claim

    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. See `Store.renew`."""
        own = [claim.inner for claim in claims if isinstance(claim, _Claim)]
        if self._closed:
            return  # the claims are void
        self._mapped(lambda: self._store.renew(own))

    def release(self, claim: Claim) -> None:
        """Release the thread. See `Store.release`."""
        # Claims of other store objects count as void here; `close` releases all of its own claims.
        if isinstance(claim, _Claim) and not self._closed:
            self._mapped(lambda: self._store.release(claim.inner))
            self._held.pop(id(claim), None)

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing. See `Store.commit`."""
        inner, shared = self._inner(claim), self._shared(commit)
        self._mapped(lambda: self._store.commit(inner, shared))
        if commit.release:
            self._held.pop(id(claim), None)

    def _shared(self, commit: Commit) -> Commit:
        """Return *commit* with its letters addressed as the shared store knows their threads."""
        if not commit.posts:
            return commit
        return commit._replace(posts=[(self.shared_id(to), id_, body) for to, id_, body in commit.posts])

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the entries up to *upto*, which has a snapshot, and all blobs but *keep_blobs*. See `Store.prune`."""
        inner = self._inner(claim)
        return self._mapped(lambda: self._store.prune(inner, upto, keep_blobs=keep_blobs))

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
        inner, shared = self._inner(claim), self._shared(commit)
        self._mapped(
            lambda: erasable(self._store).erase(
                inner, shared, records=records, snapshots_after=snapshots_after, keep_blobs=keep_blobs
            )
        )
        if commit.release:
            self._held.pop(id(claim), None)

    def head(self, thread: str) -> Head:
        """Return the head of *thread*. See `Store.head`."""
        shared = self.shared_id(thread)
        return self._own(self._mapped(lambda: self._store.head(shared)))

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
        """Return the heads of the tenant's threads with at least one entry. See `Store.heads`."""
        last = None if after is None else self.shared_id(after)
        found = self._mapped(
            lambda: self._store.heads(
                status=status,
                graph=graph,
                prefix=self._prefix + (prefix or ""),
                updated_before=updated_before,
                after=last,
                limit=limit,
            )
        )
        return [self._own(head) for head in found]

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> Loaded:
        """Load the thread as it is now, or as it was after the entry *upto*. See `Store.load`."""
        shared = self.shared_id(thread)
        found = self._mapped(lambda: self._store.load(shared, upto=upto, after=after))
        return found._replace(head=self._own(found.head))

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Return an iterator over the records of *thread*, in order. See `Store.records`."""
        shared = self.shared_id(thread)
        found = self._mapped(lambda: self._store.records(shared, after=after, upto=upto))
        return self._read(found)

    def _read(self, found: Iterator[Record]) -> Iterator[Record]:
        """Yield the records of *found*. Later pages are read here, outside of `_mapped`, so errors are mapped here."""
        try:
            yield from found
        except GraphrtError as error:
            self._rename(error)
            raise

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return those of the named blobs that exist. See `Store.blobs`."""
        shared = self.shared_id(thread)
        return self._mapped(lambda: self._store.blobs(shared, names))

    def find(
        self, wanted: ThreadFilter, *, after: str | None = None, newest_first: bool = False, limit: int | None = None
    ) -> list[Head]:
        """Return the heads of the tenant's threads that *wanted* lets pass. See `Findable.find`."""
        store = finder(self._store, "find")
        last = None if after is None else self.shared_id(after)
        prefix = None if wanted.prefix is None else self._prefix + wanted.prefix
        mine = wanted._replace(tenant=self.tenant, prefix=prefix)  # the tenant alone keeps others out
        found = self._mapped(lambda: store.find(mine, after=last, newest_first=newest_first, limit=limit))
        # A filter for another tenant finds nothing. The shared store was asked all the same, and checked the arguments.
        return [self._own(head) for head in found] if wanted.tenant in (None, self.tenant) else []

    def inbox(self, wanted: QuestionFilter, *, after: str | None = None, limit: int | None = None) -> list[Asked]:
        """Return the open questions of the tenant's threads that *wanted* lets pass. See `Findable.inbox`."""
        store = finder(self._store, "inbox")
        mine = wanted._replace(tenant=self.tenant)
        # The order of another tenant's thread among those of this one would tell whether that thread exists.
        if after is not None and tenant_of(thread_of(after) or self._prefix) != self.tenant:
            raise wrong_token(after)
        found = self._mapped(lambda: store.inbox(mine, after=after, limit=limit))
        own = wanted.tenant in (None, self.tenant)
        return [one._replace(head=self._own(one.head)) for one in found] if own else []

    def questions(self, thread: str) -> list[Question]:
        """Return the open questions of *thread*. See `Findable.questions`."""
        store = finder(self._store, "questions")
        shared = self.shared_id(thread)
        return self._mapped(lambda: store.questions(shared))

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a letter to *thread* until a commit takes it; return False if its *id* came before."""
        store, shared = postable(self._store), self.shared_id(thread)
        return self._mapped(lambda: store.post(shared, id, body))

    def mail(self, thread: str) -> list[Letter]:
        """Return the letters of *thread* that were not taken yet. See `Postable.mail`."""
        store, shared = postable(self._store), self.shared_id(thread)
        return self._mapped(lambda: store.mail(shared))

    def mailed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have letters. See `Postable.mailed`."""
        store, shared = postable(self._store), [self.shared_id(thread) for thread in threads]
        return [thread.removeprefix(self._prefix) for thread in self._mapped(lambda: store.mailed(shared))]

    def due(
        self,
        *,
        now: float,
        graphs: Iterable[str] | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        """Return the heads of the tenant's threads that are due and have no living owner. See `Postable.due`."""
        store, last = postable(self._store), None if after is None else self.shared_id(after)
        mine = self._prefix + (prefix or "")
        found = self._mapped(lambda: store.due(now=now, graphs=graphs, prefix=mine, after=last, limit=limit))
        return [self._own(head) for head in found]

    def follow_live(self, thread: str, *, for_s: float) -> int:
        """Note interest in *thread* for *for_s* seconds; return the place of its newest batch."""
        store, shared = relaying(self._store), self.shared_id(thread)
        return self._mapped(lambda: store.follow_live(shared, for_s=for_s))

    def followed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have a follower. See `Relaying.followed`."""
        store, shared = relaying(self._store), [self.shared_id(thread) for thread in threads]
        return [thread.removeprefix(self._prefix) for thread in self._mapped(lambda: store.followed(shared))]

    def relay(self, thread: str, id: str, body: bytes, *, forget: int = 0) -> int:
        """Keep a batch of live items, delete those up to the place *forget*, return its place."""
        store, shared = relaying(self._store), self.shared_id(thread)
        return self._mapped(lambda: store.relay(shared, id, body, forget=forget))

    def relayed(self, thread: str, *, after: int, limit: int) -> list[Batch]:
        """Return at most *limit* batches of *thread* after the place *after*."""
        store, shared = relaying(self._store), self.shared_id(thread)
        return self._mapped(lambda: store.relayed(shared, after=after, limit=limit))

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*."""
        store, shared = relaying(self._store), [self.shared_id(thread) for thread in threads]
        self._mapped(lambda: store.forget_live(shared))

    def put_schedule(self, schedule: Scheduled, *, replaces: str | None) -> bool:
        """Keep *schedule*; return False if the tenant has another version than *replaces*."""
        store, shared = schedulable(self._store), schedule._replace(name=self._new_id(schedule.name))
        return self._mapped(lambda: store.put_schedule(shared, replaces=replaces))

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        """Move a schedule from *due_at* to *to*; return False if version or time differ."""
        store, shared = schedulable(self._store), self.shared_id(name)
        return self._mapped(lambda: store.move_schedule(shared, version, due_at=due_at, to=to))

    def schedules(self, *, graph: str | None = None, due_by: float | None = None) -> list[Scheduled]:
        """Return the tenant's schedules in the order of their names. See `Schedulable.schedules`."""
        found = self._mapped(lambda: schedulable(self._store).schedules(graph=graph, due_by=due_by))
        mine = [one for one in found if one.name.startswith(self._prefix)]
        return [one._replace(name=one.name.removeprefix(self._prefix)) for one in mine]

    def delete_schedule(self, name: str) -> bool:
        """Delete the schedule; return False if there was none."""
        store, shared = schedulable(self._store), self.shared_id(name)
        return self._mapped(lambda: store.delete_schedule(shared))

    def delete(self, thread: str) -> None:
        """Delete the thread with everything stored of it. See `Store.delete`."""
        shared = self.shared_id(thread)
        self._mapped(lambda: self._store.delete(shared))

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Delete those of *threads* that have no owner. See `StoreVerbs.delete_many`."""
        shared = [self.shared_id(thread) for thread in threads]
        gone = self._mapped(lambda: delete_many(self._store, shared, updated_before=updated_before))
        return [thread.removeprefix(self._prefix) for thread in gone]

    # Private methods that only some stores have. There is no `_survey`, by which `verify` lists what is in a store: that
    # of the shared store lists threads of other tenants.

    def _scrub(self) -> list[str]:
        """Let the shared store overwrite what it has freed; return sentences about what is left."""
        return self._mapped(lambda: scrub(self._store))

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return the names of the thread's blobs that are not in *names*, for `verify`: nothing refers to them."""
        shared = self.shared_id(thread)
        return self._mapped(lambda: other_blobs(self._store, shared, names))

    def close(self) -> None:
        """Release all claims that this object gave, and close the shared store if it is this object's alone."""
        if self._closed:
            return
        self._closed = True
        held = list(self._held.values())
        self._held.clear()
        for claim in held:
            with suppress(StoreError):  # it cannot be released now: its lease runs out by itself
                self._store.release(claim.inner)
        if self.closes_shared:
            self._store.close()
