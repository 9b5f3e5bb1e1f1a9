"""`drive_due` with failing runs: the other threads are driven, and their results are kept."""

from __future__ import annotations

from typing import Any

import pytest
from tests.testing.support import State

from graphrt import END, START, Context, GraphBuilder, NodeError, Runtime
from graphrt.testing import VirtualClock, drive_due


def test_failed_run_does_not_prevent_others_from_being_driven():
    clock = VirtualClock()
    with Runtime(napping(), store="memory:", clock=clock) as runtime:
        for thread, question in [("a", "good"), ("b", "bad"), ("c", "good"), ("d", "bad")]:
            runtime.run({"question": question}, thread=thread)
        clock.advance(1)

        results: dict[str, Any] = {}
        with pytest.raises(NodeError) as error:
            drive_due(runtime, results=results)

        assert error.value.thread == "b"
        assert [note.split(":")[0] for note in error.value.__notes__] == ["Thread 'd' failed too"]
        assert {thread: result.state.answer for thread, result in results.items()} == {"a": "ok", "c": "ok"}
        assert {info.thread: info.status for info in runtime.threads()} == {
            "a": "completed",
            "b": "failed",
            "c": "completed",
            "d": "failed",
        }
        assert drive_due(runtime) == {}


def test_refused_thread_ends_the_driving():
    """It stays due, and is not retried forever."""
    other = GraphBuilder(State, name="napping")
    other.add_node("else", lambda _state: {})
    other.add_sequence([START, "else", END])
    clock = VirtualClock()
    with Runtime(napping(), store="memory:", clock=clock) as runtime:
        runtime.start({"question": "good"}, thread="a")
        with Runtime(other.compile(), store=runtime.store) as changed, pytest.raises(Exception, match="'a'"):
            drive_due(changed)
        assert [info.thread for info in runtime.due()] == ["a"]


def napping() -> Any:
    def nap(state: State, ctx: Context) -> dict[str, str]:
        ctx.sleep(1)
        if state.question == "bad":
            raise ValueError("no")
        return {"answer": "ok"}

    g = GraphBuilder(State, name="napping")
    g.add_node("nap", nap)
    g.add_sequence([START, "nap", END])
    return g.compile()
