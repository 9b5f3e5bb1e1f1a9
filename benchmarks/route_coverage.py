"""The overhead of route coverage in a run of pytest: the suites of the examples, alternately with and without it.

Whole processes are timed, with imports, collection and the report, because a user waits for all of it. Run it with
`python -m benchmarks.route_coverage`; `--rounds 21` for a reliable figure on a shared machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUITES = ("ticket_router", "support_triage", "research_map_reduce")
PYTEST = ("-m", "pytest", "-q", "-p", "pytest_graphrt", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir")


def run(suite: str, folder: str, *options: str) -> tuple[float, float]:
    """Run a suite in a separate process; return its wall time and its CPU time, in seconds."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    command = [sys.executable, *PYTEST, folder, str(ROOT / "examples" / suite), *options]
    before, began = cpu_of_children(), time.perf_counter()
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return wall, cpu_of_children() - before


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(suite: str, rounds: int, folder: str) -> str:
    """Time *suite* *rounds* times with and without route coverage, alternately; return a row of the table."""
    covered = ("--graphrt-cov=" + str(ROOT / "examples" / suite),)
    run(suite, folder)
    run(suite, folder, *covered)
    pairs = [(run(suite, folder), run(suite, folder, *covered)) for _ in range(rounds)]
    cells = [suite]
    for at in (0, 1):
        without = statistics.median(pair[0][at] for pair in pairs)
        with_it = statistics.median(pair[1][at] for pair in pairs)
        cells += [f"{without * 1000:.0f} ms", f"{with_it * 1000:.0f} ms", f"{(with_it / without - 1) * 100:+.1f} %"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each suite runs, with and without")
    rounds = parser.parse_args().rounds
    print("| Suite | wall | with route coverage | | CPU | with route coverage | |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for suite in SUITES:
            print(compare(suite, rounds, folder), flush=True)


if __name__ == "__main__":
    main()
