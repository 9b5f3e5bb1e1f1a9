"""`ctx.memory`: the memory of a node. A task's reads are recorded, and its writes wait for its commit.

    ctx.memory.put ──> Task.memory ──> MemoryWritten ──> Commit.memory      one transaction with the superstep's entries
    ctx.memory.get ──> the store, recorded as an effect ──> overlaid with what the task itself has written

*Writes* belong to an execution of the task: only those of the execution that succeeds count. The function of a recorded
effect or tool does not run again. So its record contains its writes (`EffectRecorded.memory`), and an execution that
uses the recorded result repeats them (`written_memory`).

*Reads* are effects: a repeated execution reads the same values as before. Inside an effect they are not recorded
separately, because the result of that effect is. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from graphrt import events
from graphrt._ambient import surroundings
from graphrt._arguments import is_async, is_number
from graphrt._drivers.embedding import aembedded, embedded, vector_of
from graphrt._drivers.written_memory import writes_here
from graphrt._due_times import expiry
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Task
from graphrt._engine.task_writes import Spot
from graphrt._journal.memory_writes import text_in, words_in
from graphrt._plan.fields import own
from graphrt.commands import check_expiry
from graphrt.errors import StoreError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.memory import GRAPH_TOOL_WITHOUT_MEMORY, NO_MEMORY, UNUSABLE_IN_NODE
from graphrt.stores._memory_items import LONGEST_SEARCH, check_key, check_size, score, words_of
from graphrt.stores._vectors import nearness
from graphrt.stores.filters import MemoryFilter
from graphrt.stores.ids import beside, check_namespace

if TYPE_CHECKING:
    from datetime import datetime

    from graphrt._codec import Codec
    from graphrt._drivers.run_services import RunServices
    from graphrt.stores.values import StoredItem

MOST_FOUND: Final = 1_000
"""Maximum number of items that one search returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryItem:
    """An item of the memory."""

    namespace: str
    """Its namespace, such as `customers/42`, without the tenant."""
    key: str
    """Its name in the namespace."""
    value: Any
    created_at: float | None
    """When it was created, in seconds since the epoch; None if the reading task wrote it itself and has not committed
    yet."""
    updated_at: float | None
    """When it was last written; None as above."""
    expires_at: float | None = None
    """When it expires, in seconds since the epoch; None if it does not, or if the time depends on the commit."""
    score: float = 1.0
    """Relevance to the query, above 0 and up to 1: the share of the query's words that it contains, with more weight on
    rare words. With `embed=` of the runtime, the mean of that share and the semantic similarity. 1 without a query."""


