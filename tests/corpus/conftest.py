"""The databases of the corpus as tests get them: each test has its thread as the release left it."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.stores import postgres_server

from graphrt.stores import EncryptedStore, open_store

from . import dumps
from .cases import CASES
from .hand import KEYS, Case

RELEASE = Path(__file__).parent / "v0_1"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory):
    """A folder in memory where there is such a thing: nothing here is about power loss."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(dir=where) as made:
        yield Path(made)


@pytest.fixture(scope="session")
def expected() -> dict[str, Any]:
    """What the release made of its threads: `threads`, and the digests of what was `stored`."""
    found: dict[str, Any] = json.loads(gzip.decompress((RELEASE / "expected.json.gz").read_bytes()))
    return found


@pytest.fixture(scope="session")
def database(folder: Path) -> Callable[[str], Path]:
    """The file of a flavour, unpacked once; never opened, only copied."""

    def unpacked(flavour: str) -> Path:
        path = folder / f"{flavour}.db"
        if not path.exists():
            path.write_bytes(gzip.decompress((RELEASE / f"{flavour}.db.gz").read_bytes()))
        return path

    return unpacked


@pytest.fixture(scope="session")
def loaded(request: pytest.FixtureRequest) -> Iterator[Callable[[str], tuple[dumps.Dump, Any]]]:
    """The dump of a flavour in a schema of its own, loaded once, and a store that the tests of this process share."""
    import psycopg

    found: dict[str, tuple[dumps.Dump, Any, str]] = {}
    base = postgres_server.base_url(request.config)
    with psycopg.connect(base, autocommit=True) as connection:

        def load(flavour: str) -> tuple[dumps.Dump, Any]:
            if flavour not in found:
                url = postgres_server.fresh_url(request.config, pool_size="2")
                _, schema = postgres_server.plain(url)
                dump = dumps.load(connection, schema, RELEASE / f"{flavour}.dump.gz")
                found[flavour] = dump, open_store(url), url
            return found[flavour][:2]

        yield load
        for _, store, url in found.values():
            store.close()
            postgres_server.drop(url)


@pytest.fixture
def opened(request: pytest.FixtureRequest, database: Any, folder: Path) -> Callable[[str, str], Any]:
    """Opens a store in which a thread of a flavour is as it was left, given as "sqlite chained", say."""

    @contextmanager
    def opened(world: str, thread: str) -> Iterator[Any]:
        kind, flavour = world.split()
        if kind == "postgres":
            dump, store = request.getfixturevalue("loaded")(flavour)
            dump.put_back(thread)
            yield EncryptedStore(store, KEYS) if flavour == "encrypted" else store
            return
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            path = Path(scratch) / "runs.db"
            shutil.copy(database(flavour), path)
            store = open_store(f"sqlite:///{path}")
            with EncryptedStore(store, KEYS) if flavour == "encrypted" else store as found:
                yield found

    return opened


FULL = os.environ.get("GRAPHRT_FULL") == "1"
FLAVOURS = ("plain", "chained", "encrypted")
NEEDS = {"postgres": "psycopg", "encrypted": "cryptography"}
WORLDS = [
    pytest.param(
        f"{kind} {flavour}",
        id=f"{kind}-{flavour}",
        marks=[
            *[pytest.mark.needs(NEEDS[part]) for part in (kind, flavour) if part in NEEDS],
            *([] if (kind, flavour) == ("sqlite", "chained") else [pytest.mark.slow]),
        ],
    )
    for kind in ("sqlite", "postgres")
    for flavour in FLAVOURS
]


def is_read(case: Case, kind: str, flavour: str) -> bool:
    """Whether *case* is read from this kind of store in this flavour.

    A server keeps the same bytes as a file does. Without GRAPHRT_FULL=1 it has each case in one flavour, and files have
    it in the others: each case is read in each flavour once. `make quick` reads those that are chained, all from files.
    """
    if flavour not in case.flavours:
        return False
    on_server = flavour == case.flavours[CASES.index(case) % len(case.flavours)]
    return FULL or on_server == (kind == "postgres") or (kind, flavour) == ("sqlite", "chained")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every thread of every database that has it; `way` is each way to go on with it."""
    names = metafunc.fixturenames
    if "case" not in names:
        return
    worlds = WORLDS if "world" in names else [None]
    found = [
        pytest.param(
            *([*world.values] if world else []),
            case,
            *([way] if "way" in names else []),
            id="-".join([*([world.id] if world else []), case.name, *([way] if "way" in names else [])]),
            marks=world.marks if world else [],
        )
        for world in worlds
        for case in CASES
        for way in (case.ways if "way" in names else [None])
        if world is None or is_read(case, *str(world.id).split("-"))
    ]
    arguments = [name for name in ("world", "case", "way") if name in names]
    metafunc.parametrize(arguments, found)
