"""Opens the files of the corpus, and returns their content as plain data that two versions can compare.

Fields with their default are left out: a version may add fields with defaults to events, and counts to usage.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel
from tests.journal.corpus.scenarios import KEY, OLD_KEY, SCENARIOS, START_S, Scenario, World
from tests.stores import postgres_server

from graphrt import Runtime
from graphrt.audit import offline
from graphrt.errors import GraphrtError
from graphrt.events import Entry, event_kind
from graphrt.stores import EncryptedStore, MemoryStore, PostgresStore, SqliteStore, Store, TenantStore
from graphrt.stores.filters import MailFilter, MemoryFilter, QuestionFilter, ScheduleFilter

FILES: Final = Path(__file__).parent / "v1"
STORES: Final = ("write-ahead", "rollback", "encrypted", "postgres", "exported")
KEYS: Final = {"k": bytes(range(32))}
SCHEMA: Final = "graphrt_corpus"
"""Name of the schema in the dump of PostgreSQL; a reader uses another one."""
LOGGED: Final[dict[str, bytes | None]] = {
    "completed": None,
    "erased": None,
    "copied": None,
    "pruned": None,
    "keyed": KEY,
}
"""Threads whose logs are exported, and the key of the head."""
LONGEST: Final = 200
"""Longest text that is shown; longer ones are shown by their digest."""


# values
# ------------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:  # noqa: C901, PLR0911 - one case for each kind of value
    """*value* as JSON that differs for different values and types, independent of the order of sets."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return {type(value).__name__: value.name}
    if type(value) is int:
        return value
    if type(value) is str:
        return value if len(value) <= LONGEST else {"text": [len(value), digest(value)]}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _named(value, value._fields, getattr(value, "_field_defaults", {}))
    if isinstance(value, tuple):
        return {"tuple": [plain(one) for one in value]}
    if isinstance(value, (set, frozenset)):
        return {type(value).__name__: sorted((plain(one) for one in value), key=json.dumps)}
    if isinstance(value, Mapping):
        return {"dict": [[plain(key), plain(one)] for key, one in value.items()]}
    if isinstance(value, BaseExceptionGroup):
        return {type(value).__name__: [value.message, plain(list(value.exceptions))]}
    if isinstance(value, BaseException):
        return {type(value).__name__: [str(value), plain(list(value.args))]}
    if isinstance(value, BaseModel):
        return _named(value, type(value).model_fields, {})
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        defaults = {
            field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            for field in fields
            if not (field.default is field.default_factory is dataclasses.MISSING)
        }
        return _named(value, [field.name for field in fields], defaults)
    return {type(value).__name__: repr(value)}


def _named(value: Any, names: Any, defaults: Mapping[str, Any]) -> Any:
    held = {name: getattr(value, name) for name in names}
    return {
        type(value).__name__: {
            name: plain(one) for name, one in held.items() if name not in defaults or not _same(one, defaults[name])
        }
    }


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def digest(value: Any) -> str:
    data = value if isinstance(value, str) else json.dumps(plain(value), sort_keys=True)
    return sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def entry_line(entry: Entry) -> str:
    """The kind of an entry, and a digest of its content."""
    said = [entry.seq, entry.at, entry.run, entry.cause, entry.path, entry.event]
    return f"{event_kind(entry.event)} {digest(said)}"


# threads and stores
# ------------------------------------------------------------------------------------------------------


def observed(runtime: Runtime[Any], thread: str) -> dict[str, Any]:
    """The results of each verb that reads the thread."""
    snapshot = runtime.state(thread)
    (info,) = [one for one in runtime.threads() if one.thread == thread]
    assert plain(runtime.replay(thread).values) == plain(snapshot.values), thread
    return {
        "status": snapshot.status,
        "next": list(snapshot.next),
        "error": snapshot.error,
        "labels": [info.title, sorted(info.tags), info.priority],
        "values": plain(snapshot.values),
        "questions": [[one.id, one.kind, one.node, one.stale, plain(one.payload)] for one in snapshot.interrupts],
        "entries": [entry_line(entry) for entry in runtime.entries(thread)],
        "history": [f"{one.seq} {one.status} {digest(one.values)}" for one in runtime.history(thread)],
        "reexecuted": executed_again(runtime, thread),
    }


def executed_again(runtime: Runtime[Any], thread: str) -> int | None:
    """How many entries a second execution repeats; None if it cannot repeat all, for example erased ones."""
    try:
        found = runtime.reexecute(thread)
    except GraphrtError:
        return None
    return found.entries if found.same else None


def gone_on(scenario: Scenario, world: World, runtime: Runtime[Any]) -> dict[str, Any] | None:
    """How the first thread of a scenario continues; None if it has ended."""
    if scenario.go_on is None:
        return None
    result = scenario.go_on(world, runtime)
    return {"status": result.status, "values": plain(result.state)}


