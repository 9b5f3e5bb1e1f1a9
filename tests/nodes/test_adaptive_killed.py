"""After `kill -9` in the middle of a designed graph, another process runs the same design, and no call is paid twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.testing.warm_python import warm_python

ROOT = Path(__file__).parents[2]


def life(folder: Path, deadly: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DESIGNS": str(folder), "DEADLY": deadly}
    return warm_python().run(["-m", "tests.nodes.dying_designs"], cwd=ROOT, env=env)


def test_killed_process_leaves_its_design_to_the_next_one(tmp_path: Path) -> None:
    first = life(tmp_path, "design")
    assert first.returncode == -signal.SIGKILL, first.stderr
    time.sleep(1.2)  # until the claim of the dead process has expired

    second = life(tmp_path, "")

    assert second.returncode == 0, second.stderr
    told: dict[str, Any] = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert told == {
        "status": "completed",
        "notes": ["about tea", "alive", "about tea"],
        "answer": "thought 1",
        "nodes": ["first", "think", "die", "idea1"],
    }
    paid = (tmp_path / "paid.txt").read_text(encoding="utf-8").splitlines()
    assert paid == ["design", "fetch", "think", "dead", "fetch"]
