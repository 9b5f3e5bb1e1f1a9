"""A SQLite file that this user may not write: all data can be read while no other process writes it, and nothing is
written.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from itertools import count

import pytest
import typing_extensions as te
from tests.stores.support import bodies, claimed, opened, refused

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.cli.app import main
from graphrt.errors import StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _journal_modes as modes

MODES = {"delete": modes.Pragmas("delete", "EXTRA"), "wal": modes.Pragmas("wal", "FULL")}
real_access = os.access


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture(params=["file", "folder"])
def locked(request, monkeypatch, path):
    """Revokes and restores write access. SQLite opens the file for reading while it is revoked."""
    what = path if request.param == "file" else path.parent
    now = [False]

    def access(asked, how):
        if now[0] and how == os.W_OK and os.fspath(asked) == os.fspath(what):
            return False
        return real_access(asked, how)

    monkeypatch.setattr(os, "access", access)
    return now


class State(te.TypedDict, total=False):
    said: str


def ask(state, ctx: Context):
    return {"said": ctx.interrupt("Publish?")}


def graph():
    g = GraphBuilder(State, name="asks")
    g.add_node("ask", ask)
    g.add_edge(START, "ask")
    g.add_edge("ask", END)
    return g.compile()


def beside(path):
    return sorted(one.name for one in path.parent.iterdir())


def filled(path, mode):
    with SqliteStore(path, _pragmas=MODES[mode]) as store, Runtime(graph(), store=store) as runtime:
        runtime.run({}, thread="t")


def test_all_data_can_be_read(path, mode, locked):
    filled(path, mode)
    before, names = path.read_bytes(), beside(path)
    locked[0] = True
    with Runtime(graph(), store=f"sqlite:///{path}") as runtime:
        snapshot = runtime.state("t")

        assert (snapshot.status, snapshot.next) == ("interrupted", ("ask",))
        assert [one.seq for one in runtime.history("t")] == [snapshot.seq, 1]
        assert len(list(runtime.entries("t"))) == snapshot.seq
        assert runtime.replay("t").status == "interrupted"
        assert [info.thread for info in runtime.threads(status="interrupted")] == ["t"]
        assert [verdict.ok for verdict in runtime.check_threads()] == [True]
        assert beside(path) == names
    assert path.read_bytes() == before
    assert beside(path) == names


def test_every_write_is_refused_and_changes_nothing(path, mode, locked):
    filled(path, mode)
    before, names = path.read_bytes(), beside(path)
    locked[0] = True
    with Runtime(graph(), store=f"sqlite:///{path}") as runtime:
        calls = {
            "run": lambda: runtime.run({}, thread="new"),
            "resume": lambda: runtime.resume("t", "yes"),
            "stream": lambda: list(runtime.stream(thread="t", answer="yes")),
            "update": lambda: runtime.update("t", {"said": "x"}),
            "fork": lambda: runtime.fork("t", to="f"),
            "copy": lambda: runtime.copy_thread("t", "c"),
            "prune": lambda: runtime.prune("t"),
            "delete": lambda: runtime.delete_thread("t"),
            "sweep": lambda: runtime.sweep(older_than_s=0, status="interrupted"),
        }
        for name, call in calls.items():
            with pytest.raises(StoreError) as caught:
                call()
            assert (name, caught.value.code) == (name, "store-read-only")
            assert "right to write" in caught.value.fix
        assert runtime.state("t").status == "interrupted"
    assert path.read_bytes() == before
    assert beside(path) == names


def test_file_is_written_as_soon_as_it_is_writable(path, mode, locked):
    filled(path, mode)
    locked[0] = True
    with Runtime(graph(), store=f"sqlite:///{path}") as runtime:
        assert runtime.state("t").status == "interrupted"
        locked[0] = False
        assert runtime.resume("t", "yes").status == "completed"
        assert runtime.state("t").values == {"said": "yes"}


def test_missing_file_is_refused(path, locked):
    path.touch()
    locked[0] = True
    assert refused(path).code == "store-read-only"
    assert path.read_bytes() == b""


def test_foreign_file_is_reported_as_usual(path, locked):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE theirs(x)")
    locked[0] = True
    assert refused(path).code == "store-damaged"
    path.write_bytes(b"hello, this is text\n" * 50)
    assert refused(path).code == "store-damaged"


def test_writes_of_others_are_seen_when_they_have_closed_the_file(path, mode, locked):
    """While they have it open, a read without locks is not safe; with a rollback journal, only while they write."""
    filled(path, mode)
    locked[0] = True
    with opened(path) as reader:
        assert [head.thread for head in reader.query(ThreadFilter())] == ["t"]
        locked[0] = False
        with opened(path, _pragmas=MODES[mode]) as writer:
            locked[0] = True
            claimed(writer, "u", entries=2)
            db = writer._file.connection()
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE thread SET updated_at = 0")
            for store in (lambda: reader, lambda: SqliteStore(path)):
                with pytest.raises(StoreError, match="another process has it open") as caught:
                    store().query(ThreadFilter())
                assert caught.value.code == "store-read-only"
                assert "store.backup()" in caught.value.fix
            db.execute("ROLLBACK")
        assert bodies(reader, "u") == [b"1", b"2"]


def test_log_of_a_killed_process_is_not_ignored_silently(path, tmp_path, locked):
    """The commits in it could only be read by writing."""
    with SqliteStore(path, _pragmas=MODES["wal"]) as writer:
        claimed(writer, "u")
        copies = tmp_path / "copies"
        copies.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", copies)
    for ending in ("", "-wal"):
        shutil.copy(copies / f"runs.db{ending}", tmp_path)
    locked[0] = True

    error = refused(path)
    assert "runs.db-wal" in str(error)
    locked[0] = False
    with SqliteStore(path) as store:
        assert bodies(store, "u") == [b"1"]


def test_read_is_repeated_if_the_file_changed_during_it(path, mode, locked):
    filled(path, mode)
    locked[0] = True
    with SqliteStore(path) as reader:
        reader.query(ThreadFilter())
        counts = []

        def work(db):
            found = db.execute("SELECT count(*) FROM thread").fetchall()[0][0]
            if not counts:
                locked[0] = False
                with SqliteStore(path, _pragmas=MODES[mode]) as writer:
                    claimed(writer, "u")
                locked[0] = True
            counts.append(found)
            return found

        assert reader._file.read(work) == 2
        assert counts[-1] == 2


def test_constantly_written_file_does_not_block_reads_forever(path, locked):
    filled(path, "delete")
    locked[0] = True
    with SqliteStore(path) as reader:
        reader.query(ThreadFilter())
        ns = count(1)

        def work(db):
            os.utime(path, ns=(0, next(ns)))

        with pytest.raises(StoreError, match="keeps writing it"):
            reader._file.read(work)


APP = """
import typing_extensions as te
from graphrt import START, GraphBuilder

