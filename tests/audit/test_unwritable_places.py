"""Folders that are full, missing, or cannot be created: the run stops before an unlogged step, with a typed error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.audit.support import KEY, ask, records_in, seal_of, talk

from graphrt import Runtime
from graphrt.audit import AuditLog, verify
from graphrt.errors import StoreError
from graphrt.stores import SqliteStore

PROGRAM = """
import json, resource, sys
from tests.audit.support import KEY, talk
from graphrt.audit import AuditLog
from graphrt.errors import StoreError

resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))
ran = []
graph = talk(60)
graph = graph.with_nodes({
    f"say{number}": lambda _, number=number: ran.append(number) or {"notes": ["x" * 100]} for number in range(60)
})
try:
    graph.run({"notes": []}, audit=AuditLog(sys.argv[1], key=KEY))
except StoreError as error:
    print(json.dumps({"code": error.code, "ran": len(ran)}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of resources")
def test_run_stops_when_a_real_file_cannot_grow(tmp_path: Path) -> None:
    """The thread is in memory, and the log is the only file that reaches the limit."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    told = json.loads(done.stdout)
    [path] = tmp_path.glob("*.jsonl")
    report = verify(path, key=KEY)

    assert told["code"] == "log-not-written"
    assert 3 < told["ran"] < 20
    # No record is half-written, and no step ran after the one whose record did not fit.
    assert (report.slug, report.proved_records) == ("unanchored", report.records) or report.slug == "open-run"
    assert report.records == told["ran"]


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed there")
@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_run_stops_if_its_file_is_gone(tmp_path: Path, what: str) -> None:
    audit, ran = AuditLog(tmp_path / "logs", key=KEY), list[str]()

    def lose(_: Any) -> Any:
        ran.append("say1")
        shutil.rmtree(tmp_path / "logs")
        if what == "replaced":
            (tmp_path / "logs").mkdir()
            (tmp_path / "logs" / "t.jsonl").write_bytes(b"")
        return {"notes": ["lost"]}

    graph = talk(3).with_nodes({"say1": lose, "say2": lambda _: ran.append("say2") or {"notes": ["last"]}})
    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime:
        with pytest.raises(StoreError, match="removed or replaced") as caught:
            runtime.run({"notes": []}, thread="t")
        assert caught.value.code == "log-not-written"
        assert ran == ["say1"]
        assert runtime.retry("t").status == "completed"
    with SqliteStore(tmp_path / "runs.db") as store:
        stored = [one.seal for one in store.records("t")]

    path = audit.path("t")
    assert path is not None
    assert ran == ["say1", "say2"]
    assert [seal_of(one) for one in records_in(path)] == stored


@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_folder_that_cannot_be_created_is_reported_before_a_node_runs(tmp_path: Path, on_failure: Any) -> None:
    (tmp_path / "file").write_text("not a folder")
    audit = AuditLog(tmp_path / "file" / "logs", key=KEY, on_failure=on_failure)
    with Runtime(ask(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime:
        if on_failure == "stop":
            with pytest.raises(StoreError) as caught:
                runtime.run({"notes": []}, thread="t")
            assert caught.value.code == "log-not-written"
            assert "file" in caught.value.what
        else:
            with pytest.warns(UserWarning, match="cannot be written"):
                assert runtime.run({"notes": []}, thread="t").status == "interrupted"
