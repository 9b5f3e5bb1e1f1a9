"""After an erasure the log still proves the rest, in the store, in its file, and in earlier proofs."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.audit import documented
from tests.audit.small_logs import with_gone
from tests.audit.support import KEY, State, ask, lines_in, records_in, seal_of
from tests.forked import Forked
from tests.threads.erasable import OTHER, PERSON, files_with, graph

from graphrt import START, Context, GraphBuilder, Runtime
from graphrt._journal.batch_format import closed
from graphrt._journal.body import ERASED_LINE
from graphrt._journal.seal import erased
from graphrt.audit import (
    AuditLog,
    check_consistency,
    check_inclusion,
    consistency_proof,
    export,
    heads_in,
    inclusion_proof,
    verify,
)
from graphrt.errors import InputError
from graphrt.stores import SqliteStore


def audited(folder: Path, *, mirror: bool = True, store: Any = None) -> Runtime[Any]:
    log = AuditLog(folder / "logs" if mirror else None, key=KEY, user="me", anchor=folder / "heads")
    return Runtime(graph(), store=store or f"sqlite:///{folder}/runs.db", audit=log)


def asking(folder: Path, graph: Any = None) -> Runtime[Any]:
    log = AuditLog(folder / "logs", key=KEY, anchor=folder / "heads")
    return Runtime(graph or ask(), store=f"sqlite:///{folder}/runs.db", audit=log)


def log_of(folder: Path, thread: str = "t") -> Path:
    return folder / "logs" / f"{thread}.jsonl"


def seals(folder: Path) -> list[bytes]:
    with SqliteStore(folder / "runs.db") as store:
        return [one.seal for one in store.records("t")]


def test_verdict_is_redacted_and_the_file_is_rewritten(tmp_path: Path) -> None:
    with audited(tmp_path) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        before = log_of(tmp_path).read_bytes()
        old_proof = inclusion_proof(before, 4)
        old_head = heads_in(tmp_path / "heads")[0]
        assert verify(before, key=KEY, anchor=tmp_path / "heads").slug == "sound"
        report = runtime.erase(PERSON, reason="a request")

        assert [one.what for one in report.left] == ["outside"]
        assert files_with(tmp_path) == []
        data, anchor = log_of(tmp_path).read_bytes(), (tmp_path / "heads").read_bytes()
        found = verify(data, key=KEY, anchor=anchor)
        assert (found.verdict, found.slug, found.erased_values) == ("sound", "redacted", report.lines)
        assert found.erased_lines == report.lines + 2  # and checksums of a field and of the input
        assert documented.agree(found, data, [KEY], anchor)
        assert [seal_of(one) for one in records_in(log_of(tmp_path))] == seals(tmp_path)
        assert log_of(tmp_path).stat().st_mode & 0o777 == 0o600

        # Lines that were taken out of the log before are still proved.
        assert check_inclusion(old_proof, anchor=anchor).slug == "sound"
        newer = consistency_proof(data, old_head.to_dict())
        assert check_consistency(newer, key=KEY).exit_code == 0
        assert check_inclusion(inclusion_proof(data, 4), key=KEY).slug == "withheld"

        # The file is still a prefix of the store's log.
        runtime.update("t", {"name": "new"})
        data, anchor = log_of(tmp_path).read_bytes(), (tmp_path / "heads").read_bytes()
        assert verify(data, key=KEY, anchor=anchor).slug == "redacted"
        export(f"sqlite:///{tmp_path}/runs.db", "t", tmp_path / "out", key=KEY)
        assert verify(tmp_path / "out", key=KEY, anchor=anchor).slug == "redacted"


def withhold(path: Path, seq: int) -> None:
    """Replace the first value of a record like an erasure does, without a key; *path* is a log or a database."""
    if path.suffix != ".db":
        lines = path.read_bytes().splitlines(keepends=True)
        at = next(
            at for at, line in enumerate(lines) if line.startswith(b'{"count"') and json.loads(line)["seq"] == seq
        )
        path.write_bytes(b"".join(with_gone(lines, at, [1])))
        return
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for key, body, seal in db.execute("SELECT key, body, seal FROM record").fetchall():
            lines = body.split(b"\n")[:-1]
            if len(lines) > 1 and b"said" in lines[1]:
                db.execute(
                    "UPDATE record SET body = ?, seal = ? WHERE key = ?",
                    (closed([lines[0], ERASED_LINE, *lines[2:]]), erased(seal, lines, [1]), key),
                )
                return
    raise AssertionError("there is no such record")


@pytest.mark.parametrize("lawful", [False, True], ids=["never erased", "after an erasure"])
def test_value_that_is_withheld_without_an_erasure_is_detected(tmp_path: Path, lawful: bool) -> None:
    """An attacker with write access to the file or the database can withhold a value without the key: its commitment
    stays.
    """
    with asking(tmp_path) as runtime:
        runtime.run({"notes": [PERSON]}, thread="t")
        runtime.resume("t", "yes")
        if lawful:
            assert runtime.erase(PERSON).lines == 1
        assert runtime.verify().findings == ()
        withhold(log_of(tmp_path), 3)
        withhold(tmp_path / "runs.db", 3)
        [finding] = runtime.verify().findings
    data, anchor = log_of(tmp_path).read_bytes(), (tmp_path / "heads").read_bytes()
    report = verify(data, key=KEY, anchor=anchor)

    assert (finding.code, finding.seq) == ("withheld", 3)
    assert (report.verdict, report.slug, report.exit_code) == ("withheld", "withheld", 3)
    assert report.withheld_lines == 1
    assert (report.erased_lines > 1) == lawful
    assert report.first is not None
    assert (report.first.record, report.first.seq) == (2, 3)
    assert documented.agree(report, data, [KEY], anchor)


def test_omitted_large_value_is_withheld(tmp_path: Path) -> None:
    with asking(tmp_path) as runtime:
        runtime.run({"notes": ["x" * 80_000]}, thread="t")
    data, anchor = log_of(tmp_path).read_bytes(), (tmp_path / "heads").read_bytes()
    assert verify(data, key=KEY, anchor=anchor).slug == "sound"
    without = b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(b'{"blob"'))
    report = verify(without, key=KEY, anchor=anchor)

    assert (report.slug, report.absent_blobs) == ("withheld", 1)
    assert documented.agree(report, without, [KEY], anchor)


def test_unerased_large_values_stay_in_the_file(tmp_path: Path) -> None:
    with asking(tmp_path) as runtime:
        runtime.run({"notes": ["x" * 80_000, f"{PERSON} {'y' * 80_000}"]}, thread="t")
        runtime.resume("t", "yes")
        runtime.update("t", {"notes": ["z" * 80_000]})
        runtime.erase(PERSON)
    report = verify(log_of(tmp_path), key=KEY, anchor=tmp_path / "heads")

    assert (report.slug, report.absent_blobs) == ("redacted", 0)
    assert len([one for one in lines_in(log_of(tmp_path)) if "blob" in one]) == 1
    assert files_with(tmp_path) == []


def test_values_outside_the_records_of_the_file_are_erased(tmp_path: Path) -> None:
    """Staged values at a pause, and the state with which a log starts after a prune."""

    def asks(_: State, ctx: Context) -> Any:
        return {"answer": ctx.interrupt("May I?")}

    g: Any = GraphBuilder(State, name="two")
    g.add_node("says", lambda _: {"notes": [f"{PERSON} came"]})
    g.add_node("asks", asks)
    g.add_edge(START, "says").add_edge(START, "asks")
    with asking(tmp_path, g.compile()) as runtime:
        runtime.run({}, thread="t")
        assert any("staged" in line for line in lines_in(log_of(tmp_path)))
        runtime.resume("t", "yes")
        runtime.erase(PERSON)
        assert files_with(tmp_path) == []
        assert verify(log_of(tmp_path), key=KEY, anchor=tmp_path / "heads").slug == "redacted"

        runtime.run({"notes": [PERSON]}, thread="u")
        runtime.resume("u", "yes")
        runtime.prune("u")
        log_of(tmp_path, "u").unlink()
        runtime.update("u", {"answer": "no"})
        assert PERSON in str(next(line for line in lines_in(log_of(tmp_path, "u")) if "begin" in line))
        runtime.erase(PERSON)
        assert files_with(tmp_path) == []
        report = verify(log_of(tmp_path, "u"), key=KEY, anchor=tmp_path / "heads")
        assert report.slug in ("sound", "redacted"), report
        assert runtime.verify(replay=True).findings == ()


def test_change_after_an_erasure_is_still_detected(tmp_path: Path) -> None:
    with audited(tmp_path) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        runtime.erase(PERSON)
    data = log_of(tmp_path).read_bytes()
    anchor = (tmp_path / "heads").read_bytes()
    rng = random.Random(7)
    for _ in range(60):
        at = rng.randrange(len(data))
        changed = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        report = verify(changed, key=KEY, anchor=anchor)
        assert report.exit_code != 0
        assert documented.agree(report, changed, [KEY], anchor)


def test_file_that_was_not_rewritten_before_a_crash_is_rewritten_by_the_same_call(tmp_path: Path) -> None:
    with audited(tmp_path) as runtime:
        runtime.run({"name": PERSON}, thread="t")
    with audited(tmp_path, mirror=False) as runtime:  # as if the process had ended right after the store
        assert runtime.erase(PERSON).threads == ("t",)
    assert files_with(tmp_path) == ["logs/t.jsonl"]
    with audited(tmp_path) as runtime:
        report = runtime.erase(PERSON)

        assert (report.threads, report.lines) == ((), 0)
        assert files_with(tmp_path) == []
        assert [seal_of(one) for one in records_in(log_of(tmp_path))] == seals(tmp_path)
        assert verify(log_of(tmp_path), key=KEY, anchor=tmp_path / "heads").slug == "redacted"
        size = log_of(tmp_path).stat().st_size
        runtime.erase(PERSON)
        assert log_of(tmp_path).stat().st_size == size


def test_pruned_records_in_the_file_also_lose_the_value(tmp_path: Path) -> None:
    with audited(tmp_path) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        runtime.run({"name": OTHER}, thread="t")
        runtime.prune("t")
        records = len(records_in(log_of(tmp_path)))
        runtime.erase(PERSON)

        assert files_with(tmp_path) == []
        assert len(records_in(log_of(tmp_path))) == records + 1
        assert verify(log_of(tmp_path), key=KEY, anchor=tmp_path / "heads").slug == "redacted"
        assert runtime.erase(PERSON).lines == 0
        assert runtime.verify(replay=True).findings == ()


def test_file_that_cannot_be_rewritten_is_reported(tmp_path: Path) -> None:
    with audited(tmp_path) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        path = log_of(tmp_path)
        path.with_name("t.jsonl.torn-7").write_bytes(b"{")
        good = path.read_bytes()
        path.write_bytes(b"{}" + good)
        report = runtime.erase(PERSON)

        assert [one.what for one in report.left] == ["log-file", "outside"]
        assert "was not rewritten" in report.left[0].why
        path.write_bytes(good)
        report = runtime.erase(PERSON)
        assert [one.what for one in report.left] == ["log-file", "outside"]
        assert "torn-7" in report.left[0].why
        assert not any(PERSON in str(line) for line in lines_in(path))


def test_log_without_its_key_is_not_changed(tmp_path: Path) -> None:
    with audited(tmp_path) as runtime:
        runtime.run({"name": PERSON}, thread="t")
    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        assert runtime.erase(PERSON).left[0].what == "key"
        with pytest.raises(InputError) as caught:
            runtime.erase(PERSON, threads=["t"])
        assert caught.value.code == "log-key-needed"
        assert runtime.state("t", at=1).values.name == PERSON


def test_log_without_a_key_is_reported_by_a_runtime_with_one(tmp_path: Path) -> None:
    """An older, unaudited thread in the store does not prevent the erasure of other threads."""
    store = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(graph(), store=store) as runtime:
        runtime.run({"name": PERSON}, thread="old")
    with audited(tmp_path, mirror=False) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        report = runtime.erase(PERSON)

        assert report.threads == ("t",)
        assert (report.left[0].thread, report.left[0].what) == ("old", "key")
        with pytest.raises(InputError) as caught:
            runtime.erase(PERSON, threads=["old"])
        assert caught.value.code == "log-not-keyed"
    with Runtime(graph(), store=store, audit=AuditLog(key=KEY, adopt=True)) as runtime:
        assert runtime.erase(PERSON).threads == ("old",)


@pytest.mark.parametrize("mirror", [True, False], ids=["file", "store"])
def test_erasure_that_was_interrupted_before_its_head_was_anchored_is_completed(tmp_path: Path, mirror: bool) -> None:
    """Otherwise the entry of the erasure would stay unanchored until the thread is driven."""

    def cut_off(_head: Any) -> None:
        raise KeyboardInterrupt

    with audited(tmp_path, mirror=mirror) as runtime:
        runtime.run({"name": PERSON}, thread="t")
    log = AuditLog(tmp_path / "logs" if mirror else None, key=KEY, anchor=cut_off)
    store = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(graph(), store=store, audit=log) as runtime, pytest.raises(KeyboardInterrupt):
        runtime.erase(PERSON)
    with audited(tmp_path, mirror=mirror) as runtime:
        assert runtime.erase(PERSON).lines == 0

    export(store, "t", tmp_path / "exported.jsonl", key=KEY)
    for path in [tmp_path / "exported.jsonl", *([log_of(tmp_path)] if mirror else [])]:
        assert verify(path, key=KEY, anchor=tmp_path / "heads").slug == "redacted"


def test_completed_erasure_writes_no_further_heads(tmp_path: Path) -> None:
    with audited(tmp_path) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        runtime.erase(PERSON)
        kept = (tmp_path / "heads").read_bytes(), log_of(tmp_path).read_bytes()
        runtime.erase(PERSON)

        assert ((tmp_path / "heads").read_bytes(), log_of(tmp_path).read_bytes()) == kept


def main(folder: str) -> None:
    """Be the process that is killed."""
    with audited(Path(folder)) as runtime:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        runtime.erase(PERSON)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.03, 0.06, 0.1, 0.2])
def test_killed_erasure_leaves_each_thread_complete_or_erased_and_is_completed(tmp_path: Path, after_s: float) -> None:
    names = [f"t{number}" for number in range(8)]
    with audited(tmp_path) as runtime:
        for name in names:
            runtime.run({"name": PERSON}, thread=name)
    process = Forked("tests.audit.test_erased_logs", str(tmp_path), env=os.environ)
    assert process.stdout.readline() == "ready\n"
    try:
        process.wait(after_s)
    except TimeoutError:
        process.kill()
        process.wait(60)
    process.stdout.close()
    with audited(tmp_path) as runtime:
        for name in names:
            values = [str(entry.event) for entry in runtime.entries(name)]
            erased = "ValuesErased" in values[-1]
            assert any(PERSON in value for value in values) != erased
        assert runtime.verify(replay=True).ok
        report = runtime.erase(PERSON)

        assert [one.what for one in report.left] == ["outside"]
        assert files_with(tmp_path) == []
        assert runtime.verify(replay=True).findings == ()
        for name in names:
            assert verify(log_of(tmp_path, name), key=KEY, anchor=tmp_path / "heads").slug == "redacted"
