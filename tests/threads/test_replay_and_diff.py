"""`replay` folds a thread again and reports divergences; `diff` reports where two runs first differ."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, Send
from graphrt.errors import InputError, ReplayDivergedError
from graphrt.events import SuperstepCommitted

from .support import Fails, ask, builder, everything, finish, line, note, refused

how = {"fold": "plain", "route": "x", "sends": 2}
"""Values for the impure functions below; reset by the fixture."""


@pytest.fixture(autouse=True)
def as_it_was():
    how.update(fold="plain", route="x", sends=2)


def glue(current: str, incoming: str) -> str:
    if how["fold"] == "raises":
        raise ValueError("changed my mind")
    return current + incoming if how["fold"] == "plain" else incoming + current


class Glued(te.TypedDict, total=False):
    text: Annotated[str, glue]
    z: Any


def gluing():
    g = builder("gluing", Glued)
    g.add_node("a", lambda state: {"text": "a"})
    g.add_node("b", lambda state: {"text": "b"})
    g.add_node("x", lambda state, ctx: {"text": "x"})
    g.add_node("y", lambda state, ctx: {"text": "y"})
    g.add_edge(START, "a")
    g.add_edge("a", "b")

    def choose(state):
        return [Send(how["route"], n) for n in range(how["sends"])]

    g.add_conditional_edges("b", choose, ["x", "y"])
    g.add_edge("x", END)
    g.add_edge("y", END)
    return g.compile()


def test_replay_reaches_the_present_state_without_running_or_writing(world):
    runtime = world.runtime(everything())
    runtime.run({"notes": []}, thread="t")
    paused = runtime.replay("t")
    finish(runtime, "t")
    before = list(runtime.entries("t"))
    done = runtime.replay("t")

    assert (paused.status, done.status) == ("interrupted", "completed")
    assert (done.values, done.seq) == (runtime.state("t").values, runtime.state("t").seq)
    assert list(runtime.entries("t")) == before


def test_replay_of_failed_edited_and_repeated_threads(world):
    fails = Fails()
    runtime = world.runtime(line(("a", note("a")), ("f", fails)))
    with pytest.raises(Exception, match="broken"):
        runtime.run({"notes": []}, thread="t")
    assert runtime.replay("t").status == "failed"
    runtime.update("t", {"notes": ["edit"]})
    fails.broken = False
    runtime.retry("t")
    runtime.run({"notes": ["second"]}, thread="t")

    assert runtime.replay("t").values["notes"] == ["a", "edit", "mended", "second", "a", "mended"]


@pytest.mark.parametrize(
    ("change", "what", "seq"),
    [
        ({"route": "y"}, "'y'", 5),
        ({"sends": 3}, "'x'", 5),
    ],
)
def test_replay_reports_where_it_diverges(world, change, what, seq):
    runtime = world.runtime(gluing())
    runtime.run({"text": ""}, thread="t")
    before = list(runtime.entries("t"))
    how.update(change)
    error = refused("replay-diverged", lambda: runtime.replay("t"), "'t'", what, "Fix", error=ReplayDivergedError)

    assert error.thread == "t"
    assert error.seq == seq
    assert error.expected
    assert error.got
    how.update(fold="plain", route="x", sends=2)
    assert list(runtime.entries("t")) == before
    assert runtime.replay("t").status == "completed"


def test_fold_names_a_reducer_that_raises(lite):
    """Reading the thread folds it: a reducer that raises is named, and nothing is changed."""
    runtime = lite.runtime(gluing())
    runtime.run({"text": ""}, thread="t")
    how["fold"] = "raises"

    for verb in (runtime.state, runtime.replay, runtime.fork):
        error = refused("fold-failed", lambda verb=verb: verb("t"), "changed my mind", "'t'", error=ReplayDivergedError)
        assert error.seq == 2
    how["fold"] = "plain"
    assert runtime.state("t").values["text"] == "abxx"


def test_diff_of_identical_runs_is_none(world):
    runtime = world.runtime(everything())
    for thread in ("t", "u"):
        runtime.run({"notes": []}, thread=thread)
        finish(runtime, thread)

    assert runtime.diff("t", "u") is None
    assert runtime.diff("t", "t") is None


def test_diff_names_the_first_difference(world):
    runtime = world.runtime(line(("a", note("a")), ("b", lambda state: {"x": state["x"]})))
    runtime.run({"notes": [], "x": 1}, thread="t")
    runtime.run({"notes": [], "x": 2}, thread="u")
    found = runtime.diff("t", "u")

    assert found is not None
    assert (found.left.seq, found.right.seq, found.fields) == (1, 1, ("input",))


def test_diff_of_different_answers_and_lengths(world):
    runtime = world.runtime(everything())
    for thread in ("t", "u", "v"):
        runtime.run({"notes": []}, thread=thread)
    finish(runtime, "t", "yes")
    finish(runtime, "u", "no")
    found, shorter = runtime.diff("t", "u"), runtime.diff("t", "v")

    assert found is not None
    assert found.fields == ("answer",)
    assert (found.left.event.answer, found.right.event.answer) == ("yes", "no")
    assert shorter is not None
    assert shorter.right is None
    assert type(shorter.left.event).__name__ == "InterruptAnswered"


def test_diff_of_a_fork_starts_after_the_fork(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abc")))
    runtime.run({"notes": []}, thread="t")
    fork = runtime.fork("t", at=3)
    runtime.update(fork, {"notes": ["edit"]})
    finish(runtime, fork)
    found = runtime.diff("t", fork)

    assert found is not None
    assert (found.left.seq, type(found.right.event).__name__) == (4, "ThreadUpdated")
    mirrored = runtime.diff(fork, "t")
    assert (mirrored.left, mirrored.right) == (found.right, found.left)


def test_diff_of_a_new_fork_is_none(world):
    """Paused: its journal repeats the question of its source."""
    runtime = world.runtime(everything())
    runtime.run({"notes": []}, thread="t")
    fork = runtime.fork("t")

    assert runtime.state(fork).interrupts
    assert runtime.diff("t", fork) is None
    assert runtime.diff(fork, "t") is None


def test_diff_of_a_fork_and_its_copy_is_none_although_a_handler_is_due(world):
    """A stored error is a different object at each read."""

    def fails(state):
        raise ConnectionError("x")

    runtime = world.runtime(line(("a", fails), ("h", ask("h")), a={"on_error": "h"}))
    runtime.run({"notes": []}, thread="t")
    at = next(e.seq for e in runtime.entries("t") if isinstance(e.event, SuperstepCommitted))
    fork = runtime.fork("t", at=at)
    runtime.copy_thread(fork, "copy")

    assert runtime.diff(fork, "copy") is None


def test_diff_of_two_runs_of_one_thread(world):
    runtime = world.runtime(line(("a", note("a")), ("b", lambda state: {"x": len(state["notes"])})))
    first = runtime.run({"notes": []}, thread="t")
    second = runtime.run({"notes": []}, thread="t")
    found = runtime.diff("t", "t", run=first.run_id, other_run=second.run_id)

    assert found is not None
    assert "fresh" in found.fields or "updates" in found.fields
    same = runtime.diff("t", "t", run=first.run_id, other_run=first.run_id)
    assert same is None


def test_diff_and_replay_refuse_unknown_threads(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")

    refused("unknown-thread", lambda: runtime.diff("t", "u"), "'u'", error=InputError)
    refused("unknown-thread", lambda: runtime.diff("u", "t"), "'u'", error=InputError)
    refused("unknown-thread", lambda: runtime.replay("u"), "'u'", error=InputError)
