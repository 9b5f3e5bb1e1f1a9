"""After `kill -9` in the middle of a designed graph, another process runs the same design, and pays nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def life(folder: Path, deadly: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.nodes.dying_designs"],
        cwd=ROOT,
        env={**os.environ, "DESIGNS": str(folder), "DEADLY": deadly, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_killed_process_leaves_its_design_to_the_next_one(tmp_path: Path) -> None:
    first = life(tmp_path, "design")
    assert first.returncode == -signal.SIGKILL, first.stderr
    time.sleep(1.2)  # until the claim of the dead process is over

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
