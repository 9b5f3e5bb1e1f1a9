"""The memory in a SQLite file: its items, and the words that they are found by.

    memory       one row for each item; `path` is its namespace with a slash at the end
    memory_word  one row for each word of an item

The words are an ordinary table and no FTS5: it keeps deleted words in its segments, where an erasure would not reach
them, not every build of SQLite has it, and other stores would rank otherwise (decision 0250).

All functions run on an open connection, inside a transaction of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt.stores._memory_items import checked_writes, score, weights
from graphrt.stores.filters import MemoryFilter, NamespaceFilter
from graphrt.stores.sqlite._reading import Columns
from graphrt.stores.values import MemoryWrite, StoredItem

if TYPE_CHECKING:
    from sqlite3 import Connection

_PUT: Final = (
    "INSERT INTO memory(path, key, body, created_at, updated_at, expires_at) VALUES (:path, :key, :body, :at, :at, :until)"
    " ON CONFLICT(path, key) DO UPDATE SET body = :body, updated_at = :at, expires_at = :until,"
    " created_at = CASE WHEN expires_at <= :at THEN :at ELSE created_at END"
)
_NO: Final = "SELECT no FROM memory WHERE path = ? AND key = ?"
_PUT_WORD: Final = "INSERT INTO memory_word(word, no) VALUES (?, ?)"
_FORGET_WORDS: Final = "DELETE FROM memory_word WHERE no = ?"
_FORGET: Final = "DELETE FROM memory WHERE no = ?"
_PART: Final = "path >= :first AND path < :end AND (expires_at IS NULL OR expires_at > :now)"
_ITEM: Final = "path, key, body, created_at, updated_at, expires_at"
_LIST: Final = (
    f"SELECT {_ITEM} FROM memory WHERE {_PART} AND (:key IS NULL OR (path = :first AND key = :key))"  # noqa: S608 - own
    " ORDER BY updated_at DESC, path, key LIMIT :most"
)
_COUNT: Final = f"SELECT count(*) FROM memory WHERE {_PART} AND (:key IS NULL OR (path = :first AND key = :key))"  # noqa: S608
# The words are found first, by their index: SQLite does not reorder a CROSS JOIN.
_HAVE: Final = (
    "SELECT memory.no, memory.path, memory.key, updated_at, word FROM memory_word CROSS JOIN memory USING (no)"  # noqa: S608
    f" WHERE word IN (WORDS) AND {_PART}"
    " AND (:key IS NULL OR (path = :first AND memory.key = :key))"
)
_ONE: Final = f"SELECT {_ITEM} FROM memory WHERE no = ?"  # noqa: S608
_NAMESPACES: Final = f"SELECT DISTINCT path FROM memory WHERE {_PART} AND path > :after ORDER BY path LIMIT :most"  # noqa: S608
_EXPIRED: Final = "SELECT no FROM memory WHERE expires_at <= :now AND path >= :first AND path < :end"

_ROW: Final = Columns(
    "an item of the memory",
    {"path": str, "key": str, "body": bytes, "created_at": float, "updated_at": float, "expires_at": float | None},
)


def write(db: Connection, writes: Iterable[MemoryWrite], at: float) -> None:
    """Make the changes *writes* at *at*.

    Raises:
        InputError: One of them cannot be kept.
    """
    for one in checked_writes(writes, at):
        path = f"{one.namespace}/"
        if one.body is not None:
            values = {"path": path, "key": one.key, "body": one.body, "at": at, "until": one.expires_at}
            db.execute(_PUT, values)
        row = db.execute(_NO, (path, one.key)).fetchone()
        if row is None:
            continue
        db.execute(_FORGET_WORDS, row)
        if one.body is None:
            db.execute(_FORGET, row)
        for word in one.words if one.body is not None else ():
            db.execute(_PUT_WORD, (word, row[0]))


def is_written(db: Connection, writes: Iterable[MemoryWrite], at: float) -> bool:
    """Return whether the memory is as `write` leaves it."""
    for one in checked_writes(writes, at):
        wanted = MemoryFilter(now=float("-inf"), namespace=one.namespace, key=one.key)
        found = [(item.body, item.updated_at, item.expires_at) for item in listed(db, wanted, 1)]
        if found != ([] if one.body is None else [(one.body, at, one.expires_at)]):
            return False
    return True


def purge(db: Connection, expired_by: float, bounds: tuple[str, str]) -> int:
    """Delete the items between *bounds* that have expired, and return their number."""
    numbers = db.execute(_EXPIRED, {"now": expired_by, "first": bounds[0], "end": bounds[1]}).fetchall()
    for row in numbers:
        db.execute(_FORGET_WORDS, row)
        db.execute(_FORGET, row)
    return len(numbers)


def listed(db: Connection, wanted: MemoryFilter, most: int) -> list[StoredItem]:
    """Return the items that *wanted* lets pass, in its order: at most *most* of them, or all for -1."""
    first, end = wanted.bounds
    part = {"first": first, "end": end, "now": wanted.now, "key": wanted.key}
    if not wanted.words:
        return _items(db.execute(_LIST, part | {"most": most}).fetchall())
    words = tuple(dict.fromkeys(wanted.words))
    ((total,),) = db.execute(_COUNT, part).fetchall()
    have: dict[tuple[float, str, str, int], set[str]] = {}
    counts = dict.fromkeys(words, 0)
    given = {f"word{number}": word for number, word in enumerate(words)}
    text = _HAVE.replace("WORDS", ", ".join(f":{name}" for name in given))
    for no, path, key, updated_at, word in db.execute(text, part | given):
        have.setdefault((-updated_at, path, key, no), set()).add(word)
        counts[word] += 1
    shares = weights(total, counts, words)
    ranked = sorted((-score(shares, found), place) for place, found in have.items())
    return [
        _items(db.execute(_ONE, (place[3],)).fetchall())[0]._replace(score=-points)
        for points, place in (ranked if most < 0 else ranked[:most])
    ]


def namespaces(db: Connection, wanted: NamespaceFilter, after: str | None, most: int) -> list[str]:
    """Return the namespaces that *wanted* lets pass, those after *after*."""
    first, end = wanted.bounds
    page = {"first": first, "end": end, "now": wanted.now, "after": "" if after is None else f"{after}/", "most": most}
    return [str(path)[:-1] for (path,) in db.execute(_NAMESPACES, page).fetchall()]


def _items(rows: Sequence[tuple[Any, ...]]) -> list[StoredItem]:
    return [StoredItem(path[:-1], *rest) for path, *rest in _ROW.checked(list(rows))]
