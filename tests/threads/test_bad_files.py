"""Unusable database files: read-only, missing folder, full, locked, a picture, a newer version, too large a value.

Each gives a typed error that describes the stored data and changes nothing; once the cause is gone, the next call
works.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from tests.testing.warm_python import warm_python

from graphrt import Runtime
from graphrt.errors import InputError, StoreError, UpdateError
from graphrt.stores import open_store

from .support import Fails, ask, line, note, refused


def graph():
    return line(("a", note("a")), ("q", ask("q")), ("b", note("b")))


def png():
    """A picture of one pixel."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def test_missing_folder_is_named(tmp_path):
    missing = tmp_path / "no" / "such"
    url = f"sqlite:///{missing}/runs.db"

    refused("store-unavailable", lambda: Runtime(graph(), store=url).run({"notes": []}), str(missing), error=StoreError)
    assert not missing.exists()
    missing.mkdir(parents=True)
    with Runtime(graph(), store=url) as runtime:
        assert runtime.run({"notes": []}, thread="t").status == "interrupted"


def test_folder_instead_of_a_file_is_refused(tmp_path):
    refused(
        "store-unavailable", lambda: Runtime(graph(), store=f"sqlite:///{tmp_path}").run({"notes": []}), str(tmp_path)
    )


@pytest.mark.parametrize(
    "content",
    [png(), b"not a database", b"SQLite format 3\x00" + b"\x07" * 500, b"\x00" * 4096],
    ids=["a picture", "text", "a broken header", "zeros"],
)
def test_file_that_is_not_a_database_is_left_unchanged(tmp_path, content):
    path = tmp_path / "runs.db"
    path.write_bytes(content)
    error = refused(
        "store-damaged",
        lambda: Runtime(graph(), store=f"sqlite:///{path}").run({"notes": []}),
        str(path),
        "Fix",
        error=StoreError,
    )

    assert len(str(error)) < 1_000
    assert path.read_bytes() == content


def test_database_of_another_application_is_left_unchanged(tmp_path):
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE thread(id TEXT)")
    before = path.read_bytes()

    refused(
        "store-damaged", lambda: Runtime(graph(), store=f"sqlite:///{path}").run({"notes": []}), "another application"
    )
    assert path.read_bytes() == before


def test_file_of_a_newer_version_is_left_unchanged(lite):
    runtime = lite.runtime(graph())
    runtime.run({"notes": []}, thread="t")
    lite.store.close()
    with closing(sqlite3.connect(lite.path)) as db, db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")

    def call():
        return Runtime(graph(), store=lite.url).state("t")

    refused("store-newer", call, "newer version of graphrt", "Upgrade graphrt", str(version + 1), error=StoreError)
    with closing(sqlite3.connect(lite.path)) as db, db:
        assert db.execute("PRAGMA user_version").fetchone() == (version + 1,)
        db.execute(f"PRAGMA user_version = {version}")
    assert call().values["notes"] == ["a"]


