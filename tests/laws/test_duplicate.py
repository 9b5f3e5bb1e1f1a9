"""The law of duplicates: a signal twice adds nothing; messages may come late, twice and in any order."""

from __future__ import annotations

import random

from hypothesis import event, given
from hypothesis import strategies as st

from . import hands, laws
from .description import Field, Graph, Node, Turn, Write
from .graphs import graphs, joined_graphs

SALTS = st.integers(0, 99)
CHANCE = st.integers(0, 9_999).map(random.Random)  # a random number of its own would be a draw of Hypothesis each


@given(graph=graphs(), salt=SALTS, chance=CHANCE)
def test_messages_that_come_twice_late_and_in_any_order_add_nothing(
    graph: Graph, salt: int, chance: random.Random
) -> None:
    plain = laws.duplicate(graph, salt, chance)

    event("retries", sum(entry["event"] == "task-retried" for entry in plain.journal))


@given(graph=joined_graphs(), salt=SALTS, chance=CHANCE)
def test_arrivals_at_joins_are_not_counted_twice(graph: Graph, salt: int, chance: random.Random) -> None:
    laws.duplicate(graph, salt, chance)


@given(graph=graphs(fatal=False), times=st.integers(2, 3), chance=CHANCE)
def test_a_driver_may_tell_each_outcome_several_times(graph: Graph, times: int, chance: random.Random) -> None:
    laws.order(graph, chance, times=times)


def test_the_post_does_repeat_and_reorder() -> None:
    """Else the laws above would hold for nothing."""
    nodes = tuple(Node(name, (Turn((Write("log", place),)),)) for place, name in enumerate("abc"))
    graph = Graph((Field("log", "append"),), nodes, tuple((None, node.name) for node in nodes))
    runs = [hands.by_hand(graph, 1, random.Random(seed)) for seed in range(20)]

    assert {tuple(run.state()["log"]) for run in runs} == {(0, 0, 1, 2, 2)}
    assert any(len(set(run.delivered)) < len(run.delivered) for run in runs)
    assert len({tuple(dict.fromkeys(task for task, _ in run.delivered)) for run in runs}) > 3
    assert any(execution > 1 for run in runs for _, execution in run.delivered)
