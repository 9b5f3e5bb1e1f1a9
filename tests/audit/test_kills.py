"""A killed process leaves a log of every visible step, and the next one continues it."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import pytest
from tests.audit.support import KEY, records_in, seal_of, talk
from tests.forked import Forked

from graphrt import Runtime
from graphrt.audit import AuditLog, verify
from graphrt.stores import SqliteStore


def main(folder: str) -> None:
    """Be the process that is killed."""
    audit = AuditLog(f"{folder}/logs", key=KEY)
    with Runtime(talk(200), store=f"sqlite:///{folder}/runs.db", audit=audit) as runtime:
        for step in runtime.steps({"notes": []}, thread="t"):
            sys.stdout.write(f"{step.index}\n")
            sys.stdout.flush()


RANDOM = random.Random(7)
MOMENTS = [RANDOM.randint(1, 195) for _ in range(200)] if os.environ.get("GRAPHRT_FULL") else [1, 7, 40, 90, 150]
"""Steps after which the process is killed, each a little later: `GRAPHRT_FULL=1` tries 200."""


@pytest.mark.slow
@pytest.mark.parametrize("after", MOMENTS)
def test_killed_process_leaves_a_log_of_every_visible_step(tmp_path: Path, after: int) -> None:
    process = Forked("tests.audit.test_kills", str(tmp_path), env=os.environ)
    seen = 0
    for seen, _ in enumerate(process.stdout, 1):
        if seen == after:
            time.sleep(RANDOM.random() * 0.004)  # not a wait: a random moment within a step
            process.kill()
            break
    process.wait(60)
    process.stdout.close()
    audit = AuditLog(tmp_path / "logs", key=KEY)
    path = audit.path("t")
    assert path is not None
    whole = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    assert sum(b'"seal"' in line for line in whole) >= seen  # the first record is the start
    report = verify(path, key=KEY)
    assert report.exit_code == 3, report.sentence
    assert report.proved_records == report.records >= seen
    with Runtime(talk(200), store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime:
        # On a busy machine all steps may be done before the signal arrives.
        ended = runtime.state("t").status == "completed"
        assert (runtime.state("t").values if ended else runtime.retry("t").state)["notes"][-1] == "note 199"
        with SqliteStore(tmp_path / "runs.db") as store:
            assert [seal_of(one) for one in records_in(path)] == [one.seal for one in store.records("t")]
