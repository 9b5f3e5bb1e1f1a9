"""The ledger of a budget: it admits model calls so that parallel calls never exceed a limit together.

A call reserves an upper bound before it is made, and settles what it really used when it has ended. The invariant is
spent + held <= limit, in whole numbers of each unit of `_usage.amounts` (decision 0030). It names no unit but time.

Ledgers form a tree by `parent`: run, field `token_budget`, node, agent. A call must fit its ledger and all ledgers
above it. All ledgers of a tree share one lock and one queue of waiting calls, first come, first served. The lock is
never held while a callback runs or an event loop is woken.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, Final, final

from graphrt._ambient import surroundings
from graphrt._usage.amounts import SECONDS, UNITS, Unit, limit_names
from graphrt._usage.budget import Budget, BudgetWarning
from graphrt.errors import BudgetExceededError
from graphrt.errors._codes.budgets import BUDGET_EXCEEDED, BUDGET_TIME_OVER
from graphrt.events import Amounts

__all__ = ["Ledger"]

_INSIDE: Final = (
    ", of which calls in progress hold {held}. It cannot wait for them to end, because it is part of one of them"
)
_REFUSED: Final = ", none of them for this call: its question for more was answered with 0"
"""Notes after the amount that is left, in the error about a call that does not fit."""

_log: Final = logging.getLogger("graphrt.harness")


@final
class Hold:
    """The reservation of one call, until it is settled."""

    __slots__ = ("_ledger", "_open", "want")

    def __init__(self, ledger: Ledger, want: Amounts) -> None:
        self._ledger = ledger
        self._open = True
        self.want: Amounts = want

    def commit(self, used: Amounts) -> None:
        """Settle the reservation: the call used *used*. Later calls of `commit` or `release` do nothing."""
        if self._open:
            self._open = False
            self._ledger._settle(self.want, used)

    def release(self) -> None:
        """Settle the reservation: the call used nothing. Does nothing after `commit`."""
        self.commit(Amounts())


class _Waiting:
    """A call that waits for room.

    Its result is set under the lock, before its event loop is woken: the loop may be closed by then, and the
    reservation must still be given back.
    """

    __slots__ = ("got", "ledger", "loop", "told", "want")

    def __init__(self, ledger: Ledger, want: Amounts) -> None:
        self.ledger = ledger
        self.want = want
        self.loop = asyncio.get_running_loop()
        self.told: asyncio.Future[None] = self.loop.create_future()
        self.got: Hold | BudgetExceededError | None = None

    def tell(self) -> None:
        """Wake the call on its event loop. If that is closed, give its reservation back."""
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            self.give_back()

    def give_back(self) -> None:
        """Release the reservation, if the call was granted one."""
        if isinstance(self.got, Hold):
            self.got.release()

    def _wake(self) -> None:
        if not self.told.done():
            self.told.set_result(None)


class _Tree:
    """The lock and the queue that all ledgers of one tree share."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.waiting: deque[_Waiting] = deque()


