"""The driver notes supersteps of the fast path without a lock, while another thread writes: none of them is lost."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Runtime
from graphrt._engine import emit_events
from graphrt._journal import writer
from graphrt.stores import MemoryStore


class State(BaseModel):
    n: int = 0


def test_a_superstep_noted_while_another_thread_writes_is_in_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The late outcome of a node that was given up is written in the moment in which the driver makes a line."""
    g = GraphBuilder(State, name="count")
    g.add_node("count", lambda state: {"n": state.n + 1})
    g.add_edge(START, "count")
    g.add_conditional_edges("count", lambda state: state.n < 20, {True: "count", False: END})
    journals: list[Any] = []
    made = 0
    real_line, real_step = writer.new_line, writer.Journal.step

    def step(journal: Any, *args: Any) -> None:
        journals[:] = [journal]
        real_step(journal, *args)

    def new_line(line: Any) -> Any:
        nonlocal made
        made += 1
        if made % 5 == 0:
            journals[0].flush()  # what `write` does first, on whatever thread it is called
        return real_line(line)

    monkeypatch.setattr(writer.Journal, "step", step)
    monkeypatch.setattr(writer, "new_line", new_line)
    runtime = Runtime(g.compile(), store=MemoryStore())

    runtime.run({}, thread="t")

    assert made == 20
    assert sum(type(entry.event).__name__ == "SuperstepCommitted" for entry in runtime.entries("t")) == 20
    assert runtime.state("t").values.n == runtime.replay("t").values.n == 20


class Growing(dict[str, Any]):
    """The node that was given up adds an entry whenever somebody goes through these."""

    def items(self) -> Any:
        for pair in super().items():
            self[f"new {len(self)}"] = 1
            yield pair


def test_what_a_node_records_while_it_is_written_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    real = emit_events.effects

    def effects(engine: Any, task: Any) -> None:
        task.more().intents = Growing(a=1, b=1)
        before = len(engine.log or ())
        real(engine, task)
        found.extend(type(event).__name__ for _, event in (engine.log or [])[before:])

    monkeypatch.setattr(emit_events, "effects", effects)
    g = GraphBuilder(State, name="one")
    g.add_node("node", lambda state, ctx: {"n": ctx.effect("key", lambda: 1)})
    g.set_entry("node")

    Runtime(g.compile(), store=MemoryStore()).run({}, thread="t")

    assert found.count("EffectStarted") == 2
