"""What 0.1 wrote is what it was: every thread of every database is read, replayed and gone on with to its end."""

from __future__ import annotations

from typing import Any

import pytest

from . import telling
from .cases import CASES
from .hand import LATER_S, Case, Hand
from .world import world as outside

SQLITE = "sqlite chained"


def in_hand(case: Case, store: Any, *, ids: str = "later") -> Hand:
    outside.reset(mended=True)
    return Hand(case, store, now_s=LATER_S, ids=ids, later=True)


def gone_on(case: Case, store: Any, way: str, wanted: Any, *, thread: str | None = None) -> Hand:
    """Go on with the thread by *way*: it has to end as it did by the hand of the release itself."""
    hand = in_hand(case, store)
    hand.thread = thread or case.name
    case.ways[way](hand)
    found = telling.outcome(hand.runtime, hand.thread, hand.told)
    if any(question[0].endswith("#after") for question in wanted["questions"]):
        # when a node is seen by a person may change, how often it runs and what comes of it may not
        found["told"] = wanted["ways"][way]["told"]
    assert found == wanted["ways"][way]
    return hand


def looked_at(case: Case, store: Any, thread: str, values: Any) -> None:
    """Look at the thread with a runtime that has never seen it."""
    fresh = in_hand(case, store, ids="looking").runtime
    assert telling.plain(fresh.state(thread).values) == values
    assert telling.plain(fresh.replay(thread).values) == values
    assert telling.plain(fresh.history(thread)[0].values) == values


@pytest.mark.parametrize("world", [SQLITE])
def test_every_thread_that_was_written_is_known(expected, opened, world):
    names = {case.name for case in CASES}
    with opened(world, "done") as store:
        found = {head.thread for head in store.heads()}

    assert set(expected["threads"]) == names == {name for name in found if not name.endswith("-source")}


def test_thread_stands_and_tells_its_past_as_it_was_left(opened, expected, world, case):
    wanted = expected["threads"][case.name]
    with opened(world, case.name) as store:
        runtime = in_hand(case, store).runtime
        stands = telling.standing(runtime, case.name)
        past = telling.past(runtime, case.name)

        assert stands == {name: wanted[name] for name in stands}
        assert telling.stored(store, case.name) == expected["stored"][world][case.name]
        journal = telling.journal(runtime, case.name)
        assert telling.is_part_of(wanted["journal"], [telling.as_version_1(entry) for entry in journal])
        assert [one for one in wanted["history"] if one not in past] == []
        looked_at(case, store, case.name, wanted["values"])
        assert telling.standing(runtime, case.name) == stands


def test_thread_goes_on_to_the_same_end(opened, expected, world, case):
    """What had finished does not run again; what was stored stays as it was; all of it can be replayed."""
    wanted = expected["threads"][case.name]
    way = next(iter(case.ways))
    with opened(world, case.name) as store:
        gone_on(case, store, way, wanted)

        assert telling.stored(store, case.name, upto=wanted["seq"]) == expected["stored"][world][case.name]
        looked_at(case, store, case.name, wanted["ways"][way]["values"])


def test_thread_goes_on_each_way_to_the_same_end(opened, expected, case, way):
    wanted = expected["threads"][case.name]
    with opened(SQLITE, case.name) as store:
        gone_on(case, store, way, wanted)
        looked_at(case, store, case.name, wanted["ways"][way]["values"])


@pytest.mark.slow
def test_copy_of_a_thread_goes_on_to_the_same_end(opened, expected, case):
    wanted = expected["threads"][case.name]
    way = next(iter(case.ways))
    with opened(SQLITE, case.name) as store:
        thread = in_hand(case, store).runtime.copy_thread(case.name, "copy")
        gone_on(case, store, way, wanted, thread=thread)
        looked_at(case, store, thread, wanted["ways"][way]["values"])


@pytest.mark.slow
def test_thread_that_is_pruned_goes_on_to_the_same_end(opened, expected, case):
    wanted = expected["threads"][case.name]
    way = next(iter(case.ways))
    with opened(SQLITE, case.name) as store:
        in_hand(case, store).runtime.prune(case.name)
        gone_on(case, store, way, wanted)
        looked_at(case, store, case.name, wanted["ways"][way]["values"])


@pytest.mark.slow
def test_fork_of_a_thread_goes_on_to_the_same_end(opened, expected, case):
    wanted = expected["threads"][case.name]
    way = next(iter(case.ways))
    with opened(SQLITE, case.name) as store:
        thread = in_hand(case, store).runtime.fork(case.name, to="fork")
        gone_on(case, store, way, wanted, thread=thread)
        looked_at(case, store, thread, wanted["ways"][way]["values"])


@pytest.mark.slow
@pytest.mark.parametrize("small", [pytest.param(case, id=case.name) for case in CASES if not case.bulky])
def test_thread_that_is_edited_goes_on_to_the_same_end(opened, expected, small):
    case = small
    wanted = expected["threads"][case.name]["ways"][next(iter(case.ways))]
    with opened(SQLITE, case.name) as store:
        hand = in_hand(case, store)
        hand.update({"notes": ["edited"]})
        next(iter(case.ways.values()))(hand)
        found = telling.outcome(hand.runtime, case.name, hand.told)

        assert found["status"] == wanted["status"]
        assert found["ran"] == wanted["ran"]
        assert without_edits(found["values"]) == without_edits(wanted["values"])
        looked_at(case, store, case.name, found["values"])


def without_edits(values: Any) -> Any:
    """*values* without the note of the edit."""
    if isinstance(values, dict):
        return {name: without_edits(value) for name, value in values.items()}
    return [item for item in values if item != "edited"] if isinstance(values, list) else values


def test_graphs_are_those_that_the_threads_were_written_with(expected):
    """The fingerprint of a graph does not change with the version of graphrt."""
    changed = [
        case.name
        for case in CASES
        for entry in expected["threads"][case.name]["journal"]
        if (begun := entry["Entry"]["event"].get("RunStarted")) and begun["fingerprint"] != case.graph().fingerprint
    ]

    assert changed == []