READ_ONLY = """
import os, sys
sys.path[:0] = sys.argv[2].split(os.pathsep)
from tests.threads.test_bad_files import graph
from graphrt import Runtime
from graphrt.errors import StoreError
warm = Runtime(graph(), store=sys.argv[1])  # what it imports is not for everybody to read
warm.state("t")
warm.run({"notes": []}, thread="warm")
try:
    warm.state("nobody")
except Exception as error:
    str(error)
warm.close()
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Runtime(graph(), store=sys.argv[1]).resume("t", "yes")
except StoreError as error:
    print(error.code)
    print(str(error))
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes somebody else")
def test_read_only_file_is_refused_and_works_once_it_is_writable(lite):
    """Another user owns it: nothing is changed."""
    lite.runtime(graph()).run({"notes": []}, thread="t")
    lite.store.close()
    lite.path.parent.chmod(0o755)
    lite.path.chmod(0o444)
    done = elsewhere(READ_ONLY, lite)

    code, *text = done.splitlines()
    assert code == "store-read-only", done
    assert str(lite.path) in " ".join(text)
    lite.store = open_store(lite.url)
    assert lite.runtime(graph()).resume("t", "yes").status == "completed"


def elsewhere(script, lite):
    """The output of *script* in another process, given the URL, the path of modules, and the folder."""
    modules = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    done = warm_python().run(["-c", script, lite.url, modules, str(lite.path.parent)], timeout_s=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_locked_file_is_reported_and_works_afterwards(lite):
    """Another process holds the lock for longer than our timeout."""
    store = open_store(f"{lite.url}?busy_timeout_s=0.2")
    runtime = lite.runtime(graph(), store=store)
    runtime.run({"notes": []}, thread="t")
    other = sqlite3.connect(lite.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        refused("store-busy", lambda: runtime.resume("t", "yes"), "Fix", error=StoreError)
    finally:
        other.execute("ROLLBACK")
        other.close()

    assert runtime.state("t").status == "interrupted"
    assert runtime.resume("t", "yes").state["notes"] == ["a", "q=yes", "b"]
    store.close()


FULL = """
import os, resource, sys
sys.path[:0] = sys.argv[2].split(os.pathsep)
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from graphrt import Runtime
from graphrt.errors import StoreError
from tests.threads.support import line, note
big = os.urandom(300_000).hex()
graph = line(("a", note("a")), ("b", lambda state: {"x": big}), ("c", note("c")))
runtime = Runtime(graph, store=sys.argv[1])
runtime.run({"notes": [], "x": None}, thread="before")
used = max(os.path.getsize(f"{sys.argv[3]}/{name}") for name in os.listdir(sys.argv[3]))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (used + 200_000, hard))
try:
    runtime.run({"notes": []}, thread="t")
except StoreError as error:
    print(error.code, "|", str(error).replace(chr(10), " "))
print(runtime.state("before").status)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
head = next(info for info in runtime.threads() if info.thread == "t")
print(head.status, head.owned)
print(runtime.retry("t").state["notes"])
runtime.replay("t")
"""


def test_full_disk_keeps_acknowledged_entries_and_the_thread_continues_afterwards(lite):
    lite.store.close()
    done = elsewhere(FULL, lite)

    told, before, stands, end = done.splitlines()
    assert told.split(" | ")[0] == "store-full", told
    assert before == "completed"
    assert stands.split()[0] in {"running", "failed"}
    assert end == "['a', 'c']"


def test_removed_file_is_not_written_blindly(lite):
    runtime = lite.runtime(graph())
    runtime.run({"notes": []}, thread="t")
    for path in lite.path.parent.iterdir():
        path.unlink()

    def call():
        runtime.resume("t", "yes")
        lite.runtime(graph(), store=open_store(lite.url)).state("t")

    with pytest.raises((StoreError, InputError)):
        call()


def test_failing_store_is_reported_along_with_the_failed_node(lite):
    """Both are reported: the node's error is raised, and the store's is a note on it or its cause."""
    store = open_store(f"{lite.url}?busy_timeout_s=0.1")
    other = sqlite3.connect(lite.path, isolation_level=None, check_same_thread=False)
    fails = Fails()

    def node(state):
        other.execute("BEGIN EXCLUSIVE")
        return fails(state)

    runtime = lite.runtime(line(("a", note("a")), ("f", node)), store=store)
    with pytest.raises(Exception) as caught:
        runtime.run({"notes": []}, thread="t")
    other.execute("ROLLBACK")
    fails.broken = False
    told = [str(caught.value), str(caught.value.__context__), *getattr(caught.value, "__notes__", [])]

    assert any("broken pipe" in text for text in told)
    assert any("locked" in text or "busy" in text for text in told), told
    fails_once = runtime.state("t")
    assert fails_once.values["notes"] == ["a"]
    other.close()
    store.close()


def test_value_of_300_mb_is_refused_unchanged(tmp_path):
    """It exceeds the limit of a store for one value: the error is raised at the node's boundary, and a smaller value
    passes.
    """
    size = [300_000_000]
    graph = line(("a", note("a")), ("b", lambda state: {"x": bytes(size[-1])}))
    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        words = ["x", "256 MiB", "'b'", "path or reference", "untracked", "split"]
        told = refused("not-storable", lambda: runtime.run({"notes": []}, thread="t"), *words, error=UpdateError)
        given = refused("not-storable", lambda: runtime.run({"x": bytes(size[-1])}, thread="u"), "path or reference")
        assert "register_type" not in f"{told}{given}"
        assert runtime.state("t").values["notes"] == ["a"]
        size.append(1_000_000)
        assert runtime.retry("t").state["x"] == bytes(1_000_000)
