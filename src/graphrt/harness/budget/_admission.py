"""The links of a model call that hold it to a budget: reserve an upper bound, make the call, and settle what it used.

Counting only after the calls would let parallel calls exceed the limit together (decision 0030). The ledger itself,
with its lock and queue, is `_ledger`; this module computes the amounts, stores reservations through the host, and asks
a person for more if the budget says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final, final

from pydantic_core import to_json

from graphrt._ambient import inside, surroundings
from graphrt._usage.amounts import SECONDS, UNITS, Bound, limit_names, micro, settled, used_amounts
from graphrt._usage.budget import a_number, limit_problem, number_problem
from graphrt.errors import BudgetExceededError, HarnessError
from graphrt.errors._codes.budgets import (
    BAD_TOKEN_COUNT,
    BUDGET_TIME_OVER,
    CALL_WITHOUT_MAX_TOKENS,
    CALL_WITHOUT_PRICE,
)
from graphrt.events import Amounts, Usage
from graphrt.harness._harness_checks import usage_problem
from graphrt.harness.agent._chain import Next, PendingCall
from graphrt.harness.agent._host import GRANTED, Billed, Granted, Held, Host, Question, Recalled, Released
from graphrt.harness.budget._ledger import Hold, Ledger
from graphrt.harness.budget._prices import cost_of, priced
from graphrt.harness.protocol import AgentReply, ModelProfile, ModelResponse
from graphrt.harness.request import ModelRequest

__all__ = ["Budgeted", "Timed", "count_earlier", "most", "read_answer"]

_MESSAGE_TOKENS: Final = 8
"""Most tokens that a provider adds around a message or a tool."""
_ANSWER: Final[Any] = bool | int | float | dict[str, bool | int | float]
"""Answer type of the budget question. `bool` is listed only so that pydantic does not coerce it to int; `read_answer`
refuses it."""


@final
class Budgeted:
    """Makes a call within the budget of a ledger and of the ledgers above it.

    The budget is charged what the provider reports; what it does not report stays spent as it was reserved. A call that
    fails or is cancelled is free if it was not answered, and charged like any other if it was (see `_count_failed`).

    Args:
        host: Stores the reservation, and asks a person for more.
        ledger: The innermost budget that the calls count against; None only counts failures that were billed.
    """

    def __init__(self, host: Host, ledger: Ledger | None) -> None:
        self._host = host
        self._ledger = ledger

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        """Make *call*. Its usage says what was reserved for what the provider did not report.

        Raises:
            BudgetExceededError: The call does not fit, or its time ran out.
            InputError: The call has no upper bound (`budget-without-max-tokens`, `budget-without-price`).
            Exception: Anything that *next_* raises.
        """
        ledger, host = self._ledger, self._host
        if ledger is None:
            call.began.clear()
            try:
                return await next_(call)
            except BaseException as error:
                await _count_failed(error, call, host)
                raise
        want, more = most(call.request, call.profile, ledger), _More(host, call.key, call.profile)
        while True:
            call.began.clear()
            hold = await _reserve(ledger, want, more)
            try:
                # Durable first: after a crash the call counts as paid (R11).
                await host.record(Held(call.key, hold.want))
                with inside(holding=True):
                    response = await next_(call)
                usage = _settled(response.usage, hold.want, call.profile)
                hold.commit(used_amounts(usage))
                # Of other classes only the ledger counts the usage: they are not replies that graphrt may change.
                return response if type(response) is not AgentReply else replace(response, usage=usage)
            except GeneratorExit:
                if call.began:
                    hold.commit(hold.want)
                raise  # the coroutine is being closed, and cannot await any more
            except BaseException as error:
                failed = await _count_failed(error, call, host, held=hold.want)
                if failed is None:
                    await host.record(Released(call.key))
                hold.commit(used_amounts(failed))
                if not isinstance(error, _LateError):
                    raise
                left = error.left
            finally:
                hold.release()
            timed = [(one.remaining_s, one) for one in ledger.chain() if one.remaining_s is not None]
            _, over = min(timed, key=lambda one: one[0])
            if over.budget.on_exceeded != "interrupt" or not await more.ask(over, SECONDS, want):
                raise BUDGET_TIME_OVER(
                    did="was cancelled, as it did not fit",
                    of=over.of,
                    seconds=over.budget.seconds,
                    left=f", of which {left:g} s were left when the call began",
                    limit=over.budget,
                    value=None,
                )


@final
class Timed:
    """Cuts a call off when the seconds of a budget are over; `Budgeted`, around it, decides what follows."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        """Make *call*, within the seconds that are left when it begins."""
        left = self._ledger.seconds_left()
        scope = asyncio.timeout(left)
        try:
            async with scope:
                return await next_(call)
        except TimeoutError:
            if left is None or not scope.expired():
                raise  # the call's own TimeoutError
        raise _LateError(left)


class _LateError(Exception):
    """The budget's seconds ended during the call."""

    def __init__(self, left: float) -> None:
        super().__init__(left)
        self.left: Final = left
        """Seconds that were left when the call began."""


