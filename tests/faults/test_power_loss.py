"""The power is lost at any moment of a run: no confirmed commit is lost, nothing is corrupted, and the run can
continue.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from graphrt import StoreError
from graphrt.stores import SqliteStore, StoreWrapper
from graphrt.stores._owners import this_owner
from graphrt.stores.sqlite import _database
from graphrt.stores.sqlite._journal_modes import Pragmas

from .power import NOTHING, Disk, Image
from .scenario import THREAD, Caller, World, check_end

pytestmark = pytest.mark.needs("apsw")

FULL = os.environ.get("GRAPHRT_FULL") == "1"
IMAGES = 4_000 if FULL else 20
NAME = "runs.db"
SAFE = {"delete": Pragmas("delete", "EXTRA"), "wal": Pragmas("wal", "FULL")}
WEAK = {
    "delete, nothing synced": Pragmas("delete", "OFF"),
    "delete, folder not synced": Pragmas("delete", "FULL"),
    "wal, synced at checkpoints": Pragmas("wal", "NORMAL"),
}


class MarkingWorld(World):
    """Marks in the disk's log when the world was changed, and when that was stored."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._disk = disk
        self.done.update(key for what, key in disk.first.marks if what == "done")

    def change(self, key: str, value: int) -> int:
        self._disk.mark(("done", key))
        return super().change(key, value)

    def kept(self, key: str) -> None:
        self._disk.mark(("kept", key))


class MarkingStore(StoreWrapper):
    """Marks in the disk's log which commits were confirmed."""

    def __init__(self, inner: Any, disk: Disk) -> None:
        super().__init__(inner)
        self._disk = disk

    def commit(self, claim: Any, commit: Any) -> None:
        super().commit(claim, commit)
        if commit.records:
            self._disk.mark(("stored", commit.records[-1].seq))


@pytest.fixture
def restart(monkeypatch):
    """Simulate a restart of the machine for all stores that are opened from now on."""
    numbers = itertools.count(1)

    def start():
        boot = f"boot {next(numbers)}"
        monkeypatch.setattr(_database, "this_owner", lambda: this_owner()._replace(boot=boot))

    return start


class Recorded(NamedTuple):
    """A run, as recorded on the disk."""

    disk: Disk
    records: list[Any]
    """Of its whole journal."""


def record(folder: Path, pragmas: Pragmas, monkeypatch: Any, first: Image = NOTHING) -> Recorded:
    """Drive the thread to its end on a disk with the image *first*, and record all operations."""
    from .apsw_files import use_watched_files

    disk = Disk(first)
    put(folder, first)
    with monkeypatch.context() as patch:
        watched = use_watched_files(patch, disk)
        with SqliteStore(folder / NAME, _pragmas=pragmas) as store:
            Caller(MarkingStore(store, disk), MarkingWorld(disk)).finish()
            records = list(store.records(THREAD))
        watched.unregister()
    return Recorded(disk, records)


def put(folder: Path, image: Image) -> None:
    """Replace the files of *folder* by those of *image*."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in image.files.items():
        (folder / name).write_bytes(content)


def outcome(image: Image, folder: Path, pragmas: Pragmas, records: list[Any], expected: Any) -> str:
    """The verdict on a disk: "kept", or its problem."""
    put(folder, image)
    stored = max((seq for what, seq in image.marks if what == "stored"), default=0)
    world = World()
    world.done.update(key for what, key in image.marks if what == "done")
    try:
        with SqliteStore(folder / NAME, _pragmas=pragmas) as store:
            if store._file.connection().execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                return "broken"
            caller = Caller(store, world)
            there = list(store.records(THREAD)) if caller.status() is not None else []
            if there != records[: len(there)]:
                return "other records"
            if (there[-1].seq if there else 0) < stored:
                return "commits lost"
            caller.finish()
            check_end(caller, expected, again=True)
            for key in {key for what, key in image.marks if what == "kept"}:
                assert world.done[key] == image.marks.count(("done", key)), f"{key} was stored, and done again"
    except (StoreError, sqlite3.Error) as error:
        return f"broken: {type(error).__name__}"
    except AssertionError as error:
        return f"another end: {error}"
    return "kept"


@pytest.fixture
def outcomes(folder, expected, restart):
    """The verdicts on disks, each of which lost its power at another moment of the run."""

    def each(recorded: Recorded, pragmas: Pragmas, images: int, seed: int = 1) -> Iterator[str]:
        restart()
        random = Random(seed)
        cuts = [random.randint(0, len(recorded.disk)) for _ in range(images)]
        for image in recorded.disk.images(cuts, random):
            yield outcome(image, folder / "image", pragmas, recorded.records, expected)

    return each


@pytest.mark.parametrize("mode", SAFE)
def test_confirmed_commits_survive_a_power_loss(mode, folder, monkeypatch, outcomes):
    recorded = record(folder / "first", SAFE[mode], monkeypatch)

    assert Counter(outcomes(recorded, SAFE[mode], IMAGES)) == {"kept": IMAGES}


@pytest.mark.parametrize("mode", WEAK)
def test_weaker_pragmas_lose_commits(mode, folder, monkeypatch, outcomes):
    """A control of the images: where SQLite promises less, less is stored."""
    recorded = record(folder / "first", WEAK[mode], monkeypatch)

    seed = 7 if mode == "delete, folder not synced" else 1  # finds one soon
    assert "commits lost" in outcomes(recorded, WEAK[mode], 150, seed)  # stop at the first one found


@pytest.mark.parametrize("mode", SAFE)
def test_power_may_be_lost_again_while_the_run_continues(mode, folder, monkeypatch, outcomes, restart):
    random = Random(2)
    recorded = record(folder / "first", SAFE[mode], monkeypatch)
    rounds = 10 if FULL else 2
    cuts = [random.randint(len(recorded.disk) // 8, len(recorded.disk)) for _ in range(rounds)]
    for number, image in enumerate(recorded.disk.images(cuts, random)):
        restart()
        again = record(folder / f"again-{number}", SAFE[mode], monkeypatch, image)

        assert Counter(outcomes(again, SAFE[mode], IMAGES // 10, number)) == {"kept": IMAGES // 10}
