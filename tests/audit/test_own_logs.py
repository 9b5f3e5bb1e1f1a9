"""What `AuditLog` mirrors and `export` writes is verified offline, by both verifiers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.audit import documented
from tests.audit.honest_logs import KEY, OLD, options
from tests.journal import voyage

from graphrt import Runtime
from graphrt.audit import AuditLog, export
from graphrt.audit.offline import verify


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
def test_mirror_and_export_are_sound(tmp_path: Path, thread: str) -> None:
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
