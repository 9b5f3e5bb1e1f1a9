"""Joins that wait while a release changes them: nodes are renamed, sources are added and removed."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import START
from graphrt.migrations import Migration

from .support import ask, builder, note


def paused(world: Any, graph: Any) -> Any:
    world.runtime(graph).run({"notes": []}, thread="t")
    return graph


@pytest.mark.parametrize("renamed", ["quick", "slow", "last"])
def test_migration_renames_a_node_of_a_join_that_waits(world, renamed):
    """One source has already arrived, and its arrival is kept."""

    def joined(**names: str) -> Any:
        quick, slow, last = (names.get(name, name) for name in ("quick", "slow", "last"))
        made = builder()
        made.add_node(quick, note("quick"))
        made.add_node("before", note("before"))
        made.add_node(slow, ask("slow"))
        made.add_node(last, note("last"))
        made.add_edge(START, quick).add_edge(START, "before").add_edge("before", slow)
        made.add_join([quick, slow], last)
        return made.compile()

    graph = paused(world, joined())
    changed = joined(**{renamed: "other"})
    moved = Migration(source=graph.fingerprint, nodes={renamed: "other"}, name="rename")
    runtime = world.runtime(changed, migrations=[moved])

    assert runtime.resume("t", "yes").state["notes"] == ["quick", "before", "slow=yes", "last"]
    assert world.runtime(changed).replay("t").status == "completed"


def gathering(*sources: str, **options: Any) -> Any:
    """`quick` notes at once, `slow` asks, and `other` notes in the superstep after: `last` waits for *sources*."""
    made = builder()
    made.add_node("quick", note("quick"))
    made.add_node("slow", ask("slow"))
    made.add_node("other", note("other"))
    made.add_node("last", note("last"))
    made.add_edge(START, "quick").add_edge(START, "before").add_edge("before", "slow").add_edge("slow", "other")
    made.add_node("before", note("before"))
    made.add_join(list(sources), "last", **options)
    return made.compile()


@pytest.mark.parametrize(
    ("old", "new", "notes"),
    [
        (["quick", "slow"], ["quick", "other"], ["other", "last"]),
        (["quick", "slow"], ["quick", "slow", "other"], ["other", "last"]),
        (["quick", "other"], ["quick", "slow"], ["other", "last"]),
        (["quick", "before", "other"], ["quick", "before"], ["other", "last"]),
    ],
    ids=["one is exchanged", "one is added", "exchanged for an earlier one", "the one that is missing is removed"],
)
def test_waiting_join_keeps_its_arrivals_if_its_sources_change(world, old, new, notes):
    paused(world, gathering(*old))
    runtime = world.runtime(gathering(*new))

    assert next(iter(runtime.check_threads())).kind == "compatible"
    got = runtime.resume("t", "yes").state["notes"]

    assert got[:3] == ["quick", "before", "slow=yes"]
    assert sorted(got[3:]) == sorted(notes)
    assert world.runtime(gathering(*new)).replay("t").status == "completed"


def test_a_join_that_ran_does_not_run_again_if_its_sources_change(world):
    paused(world, gathering("quick", "slow", when="any"))
    runtime = world.runtime(gathering("quick", "slow", "other", when="any"))

    assert runtime.resume("t", "yes").state["notes"].count("last") == 1


def test_join_that_replaces_two_keeps_the_arrivals_of_both(world):
    def graph(*joins: list[str]) -> Any:
        made = builder()
        for name in ("a", "b", "d"):
            made.add_node(name, note(name)).add_edge(START, name)
        made.add_node("before", note("before")).add_edge(START, "before")
        made.add_node("slow", ask("slow")).add_edge("before", "slow")
        made.add_node("last", note("last"))
        for sources in joins:
            made.add_join(sources, "last")
        return made.compile()

    paused(world, graph(["a", "slow"], ["b", "slow"]))
    runtime = world.runtime(graph(["a", "b", "slow"]))

    assert runtime.resume("t", "yes").state["notes"].count("last") == 1


def beside(*joins: list[str], when: Any = "all") -> Any:
    """`a` and `b` note at once, `d` and `e` after a question: joins of *joins* wait before `last`."""
    made = builder()
    for name in ("a", "b"):
        made.add_node(name, note(name)).add_edge(START, name)
    made.add_node("before", note("before")).add_edge(START, "before")
    made.add_node("slow", ask("slow")).add_edge("before", "slow")
    for name in ("d", "e"):
        made.add_node(name, note(name)).add_edge("slow", name)
    made.add_node("last", note("last"))
    for sources in joins:
        made.add_join(sources, "last", when=when)
    return made.compile()


@pytest.mark.parametrize("removed", [["a", "b"], ["a", "b", "d"], ["b", "e"]], ids=["that ran", "that waits", "other"])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("when", ["all", "any"])
def test_removed_join_does_not_affect_other_joins_before_its_node(world, removed, is_first, when):
    """Its arrivals do not count for another join, although they may share sources."""
    kept = ["a", "d"]
    paused(world, beside(*([removed, kept] if is_first else [kept, removed]), when=when))
    now = world.runtime(beside(kept, when=when))
    now.run({"notes": []}, thread="alone")

    ran, alone = (now.resume(name, "yes").state["notes"].count("last") for name in ("t", "alone"))

    # The removed join had made `last` due once: alone, or in the same superstep as the other one.
    assert ran == alone + (when == "all" and removed == ["a", "b"])


def test_join_with_other_sources_passes_on_arrivals_over_two_releases(world):
    """The entries of the first graph are folded by the third: the arrivals pass through the second."""
    paused(world, gathering("quick", "slow"))
    world.runtime(gathering("quick", "other")).update("t", {"notes": ["edited"]})
    runtime = world.runtime(gathering("quick", "slow", "other"))

    assert runtime.resume("t", "yes").state["notes"].count("last") == 1
    assert world.runtime(gathering("quick", "slow", "other")).replay("t").status == "completed"


def test_node_that_two_releases_rename_stays_an_arrived_source(world):
    def joined(quick: str) -> Any:
        made = builder()
        made.add_node(quick, note("quick")).add_edge(START, quick)
        made.add_node("before", note("before")).add_edge(START, "before")
        made.add_node("slow", ask("slow")).add_edge("before", "slow")
        made.add_node("last", note("last"))
        made.add_join([quick, "slow"], "last")
        return made.compile()

    first, second, third = joined("quick"), joined("fast"), joined("swift")
    paused(world, first)
    to_second = Migration(source=first.fingerprint, nodes={"quick": "fast"}, name="once")
    to_third = Migration(source=second.fingerprint, nodes={"fast": "swift"}, name="twice")
    world.runtime(second, migrations=[to_second]).update("t", {"notes": ["edited"]})
    runtime = world.runtime(third, migrations=[to_third])

    assert runtime.resume("t", "yes").state["notes"] == ["quick", "before", "edited", "slow=yes", "last"]
    assert world.runtime(third).replay("t").status == "completed"


@pytest.mark.parametrize("is_folded_between", [True, False], ids=["a commit between", "nothing between"])
def test_source_that_one_release_renames_and_the_next_removes_removes_no_other_arrival(world, is_folded_between):
    def joined(*others: str, version: int = 0) -> Any:
        made = builder(version=version)
        made.add_node("before", note("before")).add_edge(START, "before")
        made.add_node("slow", ask("slow")).add_edge("before", "slow")
        made.add_node("last", note("last"))
        for name in others:
            made.add_node(name, note(name)).add_edge(START, name)
        made.add_join([*others, "before", "slow"], "last")
        return made.compile()

    first, second, third = joined("quick"), joined("fast"), joined(version=1)
    paused(world, first)
    moved = Migration(source=first.fingerprint, nodes={"quick": "fast"}, name="rename")
    between = world.runtime(second, migrations=[moved])
    if is_folded_between:
        between.update("t", {"notes": ["edited"]})
    runtime = world.runtime(third, migrations=[moved])

    assert runtime.resume("t", "yes").state["notes"].count("last") == 1
    assert world.runtime(third).replay("t").status == "completed"
