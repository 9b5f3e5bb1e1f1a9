"""Two executions of one task that make a child, and a parent that another process cancels meanwhile (R24)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphrt import Runtime
from graphrt._engine.child_ids import child_id
from graphrt._runs import open_run
from graphrt._runs.child_threads import ThreadsOfRun
from graphrt.errors import RunFailedError
from graphrt.testing import drive_due

from .child_support import ask, child_of, started, work_graph
from .mail_support import PATIENT_S, Open

KID = child_id("p", "1.0:go", "0")


def making(parents: Runtime[Any]) -> ThreadsOfRun:
    """What a process has that lost its claim of the parent, and does not know it yet."""
    return ThreadsOfRun(parents._config, "p", open_run.begin)


def test_a_child_that_is_made_after_its_parent_was_cancelled_is_cancelled_too(open_: Open) -> None:
    """The parent's request to cancel went to a thread that did not exist yet."""
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({"most": 0}, thread="p")
    parents.start({"most": 0}, thread="p")
    parents.cancel("p")
    late = making(parents)
    late.make(asked, {}, KID, None, detached=False)
    late.make(asked, {}, f"{KID[:-1]}x", None, detached=True)
    drive_due(children)

    assert {one: children.state(one).status for one in started(children)} == {
        KID: "cancelled",
        f"{KID[:-1]}x": "interrupted",
    }


def test_of_two_executions_that_make_a_child_one_makes_it(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({"most": 0}, thread="p")
    with ThreadPoolExecutor(4) as pool:
        for made in [pool.submit(making(parents).make, asked, {"n": n}, KID, None, detached=False) for n in range(4)]:
            made.result(PATIENT_S)

    assert started(children) == [KID]
    assert [type(entry.event).__name__ for entry in children.entries(KID)] == ["RunStarted", "RunHandedOver"]


def test_a_child_is_made_although_another_execution_dies_that_had_claimed_its_id(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({"most": 0}, thread="p")
    store: Any = children.store
    other = store.claim(KID, create=True, lease_s=60, at=0.0)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(making(parents).make, asked, {}, KID, None, detached=False)
        time.sleep(0.2)
        assert not made.done()
        store.release(other)
        made.result(PATIENT_S)

    assert started(children) == [KID]


def test_a_parent_hears_of_a_child_that_was_parked(open_: Open) -> None:
    asked = work_graph(ask)
    parents, children = open_(child_of(asked)), open_(asked)
    parents.run({}, thread="p")
    (kid,) = started(children)
    with pytest.raises(RunFailedError, match="parked"):
        children.drive(kid, max_tries=0)

    assert parents.due(graph="parent")[0].thread == "p"
