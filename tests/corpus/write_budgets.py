"""Write the database of `cases_budgets`, and beside it what the code that writes it makes of each thread.

It was run once, from the last commit that kept what models answered as results of effects (c4b7ae2):
`python -m tests.corpus.write_budgets FOLDER`. To write it anew with other code would make it worthless.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from graphrt.harness import TokenTracker

from . import telling, write
from .cases_budgets import CASES
from .hand import LATER_S, Hand
from .world import world

FLAVOUR: Final = "chained"


def usage(url: str, name: str) -> Any:
    """What a snapshot and a tracker count for a thread."""
    (case,) = [case for case in CASES if case.name == name]
    with write.opened(url, FLAVOUR) as store:
        world.reset()
        runtime = Hand(case, store, now_s=LATER_S, ids="later", later=True).runtime
        summary = TokenTracker().read(runtime.entries(name)).summary()
        found = {"state": telling.plain(runtime.state(name).usage), "tracker": telling.plain(summary)}
        runtime.close()
    return found


def main(folder: Path) -> None:
    """Write everything into *folder*, which is made."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / f"{FLAVOUR}.db"
        url = f"sqlite:///{path}"
        for case in CASES:
            if case.dies is None:
                write.write_case(case, url, FLAVOUR)
                continue
            command = [sys.executable, "-m", "tests.corpus.write_budgets", "--die", case.name, url, FLAVOUR]
            ended = subprocess.run(command, check=False, timeout=60)
            if ended.returncode != -9:
                raise RuntimeError(f"{case.name} was not killed: {ended.returncode}")
        write.settle(path)
        (folder / f"{FLAVOUR}.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        write.CASES[:] = CASES
        told = write.all_expected(path, FLAVOUR)
        for name, one in told.items():
            one["usage"] = usage(url, name)
        text = {"threads": told, "stored": write.digests(url, FLAVOUR)}
    whole = json.dumps(text, sort_keys=True, separators=(",", ":"))
    (folder / "expected.json.gz").write_bytes(gzip.compress(whole.encode(), mtime=0))


if __name__ == "__main__":
    if sys.argv[1] == "--die":
        write.CASES[:] = CASES
        write.die(*sys.argv[2:])
    else:
        main(Path(sys.argv[1]))
