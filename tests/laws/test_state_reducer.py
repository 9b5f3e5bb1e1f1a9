"""The laws of a reducer of the whole state: its result equals that of the naive fold, on every path and for every
reader.
"""

from __future__ import annotations

import functools
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from graphrt import START, CompiledGraph, GraphBuilder, Runtime

Layers = list[list[int | None]]
"""The results of the nodes of each superstep, in task order; None is no change."""

layers = st.lists(st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=1, max_size=4), min_size=1, max_size=6)


class Sum(BaseModel):
    total: int = 1
    seen: list[int] = []


def apply(state: Sum, update: int) -> Sum:
    """The result depends on the order; some updates change one field only, or none."""
    if update == 0:
        return state
    seen = state.seen if update == 1 else [*state.seen, update]
    return Sum.model_construct(total=(state.total * 31 + update) % 1_000_003, seen=seen)


def naive(rows: Layers, start: Sum) -> Sum:
    return functools.reduce(apply, [number for row in rows for number in row if number is not None], start)


def build(rows: Layers) -> CompiledGraph[Sum, int]:
    g = GraphBuilder(Sum, int, reducer=apply, name="layers")
    before: list[str] = []
    for depth, row in enumerate(rows):
        names = [f"n{depth}_{at}" for at in range(len(row))]
        for name, number in zip(names, row, strict=True):
            g.add_node(name, lambda state, number=number: number)
            g.add_edge(before if len(before) > 1 else before[0] if before else START, name)
        before = names
    return g.compile()


@given(rows=layers, start=st.integers(0, 9))
def test_every_path_and_every_entry_has_the_state_of_the_naive_fold(rows: Layers, start: int) -> None:
    graph = build(rows)
    given_: dict[str, Any] = {"total": start}
    first, expected = Sum(total=start), naive(rows, Sum(total=start))
    runtime = Runtime(graph, store="memory:")
    steps = list(Runtime(graph).steps(given_))

    assert graph.run(given_).state == expected
    assert [step.after for step in steps] == [
        naive([flat[: at + 1]], first) for flat in [[n for row in rows for n in row]] for at in range(len(flat))
    ]
    assert runtime.run(given_, thread="t").state == expected
    for number, at in enumerate(e.seq for e in runtime.entries("t") if type(e.event).__name__ == "SuperstepCommitted"):
        assert runtime.state("t", at=at).values == naive(rows[: number + 1], first)
    assert runtime.replay("t").values == expected
    at = random.Random(len(rows)).choice([e.seq for e in runtime.entries("t")])
    fork = runtime.fork("t", at=at)
    assert runtime.state(fork).values == runtime.state("t", at=at).values