class Memory(Protocol):
    """Items by namespace and key that outlive threads and are shared by all of them.

    `ctx.memory` and `Runtime.memory` implement it, and so may a double for a unit test. A namespace has segments, such
    as `customers/42`, and contains the namespaces below it. Async code uses the methods prefixed with `a`, which do not
    block the event loop.
    """

    def put(
        self,
        namespace: str,
        key: str,
        value: Any,
        *,
        expires_s: float | None = None,
        expires_at: datetime | float | None = None,
    ) -> None:
        """Write an item, replacing any item with the same key.

        Args:
            namespace: 1 to 200 of the characters `A-Z a-z 0-9 _ . : @ + = -`, in segments separated by `/`.
            key: 1 to 200 printable characters.
            value: Any value that can be stored, of at most 65,536 bytes in its stored form.
            expires_s: Seconds after which the item is no longer found.
            expires_at: The moment, in place of *expires_s*: a datetime with a time zone, or seconds since the epoch.

        Raises:
            InputError: The namespace (`bad-namespace`), the key or size (`bad-memory`), or another argument is invalid.
            UpdateError: The value cannot be stored.
        """
        ...

    def get(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, or None if there is none or it has expired."""
        ...

    def search(self, namespace: str, query: str = "", *, limit: int = 10) -> list[MemoryItem]:
        """Search for items of *namespace* and of the namespaces below it.

        Args:
            namespace: Where to search; empty for the whole memory of the tenant.
            query: Text. An item matches if its key or value contains at least one of the words, ignoring case. With
                `embed=` of the runtime, semantically similar items match too. Results are sorted by descending score,
                then newest first. An empty query lists all items, newest first.
            limit: Maximum number of items, 1 to 1,000.

        Raises:
            InputError: An argument is invalid.
        """
        ...

    def delete(self, namespace: str, key: str) -> None:
        """Delete the item, if there is one."""
        ...

    async def aput(
        self,
        namespace: str,
        key: str,
        value: Any,
        *,
        expires_s: float | None = None,
        expires_at: datetime | float | None = None,
    ) -> None:
        """Write an item; see `put`."""
        ...

    async def aget(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, or None; see `get`."""
        ...

    async def asearch(self, namespace: str, query: str = "", *, limit: int = 10) -> list[MemoryItem]:
        """Return items of *namespace*; see `search`."""
        ...

    async def adelete(self, namespace: str, key: str) -> None:
        """Delete the item, if there is one."""
        ...


class Attempt(Protocol):
    """The methods of `Context` that the memory uses."""

    _execution: Any

    def _check(self) -> None: ...
    def _check_kept(self) -> None: ...
    def effect(self, name: str, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Record the result of *fn*."""
        ...

    def call(self, fn: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> Any:
        """Run the async function *fn* from a sync node, and return its result."""
        ...


@final
class TaskMemory:
    """The memory of one attempt of a task: `ctx.memory`, a `Memory`.

    Writes take effect when the superstep commits, in one transaction with it. Until then only the task itself finds
    them. An attempt that fails, times out or is retried writes nothing.

    Args:
        context: The context of the attempt.
        services: Those of its run.
        task: Its task.

    Raises:
        InputError: The run has no thread in a store (`no-memory`), or its store keeps no memory (`store-lacks`).
    """

    __slots__ = ("_context", "_execution", "_services", "_store", "_task")

    def __init__(self, context: Attempt, services: RunServices, task: Task) -> None:
        store = services.memory
        if store is None:
            raise NO_MEMORY(
                user=f"The run of node {task.node.name!r}", node=task.node.name, where=task.engine.where(task)
            )
        if surroundings().above is not None and "memory" not in store.offers:
            raise GRAPH_TOOL_WITHOUT_MEMORY(node=task.node.name, where=task.engine.where(task))
        store.require("memory")
        self._context, self._services, self._task, self._store = context, services, task, store
        self._execution = context._execution

    def put(
        self,
        namespace: str,
        key: str,
        value: Any,
        *,
        expires_s: float | None = None,
        expires_at: datetime | float | None = None,
    ) -> None:
        """Write an item when the superstep commits; see `Memory.put`."""
        event = self._put(namespace, key, value, expires_s, expires_at)
        self._write(replace(event, embedded=self._embedded(self._text(event))))

    def _put(
        self, namespace: str, key: str, value: Any, expires_s: float | None, expires_at: datetime | float | None
    ) -> events.MemoryWritten:
        """Check the arguments and return the write of an item, without its embedding."""
        self._check_write()
        task = self._task
        check_expiry(expires_s, "expires_s= of an item of the memory")
        until = expiry(expires_s, expires_at)
        value = check_storable(task.engine, task, value, "writes a value to the memory")
        check_size(task.engine.plan.codec.dump(value))
        return events.MemoryWritten(
            task=task.id,
            namespace=check_namespace(namespace, bare=True),
            key=check_key(key),
            value=own(value),
            expires_s=None if expires_s is None else float(expires_s),
            expires_at=until,
        )

    def _text(self, event: events.MemoryWritten) -> str:
        """Return the text of an item to embed; empty if the runtime has no embedding."""
        return "" if self._services.embed is None else text_in(event.key, self._codec.dump(event.value))

    def _embedded(self, text: str) -> Any:
        """Return the record of *text* with its vector; None for an empty text, or if the runtime has no embedding.

        The record is stored with the task as an effect; inside an effect, it is part of that effect's record.
        """
        embed = self._services.embed
        if embed is None or not text:
            return None

        def made(text: str) -> Any:
            """Ask the embedding: the effect that records it."""
            if is_async(embed):
                return self._context.call(aembedded, embed, [text])[0]
            return embedded([text], embed([text]))[0]

        if surroundings().memory is not None:
            return made(text)
        return self._context.effect("memory.embed", made, text)

    async def _aembedded(self, text: str) -> Any:
        """Like `_embedded`, without blocking the event loop."""
        from graphrt._drivers.blocking_calls import in_executor

        embed = self._services.embed
        if embed is None or not text:
            return None

        async def made(text: str) -> Any:
            """Ask the embedding: the effect that records it."""
            if is_async(embed):
                return (await aembedded(embed, [text]))[0]
            return embedded([text], await in_executor(embed, [text]))[0]

        if surroundings().memory is not None:
            return await made(text)
        return await self._context.effect("memory.embed", made, text)

    def delete(self, namespace: str, key: str) -> None:
        """Delete the item when the superstep commits, if there is one then."""
        self._check_write()
        namespace = check_namespace(namespace, bare=True)
        self._write(events.MemoryWritten(task=self._task.id, namespace=namespace, key=check_key(key), deleted=True))

    def _check_write(self) -> None:
        """Check that the attempt may still act, and that its node may write: it has no `cache=`.

        Raises:
            InputError: The node has it (`no-memory`). A result from the cache is used without calling the node.
        """
        self._context._check()
        task = self._task
        if task.node.cache is not None:
            raise UNUSABLE_IN_NODE(
                node=task.node.name,
                did="has cache= and writes to the memory, and a result from the cache is used without its writes",
                advice="Leave out cache=, or write to the memory in another node.",
                where=task.engine.where(task),
            )

    def _write(self, event: events.MemoryWritten, spot: Spot | None = None) -> None:
        """Record a write of this execution and of the effect that makes it, at *spot* if a position was reserved."""
        writes_here(self._task, self._execution).write(event, spot)
        self._context._check_kept()

    def get(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, or None if there is none or it has expired."""
        items = self._read("get", namespace, key)
        return items[0] if items else None

    def search(self, namespace: str, query: str = "", *, limit: int = 10) -> list[MemoryItem]:
        """Return items of *namespace* and of those below it; see `Memory.search`."""
        return self._read("search", namespace, query, limit)

    async def aput(
        self,
        namespace: str,
        key: str,
        value: Any,
        *,
        expires_s: float | None = None,
        expires_at: datetime | float | None = None,
    ) -> None:
        """Like `put`, without blocking while the item is embedded."""
        event = self._put(namespace, key, value, expires_s, expires_at)
        # Reserved now, so that of two concurrent writes the later call counts.
        spot = writes_here(self._task, self._execution).begin()
        self._write(replace(event, embedded=await self._aembedded(self._text(event))), spot)

    async def adelete(self, namespace: str, key: str) -> None:
        """Same as `delete`, which does not block either."""
        self.delete(namespace, key)

    async def aget(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, or None; see `get`."""
        items = await self._aread("get", namespace, key)
        return items[0] if items else None

    async def asearch(self, namespace: str, query: str = "", *, limit: int = 10) -> list[MemoryItem]:
        """Return items of *namespace*; see `search`."""
        return await self._aread("search", namespace, query, limit)

    def _read(self, verb: str, *args: Any) -> list[MemoryItem]:
        """Return the result of a read. *args* are the arguments of the method, `get` or `search`."""
        criteria = self._wanted(verb, args)
        criteria = replace(criteria, vector=vector_of(self._embedded(self._query(verb, args))))
        if surroundings().memory is not None:
            self._context._check()
            return self._overlaid(criteria, args, self._stored(criteria, args))
        return self._overlaid(
            criteria, args, self._context.effect(f"memory.{verb}", lambda *_: self._stored(criteria, args), *args)
        )

    async def _aread(self, verb: str, *args: Any) -> list[MemoryItem]:
        """Like `_read`, without blocking the event loop."""
        from graphrt._drivers.blocking_calls import call_store

        criteria = self._wanted(verb, args)
        criteria = replace(criteria, vector=vector_of(await self._aembedded(self._query(verb, args))))

        async def stored(*_: Any) -> list[dict[str, Any]]:
            """Read the store: the effect that records it."""
            return await call_store(self._services, self._stored, criteria, args)

        if surroundings().memory is not None:
            self._context._check()
            return self._overlaid(criteria, args, await stored())
        return self._overlaid(criteria, args, await self._context.effect(f"memory.{verb}", stored, *args))

    def _wanted(self, verb: str, args: tuple[Any, ...]) -> MemoryFilter:
        """Check the arguments of a read and return its filter, with the namespace without tenant."""
        if verb == "get":
            namespace, key = args
            return MemoryFilter(now=0.0, namespace=check_namespace(namespace, bare=True), key=check_key(key))
        return search_filter(*args, bare=True)

    def _query(self, verb: str, args: tuple[Any, ...]) -> str:
        """Return the embedding of a query, redacted like all records; empty without query or embedding function."""
        if verb == "get" or self._services.embed is None:
            return ""
        query: str = check_storable(self._task.engine, self._task, args[1], "searches the memory")
        return query.strip()

    def _stored(self, criteria: MemoryFilter, args: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Read the store, and return the items in their recorded form."""
        tenant = beside(self._task.engine.thread or "", "")
        inner = replace(criteria, namespace=f"{tenant}{criteria.namespace}", now=self._services.clock())
        # Request as many additional items as the task has written itself, because these may replace items of the store.
        limit = (args[2] if len(args) == 3 else 1) + len(self._writes())
        items = self._store.query(inner, limit=limit)
        return [recorded(item._replace(namespace=item.namespace[len(tenant) :]), self._codec) for item in items]

    @property
    def _codec(self) -> Codec:
        return self._task.engine.plan.codec

    def _writes(self) -> Mapping[tuple[str, str], events.MemoryWritten]:
        """Return the writes of this execution so far."""
        return self._task.memory_writes(self._execution).items

    def _overlaid(self, criteria: MemoryFilter, args: tuple[Any, ...], stored: list[Any]) -> list[MemoryItem]:
        """Combine the items read from the store with the writes of this execution, in the order of a search.

        The writes are newer than all items of the store, so they come first among equal scores.
        """
        writes = self._writes()
        own_items: list[MemoryItem] = []
        for (namespace, key), event in reversed([*writes.items()]):  # the newest write first
            item = MemoryItem(
                namespace=namespace,
                key=key,
                value=own(event.value),
                created_at=None,
                updated_at=None,
                expires_at=event.expires_at,
            )
            score = self._score(criteria, event)
            expired = event.expires_at is not None and event.expires_at <= self._services.clock()
            if not event.deleted and not expired and score:
                own_items.append(replace(item, score=score))
        stored_items = [MemoryItem(**record) for record in stored if (record["namespace"], record["key"]) not in writes]
        items = sorted([*own_items, *stored_items], key=lambda item: -item.score)
        return items[: args[2] if len(args) == 3 else 1]

    def _score(self, criteria: MemoryFilter, event: events.MemoryWritten) -> float:
        """Return the score of an item written by this execution, with equal weight for all words; 0 without a match."""
        first, end = criteria.bounds
        matches = first <= f"{event.namespace}/" < end
        if criteria.key is not None:
            matches = (event.namespace, event.key) == (criteria.namespace, criteria.key)
        if not matches or not criteria.searches:
            return float(matches)
        words = words_in(event.key, self._codec.dump(event.value))
        share = len(set(criteria.words).intersection(words)) / len(criteria.words)
        vector, near = vector_of(event.embedded), None
        if criteria.vector is not None:
            near = nearness(vector, criteria.vector)
        return score(share, near)


def search_filter(namespace: Any, query: Any, limit: Any, *, bare: bool) -> MemoryFilter:
    """Return the filter for a search, after checking its arguments.

    Raises:
        InputError: One of them is invalid.
    """
    if not isinstance(query, str):
        raise INVALID_ARGUMENT(argument="query= of a search", value=query, wanted="a text", boundary=True)
    if not (is_number(limit) and limit in range(1, MOST_FOUND + 1)):
        expected = f"a number of items, 1 to {MOST_FOUND:,}"
        raise INVALID_ARGUMENT(argument="limit= of a search", value=limit, wanted=expected, boundary=True)
    words = words_of(query)[:LONGEST_SEARCH]
    criteria = MemoryFilter(now=0.0, namespace=check_namespace(namespace, bare=bare, scope=True), words=words)
    # A query that consists only of punctuation has no words, so it matches no item.
    return replace(criteria, words=("",)) if query.strip() and not words else criteria


def recorded(item: StoredItem, codec: Codec) -> dict[str, Any]:
    """Return an item of the store as plain data for an effect's record: its value decoded, without its vector.

    Raises:
        StoreError: It is damaged (`damaged-value`), or encrypted (`missing-key`).
    """
    fields = item._asdict()
    del fields["vector"]
    try:
        value = codec.load(fields.pop("body"))
    except StoreError:
        from graphrt.stores._sealing import refuse_sealed  # imported late: it loads OpenSSL

        refuse_sealed(item.body, None)  # an encrypted body is not damaged
        raise
    return {"value": value, **fields}
