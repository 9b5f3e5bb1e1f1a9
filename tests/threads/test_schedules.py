"""Schedules (R23): threads that start at the times of a cron expression, once each, also when clocks change or jump."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field

from graphrt import GraphBuilder, Runtime
from graphrt.errors import InputError, MissingExtraError
from graphrt.runtime import Schedule
from graphrt.stores import TenantStore
from graphrt.stores.filters import ScheduleFilter
from graphrt.stores.values import StoredSchedule
from graphrt.testing import VirtualClock, drive_due

from .support import World, builder, line, note, refused

BERLIN = ZoneInfo("Europe/Berlin")


def at(*when: int, zone: Any = dt.UTC) -> float:
    return dt.datetime(*when, tzinfo=zone).timestamp()  # type: ignore[arg-type, misc]  # year, month, day, ...


@pytest.fixture
def clock(world: World) -> VirtualClock:
    made = VirtualClock(at(2026, 11, 26))
    world.clock = made  # type: ignore[assignment]  # the runtimes of the test share it
    return made


@pytest.fixture
def runtime(world: World, clock: VirtualClock) -> Any:
    for schedule in world.store.query(ScheduleFilter()):
        world.store.delete_schedule(schedule.name)
    return world.runtime(line(("a", note("a"))))


def started(runtime: Runtime[Any]) -> list[str]:
    return [info.thread.partition("@")[2] for info in runtime.threads()]


def test_thread_starts_at_each_due_time(runtime: Any, clock: VirtualClock) -> None:
    made = runtime.schedules.add(
        "daily", "0 9 * * *", {"notes": []}, timezone="Europe/Paris", title="Report", tags={"b", "a"}
    )
    assert made == Schedule(
        name="daily",
        graph="g",
        cron="0 9 * * *",
        timezone="Europe/Paris",
        input={"notes": []},
        missed="once",
        title="Report",
        tags=("a", "b"),
        due_at=at(2026, 11, 26, 8),
    )
    assert runtime.schedules.list() == (made,)
    clock.advance(8 * 3_600 - 1)
    assert runtime.schedules.start_due() == ()
    clock.advance(1)
    assert runtime.schedules.start_due() == ("daily@2026-11-26T08:00:00Z",)
    assert runtime.schedules.start_due() == ()
    (info,) = runtime.threads()
    assert (info.status, info.title, info.tags) == ("running", "Report", {"a", "b"})
    assert [result.state["notes"] for result in drive_due(runtime).values()] == [["a"]]
    assert runtime.schedules.list()[0].due_at == at(2026, 11, 27, 8)


def test_same_definition_changes_nothing_and_a_different_one_is_refused(runtime: Any, clock: VirtualClock) -> None:
    first = runtime.schedules.add("daily", "0 9 * * *", {"notes": []})
    clock.advance(100)
    assert runtime.schedules.add("daily", "0 9 * * *", {"notes": []}) == first
    refused("schedule-exists", lambda: runtime.schedules.add("daily", "0 8 * * *", {"notes": []}), "'cron'")
    refused("schedule-exists", lambda: runtime.schedules.add("daily", "0 9 * * *", {"notes": [1]}), "'input'")
    other = runtime.schedules.add("daily", "0 8 * * *", {"notes": []}, replace=True)
    assert runtime.schedules.list() == (other,)
    assert other.due_at == at(2026, 11, 26, 8)


def test_a_name_is_unique_over_the_graphs_of_a_store(world: World, runtime: Any) -> None:
    runtime.schedules.add("daily", "0 9 * * *", {"notes": []})
    other = world.runtime(line(("b", note("b")), name="other"))
    refused("schedule-exists", lambda: other.schedules.add("daily", "0 9 * * *", {"notes": []}), "'graph'")
    assert other.schedules.list() == ()
    assert other.schedules.add("daily", "0 9 * * *", {"notes": []}, replace=True).graph == "other"
    assert runtime.schedules.list() == ()


def test_removed_schedule_starts_nothing(runtime: Any, clock: VirtualClock) -> None:
    runtime.schedules.add("daily", "0 9 * * *", {"notes": []})
    runtime.schedules.remove("daily")
    clock.advance(86_400)
    assert runtime.schedules.start_due() == ()
    refused("unknown-schedule", lambda: runtime.schedules.remove("daily"))


@pytest.mark.parametrize(
    ("missed", "days"),
    [("once", ["28T09:00:00Z"]), ("all", ["26T09:00:00Z", "27T09:00:00Z", "28T09:00:00Z"]), ("skip", [])],
)
def test_missed_times_follow_the_policy(runtime: Any, clock: VirtualClock, missed: Any, days: list[str]) -> None:
    runtime.schedules.add("daily", "0 9 * * *", {"notes": []}, missed=missed)
    clock.advance(2 * 86_400 + 12 * 3_600)
    runtime.schedules.start_due()
    assert started(runtime) == [f"2026-11-{day}" for day in days]
    clock.advance(21 * 3_600 + 30)  # 30 s after the next time, which is not missed
    assert runtime.schedules.start_due() == ("daily@2026-11-29T09:00:00Z",)


def test_many_missed_times_are_started_over_several_polls(runtime: Any, clock: VirtualClock) -> None:
    runtime.schedules.add("tick", "* * * * *", {"notes": []}, missed="all")
    clock.advance(150 * 60)
    assert [len(runtime.schedules.start_due()) for _ in range(3)] == [100, 50, 0]
    assert len(set(started(runtime))) == 150


def test_clock_that_goes_back_starts_nothing_twice(world: World, runtime: Any, clock: VirtualClock) -> None:
    runtime.schedules.add("daily", "0 9 * * *", {"notes": []})
    clock.advance(10 * 3_600)
    runtime.schedules.start_due()
    clock._now -= 5 * 3_600
    assert runtime.schedules.start_due() == ()
    clock.advance(5 * 3_600)
    assert runtime.schedules.start_due() == ()
    assert started(runtime) == ["2026-11-26T09:00:00Z"]


def test_process_that_dies_between_start_and_move_leaves_one_thread(
    world: World, runtime: Any, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.schedules.add("daily", "0 9 * * *", {"notes": []})
    clock.advance(10 * 3_600)
    with monkeypatch.context() as patch:
        patch.setattr(type(world.store), "move_schedule", _dies)
        with pytest.raises(KeyboardInterrupt):
            runtime.schedules.start_due()
    assert runtime.schedules.start_due() == ()
    assert started(runtime) == ["2026-11-26T09:00:00Z"]
    assert runtime.schedules.list()[0].due_at == at(2026, 11, 27, 9)


def _dies(*_: Any, **__: Any) -> bool:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("cron", "begin", "times"),
    [
        # Clocks go back at 03:00 to 02:00: a fixed time is due once, the first time.
        ("30 2 * * *", (2026, 10, 24, 12), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        # Clocks go forward at 02:00 to 03:00: 02:30 does not exist, and is due right after the gap.
        ("30 2 * * *", (2026, 3, 28, 12), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        # A time with a star follows the elapsed time.
        ("*/30 * * * *", (2026, 10, 25, 1, 45), ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"]),
        ("0 * * * *", (2026, 3, 29, 0, 30), ["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]),
    ],
)  # fmt: skip
def test_schedule_follows_changes_of_summer_time(world: World, cron: str, begin: Any, times: list[str]) -> None:
    clock = VirtualClock(at(*begin, zone=BERLIN))
    runtime = world.runtime(line(("a", note("a"))), clock=clock)
    runtime.schedules.add("job", cron, {"notes": []}, timezone="Europe/Berlin", replace=True)
    while len(runtime.threads()) < len(times):
        clock.advance(600)
        runtime.schedules.start_due()
    assert started(runtime) == times
    runtime.schedules.remove("job")


def test_schedule_that_is_added_in_the_repeated_hour_is_due_in_the_future(world: World) -> None:
    """At the second 02:15 the next 02:30 by the wall clock is tomorrow's."""
    clock = VirtualClock(at(2026, 10, 25, 1, 15))
    runtime = world.runtime(line(("a", note("a"))), clock=clock)
    made = runtime.schedules.add("job", "30 2 * * *", {"notes": []}, timezone="Europe/Berlin", replace=True)
    assert made.due_at == at(2026, 10, 26, 1, 30)
    runtime.schedules.remove("job")


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("bad-cron", {"cron": "every day"}, "five fields"),
    ("bad-cron", {"cron": "0 9 * *"}, "five fields"),
    ("bad-cron", {"cron": "0 0 9 * * *"}, "five fields"),
    ("bad-cron", {"cron": "61 9 * * *"}, "minute"),
    ("bad-cron", {"cron": "0 0 30 2 *"}, "day-of-month"),
    ("bad-cron", {"cron": "0 0 31 6,9 *"}, "day-of-month"),
    ("bad-cron", {"cron": None}, "None"),
    ("bad-timezone", {"timezone": "Mars/Olympus"}, "Mars/Olympus"),
    ("bad-timezone", {"timezone": "../etc"}, "../etc"),
    ("bad-timezone", {"timezone": 5}, "5"),
    ("input", {"missed": "never"}, "never"),
    ("input", {"name": "n" * 151}, "150"),
    ("bad-thread", {"name": "two words"}, "' '"),
    ("bad-label", {"title": ""}, "title"),
]


