"""`Runtime.memory`: the memory of a runtime's store, for code outside nodes.

Items written here, and their embeddings, do not appear in any journal; they are stored when the call returns. Nodes use
`ctx.memory`, whose writes belong to their tasks (`_drivers.task_memory`).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from pydantic_core import from_json, to_json

from graphrt._arguments import is_async, is_number
from graphrt._codec import NotStorable
from graphrt._drivers.embedding import aembedded, embedded, vector_of
from graphrt._drivers.task_memory import MemoryItem, recorded, search_filter
from graphrt._due_times import expiry
from graphrt._engine.engine import Engine
from graphrt._engine.redacting import redacted_value
from graphrt._journal.memory_writes import text_in, words_in
from graphrt._runs.open_run import not_storable
from graphrt._runs.run_config import RunConfig
from graphrt.commands import check_expiry
from graphrt.errors import count
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER
from graphrt.errors._codes.memory import NO_MEMORY
from graphrt.errors._codes.stores import BAD_ARCHIVE, EXPORT_DECRYPTED, STORE_NEWER
from graphrt.stores import _archive as archive
from graphrt.stores._memory_items import check_key, check_size
from graphrt.stores._vectors import is_packed
from graphrt.stores.filters import MemoryFilter, NamespaceFilter
from graphrt.stores.ids import check_namespace
from graphrt.stores.values import MemoryWrite, StoredItem

if TYPE_CHECKING:
    from datetime import datetime

    from graphrt.stores.protocol import Store


FORM: Final = "graphrt-memory/1"
"""Format identifier of files written by `export`, found in their first line under the key `form`."""
_TOGETHER: Final = 100
"""Maximum number of texts per call of the embedding."""


@final
class SharedMemory:
    """The memory of a runtime's store, `runtime.memory`: a `graphrt.memory.Memory` with verbs for the whole memory.

    Each method has an async twin with an `a` before its name. In a store that tenants share, a namespace may begin with
    a tenant and `~`; the store of one tenant has the namespaces of that tenant alone.

    Raises:
        InputError: The runtime has no store (`no-memory`), or its store keeps no memory (`store-lacks`).
    """

    __slots__ = ("_config", "_store", "_unhurried")

    def __init__(self, config: RunConfig, unhurried: Callable[[Callable[[], Any]], Any]) -> None:
        store = config.store
        if store is None:
            raise NO_MEMORY(user="The runtime", where=config.plan.place())
        store.require("memory")
        self._config = config
        self._store: Store = store
        self._unhurried = unhurried
        """Makes a call that may block, and returns an awaitable of its result; for the async twins."""

    def put(
        self,
        namespace: str,
        key: str,
        value: Any,
        *,
        expires_s: float | None = None,
        expires_at: datetime | float | None = None,
    ) -> None:
        """Write an item, replacing the one with this key; see `graphrt.memory.Memory.put`.

        Raises:
            InputError: An argument is wrong, or the value cannot be stored (`not-storable`).
            AuditError: The runtime redacts, and the value could not be redacted.
        """
        write = self._write(namespace, key, value, expires_s, expires_at)
        self._store_write(write, self._vectors([self._text(write)])[0], expires_s)

    def _write(
        self, namespace: str, key: str, value: Any, expires_s: float | None, expires_at: datetime | float | None
    ) -> MemoryWrite:
        """Return the checked write of an item, without its time of writing and its embedding."""
        check_expiry(expires_s, "expires_s= of an item of the memory")
        until = expiry(expires_s, expires_at)
        body = check_size(self._encoded(value))
        namespace, key = check_namespace(namespace), check_key(key)
        return MemoryWrite(namespace, key, body, words_in(key, body), until)

    def _store_write(self, write: MemoryWrite, vector: bytes | None, expires_s: float | None) -> None:
        """Store *write* with its *vector*, now."""
        at = self._config.clock()
        until = write.expires_at if expires_s is None else at + expires_s
        self._store.write_memory([write._replace(vector=vector, expires_at=until)], at=at)

    def _text(self, item: MemoryWrite | StoredItem) -> str:
        """Return the texts of an item to embed."""
        return text_in(item.key, item.body or b"null")

    def _vectors(self, texts: list[str]) -> list[bytes | None]:
        """Return the vectors of *texts*; None for each if the runtime has no embedding."""
        embed = self._config.embed
        if embed is None or not texts:
            return [None] * len(texts)
        if not is_async(embed):
            return [*map(vector_of, embedded(texts, embed(texts)))]
        from graphrt._drivers.loop_thread import LoopThread

        shared = self._config.threads.loop_source
        loop = LoopThread() if shared is None else shared()
        try:
            return [*map(vector_of, loop.run(lambda: aembedded(embed, texts)))]
        finally:
            if shared is None:
                loop.close()

    async def _avectors(self, texts: list[str]) -> list[bytes | None]:
        """Like `_vectors`, without blocking the event loop."""
        embed = self._config.embed
        if embed is None or not texts:
            return [None] * len(texts)
        if is_async(embed):
            return [*map(vector_of, await aembedded(embed, texts))]
        from graphrt._drivers.blocking_calls import in_executor

        return [*map(vector_of, embedded(texts, await in_executor(embed, texts)))]

    def _encoded(self, value: Any) -> bytes:
        """Return *value*, redacted, in its stored form."""
        config = self._config
        engine = Engine(config.plan, config.limits)
        try:
            if config.redactor is not None:
                engine.redact_with(config.redactor)
                value = redacted_value(engine, value, "a value for the memory")
            return config.plan.codec.dump(value)
        except NotStorable as error:
            raise not_storable(engine, error, "The value for the memory is one") from error

    def get(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, or None if there is none or it has expired."""
        wanted = MemoryFilter(now=self._config.clock(), namespace=check_namespace(namespace), key=check_key(key))
        items = self._store.query(wanted, limit=1)
        return MemoryItem(**recorded(items[0], self._config.plan.codec)) if items else None

    def search(self, namespace: str = "", query: str = "", *, limit: int = 10) -> list[MemoryItem]:
        """Return items of *namespace* and of those below it; see `graphrt.memory.Memory.search`."""
        wanted = search_filter(namespace, query, limit, bare=False)
        return self._found(wanted, self._vectors([query])[0] if query.strip() else None, limit)

    def _found(self, wanted: MemoryFilter, vector: bytes | None, limit: int) -> list[MemoryItem]:
        """Return the items that *wanted* finds with the *vector* of its query."""
        wanted = replace(wanted, now=self._config.clock(), vector=vector)
        return [
            MemoryItem(**recorded(item, self._config.plan.codec)) for item in self._store.query(wanted, limit=limit)
        ]

    def delete(self, namespace: str, key: str) -> None:
        """Delete the item, if there is one."""
        write = MemoryWrite(check_namespace(namespace), check_key(key), None)
        self._store.write_memory([write], at=self._config.clock())

    def namespaces(self, namespace: str = "") -> list[str]:
        """Return *namespace* and those below it that have items, in their order; all by default."""
        scope = check_namespace(namespace, scope=True)
        return self._store.query(NamespaceFilter(now=self._config.clock(), namespace=scope))

    def clear(self, namespace: str) -> int:
        """Delete all items of *namespace* and of those below it, and return their number.

        Expired items are also deleted but not counted.
        """
        scope = check_namespace(namespace, scope=True)
        items = self._store.query(MemoryFilter(now=float("-inf"), namespace=scope))
        now = self._config.clock()
        self._store.write_memory([MemoryWrite(item.namespace, item.key, None) for item in items], at=now)
        return sum(item.expires_at is None or item.expires_at > now for item in items)

    def embed_again(self, namespace: str = "") -> int:
        """Embed all items of *namespace* and of those below it with the runtime's `embed=`, and return their number.

        For items written without an embedding or with a different one. It calls `embed=` with up to 100 texts at a
        time. Each item counts as rewritten; an item that changes meanwhile keeps its newer form.

        Raises:
            InputError: The runtime has no embedding, or it returned no vectors (`bad-memory`).
        """
        batches = self._to_embed(namespace)
        return sum(self._embedded_again(batch, self._vectors([*map(self._text, batch)])) for batch in batches)

    def _to_embed(self, namespace: str) -> list[list[StoredItem]]:
        """Return the items of *namespace*, oldest first, in lists that are each embedded in one call."""
        if self._config.embed is None:
            raise ARGUMENT_NEEDS_ANOTHER(
                argument="memory.embed_again()", missing="embed= of the runtime", where=self._config.plan.place()
            )
        scope = check_namespace(namespace, scope=True)
        items = self._store.query(MemoryFilter(now=self._config.clock(), namespace=scope))[::-1]
        return [items[first : first + _TOGETHER] for first in range(0, len(items), _TOGETHER)]

    def _embedded_again(self, items: list[StoredItem], vectors: list[bytes | None]) -> int:
        """Write *items* with their new *vectors*, except those that have changed meanwhile, and return their number."""
        now = self._config.clock()
        writes: list[MemoryWrite] = []
        for item, vector in zip(items, vectors, strict=True):
            namespace, key, body = item[:3]
            if self._store.query(MemoryFilter(now=now, namespace=namespace, key=key)) == [item]:
                writes.append(MemoryWrite(namespace, key, body, words_in(key, body), item.expires_at, vector))
        self._store.write_memory(writes, at=now)
        return len(writes)

    def purge(self) -> int:
        """Delete the items that have expired, and return their number. Workers do this as part of their retention."""
        return self._store.purge_memory(expired_by=self._config.clock())

    def export(self, to: Any, namespace: str = "", *, decrypted: bool = False) -> int:
        """Write the items of *namespace* and of those below it to a file, and return their number.

        The first line of the file names its format and the number of items. A line of JSON follows for each item, with
        its value in stored form and its vector. Expired items are left out. If *to* is a path, the file appears there
        once it is complete, and only the current user may read it.

        Args:
            to: The path of a file that does not exist, or a binary file open for writing.
            namespace: The namespace to export; empty for the whole memory.
            decrypted: Must be True if the store encrypts, because the file holds the items in plain text.

        Raises:
            InputError: *to* exists (`path-exists`) or cannot be written (`bad-path`), or the store encrypts
                (`export-decrypted`).
            StoreError: The memory is encrypted, and the store was opened without its keys (`missing-key`).
        """
        scope = check_namespace(namespace, scope=True)
        from graphrt.stores._sealing import refuse_sealed  # imported late: it loads OpenSSL

        if self._store.encrypted and decrypted is not True:
            raise EXPORT_DECRYPTED(what="The memory")
        items = self._store.query(MemoryFilter(now=self._config.clock(), namespace=scope))
        for item in items:
            refuse_sealed(item.body, None)
        rows = (
            item._asdict() | {"body": item.body.decode(), "score": None, "vector": _text_of(item.vector)}
            for item in items
        )
        lines = b"".join(to_json(row) + b"\n" for row in ({"form": FORM, "items": len(items)}, *rows))
        if hasattr(to, "write"):
            archive.check_open(to, "writing")
            to.write(lines)
        else:

            def write(temporary: str) -> None:
                """Write the content of the temporary file *temporary*, which is renamed to *to* once complete."""
                Path(temporary).write_bytes(lines)

            archive.write_new(to, write)
        return len(items)

    def import_items(self, source: Any) -> int:
        """Write the items of an exported file, replacing items with the same keys, and return their number.

        Items get new creation and update times. Expired items are left out.

        Args:
            source: The path of the file, or a binary file open for reading.

        Raises:
            InputError: It cannot be read (`bad-path`), is not a whole exported file (`bad-archive`), or an item cannot
                be stored. Nothing was written.
            StoreError: A newer version of graphrt wrote it (`store-newer`). Nothing was written.
        """
        at = self._config.clock()
        writes = [write for write in _read(source) if write.expires_at is None or write.expires_at > at]
        self._store.write_memory(writes, at=at)
        return len(writes)

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
        write = self._write(namespace, key, value, expires_s, expires_at)
        [vector] = await self._avectors([self._text(write)])
        await self._unhurried(lambda: self._store_write(write, vector, expires_s))

    async def aget(self, namespace: str, key: str) -> MemoryItem | None:
        """Return the item, or None; see `get`."""
        item: MemoryItem | None = await self._unhurried(lambda: self.get(namespace, key))
        return item

    async def asearch(self, namespace: str = "", query: str = "", *, limit: int = 10) -> list[MemoryItem]:
        """Return items of *namespace*; see `search`."""
        wanted = search_filter(namespace, query, limit, bare=False)
        vector = (await self._avectors([query]))[0] if query.strip() else None
        items: list[MemoryItem] = await self._unhurried(lambda: self._found(wanted, vector, limit))
        return items

    async def aembed_again(self, namespace: str = "") -> int:
        """Embed all items of *namespace*; see `embed_again`."""
        batches: list[list[StoredItem]] = await self._unhurried(lambda: self._to_embed(namespace))
        number = 0
        for batch in batches:
            vectors = await self._avectors([*map(self._text, batch)])
            number += await self._unhurried(partial(self._embedded_again, batch, vectors))
        return number

    async def adelete(self, namespace: str, key: str) -> None:
        """Delete the item, if there is one."""
        await self._unhurried(lambda: self.delete(namespace, key))

    async def anamespaces(self, namespace: str = "") -> list[str]:
        """Return the namespaces that have items; see `namespaces`."""
        names: list[str] = await self._unhurried(lambda: self.namespaces(namespace))
        return names

    async def aclear(self, namespace: str) -> int:
        """Delete all items of *namespace*; see `clear`."""
        number: int = await self._unhurried(lambda: self.clear(namespace))
        return number

    async def aexport(self, to: Any, namespace: str = "", *, decrypted: bool = False) -> int:
        """Write the items of *namespace* to a file; see `export`."""
        number: int = await self._unhurried(lambda: self.export(to, namespace, decrypted=decrypted))
        return number

    async def aimport_items(self, source: Any) -> int:
        """Write the items of a file; see `import_items`."""
        number: int = await self._unhurried(lambda: self.import_items(source))
        return number

    async def apurge(self) -> int:
        """Delete the items that have expired; see `purge`."""
        number: int = await self._unhurried(self.purge)
        return number


