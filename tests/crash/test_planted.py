"""The trials detect bugs: each of many bugs, planted in the killed processes, makes some trials fail."""

from __future__ import annotations

import pytest

from .planted import BUGS
from .trial import Plan


def on(store):
    return [pytest.mark.needs("psycopg")] if store == "postgres" else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=on(bug.store)) for name, bug in BUGS.items()])
def test_planted_bug_is_detected(ground, name):
    bug = BUGS[name]
    wanted, _ = ground.reference(bug.store, "run")
    trials = ground.trials(bug.store, "run", bug=name)
    plans = [Plan(tuple(kills.split("+"))) for kills in bug.kills]

    assert any(trials.run(wanted, plan) for plan in plans), f"nobody noticed: {name}"


@pytest.mark.parametrize("store", [pytest.param(store, marks=on(store)) for store in ("sqlite", "postgres")])
def test_same_kills_are_survived_without_a_bug(ground, record_property, store):
    """Otherwise the detections above would prove nothing."""
    wanted, _ = ground.reference(store, "run")
    trials = ground.trials(store, "run")
    kills = {bug.kills[-1] for bug in BUGS.values() if bug.store == store}
    tally = trials.run_all(wanted, [Plan(tuple(one.split("+"))) for one in sorted(kills)])
    for name, number in tally.numbers().items():
        record_property(name, number)

    assert not tally.failures, "\n".join(tally.failures)