@pytest.mark.parametrize(("code", "given", "word"), WRONG)
def test_invalid_arguments_are_refused(code: str, given: dict[str, Any], word: str) -> None:
    with Runtime(line(("a", note("a"))), store="memory:") as runtime:
        whole: dict[str, Any] = {"name": "daily", "cron": "0 9 * * *", "input": {"notes": []}} | given
        refused(code, lambda: runtime.schedules.add(**whole), word, error=InputError)
        assert runtime.schedules.list() == ()


def test_invalid_input_is_refused_when_it_is_scheduled() -> None:
    with Runtime(line(("a", note("a"))), store="memory:") as runtime:
        refused("bad-input", lambda: runtime.schedules.add("daily", "0 9 * * *", {"notes": 5}), error=InputError)
        refused("unknown-key", lambda: runtime.schedules.add("daily", "0 9 * * *", {"note": []}), error=InputError)
        refused("not-storable", lambda: runtime.schedules.add("daily", "0 9 * * *", {"x": object()}), error=InputError)


def test_runtime_needs_a_store_that_supports_schedules() -> None:
    refused("thread-without-store", Runtime(line(("a", note("a")))).schedules.list)


def test_models_are_decoded_to_models(world: World, runtime: Any, clock: VirtualClock) -> None:
    class Order(BaseModel):
        number: int

    class Orders(BaseModel):
        order: Order
        seen: int = 0

    g = builder("orders", Orders)
    g.add_node("a", lambda state: {"seen": state.order.number})
    g.set_entry("a")
    g.set_finish("a")
    graph = g.compile()
    world.runtime(graph).schedules.add("daily", "0 9 * * *", Orders(order=Order(number=7)))
    clock.advance(86_400)
    other = world.runtime(graph)
    other.schedules.start_due()
    assert [result.state.seen for result in drive_due(other).values()] == [7]


