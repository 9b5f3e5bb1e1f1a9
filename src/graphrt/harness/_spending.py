"""A model call within a budget: the most that it can take is held before it, and what it took is settled after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pydantic_core import to_json

from graphrt.errors import BudgetExceededError, InputError
from graphrt.events import Usage
from graphrt.harness.agent._host import Host, more
from graphrt.harness.budget import MICRO, Amounts
from graphrt.harness.ledger import HOLDING, Hold, Ledger
from graphrt.harness.protocol import ModelProfile, ModelResponse
from graphrt.harness.request import ModelRequest

__all__ = ["most", "spend", "took"]

_MESSAGE_TOKENS: Final = 8
"""What providers put around a message or a tool, at most."""


async def spend(
    ledger: Ledger,
    request: ModelRequest,
    profile: ModelProfile,
    call: Callable[[], Awaitable[ModelResponse]],
    *,
    key: str,
    host: Host,
    path: str = "",
) -> ModelResponse:
    """Make *call* within the budget of *ledger* and those above it.

    A call that fails or is cancelled is taken to have cost nothing.

    Args:
        key: Of what is asked; the host remembers under it what is held.
        path: Begins the keys of questions for more.

    Raises:
        BudgetExceededError: It does not fit, or there was no time left for it.
        InputError: What it may take has no bound.
    """
    hold = await _reserve(ledger, most(request, profile, ledger), host, path)
    token = HOLDING.set(True)
    try:
        await host.hold(key, hold.want)
        left = ledger.seconds_left()
        scope = asyncio.timeout(left)
        try:
            async with scope:
                response = await call()
        except TimeoutError:
            if not scope.expired():
                raise
            raise BudgetExceededError(
                f"A model call took longer than the budget of {ledger.of} has time: {left:g} s were left.",
                where=f"budget of {ledger.of}",
                fix="Raise the budget's seconds.",
                limit=ledger.budget,
            ) from None
        hold.commit(took(response.usage, hold.want, profile))
        return response
    except BaseException:
        host.let_go(key)
        raise
    finally:
        hold.release()
        HOLDING.reset(token)


async def _reserve(ledger: Ledger, want: Amounts, host: Host, path: str) -> Hold:
    asked = 0
    while True:
        try:
            return await ledger.reserve(want)
        except BudgetExceededError:
            short = ledger.lacking(want)
            if short is None or short.budget.on_exceeded != "interrupt":
                raise
            asked += 1
            _extend(short, more(host, path, short, want, asked))


def _extend(ledger: Ledger, answer: Any) -> None:
    several = issubclass(type(answer), dict)
    more: dict[str, Any] = answer if several else {"tokens": answer}
    unknown = sorted(set(more) - {"tokens", "usd", "calls", "seconds"})
    if unknown or any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in more.values()):
        raise InputError(
            f"An answer to an exceeded budget must say how much more there is, not {answer!r}.",
            fix='Answer a number of tokens, or a mapping such as {"tokens": 1000, "usd": 0.5}.',
            value=answer,
        )
    ledger.extend(**more)


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
    answer = request.max_tokens if request.max_tokens is not None else profile.max_output_tokens
    if answer is None:
        raise InputError(
            f"A call of model {profile.name!r} has no max_tokens, so the budget of {ledger.of} cannot hold it.",
            code="budget-without-max-tokens",
            known="nothing was sent",
            fix="Give max_tokens to the agent, the model or the call.",
            model=profile.name,
        )
    read = profile.count_tokens(request) if profile.count_tokens is not None else _bytes(request)
    return Amounts(read + answer, _price(profile, ledger, read, answer) if usd_counts else 0, 1)


def took(usage: Usage | None, held: Amounts, profile: ModelProfile) -> Amounts:
    """What a call took. What the provider does not report is taken to be all that was held for it."""
    if usage is None or not usage.total_tokens:
        return held if usage is None or usage.calls else Amounts()
    if usage.cost_usd is not None:
        microusd = round(usage.cost_usd * MICRO)
    elif profile.input_usd_per_token is not None and profile.output_usd_per_token is not None:
        cost = usage.input_tokens * profile.input_usd_per_token + usage.output_tokens * profile.output_usd_per_token
        microusd = round(cost * MICRO)
    else:
        microusd = held.microusd
    return Amounts(usage.total_tokens, microusd, 1)


def _bytes(request: ModelRequest) -> int:
    spoken = [(message.text, getattr(message, "tool_calls", ())) for message in request.messages]
    size = len(to_json([spoken, request.tools, request.output], fallback=repr))
    return size + _MESSAGE_TOKENS * (len(request.messages) + len(request.tools))


def _price(profile: ModelProfile, ledger: Ledger, read: int, written: int) -> int:
    if profile.input_usd_per_token is None or profile.output_usd_per_token is None:
        raise InputError(
            f"The budget of {ledger.of} is in dollars, and no price of model {profile.name!r} is known.",
            code="budget-without-price",
            known="nothing was sent",
            fix="Give its prices in the model's profile, or a budget in tokens.",
            model=profile.name,
        )
    cost = read * profile.input_usd_per_token + written * profile.output_usd_per_token
    return int(cost * MICRO) + 1
