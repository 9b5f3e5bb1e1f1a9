"""The memory in a PostgreSQL schema: the statements that write, list and search its items.

One row for each item: `path` is its namespace with a slash at the end, and `words` what it is found by, with a GIN
index. The items that have a searched word come from that index, and are ranked in SQL by the shares of the searched words
(`_memory_items`).

Vectors are arrays of `real`, so that the tables do not need the extension pgvector. If the database has it, its
`inner_product` compares them; otherwise a sum in SQL does, for the newest items only. There is no vector index:
pgvector's would find only the nearest items of all namespaces together, and different ones than other stores (decision
0259).

A commit writes them in its own statement, which names the thread's row `it` (`_parts`). Two commits may write the same
items. Each writes them in the order of their names. If two wait for each other all the same, the server aborts one of
them, which is repeated.
"""

# ruff: noqa: S608 - what is put into these texts is other constant text

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from graphrt.stores._memory_items import MOST_COMPARED, check_lengths, weights
from graphrt.stores._vectors import packed_numbers, unpacked
from graphrt.stores.filters import MemoryFilter, NamespaceFilter
from graphrt.stores.postgres._calls import Calls
from graphrt.stores.postgres._driver import Connection
from graphrt.stores.values import MemoryWrite, StoredItem

REMEMBER: Final = (
    "INSERT INTO {s}.memory AS there (path, key, body, words, created_at, updated_at, expires_at, vector)"
    " SELECT m.path, m.key, m.body, string_to_array(m.words, ' '), m.written_at, m.written_at, m.expires_at,"
    " m.vector::real[] FROM it CROSS JOIN"
    " unnest(%s::text[], %s::text[], %s::bytea[], %s::text[], %s::float8[], %s::float8[], %s::text[])"
    " WITH ORDINALITY AS m (path, key, body, words, expires_at, written_at, vector, place) ORDER BY m.place"
    " ON CONFLICT (path, key) DO UPDATE SET body = excluded.body, words = excluded.words, vector = excluded.vector,"
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
_ITEM: Final = "path, key, body, created_at, updated_at, expires_at, vector::text"
_ORDER: Final = "updated_at DESC, path, key"
_LIST: Final = f"SELECT {_ITEM} FROM {{s}}.memory WHERE {_PART} ORDER BY {_ORDER} LIMIT %(most)s"
_COUNT: Final = (
    "SELECT count(*), count(CASE WHEN %(length)s::integer IS NOT NULL AND cardinality(vector) <> %(length)s THEN 1 END),"
    " (SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
    f" WHERE e.extname = 'vector') FROM {{s}}.memory WHERE {_PART}"
)
_COUNT_WORDS: Final = (
    f"SELECT word, (SELECT count(*) FROM {{s}}.memory WHERE words @> ARRAY[word] AND {_PART})"
    " FROM unnest(%(words)s::text[]) AS word"
)
_SHARE: Final = (
    "(SELECT coalesce(sum(share), 0) FROM unnest(%(words)s::text[], %(shares)s::float8[]) AS s (word, share)"
    " WHERE word = ANY (words))"
)
_BY_WORDS: Final = (
    f"SELECT path, key, round({_SHARE}::numeric, 6)::float8 AS points FROM {{s}}.memory"
    f" WHERE words && %(words)s::text[] AND {_PART} ORDER BY points DESC, {_ORDER} LIMIT %(most)s"
)
_BY_MEANING: Final = (
    "SELECT path, key, points FROM (SELECT path, key, updated_at,"
    f" round((({_SHARE} + least(greatest(round(coalesce(PRODUCT, 0)::numeric, 4), 0), 1)::float8) / 2)::numeric, 6)::float8"
    f" AS points FROM PART) AS ranked WHERE points > 0 ORDER BY points DESC, {_ORDER} LIMIT %(most)s"
)
_ALL: Final = f"{{s}}.memory WHERE {_PART}"
_NUMBERED: Final = (
    "(SELECT path, key, updated_at, words, vector, row_number() OVER"
    f" (PARTITION BY vector IS NULL ORDER BY {_ORDER}) AS place FROM {_ALL}) AS part"
)
_SUM: Final = (
    f"CASE WHEN place <= {MOST_COMPARED} THEN"
    " (SELECT sum(one::float8 * other) FROM unnest(vector, %(vector)s::real[]) AS pair (one, other)) END"
)
_INNER_PRODUCT: Final = "EXTENSION.inner_product(vector::EXTENSION.vector, %(vector)s::real[]::EXTENSION.vector)"
_THESE: Final = f"SELECT {_ITEM} FROM {{s}}.memory JOIN unnest(%(paths)s::text[], %(keys)s::text[]) AS d (path, key) USING (path, key)"
_NAMESPACES: Final = (
    f"SELECT DISTINCT path FROM {{s}}.memory WHERE {_PART} AND path > %(after)s ORDER BY path LIMIT %(most)s"
)
PURGE: Final = "DELETE FROM {s}.memory WHERE expires_at <= %s AND path >= %s AND path < %s"


def columns(writes: Sequence[MemoryWrite], at: float) -> list[list[Any]]:
    """Return the columns of those *writes* that are not deletions, made at *at*, for `REMEMBER`."""
    rows = [
        (
            f"{change.namespace}/",
            change.key,
            change.body,
            " ".join(change.words),
            change.expires_at,
            at,
            _array(change.vector),
        )
        for change in writes
        if change.body is not None
    ]
    return [list(column) for column in zip(*rows, strict=True)] if rows else []


def deleted(writes: Sequence[MemoryWrite]) -> list[list[Any]]:
    """Return the columns of those *writes* that are deletions, for `FORGET`."""
    rows = [(f"{change.namespace}/", change.key) for change in writes if change.body is None]
    return [list(column) for column in zip(*rows, strict=True)] if rows else []


def write(calls: Calls, writes: Sequence[MemoryWrite], at: float) -> None:
    """Apply the checked *writes* in one transaction. A retry writes the same again."""

    def work(connection: Connection, _: bool) -> None:  # noqa: FBT001 - Calls.call says so
        with connection.transaction():
            for text, values in ((REMEMBER, columns(writes, at)), (FORGET, deleted(writes))):
                if values:
                    calls.run(connection, _ALONE + text, values)

    calls.call(work, "write to the memory", unknown="Whether it was written is not known: write it again.")


def listed(calls: Calls, wanted: MemoryFilter, limit: int | None) -> list[StoredItem]:
    """Return the items that match *wanted*, in its order, at most *limit* of them."""
    first, end = wanted.bounds
    part = {"first": first, "end": end, "now": wanted.now, "key": wanted.key}
    if not wanted.searches:
        return _items(calls.ask("read the memory", _LIST, part | {"most": limit}).fetchall())
    words = list(dict.fromkeys(wanted.words)) or [""]  # no item has the empty word
    length = None if wanted.vector is None else len(wanted.vector) // 4

    def work(connection: Connection, _: bool) -> list[StoredItem]:  # noqa: FBT001
        # In one snapshot, so that each item is read in the state in which it was found.
        with connection.transaction():
            connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            ((total, others, extension),) = calls.run(connection, _COUNT, part | {"length": length}).fetchall()
            check_lengths(wanted, others)
            counts: dict[str, int] = dict(calls.run(connection, _COUNT_WORDS, part | {"words": words}).fetchall())
            shares = [*weights(total, counts, words).values()]
            text = _BY_WORDS
            if wanted.vector is not None:
                text = _BY_MEANING.replace("PART", _NUMBERED).replace("PRODUCT", _SUM)
                if extension is not None:
                    product = _INNER_PRODUCT.replace("EXTENSION", extension)
                    text = _BY_MEANING.replace("PART", _ALL).replace("PRODUCT", product)
            values = {"words": words, "shares": shares, "vector": _array(wanted.vector), "most": limit}
            ranked = calls.run(connection, text, part | values).fetchall()
            names = {"paths": [path for path, _, _ in ranked], "keys": [key for _, key, _ in ranked]}
            items = {
                (item.namespace, item.key): item for item in _items(calls.run(connection, _THESE, names).fetchall())
            }
            return [items[path[:-1], key]._replace(score=points) for path, key, points in ranked]

    return calls.call(work, "search the memory")


def namespaces(calls: Calls, wanted: NamespaceFilter, after: str | None, limit: int | None) -> list[str]:
    """Return the namespaces after *after* that match *wanted*."""
    first, end = wanted.bounds
    page = {"first": first, "end": end, "now": wanted.now, "key": None, "most": limit}
    page["after"] = "" if after is None else f"{after}/"
    return [path[:-1] for (path,) in calls.ask("list the memory", _NAMESPACES, page).fetchall()]


def _items(rows: Sequence[tuple[Any, ...]]) -> list[StoredItem]:
    return [StoredItem._make((path[:-1], *rest, 1.0, _vector(text))) for path, *rest, text in rows]


def _array(vector: bytes | None) -> str | None:
    """Return a vector as the text of an array of `real`. `unnest` does not accept arrays of arrays."""
    return None if vector is None else f"{{{','.join(map(repr, unpacked(vector)))}}}"


def _vector(text: str | None) -> bytes | None:
    """Parse *text*, an array of `real`, as a vector."""
    return None if text is None else packed_numbers(map(float, text[1:-1].split(",")))
