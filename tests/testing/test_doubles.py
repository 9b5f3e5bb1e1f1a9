"""Doubles of nodes, the virtual clock and the flaky store."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest
from tests.testing.support import RETRY, mapped, research

from graphrt import InputError, Runtime
from graphrt.errors import ScriptError, StoreError
from graphrt.stores import MemoryStore, SqliteStore
from graphrt.stores.filters import ThreadFilter
from graphrt.testing import (
    Fault,
    FlakyStore,
    VirtualClock,
    arecord,
    assert_run,
    conformance,
    failing,
    fan_out,
    interrupting,
    noop,
    raises,
    record,
    scripted,
    slow,
)


def test_noop_writes_nothing():
    assert_run(record(research().with_nodes({"answer": noop}), {})).completed().state("answer", None)


def test_scripted_returns_one_result_per_call_and_shows_the_states():
    node = scripted({"calls": 1}, lambda state: {"calls": state.calls})
    assert_run(record(research().with_nodes({"search": node}), {})).completed().state("calls", 2)
    assert [state.calls for state in node.states] == [0, 1]
    node.assert_done()


def test_exhausted_or_unused_script_is_reported():
    node = scripted({"calls": 1})
    run = record(research().with_nodes({"search": node}), {})
    assert_run(run).failed(ScriptError, match=r"called 2 times, and its script has 1 result\.")
    left = scripted({"calls": 2}, {"calls": 1})
    record(research().with_nodes({"search": left}), {})
    with pytest.raises(ScriptError, match="1 left over after 1 calls"):
        left.assert_done()


def test_failing_fails_and_then_succeeds():
    clock = VirtualClock()
    graph = research(retry=RETRY).with_nodes({"search": failing(2, {"calls": 2})})
    run = record(graph, {}, clock=clock, sleep=clock.sleep)
    assert_run(run).completed()
    assert clock.slept == [1.0, 2.0]
    assert_run(record(research().with_nodes({"search": failing(error=KeyError)}), {})).failed(KeyError)
    for bad in (-1, True, 1.5):
        with pytest.raises(InputError, match="how many calls fail"):
            failing(bad)  # type: ignore[arg-type]


def test_slow_advances_only_the_clock():
    clock = VirtualClock(start=1000)
    graph = research().with_nodes({"answer": slow(3600, {"answer": "late"}, clock=clock)})
    run = record(graph, {}, clock=clock, sleep=clock.sleep)
    assert_run(run).state("answer", "late")
    assert run.entries[-1].at - run.entries[0].at == 3600


def test_interrupting_asks_and_uses_the_answer():
    graph = research().with_nodes({"answer": interrupting("which?", lambda a: {"answer": a})})
    run = record(graph, {})
    assert_run(run).interrupted("answer", payload="which?")
    assert_run(run.resume("green")).completed().state("answer", "green")


def test_fan_out_starts_a_task_for_each_argument():
    run = record(mapped().with_nodes({"plan": fan_out("fetch", ["x", "y"], {"answer": "?"})}), {})
    assert_run(run).visited("plan", "fetch", "fetch", "total").state("notes", ["x", "y"]).state("answer", "2")


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "1", None, True])
def test_time_is_a_number_of_seconds(bad):
    clock = VirtualClock()
    for act in (clock.sleep, clock.advance, VirtualClock):
        with pytest.raises(InputError, match="seconds"):
            act(bad)
    assert clock.slept == []


def test_clock_advances_on_request():
    clock = VirtualClock(start=5)
    clock.advance(10)
    assert (clock(), clock.slept) == (15.0, [])


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_run_whose_commit_fails_continues_without_loss(tmp_path, nth, moment):
    graph = research()
    with FlakyStore(SqliteStore(tmp_path / "runs.db"), [Fault("commit", nth=nth, moment=moment)]) as store:
        runtime = Runtime(graph, store=store)
        with pytest.raises(StoreError, match="The test makes call"):
            runtime.run({"question": "tea"}, thread="t")
        assert [fault.nth for fault in store.happened] == [nth]
        known = [info.thread for info in runtime.threads()]
        result = runtime.retry("t") if known and runtime.state("t").status != "completed" else None
        if not known:
            result = runtime.run({"question": "tea"}, thread="t")
        state = runtime.state("t").values if result is None else result.state
        assert (state.calls, state.answer) == (2, "on tea and on tea")


def test_stalled_store_continues_when_the_test_releases_it():
    free = threading.Event()
    store = FlakyStore(MemoryStore(), [Fault("commit", nth=2, stall=free)])
    done: list[Any] = []
    worker = threading.Thread(target=lambda: done.append(Runtime(research(), store=store).run({}, thread="t")))
    worker.start()
    worker.join(0.05)
    assert done == []
    free.set()
    worker.join(30)
    assert done[0].status == "completed"


class Gate(threading.Event):
    """An event that reports when a call waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def wait(self, timeout: float | None = None) -> bool:
        self.loop.call_soon_threadsafe(self.reached.set)
        return super().wait(timeout)