async def _count_failed(
    error: BaseException,
    call: PendingCall,
    host: Host,
    *,
    held: Amounts = Amounts(),  # noqa: B008 - a frozen value
) -> Usage | None:
    """Count *call*, which ended with *error*, if it was billed.

    It was if the provider answered with status 200 (`HarnessError.billed`), or if the stream of the answer began. A
    failure before that is free: a status of 4xx or 5xx, a request that was never sent, a connection that was not made.
    So is a cancelled or late call of which nothing came.

    Args:
        error: What the call raised.
        call: The call.
        host: Stores the usage, in place of the reservation of the call.
        held: What was reserved for the call.

    Returns:
        The usage of the call, with what was reserved for what the provider did not report; None if the call is free.
    """
    reported: Usage | None = None
    billed = bool(call.began)
    if isinstance(error, HarnessError):
        billed, reported = billed or error.billed, error.usage
    around = surroundings()
    if not billed or around.instead is not None:  # a run that is executed again has the usage from its log
        return None
    if reported is not None and (usage_problem(reported) is not None or not reported.total_tokens):
        reported = None
    usage = _settled(reported, held, call.profile)
    if around.watcher is not None:
        around.watcher.billed(usage)
    call.failed.append(usage)
    await host.record(Billed(call.key, usage, call.profile.name))
    return usage


def _settled(usage: Usage | None, held: Amounts, profile: ModelProfile) -> Usage:
    """Return the *usage* of a call that ended, priced; *held* is what was reserved for it."""
    return settled(None if usage is None else priced(usage, profile), held)


def count_earlier(ledger: Ledger, known_by: Ledger | None, recalled: Recalled) -> None:
    """Count what earlier executions of a call used, and were granted, in the ledgers that start from zero after a restart.

    Those are *ledger* and the ledgers above it that are below *known_by*: that one has loaded all of it from the journal.
    """
    for one in ledger.chain():
        if one is known_by:
            break
        if any(recalled.used):
            one.charge(recalled.used, here_only=True)
        if one.of in recalled.granted:
            one.allow(recalled.granted[one.of])


async def _reserve(ledger: Ledger, want: Amounts, more: _More) -> Hold:
    while True:
        try:
            return await ledger.reserve(want)
        except BudgetExceededError:
            lacking = ledger.lacking(want)
            if lacking is None and not surroundings().holding:
                continue  # a person has granted more to another call meanwhile, so it may fit now
            if lacking is None or lacking[0].budget.on_exceeded != "interrupt" or not await more.ask(*lacking, want):
                raise


