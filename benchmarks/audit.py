"""The costs of an audit log, compared with their targets: time and bytes of a record, verification, and a large state.

    python -m benchmarks.audit            # some minutes
    python -m benchmarks.audit --quick    # small sizes: does it run at all?

Durable steps alternate, as in `turns`, because the speed of a disk changes within seconds. Their ratios are to
unaudited durable steps: the default one, with chained records, and one without the chain. Bytes are the size on disk of
a conversation with messages of 420 bytes, compared with the bare table of `handwritten_store`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from benchmarks import audit_append, audit_verify, turns
from benchmarks.work import graphrt_store, handwritten_store
from graphrt import START, GraphBuilder, Runtime
from graphrt.audit import AuditLog, verify

KEY = turns.KEY
LARGE_STEPS, LARGE_CHANGE, LARGE_PART = 15, 4_000, 10_000
"""Steps of the run with 100 KB of state, the size of the change of each, and the size of a field."""


class Figure(NamedTuple):
    """One figure, and its upper or lower bound."""

    what: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    def __str__(self) -> str:
        told = (
            f"{self.what}: {self.value:,.0f} {self.unit}"
            if self.value >= 50
            else f"{self.what}: {self.value:.2f} {self.unit}"
        )
        if self.most is not None:
            return f"{told} (at most {self.most}: {'met' if self.value <= self.most else 'MISSED'})"
        if self.least is not None:
            return f"{told} (at least {self.least:,}: {'met' if self.value >= self.least else 'MISSED'})"
        return told


def steps(number: int) -> Iterator[Figure]:
    """Durable steps, audited in the store only, and also with a file."""
    names = ["graphrt", "graphrt_plain", "graphrt_keyed", "graphrt_file"]
    with tempfile.TemporaryDirectory() as folder:
        chained, plain, keyed, file = turns.race(names, "sqlite", number, Path(folder))
    for what, mine, most in (("in the store", keyed, 1.25), ("with a file", file, None)):
        yield Figure(f"durable step, {what}, wall", statistics.median(mine.wall) * 1e6, "us")
        yield Figure(f"durable step, {what}, processor", statistics.median(mine.cpu) * 1e6, "us")
        for than, other in (("not audited", chained), ("without a chain", plain)):
            yield Figure(f"durable step, {what} / {than}, wall", turns.ratio(mine.wall, other.wall), "times", most)
            yield Figure(f"durable step, {what} / {than}, processor", turns.ratio(mine.cpu, other.cpu), "times", most)
            least = min(mine.cpu) / min(other.cpu)
            yield Figure(f"durable step, {what} / {than}, least processor time", least, "times", most)


def sizes(number: int) -> Iterator[Figure]:
    """The size of a conversation on disk, in tables and in the file."""
    bare = handwritten_store.store_bytes(number)()["bytes"]
    letters = graphrt_store.letters(number)
    yield Figure(f"bytes of {number:,} steps, bare table", bare / number, "bytes a step")
    for what, options, most in (
        ("without a chain", {"chain": False}, 1.36),
        ("with the chain", {}, 2.75),
        ("with the chain and MACs", {"audit": AuditLog(key=KEY)}, 2.4),
    ):
        left = graphrt_store.left_by(letters, **options)()["bytes"]
        yield Figure(f"bytes of {number:,} steps, {what}", left / number, "bytes a step")
        yield Figure(f"bytes of {number:,} steps, {what} / bare table", left / bare, "times", most)


def appends(most: int) -> Iterator[Figure]:
    """The cost of a record, which should not depend on the length of the log."""
    for what, mirror in (("in the store", False), ("with a file", True)):
        with tempfile.TemporaryDirectory() as folder:
            found = audit_append.measure(Path(folder), mirror=mirror, most=most)
        for records, micros, size in found:
            yield Figure(f"append, {what}, up to {records:,} records", micros, "us")
            yield Figure(f"append, {what}, up to {records:,} records", size, "bytes")
        first = next(micros for records, micros, _ in found if records >= 1_000)  # earlier ones warm up
        yield Figure(f"append, {what}, last stage / that of 1,000", found[-1][1] / first, "times", 1.2)


def verifying(records: int, rounds: int) -> Iterator[Figure]:
    paces = audit_verify.paces(records, rounds)
    yield Figure(f"verify {records:,} records", statistics.median(paces), "records a second", least=audit_verify.TARGET)


def large_state() -> Iterator[Figure]:
    """A few steps on a state of 100 KB, each with a small change."""
    parts = {f"part{at}": chr(97 + at) * LARGE_PART for at in range(10)}
    schema: Any = TypedDict("schema", {**dict.fromkeys(parts, str), "last": str}, total=False)  # type: ignore[misc]  # built from names
    g: Any = GraphBuilder(schema, name="large")
    for number in range(LARGE_STEPS):
        g.add_node(f"step{number}", lambda _, number=number: {"last": chr(97 + number) * LARGE_CHANGE})
    g.add_edge(START, "step0").add_sequence([f"step{number}" for number in range(LARGE_STEPS)])
    changed = sum(map(len, parts.values())) + LARGE_STEPS * LARGE_CHANGE
    with tempfile.TemporaryDirectory() as folder:
        log = AuditLog(Path(folder) / "logs", key=KEY)
        with Runtime(g.compile(), store=f"sqlite:///{folder}/runs.db", audit=log) as runtime:
            runtime.run({**parts, "last": ""}, thread="t")
        path = log.path("t")
        assert path is not None
        assert verify(path, key=KEY).exit_code == 3
        yield Figure(f"{LARGE_STEPS} steps with 100 KB of state, the log", path.stat().st_size, "bytes")
        yield Figure("the log / what changed", path.stat().st_size / changed, "times", 1.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    print(turns.prepare("sqlite"))
    for figures in (
        steps(30 if quick else 1_000),
        *(sizes(number) for number in ((200,) if quick else (1_000, 5_000))),
        appends(1_000 if quick else 100_000),
        verifying(500 if quick else 10_000, 2 if quick else 5),
        large_state(),
    ):
        for figure in figures:
            print(figure, flush=True)


if __name__ == "__main__":
    main()
