"""The cost of a record as an audit log grows: microseconds and bytes, in the store only and with the file.

Run it with `python -m benchmarks.audit_append`. The cost should be flat from 100 to 100,000 records. Each record is one
superstep that replaces a text of 200 bytes, on SQLite; the times include waiting for the disk.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from graphrt import GraphBuilder, Limits, Runtime
from graphrt.audit import AuditLog
from graphrt.stores import open_store

KEY = b"any 32 bytes or more: 7F2a-91Bc-0dEx"
STAGES = (100, 1_000, 10_000, 100_000)


class State(TypedDict, total=False):
    text: str
    left: int


def graph() -> Any:
    g: Any = GraphBuilder(State, name="append")
    g.add_node("say", lambda state: {"text": f"{state['left']:0200d}", "left": state["left"] - 1}, max_visits=None)
    g.set_entry("say")
    g.add_conditional_edges("say", lambda state: state["left"] > 0, {True: "say", False: "done"})
    g.add_node("done", lambda _: None).set_finish("done")
    return g.compile(limits=Limits(max_steps=10**9))


def measure(folder: Path, *, mirror: bool, most: int) -> list[tuple[int, float, float]]:
    """For each stage its number of records, and microseconds and bytes of a record since the previous stage."""
    url = f"sqlite:///{folder}/runs.db"
    audit = AuditLog(folder / "logs" if mirror else None, key=KEY)
    found: list[tuple[int, float, float]] = []
    before = 0
    with Runtime(graph(), store=url, audit=audit) as runtime, open_store(url) as store:
        for stage in [one for one in STAGES if one <= most]:
            began = time.process_time()
            runtime.run({"text": "", "left": stage - before}, thread="t")
            took = time.process_time() - began
            last = next(store.records("t", after=store.head("t").seq - 8))
            size = len(last.body) + len(last.seal)
            if mirror:
                size = (folder / "logs" / "t.jsonl").stat().st_size / stage  # total so far, including heads
            found.append((stage, took / (stage - before) * 1e6, size))
            before = stage
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=STAGES[-1])
    given = parser.parse_args()
    for name, mirror in (("in the store", False), ("with the file", True)):
        with tempfile.TemporaryDirectory() as folder:
            for records, micros, size in measure(Path(folder), mirror=mirror, most=given.most):
                print(f"{name}: up to {records:>7,} records, {micros:6.0f} us and {size:5.0f} bytes each")


if __name__ == "__main__":
    main()