class _More:
    """Questions of one call to a person for more budget. It numbers them, because a call may ask several times."""

    def __init__(self, host: Host, key: str, profile: ModelProfile) -> None:
        self._host = host
        self._key = key
        self._model = profile.name
        self._asked = 0

    async def ask(self, short: Ledger, unit: str, want: Amounts) -> bool:
        """Ask a person for more of *unit*, and raise the limits of *short* by the answer.

        An invalid answer is asked for again. The payload must be equal at every execution of the task, so it does not
        contain what other calls have spent so far (R10, R13).

        Returns:
            False if the person granted nothing.
        """
        problem = "budget exceeded"
        while True:
            self._asked += 1
            payload = {
                "problem": problem,
                "budget": short.of,
                "short": unit,
                "limit": getattr(short.budget, unit),
                "wants": {one.name: one.shown(amount) for one, amount in zip(UNITS, want, strict=True)},
                "model": self._model,
            }
            key = f"{self._key}/budget/{short.of}/{unit}/{self._asked}"
            question = Question(key=key, payload=payload, answer_type=_ANSWER, kind="budget", budget=short.of)
            (answer,) = self._host.ask([question])
            if answer is GRANTED:
                continue  # it is in the ledger already, and was not enough
            more, problem = read_answer(answer, unit)
            if not problem:
                break
        if not any(more.values()):
            return False
        await self._host.record(Granted(question.key, short.of, short.extend(**more)))
        return True


def read_answer(answer: Any, unit: str) -> tuple[dict[str, Any], str]:
    """Return how much more *answer* grants, by unit, and what is wrong with it ("" if nothing is).

    Args:
        answer: A number, meant in *unit*, or a mapping from units to numbers.
        unit: The unit that is short.
    """
    more: dict[str, Any] = answer if issubclass(type(answer), dict) else {unit: answer}
    return more, _problem(more)


def _problem(more: dict[str, Any]) -> str:
    """Return what is wrong with *more* as a grant, or "" if nothing is."""
    for unit, value in more.items():
        if unit not in limit_names():
            return f"the answer has {unit!r}, and must say how much more of {', '.join(limit_names())}"
        problem = limit_problem(unit, value)
        if problem:
            return f"the answer must have {a_number(unit)} of {unit}, not {problem}"
    return ""


def most(request: ModelRequest, profile: ModelProfile, ledger: Ledger) -> Amounts:
    """Return the upper bound that a call reserves, computed from the tokens of the request and of the longest answer.

    The request is counted by the profile's `count_tokens`. Without it, each byte counts as a token, which is an upper
    bound for byte-level tokenizers.

    Raises:
        InputError: A limit needs `max_tokens`, or one of dollars a price, and there is none; or `count_tokens` returned
            something else than a count.
    """
    limited = ledger.limited()
    bound = Bound()
    # Counting tokens may import litellm and takes milliseconds, so it is done only for limits that need it.
    if any(unit.needs_tokens for unit in limited):
        answer = _longest(request, profile)
        if answer is None:
            raise CALL_WITHOUT_MAX_TOKENS(model=profile.name, of=ledger.of)
        read = _read(request, profile)
        priced_too = any(unit.needs_price for unit in limited)
        bound = Bound(read, answer, _price(profile, ledger, read, answer) if priced_too else 0)
    return Amounts._make(unit.bound(bound) for unit in UNITS)


def _read(request: ModelRequest, profile: ModelProfile) -> int:
    if profile.count_tokens is None:
        return _bytes(request)
    read: Any = profile.count_tokens(request)
    problem = number_problem(read, whole=True)
    if problem:
        raise BAD_TOKEN_COUNT(model=profile.name, problem=problem)
    return int(read)


def _longest(request: ModelRequest, profile: ModelProfile) -> int | None:
    return request.max_tokens if request.max_tokens is not None else profile.max_output_tokens


def _bytes(request: ModelRequest) -> int:
    spoken = [
        (message.text, getattr(message, "tool_calls", ()), *getattr(message, "thinking", ()))
        for message in request.messages
    ]
    size = len(to_json([spoken, request.tools, request.output], fallback=repr))
    return size + _MESSAGE_TOKENS * (len(request.messages) + len(request.tools))


def _price(profile: ModelProfile, ledger: Ledger, read: int, written: int) -> int:
    cost = cost_of(profile, read, written)
    if cost is None:
        raise CALL_WITHOUT_PRICE(of=ledger.of, model=profile.name)
    return micro(cost)
