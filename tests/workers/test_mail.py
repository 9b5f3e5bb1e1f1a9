"""Mail to threads that other runtimes drive: requests to cancel, inputs and answers (R22)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from graphrt import END, START, Context, GraphBuilder, Interrupt
from graphrt._runs import mail
from graphrt.errors import ConflictError
from graphrt.stores.filters import MailFilter
from graphrt.workers import Worker

from .graphs import loop
from .mail_support import PATIENT_S, Gate, Open, State, driven, kinds, line, paid, refused, soon

# -- cancel ------------------------------------------------------------------------------------------------------------


def test_another_runtime_cancels_a_run_and_its_open_tasks(open_: Open) -> None:
    gate = Gate()
    graph = line(gate.node)
    server, driver = open_(graph), open_(graph)
    running, found = driven(driver, {}, thread="t")
    assert gate.began.wait(PATIENT_S)

    asked = time.monotonic()
    assert server.cancel("t")
    # A repeat is the same request, unless the first one has already ended the run.
    assert server.cancel("t") or soon(lambda: server.state("t").status == "cancelled")
    running.join(PATIENT_S)
    assert time.monotonic() - asked < 5.0  # long before the lease is renewed
    assert (found[0].status, gate.cancelled, server.state("t").status) == ("cancelled", True, "cancelled")
    last = list(server.entries("t"))[-1].event
    assert (type(last).__name__, last.reason) == ("RunCancelled", "cancel() was called in another process")
    assert server.store is not None
    assert server.store.query(MailFilter(thread="t")) == []  # type: ignore[attr-defined]  # it is Postable
    assert server.due() == ()


def test_cancel_request_does_not_reach_the_next_run(open_: Open) -> None:
    gate = Gate()
    graph = line(gate.node)
    server, driver = open_(graph), open_(graph)
    driver.run({}, thread="t") if gate.go.set() is None else None
    gate.go.clear()
    gate.began.clear()
    running, found = driven(driver, {}, thread="t")
    assert gate.began.wait(PATIENT_S)
    head = server.store.head("t")  # type: ignore[union-attr]
    told = {"epoch": head.epoch - 1}  # posted while the previous run ended
    mail._post(server._config, server.store, "t", "cancel:old", "cancel", told)  # type: ignore[arg-type]
    time.sleep(0.3)
    gate.go.set()
    running.join(PATIENT_S)

    assert found[0].status == "completed"
    assert server.store.query(MailFilter(thread="t")) == []  # type: ignore[union-attr]


def test_late_cancel_request_is_dropped(open_: Open) -> None:
    graph = line(paid)
    runtime = open_(graph)
    runtime.run({}, thread="t")
    runtime.signal("t", "paid", 1)
    runtime.drive("t")
    mail._post(runtime._config, runtime.store, "t", "cancel:1", "cancel", {"epoch": 1})  # type: ignore[arg-type]
    assert [info.thread for info in runtime.due()] == ["t"]
    assert runtime.drive("t").status == "completed"
    assert kinds(runtime, "t")[-1] == "LetterDropped"
    assert runtime.due() == ()


def test_run_of_a_dead_driver_is_cancelled_by_the_next_one(open_: Open) -> None:
    """A cancel request that the dead driver did not see ends the run before another task runs."""
    gate = Gate()
    graph = line(gate.node)
    server = open_(graph)
    thread = server.start({})
    mail._post(server._config, server.store, thread, "cancel:1", "cancel", {"epoch": 1})  # type: ignore[arg-type]
    assert server.drive(thread).status == "cancelled"
    assert not gate.began.is_set()


def test_cancel_returns_false_when_no_run_is_active(open_: Open) -> None:
    runtime = open_(line(paid))
    assert not runtime.cancel("nobody")
    runtime.run({}, thread="t")
    assert runtime.cancel("t")
    assert not runtime.cancel("t")


# -- new input and answers while a run goes on -------------------------------------------------------------------------


def test_input_during_a_run_is_refused_or_queued_or_abandons_it(open_: Open) -> None:
    gate = Gate()
    graph = line(gate.node)
    server, driver = open_(graph), open_(graph)
    running, found = driven(driver, {"topic": "one"}, thread="t")
    assert gate.began.wait(PATIENT_S)
    with pytest.raises(ConflictError):
        server.start({"topic": "no"}, thread="t")
    for topic in ("two", "three"):
        assert server.start({"topic": topic}, thread="t", while_running="queue") == "t"
    gate.go.set()
    running.join(PATIENT_S)
    assert found[0].state.got == ["gate one"]
    assert [info.thread for info in server.due()] == ["t"]
    assert [(one.thread, one.status) for one in server.threads(status="running")] == [("t", "running")]
    assert server.threads(status="completed") == ()
    assert server.state("t").status == "running"
    assert server.start({"topic": "four"}, thread="t", while_running="queue") == "t"  # behind the queued ones

    with Worker(driver, poll_s=0.01):
        soon(lambda: len(server.state("t").values.got) == 4)
    assert server.state("t").values.got == ["gate one", "gate two", "gate three", "gate four"]
    assert kinds(server, "t").count("RunStarted") == 4


def test_input_that_abandons_ends_the_run_at_once(open_: Open) -> None:
    gate = Gate()

    def last(state: State) -> None:
        """Leave a mark when the run is abandoned."""

    graph = line(gate.node, last)
    server, driver = open_(graph), open_(graph)
    running, found = driven(driver, {"topic": "one"}, thread="t")
    assert gate.began.wait(PATIENT_S)
    server.start({"topic": "two"}, thread="t", while_running="abandon", tags={"urgent"})
    running.join(PATIENT_S)
    assert (found[0].status, gate.cancelled) == ("cancelled", True)
    gate.go.set()
    result = server.drive("t")

    assert (result.status, result.state.got) == ("completed", ["gate two"])
    assert "SuperstepAbandoned" in kinds(server, "t")
    assert server.threads()[0].tags == {"urgent"}
    assert server.due() == ()


def test_queued_input_waits_for_the_run_after_an_answer(open_: Open) -> None:
    """A paused thread with it is not due: it needs the answer first."""
    runtime = open_(line(paid))
    runtime.run({"topic": "one"}, thread="t")
    runtime.start({"topic": "two"}, thread="t", while_running="queue")
    assert (runtime.due(), runtime.state("t").status) == ((), "interrupted")
    runtime.signal("t", "paid", 5)
    assert runtime.drive("t").status == "completed"
    assert runtime.state("t").status == "running"

    assert runtime.drive("t").status == "interrupted"
    assert runtime.state("t").values.topic == "two"


def test_input_for_a_cancelled_thread_is_queued_behind_earlier_ones(open_: Open) -> None:
    runtime = open_(line(paid))
    runtime.run({"topic": "one"}, thread="t")
    runtime.start({"topic": "two"}, thread="t", while_running="queue")
    runtime.cancel("t")
    assert (runtime.due(), runtime.state("t").status) == ((), "cancelled")
    runtime.start({"topic": "three"}, thread="t", while_running="queue")

    assert runtime.drive("t").status == "interrupted"
    assert runtime.state("t").values.topic == "two"


def test_policy_has_no_effect_without_an_active_run(open_: Open) -> None:
    runtime = open_(line(paid))
    thread = runtime.start({"topic": "one"}, thread="t", while_running="queue")
    assert runtime.drive(thread).status == "interrupted"
    runtime.start({"topic": "two"}, thread="t", while_running="abandon")
    assert runtime.drive("t").status == "interrupted"
    assert kinds(runtime, "t").count("RunStarted") == 2


def test_invalid_policies_are_refused(open_: Open) -> None:
    runtime = open_(line(paid))
    for options in ({"while_running": "wait"}, {"while_running": "queue", "if_exists": "return"}):
        refused("input", lambda options=options: runtime.start({}, thread="t", **options))
    refused("input", lambda: runtime.start(thread="t", while_running="queue"))
    runtime.start({}, thread="t")
    refused("unknown-key", lambda: runtime.start({"nothing": 1}, thread="t", while_running="queue"))


def test_answers_reach_a_thread_whose_other_branch_still_runs(open_: Open) -> None:
    gate = Gate()
    g = GraphBuilder(State, name="branches")

    @g.node
    def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"got": [ctx.interrupt("which?", answer_type=int)]}

    g.add_node("gate", gate.node)
    for name in ("ask", "gate"):
        g.add_edge(START, name)
        g.add_edge(name, END)
    graph = g.compile()
    server, driver = open_(graph), open_(graph)
    running, found = driven(driver, {}, thread="t")
    assert gate.began.wait(PATIENT_S)
    question = soon(lambda: server.state("t").interrupts)[0] if server.store.durable else None  # type: ignore[union-attr]
    if question is None:
        gate.go.set()
        running.join(PATIENT_S)
        return
    refused("bad-answer", lambda: server.start(thread="t", answers={question.id: "seven"}))
    assert server.start(thread="t", answers={question.id: 7}) == "t"
    time.sleep(0.3)
    gate.go.set()
    running.join(PATIENT_S)

    assert (found[0].status, found[0].state.got) == ("completed", [7, "gate "])


# -- workers -----------------------------------------------------------------------------------------------------------


def test_a_worker_takes_mail_of_paused_threads(open_: Open) -> None:
    graph = line(paid)
    server = open_(graph)
    with Worker(open_(graph), open_(loop()), poll_s=0.01) as worker:
        threads = [server.start({}) for _ in range(5)]
        for thread in threads:
            server.wait(thread, timeout_s=PATIENT_S)
            server.signal(thread, "paid", thread)
        for thread in threads:
            soon(lambda thread=thread: server.state(thread).status == "completed")
            assert server.state(thread).values.got == [thread]
        assert worker.health().waiting == 0
    assert server.due() == ()


def test_mail_that_cannot_be_taken_yet_does_not_spin(open_: Open) -> None:
    """An input that is queued behind a question waits; the worker checks it once a second, not at each poll."""
    gate = Gate()

    def ask(state: State, ctx: Context) -> Any:
        return Interrupt("ok?") if ctx.answer is None else {"got": [state.topic]}

    graph = line(gate.node, ask)
    server, driver = open_(graph), open_(graph)
    running, _ = driven(driver, {"topic": "one"}, thread="t")
    assert gate.began.wait(PATIENT_S)
    server.start({"topic": "two"}, thread="t", while_running="queue")
    gate.go.set()
    running.join(PATIENT_S)
    with Worker(driver, poll_s=0.01) as worker:
        soon(lambda: worker.health().looked_at)
        time.sleep(0.3)
        assert server.store.head("t").epoch < 6  # type: ignore[union-attr]
        server.start(thread="t", answer="yes")
        soon(lambda: "one" in server.state("t").values.got and server.state("t").interrupts)
    assert server.state("t").values.topic == "two"
