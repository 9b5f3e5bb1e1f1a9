"""A ledger limits calls to its budget, first come, first served, and loses no reservation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from graphrt._ambient import inside
from graphrt.errors import BudgetExceededError
from graphrt.events import Amounts
from graphrt.harness import Budget, BudgetWarning, Ledger


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())


def tokens(count: int) -> Amounts:
    return Amounts(tokens=count, calls=1)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_unused_reservation_is_released() -> None:
    async def body() -> None:
        ledger = Ledger(Budget(tokens=100))
        hold = await ledger.reserve(tokens(90))
        assert (ledger.held.tokens, ledger.remaining_tokens) == (90, 10)
        hold.commit(tokens(30))
        hold.release()
        hold.commit(tokens(30))
        assert (ledger.held, ledger.spent, ledger.remaining_tokens) == (Amounts(), Amounts(30, 0, 1), 70)

    run(body)


def test_large_amounts_are_shown_exactly() -> None:
    async def body() -> None:
        with pytest.raises(BudgetExceededError, match="may take 2345679 tokens, and 2345678 of 2345678 are left"):
            await Ledger(Budget(tokens=2_345_678)).reserve(tokens(2_345_679))

    run(body)


def test_call_that_can_never_fit_is_refused_at_once_with_a_reason() -> None:
    async def body() -> None:
        ledger = Ledger(Budget(tokens=100), of="agent 'a'")
        (await ledger.reserve(tokens(60))).commit(tokens(60))
        with pytest.raises(BudgetExceededError, match="may take 50 tokens, and 40 of 100 are left") as caught:
            await ledger.reserve(tokens(50))
        assert caught.value.where == "budget of agent 'a'"
        assert ledger.held == Amounts()

    run(body)


def test_waiting_calls_continue_in_order_of_arrival() -> None:
    """A small call does not overtake a large one that waits."""

    async def body() -> None:
        ledger, order = Ledger(Budget(tokens=100)), list[str]()

        async def call(name: str, want: int) -> None:
            hold = await ledger.reserve(tokens(want))
            order.append(name)
            hold.commit(tokens(0))

        first = await ledger.reserve(tokens(50))
        tasks = [asyncio.create_task(call(name, want)) for name, want in (("large", 90), ("small", 1), ("last", 100))]
        await turns()
        assert order == []
        first.release()
        await asyncio.gather(*tasks)
        assert order == ["large", "small", "last"]

    run(body)


def test_cancelled_waiting_call_makes_room_for_those_behind_it() -> None:
    async def body() -> None:
        ledger = Ledger(Budget(tokens=100))
        first = await ledger.reserve(tokens(50))
        large = asyncio.create_task(ledger.reserve(tokens(90)))
        small = asyncio.create_task(ledger.reserve(tokens(50)))
        await turns()
        large.cancel()
        hold = await small
        with pytest.raises(asyncio.CancelledError):
            await large
        hold.release()
        first.release()
        assert ledger.held == Amounts()

    run(body)


def test_call_that_is_cancelled_when_it_is_admitted_releases_its_reservation() -> None:
    async def body() -> None:
        for late in range(4):
            ledger = Ledger(Budget(tokens=100))
            first = await ledger.reserve(tokens(100))
            waiting = asyncio.create_task(ledger.reserve(tokens(100)))
            await turns()
            first.release()
            await turns(late)
            if waiting.cancel() and not waiting.done():
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            else:
                (await waiting).release()
            assert ledger.held == Amounts()

    run(body)


def test_call_whose_event_loop_is_gone_holds_no_reservation() -> None:
    """The room that it waited for goes to the next one."""
    ledger = Ledger(Budget(tokens=100))
    gone = asyncio.new_event_loop()
    first = gone.run_until_complete(ledger.reserve(tokens(100)))
    waiting = gone.create_task(ledger.reserve(tokens(100)))
    gone.run_until_complete(turns())
    gone.close()
    first.release()

    assert ledger.held == Amounts()
    waiting.get_coro().close()


def test_nested_call_is_refused_instead_of_waiting_for_its_outer_call() -> None:
    async def body() -> None:
        run_, agent = (outer := Ledger(Budget(tokens=100))), Ledger(Budget(tokens=80), of="agent", parent=outer)
        hold = await run_.reserve(tokens(60))
        with inside(holding=True):
            with pytest.raises(BudgetExceededError, match="because it is part of one of them"):
                await agent.reserve(tokens(50))
            (await agent.reserve(tokens(40))).release()
        hold.release()
        assert (run_.held, agent.held) == (Amounts(), Amounts())

    run(body)


def test_nested_call_does_not_wait_behind_others() -> None:
    """They may wait for the call that it is part of."""

    async def body() -> None:
        ledger = Ledger(Budget(tokens=100))
        outer = await ledger.reserve(tokens(50))
        other = asyncio.create_task(ledger.reserve(tokens(80)))
        await turns()
        with inside(holding=True):
            (await ledger.reserve(tokens(10))).commit(tokens(10))
        outer.release()
        (await other).release()
        assert ledger.spent.tokens == 10

    run(body)


def test_waiting_call_is_refused_when_it_can_no_longer_fit() -> None:
    async def body() -> None:
        ledger = Ledger(Budget(tokens=100))
        first = await ledger.reserve(tokens(60))
        waiting = asyncio.create_task(ledger.reserve(tokens(60)))
        await turns()
        first.commit(tokens(60))
        with pytest.raises(BudgetExceededError):
            await waiting
        assert (ledger.held, ledger.spent.tokens) == (Amounts(), 60)

    run(body)


def test_all_outer_ledgers_count_and_limit() -> None:
    async def body() -> None:
        top = Ledger(Budget(tokens=100), of="run")
        middle = Ledger(Budget(calls=2), of="node 'a'", parent=top)
        low = Ledger(Budget(usd=0.5), of="agent 'b'", parent=middle)
        (await low.reserve(Amounts(40, 400_000, 1))).commit(Amounts(10, 300_000, 1))
        assert top.spent == middle.spent == low.spent == Amounts(10, 300_000, 1)
        assert low.remaining_usd == 0.2
        with pytest.raises(BudgetExceededError, match="budget of agent 'b'"):
            await low.reserve(Amounts(1, 200_001, 1))
        with pytest.raises(BudgetExceededError, match="budget of run"):
            await low.reserve(Amounts(91, 0, 1))
        with pytest.raises(BudgetExceededError, match="budget of node 'a'"):
            await low.reserve(Amounts(1, 0, 2))
        assert top.held == middle.held == low.held == Amounts()

    run(body)


def test_time_starts_with_the_first_call_and_then_runs_out() -> None:
    async def body() -> None:
        now = [0.0]
        ledger = Ledger(Budget(seconds=10), clock=lambda: now[0])
        now[0] = 50.0
        assert ledger.remaining_s == 10
        (await ledger.reserve(tokens(1))).release()
        now[0] = 59.0
        assert ledger.remaining_s == 1
        now[0] = 60.0
        with pytest.raises(BudgetExceededError, match="its time is used up"):
            await ledger.reserve(tokens(1))
        ledger.extend(seconds=5)
        assert ledger.remaining_s == 5
        (await ledger.reserve(tokens(1))).release()

    run(body)


def test_waiting_call_is_refused_when_its_time_is_over() -> None:
    """No other call has to end for that: the call of another node may never end."""

    async def body() -> None:
        outer = Ledger(Budget(tokens=100))
        inner = Ledger(Budget(seconds=0.01), of="node 'a'", parent=outer)
        other = await outer.reserve(tokens(100))
        with pytest.raises(BudgetExceededError, match="budget of node 'a': its time is used up"):
            await inner.reserve(tokens(1))
        other.release()
        (await outer.reserve(tokens(100))).release()

    run(body)


def test_raised_limit_admits_waiting_calls() -> None:
    async def body() -> None:
        ledger = Ledger(Budget(tokens=100))
        first = await ledger.reserve(tokens(60))
        waiting = asyncio.create_task(ledger.reserve(tokens(60)))
        await turns()
        ledger.extend(tokens=100, usd=1.0)
        (await waiting).release()
        first.release()
        assert ledger.remaining_tokens == 200
        assert ledger.remaining_usd is None

    run(body)


def test_raised_limit_starts_from_the_usage_after_an_overrun() -> None:
    async def body() -> None:
        ledger = Ledger(Budget(tokens=100), spent=tokens(500))
        assert ledger.remaining_tokens == 0
        ledger.extend(tokens=50)
        assert ledger.remaining_tokens == 50

    run(body)


def test_each_limit_warns_once() -> None:
    async def body() -> None:
        told: list[BudgetWarning] = []
        ledger = Ledger(Budget(tokens=100, calls=3, warn_at=0.5), warn=told.append)
        for _ in range(3):
            (await ledger.reserve(tokens(20))).commit(tokens(20))
        assert told == [
            BudgetWarning(what="calls", of="run", used=2, limit=3),
            BudgetWarning(what="tokens", of="run", used=60, limit=100),
        ]

    run(body)


def test_provider_that_uses_more_than_the_reservation_is_reported() -> None:
    async def body() -> None:
        told: list[BudgetWarning] = []
        ledger = Ledger(Budget(tokens=100), warn=told.append)
        (await ledger.reserve(tokens(90))).commit(tokens(85))
        (await ledger.reserve(tokens(10))).commit(tokens(40))
        assert [(one.used, one.limit) for one in told] == [(85, 100), (125, 100)]
        assert ledger.remaining_tokens == 0
        with pytest.raises(BudgetExceededError):
            await ledger.reserve(tokens(0))

    run(body)


def test_warning_that_cannot_be_shown_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    def broken(warning: BudgetWarning) -> None:
        raise RuntimeError(warning.what)

    async def body() -> None:
        ledger = Ledger(Budget(tokens=100), warn=broken)
        (await ledger.reserve(tokens(90))).commit(tokens(90))
        assert (ledger.held, ledger.spent.tokens) == (Amounts(), 90)

    run(body)

    assert "budget of run failed" in caplog.text
