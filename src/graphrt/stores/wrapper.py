"""`StoreWrapper`: a store that wraps another store and passes every call on to it.

A wrapper may change ids of threads (`inner_id`, `outer_id`), bodies (`bodies`), filters (`inner_filter`), claims
(`inner_claim`, `outer_claim`), or what happens around a call (`call`). All methods of the protocol use these, so a
subclass overrides only the few that it needs, and a new method of the protocol needs to be added only here. What the
methods and their arguments mean is documented in `protocol.Store`.
"""

# ruff: noqa: D102 - the methods are those of the store protocol, which documents them

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import typing_extensions as te

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.stores import _checks
from graphrt.stores._memory_items import SealedWrite, checked_writes, found_in
from graphrt.stores.filters import Filter, MailFilter, MemoryFilter, NamespaceFilter, QuestionFilter
from graphrt.stores.ids import check_namespace
from graphrt.stores.protocol import Store
from graphrt.stores.values import (
    Claim,
    Commit,
    Head,
    LiveBatch,
    MailMessage,
    MemoryWrite,
    NewBatch,
    Offer,
    OpenQuestion,
    Question,
    Record,
    StoredItem,
    StoredSchedule,
    StoredSnapshot,
    StoredThread,
)
from graphrt.stores.verbs import StoreVerbs

if TYPE_CHECKING:
    from graphrt.stores.values import StoreFinding

__all__ = ["Bodies", "StoreWrapper"]


P = te.ParamSpec("P")
T = TypeVar("T")


class Bodies(Protocol):
    """How a wrapper changes bodies. Each is bound to a thread and a place in it: a kind, such as "record", and a name."""

    def seal(self, body: bytes, thread: str, kind: str, place: Any) -> bytes:
        """Return *body* in the form for the inner store."""
        ...

    def open(self, sealed: bytes, thread: str, kind: str, place: Any) -> bytes:
        """Return the body from which `seal` made *sealed*.

        Raises:
            StoreError: It is not sealed, or belongs to another place.
        """
        ...

    def name(self, thread: str, name: str) -> str:
        """Return the name of a new blob in the inner store."""
        ...

    def names(self, thread: str, name: str) -> Sequence[str]:
        """Return all names that the blob may have in the inner store; if several exist, the last one counts."""
        ...


