"""A database of before 0.1 is read, replayed and gone on with like those of releases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphrt import Runtime

from . import voyage

DATABASE = Path(__file__).parent / "form-1.db"
STATUS = {
    "asked-inside": "interrupted",
    "asked-outside": "interrupted",
    "done": "completed",
    "twice": "interrupted",
    "edited": "failed",
    "forked": "running",
    "unchained": "interrupted",
}


@pytest.fixture
def runtime(tmp_path: Path):
    shutil.copy(DATABASE, tmp_path / "runs.db")
    with Runtime(voyage.graph(), store=f"sqlite:///{tmp_path / 'runs.db'}") as opened:
        yield opened


def test_every_thread_stands_as_it_stood(runtime: Runtime) -> None:
    assert {info.thread: info.status for info in runtime.threads()} == STATUS


@pytest.mark.parametrize("thread", STATUS)
def test_every_thread_is_read_and_replayed(runtime: Runtime, thread: str) -> None:
    snapshot = runtime.state(thread)

    assert runtime.replay(thread).values == snapshot.values
    assert runtime.history(thread)[0].values == snapshot.values
    assert snapshot.values["last"] == voyage.begin({})["last"]
    assert snapshot.values["table"]["a"] == (1, 2)


@pytest.mark.parametrize("thread", ["asked-inside", "asked-outside", "done", "forked", "unchained"])
def test_every_thread_goes_on_to_the_same_end(runtime: Runtime, thread: str) -> None:
    if runtime.state(thread).status == "running":
        runtime.retry(thread)
    while (snapshot := runtime.state(thread)).interrupts:
        answer = True if snapshot.next == ("gate",) else "left"
        runtime.resume(thread, answer=answer)

    assert runtime.state(thread).status == "completed"
    assert runtime.state(thread).values["notes"] == voyage.NOTES
