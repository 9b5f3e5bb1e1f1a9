"""Threads of the last code that kept model calls as results of effects: read, replayed and gone on with to their end."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graphrt import events
from graphrt._journal.reader import Reader
from graphrt._journal.thread_meta import read_meta
from graphrt.harness import TokenTracker
from graphrt.stores import open_store

from . import telling
from .cases_budgets import CASES
from .hand import LATER_S, Case, Hand
from .world import world

RELEASE = Path(__file__).parent / "v0_1_budgets"
EXPECTED = json.loads(gzip.decompress((RELEASE / "expected.json.gz").read_bytes()))
every_case = pytest.mark.parametrize("thread", CASES, ids=lambda case: case.name)
every_way = pytest.mark.parametrize(
    ("thread", "on"), [pytest.param(case, way, id=f"{case.name}-{way}") for case in CASES for way in case.ways]
)
KEPT: dict[str, Any] = {
    "reply-remembered": {events.ModelReplied: 1, events.EffectRecorded: 1},
    "budget-asked": {events.ModelReplied: 2, events.BudgetHeld: 2},
    "budget-granted": {events.ModelReplied: 3, events.BudgetHeld: 3, events.BudgetGranted: 1},
    "reservation-lost": {events.ModelReplied: 1, events.BudgetHeld: 2},
    "reservation-lost-asks": {events.ModelReplied: 1, events.BudgetHeld: 2},
    "reservation-released": {events.ModelReplied: 1, events.BudgetHeld: 1, events.BudgetReleased: 1},
    "asked-anew": {events.ModelReplied: 2, events.RepliesDiscarded: 1},
    "replies-committed": {events.ModelReplied: 2, events.BudgetHeld: 2},
}
"""What each thread has of its model calls, by class of event: in its journal, or staged for its open superstep."""


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], Any]:
    """Opens a store with all threads as they were left."""

    @contextmanager
    def opened() -> Iterator[Any]:
        path = tmp_path / "runs.db"
        path.write_bytes(gzip.decompress((RELEASE / "chained.db.gz").read_bytes()))
        with open_store(f"sqlite:///{path}") as store:
            yield store
        shutil.rmtree(tmp_path)

    return opened


def in_hand(case: Case, store: Any) -> Hand:
    world.reset(mended=True)
    return Hand(case, store, now_s=LATER_S, ids="later", later=True)


@every_case
def test_thread_says_what_it_said(opened: Any, thread: Case) -> None:
    wanted = EXPECTED["threads"][thread.name]
    with opened() as store:
        runtime = in_hand(thread, store).runtime
        stands = telling.standing(runtime, thread.name)
        journal = [telling.as_version_1(entry) for entry in telling.journal(runtime, thread.name)]

        assert stands == {name: wanted[name] for name in stands}
        assert telling.past(runtime, thread.name) == wanted["history"]
        assert telling.is_part_of(wanted["journal"], journal)
        assert telling.stored(store, thread.name) == EXPECTED["stored"][thread.name]
        assert telling.plain(runtime.replay(thread.name).values) == wanted["values"]
        assert runtime.verify().ok


@every_case
def test_usage_is_what_it_was(opened: Any, thread: Case) -> None:
    wanted = EXPECTED["threads"][thread.name]["usage"]
    with opened() as store:
        runtime = in_hand(thread, store).runtime
        tracker = TokenTracker().read(runtime.entries(thread.name))

        assert telling.is_part_of(wanted["state"], telling.plain(runtime.state(thread.name).usage))
        assert telling.is_part_of(wanted["tracker"], telling.plain(tracker.summary()))


@every_case
def test_what_was_kept_of_model_calls_is_read_as_events(opened: Any, thread: Case) -> None:
    with opened() as store:
        runtime = in_hand(thread, store).runtime
        loaded = store.load(thread.name)
        reader = Reader(
            store, thread.name, thread.graph().__graphrt_plan__.codec, meta=read_meta(loaded.meta, thread.name)
        )
        told = {repr(entry.event) for entry in runtime.entries(thread.name)}
        told |= {repr(event) for key, body in loaded.staged for _, event in reader.staged(key, body)}

        for kind, number in KEPT[thread.name].items():
            assert sum(one.startswith(f"{kind.__name__}(") for one in told) >= number, kind
        assert not [one for one in told if "EffectRecorded" in one and "model/0/mine#0" not in one]


@every_way
def test_thread_goes_on_to_the_same_end(opened: Any, thread: Case, on: str) -> None:
    """No model is called that had replied, a lost reservation counts as used, and a grant as granted."""
    wanted = EXPECTED["threads"][thread.name]
    with opened() as store:
        hand = in_hand(thread, store)
        thread.ways[on](hand)

        assert telling.outcome(hand.runtime, thread.name, hand.told) == wanted["ways"][on]
        assert telling.stored(store, thread.name, upto=wanted["seq"]) == EXPECTED["stored"][thread.name]
        assert hand.runtime.replay(thread.name).values == hand.runtime.state(thread.name).values
        assert hand.runtime.verify().ok


@every_way
@pytest.mark.slow
def test_copy_and_fork_of_a_thread_go_on_to_the_same_end(opened: Any, thread: Case, on: str) -> None:
    wanted = EXPECTED["threads"][thread.name]["ways"][on]
    with opened() as store:
        for name in ("copy", "fork"):
            hand = in_hand(thread, store)
            if name == "copy":
                hand.thread = hand.runtime.copy_thread(thread.name, name)
            else:
                hand.thread = hand.runtime.fork(thread.name, to=name)
            thread.ways[on](hand)
            found = telling.outcome(hand.runtime, hand.thread, hand.told)

            assert found["values"] == wanted["values"]