def test_tenants_have_their_own_schedules(world: World, runtime: Any, clock: VirtualClock) -> None:
    graph = line(("a", note("a")))
    acme, other = (world.runtime(graph, store=TenantStore(world.store, name)) for name in ("acme", "other"))
    acme.schedules.add("daily", "0 9 * * *", {"notes": []})
    other.schedules.add("daily", "0 8 * * *", {"notes": []})
    assert [one.cron for one in acme.schedules.list()] == ["0 9 * * *"]
    clock.advance(86_400)
    assert acme.schedules.start_due() == ("daily@2026-11-26T09:00:00Z",)
    assert [info.thread for info in acme.threads()] == ["daily@2026-11-26T09:00:00Z"]
    assert other.threads() == ()
    other.schedules.remove("daily")
    assert len(acme.schedules.list()) == 1
    acme.schedules.remove("daily")


def test_async_twins(runtime: Any, clock: VirtualClock) -> None:
    async def use() -> Any:
        await runtime.schedules.aadd("daily", "0 9 * * *", {"notes": []}, missed="all")
        clock.advance(10 * 3_600)
        begun = await runtime.schedules.astart_due()
        listed = await runtime.schedules.alist()
        await runtime.schedules.aremove("daily")
        return begun, [one.missed for one in listed], runtime.schedules.list()

    assert asyncio.run(use()) == (("daily@2026-11-26T09:00:00Z",), ["all"], ())