def around(store: Store) -> dict[str, Any]:
    """The data of the store besides threads, and its listings of the threads that every store has."""
    threads = [thread for one in SCENARIOS.values() if one.everywhere and not one.tenant for thread in one.threads]
    with World(store, "around").runtime(SCENARIOS["completed"].graph()) as runtime:
        memory = [[one.namespace, one.key, plain(one.value)] for one in runtime.memory.search()]
        found = [[one.key, one.score] for one in runtime.memory.search("", "black tea strasse")]
        schedules = [plain(one) for one in runtime.schedules.list()]
        north = [one.thread for one in runtime.threads(tags=["north"])]
    asked = [(row.head.thread, row.question) for row in store.query(QuestionFilter())]
    items = [
        [one.namespace, one.key, one.created_at, one.expires_at, plain(one.vector)]
        for one in store.query(MemoryFilter(now=START_S))
    ]
    return {
        "memory": sorted(memory, key=json.dumps),
        "items": sorted(items, key=json.dumps),
        "found": found,
        "schedules": schedules,
        "due": [[one.name, one.graph, one.due_at] for one in store.query(ScheduleFilter())],
        "tagged": north,
        "inbox": sorted([thread, one.place, one.kind, one.asked_at] for thread, one in asked if thread in threads),
        "mail": {
            thread: [[one.id, digest(one.body.hex())] for one in found]
            for thread in threads
            if (found := store.query(MailFilter(thread=thread)))
        },
    }


def within(store: Store, scenario: Scenario) -> Store:
    """The store that contains the threads of the scenario."""
    return store if scenario.tenant is None else TenantStore(store, scenario.tenant)


def codes(store: Store, thread: str) -> set[int]:
    """The codes of the events in the records, staged bodies and snapshots of a thread."""
    loaded = store.load(thread)
    bodies = [record.body for record in store.records(thread)]
    bodies += [body for _, body in loaded.staged]
    bodies += [] if loaded.snapshot is None else [loaded.snapshot.body]
    return {entry[0] for body in bodies for entry in json.loads(body.split(b"\n", 1)[0])[5]}


# the files --------------------------------------------------------------------------------------------------------------


def unpacked(name: str, folder: Path, files: Path = FILES) -> Path:
    """A file of the corpus in *folder*, where it may be changed."""
    path = folder / name
    path.write_bytes(gzip.decompress((files / f"{name}.gz").read_bytes()))
    return path


@contextmanager
def opened(kind: str, folder: Path, config: pytest.Config | None = None, files: Path = FILES) -> Iterator[Store]:
    """A store with the corpus of this *kind*.

    Args:
        kind: One of `STORES`.
        folder: An empty folder.
        config: Knows the server, for PostgreSQL.
        files: The files of the corpus.
    """
    if kind == "postgres":
        assert config is not None
        url = postgres_server.fresh_url(config)
        try:
            load_dump(url, gzip.decompress((files / "postgres.sql.gz").read_bytes()).decode())
            with PostgresStore(url) as store:
                yield store
        finally:
            postgres_server.drop(url)
    elif kind == "exported":
        with MemoryStore() as store:
            for tenant, data in exported(files):
                (store if not tenant else TenantStore(store, tenant)).import_thread(io.BytesIO(data))
            yield store
    else:
        lite = SqliteStore(unpacked(f"{kind}.db", folder, files))
        with EncryptedStore(lite, KEYS) if kind == "encrypted" else lite as store:
            yield store


def exported(files: Path = FILES) -> Iterator[tuple[str, bytes]]:
    """The tenant, or an empty string, and the bytes of each exported thread."""
    with zipfile.ZipFile(files / "exported.zip") as packed:
        for name in packed.namelist():
            yield name.rpartition("/")[0], packed.read(name)


def logs(files: Path = FILES) -> dict[str, bytes]:
    """The logs by name, and under `heads` an anchor file."""
    with zipfile.ZipFile(files / "logs.zip") as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def verdicts(folder: Path, files: Path = FILES) -> dict[str, str]:
    """The verdicts of the offline verifier on the logs."""
    for name, data in logs(files).items():
        (folder / name).write_bytes(data)
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.jsonl")):
        keyed = LOGGED.get(path.stem, KEY) is not None  # the others were written by audited runtimes
        report = offline.verify(
            path, anchor=folder / "heads", key=KEY if keyed else None, older=[OLD_KEY] if keyed else ()
        )
        found[path.name] = f"{report.verdict.value}: {report.proved} {report.erased_values} erased"
    return found


def load_dump(url: str, dump: str) -> None:
    """Run a dump of PostgreSQL, with the schema of *url* instead of its own."""
    _, schema = postgres_server.plain(url)
    postgres_server.run(url, re.sub(rf"\b{SCHEMA}\b", schema, dump))


def scenarios_of(kind: str) -> dict[str, Scenario]:
    """The scenarios whose threads the store of this *kind* has."""
    first = kind == STORES[0] or kind == "exported"
    return {name: one for name, one in SCENARIOS.items() if one.everywhere or first}


def each_thread(
    store: Store, name: str, scenario: Scenario, see: Callable[[World, Runtime[Any], str], Any]
) -> dict[str, Any]:
    """The result of *see* for each thread of the scenario, by thread; and how the first one continues."""
    world = World(store, f"{name}-later")
    with world.runtime(scenario.graph(), within(store, scenario), **scenario.options) as runtime:
        return {thread: see(world, runtime, thread) for thread in scenario.threads}
