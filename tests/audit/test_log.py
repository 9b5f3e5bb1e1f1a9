"""`AuditLog`: records with MACs in the store, files beside it, heads and anchors, and the failures that stop a run."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.audit.support import KEY, OTHER, ask, lines_in, records_in, seal_of, talk

from graphrt import Runtime
from graphrt._journal.log_keys import KeyRing, kid_of
from graphrt._journal.merkle import root_of
from graphrt._journal.seal import leaf_in
from graphrt.audit import AuditLog, TreeHead, _mirror, export, generate_key, head, heads_in, offline
from graphrt.errors import AuditError, InputError, StoreError
from graphrt.stores import MemoryStore, SqliteStore


def database(folder: Path) -> str:
    return f"sqlite:///{folder}/runs.db"


def file_of(audit: AuditLog, thread: str = "t") -> Path:
    path = audit.path(thread)
    assert path is not None
    return path


def test_every_record_has_a_mac_and_the_file_has_every_record(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "logs", key=KEY)
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        assert runtime.run({"notes": []}, thread="t").status == "interrupted"
        assert runtime.resume("t", "yes").status == "completed"
        runtime.update("t", {"notes": ["edited"]})
        fork = runtime.fork("t", at=3, to="f")
    with SqliteStore(tmp_path / "runs.db") as store:
        for thread in ("t", fork):
            stored = list(store.records(thread))
            kept = records_in(file_of(audit, thread))
            assert [(one["seq"], one["count"], seal_of(one)) for one in kept] == [
                (one.seq, one.count, one.seal) for one in stored
            ]
            assert ["\n".join(one["lines"]).encode() for one in kept] == [
                one.body.rpartition(b"\n")[0] for one in stored
            ]
            assert {seal_of(one)[2:10] for one in kept} == {kid_of(KEY)}


def test_heads_are_written_when_a_run_pauses_or_ends_and_are_kept_in_the_anchor(tmp_path: Path) -> None:
    got: list[TreeHead] = []
    anchor = tmp_path / "anchors.jsonl"
    audit = AuditLog(tmp_path / "logs", key=KEY, anchor=[anchor, got.append])
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
        assert [one.seq for one in got] == [5]
        runtime.resume("t", "yes")
    leaves = [leaf_in(seal_of(one)) for one in records_in(file_of(audit))]

    assert (
        heads_in(anchor)
        == got
        == [TreeHead.from_dict(one["head"]) for one in lines_in(file_of(audit)) if "head" in one]
    )
    assert [one.root for one in got] == [root_of(leaves[: one.size]) for one in got]
    assert got[-1].size == len(leaves)
    assert head(database(tmp_path), "t", key=KEY)._replace(at=0) == got[-1]._replace(at=0)
    assert export(database(tmp_path), "t", tmp_path / "out.jsonl", key=KEY).root == got[-1].root


def test_export_equals_the_file_next_to_the_store(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "logs", key=KEY)
    with Runtime(talk(3), store=database(tmp_path), audit=audit) as runtime:
        runtime.run({"notes": ["x" * 100_000]}, thread="t")
    export(database(tmp_path), "t", tmp_path / "out.jsonl", key=KEY)
    beside, exported = lines_in(file_of(audit)), lines_in(tmp_path / "out.jsonl")

    assert [one for one in beside if "head" not in one] == [one for one in exported if "head" not in one]
    assert any("blob" in one for one in exported)
    assert not list(tmp_path.glob("*.part"))


def test_user_is_recorded_with_every_start_resume_and_edit(tmp_path: Path) -> None:
    with Runtime(ask(), store=database(tmp_path), audit=AuditLog(user="anna")) as runtime:
        runtime.run({"notes": []}, thread="t")
    with Runtime(ask(), store=database(tmp_path), audit=AuditLog(user="bert")) as runtime:
        runtime.resume("t", "yes")
    with Runtime(ask(), store=database(tmp_path), audit=AuditLog(user="cleo")) as runtime:
        runtime.update("t", {"answer": "no"})
        told: list[Any] = [entry.event for entry in runtime.entries("t")]

        assert "by cleo" in str(runtime.why("t", "answer"))
    assert [one.user for one in told if hasattr(one, "user")] == ["anna", "bert", "cleo"]


def test_thread_is_in_memory_and_the_log_in_the_folder_without_a_store(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path, key=KEY)
    result = talk(2).run({"notes": []}, audit=audit)

    assert result.thread
    assert len(records_in(file_of(audit, result.thread))) == 3


def test_store_of_the_log_is_the_store_of_the_runtime(tmp_path: Path) -> None:
    audit = AuditLog(database(tmp_path), key=KEY)
    with Runtime(talk(), audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
    assert head(database(tmp_path), "t").size == 2
    with pytest.raises(InputError, match="share a store"):
        Runtime(talk(), store=MemoryStore(), audit=audit)


def test_thread_with_a_key_cannot_be_driven_without_it(tmp_path: Path) -> None:
    with Runtime(ask(), store=database(tmp_path), audit=AuditLog(key=KEY)) as runtime:
        runtime.run({"notes": []}, thread="t")
        before = list(runtime.entries("t"))
    for audit in (None, AuditLog(), AuditLog(key=OTHER)):
        with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
            for verb in (
                lambda it: it.resume("t", "yes"),
                lambda it: it.update("t", {"answer": "no"}),
                lambda it: it.cancel("t"),
                lambda it: it.run({"notes": []}, thread="t", if_exists="abandon"),
            ):
                with pytest.raises(InputError) as caught:
                    verb(runtime)
                assert caught.value.code == "log-key-needed"
            assert list(runtime.entries("t")) == before
            assert runtime.state("t").status == "interrupted"


def test_key_can_be_rotated_while_the_old_one_stays_configured(tmp_path: Path) -> None:
    for key, older, answer in ((KEY, [], None), (OTHER, [KEY], "yes")):
        audit = AuditLog(tmp_path / "logs", key=key, older=older)
        with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
            runtime.resume("t", answer) if answer else runtime.run({"notes": []}, thread="t")
            runtime.state("t")
    kids = [seal_of(one)[2:10] for one in records_in(file_of(audit))]

    assert sorted(set(kids), key=kids.index) == [kid_of(KEY), kid_of(OTHER)]
    assert [seal_of(one)[1] for one in records_in(file_of(audit))].count(2) == 1


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (b"", "too short"),
        (b"change-me", "too short"),
        (b"k" * 64, "not random"),
        ("x" * 32, "must be bytes"),
        (offline._SAMPLES[0], "a sample from documentation"),
        (offline._SAMPLES[1], "a sample from documentation"),
        (bytes([1, 2] * 20), "not random"),
    ],
)
def test_weak_key_is_refused(key: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        AuditLog(key=key)
    assert caught.value.code == "weak-key"
    with pytest.raises(InputError):
        AuditLog(key=KEY, older=[key])


def test_generated_keys_are_accepted_and_shown_nowhere() -> None:
    key = generate_key()
    text = repr(AuditLog("logs", key=key)) + repr(KeyRing(key).of("t"))

    assert len(key) == 32
    assert key != generate_key()
    assert key.hex() not in text
    assert repr(key)[2:-1] not in text


def test_invalid_arguments_are_refused() -> None:
    for wrong in ({"place": 3}, {"anchor": 3}, {"on_failure": "wait"}):
        with pytest.raises(InputError) as caught:
            AuditLog(**wrong)  # type: ignore[arg-type]
        assert caught.value.code == "input"
    for options in ({"audit": "logs"}, {"audit": AuditLog(), "chain": False}):
        with pytest.raises(InputError) as caught:
            Runtime(talk(), **options)
        assert caught.value.code == "input"


def test_thread_without_a_chain_is_not_audited(tmp_path: Path) -> None:
    with Runtime(ask(), store=database(tmp_path), chain=False) as runtime:
        runtime.run({"notes": []}, thread="t")
    with Runtime(ask(), store=database(tmp_path), audit=AuditLog()) as runtime:
        with pytest.raises(InputError, match="no hash chain") as caught:
            runtime.resume("t", "yes")
        assert caught.value.code == "not-chained"
    with pytest.raises(InputError):
        export(database(tmp_path), "t", tmp_path / "x.jsonl")
    assert not (tmp_path / "x.jsonl").exists()


class Disk:
    """A disk that is full from some write on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write = os.write
        monkeypatch.setattr("graphrt.audit._mirror.os.write", self.write)

    def write(self, file: int, data: Any) -> int:
        if self.full:
            self._write(file, bytes(data)[:7])  # part of it
            raise OSError(28, "No space left on device")
        return self._write(file, data)


