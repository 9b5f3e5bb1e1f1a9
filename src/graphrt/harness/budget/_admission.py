"""A model call within a budget: the most that it can take is held before it, and what it took is settled after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from pydantic_core import to_json

from graphrt.errors import BudgetExceededError, InputError
from graphrt.events import Usage
from graphrt.harness.agent._services import AgentServices, Question
from graphrt.harness.budget._budget import MICRO, Amounts, micro, number_problem
from graphrt.harness.budget._ledger import HOLDING, UNITS, Hold, Ledger
from graphrt.harness.budget._prices import cost_of, priced
from graphrt.harness.protocol import AgentReply, ModelProfile, ModelResponse
from graphrt.harness.request import ModelRequest

__all__ = ["most", "read_answer", "recount", "spend", "took"]

_MESSAGE_TOKENS: Final = 8
"""What providers put around a message or a tool, at most."""
_ANSWER: Final[Any] = bool | int | float | dict[str, bool | int | float]
"""The form of an answer to the question for more. A bool is none, but would be taken for a number without its name."""


async def spend(
    ledger: Ledger,
    request: ModelRequest,
    profile: ModelProfile,
    call: Callable[[], Awaitable[ModelResponse]],
    *,
    key: str,
    host: AgentServices,
) -> ModelResponse:
    """Make *call* within the budget of *ledger* and those above it.

    A call that fails or is cancelled is taken to have cost nothing. What the provider does not report is filled in by
    what is counted for it, so that everybody who reads the usage counts the same.

    Args:
        key: Of what is asked; the host remembers under it what is held, and asks for more.

    Raises:
        BudgetExceededError: It does not fit, or there was no time left for it.
        InputError: What it may take has no bound.
    """
    _begun_anew(ledger, host, key)
    want, more = most(request, profile, ledger), _More(host, key, profile)
    while True:
        hold = await _reserve(ledger, want, more)
        token = HOLDING.set(True)
        try:
            await host.hold(key, hold.want)
            response = await _in_time(call, ledger)
            used = took(response.usage, hold.want, profile)
            hold.commit(used)
            return _filled(response, used, request, profile)
        except GeneratorExit:
            raise  # its event loop is gone
        except BaseException as error:
            await host.let_go(key)
            if not isinstance(error, _LateError):
                raise
            left = error.left
        finally:
            hold.release()
            HOLDING.reset(token)
        timed = [(one.remaining_s, one) for one in ledger.chain() if one.remaining_s is not None]
        _, over = min(timed, key=lambda one: one[0])
        if over.budget.on_exceeded != "interrupt" or not await more.ask(over, "seconds", want):
            raise BudgetExceededError(
                f"A model call took longer than the budget of {over.of} has time: {left:g} s were left.",
                where=f"budget of {over.of}",
                fix="Raise the budget's seconds.",
                limit=over.budget,
                boundary=True,
            )


class _LateError(Exception):
    """The call was cut off."""

    def __init__(self, left: float) -> None:
        super().__init__(left)
        self.left: Final = left
        """Seconds that there were for it."""


async def _in_time(call: Callable[[], Awaitable[ModelResponse]], ledger: Ledger) -> ModelResponse:
    left = ledger.seconds_left()
    scope = asyncio.timeout(left)
    try:
        async with scope:
            return await call()
    except TimeoutError:
        if left is None or not scope.expired():
            raise
    raise _LateError(left)


def recount(ledger: Ledger, key: str, usage: Usage | None, profile: ModelProfile, *, host: AgentServices) -> None:
    """Count what the call *key* took before a restart, in those of the ledgers that begin anew: *host* knows which."""
    for one in _begun_anew(ledger, host, key):
        one.charge(took(usage, Amounts(), profile), here_only=True)


def _begun_anew(ledger: Ledger, host: AgentServices, key: str) -> list[Ledger]:
    """The ledgers that do not know what was before a restart; what is lost of the call *key*, and was allowed for it, is counted there."""
    anew: list[Ledger] = []
    for one in ledger.chain():
        if one is host.known_by:
            break
        anew.append(one)
    if anew:
        lost, granted = host.before(key)
        for one in anew:
            if any(lost):
                one.charge(lost, here_only=True)
            if one.of in granted:
                one.allow(granted[one.of])
    return anew


async def _reserve(ledger: Ledger, want: Amounts, more: _More) -> Hold:
    while True:
        try:
            return await ledger.reserve(want)
        except BudgetExceededError:
            lacking = ledger.lacking(want)
            if lacking is None and not HOLDING.get():
                continue  # meanwhile somebody was allowed more
            if lacking is None or lacking[0].budget.on_exceeded != "interrupt" or not await more.ask(*lacking, want):
                raise


class _More:
    """Asks a person for more of a budget, on behalf of one call."""

    def __init__(self, host: AgentServices, key: str, profile: ModelProfile) -> None:
        self._host = host
        self._key = key
        self._model = profile.name
        self._asked = 0

    async def ask(self, short: Ledger, unit: str, want: Amounts) -> bool:
        """Raise the limits of *short*, which lacks *unit*, by what a person answers; False if that is nothing.

        What is asked is the same at every execution: it tells nothing of what others have spent meanwhile.
        """
        problem = "budget exceeded"
        while True:
            self._asked += 1
            payload = {
                "problem": problem,
                "budget": short.of,
                "short": unit,
                "limit": getattr(short.budget, unit),
                "wants": {"tokens": want.tokens, "usd": want.microusd / MICRO, "calls": want.calls},
                "model": self._model,
            }
            key = f"{self._key}/budget/{short.of}/{unit}/{self._asked}"
            question = Question(key=key, payload=payload, answer_type=_ANSWER, kind="budget")
            if self._host.was_granted(question.key, short.of):
                continue  # it is counted, and was not enough
            (answer,) = self._host.ask([question])
            more, problem = read_answer(answer, unit)
            if not problem:
                break
        if not any(more.values()):
            return False
        await self._host.grant(question.key, short.of, short.extend(**more))
        return True


def read_answer(answer: Any, unit: str) -> tuple[dict[str, Any], str]:
    """How much more of what *answer* allows to who lacks *unit*; and why it says no such thing, if it does not."""
    more: dict[str, Any] = answer if issubclass(type(answer), dict) else {unit: answer}
    return more, _problem(more)


def _problem(more: dict[str, Any]) -> str:
    """Why *more* does not say how much more there is; nothing if it does."""
    for unit, value in more.items():
        if unit not in UNITS:
            return f"the answer has {unit!r}, and must say how much more of {', '.join(UNITS)}"
        whole = unit in ("tokens", "calls")
        problem = number_problem(value, whole=whole)
        if problem:
            return f"the answer must have {'a whole number' if whole else 'a number'} of {unit}, not {problem}"
    return ""


def most(request: ModelRequest, profile: ModelProfile, ledger: Ledger) -> Amounts:
    """The upper bound that a call reserves: what the model reads, and the longest answer that it may write.

    What it reads is counted by the profile; where that cannot, a byte is a token: tokenizers that work on bytes never
    make more.

    Raises:
        InputError: The answer's length, or a price, is not bounded, and a budget needs it.
    """
    tokens_count, usd_counts = ledger.bounds
    if not (tokens_count or usd_counts):
        return Amounts(calls=1)
    answer = _longest(request, profile)
    if answer is None:
        raise InputError(
            f"A call of model {profile.name!r} has no max_tokens, so the budget of {ledger.of} cannot hold it.",
            code="budget-without-max-tokens",
            known="nothing was sent",
            fix="Give max_tokens to the agent, the model or the call.",
            model=profile.name,
        )
    read = _read(request, profile)
    return Amounts(read + answer, _price(profile, ledger, read, answer) if usd_counts else 0, 1)


def _read(request: ModelRequest, profile: ModelProfile) -> int:
    if profile.count_tokens is None:
        return _bytes(request)
    read: Any = profile.count_tokens(request)
    problem = number_problem(read, whole=True)
    if problem:
        raise InputError(
            f"count_tokens of model {profile.name!r} says {problem}.",
            code="bad-token-count",
            known="nothing was sent",
            fix="Return a whole number, 0 or more: the tokens that the request takes.",
            model=profile.name,
        )
    return int(read)


def took(usage: Usage | None, held: Amounts, profile: ModelProfile) -> Amounts:
    """What a call took. What the provider does not report is taken to be all that was held for it."""
    if usage is None or not usage.total_tokens:
        return held if usage is None or usage.calls else Amounts()
    cost = priced(usage, profile).cost_usd
    microusd = held.microusd if cost is None else micro(cost)
    return Amounts(usage.total_tokens, microusd, max(1, usage.calls))


def _filled(response: ModelResponse, used: Amounts, request: ModelRequest, profile: ModelProfile) -> ModelResponse:
    """*response* with what is counted for it, where it does not tell itself."""
    usage = response.usage
    if type(response) is not AgentReply or not used.tokens:
        return response
    if usage is None or not usage.total_tokens:
        written = min(used.tokens, _longest(request, profile) or 0)
        usage = Usage(input_tokens=used.tokens - written, output_tokens=written, calls=used.calls)
    elif usage.cost_usd is not None or not used.microusd:
        return response
    return replace(response, usage=replace(usage, cost_usd=used.microusd / MICRO) if used.microusd else usage)


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
        raise InputError(
            f"The budget of {ledger.of} is in dollars, and no price of model {profile.name!r} is known.",
            code="budget-without-price",
            known="nothing was sent",
            fix="Give its prices in the model's profile, or a budget in tokens.",
            model=profile.name,
        )
    return micro(cost)