class State(te.TypedDict, total=False):
    said: str

graph = GraphBuilder(State, name="says").add_node("say", lambda state: {"said": "hello"}).add_edge(START, "say").compile()
"""


def test_commands_read_a_backup_on_read_only_media(path, tmp_path, capsys):
    """A file system that is mounted read-only, which even root cannot write."""
    app, media = tmp_path / "app.py", tmp_path / "media"
    app.write_text(APP)
    media.mkdir()

    def command(*words):
        code = main([*map(str, words)])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    target, database, copy = f"{app}:graph", ("--store", path), ("--store", media / "copy.db")
    assert command("run", target, "--thread", "t", *database)[0] == 0
    with SqliteStore(path) as store:
        store.backup(media / "copy.db")
    for options in (["--bind", media, media], ["-o", "remount,ro,bind", media]):
        if subprocess.run(["mount", *options], check=False, capture_output=True).returncode:
            pytest.skip("this user cannot mount a file system")
    try:
        for words in (
            ["show", target, "t", *copy],
            ["log", target, "t", *copy],
            ["why", target, "t", "said", *copy],
            ["doctor", *copy, "--replay", target],
        ):
            assert command(*words)[0] == 0, command(*words)
        code, text = command("run", target, "--thread", "u", *copy)
        assert code != 0
        assert "read-only for this user" in text
        assert [one.name for one in media.iterdir()] == ["copy.db"]
    finally:
        subprocess.run(["umount", media], check=True)


def test_name_that_is_not_a_plain_uri_is_opened(tmp_path, monkeypatch):
    path = tmp_path / "50% ?x=1#y.db"
    filled(path, "delete")
    monkeypatch.setattr(os, "access", lambda asked, how: how != os.W_OK and real_access(asked, how))
    with opened(path) as store:
        assert [head.thread for head in store.query(ThreadFilter())] == ["t"]
