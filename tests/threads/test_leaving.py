"""A run that is cancelled, interrupted by Ctrl-C or left early leaves a thread that can continue (rule R19)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from graphrt import Runtime
from graphrt.errors import StoreError
from graphrt.stores.filters import ThreadFilter

from .support import Counts, ask, fan, finish, kinds, line, note, refused


def test_cancel_from_within_leaves_a_thread_that_can_be_retried(world):
    counts = Counts("b")

    def stops(state):
        assert runtime.cancel("t") is True
        return {"notes": ["a"]}

    runtime = world.runtime(line(("a", stops), ("b", counts)))
    result = runtime.run({"notes": []}, thread="t")

    assert (result.status, result.state["notes"], counts.calls) == ("cancelled", ["a"], 0)
    assert runtime.state("t").status == "cancelled"
    assert runtime.cancel("t") is False
    refused("wrong-verb", lambda: runtime.resume("t"), "cancelled", "retry('t')")
    assert runtime.retry("t").state["notes"] == ["a", "b"]
    assert "run-cancelled" in kinds(runtime.entries("t"))


def test_cancel_from_another_worker_thread(world):
    inside, go_on = threading.Event(), threading.Event()

    def waits(state):
        inside.set()
        assert go_on.wait(20)
        return {"notes": ["a"]}

    runtime = world.runtime(line(("a", waits), ("b", note("b"))))
    found = []
    worker = threading.Thread(target=lambda: found.append(runtime.run({"notes": []}, thread="t")))
    worker.start()
    assert inside.wait(20)
    assert runtime.cancel("t")
    go_on.set()
    worker.join(20)

    assert found[0].status == "cancelled"
    assert finish(runtime, "t")["notes"] == ["a", "b"]


def test_ctrl_c_is_journalled_and_raised(world):
    pressed = [True]

    def node(state):
        if pressed:
            raise KeyboardInterrupt
        return {"notes": ["b"]}

    runtime = world.runtime(line(("a", note("a")), ("b", node)))
    with pytest.raises(KeyboardInterrupt):
        runtime.run({"notes": []}, thread="t")
    pressed.clear()

    assert runtime.state("t").status == "cancelled"
    assert runtime.state("t").values["notes"] == ["a"]
    assert runtime.retry("t").state["notes"] == ["a", "b"]


def test_cancelled_asyncio_task_leaves_a_thread_that_can_be_retried(world):
    counts = Counts("a")

    async def go():
        inside = asyncio.Event()
        hold = [True]

        async def waits(state):
            if hold:
                inside.set()
                await asyncio.Event().wait()
            return {"notes": ["w"]}

        runtime = world.runtime(fan(("a", counts), ("w", waits)))
        task = asyncio.create_task(runtime.arun({"notes": []}, thread="t"))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold.clear()
        stood = await runtime.astate("t")
        return stood, await runtime.aretry("t")

    stood, end = asyncio.run(go())
    assert stood.status == "cancelled"
    assert end.state["notes"] == ["split", "a", "w", "last"]
    assert counts.calls == 1


def test_leaving_a_generator_early_cancels(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abc")))
    for step in runtime.steps({"notes": []}, thread="t"):
        assert step.node == "a"
        break
    for _ in runtime.stream({"notes": []}, thread="u", modes=["values", "custom"]):
        break

    assert runtime.state("t").status == "cancelled"
    assert runtime.state("t").values["notes"] == ["a"]
    assert runtime.retry("t").state["notes"] == ["a", "b", "c"]
    assert finish(runtime, "u")["notes"] == ["a", "b", "c"]


def test_leaving_an_async_generator_early_cancels(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abc")))

    async def go():
        steps = runtime.asteps({"notes": []}, thread="t")
        async for _ in steps:
            break
        await steps.aclose()
        return (await runtime.astate("t")).status, await runtime.aretry("t")

    status, end = asyncio.run(go())
    assert status == "cancelled"
    assert end.state["notes"] == ["a", "b", "c"]


def test_closing_the_runtime_cancels_its_runs(world):
    runtime = Runtime(line(("a", note("a")), ("b", note("b"))), store=world.store)
    steps = runtime.steps({"notes": []}, thread="t")
    next(steps)
    runtime.close()
    assert list(steps) == []
    other = world.runtime(runtime.graph)

    assert other.state("t").status == "cancelled"
    assert other.retry("t").state["notes"] == ["a", "b"]


def test_store_is_closed_after_the_active_run_has_stored_its_end(folder):
    url = f"sqlite:///{folder / 'runs.db'}"
    runtime = Runtime(line(("a", note("a")), ("b", note("b"))), store=url)
    steps = runtime.steps({"notes": []}, thread="t")
    next(steps)
    runtime.close()
    assert list(steps) == []

    with pytest.raises(StoreError, match="closed"):
        runtime.state("t")
    with Runtime(runtime.graph, store=url) as later:
        assert later.state("t").status == "cancelled"
        assert later.retry("t").state["notes"] == ["a", "b"]


def test_store_is_closed_although_the_last_commit_of_the_run_failed(monkeypatch):
    runtime = Runtime(line(("a", note("a")), ("b", note("b"))), store="memory:")
    store = runtime.store
    steps = runtime.steps({"notes": []}, thread="t")
    next(steps)
    runtime.close()

    def fails(*_, **__):
        raise StoreError("The disk is gone.", code="store-failed")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "commit", fails)
        with pytest.raises(StoreError, match="The disk is gone"):
            list(steps)

    with pytest.raises(StoreError, match="closed"):
        store.query(ThreadFilter())


def test_two_runtimes_alternate_on_one_thread(world):
    graph = line(("p", ask("p")), ("q", ask("q")))
    one, two = world.runtime(graph), world.runtime(graph)
    one.run({"notes": []}, thread="t")
    two.resume("t", 1)

    assert one.resume("t", 2).state["notes"] == ["p=1", "q=2"]


def test_unnamed_threads_get_their_own_ids(world):
    runtime = world.runtime(line(("a", note("a"))))
    results = [runtime.run({"notes": []}) for _ in range(3)]

    assert len({result.thread for result in results}) == 3
    assert [info.thread for info in runtime.threads()] == [result.thread for result in results]
    assert runtime.state(results[0].thread).status == "completed"
