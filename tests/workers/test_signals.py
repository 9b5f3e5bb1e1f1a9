"""Signals: sent to a thread by any process, received by a node, each once, in order (R22)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from graphrt import END, Context, GraphBuilder, Runtime, Send
from graphrt.errors import GraphrtError, InputError
from graphrt.stores import MemoryStore
from graphrt.stores.filters import MailFilter
from graphrt.workers import Worker

from .mail_support import PATIENT_S, Gate, Open, State, driven, kinds, line, paid, refused, twice


def test_signals_are_taken_once_each_in_order(open_: Open) -> None:
    runtime = open_(line(paid, twice))
    first = runtime.run({}, thread="t")
    assert (first.status, [one.kind for one in first.interrupts]) == ("interrupted", ["signal"])
    assert runtime.signal("t", "paid", {"n": 1}, id="request 7")
    assert not runtime.signal("t", "paid", {"n": 1}, id="request 7")
    refused("key-reused", lambda: runtime.signal("t", "paid", {"n": 2}, id="request 7"))
    for name, value in (("sent", "a"), ("paid", 2), ("paid", None), ("paid", 4)):
        runtime.signal("t", name, value)
    result = runtime.drive("t")

    assert (result.status, result.state.got) == ("completed", [{"n": 1}, (2, "a", None)])
    assert kinds(runtime, "t").count("SignalTaken") == 4
    assert runtime.replay("t").values.got == result.state.got
    assert runtime.reexecute("t").same
    assert runtime.due() == ()
    again = runtime.run({}, thread="t")  # the remaining signals wait for the next run
    assert again.state.got[-1] == 4
    assert not runtime.signal("t", "paid", {"n": 1}, id="request 7")
    for name, value in (("paid", 0), ("sent", {"n": 1})):  # it was taken long ago
        refused("key-reused", lambda name=name, value=value: runtime.signal("t", name, value, id="request 7"))


def test_signals_that_arrive_before_a_node_waits_are_not_lost(open_: Open) -> None:
    gate = Gate()
    graph = line(gate.node, paid)
    server, driver = open_(graph), open_(graph)
    running, found = driven(driver, {}, thread="t")
    assert gate.began.wait(PATIENT_S)
    assert server.signal("t", "paid", 5)
    time.sleep(0.3)  # the driver notices it, and continues without it
    gate.go.set()
    running.join(PATIENT_S)

    assert (found[0].status, found[0].state.got) == ("completed", ["gate ", 5])
    assert server.store.query(MailFilter(thread="t")) == []  # type: ignore[union-attr]


def test_a_signal_before_the_run_waits_in_the_thread_through_a_snapshot(open_: Open) -> None:
    runtime = open_(line(paid))
    runtime.run({}, thread="t")
    for n in range(3):
        runtime.signal("t", "paid", n)
    runtime.drive("t")
    runtime.prune("t")
    assert [runtime.run({}, thread="t").state.got[-1] for _ in range(2)] == [1, 2]
    assert runtime.run({}, thread="t").status == "interrupted"


def test_a_retry_after_a_failure_keeps_the_signal(open_: Open) -> None:
    fails = [True]

    def work(state: State, ctx: Context) -> dict[str, Any]:
        value = ctx.receive("paid")
        if fails.pop():
            raise ValueError("once")
        return {"got": [value]}

    runtime = open_(line(work))
    runtime.run({}, thread="t")
    runtime.signal("t", "paid", 9)
    with pytest.raises(GraphrtError):
        runtime.drive("t")
    fails.append(False)

    assert runtime.retry("t").state.got == [9]
    assert kinds(runtime, "t").count("SignalTaken") == 1


def test_tasks_of_a_fan_out_and_nested_graphs_get_one_each(open_: Open) -> None:
    inner = line(paid, name="inner")
    g = GraphBuilder(State, name="outer")

    @g.node
    def part(state: State, ctx: Context) -> dict[str, Any]:
        return {"got": [(ctx.arg, ctx.receive("part"))]}

    @g.node
    def split(state: State) -> dict[str, Any]:
        return {}

    g.add_node("inner", inner)
    g.set_entry(split)
    g.add_conditional_edges(split, lambda state: [Send("part", n) for n in range(3)], [part])
    g.add_edge(part, "inner")
    g.add_edge("inner", END)
    runtime = open_(g.compile())
    assert len(runtime.run({}, thread="t").interrupts) == 3
    runtime.signal("t", "part", "a")
    assert len(runtime.drive("t").interrupts) == 2
    runtime.signal("t", "part", "b")
    runtime.signal("t", "paid", "inside")
    runtime.signal("t", "part", "c")
    result = runtime.drive("t")

    assert (result.status, result.state.got) == ("completed", [(0, "a"), (1, "b"), (2, "c"), "inside"])
    assert runtime.replay("t").values.got == result.state.got


def test_signal_does_not_answer_a_question(open_: Open) -> None:
    runtime = open_(line(paid))
    (waits,) = runtime.run({}, thread="t").interrupts
    before = runtime.state("t").seq
    told = refused("waits-for-signal", lambda: runtime.resume("t", answer=3))
    refused("waits-for-signal", lambda: runtime.resume("t", {waits.id: 3}))
    assert "'paid'" in str(told)
    assert runtime.state("t").seq == before
    assert runtime.inbox() == ()  # a person has nothing to do


def test_signals_and_questions_are_separate(open_: Open) -> None:
    def both(state: State, ctx: Context) -> dict[str, Any]:
        return {"got": [ctx.receive("paid"), ctx.interrupt("really?")]}

    runtime = open_(line(both))
    runtime.run({}, thread="t")
    runtime.signal("t", "paid", "now")
    assert [one.kind for one in runtime.drive("t").interrupts] == ["question"]
    assert runtime.resume("t", answer="yes").state.got == ["now", "yes"]


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", 3, None])
def test_invalid_signal_names_are_refused(open_: Open, name: Any) -> None:
    runtime = open_(line(paid))
    runtime.run({}, thread="t")
    refused("input", lambda: runtime.signal("t", name))
    refused("input", lambda: runtime.signal("t", "paid", id="" if name is None else name * 2))
    refused("unknown-thread", lambda: runtime.signal("nobody", "paid"))


def test_value_that_cannot_be_stored_is_refused_on_send(open_: Open) -> None:
    runtime = open_(line(paid))
    runtime.run({}, thread="t")
    with pytest.raises(InputError, match="signal has a value"):
        runtime.signal("t", "paid", object())
    assert runtime.due() == ()


def test_async_twin_also_sends_signals(open_: Open) -> None:
    async def work() -> None:
        runtime = open_(line(paid))
        await runtime.arun({}, thread="t")
        assert await runtime.asignal("t", "paid", 1, id="a")
        assert not await runtime.asignal("t", "paid", 1, id="a")

    asyncio.run(work())


def test_store_without_mail_raises_on_send() -> None:
    from tests.stores.test_finding import Plain

    runtime = Runtime(line(paid), store=Plain(MemoryStore()))  # type: ignore[arg-type]  # it has the methods
    runtime.run({}, thread="t")
    refused("store-lacks", lambda: runtime.signal("t", "paid"))
    thread = runtime.start({})
    assert [info.thread for info in runtime.due()] == [thread]
    with Worker(runtime, poll_s=0.01):
        assert runtime.wait(thread, timeout_s=PATIENT_S).status == "interrupted"