def test_run_stops_at_the_step_that_cannot_be_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, ran = Disk(monkeypatch), list[str]()
    audit = AuditLog(tmp_path / "logs", key=KEY)
    graph = talk(3).with_nodes(
        {
            name: lambda _, name=name: ran.append(name) or setattr(disk, "full", name == "say1") or {}
            for name in ("say0", "say1", "say2")
        }
    )
    with Runtime(graph, store=database(tmp_path), audit=audit) as runtime:
        with pytest.raises(StoreError) as caught:
            runtime.run({"notes": []}, thread="t")
        assert caught.value.code == "log-not-written"
        assert ran == ["say0", "say1"]
        disk.full = False
        assert runtime.retry("t").status == "completed"
    with SqliteStore(tmp_path / "runs.db") as store:
        stored = [one.seal for one in store.records("t")]

    assert ran == ["say0", "say1", "say2"]
    assert [seal_of(one) for one in records_in(file_of(audit))] == stored


def test_run_that_may_continue_records_the_missing_entries_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    audit = AuditLog(tmp_path / "logs", key=KEY, on_failure="continue")
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
        disk.full = True
        with pytest.warns(UserWarning, match="cannot be written"):
            assert runtime.resume("t", "yes").status == "completed"
        disk.full = False
        runtime.update("t", {"notes": ["later"]})
    with SqliteStore(tmp_path / "runs.db") as store:
        assert [seal_of(one) for one in records_in(file_of(audit))] == [one.seal for one in store.records("t")]


