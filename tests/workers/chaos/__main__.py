"""Run one storm: `python -m tests.workers.chaos --host worker --database sqlite --kills 300`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tests.stores import postgres_server

from . import namespaces
from .storm import Storm


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.workers.chaos", description=__doc__)
    parser.add_argument("--host", choices=["worker", "dbos"], default="worker")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument(
        "--machines", action="store_true", help="each process in a network namespace, with links that are cut"
    )
    parser.add_argument("--plant", default="", help="a wrong build, which has to be noticed")
    given = parser.parse_args()
    if given.machines and given.database != "postgres":
        parser.error("several machines need --database postgres")
    if given.machines and (reason := namespaces.obstacle()):
        print(f"Skipped: {reason}.")  # noqa: T201
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        words: dict[str, Any] = {"kind": given.host, "folder": Path(folder), "kills": given.kills, "seed": given.seed}
        if given.database == "sqlite" and given.host == "worker":
            storm = Storm(store=f"sqlite:///{folder}/runs.db", plant=given.plant, **words)
            wrong = storm.run()
        else:
            tools = postgres_server.binaries()
            if tools is None:
                print("There is no PostgreSQL server on this machine.")  # noqa: T201
                return 1
            server = postgres_server.Server(tools)
            try:
                store = postgres_server.with_options(server.url, schema="chaos")
                with namespaces.machines(server, "chaos") if given.machines else nullcontext() as machines:
                    words |= {"system": server.url, "restart": server.restart, "machines": machines}
                    storm = Storm(store=store, plant=given.plant, **words)
                    wrong = storm.run()
            finally:
                server.remove()
    figures = ", ".join(f"{number} {name}" for name, number in sorted(storm.done.items()))
    load = os.getloadavg()[0]
    where = f"{given.database}, several machines" if given.machines else given.database
    print(f"{given.host} on {where}: {figures}; {time.monotonic() - began:.0f} s, load {load:.1f}")  # noqa: T201
    print(f"{len(wrong)} wrong")  # noqa: T201
    for line in wrong[:20]:
        print(f"  {line}")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
