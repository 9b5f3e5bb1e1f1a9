"""Runs that their caller leaves to others: started, waited for, followed and handed over, on every store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt._runs import detached, undriven
from graphrt._runs.mail import leave_answers
from graphrt.commands import UNSET
from graphrt.errors import ConflictError, GraphrtError, InputError, RunFailedError, WaitTimeoutError
from graphrt.events import RunHandedOver, RunResumed, RunStarted
from graphrt.stores import Store, open_store
from graphrt.stores.memory import MemoryStore

from .graphs import State, asking, fan, loop


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore() if request.param == "memory" else open_store(f"sqlite:///{tmp_path}/runs.db")
    with made:
        yield made


def code(error: pytest.ExceptionInfo[GraphrtError]) -> str:
    return error.value.code


def events(runtime: Runtime[Any], thread: str) -> list[str]:
    return [type(entry.event).__name__ for entry in runtime.entries(thread)]


def test_started_run_is_stored_without_an_owner(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    thread = runtime.start({"n": 2})
    assert events(runtime, thread) == ["RunStarted", "RunHandedOver"]
    (info,) = runtime.threads()
    assert (info.thread, info.status, info.owned) == (thread, "running", False)
    result = runtime.drive(thread)
    assert (result.status, result.state.log) == ("completed", [2, 3, 4])


def test_started_thread_is_listed(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    thread = runtime.start({"n": 2}, title="Two", tags=["small"])
    assert [info.thread for info in runtime.threads(tags=["small"])] == [thread]
    runtime.drive(thread)
    assert runtime.threads(title="two")[0].status == "completed"


def test_driven_run_ends_like_one_that_ran_at_once(store: Store) -> None:
    runtime = Runtime(fan(), store=store, seed=1)
    at_once = runtime.run({"most": 3}, thread="a")
    runtime.start({"most": 3}, thread="b")
    assert runtime.drive("b").state == at_once.state
    assert [name for name in events(runtime, "b") if name not in ("RunHandedOver", "RunResumed")] == events(
        runtime, "a"
    )


def test_invalid_input_stores_nothing(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    with pytest.raises(InputError):
        runtime.start({"n": "many"}, thread="t")
    assert runtime.threads() == ()
    with pytest.raises(InputError) as error:
        Runtime(loop()).start({"n": 1})
    assert code(error) == "thread-without-store"


def test_repeated_request_starts_one_run(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    assert runtime.start({"n": 4}, thread="t", if_exists="return") == "t"
    assert runtime.start({"n": 0}, thread="t", if_exists="return") == "t"
    runtime.drive("t")
    assert runtime.start({"n": 0}, thread="t", if_exists="return") == "t"
    assert runtime.wait("t").state.log == [4]
    with pytest.raises(InputError):
        runtime.start({"n": 0}, if_exists="return")


def test_repeated_request_waits_for_the_first_commit_of_another_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(loop(), store=store)
    claim = store.claim("t", create=True, lease_s=30, at=time.time())
    monkeypatch.setattr(detached, "sleep", lambda _s: store.release(claim))

    runtime.start({"n": 4}, thread="t", if_exists="return")

    assert runtime.state("t").status == "running"


def test_two_requests_at_the_same_time_start_one_run(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    barrier = threading.Barrier(8)

    def request() -> None:
        barrier.wait()
        runtime.start({"n": 4}, thread="t", if_exists="return")

    threads = [threading.Thread(target=request) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert events(runtime, "t") == ["RunStarted", "RunHandedOver"]


def test_answers_and_retries_can_also_be_left_to_workers(store: Store) -> None:
    runtime = Runtime(asking(), store=store)
    runtime.start({}, thread="t")
    with pytest.raises(WaitTimeoutError, match="nobody drives it"):
        runtime.wait("t", timeout_s=0.02)
    assert runtime.drive("t").status == "interrupted"
    assert runtime.wait("t").interrupts[0].payload == "how many?"
    with pytest.raises(InputError):
        runtime.start(thread="t", answers={"no such id": 1})
    runtime.start(thread="t", answer=3)
    assert runtime.state("t").status == "running"
    assert runtime.drive("t").state.n == 3
    assert runtime.wait("t").status == "completed"


def test_answer_in_the_mail_of_a_thread_without_an_owner_counts_before_a_later_one(store: Store) -> None:
    runtime = Runtime(asking(), store=store)
    question = runtime.run({}, thread="t").interrupts[0].id
    leave_answers(runtime._config, "t", {question: 1}, UNSET)  # its run ended before it looked for mail again
    with pytest.raises(InputError) as error:
        runtime.start(thread="t", answers={question: 2})

    assert code(error) == "unknown-interrupt"
    assert runtime.drive("t").state.n == 1


def test_only_due_threads_are_driven(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    with pytest.raises(InputError) as error:
        runtime.drive("t")
    assert code(error) == "unknown-thread"
    runtime.run({"n": 4}, thread="t")
    with pytest.raises(InputError) as error:
        runtime.drive("t")
    assert code(error) == "not-due"
    assert events(runtime, "t").count("RunResumed") == 0


def test_wait_returns_the_current_result_and_raises_a_failure(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    done = runtime.run({"n": 3}, thread="t")
    assert runtime.wait("t").state == done.state
    failing = Runtime(loop().with_nodes({"count": lambda state: {"n": 1 // 0}}), store=store)
    failing.start({"n": 1}, thread="f")
    with pytest.raises(GraphrtError):
        failing.drive("f")
    with pytest.raises(RunFailedError, match="ZeroDivisionError") as error:
        runtime.wait("f")
    assert (error.value.thread, error.value.node) == ("f", "count")
    for wrong in (-1, "2", True, float("nan")):
        with pytest.raises(InputError):
            runtime.wait("t", timeout_s=wrong)  # type: ignore[arg-type]


def test_reader_that_reconnects_gets_every_entry_once(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    runtime.start({"most": 30, "pause_s": 0.002}, thread="t")
    driver = threading.Thread(target=runtime.drive, args=("t",))
    driver.start()
    seen: list[int] = []
    while True:
        connection = runtime.follow("t", after=seen[-1] if seen else 0)
        got = [entry.seq for entry, _ in zip(connection, range(7), strict=False)]
        seen += got
        if not got:
            break
    driver.join()
    assert seen == [entry.seq for entry in runtime.entries("t")]
    assert list(runtime.follow("t", after=seen[-1])) == []


def test_position_past_the_end_of_the_thread_is_refused(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    runtime.run({"n": 4}, thread="t")
    with pytest.raises(InputError) as error:
        runtime.follow("t", after=1_000)
    assert code(error) == "unknown-entry"
    with pytest.raises(InputError):
        runtime.follow("nobody")
    with pytest.raises(InputError):
        runtime.follow("t", after=-1)


def test_handover_ends_at_the_end_of_a_superstep(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    runtime.start({"most": 150, "pause_s": 0.01}, thread="t")
    results: list[Any] = []
    driver = threading.Thread(target=lambda: results.append(runtime.drive("t")))
    driver.start()
    eventually(lambda: runtime.state("t").values.n > 0)
    assert runtime.hand_over("the server shuts down", grace_s=5) == 1
    driver.join()
    (result,) = results
    assert result.status == "cancelled"
    assert result.warnings == (
        "The run was handed over (the server shuts down): its thread is due, and any worker may continue.",
    )
    assert 0 < result.state.n < 150
    (info,) = runtime.threads()
    assert (info.status, info.owned) == ("running", False)
    last = list(runtime.entries("t"))[-1]
    assert isinstance(last.event, RunHandedOver)
    assert last.event.reason == "the server shuts down"
    other = Runtime(loop(), store=store)
    assert other.drive("t").state.log == list(range(150))
    assert other.replay("t").values.log == list(range(150))


def test_handover_without_grace_time_reruns_the_open_tasks_elsewhere(store: Store, tmp_path: Path) -> None:
    runtime = Runtime(fan(), store=store)
    runtime.start({"most": 2, "pause_s": 0.6, "folder": str(tmp_path)}, thread="t")
    driver = threading.Thread(target=runtime.drive, args=("t",))
    driver.start()
    eventually(lambda: "SuperstepCommitted" in events(runtime, "t"))
    time.sleep(0.2)  # its next tasks have begun
    runtime.hand_over("now", grace_s=0)
    driver.join()
    assert runtime.state("t").status == "running"
    assert Runtime(fan(), store=store).drive("t").state.parts == 8
    done = (tmp_path / "done.txt").read_text().split("\n")[:-1]
    assert len(done) == len(set(done)) == 8  # each effect once, whichever process ran its task


def test_run_that_is_being_opened_is_also_handed_over(store: Store) -> None:
    """It is not asked at first. A run that is only cancelled would end for good, and its work would be lost."""
    begun, go = threading.Event(), threading.Event()

    def part(state: State, ctx: Context) -> dict[str, Any]:
        if ctx.thread == "early":  # it continues until the other one is open
            begun.set()
            assert go.wait(20)
        return {"parts": 1}

    runtime = Runtime(fan().with_nodes({"part": part}), store=store)
    runtime.start({"most": 1}, thread="early")
    runtime.start({"most": 50}, thread="late")
    runs = [threading.Thread(target=runtime.drive, args=(thread,)) for thread in ("early", "late")]
    runs[0].start()
    assert begun.wait(20)  # earlier, it would be handed over at once without asking its tasks
    handing = threading.Thread(target=runtime.hand_over, args=("deploy",), kwargs={"grace_s": 60.0})
    handing.start()
    eventually(lambda: any(control.ends for control in [*runtime._config.active._controls.values()]))
    runs[1].start()
    runs[1].join(20)
    go.set()
    for one in (handing, *runs):
        one.join(20)
        assert not one.is_alive()

    assert {info.thread: info.status for info in runtime.threads()} == {"early": "running", "late": "running"}
    assert isinstance(list(runtime.entries("late"))[-1].event, RunHandedOver)


def test_run_that_its_caller_drives_raises_when_it_is_handed_over(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    results: list[Any] = []
    caller = threading.Thread(target=lambda: results.append(runtime.run({"most": 150, "pause_s": 0.01}, thread="t")))
    caller.start()
    eventually(lambda: bool(runtime.threads()) and runtime.state("t").values.n > 0)
    runtime.hand_over("deploy", grace_s=1)
    caller.join()
    assert results[0].status == "cancelled"
    assert runtime.retry("t").state.n == 150


@pytest.mark.parametrize("grace_s", [0.0, 20.0])
@pytest.mark.parametrize("nested", [False, True])
def test_run_that_is_handed_over_in_its_last_superstep_completes(store: Store, grace_s: float, nested: bool) -> None:
    """Nothing is due then, and no other process has to end the run."""
    handing: list[threading.Thread] = []

    def last(state: State) -> dict[str, Any]:
        handing.append(threading.Thread(target=runtime.hand_over, args=("deploy",), kwargs={"grace_s": grace_s}))
        handing[0].start()
        eventually(lambda: any(_is_over(control, grace_s) for control in [*runtime._config.active._controls.values()]))
        return {"log": [state.n]}

    g = GraphBuilder(State, name="last")
    g.add_sequence([START, g.node(last), END])
    graph = g.compile()
    if nested:
        outer = GraphBuilder(State, name="outer")
        outer.add_node("inner", graph)
        graph = outer.add_sequence([START, "inner", END]).compile()
    runtime = Runtime(graph, store=store)
    result = runtime.run({"n": 3}, thread="t")
    handing[0].join()

    assert (result.status, result.state.log) == ("completed", [3])
    assert not any("handed over" in warning for warning in result.warnings)
    assert runtime.state("t").status == "completed"
    assert runtime.due() == ()


def _is_over(control: Any, grace_s: float) -> bool:
    """Whether the handover has reached the run, and its grace time is over if it has one."""
    return bool(control.ends) and (grace_s > 0 or control.halt is not None)


def test_async_verbs_behave_like_their_sync_twins(store: Store) -> None:
    runtime = Runtime(loop(), store=store)

    async def main() -> None:
        thread = await runtime.astart({"most": 100, "pause_s": 0.01})
        driving = asyncio.ensure_future(asyncio.to_thread(runtime.drive, thread))
        await asyncio.to_thread(eventually, lambda: runtime.state(thread).values.n > 0)
        assert await runtime.ahand_over("deploy", grace_s=2) == 1
        await driving
        driving = asyncio.ensure_future(asyncio.to_thread(runtime.drive, thread))
        followed = [entry.seq async for entry in runtime.afollow(thread)]
        result = await runtime.await_(thread, timeout_s=20)
        await driving
        assert followed == list(range(1, len(followed) + 1))
        assert result.state.log == list(range(100))
        with pytest.raises(InputError):
            async for _ in runtime.afollow(thread, after=10_000):
                pass
        other = await runtime.astart({})
        with pytest.raises(WaitTimeoutError):
            await runtime.await_(other, timeout_s=0.01)

    asyncio.run(main())


def test_an_async_run_is_handed_over_on_its_own_loop(store: Store) -> None:
    runtime = Runtime(asking().with_nodes({"ask": _forever}), store=store)

    async def main() -> None:
        running = asyncio.ensure_future(runtime.arun({}, thread="t"))
        await asyncio.to_thread(eventually, lambda: bool(runtime._config.active._controls))
        assert await runtime.ahand_over("deploy") == 1
        assert (await running).status == "cancelled"

    asyncio.run(main())
    assert runtime.state("t").status == "running"
    assert [type(entry.event) for entry in runtime.entries("t")] == [RunStarted, RunHandedOver]


async def _forever(state: State) -> dict[str, Any]:
    await asyncio.sleep(60)
    return {}


def test_live_owner_keeps_its_thread(store: Store) -> None:
    begun, go = threading.Event(), threading.Event()

    def count(state: State) -> dict[str, Any]:
        begun.set()
        assert go.wait(20)
        return {"n": state.most}

    graph = loop().with_nodes({"count": count})
    runtime = Runtime(graph, store=store)
    driver = threading.Thread(target=lambda: runtime.run({}, thread="t"))
    driver.start()
    assert begun.wait(20)
    with pytest.raises(ConflictError):
        Runtime(graph, store=store).drive("t")
    with pytest.raises(ConflictError):
        runtime.start(thread="t")
    go.set()
    driver.join()
    assert not any(isinstance(entry.event, RunResumed) for entry in runtime.entries("t"))


def test_a_handed_over_run_is_executed_again_from_its_journal(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    runtime.start({"most": 200, "pause_s": 0.005}, thread="t")
    driver = threading.Thread(target=runtime.drive, args=("t",))
    driver.start()
    eventually(lambda: runtime.state("t").values.n > 0)
    runtime.hand_over("deploy", grace_s=1)
    driver.join()
    runtime.drive("t")
    assert runtime.reexecute("t").same


@pytest.mark.parametrize("verb", ["wait", "await_"])
def test_waiting_for_a_thread_without_a_driver_logs_one_hint(
    store: Store, verb: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(undriven, "AFTER_S", 0.05)
    monkeypatch.setattr(undriven, "LOOK_S", 0.01)
    runtime = Runtime(loop(), store=store)
    runtime.start({"n": 4}, thread="t")

    def wait() -> Any:
        found: Any = getattr(runtime, verb)("t", timeout_s=2.0)
        return asyncio.run(found) if verb == "await_" else found

    with caplog.at_level("WARNING", "graphrt.runs"), pytest.raises(WaitTimeoutError):
        wait()
    (record,) = caplog.records
    assert "Nobody drives thread 't' of graph 'loop'" in record.getMessage()
    assert "drive('t')" in record.getMessage()


def test_waiting_for_a_thread_that_is_driven_logs_no_hint(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(undriven, "AFTER_S", 0.05)
    monkeypatch.setattr(undriven, "LOOK_S", 0.01)
    runtime = Runtime(loop(), store=store)
    runtime.start({"n": 0, "most": 6, "pause_s": 0.05}, thread="t")
    driver = threading.Thread(target=runtime.drive, args=("t",))
    caplog.set_level("WARNING", "graphrt.runs")
    driver.start()
    eventually(lambda: runtime.threads()[0].owned)
    result = runtime.wait("t", timeout_s=20)
    driver.join()

    assert result.status == "completed"
    assert caplog.records == []
