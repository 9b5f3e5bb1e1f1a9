"""The memory in a SQLite file: its items, and the words that they are found by.

    memory       one row for each item; `path` is its namespace with a slash at the end
    memory_word  one row for each word of an item

The words are in an ordinary table instead of FTS5, which keeps deleted words in segments out of reach of an erasure, is
not in every build of SQLite, and ranks differently from other stores (decision 0250). Items are ranked in SQL, by the
shares of the searched words, because fetching each item with a frequent word took ten times as long (decision 0259).
Vectors are compared by a function in Python.

All functions run on an open connection, inside a transaction of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt.stores._memory_items import MOST_COMPARED, check_lengths, checked_writes, weights
from graphrt.stores._vectors import nearness
from graphrt.stores.filters import MemoryFilter, NamespaceFilter
from graphrt.stores.sqlite._reading import Columns
from graphrt.stores.values import MemoryWrite, StoredItem

if TYPE_CHECKING:
    from sqlite3 import Connection

_PUT: Final = (
    "INSERT INTO memory(path, key, body, created_at, updated_at, expires_at, vector)"
    " VALUES (:path, :key, :body, :at, :at, :until, :vector)"
    " ON CONFLICT(path, key) DO UPDATE SET body = :body, updated_at = :at, expires_at = :until, vector = :vector,"
    " created_at = CASE WHEN expires_at <= :at THEN :at ELSE created_at END"
)
_NO: Final = "SELECT no FROM memory WHERE path = ? AND key = ?"
_PUT_WORD: Final = "INSERT INTO memory_word(word, no) VALUES (?, ?)"
_FORGET_WORDS: Final = "DELETE FROM memory_word WHERE no = ?"
_FORGET: Final = "DELETE FROM memory WHERE no = ?"
_PART: Final = "path >= :first AND path < :end AND (expires_at IS NULL OR expires_at > :now)"
_ITEM: Final = "path, key, body, created_at, updated_at, expires_at, vector"
_KEY: Final = "(:key IS NULL OR (path = :first AND key = :key))"
_ORDER: Final = "updated_at DESC, path, key"
_LIST: Final = f"SELECT {_ITEM} FROM memory WHERE {_PART} AND {_KEY} ORDER BY {_ORDER} LIMIT :most"  # noqa: S608 - own
_COUNT: Final = f"SELECT count(*), ifnull(sum(length(vector) <> :length), 0) FROM memory WHERE {_PART} AND {_KEY}"  # noqa: S608
# The words are found first, by their index: SQLite does not reorder a CROSS JOIN.
_COUNT_WORD: Final = (
    f"SELECT count(*) FROM memory_word CROSS JOIN memory USING (no) WHERE word = :word AND {_PART} AND {_KEY}"  # noqa: S608
)
_SEARCHED: Final = "WITH searched(word, share) AS (VALUES SHARES)"
_BY_WORDS: Final = (
    f"{_SEARCHED} SELECT no, round(sum(share), 6) AS points FROM searched CROSS JOIN memory_word USING (word)"  # noqa: S608
    f" CROSS JOIN memory USING (no) WHERE {_PART} AND {_KEY} GROUP BY no ORDER BY points DESC, {_ORDER} LIMIT :most"
)
_BY_MEANING: Final = (
    f"{_SEARCHED}, spoken(no, share) AS (SELECT no, sum(share) FROM searched CROSS JOIN memory_word USING (word) GROUP BY no),"  # noqa: S608
    f" part AS (SELECT no, path, key, updated_at, vector, row_number() OVER (PARTITION BY vector IS NULL ORDER BY {_ORDER})"
    f" AS place FROM memory WHERE {_PART} AND {_KEY}),"
    " ranked AS (SELECT no, path, key, updated_at, round((ifnull(share, 0) + CASE WHEN place <= :compared THEN"
    " graphrt_nearness(vector, :vector) ELSE 0 END) / 2, 6) AS points FROM part LEFT JOIN spoken USING (no))"
    f" SELECT no, points FROM ranked WHERE points > 0 ORDER BY points DESC, {_ORDER} LIMIT :most"
)
_ONE: Final = f"SELECT {_ITEM} FROM memory WHERE no = ?"  # noqa: S608
_NAMESPACES: Final = f"SELECT DISTINCT path FROM memory WHERE {_PART} AND path > :after ORDER BY path LIMIT :most"  # noqa: S608
_EXPIRED: Final = "SELECT no FROM memory WHERE expires_at <= :now AND path >= :first AND path < :end"

_ROW: Final = Columns(
    "an item of the memory",
    {
        "path": str,
        "key": str,
        "body": bytes,
        "created_at": float,
        "updated_at": float,
        "expires_at": float | None,
        "vector": bytes | None,
    },
)


def write(db: Connection, writes: Iterable[MemoryWrite], at: float) -> None:
    """Apply the changes *writes*, made at *at*.

    Raises:
        InputError: One of them cannot be kept.
    """
    for change in checked_writes(writes, at):
        path = f"{change.namespace}/"
        if change.body is not None:
            values = {"path": path, "key": change.key, "body": change.body, "at": at, "until": change.expires_at}
            values["vector"] = change.vector
            db.execute(_PUT, values)
        row = db.execute(_NO, (path, change.key)).fetchone()
        if row is None:
            continue
        db.execute(_FORGET_WORDS, row)
        if change.body is None:
            db.execute(_FORGET, row)
        for word in change.words if change.body is not None else ():
            db.execute(_PUT_WORD, (word, row[0]))


def is_written(db: Connection, writes: Iterable[MemoryWrite], at: float) -> bool:
    """Return whether the memory is as `write` leaves it."""
    for change in checked_writes(writes, at):
        item_filter = MemoryFilter(now=float("-inf"), namespace=change.namespace, key=change.key)
        stored = [(item.body, item.updated_at, item.expires_at, item.vector) for item in listed(db, item_filter, 1)]
        if stored != ([] if change.body is None else [(change.body, at, change.expires_at, change.vector)]):
            return False
    return True


def purge(db: Connection, expired_by: float, bounds: tuple[str, str]) -> int:
    """Delete the items between *bounds* that have expired, and return their number."""
    numbers = db.execute(_EXPIRED, {"now": expired_by, "first": bounds[0], "end": bounds[1]}).fetchall()
    for row in numbers:
        db.execute(_FORGET_WORDS, row)
        db.execute(_FORGET, row)
    return len(numbers)


def listed(db: Connection, wanted: MemoryFilter, limit: int) -> list[StoredItem]:
    """Return the items that match *wanted*, in its order: at most *limit* of them, or all for -1."""
    first, end = wanted.bounds
    part: dict[str, Any] = {"first": first, "end": end, "now": wanted.now, "key": wanted.key}
    if not wanted.searches:
        return _items(db.execute(_LIST, part | {"most": limit}).fetchall())
    words = tuple(dict.fromkeys(wanted.words)) or ("",)  # no item has the empty word
    vector = wanted.vector
    ((total, others),) = db.execute(_COUNT, part | {"length": None if vector is None else len(vector)}).fetchall()
    check_lengths(wanted, others)
    counts = {word: db.execute(_COUNT_WORD, part | {"word": word}).fetchone()[0] for word in words}
    values: dict[str, Any] = {}
    for number, (word, share) in enumerate(weights(total, counts, words).items()):
        values |= {f"word{number}": word, f"share{number}": share}
    text = _BY_WORDS if vector is None else _BY_MEANING
    text = text.replace("SHARES", ", ".join(f"(:word{number}, :share{number})" for number in range(len(words))))
    if vector is not None:
        db.create_function("graphrt_nearness", 2, nearness, deterministic=True)
    ranked = db.execute(text, part | values | {"vector": vector, "compared": MOST_COMPARED, "most": limit}).fetchall()
    return [_items(db.execute(_ONE, (no,)).fetchall())[0]._replace(score=points) for no, points in ranked]


def namespaces(db: Connection, wanted: NamespaceFilter, after: str | None, limit: int) -> list[str]:
    """Return the namespaces after *after* that match *wanted*."""
    first, end = wanted.bounds
    page = {"first": first, "end": end, "now": wanted.now, "after": "" if after is None else f"{after}/", "most": limit}
    return [str(path)[:-1] for (path,) in db.execute(_NAMESPACES, page).fetchall()]


def _items(rows: Sequence[tuple[Any, ...]]) -> list[StoredItem]:
    return [StoredItem._make((path[:-1], *rest, 1.0, vector)) for path, *rest, vector in _ROW.checked(list(rows))]
