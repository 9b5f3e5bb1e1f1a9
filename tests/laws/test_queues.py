"""The law of queues: the process that runs a task changes nothing in the journal except the handover.

Random graphs, whose nodes ask, fail at first, have effects and nest graphs, are driven twice: by one process that runs
all nodes, and with some of the nodes on a queue, whose tasks are run in any order, some of them twice.
"""

from __future__ import annotations

import contextlib
import random
import re
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from graphrt import Runtime
from graphrt.errors import GraphrtError
from graphrt.graph.rewiring import rewired
from graphrt.stores import MemoryStore, Store

from . import observe
from .description import Graph
from .lasting import lasting_graphs
from .voyages import MOST_DRIVES, THREAD, Voyage, answer, go_on, journal, status_of, voyage

_LEFT = {"run-interrupted", "run-resumed", "run-handed-over"}


def with_queues(graph: Any, chance: random.Random) -> Any:
    """A copy of *graph* with some nodes on a queue, including nested ones; at least one."""
    topology = graph.topology()
    for node in topology["nodes"]:
        if chance.random() < 0.6:
            node["queue"] = "q"
    topology["nodes"][0]["queue"] = "q"
    return rewired(graph, topology)


def go_on_with_queues(trip: Voyage, runtime: Runtime[Any], chance: random.Random) -> str:
    """Drive the thread like `go_on`; queued tasks run before any question is answered."""
    with contextlib.suppress(GraphrtError):
        for _ in range(MOST_DRIVES * 80):
            status = status_of(runtime)
            left = [item.interrupt.task_id for item in runtime.inbox(kind="task")]
            if status == "new":
                runtime.run(observe.given(trip.graph), thread=THREAD)
            elif left:
                chance.shuffle(left)
                for task in left[: chance.randint(1, len(left))]:
                    assert runtime.run_task(THREAD, task) == "ended"
                    assert runtime.run_task(THREAD, task) == "left"
                runtime.drive(THREAD)
            elif status == "interrupted":
                asked = runtime.state(THREAD).interrupts
                runtime.resume(THREAD, {info.id: answer(info) for info in asked})
            elif status == "running":
                runtime.retry(THREAD)
            else:
                break
    return status_of(runtime)


_RECORDED = re.compile(r"RecordedError\('(\w+)', ('[^']*')\)")
"""An error whose class the reading process does not know."""


def told(store: Store, trip: Voyage) -> list[str]:
    """The journal without the entries about tasks that were left to a queue and came back, and the pauses for them.

    The questions of a superstep and their outcomes come first: a run that pauses for a queue journals the questions so
    far, and the rest later. A run that does not pause journals all in task order, and no question of a superstep with a
    permanent failure: the questions of the last superstep of a failed run are excluded.
    """
    found: list[str] = []
    has_failed = False
    segment: list[tuple[bool, str]] = []
    for entry in journal(store, trip):
        if entry["event"] in _LEFT or entry.get("kind") == "task" or "#queue" in str(entry.get("id", "")):
            continue
        about = entry["event"].startswith(("interrupt-", "answer-"))
        segment.append((not about, _RECORDED.sub(r"\1(\2)", str(entry))))
        has_failed = has_failed or (entry["event"] == "run-failed" and not entry["path"])
        if entry["event"] == "superstep-committed" and not entry["path"]:
            found += _in_order(segment)
            segment, has_failed = [], False
    if has_failed:
        segment = [(other, line) for other, line in segment if other]
    return found + _in_order(segment)


def _in_order(segment: list[tuple[bool, str]]) -> list[str]:
    return [*sorted(line for other, line in segment if not other), *(line for other, line in segment if other)]


@given(graph=lasting_graphs(), chance=st.randoms(use_true_random=False))
def test_a_run_with_queues_writes_the_journal_of_one_without(graph: Graph, chance: random.Random) -> None:
    assume(not any(field.untracked for field in graph.fields))  # a queued task must not write them
    near, far = voyage(graph), voyage(graph)
    far.compiled = with_queues(far.compiled, chance)
    with MemoryStore() as one, MemoryStore() as other:
        status = next(
            status for _ in range(20) if (status := go_on(near, near.runtime(one))) not in ("interrupted", "running")
        )
        assert go_on_with_queues(far, far.runtime(other), chance) == status
        assert told(other, far) == told(one, near)
