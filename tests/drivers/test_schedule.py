"""The schedule of a drive in isolation: no thread, no loop and no waiting."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from graphrt._drivers.concurrency_limit import ConcurrencyLimit
from graphrt._drivers.failures import Escaped
from graphrt._drivers.schedule import HERE, WORKER, Schedule
from graphrt._engine.task import Failed, TimedOut

HANDLE = object()


class Fake(SimpleNamespace):
    """A task or another object with a few attributes; compared by identity."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def named(name: str, *, delay_s: float = 0.0, ends_s: float | None = None) -> Any:
    extra = Fake(delay_s=delay_s) if delay_s else None
    return Fake(name=name, extra=extra, execution=1, ends_s=ends_s, timeout_s=1.0, running=None)


def schedule(limit: int | None = None) -> tuple[Schedule, Any]:
    services: Any = SimpleNamespace(control=SimpleNamespace(halt=None), eager=False)
    counted = None if limit is None else ConcurrencyLimit(limit)
    return Schedule(services, counted, lambda _: WORKER, lambda: None, threading.RLock()), services


def test_task_with_a_backoff_waits_first() -> None:
    made, _ = schedule()
    one = named("one", delay_s=2.0)

    rests = made.start([one])
    made.resting[rests[0][0]] = HANDLE

    assert rests == [((one, 1), 2.0)]
    assert made.next(WORKER, HANDLE) is None
    made.rested(rests[0][0])
    assert made.next(WORKER, HANDLE) is one


def test_error_of_a_backoff_is_raised_where_outcomes_are_taken() -> None:
    made, _ = schedule()
    ((key, _),) = made.start([named("one", delay_s=2.0)])
    made.resting[key] = HANDLE

    made.rested(key, ValueError("sleep"))

    with pytest.raises(ValueError, match="sleep"):
        made.take([])


def test_running_tasks_never_exceed_the_limit() -> None:
    made, _ = schedule(limit=1)
    one, two = named("one"), named("two")
    made.start([one, two])

    assert made.next(WORKER, HANDLE) is one
    assert made.next(WORKER, HANDLE) is None
    made.end(one, 1, {})
    assert made.next(WORKER, HANDLE) is two


def test_failure_holds_the_queue_until_the_flow_has_seen_it() -> None:
    made, _ = schedule()
    one, two = named("one"), named("two")
    made.start([one, two])
    made.next(WORKER, HANDLE)

    made.end(one, 1, Failed(ValueError()))

    assert made.is_due
    assert made.next(WORKER, HANDLE) is None


def test_attempt_that_timed_out_is_abandoned_and_its_end_is_late() -> None:
    made, _ = schedule()
    one, reasons = named("one"), list[str]()
    one.running = SimpleNamespace(_give_up=reasons.append)
    made.start([one])
    made.next(WORKER, HANDLE)
    made.times[one, 1] = Fake(until=0.0, reply=lambda: TimedOut(1.0))  # type: ignore[assignment]

    assert made.expire() == [HANDLE]
    assert reasons == ["it had run out of time"]
    assert made.end(one, 1, {"late": True}) is False
    batch: list[Any] = []
    made.take(batch)
    assert [type(reply) for _, _, reply in batch] == [TimedOut]


def test_task_that_was_queued_for_too_long_is_not_called() -> None:
    made, _ = schedule()
    made.start([named("one", ends_s=0.0)])

    assert made.next(WORKER, HANDLE) is None
    assert [type(reply) for _, _, reply in made.ended] == [TimedOut]


def test_stop_starts_nothing_and_keeps_ended_outcomes() -> None:
    made, _ = schedule()
    one, two, rests = named("one"), named("two"), named("rests", delay_s=1.0)
    ((key, _),) = made.start([one, two, rests])
    made.resting[key] = HANDLE
    made.next(WORKER, HANDLE)

    assert made.stop() == [HANDLE]
    made.rested(key)  # its timer was faster than the stop
    made.end(one, 1, {"x": 1})

    assert made.next(WORKER, HANDLE) is None
    assert not made.is_busy
    assert made.stopped() == [(one, 1, {"x": 1})]


def test_running_tasks_are_abandoned_after_the_grace_time() -> None:
    made, _ = schedule()
    one, reasons = named("one"), list[str]()
    one.running = SimpleNamespace(_give_up=reasons.append)
    made.start([one])
    made.next(WORKER, HANDLE)

    assert made.abandon() == [HANDLE]
    assert "grace_s" in reasons[0]
    assert made.end(one, 1, {}) is False


def test_escaped_error_leaves_the_outcomes_for_the_stop() -> None:
    made, _ = schedule()
    one, two = named("one"), named("two")
    made.start([one, two])
    made.next(WORKER, HANDLE)
    made.next(WORKER, HANDLE)
    made.end(one, 1, {"x": 1})
    made.end(two, 1, Escaped(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        made.take([])

    assert made.stopped() == [(one, 1, {"x": 1})]


def test_halted_run_starts_nothing() -> None:
    made, services = schedule()
    made.start([named("one")])
    services.control.halt = "cancelled"

    assert made.next(WORKER, HANDLE) is None
    assert made.next(HERE) is None
    assert made.is_due


def test_reply_that_arrives_while_ended_ones_are_read_waits() -> None:
    made, _ = schedule()
    one, other = named("one"), named("other")
    made.start([one, other])
    assert [made.next(WORKER, HANDLE), made.next(WORKER, HANDLE)] == [one, other]
    late = threading.Thread(target=made.end, args=(other, 1, None))

    class Looked:
        @property
        def __class__(self) -> Any:
            if late.ident is None:
                late.start()
                late.join(0.05)  # it must not land before all others were read
            return Looked

    made.ended += [(one, 1, Looked()), (one, 1, None)]
    made.hold()
    late.join()

    assert [task for task, *_ in made.ended] == [one, one, other]
