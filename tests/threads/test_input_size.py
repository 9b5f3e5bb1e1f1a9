"""Inputs to a thread are bounded by `Limits.max_input_bytes`, with every verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphrt import Limits, Runtime
from graphrt.errors import InputError
from graphrt.stores.filters import MailFilter

from .support import ask, line, note, refused

GRAPH = line(("a", note("a")), ("q", ask("q")))
LIMITS = Limits(max_input_bytes=1_000)
LARGE, SMALL = "x" * 1_000, "x" * 900
VERBS: dict[str, Callable[[Runtime[Any], str], Any]] = {
    "run": lambda r, value: r.run({"notes": [value]}, thread="new"),
    "steps": lambda r, value: list(r.steps({"notes": [value]}, thread="new")),
    "start": lambda r, value: r.start({"notes": [value]}, thread="new"),
    "queued": lambda r, value: r.start({"notes": [value]}, thread="t", while_running="queue"),
    "resume": lambda r, value: r.resume("t", answer=value),
    "signal": lambda r, value: r.signal("t", "s", value),
    "update": lambda r, value: r.update("t", {"notes": [value]}),
    "new thread": lambda r, value: r.update("new", {"notes": [value]}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_input_larger_than_the_limit_is_refused_and_not_stored(world: Any, verb: str) -> None:
    runtime = world.runtime(GRAPH, limits=LIMITS)
    runtime.run({"notes": []}, thread="t")
    seq = runtime.state("t").seq
    if verb == "queued":
        claim = world.store.claim("t", create=False, lease_s=60, at=0.0)
    refused("not-storable", lambda: VERBS[verb](runtime, LARGE), "max_input_bytes", "1,000", error=InputError)

    if verb == "queued":
        world.store.release(claim)
    assert runtime.state("t").seq == seq
    assert world.store.query(MailFilter(thread="t")) == []
    assert [info.thread for info in runtime.threads()] == ["t"]
    if verb != "queued":
        VERBS[verb](runtime, SMALL)


def test_limit_applies_to_inputs_and_not_to_the_state(world: Any) -> None:
    """Updates of nodes, and the values of the thread, may be larger; with None only the limit of any stored value
    applies.
    """
    runtime = world.runtime(line(("a", note(LARGE))), limits=LIMITS)
    runtime.run({"notes": []}, thread="t")
    runtime.run({"notes": [SMALL]}, thread="t")
    world.runtime(GRAPH, limits=Limits(max_input_bytes=None)).run({"notes": [LARGE * 20_000]}, thread="u")

    assert Runtime(GRAPH).limits.max_input_bytes == 16 * 1024**2


def test_queued_input_counts_by_the_limits_of_its_sender(world: Any) -> None:
    sender, worker = world.runtime(GRAPH), world.runtime(GRAPH, limits=LIMITS)
    sender.run({"notes": []}, thread="t")
    claim = world.store.claim("t", create=False, lease_s=60, at=0.0)
    sender.start({"notes": [LARGE]}, thread="t", while_running="queue")
    world.store.release(claim)
    worker.resume("t", answer="yes")
    worker.drive("t")

    assert LARGE in worker.state("t").values["notes"]
