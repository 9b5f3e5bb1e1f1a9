"""Mirrors of `AuditLog` and the output of `export` are verified offline, by both verifiers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.audit import documented
from tests.audit.honest_logs import KEY, OLD, options
from tests.journal import voyage

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.audit import AuditLog, export
from graphrt.audit.offline import verify
from graphrt.stores import SqliteStore


class State(BaseModel):
    notes: list[str] = []


def drive(url: str, audit: AuditLog, later: AuditLog) -> None:
    """A run in three processes, with another key from the second one on; then a fork, a copy and a prune."""
    voyage.tries.clear()
    settings = options()
    with Runtime(voyage.graph(), store=url, audit=audit, **settings) as runtime:
        runtime.run({"notes": ["größe"], "table": {"c": "x" * 70_000, "d": "y" * 70_000}}, thread="t")
    with Runtime(voyage.graph(), store=url, audit=later, **settings) as runtime:
        runtime.update("t", {"table": {"e": "z" * 70_000}, "count": 5})
        runtime.resume("t", "left")
    with Runtime(voyage.graph(), store=url, audit=later, **settings) as runtime:
        runtime.resume("t", answer=True)
        runtime.run({"count": 1}, thread="t")
        runtime.fork("t", at=3, to="forked")
        runtime.retry("forked")
        runtime.copy_thread("t", "copied")
        runtime.prune("copied", before=40)
        runtime.resume("copied", "left")


@pytest.mark.parametrize("thread", ["t", "forked", "copied"])
def test_mirror_and_export_are_valid(tmp_path: Path, thread: str) -> None:
    url, anchor = f"sqlite:///{tmp_path}/runs.db", tmp_path / "heads"
    later = AuditLog(tmp_path / "logs", key=KEY, older=[OLD], anchor=anchor)
    drive(url, AuditLog(tmp_path / "logs", key=OLD, anchor=anchor), later)
    head = export(url, thread, tmp_path / "exported", key=KEY)
    mirror = later.path(thread)
    assert mirror is not None
    heads = anchor.read_bytes()
    for path in (mirror, tmp_path / "exported"):
        report = verify(path, key=KEY, older=[OLD], anchor=heads)

        assert report.exit_code in (0, 3), report
        assert report.slug in ("sound", "open-run", "tail-unanchored"), report
        assert report.proved_records == report.records > 3
        assert report.authenticated_seq == report.proved_seq == head.seq
        assert documented.agree(report, path.read_bytes(), [OLD, KEY], heads)


def test_fork_of_a_thread_that_pauses_after_a_node_without_an_update_is_valid(tmp_path: Path) -> None:
    builder = GraphBuilder(State, name="quiet")
    builder.add_node("a", lambda state: None, interrupt_after=True)
    graph = builder.add_sequence([START, "a", END]).compile()
    with SqliteStore(tmp_path / "runs.db") as store, Runtime(graph, store=store, audit=AuditLog(key=KEY)) as runtime:
        runtime.run({}, thread="t")
        runtime.fork("t", at=runtime.state("t").seq, to="forked")
        export(store, "forked", tmp_path / "log", key=KEY)

    report = verify(tmp_path / "log", key=KEY)
    assert report.slug == "unanchored", report
    assert documented.agree(report, (tmp_path / "log").read_bytes(), [KEY], None)