@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_failing_anchor_is_a_failure_of_the_log(tmp_path: Path, on_failure: Any) -> None:
    def refuse(_: TreeHead) -> None:
        raise ConnectionError("nobody is there")

    audit = AuditLog(tmp_path / "logs", key=KEY, anchor=refuse, on_failure=on_failure)
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        if on_failure == "stop":
            with pytest.raises(StoreError, match="nobody is there") as caught:
                runtime.run({"notes": []}, thread="t")
            assert caught.value.code == "log-not-written"
        else:
            with pytest.warns(UserWarning, match="nobody is there"):
                assert runtime.run({"notes": []}, thread="t").status == "interrupted"
    # The file has all records anyway.
    assert [one["seq"] for one in records_in(file_of(audit))] == [1, 3, 5]


def test_anchor_that_is_another_file_is_refused_before_anything_is_appended(tmp_path: Path) -> None:
    module = tmp_path / "flow.py"
    module.write_text("import graphrt\n")
    with pytest.raises(InputError) as raised:
        AuditLog(tmp_path / "logs", key=KEY, anchor=module)

    assert (raised.value.code, module.read_text()) == ("path-exists", "import graphrt\n")


def test_anchor_file_with_other_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "anchors").write_text('{"head":{}}\n')
    with pytest.raises(InputError, match="Line 1") as caught:
        heads_in(tmp_path / "anchors")
    assert caught.value.code == "input"


@pytest.mark.parametrize("deep", ['{"head":' + "[" * 100_000, '{"head":"\\ud800"}'])
def test_hostile_anchor_file_is_refused(tmp_path: Path, deep: str) -> None:
    (tmp_path / "anchors").write_text(f"{deep}\n")
    with pytest.raises(InputError, match="Line 1"):
        heads_in(tmp_path / "anchors")


def test_invalid_path_is_refused(tmp_path: Path) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: AuditLog("a\0b"),
        lambda: AuditLog(anchor=["a", "a\0b"]),
        lambda: heads_in("a\0b"),
        lambda: export(f"sqlite:///{tmp_path}/runs.db", "t", "a\0b"),
    ]
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "bad-path"
    assert offline.verify("a\0b").slug == "unreadable"


