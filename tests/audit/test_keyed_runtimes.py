"""A runtime with a key continues a thread without one only on request."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.audit.support import KEY, ask

from graphrt import Runtime
from graphrt.audit import AuditLog, verify
from graphrt.errors import InputError


def test_thread_without_a_key_is_not_authenticated_from_the_middle_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(ask(), store=url) as runtime:
        runtime.run({"notes": []}, thread="t")
    with Runtime(ask(), store=url, audit=AuditLog(tmp_path, key=KEY)) as runtime:
        before = list(runtime.entries("t"))
        for verb in (lambda: runtime.resume("t", "yes"), lambda: runtime.update("t", {"answer": "no"})):
            with pytest.raises(InputError, match="No record") as caught:
                verb()
            assert caught.value.code == "log-not-keyed"
        assert list(runtime.entries("t")) == before
        assert runtime.run({"notes": []}, thread="new").status == "interrupted"
    with Runtime(ask(), store=url, audit=AuditLog(tmp_path, key=KEY, adopt=True)) as runtime:
        assert runtime.resume("t", "yes").status == "completed"
    report = verify(tmp_path / "t.jsonl", key=KEY)

    assert report.slug == "unanchored"
    assert report.authenticated_seq == report.proved_seq