class StoreWrapper(StoreVerbs):
    """A store that passes every call on to *store*. Closing it also closes *store*.

    Args:
        store: The store that does the work.
        bodies: How bodies are converted; None leaves them unchanged.

    Raises:
        InputError: *store* is not a store (`input`).
    """

    def __init__(self, store: Store, *, bodies: Bodies | None = None) -> None:
        if not isinstance(store, Store):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers need not be typed
            raise INVALID_ARGUMENT(  # only its type is shown: stores and their URLs hold credentials
                argument="store=", value=type(store), wanted='a store, such as open_store("sqlite:///runs.db")'
            )
        self.store: Store = store
        """The store that does the work."""
        self.durable: bool = store.durable
        self.blocking: bool = store.blocking
        self.offers: frozenset[Offer] = store.offers
        self.tenant: str | None = store.tenant
        self.encrypted: bool = store.encrypted
        self._bodies = bodies

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.store!r}>"

    # Methods that a subclass may change.

    def call(self, method: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        """Call *method* of the inner store, with arguments that were mapped; its `__name__` says which it is."""
        return method(*args, **options)

    def inner_id(self, thread: str, *, new: bool = False) -> str:  # noqa: ARG002 - for subclasses
        """Return the id that the inner store has for *thread*, or for a schedule; *new* if it may be created now."""
        return thread

    def outer_id(self, thread: str) -> str:
        """Return the id for the thread (or schedule) that the inner store has as *thread*."""
        return thread

    def inner_namespace(self, namespace: str, *, scope: bool = False) -> str:
        """Return the inner store's name for a namespace of the memory; with *scope*, also for a name of several."""
        return check_namespace(namespace, scope=scope)

    def outer_namespace(self, namespace: str) -> str:
        """Return the name of the namespace that the inner store has as *namespace*."""
        return namespace

    def inner_claim(self, claim: Claim) -> Claim:
        """Return the inner store's claim behind *claim*."""
        return claim

    def outer_claim(self, claim: Claim) -> Claim:
        """Return the claim that a caller gets for *claim* of the inner store."""
        return claim

    def inner_filter(self, wanted: Filter[Any]) -> Filter[Any]:
        """Return *wanted* in the form for the inner store, with its ids."""
        changes: dict[str, Any] = {}
        for field in fields(wanted):  # type: ignore[arg-type]  # every filter is a dataclass
            value = getattr(wanted, field.name)
            if value is not None and field.name == "thread":
                changes["thread"] = self.inner_id(value)
            elif value is not None and field.name in {"ids", "threads"}:
                changes[field.name] = [self.inner_id(thread) for thread in value]
            elif value is not None and field.name == "namespace":
                changes["namespace"] = self.inner_namespace(value, scope=True)
        return replace(wanted, **changes) if changes else wanted  # type: ignore[type-var]

    def inner_after(self, wanted: Filter[Any], after: str) -> str:
        """Return *after*, at which a page of *wanted* begins, in the form for the inner store."""
        if isinstance(wanted, NamespaceFilter):
            return self.inner_namespace(after)
        return after if isinstance(wanted, (QuestionFilter, MailFilter, MemoryFilter)) else self.inner_id(after)

    # Threads.

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        inner = self.inner_id(thread, new=create)
        return self.outer_claim(self.call(self.store.claim, inner, create=create, lease_s=lease_s, at=at))

    def renew(self, claims: Iterable[Claim]) -> None:
        self.call(self.store.renew, [self.inner_claim(claim) for claim in claims])

    def release(self, claim: Claim) -> None:
        self.call(self.store.release, self.inner_claim(claim))

    def commit(self, claim: Claim, commit: Commit) -> None:
        self.call(self.store.commit, self.inner_claim(claim), self._inner_commit(claim.thread, commit))

    def head(self, thread: str) -> Head:
        return self._outer_head(self.call(self.store.head, self.inner_id(thread)))

    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        at = None if after is None else self.inner_after(wanted, after)
        if isinstance(wanted, MemoryFilter) and wanted.searches and self._bodies is not None:
            return self._searched(wanted, limit)
        rows = self.call(self.store.query, self.inner_filter(wanted), after=at, limit=limit)
        return [self._outer_row(wanted, row) for row in rows]

    def _searched(self, wanted: MemoryFilter, limit: int | None) -> list[StoredItem]:
        """Search the memory in bodies that the inner store cannot read, by reading all of the namespaces."""
        unsearched = self.inner_filter(replace(wanted, words=(), vector=None))
        rows = [self._outer_item(row) for row in self.call(self.store.query, unsearched)]
        return found_in(wanted, [(item, frozenset(words)) for item, words in rows])[:limit]

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> StoredThread:
        loaded: StoredThread = self.call(self.store.load, self.inner_id(thread), upto=upto, after=after)
        loaded = loaded._replace(head=self._outer_head(loaded.head))
        if self._bodies is None:
            return loaded
        opened, meta, snapshot = self._bodies.open, loaded.meta, loaded.snapshot
        return loaded._replace(
            meta=None if meta is None else opened(meta, thread, "meta", ""),
            snapshot=snapshot and StoredSnapshot(snapshot.seq, opened(snapshot.body, thread, "snapshot", snapshot.seq)),
            records=[self._outer_record(thread, record) for record in loaded.records],
            staged=[(key, opened(body, thread, "staged", key)) for key, body in loaded.staged],
        )

    def records(self, thread: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        inner_records: Iterator[Record] = self.call(self.store.records, self.inner_id(thread), after=after, upto=upto)
        return self.outer_records(inner_records, thread)

    def outer_records(self, records: Iterator[Record], thread: str) -> Iterator[Record]:
        """Yield *records*, those of *thread*, which the inner store reads page by page."""
        return (self._outer_record(thread, record) for record in records) if self._bodies is not None else records

    def blobs(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        inner = self.inner_id(thread)
        if self._bodies is None:
            bodies: dict[str, bytes] = self.call(self.store.blobs, inner, names)
            return bodies
        stored_names = {name: self._bodies.names(thread, name) for name in names}
        bodies = self.call(
            self.store.blobs, inner, [inner_name for inner_names in stored_names.values() for inner_name in inner_names]
        )
        opened: dict[str, bytes] = {}
        for name, inner_names in stored_names.items():
            # A blob is never replaced. If it was stored again after a change of keys, the one under the other name
            # counts.
            body = next((bodies[inner_name] for inner_name in reversed(inner_names) if inner_name in bodies), None)
            if body is not None:
                opened[name] = self._bodies.open(body, thread, "blob", name)
        return opened

    def delete(self, thread: str) -> None:
        self.call(self.store.delete, self.inner_id(thread))

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        inner = [self.inner_id(thread) for thread in threads]
        return [
            self.outer_id(thread) for thread in self.call(self.store.delete_many, inner, updated_before=updated_before)
        ]

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        keep = None if keep_blobs is None else self._inner_names(claim.thread, keep_blobs)
        return self.call(self.store.prune, self.inner_claim(claim), upto, keep_blobs=keep)

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        thread = claim.thread
        replacements = _checks.replaced(records, thread)
        self.call(
            self.store.erase,
            self.inner_claim(claim),
            self._inner_commit(thread, commit),
            records=[self._inner_record(thread, record) for record in replacements.values()],
            snapshots_after=snapshots_after,
            keep_blobs=self._inner_names(thread, keep_blobs),
        )

    # Mail, schedules and live items.

    def post(self, thread: str, id: str, body: bytes) -> bool:
        _checks.check_message(thread, id, body)
        return self.call(self.store.post, self.inner_id(thread), id, self._seal(body, thread, "mail", id))

    def put_schedule(self, schedule: StoredSchedule, *, replaces: str | None) -> bool:
        body = self._seal(schedule.body, schedule.name, "schedule", schedule.version)
        inner = schedule._replace(name=self.inner_id(schedule.name, new=True), body=body)
        return self.call(self.store.put_schedule, inner, replaces=replaces)

    def move_schedule(self, name: str, version: str, *, due_at: float, to: float) -> bool:
        return self.call(self.store.move_schedule, self.inner_id(name), version, due_at=due_at, to=to)

    def delete_schedule(self, name: str) -> bool:
        return self.call(self.store.delete_schedule, self.inner_id(name))

    def write_memory(self, writes: Sequence[MemoryWrite], *, at: float) -> None:
        self.call(self.store.write_memory, self._inner_writes(writes, at), at=at)

    def purge_memory(self, *, expired_by: float, namespace: str = "") -> int:
        inner = self.inner_namespace(namespace, scope=True)
        return self.call(self.store.purge_memory, expired_by=expired_by, namespace=inner)

    def follow_live(self, threads: Iterable[str], *, for_s: float) -> dict[str, int]:
        inner = {self.inner_id(thread): thread for thread in threads}
        places: dict[str, int] = self.call(self.store.follow_live, inner, for_s=for_s)
        return {inner[thread]: place for thread, place in places.items()}

    def relay(self, batches: Sequence[NewBatch]) -> list[int]:
        inner = [
            batch._replace(
                thread=self.inner_id(batch.thread), body=self._seal(batch.body, batch.thread, "live", batch.id)
            )
            for batch in batches
        ]
        return self.call(self.store.relay, inner)

    def relayed(self, thread: str, *, after: int, limit: int) -> list[LiveBatch]:
        batches: list[LiveBatch] = self.call(self.store.relayed, self.inner_id(thread), after=after, limit=limit)
        return [self._opened(batch, thread, "live", batch.id) for batch in batches]

    def forget_live(self, threads: Iterable[str]) -> None:
        self.call(self.store.forget_live, [self.inner_id(thread) for thread in threads])

    def news(self, known: Mapping[str, tuple[int, int]]) -> set[str]:
        inner = {self.inner_id(thread): thread for thread in known}
        moved: set[str] = self.call(
            self.store.news, {inner_thread: known[thread] for inner_thread, thread in inner.items()}
        )
        return {inner[inner_thread] for inner_thread in moved}

    def close(self) -> None:
        self.call(self.store.close)

    # Other stores that `verify` and `erase` include.

    def _scrub(self) -> list[str]:
        return self.call(self.store._scrub)

    def _survey(self) -> Iterator[str | StoreFinding]:
        return self.call(self.store._survey)

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        return self.call(self.store._other_blobs, self.inner_id(thread), self._inner_names(thread, names))

    # Values on their way in and out.

    def _inner_commit(self, thread: str, commit: Commit) -> Commit:
        """Return *commit* of *thread* in the form for the inner store."""
        if self._bodies is not None:
            # Checked before sealing, which needs bytes, because the inner store sees only the sealed form.
            _checks.check_commit(commit, thread)
        if commit.posts:
            posts = [(self.inner_id(to), id_, self._seal(body, to, "mail", id_)) for to, id_, body in commit.posts]
            commit = commit._replace(posts=posts)
        if commit.memory:
            commit = commit._replace(memory=self._inner_writes(commit.memory, commit.at))
        if self._bodies is None:
            return commit
        bodies, snapshot, meta = self._bodies, commit.snapshot, commit.meta
        seal = bodies.seal  # `and` below keeps a None; meta may be empty bytes, which are sealed too
        return commit._replace(
            records=[self._inner_record(thread, record) for record in commit.records],
            stage=[(key, seal(body, thread, "staged", key)) for key, body in commit.stage],
            snapshot=snapshot and StoredSnapshot(snapshot.seq, seal(snapshot.body, thread, "snapshot", snapshot.seq)),
            blobs={bodies.name(thread, name): seal(body, thread, "blob", name) for name, body in commit.blobs.items()},
            meta=None if meta is None else seal(meta, thread, "meta", ""),
            questions=commit.questions
            and [
                question._replace(body=seal(question.body, thread, "question", question.place))
                for question in commit.questions
            ],
        )

    def _inner_writes(self, writes: Sequence[MemoryWrite], at: float) -> list[MemoryWrite]:
        """Return changes of the memory in the form for the inner store.

        Words and vector would reveal the content of a sealed body, so they are sealed with it, as its first two lines.
        """
        inner_writes: list[MemoryWrite] = []
        for write in checked_writes(writes, at):
            inner = write._replace(namespace=self.inner_namespace(write.namespace))
            if self._bodies is not None and write.body is not None:
                plain = b"%b\n%b\n%b" % (" ".join(write.words).encode(), b64encode(write.vector or b""), write.body)
                body = self._bodies.seal(plain, write.namespace, "memory", write.key)
                inner = SealedWrite(*inner._replace(body=body, words=(), vector=None))
            inner_writes.append(inner)
        return inner_writes

    def _outer_item(self, item: StoredItem) -> tuple[StoredItem, Sequence[str]]:
        """Return an item of the inner store in the form for callers, with its vector, and with its words if sealed."""
        namespace = self.outer_namespace(item.namespace)
        if self._bodies is None:
            return item._replace(namespace=namespace), ()
        words, vector, body = self._bodies.open(item.body, namespace, "memory", item.key).split(b"\n", 2)
        item = item._replace(namespace=namespace, body=body, vector=b64decode(vector) or None)
        return item, words.decode().split()

    def _inner_record(self, thread: str, record: Record) -> Record:
        """Return *record* with its body converted. Its seal, the hashes that reveal changes, stays."""
        seq, count, body, hashes = record
        return Record(seq, count, self._seal(body, thread, "record", (seq, count)), hashes)

    def _outer_record(self, thread: str, record: Record) -> Record:
        """Return the *record* of the inner store with its body as a caller wrote it."""
        seq, count, body, hashes = record
        return (
            record
            if self._bodies is None
            else Record(seq, count, self._bodies.open(body, thread, "record", (seq, count)), hashes)
        )

    def _inner_names(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return all names that the blobs *names* may have in the inner store."""
        return (
            [*names]
            if self._bodies is None
            else [inner_name for name in names for inner_name in self._bodies.names(thread, name)]
        )

    def _outer_head(self, head: Head) -> Head:
        """Return *head* of the inner store with the id that callers know."""
        thread = self.outer_id(head.thread)
        return head if thread == head.thread else head._replace(thread=thread)

    def _outer_row(self, wanted: Filter[Any], row: Any) -> Any:
        """Return *row* of the inner store, requested by *wanted*, in the form for callers."""
        match row:
            case Head():
                return self._outer_head(row)
            case OpenQuestion():
                head = self._outer_head(row.head)
                question: Question = self._opened(row.question, head.thread, "question", row.question.place)
                return OpenQuestion(head, question, row.token)
            case MailMessage() if isinstance(wanted, MailFilter):
                return self._opened(row, wanted.thread, "mail", row.id)
            case StoredSchedule():
                name = self.outer_id(row.name)
                return self._opened(row, name, "schedule", row.version)._replace(name=name)
            case StoredItem():
                return self._outer_item(row)[0]
            case _ if isinstance(wanted, NamespaceFilter):
                return self.outer_namespace(row)
            case _:  # the id of a thread that is followed
                return self.outer_id(row)

    def _seal(self, body: bytes, thread: str, kind: str, place: Any) -> bytes:
        return body if self._bodies is None else self._bodies.seal(body, thread, kind, place)

    def _opened(self, row: Any, thread: str, kind: str, place: Any) -> Any:
        """Return *row* of the inner store with its body as a caller wrote it."""
        return row if self._bodies is None else row._replace(body=self._bodies.open(row.body, thread, kind, place))
