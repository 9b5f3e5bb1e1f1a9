"""One trial by hand: `python -m tests.crash --arun 276 "act once<"` kills a thread there, and reports the outcome.

A kill is the number of a point, its name, or seconds with a point in them. `--list` shows the points of a life.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from . import checks, world
from .life import Job
from .plans import VERBS
from .server import Server
from .trial import Plan, Trials


def kill(text: str) -> int | float | str:
    """A kill in the form of the command line."""
    if text.isdecimal():
        return int(text)
    return float(text) if text.replace(".", "", 1).isdecimal() else text


def main() -> int:
    """Run the trial that the command line describes; return 1 if it failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("kills", nargs="*", type=kill, help="where each process dies, in turn")
    parser.add_argument("--store", help="URL of an empty database; a new SQLite file by default")
    parser.add_argument("--arun", action="store_true")
    parser.add_argument("--verb", choices=VERBS, default="retry")
    parser.add_argument("--bug", help="plant one of planted.BUGS")
    parser.add_argument("--list", action="store_true", help="show the points, kill nothing")
    asked = parser.parse_args()
    server = Server()
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    job = Job(store="", log="", is_async=asked.arun)
    store = (lambda _: asked.store) if asked.store else (lambda where: f"sqlite:///{where}/threads.db")
    try:
        trials = Trials(server, folder / "reference", store, job, shared=bool(asked.store))
        wanted = checks.reference(trials.live()[0])
        if asked.list:
            for number, name in enumerate(wanted.points, 1):
                sys.stdout.write(f"{number:4} {name}\n")
            return 0
        trials = Trials(
            server, folder, store, Job(**{**vars(job), "bug": asked.bug}), shared=bool(asked.store), keep=True
        )
        found = trials.run(wanted, Plan(tuple(asked.kills), asked.verb))
        for line in world.read(folder / "1" / "log"):
            sys.stdout.write(f"{line}\n")
        sys.stdout.write("\n".join([*found, f"{len(found)} breaches; kept in {folder / '1'}", ""]))
        return bool(found)
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
