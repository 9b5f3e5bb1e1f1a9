"""The files of a folder of logs: who may write them, which changes they get, and who may read them."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.audit import documented
from tests.audit.support import KEY, ask, records_in, talk

from graphrt import Runtime
from graphrt.audit import AuditLog, TreeHead, _mirror, export, generate_key, report, verify
from graphrt.errors import AuditError, GraphrtError, StoreError


def runtime_of(tmp_path: Path, graph: Any = None, **options: Any) -> Runtime[Any]:
    audit = AuditLog(tmp_path / "logs", key=KEY, **options)
    return Runtime(graph or ask(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit)


def rights(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_next_verb_does_not_wait_until_heads_are_anchored(tmp_path: Path) -> None:
    """The first run has released its thread, and is still sending its head to another system."""
    sending, sent = threading.Event(), threading.Event()

    def send(_: TreeHead) -> None:
        if not sending.is_set():
            sending.set()
            assert sent.wait(20)

    with runtime_of(tmp_path, anchor=send) as runtime:
        first = threading.Thread(target=lambda: runtime.run({"notes": []}, thread="t"))
        first.start()
        try:
            assert sending.wait(20)
            status = runtime.resume("t", "yes").status
        finally:
            sent.set()
            first.join()

    assert status == "completed"
    assert [one["seq"] for one in records_in(tmp_path / "logs" / "t.jsonl")][-1] == 11


@pytest.mark.parametrize("free", [True, False])
def test_next_verb_waits_for_the_file_of_the_previous_run(
    tmp_path: Path, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with runtime_of(tmp_path) as runtime:
        runtime.run({"notes": []}, thread="t")
        path = tmp_path / "logs" / "t.jsonl"
        other = os.open(path, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX)
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if free:
                fcntl.flock(other, fcntl.LOCK_UN)

        monkeypatch.setattr(_mirror, "sleep", wait)
        times = iter(range(0, 1000, 4))
        monkeypatch.setattr(_mirror, "monotonic", lambda: float(next(times)))
        if free:
            assert runtime.resume("t", "yes").status == "completed"
        else:
            with pytest.raises(StoreError, match="still being written") as caught:
                runtime.resume("t", "yes")
            assert caught.value.code == "log-in-use"
            assert runtime.state("t").status == "interrupted"
        os.close(other)

    assert waits


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a file without a line": lambda path: path.write_bytes(b"-----BEGIN KEY-----"),
    "a file whose last line has no end": lambda path: path.write_bytes(b"-----BEGIN KEY-----\nx\n-----END KEY-----"),
    "bytes": lambda path: path.write_bytes(b"\xff\x00\n\xfe"),
    "a directory": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("linked", [False, True])
def test_file_that_is_not_a_log_of_the_thread_is_left_unchanged(tmp_path: Path, what: str, linked: bool) -> None:
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "t.jsonl"
    target = tmp_path / "target" if linked else path
    FOREIGN[what](target)
    if linked:
        path.symlink_to(target)
    before = target.read_bytes() if target.is_file() else b""
    with runtime_of(tmp_path) as runtime, pytest.raises((AuditError, StoreError)) as caught:
        runtime.run({"notes": []}, thread="t")

    assert caught.value.code == ("log-not-written" if what == "a directory" and not linked else "other-log")
    assert (target.read_bytes() if target.is_file() else b"") == before
    assert [one.name for one in (tmp_path / "logs").iterdir()] == ["t.jsonl"]


def test_refused_file_is_unlocked_while_the_error_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mirror, "WAIT_S", 0.1)
    with runtime_of(tmp_path) as runtime:
        runtime.run({"notes": []}, thread="t")
        other = Runtime(ask(), store="memory:", audit=AuditLog(tmp_path / "logs", key=KEY))
        with pytest.raises(AuditError) as caught:
            other.run({"notes": []}, thread="t")

        assert caught.value.code == "other-log"
        assert runtime.resume("t", "yes").status == "completed"


def test_dangling_link_creates_no_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "t.jsonl").symlink_to(tmp_path / "target")
    with runtime_of(tmp_path) as runtime, pytest.raises(AuditError, match="not the log") as caught:
        runtime.run({"notes": []}, thread="t")

    assert caught.value.known == "it is a symbolic link"
    assert not (tmp_path / "target").exists()


DAMAGE: list[Callable[[bytes], bytes]] = [
    lambda line: line[:20] + b"}" + line[20:],
    lambda _: b"7\n",
    lambda _: b"\xff\n",
    lambda line: line.replace(b'"seq":3', b'"seq":"3"'),
    lambda line: line.replace(b'"seal":"', b'"seal":"*'),
    lambda _: b'{"begin":{}}\n',
    lambda _: b"[" * 100_000 + b"\n",
]


@pytest.mark.parametrize("change", DAMAGE)
def test_damaged_line_is_an_error_with_a_code_and_changes_nothing(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    with runtime_of(tmp_path) as runtime:
        runtime.run({"notes": []}, thread="t")
    path = tmp_path / "logs" / "t.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(number for number, line in enumerate(lines) if b'"seq":3' in line)
    lines[number] = change(lines[number])
    path.write_bytes(b"".join(lines)[:-5])
    before = path.read_bytes()
    with runtime_of(tmp_path) as runtime:
        with pytest.raises(GraphrtError, match=f"Line {number + 1} of the log file") as caught:
            runtime.resume("t", "yes")
        assert caught.value.code == "log-damaged"
        assert path.read_bytes() == before
        path.rename(tmp_path / "damaged")

        assert runtime.resume("t", "yes").status == "completed"


def test_only_the_owner_may_read_files_with_values(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with runtime_of(tmp_path, talk(2), anchor=tmp_path / "anchors") as runtime:
            runtime.run({"notes": []}, thread="t")
            path = tmp_path / "logs" / "t.jsonl"
            path.write_bytes(path.read_bytes()[:-9])
            runtime.run({"notes": []}, thread="t")
            runtime.erase("note 0")
        export(f"sqlite:///{tmp_path}/runs.db", "t", tmp_path / "exported.jsonl")
    finally:
        os.umask(before)
    made = [one for one in tmp_path.rglob("*") if one.is_file() and one.suffix not in (".db", ".db-wal", ".db-shm")]

    assert {one.name.partition(".torn-")[0] for one in made} >= {"t.jsonl", "anchors", "exported.jsonl"}
    assert any(".torn-" in one.name for one in made)
    assert {one.name: oct(rights(one)) for one in made if rights(one) != 0o600} == {}
    assert rights(tmp_path / "logs") == 0o700


def deletions() -> dict[str, Callable[[Runtime[Any]], object]]:
    return {
        "delete_thread": lambda runtime: runtime.delete_thread("t"),
        "sweep": lambda runtime: runtime.sweep(older_than_s=0, status="interrupted"),
    }


@pytest.mark.parametrize("how", deletions())
def test_file_of_a_deleted_thread_is_ended_with_a_sealed_entry(tmp_path: Path, how: str) -> None:
    anchor, path = tmp_path / "anchors", tmp_path / "logs" / "t.jsonl"
    with runtime_of(tmp_path, anchor=anchor, user="anna") as runtime:
        runtime.run({"notes": []}, thread="t")
        deletions()[how](runtime)
        data = path.read_bytes()
        with pytest.raises(AuditError, match="belongs to a deleted thread") as caught:  # its anchored heads stay valid
            runtime.run({"notes": []}, thread="t")
        assert caught.value.code == "other-log"
        assert path.read_bytes() == data
        assert runtime.threads() == ()
    found = verify(data, key=KEY, anchor=anchor)

    assert (found.slug, found.anchored_seq, found.authenticated_seq) == ("sound", 6, 6)
    assert documented.agree(found, data, [KEY], anchor.read_bytes())
    assert "deletion" in report(data, "markdown", key=KEY)


def test_file_of_a_deleted_thread_is_removed_on_request(tmp_path: Path) -> None:
    with runtime_of(tmp_path, on_delete="remove") as runtime:
        runtime.run({"notes": []}, thread="t")
        (tmp_path / "logs" / "t.jsonl.torn-3").write_bytes(b"x")
        runtime.delete_thread("t")
        assert list((tmp_path / "logs").iterdir()) == []

        assert runtime.run({"notes": []}, thread="t").status == "interrupted"


def test_file_that_lacks_records_gets_them_before_its_thread_is_deleted(tmp_path: Path) -> None:
    anchor, path = tmp_path / "anchors", tmp_path / "logs" / "t.jsonl"
    with runtime_of(tmp_path, anchor=anchor) as runtime:
        runtime.run({"notes": []}, thread="t")
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:4]))
        runtime.delete_thread("t")
    found = verify(path, key=KEY, anchor=anchor)

    assert (found.slug, found.proved_seq) == ("sound", 6), found


def test_sweep_leaves_a_thread_whose_log_is_damaged_and_deletes_the_others(tmp_path: Path) -> None:
    with runtime_of(tmp_path, talk()) as runtime:
        for thread in ("a", "b", "c"):
            runtime.run({"notes": []}, thread=thread)
        (tmp_path / "logs" / "b.jsonl").write_bytes(b"{")
        with pytest.raises(AuditError) as caught:
            runtime.sweep(older_than_s=0)

        assert caught.value.code == "log-damaged"
        assert [info.thread for info in runtime.threads()] == ["b"]
        (tmp_path / "logs" / "b.jsonl").unlink()
        assert runtime.sweep(older_than_s=0) == 1


def test_thread_is_not_deleted_if_its_log_cannot_be_ended(tmp_path: Path) -> None:
    """Its last entry needs the key of the earlier entries."""
    url, logs = f"sqlite:///{tmp_path}/runs.db", tmp_path / "logs"
    with runtime_of(tmp_path) as runtime:
        runtime.run({"notes": []}, thread="t")
    other = generate_key()
    for audit in (AuditLog(logs), AuditLog(logs, key=other)):
        with Runtime(ask(), store=url, audit=audit) as runtime:
            with pytest.raises(GraphrtError) as caught:
                runtime.delete_thread("t")
            assert caught.value.code == "log-key-needed"
            assert runtime.state("t").status == "interrupted"
    with Runtime(ask(), store=url, audit=AuditLog(logs, key=other, older=[KEY])) as runtime:
        runtime.delete_thread("t")

    assert verify(logs / "t.jsonl", key=other, older=[KEY]).slug == "unanchored"


@pytest.mark.parametrize("closed", [True, False])
def test_values_are_erased_from_the_files_of_deleted_threads(tmp_path: Path, closed: bool) -> None:
    with runtime_of(tmp_path) as runtime:
        runtime.run({"notes": ["Anna was here"]}, thread="t")
        if closed:
            runtime.delete_thread("t")
        else:  # as if the process had ended right after the store
            assert runtime.store is not None
            runtime.store.delete("t")
        [path] = (tmp_path / "logs").iterdir()
        assert runtime.erase("Anna", dry_run=True).threads == ("t",)
        assert b"Anna" in path.read_bytes()
        done = runtime.erase("Anna", reason="a request")

        assert [one.what for one in done.left] == ["outside"]
        assert done.threads == ("t",)
        assert runtime.erase("Anna").threads == ()
    found = verify(path, key=KEY)
    assert b"Anna" not in path.read_bytes()
    assert {one.slug for one in found.findings} == {"redacted", "unanchored"}
    assert found.erased_lines == done.lines


@pytest.mark.parametrize("thread", ["a" + ":" * 199, "a" * 200])
def test_thread_with_a_long_id_has_its_own_file(tmp_path: Path, thread: str) -> None:
    with runtime_of(tmp_path) as runtime:
        for one in (thread, thread[:-1] + "b"):
            runtime.run({"notes": []}, thread=one)
        runtime.resume(thread, "yes")
        runtime.erase("said")
        names = [path.name for path in (tmp_path / "logs").iterdir()]

    assert len(names) == 2
    assert max(map(len, names)) <= 210
