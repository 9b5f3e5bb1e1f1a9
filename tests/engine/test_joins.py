"""Generations of a join (R5): one arrival after another."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import START, Command
from graphrt._engine.join_state import JoinState
from graphrt.errors import StarvedJoinError

from .support import engine, reply


def arrivals(word: str, when: Any, starved: str = "error") -> str:
    """Sources a, b, c arrive; an upper-case letter in the answer is an arrival that fired."""
    run = engine("abcz", more=lambda g: g.set_entry("a").add_join(["a", "b", "c"], "z", when=when, starved=starved))
    join = JoinState(run.plan.joins[0])
    return "".join(each.upper() if join.arrive("abc".index(each)) else each for each in word)


@pytest.mark.parametrize(
    ("when", "fired"),
    [
        ("all", "abCabC"),
        ("all", "aabbC"),
        ("any", "AbcAbc"),
        ("any", "AAA"),
        ("any", "AbAbcB"),
        (2, "aBcaBc"),
        (2, "aaBaCb"),
        (2, "aBbAccB"),
        (1, "AA"),
    ],
)
def test_a_join_fires_once_per_generation(when: Any, fired: str) -> None:
    assert arrivals(fired.lower(), when) == fired


def test_a_join_is_starved_if_some_arrived_and_it_never_fired() -> None:
    join = JoinState(engine("abcz", more=lambda g: g.set_entry("a").add_join(["a", "b", "c"], "z")).plan.joins[0])
    assert (join.starved, join.missing()) == (False, [0, 1, 2])
    join.arrive(1)
    assert (join.starved, join.missing()) == (True, [0, 2])
    join.arrive(0)
    join.arrive(2)
    assert not join.starved


def test_error_of_a_starved_join_names_the_missing_sources() -> None:
    run = engine("abcz", [(START, "a")], more=lambda g: g.add_join(["a", "b", "c"], "z"))

    with pytest.raises(StarvedJoinError) as caught:
        reply(run)
    assert (caught.value.node, caught.value.nodes) == ("z", ("b", "c"))


@pytest.mark.parametrize(("starved", "then"), [("ignore", []), ("run", ["z"])])
def test_starved_join_may_be_ignored_or_run(starved: str, then: list[str]) -> None:
    run = engine("abz", [(START, "a")], more=lambda g: g.add_join(["a", "b"], "z", starved=starved))

    assert reply(run) == then


def test_run_join_absorbs_later_sources_and_opens_again_for_counted_ones() -> None:
    run = engine("abz", [(START, "a")], more=lambda g: g.add_join(["a", "b"], "z", starved="run"))

    assert reply(run) == ["z"]
    assert reply(run, z=Command(goto=["b"])) == ["b"]
    assert reply(run) == []  # absorbed: the generation closes

    run = engine("abz", [(START, "a")], more=lambda g: g.add_join(["a", "b"], "z", starved="run"))
    reply(run)
    assert reply(run, z=Command(goto=["a"])) == ["a"]
    assert reply(run) == ["z"]  # the next generation starves as well


def test_new_run_drops_arrivals() -> None:
    run = engine("abz", [(START, "a")], more=lambda g: g.add_join(["a", "b"], "z", starved="ignore"))
    reply(run)
    run.start({})

    assert not run.joins[0].arrived
