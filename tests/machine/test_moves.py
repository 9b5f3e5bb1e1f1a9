"""Short examples that the machine rarely draws: a nested graph in which one task fails repeatedly while another asks."""

from __future__ import annotations

import itertools

import pytest

from graphrt._engine import storability
from laws.description import Field, Graph, Node

from . import editing, machine
from .editing import Threads
from .machine import How
from .test_machine import LARGE_BYTES, places  # noqa: F401 - a fixture


def nesting(asks: int) -> Graph:
    """`d` runs `P`, which asks several times, beside `R`, which asks once and can be broken; `a` asks beside `d`."""
    fields = (Field(name="log", reducer="append"),)
    inner = Graph(
        fields=fields,
        nodes=(Node(name="P", asks=asks), Node(name="R", asks=1, flaky=2)),
        edges=((None, "P"), (None, "R")),
    )
    nodes = (Node(name="d", child=inner), Node(name="a", asks=1, pauses="before"))
    return Graph(fields=fields, nodes=nodes, edges=((None, "d"), (None, "a")))


BREAK_R = 3
"""Number of `R` among the nodes: `d`, `a`, `P`, `R`."""


NUMBERS = ([2, 1, 1, 1], [9, 2, 2, 1])
CUTS = (None, (0, True), (1, True), (2, False))
GAMES = [
    pytest.param(cut, numbers, asks, marks=() if (place + asks) % 3 == 0 else pytest.mark.full)
    for place, (cut, numbers) in enumerate(itertools.product(CUTS, NUMBERS))
    for asks in (1, 2, 3)
]
"""Every interruption with every choice of answers, alternating numbers of questions; all of them in full runs."""


@pytest.mark.needs("psycopg", "cryptography")
@pytest.mark.parametrize(("cut", "numbers", "asks"), GAMES)
def test_nested_graph_that_fails_twice_agrees_with_the_model(places, monkeypatch, asks, numbers, cut):  # noqa: F811
    monkeypatch.setattr(storability, "BLOB_BYTES", LARGE_BYTES)
    for module in (machine, editing):
        monkeypatch.setattr(module, "event", lambda *_: None)  # there is no Hypothesis test around
    Threads.places = places
    game = Threads()
    try:
        game.begin(graph=nesting(asks))
        game.start(how=How())
        game.break_or_mend(number=BREAK_R)
        game.advance(which=0, how=How(backwards=True), writes=[], numbers=numbers)
        game.advance(which=0, how=How(), writes=[], numbers=numbers)
        if cut is not None:
            game.go_on(game.pick(0), How(cut=cut), [], [])
        game.break_or_mend(number=BREAK_R)
        for _ in range(6):
            if game.pick(0).status != "completed":
                game.advance(which=0, how=How(), writes=[], numbers=[1, 1, 1, 1])
        game.replay(which=0)
        assert game.pick(0).status == "completed"
    finally:
        game.teardown()
