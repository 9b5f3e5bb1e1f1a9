"""The ledger of a budget: what stands between it and many calls at once.

A call reserves an upper bound before it is made, and gives back what it did not use when it has ended, so that what is
spent and what may still be spent by calls in flight never come to more than the limit together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from threading import Lock
from typing import Final, NamedTuple, final

from graphrt.errors import BudgetExceededError
from graphrt.harness.budget import MICRO, Amounts, Budget, BudgetWarning

__all__ = ["Ledger"]

_UNITS: Final = ("tokens", "usd", "calls")
HOLDING: ContextVar[bool] = ContextVar("graphrt_budget_holding", default=False)
"""Whether what runs here holds a reservation: it must not wait for others, which could be its own."""


@final
class Hold:
    """What one call has reserved, until it is settled."""

    __slots__ = ("_ledger", "_open", "want")

    def __init__(self, ledger: Ledger, want: Amounts) -> None:
        self._ledger = ledger
        self._open = True
        self.want: Amounts = want

    def commit(self, used: Amounts) -> None:
        """The call has ended, and took *used*."""
        self._settle(used)

    def release(self) -> None:
        """The call took nothing. After `commit` nothing happens."""
        self._settle(Amounts())

    def _settle(self, used: Amounts) -> None:
        if self._open:
            self._open = False
            self._ledger._settle(self.want, used)


class _Waiting(NamedTuple):
    ledger: Ledger
    want: Amounts
    done: asyncio.Future[Hold]
    loop: asyncio.AbstractEventLoop


class _Tree:
    """What all ledgers of one tree share."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.waiting: deque[_Waiting] = deque()


