"""An audited run writes little more than its changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.audit.support import KEY
from typing_extensions import TypedDict

from graphrt import START, GraphBuilder, Runtime
from graphrt.audit import AuditLog

STEPS = 15
CHANGED = 4_000


def parts(size: int, number: int) -> dict[str, str]:
    """A text of *size* characters in fields of 10,000."""
    return {f"part{at}": "".join(chr(97 + (at + one) % 26) for one in range(number)) for at in range(size // number)}


State: Any = TypedDict("State", {**dict.fromkeys(parts(100_000, 10_000), str), "last": str}, total=False)  # type: ignore[misc]  # built from names


def graph() -> Any:
    g: Any = GraphBuilder(State, name="large")
    for number in range(STEPS):
        g.add_node(f"step{number}", lambda _, number=number: {"last": chr(97 + number) * CHANGED})
    g.add_edge(START, "step0").add_sequence([f"step{number}" for number in range(STEPS)])
    return g.compile()


def test_fifteen_steps_with_100_kilobytes_of_state_write_1_3_times_the_changes(tmp_path: Path) -> None:
    """Lár writes 3.25 MB for such a run: the whole state before and after each step."""
    given = parts(100_000, 10_000)
    changed = sum(map(len, given.values())) + STEPS * CHANGED
    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db", audit=AuditLog(tmp_path / "logs", key=KEY)) as runtime:
        runtime.run({**given, "last": ""}, thread="t")
    log = (tmp_path / "logs" / "t.jsonl").stat().st_size

    assert changed == 160_000
    assert log < 1.3 * changed, log / changed
