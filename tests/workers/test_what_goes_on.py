"""Threads that continue by themselves:

they are waited for and followed to their end, and no sweep deletes them (R20, R22).
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from graphrt import Context, Runtime
from graphrt.errors import InputError, WaitTimeoutError
from graphrt.testing import VirtualClock
from graphrt.workers import Worker

from .mail_support import PATIENT_S, Open, State, line, paid, refused


def echo(state: State) -> dict[str, Any]:
    return {"got": [state.topic]}


def asks(state: State, ctx: Context) -> dict[str, Any]:
    return {"got": [ctx.interrupt("which?")]}


def sleeps(state: State, ctx: Context) -> dict[str, Any]:
    ctx.sleep(days=3)
    return {"got": ["slept"]}


def expires(state: State, ctx: Context) -> dict[str, Any]:
    return {"got": [ctx.interrupt("which?", expires_s=3 * 86_400, default="none")]}


def test_run_after_a_signal_is_waited_for_and_followed_to_its_end(open_: Open) -> None:
    runtime = open_(line(paid, echo))
    seen = runtime.run({}, thread="t")
    after = runtime.state("t").seq
    runtime.signal("t", "paid", 1)
    with pytest.raises(WaitTimeoutError):  # no process drives it
        runtime.wait("t", timeout_s=0.05)
    following = runtime.follow("t", after=after)
    with Worker(runtime, poll_s=0.01):
        result = runtime.wait("t", timeout_s=PATIENT_S)
        entries = [type(entry.event).__name__ for entry in following]

    assert (seen.status, result.status, result.state.got) == ("interrupted", "completed", [1, ""])
    assert entries[-1] == "RunCompleted"


def test_queued_input_is_waited_for(open_: Open) -> None:
    runtime = open_(line(echo))
    runtime.start({"topic": "a"}, thread="t")
    runtime.start({"topic": "b"}, thread="t", while_running="queue")
    runtime.drive("t")
    assert [info.thread for info in runtime.due()] == ["t"]
    with Worker(runtime, poll_s=0.01):
        assert runtime.wait("t", timeout_s=PATIENT_S).state.got == ["a", "b"]


def test_input_behind_a_question_to_a_person_is_not_waited_for(open_: Open) -> None:
    runtime = open_(line(asks))
    runtime.start({}, thread="t")
    runtime.start({"topic": "b"}, thread="t", while_running="queue")
    runtime.drive("t")
    result = runtime.wait("t", timeout_s=PATIENT_S)

    assert (result.status, [one.payload for one in result.interrupts]) == ("interrupted", ["which?"])
    assert [type(entry.event).__name__ for entry in runtime.follow("t")][-1] == "RunInterrupted"


def test_sweep_keeps_threads_that_are_or_will_be_due(open_: Open) -> None:
    clock = VirtualClock(time.time() - 86_400)  # stores compare the time of the last commit only
    graphs = {node.__name__: line(node, name=node.__name__) for node in (echo, paid, asks, sleeps, expires)}
    runtimes: dict[str, Runtime[Any]] = {name: open_(graph, clock=clock) for name, graph in graphs.items()}
    runtimes["echo"].start({}, thread="started")
    runtimes["echo"].start({}, thread="queued")
    runtimes["echo"].start({}, thread="queued", while_running="queue")
    runtimes["echo"].drive("queued")
    runtimes["echo"].run({}, thread="ended")
    for name in ("paid", "asks", "sleeps", "expires"):
        runtimes[name].run({}, thread=name)
    runtimes["paid"].run({}, thread="signalled")
    runtimes["paid"].signal("signalled", "paid", 1)
    clock.advance(86_400)
    runtime = runtimes["echo"]

    assert runtime.sweep(older_than_s=60) == 1
    assert runtime.sweep(older_than_s=60, status="running") == 0
    assert {info.thread for info in runtime.sweep(older_than_s=60, status="interrupted", dry_run=True)} == {
        "paid",
        "asks",
    }
    assert runtime.sweep(older_than_s=60, status="interrupted") == 2
    assert {info.thread for info in runtime.threads()} == {"started", "queued", "sleeps", "expires", "signalled"}


def test_mail_that_arrives_during_a_sweep_keeps_its_thread(open_: Open) -> None:
    runtime = open_(line(echo))
    store: Any = runtime.store
    for thread in ("a", "b"):
        runtime.run({}, thread=thread)
    runtime.signal("a", "late", 1)

    assert store.delete_many(["a", "b"], updated_before=time.time() + 60) == ["b"]
    assert store.delete_many(["a"]) == ["a"]


def test_errors_of_an_input_during_a_run_name_the_policy(open_: Open) -> None:
    runtime = open_(line(echo))
    runtime.start({}, thread="t")

    assert "while_running='queue'" in refused("wrong-verb", lambda: runtime.start({}, thread="t")).fix


def test_late_answer_to_a_question_with_a_default_gets_an_error_that_explains_it(open_: Open) -> None:
    clock = VirtualClock()
    runtime = open_(line(expires), clock=clock)
    runtime.run({}, thread="t")
    clock.advance(4 * 86_400)
    error: InputError = refused("interrupt-expired", lambda: runtime.resume("t", "mine"))

    assert "drive('t')" in error.fix
    assert "retry" not in error.fix
    assert runtime.resume("t").state.got == ["none"]
