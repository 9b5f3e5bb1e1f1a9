"""The search of all explorers: lists of choices are walked and shrunk, and the smallest cases are kept."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from graphrt import END, START, Context, GraphBuilder, InputError
from graphrt.testing import Exploration, explore_crashes, explore_forks, explore_routes, explore_schedules
from graphrt.testing.exploring._user_functions import FunctionError
from graphrt.testing.exploring.search import Search, StopSearch, shrink, trimmed, walk_all


@dataclass
class Walked:
    """A run with three choices, each between three alternatives."""

    path: tuple[int, ...]

    @property
    def sites(self) -> list[tuple[str, int]]:
        return [(f"choice {at}", 3) for at in range(len(self.path))]

    @property
    def depths(self) -> range:
        return range(len(self.path))


def run(prefix: Sequence[int], _sites: object = ()) -> Walked:
    return Walked((*prefix, 0, 0, 0)[:3])


def search() -> Search[int]:
    return Search(
        "schedules", size=lambda size: size, shown=lambda key, size: (f"{key} {size}", "again()"), progress=False
    )


def test_every_list_of_choices_is_run_once() -> None:
    paths: list[tuple[int, ...]] = []

    def noted(prefix: tuple[int, ...], sites: Sequence[Any]) -> Walked:
        assert len(sites) == len(prefix)
        paths.append(run(prefix).path)
        return run(prefix)

    assert walk_all(noted, max_runs=27)
    assert sorted(paths) == list(itertools.product(range(3), repeat=3))


def test_walk_ends_at_its_bound_and_alternates_short_and_long_lists() -> None:
    prefixes: list[tuple[int, ...]] = []

    def noted(prefix: tuple[int, ...], _sites: object) -> Walked:
        prefixes.append(prefix)
        return run(prefix)

    assert not walk_all(noted, max_runs=3)
    assert [len(prefix) for prefix in prefixes] == [0, 3, 1]


@pytest.mark.parametrize(("leave_out", "smallest"), [(False, (0, 0, 0, 2)), (True, (2,))])
def test_irrelevant_choices_become_zero_or_are_dropped(leave_out: bool, smallest: tuple[int, ...]) -> None:
    def shows(path: tuple[int, ...]) -> Walked | None:
        found.append(path)
        return Walked(path) if 2 in path else None

    found: list[tuple[int, ...]] = []
    kept: list[tuple[int, ...]] = [(1, 1, 1, 2)]

    def size(made: Walked) -> tuple[int, int]:
        kept.append(min(kept[-1], made.path, key=lambda path: (sum(path), len(path))))
        return sum(made.path), len(made.path)

    shrink(Walked((1, 1, 1, 2)), shows, size, leave_out=leave_out)

    assert kept[-1] == smallest
    assert len(found) < 20


def test_trailing_zeros_of_a_list_are_irrelevant() -> None:
    assert trimmed([0, 2, 0, 0]) == (0, 2)


def test_smallest_case_of_a_bug_is_kept_and_reported_first() -> None:
    made = search()
    new = [made.keep([("hangs", "a", f"case of {size}")], size) for size in (5, 3, 4)]
    made.keep([("mutated-input", "b", "changed")], 1)

    assert new == [{("hangs", "a")}, set(), set()]
    assert [(one.kind, one.text, one.replay) for one in made.report("shop").findings] == [
        ("mutated-input", "changed", "again()"),
        ("hangs", "case of 3", "again()"),
    ]


def test_search_that_ends_early_reports_why() -> None:
    stopped, pressed, failed = search(), search(), search()
    with stopped.going_on():
        raise StopSearch("everything else, since two runs differ")
    with pressed.going_on():
        raise KeyboardInterrupt
    with failed.going_on():
        raise FunctionError("options= raised ValueError: no")

    assert stopped.report("shop").left_out == ("everything else, since two runs differ",)
    assert pressed.report("shop").interrupted
    assert [one.kind for one in failed.report("shop").findings] == ["function-failed"]


# -- mistakes in the call ----------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    count: int


def graph(node: Any) -> Any:
    g = GraphBuilder(State, name="one")
    g.add_node("work", node)
    return g.add_sequence([START, "work", END]).compile()


def unchanged(state: State) -> None:
    """Change nothing."""


@pytest.mark.parametrize("explore", [explore_schedules, explore_crashes, explore_forks, explore_routes])
@pytest.mark.parametrize(
    ("input", "options", "told"),
    [
        ({"counts": 1}, None, "not a field of the state: 'counts'"),
        ({}, lambda: {"dep": 1}, "dep= is not an option of a runtime"),
        ({}, {"deps": 1}, "options= cannot be {'deps': 1}"),
    ],
)
def test_search_refuses_an_input_or_an_option_that_no_run_takes(
    explore: Any, input: Any, options: Any, told: str
) -> None:
    """A search of runs that all fail at their input would find nothing."""
    with pytest.raises(InputError, match=told):
        explore(graph(unchanged), input, options=options)


@pytest.mark.parametrize("explore", [explore_schedules, explore_crashes, explore_forks])
def test_misuse_inside_a_node_is_left_to_the_search(explore: Any) -> None:
    def work(state: State, ctx: Context) -> None:
        ctx.effect("name", 5)  # type: ignore[arg-type]  # the mistake

    found: Exploration = explore(graph(work), {})
    assert any("ctx.effect() takes a name" in reason for reason in found.left_out)
