"""The law of duplicates: a repeated signal adds nothing; messages may arrive late, twice and in any order."""

from __future__ import annotations

import random

from hypothesis import event, given
from hypothesis import strategies as st

from . import hands, laws
from .description import Field, Graph, Node, Turn, Write
from .graphs import graphs, joined_graphs

SALTS = st.integers(0, 99)
CHANCE = st.integers(0, 9_999).map(random.Random)  # each random number would be a separate draw of Hypothesis


@given(graph=graphs(), salt=SALTS, chance=CHANCE)
def test_repeated_late_and_reordered_messages_have_no_effect(graph: Graph, salt: int, chance: random.Random) -> None:
    plain = laws.duplicate(graph, salt, chance)

    event("retries", sum(entry["event"] == "task-retried" for entry in plain.journal))


@given(graph=joined_graphs(), salt=SALTS, chance=CHANCE)
def test_arrivals_at_joins_are_not_counted_twice(graph: Graph, salt: int, chance: random.Random) -> None:
    laws.duplicate(graph, salt, chance)


@given(graph=graphs(fatal=False), times=st.integers(2, 3), chance=CHANCE)
def test_driver_may_report_each_outcome_several_times(graph: Graph, times: int, chance: random.Random) -> None:
    laws.order(graph, chance, times=times)


def test_the_post_repeats_and_reorders_messages() -> None:
    """Otherwise the laws above would prove nothing."""
    nodes = tuple(Node(name, (Turn((Write("log", place),)),)) for place, name in enumerate("abc"))
    graph = Graph((Field("log", "append"),), nodes, tuple((None, node.name) for node in nodes))
    runs = [hands.by_hand(graph, 1, random.Random(seed)) for seed in range(20)]

    assert {tuple(run.state()["log"]) for run in runs} == {(0, 0, 1, 2, 2)}
    assert any(len(set(run.delivered)) < len(run.delivered) for run in runs)
    assert len({tuple(dict.fromkeys(task for task, _ in run.delivered)) for run in runs}) > 3
    assert any(execution > 1 for run in runs for _, execution in run.delivered)
