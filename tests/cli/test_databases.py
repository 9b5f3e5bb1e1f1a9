"""Databases that are damaged, locked, newer or being written: a clear line, a code, and no new file."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TypedDict

import pytest

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.stores import Commit, SqliteStore


def test_missing_file_is_not_created(call, folder: Path) -> None:
    for words in (
        ["threads"],
        ["show", "flow.py:fan", "t"],
        ["doctor"],
        ["sweep", "--older-than", "1d"],
        ["backup", "c"],
    ):
        done = call(*words, "--store", "none.db")
        assert (done.code, done.document["error"]["code"]) == (2, "no-such-database")

    assert not (folder / "none.db").exists()


def test_store_can_come_from_the_environment(call, stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("threads").document["error"]["code"] == "no-such-database"
    monkeypatch.setenv("GRAPHRT_STORE", f"sqlite:///{stored}")
    assert len(call("threads").result["threads"]) == 2


@pytest.mark.parametrize(
    "words", [["threads"], ["show", "flow.py:fan", "done"], ["log", "flow.py:fan", "done"], ["doctor"]]
)
def test_truncated_file_is_reported_as_damaged(call, stored: str, folder: Path, words: list[str]) -> None:
    data = Path(stored).read_bytes()
    Path("cut.db").write_bytes(data[: len(data) // 2])

    done = call(*words, "--store", "cut.db")

    assert done.code == 3


def test_damage_in_the_middle_is_reported_by_doctor_and_show(call, stored: str) -> None:
    with closing(sqlite3.connect(stored)) as db, db:
        rows = db.execute("SELECT rowid, body FROM record ORDER BY rowid").fetchall()
        number, body = rows[-1]
        db.execute("UPDATE record SET body = ? WHERE rowid = ?", (body[:-9] + b"XXX" + body[-6:], number))

    doctor = call("doctor", "--store", stored)
    show = call("audit", "replay", "flow.py:fan", "done", "--store", stored)

    assert doctor.code == 3
    assert doctor.result["database"]["damaged"] == ["done"]
    assert (show.code, show.document["error"]["class"]) == (3, "StoreError")
    assert call("show", "flow.py:letters", "paused", "--store", stored).code == 0


def test_newer_database_is_left_unchanged(call, stored: str) -> None:
    with closing(sqlite3.connect(stored)) as db, db:
        db.execute("PRAGMA user_version = 99")
    before = Path(stored).read_bytes()

    done = call("threads", "--store", stored)

    assert (done.code, done.document["error"]["code"]) == (1, "store-newer")
    assert Path(stored).read_bytes() == before


def test_locked_database_is_reported_without_waiting_forever(call, stored: str) -> None:
    holder = sqlite3.connect(stored, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        done = call("run", "flow.py:fan", "--store", f"sqlite:///{stored}?busy_timeout_s=0.2", "--thread", "x")
    finally:
        holder.close()

    assert (done.code, done.document["error"]["code"]) == (1, "store-busy")


def test_thread_of_another_run_is_refused(call, stored: str) -> None:
    with SqliteStore(stored) as store:
        claim = store.claim("paused", create=False, lease_s=60, at=0.0)
        store.commit(claim, Commit(claim.head.seq, claim.head.updated_at))
        done = call("resume", "flow.py:letters", "paused", "--store", stored, "--answer", '{"do": "send"}')
        store.release(claim)

    assert (done.code, done.document["error"]["code"]) == (1, "conflict")


def test_database_that_is_being_written_is_read_consistently(call, stored: str) -> None:
    """Threads are added and deleted while doctor reads, which must not look like damage."""
    stop = threading.Event()

    class State(TypedDict, total=False):
        n: int

    g = GraphBuilder(State)
    g.add_node("a", lambda state: {"n": 1})
    g.add_sequence([START, "a", END])
    graph = g.compile()

    def write() -> None:
        with Runtime(graph, store=f"sqlite:///{stored}") as runtime:
            for n in count():
                if stop.is_set():
                    return
                runtime.run({}, thread=f"w{n}")
                runtime.delete_thread(f"w{n}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [call("doctor", "--store", stored) for _ in range(5)]
    finally:
        stop.set()
        writer.join()

    assert [one.code for one in found] == [0] * 5


def test_unknown_thread_is_reported_with_similar_ids(call, stored: str) -> None:
    for words in (["show", "flow.py:letters", "pause"], ["export", "flow.py:letters", "paussed", "file"]):
        done = call(*words, "--store", stored)

        assert (done.code, done.document["error"]["code"]) == (2, "unknown-thread")
        assert "threads with a similar id: 'paused'" in done.err
    assert "similar" not in call("show", "flow.py:letters", "other", "--store", stored).err
