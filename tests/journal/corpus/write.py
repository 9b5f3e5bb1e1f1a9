"""Writes the corpus: `python -m tests.journal.corpus.write`. Once version 0.2.0 is released, v1 is never written again.

Clock, ids and seeds are the same each time, and so are all entries. In the files, encryption keys and the times of
PostgreSQL's server differ each time.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from tests.journal.corpus.read import (
    FILES,
    KEYS,
    LOGGED,
    SCHEMA,
    STORES,
    around,
    each_thread,
    gone_on,
    observed,
    opened,
    scenarios_of,
    verdicts,
    within,
)
from tests.journal.corpus.scenarios import SCENARIOS, World
from tests.stores import postgres_server

from graphrt.audit import export
from graphrt.stores import EncryptedStore, PostgresStore, SqliteStore, Store
from graphrt.stores.sqlite._journal_modes import Pragmas

_KEPT: Final = ("README.md",)

Open = Callable[[], AbstractContextManager[Store]]


def fill(kind: str, open_: Open, logs: Path | None = None) -> None:
    """Write all scenarios into the store that *open_* opens."""
    for name, scenario in scenarios_of(kind).items():
        with open_() as store:
            scenario.write(World(store, name, logs))


def write_sqlite(folder: Path, files: Path) -> None:
    """Write the three files of SQLite, and export threads and logs from the first one."""
    pragmas = {"rollback": Pragmas("delete", "EXTRA")}
    for kind in STORES[:3]:
        path, logs = folder / f"{kind}.db", folder / "logs"

        @contextmanager
        def open_(kind: str = kind, path: Path = path) -> Iterator[Store]:
            options: dict[str, Any] = {"_pragmas": pragmas[kind]} if kind in pragmas else {}
            lite = SqliteStore(path, **options)
            with EncryptedStore(lite, KEYS) if kind == "encrypted" else lite as store:
                yield store

        fill(kind, open_, logs if kind == STORES[0] else None)
        packed = gzip.compress(path.read_bytes(), mtime=0)
        (files / f"{path.name}.gz").write_bytes(packed)
        if kind == STORES[0]:
            with open_() as store:
                write_exported(store, files / "exported.zip")
                write_logs(store, logs, files / "logs.zip")


def write_exported(store: Store, path: Path) -> None:
    """Write each thread of the store as a separate file."""
    threads: dict[str, bytes] = {}
    for scenario in SCENARIOS.values():
        for thread in scenario.threads:
            data = BytesIO()
            within(store, scenario).export_thread(thread, data)
            threads[f"{scenario.tenant}/{thread}" if scenario.tenant else thread] = data.getvalue()
    pack(path, threads)


def write_logs(store: Store, folder: Path, path: Path) -> None:
    """Write exported logs of some threads, the files that runs wrote, and all heads."""
    heads: list[dict[str, Any]] = []
    for thread, key in LOGGED.items():
        heads.append(export(store, thread, folder / f"{thread}.jsonl", key=key).to_dict())
    logs = {file.name: file.read_bytes() for file in sorted(folder.glob("*.jsonl"))}
    logs["heads"] = b"".join(
        json.dumps({"head": head}, sort_keys=True, separators=(",", ":")).encode() + b"\n" for head in heads
    )
    pack(path, logs)


def pack(path: Path, files: dict[str, bytes]) -> None:
    """Write *files* as a reproducible archive."""
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in files.items():
            packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)


def write_postgres(files: Path) -> None:
    """Write a schema of PostgreSQL, like `pg_dump` does."""
    tools = postgres_server.binaries()
    if tools is None:
        sys.exit("The corpus needs a PostgreSQL server: there is no initdb in PATH or /usr/lib/postgresql.")
    server = postgres_server.Server(tools)
    try:
        url = postgres_server.with_options(server.url, schema=SCHEMA)
        fill("postgres", lambda: PostgresStore(url))
        command = [str(tools / "pg_dump"), "--schema", SCHEMA, "--no-owner", "--inserts", "--dbname", server.url]
        dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    finally:
        server.remove()
    # Newer versions of pg_dump also write commands of psql, which begin with a backslash; settings depend on the
    # version.
    left = [line for line in dumped.splitlines(keepends=True) if not line.startswith(("\\", "SET ", "--"))]
    (files / "postgres.sql.gz").write_bytes(gzip.compress("".join(left).encode(), mtime=0))


def expected(folder: Path, files: Path) -> dict[str, Any]:
    """The expected content: of the first store, which has all threads, since each store has the same entries."""
    seen: dict[str, Any] = {}
    on: dict[str, Any] = {}
    with opened(STORES[0], folder, files=files) as store:
        beside = around(store)
        for name, scenario in scenarios_of(STORES[0]).items():
            seen[name] = each_thread(store, name, scenario, lambda _, runtime, thread: observed(runtime, thread))
            on[name] = each_thread(store, name, scenario._replace(threads=scenario.threads[:1]), goes_on(scenario))
    logs = verdicts(folder, files)
    return {"threads": seen, "going on": on, "beside threads": beside, "logs": logs}


def goes_on(scenario: Any) -> Callable[[World, Any, str], Any]:
    return lambda world, runtime, _: gone_on(scenario, world, runtime)


def main() -> None:
    """Write all files, and replace those of v1 once all are written."""
    with tempfile.TemporaryDirectory() as scratch:
        files, folder = Path(scratch) / "v1", Path(scratch) / "stores"
        for made in (files, folder, folder / "read"):
            made.mkdir()
        write_sqlite(folder, files)
        write_postgres(files)
        found = expected(folder / "read", files)
        (files / "expected.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        FILES.mkdir(exist_ok=True)
        for old in FILES.iterdir():
            if old.name not in _KEPT:
                old.unlink()
        for new in sorted(files.iterdir()):
            shutil.copy(new, FILES / new.name)
            print(f"{new.stat().st_size:>9,}  {new.name}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