def test_error_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from graphrt._runs import cron

    cron._cronsim.cache_clear()
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with Runtime(line(("a", note("a"))), store="memory:") as runtime:
        refused(
            "missing-extra",
            lambda: runtime.schedules.add("daily", "0 9 * * *", {"notes": []}),
            "graphrt[schedule]",
            error=MissingExtraError,
        )
    cron._cronsim.cache_clear()


def test_concurrent_definition_by_another_process(
    world: World, runtime: Any, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loser of the race gets the stored schedule if it is the same, and an error otherwise."""
    put = type(world.store).put_schedule

    def faster(cron: str) -> Any:
        def late(store: Any, schedule: StoredSchedule, *, replaces: str | None) -> bool:
            monkeypatch.setattr(type(world.store), "put_schedule", put)
            runtime.schedules.add("daily", cron, {"notes": []})
            return put(store, schedule, replaces=replaces)

        return late

    monkeypatch.setattr(type(world.store), "put_schedule", faster("0 9 * * *"))
    assert runtime.schedules.add("daily", "0 9 * * *", {"notes": []}).cron == "0 9 * * *"
    runtime.schedules.remove("daily")
    monkeypatch.setattr(type(world.store), "put_schedule", faster("0 8 * * *"))
    refused("schedule-exists", lambda: runtime.schedules.add("daily", "0 9 * * *", {"notes": []}), "meanwhile")


class Fresh(BaseModel):
    token: str = Field(default_factory=lambda: uuid4().hex)
    topic: str


def test_defaults_of_the_input_are_computed_for_each_thread(world: World, clock: VirtualClock) -> None:
    g = GraphBuilder(Fresh, name="fresh")
    g.add_node("a", lambda state: {})
    g.set_entry("a")
    g.set_finish("a")
    runtime: Any = world.runtime(g.compile())
    first = runtime.schedules.add("fresh", "0 * * * *", {"topic": "x"})

    assert runtime.schedules.add("fresh", "0 * * * *", {"topic": "x"}) == first
    assert runtime.schedules.add("fresh", "0 * * * *", Fresh(topic="x")) == first
    assert first.input == {"topic": "x"}
    for _ in range(2):
        clock.advance(3600)
        runtime.schedules.start_due()
    states = [runtime.state(info.thread).values for info in runtime.threads(prefix="fresh@")]
    assert [state.topic for state in states] == ["x", "x"]
    assert len({state.token for state in states}) == 2


def test_aliases_and_extra_values_of_the_input_are_kept(world: World) -> None:
    class Open(BaseModel, extra="allow"):
        topic: str = Field("", alias="Topic")

    g = GraphBuilder(Open, name="open")
    g.add_node("a", lambda state: {})
    g.set_entry("a")
    runtime: Any = world.runtime(g.compile())

    assert runtime.schedules.add("open", "0 * * * *", {"Topic": "x", "more": 1}).input == {"topic": "x", "more": 1}


def test_schedule_that_a_wrong_clock_moved_is_reset_when_it_is_added_again(runtime: Any, clock: VirtualClock) -> None:
    runtime.schedules.add("daily", "0 9 * * *", {})
    ahead = VirtualClock(clock() + 400 * 86_400)
    other: Any = Runtime(runtime.graph, store=runtime.store, clock=ahead)
    other.schedules.start_due()
    clock.advance(86_400)
    assert runtime.schedules.start_due() == ()
    added = runtime.schedules.add("daily", "0 9 * * *", {})

    assert added.due_at == at(2026, 11, 27, 9)
    clock.advance(86_400)
    assert runtime.schedules.start_due() == ("daily@2026-11-27T09:00:00Z",)
    assert runtime.schedules.add("daily", "0 9 * * *", {}).due_at == at(2026, 11, 28, 9)
