"""The memory in a PostgreSQL schema: the statements that write, list and search its items.

One row for each item: `path` is its namespace with a slash at the end, and `words` what it is found by, with a GIN
index. The items that have a searched word come from that index; how they rank is computed as in any other store
(`_memory_items`).

A commit writes them in its own statement, which names the thread's row `it` (`_parts`). Two commits may write the same
items: each writes them in the order of their names, and if two wait for each other all the same, the server aborts one
of them, which is repeated.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from graphrt.stores._memory_items import score, weights
from graphrt.stores.filters import MemoryFilter, NamespaceFilter
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.values import MemoryWrite, StoredItem

REMEMBER: Final = (
    "INSERT INTO {s}.memory AS there (path, key, body, words, created_at, updated_at, expires_at)"
    " SELECT m.path, m.key, m.body, string_to_array(m.words, ' '), m.written_at, m.written_at, m.expires_at FROM it CROSS JOIN"
    " unnest(%s::text[], %s::text[], %s::bytea[], %s::text[], %s::float8[], %s::float8[])"
    " WITH ORDINALITY AS m (path, key, body, words, expires_at, written_at, place) ORDER BY m.place"
    " ON CONFLICT (path, key) DO UPDATE SET body = excluded.body, words = excluded.words,"
    " updated_at = excluded.updated_at, expires_at = excluded.expires_at, created_at = CASE"
    " WHEN there.expires_at <= excluded.updated_at THEN excluded.updated_at ELSE there.created_at END"
)
"""Writes items; its parameters are the columns that `columns` returns."""
FORGET: Final = (
    "DELETE FROM {s}.memory m USING it, unnest(%s::text[], %s::text[]) AS d (path, key)"
    " WHERE m.path = d.path AND m.key = d.key"
)
_ALONE: Final = "WITH it AS (SELECT 1) "
_PART: Final = (
    "path >= %(first)s AND path < %(end)s AND (expires_at IS NULL OR expires_at > %(now)s)"
    " AND (%(key)s::text IS NULL OR (path = %(first)s AND key = %(key)s))"
)
_ITEM: Final = "path, key, body, created_at, updated_at, expires_at"
_LIST: Final = f"SELECT {_ITEM} FROM {{s}}.memory WHERE {_PART} ORDER BY updated_at DESC, path, key LIMIT %(most)s"
_COUNT: Final = f"SELECT count(*) FROM {{s}}.memory WHERE {_PART}"
_HAVE: Final = (
    "SELECT path, key, updated_at, ARRAY(SELECT unnest(words) INTERSECT SELECT unnest(%(words)s::text[]))"
    f" FROM {{s}}.memory WHERE words && %(words)s::text[] AND {_PART}"
)
_THESE: Final = f"SELECT {_ITEM} FROM {{s}}.memory JOIN unnest(%(paths)s::text[], %(keys)s::text[]) AS d (path, key) USING (path, key)"
_NAMESPACES: Final = (
    f"SELECT DISTINCT path FROM {{s}}.memory WHERE {_PART} AND path > %(after)s ORDER BY path LIMIT %(most)s"
)
PURGE: Final = "DELETE FROM {s}.memory WHERE expires_at <= %s AND path >= %s AND path < %s"


def columns(writes: Sequence[MemoryWrite], at: float) -> list[list[Any]]:
    """Return the columns of those of *writes* that delete nothing, made at *at*, for `REMEMBER`."""
    rows = [
        (f"{one.namespace}/", one.key, one.body, " ".join(one.words), one.expires_at, at)
        for one in writes
        if one.body is not None
    ]
    return [list(column) for column in zip(*rows, strict=True)] if rows else []


def deleted(writes: Sequence[MemoryWrite]) -> list[list[Any]]:
    """Return the columns of those of *writes* that delete an item, for `FORGET`."""
    rows = [(f"{one.namespace}/", one.key) for one in writes if one.body is None]
    return [list(column) for column in zip(*rows, strict=True)] if rows else []


def write(calls: Calls, writes: Sequence[MemoryWrite], at: float) -> None:
    """Make the changes *writes*, which were checked, in one transaction. A repetition writes the same once more."""

    def work(connection: Connection, _: bool) -> None:  # noqa: FBT001 - Calls.call says so
        with connection.transaction():
            for text, values in ((REMEMBER, columns(writes, at)), (FORGET, deleted(writes))):
                if values:
                    calls.run(connection, _ALONE + text, values)

    calls.call(work, "write to the memory", unknown="Whether it was written is not known: write it again.")


def listed(calls: Calls, wanted: MemoryFilter, most: int | None) -> list[StoredItem]:
    """Return the items that *wanted* lets pass, in its order, at most *most* of them."""
    first, end = wanted.bounds
    part = {"first": first, "end": end, "now": wanted.now, "key": wanted.key}
    if not wanted.words:
        return _items(calls.ask("read the memory", _LIST, part | {"most": most}).fetchall())
    words = tuple(dict.fromkeys(wanted.words))

    def work(connection: Connection, _: bool) -> list[StoredItem]:  # noqa: FBT001
        # Of one moment, so that each item that was found is read as it was found.
        with connection.transaction():
            connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            ((total,),) = calls.run(connection, _COUNT, part).fetchall()
            have = calls.run(connection, _HAVE, part | {"words": list(words)}).fetchall()
            counts = {word: sum(word in found for _, _, _, found in have) for word in words}
            shares = weights(total, counts, words)
            ranked = sorted((-score(shares, found), -at, path, key) for path, key, at, found in have)[:most]
            names = {"paths": [one[2] for one in ranked], "keys": [one[3] for one in ranked]}
            items = {(one.namespace, one.key): one for one in _items(calls.run(connection, _THESE, names).fetchall())}
            return [items[path[:-1], key]._replace(score=-points) for points, _, path, key in ranked]

    return calls.call(work, "search the memory")


def namespaces(calls: Calls, wanted: NamespaceFilter, after: str | None, most: int | None) -> list[str]:
    """Return the namespaces that *wanted* lets pass, those after *after*."""
    first, end = wanted.bounds
    page = {"first": first, "end": end, "now": wanted.now, "key": None, "most": most}
    page["after"] = "" if after is None else f"{after}/"
    return [path[:-1] for (path,) in calls.ask("list the memory", _NAMESPACES, page).fetchall()]


def _items(rows: Sequence[tuple[Any, ...]]) -> list[StoredItem]:
    return [StoredItem(path[:-1], *rest) for path, *rest in rows]
