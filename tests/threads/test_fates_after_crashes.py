"""An answer is reported as used once, also if a crash came before its question was journalled."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TypedDict

import pytest

from graphrt import START, Context, GraphBuilder, Interrupt, Runtime
from graphrt.errors import StoreError
from graphrt.events import InterruptRaised
from graphrt.stores import SqliteStore
from graphrt.testing import Fault, FlakyStore


class State(TypedDict, total=False):
    said: str


def graph(store: FlakyStore) -> Any:
    def asks(_: State, ctx: Context) -> Any:
        first = ctx.interrupt("first?")
        return {"said": f"{first} {ctx.answer}"} if ctx.answer is not None else Interrupt("second?")

    def beside(_: State) -> Any:
        until = time.monotonic() + 20
        while store.calls["commit"] < 2:  # the start, and the other task's question, staged in the meantime
            assert time.monotonic() < until

    g: Any = GraphBuilder(State, name="g")
    g.add_node("asks", asks).add_node("beside", beside)
    g.add_edge(START, "asks").add_edge(START, "beside")
    return g.compile()


def test_answer_is_used_once_though_a_crash_came_before_its_question(tmp_path: Path) -> None:
    store = FlakyStore(SqliteStore(tmp_path / "runs.db"), [Fault("commit", nth=3)])
    with store, Runtime(graph(store), store=store) as runtime:
        with pytest.raises(StoreError):  # as if the process had died just before the pause was stored
            runtime.run({}, thread="t")
        assert not any("Raised" in type(entry.event).__name__ for entry in runtime.entries("t"))
        runtime.resume("t", {"t/1.0:asks#0": "yes"})
        runtime.cancel("t")
        assert runtime.retry("t").interrupts[0].payload == "second?"
        used = [entry.seq for entry in runtime.entries("t") if type(entry.event).__name__ == "AnswerUsed"]

    assert len(used) == 1


def test_question_is_journalled_before_its_answer_though_a_crash_came_first(tmp_path: Path) -> None:
    store = FlakyStore(SqliteStore(tmp_path / "runs.db"), [Fault("commit", nth=3)])
    with store, Runtime(graph(store), store=store) as runtime:
        with pytest.raises(StoreError):
            runtime.run({}, thread="t")
        runtime.resume("t", {"t/1.0:asks#0": "yes"})
        known = [entry.event for entry in runtime.entries("t") if type(entry.event).__name__.startswith("Interrupt")]
        runtime.replay("t")

    assert [type(event).__name__ for event in known] == ["InterruptRaised", "InterruptAnswered", "InterruptRaised"]
    assert [event.payload for event in known if isinstance(event, InterruptRaised)] == ["first?", "second?"]
