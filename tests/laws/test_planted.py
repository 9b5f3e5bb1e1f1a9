"""The laws notice: each of many bugs, planted in the live engine, is found by the law that it breaks."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from graphrt.errors import GraphrtError

from . import laws
from .description import Field, Graph
from .graphs import graphs, joined_graphs
from .planted import GENERAL, STRAIGHT, Bug

EXAMPLES = 400
"""So many at most; most bugs are found within a few."""


def lasting(graph: Graph) -> Graph:
    return dataclasses.replace(graph, fields=tuple(dataclasses.replace(each, ephemeral=False) for each in graph.fields))


LAWS: dict[str, tuple[st.SearchStrategy[Graph], Callable[[Graph, random.Random], object]]] = {
    "reference": (graphs(), lambda graph, _: laws.reference(graph)),
    "joins": (joined_graphs(), lambda graph, _: laws.reference(graph)),
    "order": (graphs(fatal=False), laws.order),
    "duplicate": (graphs(), lambda graph, chance: laws.duplicate(graph, chance.randrange(99), chance)),
    "ownership": (graphs(), lambda graph, _: laws.ownership(graph, silent=False)),
    "nesting": (graphs(narrow=True), lambda graph, _: laws.nesting(graph)),
    "straight end": (graphs(narrow=True), lambda graph, _: laws.straight_end(graph)),
    "straight joins": (joined_graphs(), lambda graph, _: laws.straight_end(graph)),
    "straight steps": (graphs(narrow=True), lambda graph, _: laws.straight_steps(graph)),
    "silent ownership": (graphs(narrow=True), lambda graph, _: laws.ownership(graph, silent=True)),
}


@functools.cache
def sample(law: str) -> list[Graph]:
    """The same random graphs each time."""
    found: list[Graph] = []

    @seed(1)
    @settings(max_examples=EXAMPLES, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(LAWS[law][0])
    def collect(graph: Graph) -> None:
        found.append(graph)

    collect()
    return found


def broken_after(law: str) -> int | None:
    """How many examples it takes until the law does not hold; None if it holds for all."""
    for count, graph in enumerate(sample(law), 1):
        try:
            LAWS[law][1](graph, random.Random(count))
        except Exception:  # an assertion of the law, or a broken engine that cannot go on
            return count
    return None


@pytest.mark.parametrize("bug", [*GENERAL, *STRAIGHT], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    sample(bug.law)
    bug.plant(monkeypatch)

    assert broken_after(bug.law) is not None, f"{bug.law} does not notice: {bug.name}"


@pytest.mark.parametrize("law", LAWS)
def test_without_a_bug_the_law_holds(law: str) -> None:
    """Else what is found above would say nothing."""
    for count, graph in enumerate(sample(law)[:60], 1):
        LAWS[law][1](graph, random.Random(count))
