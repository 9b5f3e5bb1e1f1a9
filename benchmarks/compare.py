"""Runs every workload in every installed library, interleaved, and reports ratios to a hand-written loop.

    python -m benchmarks                                    # everything installed; half an hour
    python -m benchmarks --only handwritten,graphrt         # a few minutes
    python -m benchmarks --work chain,loop --rounds 5
    python -m benchmarks --quick                            # small sizes, one round

Each (library, workload, round) is a fresh process; within a round, all libraries run one workload before the next
begins. README.md describes the measurements and their reliability.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata, util
from pathlib import Path
from typing import Any

from benchmarks import server
from benchmarks.catalogue import IMPORTS, LIBRARIES, Work, select
from benchmarks.report import SUBJECT, YARDSTICK, Row, data, markdown, record
from benchmarks.work.common import POSTGRES, PRAGMAS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCE = ROOT / "src"
MODULES = {
    "graphrt": "graphrt",
    "converted": "langgraph",
    "langgraph": "langgraph",
    "pydantic_graph": "pydantic_graph",
    "burr": "burr",
    "lar": "lar",
}
# litellm, which lar-engine imports, would fetch a price list, read .env files and print
GUARDS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "LANGSMITH_TRACING": "false",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "",
}
IMPORT_TIMER = "import time; t = time.process_time(); exec({statement!r}); print('cpu', time.process_time() - t)"


def environment() -> dict[str, str]:
    """The children's environment: graphrt from the source tree unless it is installed."""
    env = {**os.environ, **GUARDS}
    if not installed("graphrt"):
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return env


ASK_PRAGMAS = """
import json, os, tempfile
from graphrt.stores import SqliteStore
with tempfile.TemporaryDirectory() as folder, SqliteStore(os.path.join(folder, "x.db")) as store:
    db = store._file.connection()
    names = ("page_size", "journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync")
    print(json.dumps({name: db.execute("PRAGMA " + name).fetchone()[0] for name in names}))
"""


def stores(works: list[Work], env: dict[str, str]) -> str:
    """Pass the children the SQLite settings of graphrt and the address of PostgreSQL; return a note about them."""
    about = ""
    if any(work.name.startswith(("store_", "load", "payload")) for work in works):
        asked = subprocess.run(
            [sys.executable, "-c", ASK_PRAGMAS], env=env, capture_output=True, text=True, check=False
        )
        if asked.returncode == 0:
            env[PRAGMAS] = asked.stdout.strip()
            chosen = ", ".join(f"{name} {value}" for name, value in json.loads(asked.stdout).items())
            about = f" SQLite {sqlite3.sqlite_version}: {chosen}."
    if any("postgres" in work.name for work in works):
        found = server.url()
        if found is None:
            print("skipped: no PostgreSQL server (initdb), none in GRAPHRT_TEST_POSTGRES", file=sys.stderr)
            works[:] = [work for work in works if "postgres" not in work.name]
        else:
            env[POSTGRES] = found
    return about


def installed(module: str) -> bool:
    spec = util.find_spec(module)
    return (spec is not None and spec.origin is not None) or (module == "langgraph" and spec is not None)


def available(library: str) -> bool:
    if library == YARDSTICK:
        return True
    if library == SUBJECT:
        return installed("graphrt") or (SOURCE / "graphrt" / "__init__.py").exists()
    return installed(MODULES[library])


def version(library: str) -> str:
    try:
        return metadata.version(LIBRARIES[library][0])
    except (metadata.PackageNotFoundError, ValueError):
        return ""


def choose(only: str | None) -> list[str]:
    """The libraries to run, the yardstick first; missing ones are named and skipped."""
    asked = [name.strip() for name in only.split(",")] if only else list(LIBRARIES)
    for name in asked:
        if name not in LIBRARIES:
            raise SystemExit(f"No library {name!r}. Known: {', '.join(LIBRARIES)}")
    chosen = []
    for name in LIBRARIES:
        if name != YARDSTICK and name not in asked:
            continue
        if available(name):
            chosen.append(name)
        else:
            print(f"skipped: {name} is not installed (pip install -r benchmarks/requirements.txt)", file=sys.stderr)
    return chosen


def ask(library: str, work: Work, sizes: tuple[int, ...], budget_s: float, env: Mapping[str, str]) -> dict[str, Any]:
    """The answer of a fresh process about one workload of one library."""
    if work.kind == "import":
        script = IMPORT_TIMER.format(statement=IMPORTS[library])
        command = [sys.executable, "-c", script]
    else:
        shown = ",".join(str(size) for size in sizes)
        command = [sys.executable, "-m", "benchmarks.child", library, work.name, "--sizes", shown]
        command += ["--budget", str(budget_s)]
    try:
        done = subprocess.run(  # noqa: PLW1510 - the exit code is checked below
            command, env=dict(env), cwd=ROOT, capture_output=True, text=True, timeout=60 + 4 * budget_s * len(sizes)
        )
    except subprocess.TimeoutExpired:
        return {"error": "timed out"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    if work.kind != "import":
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer
    seconds = float(lines[-1].removeprefix("cpu "))
    return {"sizes": {str(sizes[0]): {"cpu": seconds, "wall": seconds}}}


def turn(libraries: list[str], round_: int) -> list[str]:
    """The order of one round: rotated, and no library always runs after the same one."""
    shift = round_ % len(libraries)
    return libraries[shift:] + libraries[:shift]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="libraries, by comma; the hand-written loop always runs")
    parser.add_argument("--work", help="beginnings of workload names, by comma")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, short budgets")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds that one run may take before it is skipped")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of latest.md and latest.json")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.budget = 1, min(options.budget, 5.0)
    works, libraries, env = select(options.work), choose(options.only), environment()
    how = stores(works, env)
    rows = [Row(work=work, size=size) for work in works for size in (work.quick if options.quick else work.sizes)]
    failures: list[str] = []
    for round_ in range(options.rounds):
        for work in works:
            mine = [row for row in rows if row.work is work]
            for group in [[row] for row in mine] if work.apart else [mine]:
                sizes = tuple(row.size for row in group)
                for library in turn(libraries, round_):
                    print(f"round {round_ + 1}/{options.rounds}  {work.name}  {library}", file=sys.stderr, flush=True)
                    if work.kind == "import" and round_ == 0:
                        ask(library, work, sizes, options.budget, env)  # writes the bytecode
                    answer = ask(library, work, sizes, options.budget, env)
                    if "error" in answer:
                        failures.append(f"{library} {work.name}: {answer['error']}")
                        print(f"  failed: {answer['error']}", file=sys.stderr)
                    for row in group:
                        record(row, library, round_, answer)
    about = (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores, {options.rounds} round(s){', quick sizes' if options.quick else ''}.{how}"
    )
    versions = {library: version(library) for library in libraries}
    text = markdown(rows, libraries, versions, about)
    if failures:
        text += "\nFailed:\n\n" + "".join(f"- {failure}\n" for failure in sorted(set(failures)))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "latest.md").write_text(text, encoding="utf-8")
    report = {**data(rows, libraries, versions, about), "failures": sorted(set(failures))}
    (options.out / "latest.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(text)
    if any(failure.startswith((YARDSTICK, SUBJECT)) for failure in failures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