def test_line_that_a_crash_left_unfinished_is_truncated_and_reported(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "logs", key=KEY)
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
    path = file_of(audit)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])  # in the head
    lines = whole.splitlines(keepends=True)
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        runtime.resume("t", "yes")
    with SqliteStore(tmp_path / "runs.db") as store:
        assert [seal_of(one) for one in records_in(path)] == [one.seal for one in store.records("t")]
    recovered = [one["recovered"]["bytes"] for one in lines_in(path) if "recovered" in one]
    assert recovered == [len(lines[-1]) - 40]
    [torn] = path.parent.glob("*.torn-*")
    assert torn.read_bytes() == lines[-1][:-40]


def test_file_of_another_thread_or_store_is_not_continued(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "logs", key=KEY)
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
        runtime.run({"notes": ["other"]}, thread="u")
    kept = {one: file_of(audit, one).read_bytes() for one in "tu"}
    file_of(audit, "t").write_bytes(kept["u"])
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime, pytest.raises(AuditError) as caught:
        runtime.resume("t", "yes")
    assert caught.value.code == "other-log"
    assert file_of(audit, "t").read_bytes() == kept["u"]
    # The same thread in another store: a database that was restored from a backup, or recreated.
    file_of(audit, "t").write_bytes(kept["t"])
    with Runtime(ask(), store=f"sqlite:///{tmp_path}/new.db", audit=audit) as runtime:
        with pytest.raises(AuditError, match="is not the log of thread 't' in this store"):
            runtime.run({"notes": []}, thread="t")
        assert not runtime.threads()
    assert file_of(audit, "t").read_bytes() == kept["t"]


def test_two_writers_of_one_file_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mirror, "WAIT_S", 0.0)
    audit = AuditLog(tmp_path / "logs", key=KEY)
    inside, go = threading.Event(), threading.Event()

    def wait(_: Any) -> Any:
        inside.set()
        assert go.wait(20)
        return {}

    graph = talk().with_nodes({"say0": wait})
    with (
        Runtime(graph, store=f"sqlite:///{tmp_path}/a.db", audit=audit) as first,
        Runtime(talk(), store=f"sqlite:///{tmp_path}/b.db", audit=audit) as second,
    ):
        thread = threading.Thread(target=lambda: first.run({"notes": []}, thread="t"))
        thread.start()
        try:
            assert inside.wait(20)
            with pytest.raises(StoreError) as caught:
                second.run({"notes": []}, thread="t")
            assert caught.value.code == "log-in-use"
        finally:
            go.set()
            thread.join()
    assert len(records_in(file_of(audit))) == 2


def test_every_action_is_logged(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "logs", key=KEY)
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
        runtime.resume("t", "yes")
    with SqliteStore(tmp_path / "runs.db") as store:
        assert [seal_of(one) for one in records_in(file_of(audit))] == [one.seal for one in store.records("t")]
    assert [one["head"]["seq"] for one in lines_in(file_of(audit)) if "head" in one][-1] == 11


def test_pruned_thread_continues_in_its_file_and_starts_a_new_one_at_the_prune(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "logs", key=KEY)
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
        runtime.resume("t", "yes")
        whole = len(records_in(file_of(audit)))
        runtime.prune("t")
        runtime.run({"notes": []}, thread="t")
    assert len(records_in(file_of(audit))) > whole
    exported = export(database(tmp_path), "t", tmp_path / "out.jsonl", key=KEY)
    begin = next(one["begin"] for one in lines_in(tmp_path / "out.jsonl") if "begin" in one)
    assert records_in(tmp_path / "out.jsonl")[0]["seq"] > begin["seq"]
    # Pruning removes records, but neither the tree nor its size.
    leaves = [leaf_in(seal_of(one)) for one in records_in(file_of(audit))]
    assert (exported.size, exported.root) == (len(leaves), root_of(leaves))


def test_forged_record_in_the_store_stops_a_run(tmp_path: Path) -> None:
    audit = AuditLog(key=KEY)
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as db:
        [(key, seal)] = db.execute("SELECT key, seal FROM record ORDER BY key LIMIT 1 OFFSET 1").fetchall()
        db.execute("UPDATE record SET seal = ? WHERE key = ?", (seal[:74] + bytes(32) + seal[106:], key))
    with Runtime(ask(), store=database(tmp_path), audit=audit) as runtime, pytest.raises(StoreError, match="MAC"):
        runtime.resume("t", "yes")
