"""Effects in a fork: it knows the effects up to its entry, and none that its source recorded later."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import Runtime
from graphrt.events import EffectRecorded, EffectStarted

from .support import line, note, refused


class Bank:
    """Counts the payments of each caller."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def pay(self, key: str) -> str:
        self.keys.append(key)
        return f"receipt {len(self.keys)}"


def paid(world: Any, bank: Bank, kind: Any) -> Runtime[Any]:
    """A completed thread with one effect."""

    def pay(state: Any, ctx: Any) -> Any:
        return {"notes": [ctx.effect("pay", bank.pay, ctx.idempotency_key, kind=kind)]}

    runtime: Runtime[Any] = world.runtime(line(("pay", pay), ("last", note("last"))))
    runtime.run({"notes": []}, thread="t")
    return runtime


def seq_of(runtime: Runtime[Any], kind: type[Any]) -> int:
    return next(entry.seq for entry in runtime.entries("t") if isinstance(entry.event, kind))


def test_fork_between_start_and_result_has_an_unknown_outcome(world):
    """Even if the source has recorded it since: the fork is of the moment before."""
    bank = Bank()
    runtime = paid(world, bank, "once")
    asked = runtime.retry(runtime.fork("t", at=seq_of(runtime, EffectStarted), to="f"))

    assert (asked.status, bank.keys) == ("interrupted", ["t/1.0:pay"])
    assert asked.interrupts[0].payload == {
        "effect": "pay",
        "problem": "outcome unknown",
        "idempotency_key": "f/1.0:pay",
    }


@pytest.mark.parametrize(
    ("decision", "notes", "keys"),
    [
        ({"result": "receipt 1"}, ["receipt 1", "last"], ["t/1.0:pay"]),
        ("run", ["receipt 2", "last"], ["t/1.0:pay", "f/1.0:pay"]),
        ("fail", None, ["t/1.0:pay"]),
    ],
)
def test_question_of_a_fork_is_decided_for_the_fork_alone(world, decision, notes, keys):
    bank = Bank()
    runtime = paid(world, bank, "once")
    before = list(runtime.entries("t"))
    runtime.retry(runtime.fork("t", at=seq_of(runtime, EffectStarted), to="f"))

    if notes is None:
        refused("effect-unknown", lambda: runtime.resume("f", answer=decision))
    else:
        assert runtime.resume("f", answer=decision).state["notes"] == notes
    assert bank.keys == keys
    assert list(runtime.entries("t")) == before


@pytest.mark.parametrize("kind", ["once", "idempotent", "pure"])
def test_fork_after_the_result_has_it(world, kind):
    bank = Bank()
    runtime = paid(world, bank, kind)
    done = runtime.retry(runtime.fork("t", at=seq_of(runtime, EffectRecorded), to="f"))

    assert (done.status, done.state["notes"], bank.keys) == ("completed", ["receipt 1", "last"], ["t/1.0:pay"])


@pytest.mark.parametrize("kind", ["once", "idempotent", "pure"])
def test_fork_before_the_effect_runs_it_under_its_own_key(world, kind):
    """A fork is another thread, and its effects are its own."""
    bank = Bank()
    runtime = paid(world, bank, kind)
    done = runtime.retry(runtime.fork("t", at=1, to="f"))

    assert (done.status, done.state["notes"]) == ("completed", ["receipt 2", "last"])
    assert bank.keys == ["t/1.0:pay", "f/1.0:pay"]