def _text_of(vector: bytes | None) -> str | None:
    """Return *vector* as it is in an exported file."""
    return None if vector is None else b64encode(vector).decode()


def _read(source: Any) -> list[MemoryWrite]:
    """Return the items in a file written by `export`, as writes.

    Raises:
        InputError: The file cannot be opened, or is not a whole exported file.
        StoreError: It has a newer format.
    """
    writes: list[MemoryWrite] = []
    with archive.opened(source) as file:
        number_of_items = _read_header(file.readline())
        for number, line in enumerate(file, 2):
            try:
                item: dict[str, Any] = from_json(line)
                body = item["body"].encode()
                vector = None if item["vector"] is None else b64decode(item["vector"], validate=True)
                expires_at, words = item["expires_at"], words_in(item["key"], body)
                if expires_at is not None and not (is_number(expires_at) and isfinite(expires_at)):
                    raise ValueError("not a time")
                if vector is not None and not is_packed(vector):
                    raise ValueError("not a vector")
                writes.append(MemoryWrite(item["namespace"], item["key"], body, words, expires_at, vector))
            except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
                raise BAD_ARCHIVE(
                    why=f"Line {number} is not an item of the memory.", fix="Export the memory again."
                ) from error
    if len(writes) != number_of_items:
        raise BAD_ARCHIVE(
            why=f"It has {count(len(writes), 'item')}, and its first line says {number_of_items}.",
            fix="Copy the whole file, or export the memory again.",
        )
    return writes


def _read_header(line: bytes) -> int:
    """Return the number of items by *line*, the first line of a file, which also names its format.

    Raises:
        InputError: It does not say these (`bad-archive`).
        StoreError: The format is newer (`store-newer`).
    """
    known, _, current = FORM.rpartition("/")
    try:
        header: Any = from_json(line)
        form: str = header["form"]
        name, _, version = form.rpartition("/")
        newer = name == known and int(version) > int(current)
    except (ValueError, TypeError, LookupError, AttributeError):
        header, form, version, newer = {}, "", "", False
    if newer:
        raise STORE_NEWER(part="The exported memory", version=version, form=current)
    items: Any = header.get("items") if form == FORM else None
    if not isinstance(items, int):
        raise BAD_ARCHIVE(
            why=f"Its first line does not say {FORM!r} and the number of items.", fix="Pass what memory.export() wrote."
        )
    return items
