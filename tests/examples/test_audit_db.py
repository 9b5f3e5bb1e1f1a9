"""The audit in a database: a killed audit continues, and a finished one is followed by a new one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.testing.warm_python import warm_python

import graphrt
from graphrt.stores import open_store
from graphrt.stores.filters import ThreadFilter

PATH = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(graphrt.__file__).parents[1])])
KILLED = """
import os, signal, sys
from graphrt.stores.sqlite import SqliteStore
from examples.audit.__main__ import main

commit, commits = SqliteStore.commit, []

def deadly(self, claim, what):
    commit(self, claim, what)
    commits.append(what)
    if len(commits) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

SqliteStore.commit = deadly
main(sys.argv[1:])
"""


def audit(cwd: Path, *program: str) -> subprocess.CompletedProcess[str]:
    return warm_python().run(
        [*program, "--limit", "5", "--db", "audits.db"], cwd=cwd, env={**os.environ, "PYTHONPATH": PATH}
    )


def test_killed_audit_continues_where_it_was(tmp_path: Path) -> None:
    killed = audit(tmp_path, "-c", KILLED)
    assert killed.returncode == -9

    done = audit(tmp_path, "-m", "examples.audit")

    assert (done.returncode, done.stderr) == (0, "")
    assert "going on with audit-1  it was running" in done.stdout
    assert "● discover" in done.stdout
    assert "1  discover      1  found" not in done.stdout, "a finished node ran again"
    with open_store(f"sqlite:///{tmp_path / 'audits.db'}") as store:
        assert [(head.thread, head.status) for head in store.query(ThreadFilter())] == [("audit-1", "completed")]


def test_a_finished_audit_is_followed_by_a_new_one(tmp_path: Path) -> None:
    audit(tmp_path, "-m", "examples.audit")

    done = audit(tmp_path, "-m", "examples.audit")

    assert (done.returncode, done.stderr) == (0, "")
    with open_store(f"sqlite:///{tmp_path / 'audits.db'}") as store:
        assert [head.thread for head in store.query(ThreadFilter())] == ["audit-1", "audit-2"]
