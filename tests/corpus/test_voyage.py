"""Journals that were stored once can be read, replayed and gone on with for ever (tests/journal/corpus)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.journal import voyage

from graphrt import Runtime

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.db"))
STATUS = {
    "asked-inside": "interrupted",
    "asked-outside": "interrupted",
    "done": "completed",
    "twice": "interrupted",
    "edited": "failed",
    "forked": "running",
    "unchained": "interrupted",
}


@pytest.fixture(params=CORPUS, ids=lambda path: path.stem)
def runtime(request: pytest.FixtureRequest, tmp_path: Path):
    shutil.copy(request.param, tmp_path / "runs.db")
    with Runtime(voyage.graph(), store=f"sqlite:///{tmp_path / 'runs.db'}") as opened:
        yield opened


def test_there_is_a_corpus() -> None:
    assert [path.stem for path in CORPUS] == ["form-1"]


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
