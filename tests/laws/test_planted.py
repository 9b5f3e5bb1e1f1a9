"""The laws detect bugs: each of many bugs, planted in the live engine, is detected by the law that it breaks."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from . import laws
from .description import Graph
from .graphs import graphs, joined_graphs
from .planted import GENERAL, STRAIGHT, Bug

SEEDS, EACH = (4, 5, 2, 0, 1, 3, 6, 7), 80
"""Upper bound of examples; most bugs are found within a few. The first seeds find all of them with the fewest draws.

A change of the strategies in `graphs.py` draws other examples. If a bug is then no longer found, raise EACH.
"""
SAMPLES: dict[str, st.SearchStrategy[Graph]] = {
    "any": graphs(),
    "joined": joined_graphs(),
    "narrow": graphs(narrow=True),
}
LAWS: dict[str, tuple[str, Callable[[Graph, random.Random], object]]] = {
    "reference": ("any", lambda graph, _: laws.reference(graph)),
    "joins": ("joined", lambda graph, _: laws.reference(graph)),
    "order": ("any", laws.order),
    "duplicate": ("any", lambda graph, chance: laws.duplicate(graph, chance.randrange(99), chance)),
    "ownership": ("any", lambda graph, _: laws.ownership(graph, silent=False)),
    "nesting": ("narrow", lambda graph, _: laws.nesting(graph)),
    "straight end": ("narrow", lambda graph, _: laws.straight_end(graph)),
    "straight joins": ("joined", lambda graph, _: laws.straight_end(graph)),
    "straight steps": ("narrow", lambda graph, _: laws.straight_steps(graph)),
    "straight ownership": ("narrow", lambda graph, _: laws.ownership(graph, silent=True)),
}
"""The examples of each law, and the law."""


@functools.cache
def batch(kind: str, number: int) -> tuple[Graph, ...]:
    """The random graphs of one seed: the same each time, and similar."""
    found: list[Graph] = []

    @seed(number)
    @settings(max_examples=EACH, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(SAMPLES[kind])
    def collect(graph: Graph) -> None:
        found.append(graph)

    collect()
    return tuple(found)


def sample(kind: str) -> Iterator[Graph]:
    """The graphs of all seeds, drawn lazily: drawing one takes ten times as long as running it.

    A planted bug does not change them: the strategies do not depend on the engine.
    """
    for number in SEEDS:
        yield from batch(kind, number)


def broken_after(law: str) -> int | None:
    """The number of examples until the law is broken; None if it holds for all."""
    kind, holds = LAWS[law]
    for count, graph in enumerate(sample(kind), 1):
        try:
            holds(graph, random.Random(count))
        except Exception:  # noqa: BLE001 - an assertion of the law, or a broken engine that cannot continue
            return count
    return None


@pytest.mark.parametrize("bug", [*GENERAL, *STRAIGHT], ids=lambda bug: bug.name)
def test_planted_bug_is_detected(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)

    assert broken_after(bug.law) is not None, (
        f"{bug.law} does not notice: {bug.name} (after a change of the strategies: raise EACH)"
    )


@pytest.mark.parametrize("law", LAWS)
def test_law_holds_without_a_bug(law: str) -> None:
    """Otherwise the detections above would prove nothing. The tests of the laws themselves use more graphs."""
    kind, holds = LAWS[law]
    for count, graph in enumerate(itertools.islice(sample(kind), 20), 1):
        holds(graph, random.Random(count))
