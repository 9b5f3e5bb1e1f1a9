"""Admission of a model call: its upper bound, the reservation in the ledgers, and the question to a person for more.

Counting only after the calls would let parallel calls exceed the limit together (decision 0030). The ledger itself,
with its lock and queue, is `_ledger`. The links that reserve before a call and settle after it are with the other links
of a call (`agent._model_calls`).
"""

from __future__ import annotations

from typing import Any, Final

from pydantic_core import to_json

from graphrt._ambient import surroundings
from graphrt._usage.amounts import UNITS, limit_names, micro, upper_bound
from graphrt._usage.budget import a_number, limit_problem, number_problem
from graphrt.errors import BudgetExceededError
from graphrt.errors._codes.arguments import WRONG_RETURN_VALUE
from graphrt.errors._codes.budgets import (
    CALL_WITHOUT_MAX_TOKENS,
    CALL_WITHOUT_PRICE,
)
from graphrt.events import Amounts
from graphrt.harness.agent._host import GRANTED, Granted, Host, Question
from graphrt.harness.budget._ledger import Hold, Ledger
from graphrt.harness.budget._media_tokens import tokens_of_media
from graphrt.harness.protocol import ModelProfile, cost_of
from graphrt.harness.request import ModelRequest

__all__ = ["More", "most", "read_answer", "reserve", "tokens_of"]

_MESSAGE_TOKENS: Final = 8
"""Maximum number of tokens that a provider adds around a message or a tool."""
_ANSWER: Final[Any] = bool | int | float | dict[str, bool | int | float]
"""Answer type of the budget question. `bool` is listed only so that pydantic does not coerce it to int; `read_answer`
refuses it."""


async def reserve(ledger: Ledger, want: Amounts, more: More) -> Hold:
    """Reserve *want* for a call, after a person has granted more if necessary.

    Raises:
        BudgetExceededError: It does not fit, and no increase was granted.
    """
    # Amounts that were granted to other calls may leave room for this one, but they are not for it.
    refused = more.refused(ledger)
    if refused is not None:
        raise refused[0].refusal(want, refused[1])
    while True:
        try:
            return await ledger.reserve(want)
        except BudgetExceededError:
            lacking = ledger.lacking(want)
            if lacking is None and not surroundings().holding:
                continue  # a person has granted more to another call meanwhile, so it may fit now
            if lacking is None or lacking[0].budget.on_exceeded != "interrupt" or not await more.ask(*lacking, want):
                raise


class More:
    """Questions of one call to a person for more budget. It numbers them, because a call may ask several times."""

    def __init__(self, host: Host, key: str, profile: ModelProfile) -> None:
        self._host = host
        self._key = key
        self._model = profile.name
        self._asked = 0

    def refused(self, ledger: Ledger) -> tuple[Ledger, str] | None:
        """Return the ledger in the chain of *ledger* and the unit of which a person granted this call no more, if any.

        The answer does not count once the budget has another limit.
        """
        for key, (payload, answer) in self._host.answered.items():
            if not key.startswith(f"{self._key}/budget/"):
                continue
            unit = payload["short"]
            more, problem = read_answer(answer, unit)
            if problem or any(more.values()):
                continue
            for member in ledger.chain():
                if member.of == payload["budget"] and getattr(member.budget, unit) == payload["limit"]:
                    return member, unit
        return None

    async def ask(self, ledger: Ledger, unit: str, want: Amounts) -> bool:
        """Ask a person for more of *unit*, and raise the limits of *ledger* by the answer.

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
                "budget": ledger.of,
                "short": unit,
                "limit": getattr(ledger.budget, unit),
                "wants": {
                    each_unit.name: each_unit.shown(amount) for each_unit, amount in zip(UNITS, want, strict=True)
                },
                "model": self._model,
            }
            key = f"{self._key}/budget/{ledger.of}/{unit}/{self._asked}"
            question = Question(key=key, payload=payload, answer_type=_ANSWER, kind="budget", budget=ledger.of)
            (answer,) = self._host.ask([question])
            if answer is GRANTED:
                continue  # the ledger already includes it, and it was not enough
            more, problem = read_answer(answer, unit)
            if not problem:
                break
        if not any(more.values()):
            return False
        await self._host.record(Granted(question.key, ledger.of, ledger.extend(**more)))
        return True


def read_answer(answer: Any, unit: str) -> tuple[dict[str, Any], str]:
    """Return the increase that *answer* grants, by unit, and the problem with it ("" if there is none).

    Args:
        answer: A number, meant in *unit*, or a mapping from units to numbers.
        unit: The unit that is short.
    """
    more: dict[str, Any] = answer if issubclass(type(answer), dict) else {unit: answer}
    return more, _problem(more)


def _problem(more: dict[str, Any]) -> str:
    """Return the problem with *more* as a grant, or "" if there is none."""
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
        InputError: A limit needs `max_tokens`, or a limit in dollars needs a price, and there is none; or
            `count_tokens` did not return a count.
    """
    limited = ledger.limited()
    # Counting tokens may import litellm and takes milliseconds, so it is done only for limits that need it.
    if not any(unit.needs_tokens for unit in limited):
        return upper_bound()
    output_tokens = request.max_tokens if request.max_tokens is not None else profile.max_output_tokens
    if output_tokens is None:
        raise CALL_WITHOUT_MAX_TOKENS(model=profile.name, of=ledger.of)
    input_tokens = tokens_of(request, profile)
    if not any(unit.needs_price for unit in limited):
        return upper_bound(input_tokens, output_tokens)
    cost = cost_of(profile, input_tokens, output_tokens)
    if cost is None:
        raise CALL_WITHOUT_PRICE(of=ledger.of, model=profile.name)
    return upper_bound(input_tokens, output_tokens, micro(cost))


def tokens_of(request: ModelRequest, profile: ModelProfile) -> int:
    """Return the tokens of *request*: counted by the profile, or else an upper bound, a token for each byte.

    Raises:
        InputError: `count_tokens` of the profile did not return a count (`input`).
    """
    if profile.count_tokens is None:
        return _bytes(request)
    count: Any = profile.count_tokens(request)
    problem = number_problem(count, whole=True)
    if problem:
        raise WRONG_RETURN_VALUE(
            function=f"count_tokens of model {profile.name!r}",
            returned=problem,
            wanted="the number of tokens that the request takes, a whole number from 0",
        )
    return int(count)


def _bytes(request: ModelRequest) -> int:
    contents = [
        (message.text, getattr(message, "tool_calls", ()), *getattr(message, "thinking", ()))
        for message in request.messages
    ]
    size = len(to_json([contents, request.tools, request.output], fallback=repr)) + tokens_of_media(request.messages)
    return size + _MESSAGE_TOKENS * (len(request.messages) + len(request.tools))
