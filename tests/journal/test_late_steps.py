"""A node that was given up records effects while another thread writes what it has recorded so far."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import GraphBuilder, Runtime
from graphrt._engine import emit_events
from graphrt.stores import MemoryStore


class State(BaseModel):
    n: int = 0


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
