"""Threads that exchange their ids with a copy, or get another id: every reader and both verifiers detect it.

An attacker with write access to the database exchanges rows of its table of threads, and the ids in the meta. An
attacker with the files of a log writes another id into the first line. Neither needs a key.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.audit import documented
from tests.audit.support import KEY, ask

from graphrt import Runtime
from graphrt.audit import AuditLog, export, restore, verify
from graphrt.errors import InputError, StoreError
from graphrt.events import ThreadCopied
from graphrt.stores import MemoryStore, SqliteStore, TenantStore
from graphrt.stores.filters import ThreadFilter

GRAPH = ask()
FIXED: Any = {"clock": lambda: 1_700_000_000.0, "ids": lambda: "run"}


def runtime_on(folder: Path, key: bytes | None, store: Any = None) -> Any:
    audit = AuditLog(folder / "logs", key=key, anchor=folder / "heads")
    return Runtime(GRAPH, store=store or f"sqlite:///{folder}/runs.db", audit=audit, **FIXED)


Made = Callable[[Any, Path, "bytes | None"], None]


def copied(runtime: Any, _folder: Path, _key: bytes | None) -> None:
    runtime.copy_thread("p", "q")
    runtime.copy_thread("p", "r")


def imported(runtime: Any, folder: Path, _key: bytes | None) -> None:
    runtime.export_thread("p", folder / "p.grt")
    for thread in ("q", "r"):
        runtime.import_thread(folder / "p.grt", thread=thread)


def restored(runtime: Any, folder: Path, key: bytes | None) -> None:
    for thread in ("q", "r"):
        restore(folder / "logs" / "p.jsonl", runtime.store, thread=thread, key=key)


def forked(runtime: Any, _folder: Path, _key: bytes | None) -> None:
    runtime.fork("p", to="q")
    runtime.fork("p", to="r")


@pytest.fixture(params=[None, KEY], ids=["no key", "key"])
def key(request: pytest.FixtureRequest) -> bytes | None:
    found: bytes | None = request.param
    return found


def rename(folder: Path, *steps: tuple[str, str]) -> None:
    """Give threads of the database other ids, in their meta too."""
    with closing(sqlite3.connect(folder / "runs.db")) as db:
        numbers = [db.execute("SELECT no FROM thread WHERE id = ?", (old,)).fetchone()[0] for old, _ in steps]
        for no, (_, new) in zip(numbers, steps, strict=True):
            db.execute("UPDATE thread SET id = ? WHERE no = ?", (f"{new}-", no))
            [body] = db.execute("SELECT body FROM part WHERE kind = 0 AND no = ?", (no,)).fetchone()
            meta = json.dumps({**json.loads(body), "name": new}).encode()
            db.execute("UPDATE part SET body = ? WHERE kind = 0 AND no = ?", (meta, no))
        db.execute("UPDATE thread SET id = rtrim(id, '-')")
        db.commit()


ATTACKS: dict[str, tuple[tuple[str, str], ...]] = {
    "a thread and its copy": (("p", "q"), ("q", "p")),
    "two copies of one thread": (("q", "r"), ("r", "q")),
    "a copy gets a new id": (("q", "new"),),
    "a thread gets a new id": (("p", "new"),),
    "a copy takes the place of its source": (("p", "gone"), ("q", "p")),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("made", [copied, imported, restored, forked])
def test_exchange_of_ids_is_detected(tmp_path: Path, key: bytes | None, made: Made, attack: str) -> None:
    with runtime_on(tmp_path, key) as runtime:
        runtime.run({"notes": []}, thread="p")
        made(runtime, tmp_path, key)
        for thread, answer in (("p", "yes"), ("q", "no"), ("r", "maybe")):
            assert runtime.resume(thread, answer).state["answer"] == answer
        assert runtime.verify().ok
        assert [verify(runtime_log(tmp_path, one), key=key).exit_code for one in "pqr"] == [3, 3, 3]  # no anchor passed
    rename(tmp_path, *ATTACKS[attack])

    names = [new for _, new in ATTACKS[attack]]
    with runtime_on(tmp_path, key) as runtime:
        assert {one.thread for one in runtime.verify().findings} == set(names)
        for thread in names:
            for read in (runtime.state, runtime.history, runtime.replay, lambda one: list(runtime.entries(one))):
                with pytest.raises(StoreError) as caught:
                    read(thread)
                assert caught.value.code == "store-damaged"
            out = tmp_path / f"{thread}.out"
            export(runtime.store, thread, out, key=key)
            agreed(out.read_bytes(), key)


def runtime_log(folder: Path, thread: str) -> Path:
    return folder / "logs" / f"{thread}.jsonl"


def agreed(data: bytes, key: bytes | None) -> None:
    """Check that both verifiers report the log of another thread."""
    report = verify(data, key=key)

    assert (report.slug, report.exit_code, report.proved_records) == ("misnamed", 1, 0), report
    assert documented.agree(report, data, [key] if key else [], None)


@pytest.mark.parametrize("made", [copied, imported, restored])
def test_file_of_a_log_under_the_id_of_another_thread_is_detected(
    tmp_path: Path, key: bytes | None, made: Made
) -> None:
    with runtime_on(tmp_path, key) as runtime:
        runtime.run({"notes": []}, thread="p")
        made(runtime, tmp_path, key)
        for thread in "pqr":
            runtime.resume(thread, "yes")

    for thread, other in ("pq", "qp", "qr"):
        first, *lines = runtime_log(tmp_path, thread).read_bytes().splitlines(keepends=True)
        assert verify(b"".join([first, *lines]), key=key, anchor=tmp_path / "heads").slug == "sound"
        forged = first.replace(f'"thread":"{thread}"'.encode(), f'"thread":"{other}"'.encode())
        agreed(b"".join([forged, *(line for line in lines if not line.startswith(b'{"head"'))]), key)


def test_prune_keeps_the_name_of_a_copy(tmp_path: Path, key: bytes | None) -> None:
    """The entry that names the copy is gone, and the first snapshot of the thread has the name."""
    with runtime_on(tmp_path, key) as runtime:
        runtime.run({"notes": []}, thread="p")
        runtime.resume("p", "yes")
        for copy in ("q", "r"):
            runtime.copy_thread("p", copy)
            runtime.run({"notes": [copy]}, thread=copy)
            runtime.resume(copy, "no")
            assert runtime.prune(copy) > 0
            assert runtime.state(copy).values["answer"] == "no"
        assert runtime.verify().ok
        export(runtime.store, "q", tmp_path / "q.out", key=key)
        assert verify(tmp_path / "q.out", key=key).exit_code == 3
    rename(tmp_path, ("q", "r"), ("r", "q"))

    with runtime_on(tmp_path, key) as runtime:
        assert {one.thread for one in runtime.verify().findings} == {"q", "r"}
        with pytest.raises(StoreError):
            runtime.resume("q", "late")
        export(runtime.store, "q", tmp_path / "forged.out", key=key)
        agreed((tmp_path / "forged.out").read_bytes(), key)


def test_entry_before_the_copy_is_read_under_both_ids(tmp_path: Path) -> None:
    with runtime_on(tmp_path, KEY) as runtime:
        runtime.run({"notes": []}, thread="p")
        runtime.copy_thread("p", "q")
        runtime.resume("q", "no")

        assert runtime.state("q", at=3).values == runtime.state("p", at=3).values
        assert runtime.fork("q", at=3, to="f") == "f"
    rename(tmp_path, ("p", "new"))

    with runtime_on(tmp_path, KEY) as runtime, pytest.raises(StoreError):
        runtime.state("new", at=3)


def test_copy_of_a_tenant_is_bound_to_the_tenant(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        acme = runtime_on(tmp_path, KEY, TenantStore(store, "acme"))
        acme.run({"notes": []}, thread="t")
        runtime_on(tmp_path, KEY, store).copy_thread("acme~t", "beta~t")
        beta = runtime_on(tmp_path, KEY, TenantStore(store, "beta"))
        beta.resume("t", "yes")
        acme.resume("t", "no")

        assert [verify(runtime_log(tmp_path, f"{tenant}~t"), key=KEY, anchor=tmp_path / "heads").slug
                for tenant in ("acme", "beta")] == ["sound", "sound"]  # fmt: skip
        export(TenantStore(store, "beta"), "t", tmp_path / "out", key=KEY)
        assert verify(tmp_path / "out", key=KEY, anchor=tmp_path / "heads").slug == "sound"
    rename(tmp_path, ("acme~t", "beta~t"), ("beta~t", "acme~t"))

    with SqliteStore(tmp_path / "runs.db") as store:
        for tenant in ("acme", "beta"):
            with pytest.raises(StoreError):
                runtime_on(tmp_path, KEY, TenantStore(store, tenant)).state("t")
        assert {one.thread for one in store.verify().findings} == {"acme~t", "beta~t"}


def test_copy_requires_the_key_of_the_log(tmp_path: Path) -> None:
    """Without the key, the entry that names the copy could not be written."""
    with runtime_on(tmp_path, KEY) as runtime:
        runtime.run({"notes": []}, thread="p")
        runtime.export_thread("p", tmp_path / "p.grt")
    with SqliteStore(tmp_path / "runs.db") as store, MemoryStore() as elsewhere:
        calls: list[Callable[[], Any]] = [
            lambda: Runtime(GRAPH, store=store).copy_thread("p", "q"),
            lambda: store.import_thread(tmp_path / "p.grt", thread="q"),
            lambda: restore(runtime_log(tmp_path, "p"), store, thread="q"),
        ]
        for call in calls:
            with pytest.raises(InputError) as caught:
                call()
            assert caught.value.code == "log-key-needed"
        assert [head.thread for head in store.query(ThreadFilter())] == ["p"]
        assert elsewhere.import_thread(tmp_path / "p.grt") == "p"  # its own id, which does not change


def test_copy_of_a_log_without_a_key_takes_one_if_adoption_is_allowed(tmp_path: Path) -> None:
    with runtime_on(tmp_path, None) as runtime:
        runtime.run({"notes": []}, thread="p")
        runtime.export_thread("p", tmp_path / "p.grt")
    for adopt in (False, True):
        with Runtime(GRAPH, store=f"sqlite:///{tmp_path}/runs.db", audit=AuditLog(key=KEY, adopt=adopt)) as runtime:
            for copy, call in (
                ("q", lambda: runtime.copy_thread("p", "q")),
                ("r", lambda: runtime.import_thread(tmp_path / "p.grt", thread="r")),
            ):
                if adopt:
                    call()
                    export(runtime.store, copy, tmp_path / copy, key=KEY)
                    assert verify(tmp_path / copy, key=KEY).exit_code == 3  # no anchor passed
                    continue
                with pytest.raises(InputError) as caught:
                    call()
                assert caught.value.code == "log-not-keyed"


def test_copies_with_one_seed_are_the_same_bytes() -> None:
    made: list[Any] = []
    for _ in range(2):
        with MemoryStore() as store, Runtime(GRAPH, store=store, chain=True, seed=7, **FIXED) as runtime:
            runtime.run({"notes": []}, thread="p")
            runtime.copy_thread("p", "q")
            made.append(list(store.records("q")))

    assert made[0] == made[1]


def test_copy_of_a_thread_without_a_chain_names_its_source() -> None:
    with MemoryStore() as store, Runtime(GRAPH, store=store, **FIXED) as runtime:
        runtime.run({"notes": []}, thread="p")
        runtime.copy_thread(runtime.copy_thread("p", "q"), "r")
        found = [one.event for one in runtime.entries("r")]
        told = [(event.source, event.thread) for event in found if isinstance(event, ThreadCopied)]

        assert told == [("p", "q"), ("q", "r")]
        assert runtime.resume("r", "yes").state["answer"] == "yes"


def test_thread_that_was_never_copied_names_no_source(tmp_path: Path) -> None:
    with runtime_on(tmp_path, KEY) as runtime:
        runtime.run({"notes": []}, thread="p")
        before = runtime.store.load("p")
        runtime.copy_thread("p", "q")
        after = runtime.store.load("p")

    assert before == after
    assert "name" not in json.loads(before.meta)
