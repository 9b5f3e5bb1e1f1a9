"""Write the corpus of a release: databases, and beside them what the release itself made of them.

Run by a release, from its checkout, once, and never again: `python -m tests.corpus.write FOLDER POSTGRES_URL`.
What is in `v0_1` was written so by the code of 0.1 (commit 2a786d5); to write it anew with other code would make it
worthless. A later release adds a folder of its own, and to the cases what it found worth keeping. Threads that the
cases come to have later are not in older folders.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from graphrt.stores import EncryptedStore, open_store

from . import telling
from .cases import CASES
from .dumps import dump
from .hand import KEYS, LATER_S, START_S, Case, Hand
from .world import world

FLAVOURS: Final = {"plain": {"chain": False}, "chained": {"chain": True}, "encrypted": {"chain": True}}


def cases(flavour: str) -> list[Case]:
    """Those that the databases of *flavour* have."""
    return [case for case in CASES if flavour in case.flavours]


@contextmanager
def opened(url: str, flavour: str) -> Iterator[Any]:
    """The store at *url*."""
    plain = open_store(url)
    with EncryptedStore(plain, KEYS) if flavour == "encrypted" else plain as store:
        yield store


def write_case(case: Case, url: str, flavour: str) -> None:
    """Bring one thread to where the corpus has it."""
    if case.dies is not None:
        command = [sys.executable, "-m", "tests.corpus.write", "--die", case.name, url, flavour]
        ended = subprocess.run(command, check=False, timeout=60)
        if ended.returncode != -9:
            raise RuntimeError(f"{case.name} was not killed: {ended.returncode}")
        return
    with opened(url, flavour) as store:
        _write(case, store, flavour)


def _write(case: Case, store: Any, flavour: str) -> None:
    world.reset(mended=False)
    hand = Hand(case, store, now_s=START_S, ids="run", later=False, **FLAVOURS[flavour])
    case.write(hand)
    hand.runtime.close()


def die(name: str, url: str, flavour: str) -> None:
    """Drive one thread until this process kills itself."""
    (case,) = [case for case in CASES if case.name == name]
    with opened(url, flavour) as store, opened(url, flavour) as look:
        reset = world.reset

        def deadly(**options: Any) -> None:
            reset(**options)
            world.deadly = True
            world.ready = lambda: len(look.load(name).staged) >= (case.dies or 0)

        world.reset = deadly  # type: ignore[method-assign]
        _write(case, store, flavour)
    raise RuntimeError(f"{name} has ended: {[key for key, _ in look.load(name).staged]}")


def expected(case: Case, url: str, flavour: str, copies: Iterator[str]) -> dict[str, Any]:
    """What this code makes of one thread: how it stands, what it was, and where each way leads."""
    with opened(url, flavour) as store:
        world.reset()
        hand = Hand(case, store, now_s=LATER_S, ids="later", later=True)
        found: dict[str, Any] = {
            **telling.standing(hand.runtime, case.name),
            "history": telling.past(hand.runtime, case.name),
            "journal": telling.journal(hand.runtime, case.name),
        }
        hand.runtime.replay(case.name)
        hand.runtime.close()
    ways: dict[str, Any] = {}
    for name, way in case.ways.items():
        with opened(next(copies), flavour) as store:
            world.reset(mended=True)
            hand = Hand(case, store, now_s=LATER_S, ids="later", later=True)
            way(hand)
            ways[name] = telling.outcome(hand.runtime, case.name, hand.told)
            hand.runtime.close()
    return {**found, "ways": ways}


def sqlite(folder: Path, flavour: str) -> Path:
    """Write a database of SQLite."""
    path = folder / f"{flavour}.db"
    for case in cases(flavour):
        write_case(case, f"sqlite:///{path}", flavour)
    settle(path)
    return path


def settle(path: Path) -> None:
    """Bring everything that is in the log of a database into its file."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")


def all_expected(path: Path, flavour: str) -> dict[str, Any]:
    """What this code makes of each thread of a database, and the digests of what is stored."""
    with tempfile.TemporaryDirectory() as scratch:

        def copies() -> Iterator[str]:
            for number in range(10_000):
                shutil.copy(path, f"{scratch}/{number}.db")
                yield f"sqlite:///{scratch}/{number}.db"

        fresh = copies()
        return {case.name: expected(case, next(fresh), flavour, fresh) for case in cases(flavour)}


def digests(url: str, flavour: str) -> dict[str, Any]:
    """The digest of what is stored of each thread."""
    with opened(url, flavour) as store:
        return {case.name: telling.stored(store, case.name) for case in cases(flavour)}


def main(folder: Path, server: str) -> None:
    """Write everything into *folder*, which is made."""
    import psycopg

    from graphrt.stores.postgres import _schema

    folder.mkdir(parents=True)
    bodies: dict[str, Any] = {}
    told: dict[str, Any] = {}
    statements = [part.strip() for part in _schema._TABLES.split(";") if part.strip()]
    statements.insert(0, "CREATE TABLE {s}.schema_version (version integer NOT NULL, application text NOT NULL)")
    with tempfile.TemporaryDirectory() as scratch:
        for flavour in FLAVOURS:
            path = sqlite(Path(scratch), flavour)
            (folder / f"{flavour}.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            told[flavour] = all_expected(path, flavour)
            bodies[f"sqlite {flavour}"] = digests(f"sqlite:///{path}", flavour)
            url = f"{server}{'&' if '?' in server else '?'}schema=corpus_{flavour}"
            for case in cases(flavour):
                write_case(case, url, flavour)
            bodies[f"postgres {flavour}"] = digests(url, flavour)
            with psycopg.connect(server, autocommit=True) as connection:
                dump(connection, f"corpus_{flavour}", statements, folder / f"{flavour}.dump.gz")
    for flavour, found in told.items():
        for name, one in found.items():
            if one != told["plain"][name]:
                print("differs", flavour, name)  # noqa: T201 - a script that prints
    text = json.dumps({"threads": told["plain"], "stored": bodies}, sort_keys=True, separators=(",", ":"))
    (folder / "expected.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    if sys.argv[1] == "--die":
        die(*sys.argv[2:])
    else:
        main(Path(sys.argv[1]), sys.argv[2])
