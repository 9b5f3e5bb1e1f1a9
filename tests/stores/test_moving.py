"""A thread as one file: from any store to any other, byte for byte, and refused if any byte differs."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import stat

import pytest
from tests.stores import postgres_support
from tests.stores.kept import KEYS, LARGE, THREADS, fill, opened, runtime

from graphrt.errors import GraphrtError, InputError, StoreError
from graphrt.stores import EncryptedStore, MemoryStore, PostgresStore, SqliteStore
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.values import Commit, Record, StoredSnapshot

KINDS = [
    "memory",
    "sqlite",
    pytest.param("encrypted", marks=pytest.mark.needs("cryptography")),
    pytest.param("postgres", marks=pytest.mark.needs("psycopg")),
]


def made(kind, path, request):
    if kind != "postgres":
        return opened(kind, path)
    served = postgres_support.fresh(request.config)
    store = PostgresStore(next(served))
    request.addfinalizer(lambda: (store.close(), *served))
    return store


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.fixture
def sqlite(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        fill(store)
        yield store


def contents(store, thread):
    """The whole content of a thread, except data that belongs to its store."""
    found = store.load(thread)
    head = found.head._replace(thread="", epoch=0, owned=False)
    snapshots, saved = {}, found.snapshot
    while saved is not None:
        snapshots[saved.seq] = bytes(saved.body)
        saved = store.load(thread, upto=saved.seq - 1).snapshot
    records = [(seq, count, bytes(body), bytes(seal)) for seq, count, body, seal in store.records(thread)]
    staged = [(key, bytes(body)) for key, body in found.staged]
    return head, bytes(found.meta), snapshots, staged, records


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_threads_move_between_any_two_stores(source, target, tmp_path, folder, request):
    """Paused, pruned, failed, with large values and effects: the imported thread equals the exported one and continues
    like it.
    """
    with made(source, tmp_path / "a.db", request) as here, made(target, tmp_path / "b.db", request) as there:
        left = fill(here)
        for name in THREADS:
            here.export_thread(name, folder / name, decrypted=True)
            assert there.import_thread(folder / name) == name
            assert contents(there, name) == contents(here, name)

        assert there.verify().findings == ()
        arrived = runtime(there)
        assert [one.thread for one in arrived.threads()] == list(THREADS)
        for name in THREADS:
            before, after = left.state(name), arrived.state(name)
            assert (after.values, after.status, after.next, after.seq) == (
                before.values,
                before.status,
                before.next,
                before.seq,
            )
            assert arrived.replay(name).values == before.values
        assert arrived.resume("paused", "yes").state.log[-2:] == ["x" * 70_000, "yes"]
        assert arrived.run({}, thread="large").state.log.count(LARGE) == 2
        assert arrived.run({}, thread="pruned").status == "completed"
        assert there.verify().findings == ()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_record_that_spans_the_newest_snapshot_is_exported_once(kind, tmp_path):
    records = [Record(1, 1, b"a"), Record(4, 3, b"b"), Record(5, 1, b"c")]
    with opened(kind, tmp_path / "a.db") as store, MemoryStore() as there:
        claim = store.claim("t", create=True, lease_s=60, at=1.0)
        store.commit(claim, Commit(0, 1.0, records, snapshot=StoredSnapshot(2, b"s"), meta=b"{}", release=True))
        store.export_thread("t", file := io.BytesIO())
        there.import_thread(io.BytesIO(file.getvalue()))

        assert contents(there, "t") == contents(store, "t")
        assert list(there.records("t")) == records


def test_thread_can_be_imported_under_another_id(sqlite, folder):
    sqlite.export_thread("paused", folder / "paused.grt")

    assert sqlite.import_thread(folder / "paused.grt", thread="other") == "other"

    copied = runtime(sqlite)
    assert copied.resume("other", "yes").status == "completed"
    assert copied.state("paused").status == "interrupted"
    assert sqlite.verify().findings == ()


def test_existing_thread_is_not_replaced(sqlite, folder):
    sqlite.export_thread("done", folder / "done.grt")
    before = contents(sqlite, "done")

    with pytest.raises(InputError) as caught:
        sqlite.import_thread(folder / "done.grt")

    assert caught.value.code == "thread-exists"
    assert contents(sqlite, "done") == before


def test_existing_file_is_not_replaced(sqlite, folder):
    (folder / "mine.txt").write_text("mine")
    (folder / "link").symlink_to(folder / "nowhere")

    for path in (folder / "mine.txt", folder / "link", folder):
        with pytest.raises(InputError) as caught:
            sqlite.export_thread("done", path)
        assert caught.value.code == "path-exists"
    assert (folder / "mine.txt").read_text() == "mine"
    assert sorted(one.name for one in folder.iterdir()) == ["link", "mine.txt"]


def test_file_is_readable_by_its_owner_only_and_no_other_file_is_left(sqlite, folder):
    sqlite.export_thread("done", folder / "done.grt")

    assert [one.name for one in folder.iterdir()] == ["done.grt"]
    assert stat.S_IMODE((folder / "done.grt").stat().st_mode) == 0o600


@pytest.mark.parametrize("path", ["", "a\0b", 5, None])
def test_invalid_path_is_refused(sqlite, path):
    for call in (lambda: sqlite.export_thread("done", path), lambda: sqlite.import_thread(path)):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "bad-path"


def test_file_that_cannot_be_written_is_named_and_leaves_nothing(sqlite, folder, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left") as caught:
        sqlite.export_thread("done", folder / "done.grt")

    assert caught.value.code == "bad-path"
    assert "done.grt" in str(caught.value)
    assert list(folder.iterdir()) == []


def test_bytes_instead_of_a_path_are_not_shown(sqlite):
    with pytest.raises(InputError, match="not 300,000 bytes") as caught:
        sqlite.import_thread(b"x" * 300_000)
    assert caught.value.code == "bad-path"
    assert "io.BytesIO" in str(caught.value)


def test_folder_instead_of_a_file_is_refused(sqlite, folder):
    with pytest.raises(InputError, match="There is a folder") as caught:
        sqlite.export_thread("paused", folder)
    assert caught.value.code == "path-exists"
    with pytest.raises(InputError, match="cannot be opened: Is a directory") as caught:
        sqlite.import_thread(folder)
    assert caught.value.code == "bad-path"


def test_file_that_is_not_open_for_bytes_is_refused(sqlite, folder):
    (folder / "t").write_bytes(b"mine")
    with (folder / "t").open("rb") as read, (folder / "t").open("ab") as written:
        for call in (
            lambda: sqlite.export_thread("paused", io.StringIO()),
            lambda: sqlite.export_thread("paused", read),
            lambda: sqlite.import_thread(io.StringIO("text")),
            lambda: sqlite.import_thread(written),
        ):
            with pytest.raises(InputError, match="is not open for") as caught:
                call()
            assert caught.value.code == "bad-path"
    assert (folder / "t").read_bytes() == b"mine"


@pytest.mark.needs("cryptography")
def test_encrypted_thread_that_is_read_without_keys_names_the_reason(tmp_path, folder):
    """It is not damaged, and a file of it would lack its large values, whose names are encrypted."""
    with SqliteStore(tmp_path / "runs.db") as inner:
        fill(EncryptedStore(inner, KEYS))
        for call in (
            lambda: runtime(inner).state("paused"),
            lambda: inner.export_thread("paused", folder / "paused.grt"),
        ):
            with pytest.raises(StoreError, match="is encrypted, and it was opened without keys") as caught:
                call()
            assert caught.value.code == "missing-key"
        assert list(folder.iterdir()) == []
        assert "is encrypted" in inner.verify().findings[0].what


def test_missing_folder_or_file_is_named(sqlite, folder):
    for call in (
        lambda: sqlite.export_thread("done", folder / "no" / "done.grt"),
        lambda: sqlite.import_thread(folder / "no.grt"),
    ):
        with pytest.raises(InputError, match=r"there is no such file|its folder does not exist") as caught:
            call()
        assert caught.value.code == "bad-path"


def test_unknown_thread_leaves_no_file(sqlite, folder):
    with pytest.raises(InputError) as caught:
        sqlite.export_thread("nobody", folder / "nobody.grt")

    assert caught.value.code == "unknown-thread"
    assert list(folder.iterdir()) == []


def test_open_files_are_accepted(sqlite):
    file = io.BytesIO()
    sqlite.export_thread("large", file)

    with MemoryStore() as store:
        store.import_thread(io.BytesIO(file.getvalue()))
        assert contents(store, "large") == contents(sqlite, "large")


def test_asyncio_twins_behave_the_same(sqlite, folder):
    async def main():
        await sqlite.aexport_thread("done", folder / "done.grt")
        return await sqlite.aimport_thread(folder / "done.grt", thread="again")

    assert asyncio.run(main()) == "again"


@pytest.mark.needs("cryptography")
def test_encrypted_thread_is_exported_in_plain_text_only_on_request(tmp_path, folder):
    with EncryptedStore(SqliteStore(tmp_path / "runs.db"), KEYS) as store:
        fill(store)
        for decrypted in (False, None, "yes"):
            with pytest.raises(InputError) as caught:
                store.export_thread("done", folder / "done.grt", decrypted=decrypted)
            assert caught.value.code == "export-decrypted"
        assert list(folder.iterdir()) == []

        store.export_thread("done", folder / "done.grt", decrypted=True)
        assert b"wrote 0" in (folder / "done.grt").read_bytes()


def test_missing_large_value_is_reported_at_export(sqlite, folder):
    with sqlite._file.lock:
        sqlite._file.connection().execute("DELETE FROM part WHERE kind = 3")

    with pytest.raises(StoreError) as caught:
        sqlite.export_thread("large", folder / "large.grt")
    assert caught.value.code == "store-damaged"
    assert list(folder.iterdir()) == []


def test_change_of_any_byte_of_a_file_is_refused(sqlite):
    """Cut anywhere, or with any flipped bit: it is refused, and nothing is written."""
    file = io.BytesIO()
    sqlite.export_thread("failed", file)
    whole = file.getvalue()
    with MemoryStore() as store:
        changed = [bytes([*whole[:at], whole[at] ^ 1 << at % 8, *whole[at + 1 :]]) for at in range(len(whole))]
        cut = [whole[:end] for end in range(0, len(whole), 41)]
        for data in (*changed, *cut, whole + b"\n", b"", b"{}"):
            with pytest.raises(GraphrtError) as caught:
                store.import_thread(io.BytesIO(data), thread="t")
            assert caught.value.code == ("store-newer" if data[7:8] > whole[7:8] else "bad-archive")
            assert not store.query(ThreadFilter())
        store.import_thread(io.BytesIO(whole), thread="t")
        assert store.verify().ok


@pytest.mark.parametrize(("version", "code"), [(b"\x01", "store-older"), (b"\x03", "store-newer")])
def test_export_of_another_version_is_refused(sqlite, version, code):
    file = io.BytesIO()
    sqlite.export_thread("done", file)

    with MemoryStore() as store, pytest.raises(GraphrtError) as caught:
        store.import_thread(io.BytesIO(file.getvalue()[:7] + version + file.getvalue()[8:]))

    assert caught.value.code == code


def test_failed_import_leaves_nothing(sqlite, monkeypatch):
    file = io.BytesIO()
    sqlite.export_thread("pruned", file)
    with MemoryStore() as store:

        def fails(*_):
            raise StoreError("planted", code="store-unavailable")

        monkeypatch.setattr(MemoryStore, "prune", fails)
        with pytest.raises(StoreError):
            store.import_thread(io.BytesIO(file.getvalue()))
        assert not store.query(ThreadFilter())


def test_times_of_the_thread_are_preserved(sqlite, folder):
    sqlite.export_thread("done", folder / "done.grt")
    with MemoryStore() as store:
        store.import_thread(folder / "done.grt")
        here, there = sqlite.head("done"), store.head("done")

    assert (here.created_at, here.updated_at) == (there.created_at, there.updated_at)


def test_thread_imported_under_another_id_was_last_written_by_the_entry_that_names_it(folder):
    """Otherwise the list would name an earlier time than the journal, which verify() reports as damage."""
    now = 1_000.0
    with MemoryStore() as store:
        copies = runtime(store, clock=lambda: now)
        copies.update("paused", {"topic": "tea"})
        now += 60
        copies.update("paused", {"topic": "coffee"})
        copies.export_thread("paused", folder / "paused.grt")
        now += 60
        copies.import_thread(folder / "paused.grt", thread="other")
        head = store.head("other")

        assert (head.created_at, head.updated_at) == (1_000.0, 1_120.0)
        assert store.verify().findings == ()


def test_id_in_a_file_is_validated_like_any_other(sqlite):
    from graphrt.stores import _archive

    file = io.BytesIO()
    found = sqlite.load("done")
    writer = _archive.Writer(file)
    writer.head(found.head._replace(thread="../../etc/passwd"))
    for record in sqlite.records("done"):
        writer.record(record)
    writer.end()

    with MemoryStore() as store, pytest.raises(InputError) as caught:
        store.import_thread(io.BytesIO(file.getvalue()))
    assert caught.value.code == "bad-thread"


def test_file_that_claims_to_be_huge_allocates_nothing():
    from graphrt.stores import _archive

    data = _archive.MAGIC + _archive._FRAME.pack(_archive.META, 0, 0, 0, 2**31 - 1) + os.urandom(10)
    with MemoryStore() as store, pytest.raises(InputError, match="cut off"):
        store.import_thread(io.BytesIO(data))
