"""2 to 8 processes claim one thread at the same moment: one gets it, the others get an error, and the work is done once
(R12).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from graphrt import Runtime
from graphrt.events import EffectRecorded, RunCompleted, RunResumed, RunStarted, SuperstepCommitted
from graphrt.stores import open_store

from . import work
from .crowd import Crowd

FULL = os.environ.get("GRAPHRT_FULL") == "1"
TRIALS = 200 if FULL else 14
"""Each verb twice; all sizes from 2 to 8 processes occur, and in full runs each verb with each of them."""
VERBS = ("resume", "retry", "orphan", "start", "start held", "resume held", "retry held")
MOST = 8


@pytest.fixture(scope="module")
def crowd():
    made = Crowd(MOST)
    yield made
    made.end()


class Figures:
    """The results of the trials of one store."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.waits_s: list[float] = []

    def told(self) -> str:
        waits = sorted(self.waits_s)
        return json.dumps(
            {
                "ends": self.ends,
                "losers_ms": {
                    "median": round(1e3 * waits[len(waits) // 2], 1),
                    "p99": round(1e3 * waits[int(len(waits) * 0.99)], 1),
                    "most": round(1e3 * waits[-1], 1),
                },
            }
        )


def one_trial(crowd, url, store, ledger: Path, number: int, figures: Figures, **more) -> None:
    verb, _, held = VERBS[number % len(VERBS)].partition(" ")
    racing = 2 + (number // len(VERBS) * 3 + number) % (MOST - 1)
    thread = f"trial-{number}"
    mine = Runtime(work.graph(), store=store, deps=work.Deps(ledger))
    failing = Runtime(work.graph(), store=store, deps=work.Deps(ledger, fail=True))
    work.make_ready(mine, failing, verb, thread)

    found = crowd.race(
        racing,
        url=url,
        ledger=str(ledger),
        thread=thread,
        verb=f"{verb} {held}".strip() if held and verb == "start" else verb,
        hold=bool(held),
        face=("sync", "async")[number // 2 % 2],
        **more,
    )

    winners = [one for one in found if "status" in one]
    losers = [one for one in found if "status" not in one]
    assert len(winners) == 1, found
    asks = verb == "start" and not held
    assert winners[0]["status"] == ("interrupted" if asks else "completed")
    for one in losers:
        late = not held and (one["error"], one["code"]) == ("InputError", "wrong-verb")
        assert late or (one["error"], one["code"]) == ("ConflictError", "conflict"), one
        if late:
            assert ("is interrupted" if asks else "is completed") in one["told"]
        figures.ends["late" if late else "conflict"] += 1
        figures.waits_s.append(one["took_s"])
    figures.ends["won"] += 1
    check_line(mine, thread, verb, ledger, winners[0]["pid"], asks=asks)


def check_line(runtime, thread: str, verb: str, ledger: Path, winner: int, *, asks: bool) -> None:
    """Check for one journal without gaps or forks, one payment, one end."""
    paid = [line.split() for line in ledger.read_text().splitlines() if line.startswith(f"{thread} ")]
    assert paid == [[thread, str(winner)]]
    entries = list(runtime.entries(thread))
    kinds = Counter(type(entry.event) for entry in entries)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    steps = [entry.event.superstep for entry in entries if isinstance(entry.event, SuperstepCommitted)]
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    assert steps[-1] == (3 if asks else 4)
    assert kinds[EffectRecorded] == 1
    assert kinds[RunCompleted] == (0 if asks else 1)
    assert kinds[RunResumed] == (0 if verb == "start" else 1)
    assert kinds[RunStarted] == (0 if verb == "orphan" else 1)
    snapshot = runtime.replay(thread)
    assert snapshot.values["paid"] == 10
    if verb in work.END_NOTES:
        assert snapshot.values["notes"] == work.END_NOTES[verb]
    assert not runtime.store.head(thread).owned


def test_one_of_many_processes_wins(crowd, url, tmp_path, told):
    ledger = tmp_path / "ledger"
    ledger.touch()
    figures = Figures()
    with open_store(url) as store:
        for number in range(TRIALS):
            one_trial(crowd, url, store, ledger, number, figures)
    told(f"{TRIALS} races on {url.partition(':')[0]}: {figures.told()}")


def test_careless_processes_are_detected(tmp_path):
    """A control of the trials: without owners and epochs they do not all end with one winner and a conflict."""
    url, ledger = f"sqlite:///{tmp_path}/runs.db", tmp_path / "ledger"
    ledger.touch()
    crowd = Crowd(2)

    def trials(store) -> None:  # several, because the processes do not overlap in each
        for number in range(VERBS.index("resume held"), 50 * len(VERBS), len(VERBS)):
            one_trial(crowd, url, store, ledger, number, Figures(), careless=True)

    try:
        with open_store(url) as store, pytest.raises(AssertionError):
            trials(store)
    finally:
        crowd.end()
