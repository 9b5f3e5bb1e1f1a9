"""An abandoned node records effects while another thread writes the effects recorded so far."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import Context, GraphBuilder, Runtime
from graphrt._engine import emit_events
from graphrt.events import EffectStarted
from graphrt.stores import MemoryStore


class State(BaseModel):
    n: int = 0


class Growing(dict[str, Any]):
    """A list to which the abandoned node adds an entry during each iteration."""

    def values(self) -> Any:
        for event in super().values():
            self[f"new {len(self)}"] = event
            yield event


def test_effects_that_are_recorded_during_a_write_are_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    real = emit_events.effects

    def effects(engine: Any, task: Any) -> None:
        task.more().intents = Growing({key: EffectStarted(task=task.id, key=key) for key in "ab"})
        before = len(engine.log or ())
        real(engine, task)
        found.extend(type(event).__name__ for _, event in (engine.log or [])[before:])

    monkeypatch.setattr(emit_events, "effects", effects)
    g = GraphBuilder(State, name="one")
    g.add_node("node", lambda state, ctx: {"n": ctx.effect("key", lambda: 1)})
    g.set_entry("node")

    Runtime(g.compile(), store=MemoryStore()).run({}, thread="t")

    assert found.count("EffectStarted") == 2


def test_effect_is_written_completely_at_any_moment() -> None:
    task: Any = None
    written: list[list[Any]] = []

    class Written(dict[str, Any]):
        """A list that another thread writes as soon as it has one more entry."""

        def __setitem__(self, key: str, value: Any) -> None:
            super().__setitem__(key, value)
            log, task.engine.log = task.engine.log, []
            emit_events.effects(task.engine, task)
            written.append([(type(event).__name__, event.answers) for _, event in task.engine.log])
            task.engine.log = log

    def node(state: State, ctx: Context) -> dict[str, int]:
        nonlocal task
        task = ctx._task
        task.more().intents, task.more().effects = Written(), Written()
        return {"n": ctx.effect("key", lambda: 1, kind="once")}

    g = GraphBuilder(State, name="one")
    g.add_node("node", node)
    g.set_entry("node")

    Runtime(g.compile(), store=MemoryStore()).run({}, thread="t")

    assert written == [[("EffectStarted", 0)], [("EffectStarted", 0), ("EffectRecorded", 0)]]
