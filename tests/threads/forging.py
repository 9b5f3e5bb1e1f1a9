"""Rows of a SQLite file changed by who knows their form: the checksum is right again, the seal is not.

Nothing of graphrt is used here but the numbers of the tables' kinds.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.stores.support import loosen

META, SNAPSHOT, STAGED, BLOB = range(4)
SPAN = 2**36


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as db:
        yield db
        db.commit()


def checksummed(lines: list[bytes]) -> bytes:
    """A body of *lines*, with a matching checksum."""
    text = b"\n".join(lines)
    return b"%b\n%08x" % (text, zlib.crc32(text))


def change_body(path: Path, table: str, where: str, change: Callable[[list[bytes]], None]) -> int:
    """Change the lines of bodies in place; return how many rows differ now."""
    changed = 0
    with opened(path) as db:
        key = "key" if table == "record" else "no || '/' || kind || '/' || name"
        for which, body in db.execute(f"SELECT {key}, body FROM {table} WHERE {where}").fetchall():
            lines = body.split(b"\n")[:-1]
            change(lines)
            made = checksummed(lines)
            if made != body:
                db.execute(f"UPDATE {table} SET body = ? WHERE {key} = ?", (made, which))
                changed += 1
    return changed


def replace_in_body(path: Path, table: str, where: str, old: bytes, new: bytes) -> None:
    """Replace *old* by *new* in the lines of values, and check that it was there."""

    def change(lines: list[bytes]) -> None:
        lines[1:] = [line.replace(old, new) for line in lines[1:]]

    assert change_body(path, table, where, change), f"no {old!r} in {table} where {where}"


def replace_bound(path: Path, where: str, old: bytes, new: bytes, chained: str = "t") -> None:
    """Replace *old* by *new* in a staged row, and recompute its binding to its key and to the chain *chained*."""
    with opened(path) as db:
        rows = db.execute(f"SELECT name, body FROM part WHERE {where}").fetchall()
        assert rows, where
        for name, body in rows:
            structure, *values = body.split(b"\n")[:-1]
            changed = [line.replace(old, new) for line in values]
            assert changed != values, name
            text = b"\n".join([structure, *changed])
            bound = b"graphrt/staged/v1\x00%b\x00%b\x00" % (chained.encode(), name.encode())
            made = b"%b\n%b" % (text, hashlib.sha256(bound + text).hexdigest().encode())
            db.execute(f"UPDATE part SET body = ? WHERE {where} AND name = ?", (made, name))


def change_meta(path: Path, change: Callable[[dict[str, Any]], None], no: int = 1) -> None:
    with opened(path) as db:
        ((meta,),) = db.execute("SELECT body FROM part WHERE kind = 0 AND no = ?", (no,)).fetchall()
        data = json.loads(meta)
        change(data)
        db.execute("UPDATE part SET body = ? WHERE kind = 0 AND no = ?", (json.dumps(data).encode(), no))


def execute(path: Path, statement: str, *values: Any) -> None:
    """Run *statement*, which has to change a row."""
    loosen(path)
    with opened(path) as db:
        assert db.execute(statement, values).rowcount > 0, statement