@final
class Ledger:
    """Spent, held and remaining amounts of one budget. Safe in several tasks, event loops and worker threads.

    Args:
        budget: The limits.
        of: Owner of the budget, for messages.
        parent: The enclosing ledger: usage here counts there too.
        spent: Earlier usage, from the journal.
        granted: What a person granted before, in addition to the limits.
        clock: Returns monotonic seconds. Default: `time.monotonic`.
        warn: Receives a BudgetWarning, once for each limit, and once more if it is exceeded.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        of: str = "run",
        parent: Ledger | None = None,
        spent: Amounts = Amounts(),  # noqa: B008 - a frozen value
        granted: Amounts = Amounts(),  # noqa: B008 - as above
        clock: Callable[[], float] | None = None,
        warn: Callable[[BudgetWarning], None] | None = None,
    ) -> None:
        self.budget: Final = budget
        self.of: Final = of
        self.parent: Final = parent
        self._above: Final[tuple[Ledger, ...]] = () if parent is None else parent.chain()
        self._tree: _Tree = parent._tree if parent is not None else _Tree()
        self._limits: list[int | None] = [
            None if limit is None else limit + more for limit, more in zip(budget.limits, granted, strict=True)
        ]
        self._spent = spent
        self._held = Amounts()
        self._clock = clock
        self._began: float | None = None
        self._more_s = 0.0
        self._warn = warn
        self._warned: set[str] = set()

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> Amounts:
        """Amounts that ended calls have used."""
        return self._spent

    @property
    def held(self) -> Amounts:
        """Upper bound of what calls in flight may still use."""
        return self._held

    @property
    def remaining_tokens(self) -> int | None:
        """Tokens that are neither spent nor held, 0 or more; None without a limit."""
        remaining: int | None = self._left("tokens")
        return remaining

    @property
    def remaining_usd(self) -> float | None:
        """Dollars that are neither spent nor held, 0 or more; None without a limit."""
        remaining: float | None = self._left("usd")
        return remaining

    @property
    def remaining_calls(self) -> int | None:
        """Calls that are neither made nor in flight, 0 or more; None without a limit."""
        remaining: int | None = self._left("calls")
        return remaining

    @property
    def remaining_s(self) -> float | None:
        """Seconds that are left, 0 or more; None without a limit."""
        if self.budget.seconds is None:
            return None
        return max(0.0, self.budget.seconds + self._more_s - self._elapsed_s())

    def _left(self, name: str) -> Any:
        """Return the remainder of the limit *name*, in its unit; None without a limit."""
        at, unit = next((at, unit) for at, unit in enumerate(UNITS) if unit.name == name)
        limit = self._limits[at]
        return None if limit is None else unit.shown(max(0, limit - self._spent[at] - self._held[at]))

    def chain(self) -> tuple[Ledger, ...]:
        """Return this ledger and the enclosing ones, innermost first."""
        return (self, *self._above)

    def limited(self) -> list[Unit]:
        """Return the units that a ledger of the chain limits."""
        limits = [ledger._limits for ledger in self.chain()]
        return [unit for at, unit in enumerate(UNITS) if any(row[at] is not None for row in limits)]

    def seconds_left(self) -> float | None:
        """Return the least seconds left in the chain; None if no ledger limits them."""
        remaining = [s for ledger in self.chain() if (s := ledger.remaining_s) is not None]
        return min(remaining) if remaining else None

    def lacking(self, want: Amounts) -> tuple[Ledger, str] | None:
        """Return the first ledger that cannot admit *want* even after all calls in flight, and the unit it lacks."""
        with self._tree.lock:
            short = self._short_of(want, held=False)
        return None if short is None else (short[0], limit_names()[short[1]])

    def refusal(self, want: Amounts, unit: str) -> BudgetExceededError:
        """Return the error for a call that takes *want*, and for which a person granted no more of *unit*."""
        return self._exceeded(want, self, limit_names().index(unit), note=_REFUSED)

    # -- spending ------------------------------------------------------------------------------------------------

    async def reserve(self, want: Amounts) -> Hold:
        """Reserve *want* for a call; wait until calls in flight leave room for it, first come, first served.

        Inside a call that holds a reservation itself (`Surroundings.holding`) nothing waits: a call that does not fit
        at once is refused.

        Raises:
            BudgetExceededError: The call would not fit even if all calls in flight were free; or it is inside another
                call and does not fit now; or the budget's seconds are over.
        """
        tree = self._tree
        with tree.lock:
            for ledger in self.chain():
                if ledger._began is None and ledger.budget.seconds is not None:
                    ledger._began = ledger._now()
            short = self._short_of(want, held=False)
            if short is not None:
                raise self._exceeded(want, *short)
            inside = surroundings().holding
            short = self._short_of(want, held=True)
            # Waiting calls go first, even if this call would fit: otherwise small calls could starve a large one.
            if short is None and (inside or not tree.waiting):
                return self._hold(want)
            if inside:
                raise self._exceeded(want, *(short or (self, 0)), note=_INSIDE)
            waiting = _Waiting(self, want)
            tree.waiting.append(waiting)
        try:
            async with asyncio.timeout(self.seconds_left()):
                await waiting.told
        except BaseException as error:
            self._leave(waiting)
            if isinstance(error, TimeoutError):
                expired = next((ledger for ledger in self.chain() if ledger.remaining_s == 0.0), self)
                raise self._exceeded(want, expired, len(UNITS)) from None
            raise
        if isinstance(waiting.got, Hold):
            return waiting.got
        assert waiting.got is not None  # noqa: S101 - it is set before the call is woken
        raise waiting.got

    def _leave(self, waiting: _Waiting) -> None:
        """Remove *waiting* from the queue, which may let calls behind it continue, and give back what it was granted."""
        tree = self._tree
        with tree.lock:
            known = waiting in tree.waiting
            if known:
                tree.waiting.remove(waiting)
            woken = self._pump() if known else []
        _tell(woken)
        waiting.give_back()

    def charge(self, used: Amounts, *, here_only: bool = False) -> None:
        """Count *used*, spent before a restart. With *here_only* the enclosing ledgers know it already."""
        with self._tree.lock:
            for ledger in self.chain():
                ledger._spent = ledger._spent.plus(used)
                if here_only:
                    break

    def extend(self, **more: float) -> Amounts:
        """Grant more from now on, counted from the amounts spent and held, for the limited units.

        Args:
            more: How much more, by name of the limit and in its unit.

        Returns:
            By how much the limits rose. It is more than the granted amount if a limit had been exceeded.
        """
        increases, seconds = [0] * len(UNITS), more.get(SECONDS, 0.0)
        with self._tree.lock:
            for at, unit in enumerate(UNITS):
                limit, add = self._limits[at], unit.counted(more.get(unit.name, 0))
                if limit is not None and add:
                    self._limits[at] = new = max(limit, self._spent[at] + self._held[at]) + add
                    increases[at] = new - limit
            if seconds and self.budget.seconds is not None:
                self._more_s = max(self._more_s, self._elapsed_s() - self.budget.seconds) + seconds
            woken = self._pump()
        _tell(woken)
        return Amounts(*increases)

    def allow(self, more: Amounts) -> None:
        """Raise the limits by *more*, which a person granted before a restart."""
        with self._tree.lock:
            self._limits = [
                None if limit is None else limit + add for limit, add in zip(self._limits, more, strict=True)
            ]

    def _now(self) -> float:
        if self._clock is None:
            from time import monotonic

            self._clock = monotonic
        return self._clock()

    def _elapsed_s(self) -> float:
        return 0.0 if self._began is None else self._now() - self._began

    def _short_of(self, want: Amounts, *, held: bool) -> tuple[Ledger, int] | None:
        """Return the first ledger of the chain without room for *want*, and the index of the limit in `limit_names()`.

        With *held* the reservations of calls in flight count too.
        """
        for ledger in self.chain():
            for at, limit in enumerate(ledger._limits):
                if limit is not None and ledger._spent[at] + (ledger._held[at] if held else 0) + want[at] > limit:
                    return ledger, at
            if ledger.remaining_s == 0.0:
                return ledger, len(UNITS)
        return None

    def _hold(self, want: Amounts) -> Hold:
        for ledger in self.chain():
            ledger._held = ledger._held.plus(want)
        return Hold(self, want)

    def _settle(self, want: Amounts, used: Amounts) -> None:
        warnings: list[tuple[Callable[[BudgetWarning], None], BudgetWarning]] = []
        with self._tree.lock:
            for ledger in self.chain():
                ledger._held = ledger._held.minus(want)
                ledger._spent = ledger._spent.plus(used)
                warnings += ledger._warnings()
            woken = self._pump()
        _tell(woken)
        for warn, warning in warnings:
            try:
                warn(warning)
            except Exception:  # noqa: BLE001 - an observer must not break the run
                _log.exception("what shows warnings of the budget of %s failed", warning.of)

    def _pump(self) -> list[_Waiting]:
        """Admit or refuse waiting calls in order, until one has to keep waiting.

        The caller holds the lock, and must wake the returned calls after it has released it.
        """
        woken: list[_Waiting] = []
        waiting = self._tree.waiting
        while waiting:
            first = waiting[0]
            ledger, want = first.ledger, first.want
            never = ledger._short_of(want, held=False)
            if never is not None:
                first.got = ledger._exceeded(want, *never)
            elif ledger._short_of(want, held=True) is None:
                first.got = ledger._hold(want)
            else:
                break
            woken.append(waiting.popleft())
        return woken

    def _warnings(self) -> Iterator[tuple[Callable[[BudgetWarning], None], BudgetWarning]]:
        if self._warn is None:
            return
        used = [*(unit.shown(spent) for unit, spent in zip(UNITS, self._spent, strict=True)), self._elapsed_s()]
        counted = zip(UNITS, self._limits, strict=True)
        limits = [*(None if limit is None else unit.shown(limit) for unit, limit in counted), self.budget.seconds]
        for unit_name, now, limit in zip(limit_names(), used, limits, strict=True):
            if limit is None:
                continue
            near, over = now >= limit * self.budget.warn_at, now > limit and unit_name != SECONDS
            if (near and unit_name not in self._warned) or (over and f"{unit_name} over" not in self._warned):
                self._warned |= {unit_name, f"{unit_name} over"} if over else {unit_name}
                yield self._warn, BudgetWarning(what=unit_name, of=self.of, used=now, limit=limit)

    def _exceeded(self, want: Amounts, ledger: Ledger, at: int, *, note: str = "") -> BudgetExceededError:
        if at == len(UNITS):
            return BUDGET_TIME_OVER(
                did="does not fit",
                of=ledger.of,
                seconds=ledger.budget.seconds,
                left="",
                limit=ledger.budget,
                value=want,
            )
        unit = UNITS[at]
        max_amount, spent = unit.shown(ledger._limits[at] or 0), unit.shown(ledger._spent[at])
        held = unit.shown(ledger._held[at])
        return BUDGET_EXCEEDED(
            inside=note.format(held=f"{held:.15g}"),
            of=ledger.of,
            unit=unit.name,
            noun=unit.noun(want[at]),
            wanted=unit.shown(want[at]),
            left=max(0, max_amount - spent),
            most=max_amount,
            spent=spent,
            held=held,
            limit=ledger.budget,
            value=want,
        )


def _tell(woken: list[_Waiting]) -> None:
    for waiting in woken:
        waiting.tell()
