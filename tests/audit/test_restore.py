"""`restore`: a log becomes a thread again, with every state checked; a log that does not verify is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.audit.honest_logs import KEY, OLD, options
from tests.audit.support import OTHER, ask, talk
from tests.audit.test_own_logs import drive
from tests.journal import voyage

from graphrt import Runtime
from graphrt.audit import AuditLog, export, restore, verify
from graphrt.errors import AuditError, InputError
from graphrt.stores import MemoryStore
from graphrt.stores.filters import ThreadFilter


def told(runtime: Any, thread: str) -> Any:
    """All readable data of a thread, without the parts that only its store has."""
    now = runtime.state(thread)
    return (
        [(one.seq, one.status, one.next, repr(one.values)) for one in runtime.history(thread)],
        [(entry.seq, entry.at, repr(entry.event)) for entry in runtime.entries(thread)],
        (now.status, now.interrupts, now.next, repr(now.values), now.run_id),
        repr(runtime.replay(thread).values),
        str(runtime.why(thread, "notes")),
    )


@pytest.mark.parametrize("thread", ["t", "forked", "copied"])
def test_restored_log_reads_like_its_source_thread(tmp_path: Path, thread: str) -> None:
    """Runs with questions and pending outcomes, a fork, and a copy whose start was pruned."""
    url = f"sqlite:///{tmp_path}/runs.db"
    later = AuditLog(tmp_path / "logs", key=KEY, older=[OLD])
    drive(url, AuditLog(tmp_path / "logs", key=OLD), later)
    export(url, thread, tmp_path / "exported", key=KEY)
    mirror = later.path(thread)
    assert mirror is not None
    with Runtime(voyage.graph(), store=url, **options()) as runtime:
        wanted = told(runtime, thread)
    # The file beside the store keeps entries that were pruned from the store.
    for path in (tmp_path / "exported", *([mirror] if thread != "copied" else [])):
        with MemoryStore() as store, Runtime(voyage.graph(), store=store, **options()) as runtime:
            assert restore(path, store, key=KEY, older=[OLD]).thread == thread

            assert told(runtime, thread) == wanted


def test_restored_thread_continues_where_it_paused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    audit = AuditLog(tmp_path / "logs", key=KEY)
    with Runtime(ask(), store=url, audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
    path = audit.path("t")
    assert path is not None
    other = f"sqlite:///{tmp_path}/other.db"
    restore(path, other, key=KEY, thread="again")
    with Runtime(ask(), store=other, audit=AuditLog(key=KEY)) as runtime:
        assert runtime.resume("again", "yes").state["answer"] == "yes"
        assert runtime.replay("again").status == "completed"


def test_log_that_does_not_verify_is_refused_with_its_verdict(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path, key=KEY)
    talk(2).run({"notes": ["first"]}, audit=audit)
    [path] = tmp_path.iterdir()
    changed = path.read_bytes().replace(b"note 1", b"note 7")
    with MemoryStore() as store:
        for data, key, verdict in (
            (changed, KEY, "altered"),
            (path.read_bytes(), OTHER, "wrong-key"),
            (b"", None, "unreadable"),
        ):
            with pytest.raises(AuditError, match=verdict) as raised:
                restore(data, store, key=key)
            assert raised.value.got.slug == verdict
        assert store.query(ThreadFilter()) == []
        restore(path, store)
        with pytest.raises(InputError, match="exists"):
            restore(path, store)


def test_every_byte_of_staged_data_is_checked(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path, key=KEY)
    with Runtime(ask(), store="memory:", audit=audit) as runtime:
        runtime.run({"notes": []}, thread="t")
    path = audit.path("t")
    assert path is not None
    lines = path.read_bytes().splitlines(keepends=True)
    [at] = [at for at, line in enumerate(lines) if line.startswith(b'{"staged"')]
    for byte in range(len(lines[at])):
        flipped = bytes([*lines[at][:byte], lines[at][byte] ^ 1, *lines[at][byte + 1 :]])
        assert verify(b"".join([*lines[:at], flipped, *lines[at + 1 :]]), key=KEY).exit_code == 1, byte
    without = b"".join([*lines[:at], *lines[at + 1 :]])
    assert verify(without, key=KEY).exit_code == 3
    with MemoryStore() as store, pytest.raises(AuditError, match="open superstep"):
        restore(without, store, key=KEY)
