"""Timers (R23): a node sleeps without a worker, once, and its thread continues at the due time."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from graphrt import START, Context, Runtime
from graphrt.errors import InputError, WaitTimeoutError
from graphrt.events import InterruptAnswered, InterruptRaised
from graphrt.testing import VirtualClock

from .support import Counts, Fails, World, ask, builder, fan, line, note, refused

DAY_S = 86_400.0


@pytest.fixture
def clock(world: World) -> VirtualClock:
    made = VirtualClock()
    world.clock = made  # type: ignore[assignment]  # the runtimes of the test share it
    return made


def sleeps(*args: Any, **units: Any) -> Any:
    def node(state: Any, ctx: Context) -> Any:
        ctx.sleep(*args, **units)
        return {"notes": [f"woke at {ctx.now():g}"]}

    return node


def timers(runtime: Runtime[Any], thread: str) -> list[float | None]:
    return [one.event.expires_at for one in runtime.entries(thread) if isinstance(one.event, InterruptRaised)]


def test_sleeping_thread_waits_and_continues_when_driven_later(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("a", note("a")), ("nap", sleeps(days=3)), ("b", note("b"))))
    paused = runtime.run({"notes": []}, thread="t")
    (timer,) = paused.interrupts

    assert (paused.status, timer.kind, timer.node, timer.payload) == ("interrupted", "timer", "nap", None)
    assert timer.expires_at == clock() + 3 * DAY_S
    refused("sleeping", lambda: runtime.drive("t"), "3 days are left", timer.id)
    clock.advance(3 * DAY_S - 1)
    refused("sleeping", lambda: runtime.drive("t"), "1 s are left")
    clock.advance(1)
    done = runtime.drive("t")
    assert (done.status, done.state["notes"][0], done.state["notes"][2]) == ("completed", "a", "b")
    refused("not-due", lambda: runtime.drive("t"))


@pytest.mark.parametrize(
    ("args", "units", "seconds"),
    [
        ((90,), {}, 90.0),
        ((0.25,), {}, 0.25),
        ((0,), {}, 0.0),
        ((), {"hours": 0}, 0.0),
        ((dt.timedelta(hours=2),), {}, 7_200.0),
        ((), {"days": 1, "hours": 2, "minutes": 3, "seconds": 4.5}, 86_400 + 7_200 + 180 + 4.5),
    ],
    ids=repr,
)
def test_durations_may_be_seconds_or_timedeltas(
    world: World, clock: VirtualClock, args: Any, units: Any, seconds: float
) -> None:
    runtime = world.runtime(line(("nap", sleeps(*args, **units))))
    runtime.run({"notes": []}, thread="t")
    assert timers(runtime, "t") == [clock() + seconds]


def test_time_in_the_past_is_due_at_once(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("nap", lambda state, ctx: ctx.sleep_until(clock() - 5) and {"n": 1})))
    runtime.run({"notes": []}, thread="t")
    assert runtime.drive("t").state["n"] == 1


def test_datetimes_mean_the_instant_and_not_the_wall_clock(world: World, clock: VirtualClock) -> None:
    """A wall clock shows 2:30 twice on the night when summer time ends; `fold` selects one."""
    berlin = ZoneInfo("Europe/Berlin")
    early = dt.datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    moments = [early, early.replace(fold=1), early.astimezone(dt.UTC)]

    def node(state: Any, ctx: Context) -> Any:
        ctx.sleep_until(moments[state.get("n", 0)])
        return {"n": 1}

    runtime = world.runtime(line(("a", node), ("b", node), ("c", node)))
    runtime.run({"notes": []}, thread="t")
    for _ in range(3):
        clock.advance(2e9)
        runtime.drive("t")
    first, second, third = timers(runtime, "t")
    assert first is not None
    assert (second, third) == (first + 3_600, first)


WRONG: list[tuple[str, Any, str]] = [
    ("input", lambda ctx: ctx.sleep(), "None"),
    ("input", lambda ctx: ctx.sleep(-1), "-1"),
    ("input", lambda ctx: ctx.sleep(float("nan")), "nan"),
    ("input", lambda ctx: ctx.sleep(float("inf")), "inf"),
    ("input", lambda ctx: ctx.sleep(10**400), "1000000"),
    ("input", lambda ctx: ctx.sleep(True), "True"),
    ("input", lambda ctx: ctx.sleep("3 days"), "'3 days'"),
    ("input", lambda ctx: ctx.sleep(days="3"), "days= of ctx.sleep() cannot be '3'"),
    ("input", lambda ctx: ctx.sleep(5, hours=1), "hours=1"),
    ("input", lambda ctx: ctx.sleep(weeks=1), "weeks= of ctx.sleep() cannot be 1"),
    ("input", lambda ctx: ctx.sleep(dt.timedelta(days=-1)), "-86400"),
    ("input", lambda ctx: ctx.sleep(days=2_930_000), "year 9999"),
    ("input", lambda ctx: ctx.sleep_until(dt.datetime(2030, 1, 1)), "no time zone"),  # noqa: DTZ001
    ("input", lambda ctx: ctx.sleep_until(dt.date(2030, 1, 1)), "datetime.date"),
    ("input", lambda ctx: ctx.sleep_until(float("nan")), "nan"),
    ("input", lambda ctx: ctx.sleep_until(1_700_000_000_000), "milliseconds"),
    ("input", lambda ctx: ctx.sleep_until(None), "None"),
]


@pytest.mark.parametrize(("code", "call", "word"), WRONG)
def test_invalid_times_of_timers_are_refused(code: str, call: Any, word: str) -> None:
    runtime = Runtime(line(("nap", lambda state, ctx: call(ctx))), store="memory:")
    refused(code, lambda: runtime.run({}, thread="t"), word, error=InputError)
    runtime.close()


def test_run_without_a_thread_cannot_sleep() -> None:
    refused("interrupt-needs-thread", lambda: line(("nap", sleeps(1))).run({}))


def test_node_that_runs_again_sleeps_once(world: World, clock: VirtualClock) -> None:
    """Each sleep of a node has its own due time, computed when the node reached it first."""
    calls = Counts()

    def node(state: Any, ctx: Context) -> Any:
        calls(state)
        ctx.sleep(10)
        ctx.sleep(hours=1)
        return {"notes": [ctx.interrupt("name?")], "n": 1}

    runtime = world.runtime(line(("nap", node)))
    began = clock()
    runtime.run({"notes": []}, thread="t")
    clock.advance(50)
    runtime.drive("t")
    clock.advance(3_600)
    assert runtime.drive("t").interrupts[0].payload == "name?"
    assert runtime.resume("t", "Ann").state["notes"] == ["Ann"]
    assert calls.calls == 4
    assert timers(runtime, "t")[:2] == [began + 10, began + 50 + 3_600]


def test_async_nodes_may_await_the_call(world: World, clock: VirtualClock) -> None:
    async def node(state: Any, ctx: Context) -> Any:
        await ctx.sleep(5)
        await ctx.sleep_until(clock() - 1)
        return {"n": 1}

    async def drive() -> Any:
        runtime = world.runtime(line(("nap", node)))
        await runtime.arun({"notes": []}, thread="t")
        clock.advance(5)
        assert (await asyncio.to_thread(runtime.drive, "t")).status == "interrupted"
        return await asyncio.to_thread(runtime.drive, "t")

    assert asyncio.run(drive()).state["n"] == 1


def test_parallel_timers_fire_each_at_its_time(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(fan(("p", sleeps(10)), ("q", sleeps(20)), ("r", note("r"))))
    paused = runtime.run({"notes": []}, thread="t")
    assert [one.node for one in paused.interrupts] == ["p", "q"]
    clock.advance(10)
    assert [one.node for one in runtime.drive("t").interrupts] == ["q"]
    clock.advance(10)
    done = runtime.drive("t")
    assert (done.status, done.state["notes"][-1], len(done.state["notes"])) == ("completed", "last", 5)


def test_timers_of_nested_graphs_and_of_sends(world: World, clock: VirtualClock) -> None:
    inner = builder("inner")
    inner.add_node("nap", sleeps(10))
    inner.add_edge(START, "nap")
    outer = builder("outer")
    outer.add_node("child", inner.compile())
    outer.add_edge(START, "child")
    runtime = world.runtime(outer.compile())
    runtime.run({"notes": []}, thread="t")
    refused("sleeping", lambda: runtime.drive("t"))
    clock.advance(10)
    assert len(runtime.drive("t").state["notes"]) == 1


def test_answer_to_a_question_does_not_end_a_concurrent_timer(world: World, clock: VirtualClock) -> None:
    """A single answer is for the question, and an answer that names the timer is refused."""
    runtime = world.runtime(fan(("p", sleeps(10)), ("q", ask("q"))))
    timer, question = runtime.run({"notes": []}, thread="t").interrupts
    refused("sleeping", lambda: runtime.resume("t", {timer.id: 1}), "takes no answer", timer.id)
    refused("sleeping", lambda: runtime.resume("t", {timer.id: 1, question.id: 2}), timer.id)
    assert [one.id for one in runtime.resume("t", "yes").interrupts] == [timer.id]
    refused("sleeping", lambda: runtime.resume("t", answer=1), "10 s are left")
    refused("sleeping", lambda: runtime.resume("t"))
    clock.advance(10)
    assert runtime.resume("t").status == "completed"


def test_timer_fires_while_a_concurrent_question_stays_open(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(fan(("p", sleeps(10)), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    clock.advance(10)
    assert [one.node for one in runtime.drive("t").interrupts] == ["q"]
    refused("not-due", lambda: runtime.drive("t"))
    assert runtime.resume("t", "yes").status == "completed"


def test_inbox_lists_timers_only_on_request(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(fan(("p", sleeps(10)), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    assert [one.interrupt.kind for one in runtime.inbox()] == ["question"]
    (item,) = runtime.inbox(kind="timer")
    assert (item.thread, item.expires_at, item.interrupt.kind) == ("t", clock() + 10, "timer")


def test_cancelled_sleeper_sleeps_after_retry_until_its_first_due_time(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("nap", sleeps(100))))
    (timer,) = runtime.run({"notes": []}, thread="t").interrupts
    assert runtime.cancel("t")
    refused("not-due", lambda: runtime.drive("t"))
    clock.advance(60)
    again = runtime.retry("t")
    assert [(one.id, one.expires_at) for one in again.interrupts] == [(timer.id, timer.expires_at)]
    clock.advance(40)
    assert runtime.drive("t").status == "completed"


def test_edit_does_not_change_the_timer(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("nap", sleeps(100))))
    (timer,) = runtime.run({"notes": []}, thread="t").interrupts
    runtime.update("t", {"x": "edited"})
    refused("wrong-verb", lambda: runtime.retry("t"), "resume")
    clock.advance(100)
    assert runtime.state("t").interrupts[0].expires_at == timer.expires_at
    assert runtime.drive("t").state["x"] == "edited"


def test_a_failure_after_a_timer_is_retried_without_sleeping_again(world: World, clock: VirtualClock) -> None:
    fails = Fails()

    def node(state: Any, ctx: Context) -> Any:
        ctx.sleep(10)
        return fails(state)

    runtime = world.runtime(line(("nap", node)))
    runtime.run({"notes": []}, thread="t")
    clock.advance(10)
    with pytest.raises(Exception, match="broken pipe"):
        runtime.drive("t")
    fails.broken = False
    assert runtime.retry("t").state["notes"] == ["mended"]


def test_clock_that_goes_back_fires_nothing_twice(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("nap", sleeps(100)), ("more", sleeps(100))))
    runtime.run({"notes": []}, thread="t")
    clock.advance(100)
    runtime.drive("t")
    clock._now -= 1_000
    refused("sleeping", lambda: runtime.drive("t"), "18 min 20 s")
    answered = [one for one in runtime.entries("t") if isinstance(one.event, InterruptAnswered)]
    assert [(one.event.by, one.event.answer) for one in answered] == [("timer", None)]


def test_journal_with_timers_can_be_replayed_reexecuted_forked_and_copied(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(fan(("p", sleeps(10)), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    runtime.resume("t", "yes")
    fork = runtime.fork("t")
    copy = runtime.copy_thread("t")
    clock.advance(10)
    for thread in ("t", fork, copy):
        while runtime.state(thread).status == "interrupted":
            (open_,) = runtime.state(thread).interrupts
            runtime.drive(thread) if open_.kind == "timer" else runtime.resume(thread, "yes")
            clock.advance(10)
        assert runtime.state(thread).status == "completed"
        assert runtime.replay(thread).values == runtime.state(thread).values
    assert runtime.reexecute("t").same, runtime.reexecute("t").sentence


def test_wait_and_follow_wait_for_a_thread_that_only_sleeps(world: World, clock: VirtualClock) -> None:
    runtime = world.runtime(line(("nap", sleeps(10)), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    with pytest.raises(WaitTimeoutError, match="sleeps until"):
        runtime.wait("t", timeout_s=0.02)
    clock.advance(10)
    runtime.drive("t")
    assert runtime.wait("t", timeout_s=5).interrupts[0].kind == "question"
    assert [entry.seq for entry in runtime.follow("t")] == list(range(1, len(list(runtime.entries("t"))) + 1))