@pytest.mark.parametrize("later", [False, True])
def test_stalled_store_does_not_block_the_event_loop(*, later):
    async def main() -> str:
        gate = Gate()
        fault = Fault("commit", nth=2, stall=gate)
        store = FlakyStore(MemoryStore(), [] if later else [fault])
        if later:
            store.add(fault)
        guard = threading.Timer(30, gate.set)  # a blocked loop then fails instead of hanging
        guard.start()
        run = asyncio.ensure_future(arecord(research(), {}, store=store))
        await asyncio.wait([run, asyncio.ensure_future(gate.reached.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert not run.done()
        assert not gate.is_set()
        gate.set()
        guard.cancel()
        return (await run).status

    assert asyncio.run(main()) == "completed"


def test_store_that_would_block_the_event_loop_raises():
    store = FlakyStore(MemoryStore(), [Fault("query", stall=threading.Event())])

    async def reads() -> None:
        store.query(ThreadFilter())

    with pytest.raises(InputError, match="stall on the event loop, which would block the test"):
        asyncio.run(reads())


def test_store_without_faults_satisfies_the_conformance_suite():
    def make_factory() -> Any:
        store = MemoryStore()
        return lambda: FlakyStore(store)

    assert conformance.check(make_factory).ok


def test_impossible_faults_are_refused():
    with pytest.raises(InputError, match="Did you mean 'commit'"):
        Fault("comit")
    for nth in (0, "2"):
        with pytest.raises(InputError, match="of a fault cannot be"):
            Fault("commit", nth=nth)  # type: ignore[arg-type]
    for wrong in ({"error": 3}, {"stall": 3}):
        with pytest.raises(InputError, match="of a fault cannot be 3"):
            Fault("commit", **wrong)  # type: ignore[arg-type]
    for faults in (Fault("commit"), ["commit"]):
        with pytest.raises(InputError, match=r"faults? .*cannot be|faults cannot be"):
            FlakyStore(MemoryStore(), faults)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="moment"):
        Fault("commit", moment="during")  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [OSError("gone"), lambda: OSError("gone")], ids=["exception", "function"])
def test_error_of_a_fault_or_a_failing_node_is_raised(error):
    store = FlakyStore(MemoryStore())
    store.add(Fault("load", error=error))
    with pytest.raises(OSError, match="gone"):
        store.load("t")
    run = record(research().with_nodes({"search": failing(error=error)}), {})
    assert_run(run).failed(OSError, match="gone")


@pytest.mark.parametrize(
    "make",
    [
        lambda: failing(error=3),  # type: ignore[arg-type]
        lambda: failing(error=lambda: 3),  # type: ignore[arg-type,return-value]
        lambda: raises(lambda: 3)(None),  # type: ignore[arg-type,return-value]
        lambda: fan_out("fetch", 3),  # type: ignore[arg-type]
    ],
)
def test_double_of_wrong_arguments_is_refused(make):
    with pytest.raises(
        InputError, match=r"error= of failing\(\) |The error of raises\(\) returned an int|args cannot be 3"
    ):
        make()
