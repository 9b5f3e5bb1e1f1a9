"""A killed process leaves a log of every step that was seen, and the next one goes on in it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.audit.support import KEY, records_in, seal_of, talk

from graphrt import Runtime
from graphrt.audit import AuditLog, verify
from graphrt.stores import SqliteStore

PROGRAM = """
import sys
from tests.audit.support import KEY, talk
from graphrt import Runtime
from graphrt.audit import AuditLog

folder = sys.argv[1]
graph = talk(200)
with Runtime(graph, store=f"sqlite:///{folder}/runs.db", audit=AuditLog(f"{folder}/logs", key=KEY)) as runtime:
    for step in runtime.steps({"notes": []}, thread="t"):
        print(step.index, flush=True)
"""


RANDOM = random.Random(7)
MOMENTS = [RANDOM.randint(1, 195) for _ in range(200)] if os.environ.get("GRAPHRT_FULL") else [1, 7, 40, 90, 150]
"""Steps after which the process is killed, each a little later: `GRAPHRT_FULL=1` tries 200."""


@pytest.mark.slow
@pytest.mark.parametrize("after", MOMENTS)
def test_killed_process_leaves_a_log_of_every_step_that_was_seen(tmp_path: Path, after: int) -> None:
    script = tmp_path / "drive.py"
    script.write_text(textwrap.dedent(PROGRAM))
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stdout is not None
    seen = 0
    for seen, _ in enumerate(process.stdout, 1):
        if seen == after:
            time.sleep(RANDOM.random() * 0.004)  # not a wait for anything: a random moment within a step
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
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
        # On a busy machine all may be done before the signal comes.
        ended = runtime.state("t").status == "completed"
        assert (runtime.state("t").values if ended else runtime.retry("t").state)["notes"][-1] == "note 199"
        with SqliteStore(tmp_path / "runs.db") as store:
            assert [seal_of(one) for one in records_in(path)] == [one.seal for one in store.records("t")]
