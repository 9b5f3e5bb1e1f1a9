"""A thread survives the death of its process at any point: it reaches the same end.

No finished task runs again, every reducer is applied once, no effect of the kind `once` is repeated silently, and the
thread stays readable, in some state of the undisturbed life.
"""

from __future__ import annotations

import pytest

from . import plans
from .plans import FULL

BATCHES = 40 if FULL else 3
KINDS = [(store, face) for store in ("sqlite", "postgres") for face in ("run", "arun")]
psycopg = pytest.mark.needs("psycopg")


def marked(kinds):
    return [pytest.param(*kind, marks=[psycopg] if kind[0] == "postgres" else []) for kind in kinds]


def planned(ground, store, face):
    """All kills of a kind."""
    wanted, taken_s = ground.reference(store, face)
    seed = f"{store} {face}"
    shift = (face == "arun") + 2 * (store == "postgres")  # the four kinds divide the calls of a life
    found = plans.every_point(wanted.points) if FULL else plans.every_call(wanted.points, shift, step=8)
    found += plans.UNKNOWN
    found += plans.twice(wanted.points, 75 if FULL else 3, seed)
    found += plans.moments(taken_s, 45 if FULL else 2, seed)
    return found


def run(ground, record_property, batch, batches, store, face):
    wanted, _ = ground.reference(store, face)
    chosen = planned(ground, store, face)[batch::batches]
    tally = ground.trials(store, face).run_all(wanted, chosen)
    for name, number in tally.numbers().items():
        record_property(name, number)

    assert not tally.failures, "\n".join(tally.failures[:20])
    aimed = [plan for plan in chosen if not isinstance(plan.kills[0], float)]  # others may come after the end of a life
    assert tally.kills >= 0.8 * len(aimed), "most processes are to die"


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize(("store", "face"), marked(KINDS))
def test_killed_thread_reaches_the_same_end(ground, record_property, store, face, batch):
    run(ground, record_property, batch, BATCHES, store, face)


@psycopg
@pytest.mark.parametrize("face", ["run", "arun"])
def test_thread_survives_a_kill_during_the_creation_of_tables(ground, record_property, face):
    wanted, _ = ground.reference("empty", face)
    ready = next(at for at, name in enumerate(wanted.points) if name == "claim<")
    every = plans.every_point(wanted.points[:ready])
    tally = ground.trials("empty", face).run_all(wanted, every if FULL else every[::11])
    for name, number in tally.numbers().items():
        record_property(name, number)

    assert not tally.failures, "\n".join(tally.failures[:20])
    assert tally.kills == tally.trials


@psycopg
def test_there_are_enough_kills(ground):
    count = sum(len(plan.kills) for kind in KINDS for plan in planned(ground, *kind))

    assert count >= (2_000 if FULL else 80)


@pytest.mark.parametrize(("store", "face"), marked(KINDS))
def test_undisturbed_life_is_the_same_everywhere(ground, store, face):
    """On each store and with each verb: the same entries and the same states."""
    wanted, _ = ground.reference("sqlite", "run")
    found, _ = ground.reference(store, face)

    assert found.entries == wanted.entries
    assert found.values == wanted.values


@pytest.mark.parametrize(("store", "face"), marked(KINDS))
def test_points_are_around_every_kind_of_write(ground, store, face):
    """Otherwise the kills above would prove less."""
    wanted, _ = ground.reference(store, face)
    names = " ".join(wanted.points)

    assert all(part in names for part in ("claim", "stage", "unstage", "snapshot", "blobs", "meta", "release"))
    assert sum(name.startswith("commit stage") and name.endswith("<") for name in wanted.points) > 20
    assert sum(name.startswith("act once") for name in wanted.points) == 4
