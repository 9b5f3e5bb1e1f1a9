"""Write sample files of the viewer: `python -m tests.viewer.sample OUT.html [agent|long|hostile]`."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from graphrt import Runtime
from graphrt.errors import GraphrtError
from graphrt.viewer import html

from . import graphs
from .conftest import failed_letter


def agent(steps: int) -> str:
    """A letter whose last node failed, with prompts and a test."""
    del steps
    with Runtime(graphs.letters, store="memory:", harness=graphs.writer()) as runtime:
        failed_letter(runtime)
        return html(runtime, "letter", prompts=True, target="tests.viewer.graphs:letters")


def long(steps: int) -> str:
    """A run of *steps* steps through 500 nodes."""
    with Runtime(graphs.ring(500, steps), store="memory:") as runtime:
        runtime.run({}, thread="long")
        began = time.perf_counter()
        made = html(runtime, "long")
        sys.stderr.write(f"{time.perf_counter() - began:.1f} s to write {len(made):,} bytes\n")
        return made


def hostile(steps: int) -> str:
    """Texts that a careless page would interpret."""
    del steps
    with Runtime(graphs.hostile, store="memory:") as runtime:
        runtime.run({"text": graphs.HOSTILE[0]}, thread="t", title=graphs.HOSTILE[2], tags=["x"])
        with suppress(GraphrtError):
            runtime.resume("t", answer=graphs.HOSTILE[1])
        return html(runtime, "t")


def main(words: list[str]) -> None:
    """Write the file."""
    made: dict[str, Any] = {"agent": agent, "long": long, "hostile": hostile}
    kind = words[1] if len(words) > 1 else "agent"
    Path(words[0]).write_text(made[kind](int(words[2]) if len(words) > 2 else 10_000), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