@final
class Ledger:
    """What is spent, held and left of one budget; safe in several tasks, event loops and worker threads.

    Args:
        budget: Its limits.
        of: Whose budget it is, for messages.
        parent: The ledger of what it is a part of: what is spent here is spent there too.
        spent: What was spent before.
        clock: Monotonic seconds.
        warn: Gets a BudgetWarning, once for each limit.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        of: str = "run",
        parent: Ledger | None = None,
        spent: Amounts = Amounts(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] | None = None,
        warn: Callable[[BudgetWarning], None] | None = None,
    ) -> None:
        self.budget: Final = budget
        self.of: Final = of
        self.parent: Final = parent
        self._tree: _Tree = parent._tree if parent is not None else _Tree()
        self._limits: list[int | None] = list(budget.limits)
        self._spent = spent
        self._held = Amounts()
        self._presumed = Amounts()
        self._clock = clock
        self._began: float | None = None
        self._more_s = 0.0
        self._warn = warn
        self._warned: set[str] = set()

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> Amounts:
        """What ended calls took."""
        return self._spent

    @property
    def held(self) -> Amounts:
        """What calls in flight may still take."""
        return self._held

    @property
    def remaining_tokens(self) -> int | None:
        """Tokens that nothing is held or spent of; None without a limit, never below 0."""
        return self._left(0)

    @property
    def remaining_usd(self) -> float | None:
        """Dollars that nothing is held or spent of; None without a limit, never below 0."""
        left = self._left(1)
        return None if left is None else left / MICRO

    @property
    def remaining_calls(self) -> int | None:
        """Calls that are left; None without a limit, never below 0."""
        return self._left(2)

    @property
    def remaining_s(self) -> float | None:
        """Seconds that are left; None without a limit, never below 0."""
        if self.budget.seconds is None:
            return None
        return max(0.0, self.budget.seconds + self._more_s - self._elapsed_s())

    def _left(self, at: int) -> int | None:
        limit = self._limits[at]
        return None if limit is None else max(0, limit - self._spent[at] - self._held[at])

    def chain(self) -> Iterator[Ledger]:
        """This ledger and those that it is a part of, innermost first."""
        ledger: Ledger | None = self
        while ledger is not None:
            yield ledger
            ledger = ledger.parent

    @property
    def bounds(self) -> tuple[bool, bool]:
        """Whether tokens, and whether dollars, are bounded here or above."""
        all_limits = [ledger._limits for ledger in self.chain()]
        return any(limits[0] is not None for limits in all_limits), any(limits[1] is not None for limits in all_limits)

    def seconds_left(self) -> float | None:
        """The least seconds left, here or above."""
        left = [s for ledger in self.chain() if (s := ledger.remaining_s) is not None]
        return min(left) if left else None

    def lacking(self, want: Amounts) -> Ledger | None:
        """The ledger, here or above, that *want* does not fit even if calls in flight took nothing."""
        with self._tree.lock:
            short = self._short_of(want, held=False)
        return None if short is None else short[0]

    # -- spending ------------------------------------------------------------------------------------------------

    async def reserve(self, want: Amounts) -> Hold:
        """Hold *want* back for a call, as soon as calls in flight leave room for it, first come, first served.

        Raises:
            BudgetExceededError: It would not fit even if calls in flight took nothing; or the time is over.
        """
        tree = self._tree
        with tree.lock:
            self._begin()
            short = self._short_of(want, held=False)
            if short is not None:
                raise self._exceeded(want, *short)
            blocked = bool(tree.waiting) or self._short_of(want, held=True) is not None
            if not blocked:
                return self._hold(want)
            if HOLDING.get():
                raise self._exceeded(want, *(self._short_of(want, held=True) or (self, 0)))
            loop = asyncio.get_running_loop()
            waiting = _Waiting(self, want, loop.create_future(), loop)
            tree.waiting.append(waiting)
        try:
            return await waiting.done
        except asyncio.CancelledError:
            with tree.lock:
                if waiting in tree.waiting:
                    tree.waiting.remove(waiting)
                    granted: list[tuple[_Waiting, Hold | Exception]] = self._pump()
                else:
                    granted = []
            _tell(granted)
            if waiting.done.done() and not waiting.done.cancelled() and waiting.done.exception() is None:
                waiting.done.result().release()
            raise

    def charge(self, used: Amounts, *, here_only: bool = False, presumed: bool = False) -> None:
        """Count what was spent without a reservation: before a restart, or in a call whose end nobody saw."""
        with self._tree.lock:
            for ledger in self.chain():
                ledger._spent = ledger._spent.plus(used)
                if presumed:
                    ledger._presumed = ledger._presumed.plus(used)
                if here_only:
                    break

    def extend(self, *, tokens: int = 0, usd: float = 0.0, calls: int = 0, seconds: float = 0.0) -> None:
        """Raise the limits that there are."""
        more = (tokens, round(usd * MICRO), calls)
        with self._tree.lock:
            self._limits = [
                None if limit is None else limit + add for limit, add in zip(self._limits, more, strict=True)
            ]
            self._more_s += seconds
            granted = self._pump()
        _tell(granted)

    def _begin(self) -> None:
        for ledger in self.chain():
            if ledger._began is None and ledger.budget.seconds is not None:
                ledger._began = ledger._now()

    def _now(self) -> float:
        if self._clock is None:
            from time import monotonic

            self._clock = monotonic
        return self._clock()

    def _elapsed_s(self) -> float:
        return 0.0 if self._began is None else self._now() - self._began

    def _short_of(self, want: Amounts, *, held: bool) -> tuple[Ledger, int] | None:
        """The first ledger that *want* does not fit, and which limit it is; 3 is time."""
        for ledger in self.chain():
            for at, limit in enumerate(ledger._limits):
                if limit is not None and ledger._spent[at] + (ledger._held[at] if held else 0) + want[at] > limit:
                    return ledger, at
            if ledger.remaining_s == 0.0:
                return ledger, 3
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
            granted = self._pump()
        _tell(granted)
        for warn, warning in warnings:
            warn(warning)

    def _pump(self) -> list[tuple[_Waiting, Hold | Exception]]:
        """Let those go on that wait first, as far as there is room. The caller has the lock, and tells them after."""
        told: list[tuple[_Waiting, Hold | Exception]] = []
        waiting = self._tree.waiting
        while waiting:
            first = waiting[0]
            never = first.ledger._short_of(first.want, held=False)
            if never is not None:
                told.append((waiting.popleft(), first.ledger._exceeded(first.want, *never)))
            elif first.ledger._short_of(first.want, held=True) is None:
                told.append((waiting.popleft(), first.ledger._hold(first.want)))
            else:
                break
        return told

    def _warnings(self) -> Iterator[tuple[Callable[[BudgetWarning], None], BudgetWarning]]:
        if self._warn is None:
            return
        used = (self._spent[0], self._spent[1] / MICRO, self._spent[2], self._elapsed_s())
        usd = self._limits[1]
        limits = (self._limits[0], None if usd is None else usd / MICRO, self._limits[2], self.budget.seconds)
        for name, now, limit in zip((*_UNITS, "seconds"), used, limits, strict=True):
            if limit is not None and now >= limit * self.budget.warn_at and name not in self._warned:
                self._warned.add(name)
                yield self._warn, BudgetWarning(what=name, of=self.of, used=now, limit=limit)

    def _exceeded(self, want: Amounts, ledger: Ledger, at: int) -> BudgetExceededError:
        if at == 3:
            what, known = "the time is over", f"seconds={ledger.budget.seconds}"
        else:
            scale = MICRO if at == 1 else 1
            name, limit = _UNITS[at], (ledger._limits[at] or 0) / scale
            spent, held = ledger._spent[at] / scale, ledger._held[at] / scale
            what = f"it may take {want[at] / scale:g} {name}, and {max(0, limit - spent):g} of {limit:g} are left"
            known = f"{name}: limit {limit:g}, spent {spent:g}, held by other calls {held:g}"
        return BudgetExceededError(
            f"A model call does not fit the budget of {ledger.of}: {what}.",
            where=f"budget of {ledger.of}",
            known=known,
            fix="Raise the budget, lower max_tokens, or shorten what the model has to read.",
            limit=ledger.budget,
            value=want,
        )


def _tell(granted: list[tuple[_Waiting, Hold | Exception]]) -> None:
    for waiting, result in granted:
        waiting.loop.call_soon_threadsafe(_resolve, waiting.done, result)


def _resolve(done: asyncio.Future[Hold], result: Hold | Exception) -> None:
    if done.cancelled() or done.done():
        if isinstance(result, Hold):
            result.release()  # nobody waits any more
    elif isinstance(result, Hold):
        done.set_result(result)
    else:
        done.set_exception(result)
