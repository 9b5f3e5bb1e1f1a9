"""Errors of budgets and of the counting of usage: limits, calls that do not fit, and calls without an upper bound."""

from __future__ import annotations

from graphrt.errors import BudgetExceededError, InputError
from graphrt.errors._error_code import ErrorCode

BUDGET_EXCEEDED = ErrorCode(
    "budget-exceeded",
    BudgetExceededError,
    "A model call does not fit the budget of {of}: it may take {wanted:.15g} {noun}, and {left:.15g} of {most:.15g} are left"
    "{inside}.",
    known="{unit}: limit {most:.15g}, spent {spent:.15g}, held by other calls {held:.15g}",
    fix="Raise the budget, lower max_tokens, or shorten what the model has to read.",
    where="budget of {of}",
    boundary=True,
)
BUDGET_TIME_OVER = BUDGET_EXCEEDED.variant(
    "A model call {did} the budget of {of}: its time is used up.",
    known="seconds={seconds}{left}",
    fix="Raise the budget's seconds.",
)

CALL_WITHOUT_MAX_TOKENS = ErrorCode(
    "budget-without-max-tokens",
    InputError,
    "A call of model {model!r} has no max_tokens, so the budget of {of} cannot reserve its longest answer.",
    known="nothing was sent",
    fix="Set max_tokens on the agent, the model or the call.",
)

CALL_WITHOUT_PRICE = ErrorCode(
    "budget-without-price",
    InputError,
    "The budget of {of} is in dollars, and no price of model {model!r} is known.",
    known="nothing was sent",
    fix="Set its prices in the model's profile, or a budget in tokens.",
)
