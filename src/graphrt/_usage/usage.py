"""`Usage`: what model calls used, as the provider reports it. The only place that lists its counts.

Sums, checks, reports and the stored form follow from the fields of `Usage`. A new count is an int with the default 0,
declared last. The readers of answers (`harness.litellm`) say where a provider reports it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import add, attrgetter
from typing import Any, Final

__all__ = ["COST", "COUNTS", "IN_REPORTS", "UNREPORTED", "Usage", "summed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What model calls used, as their providers reported it: tokens, calls and cost.

    Nothing is estimated. Calls of which the provider reported no usage are in `calls` and `unreported_calls`, and add
    nothing to the tokens. What budgets count for them is in `reserved_tokens` and `reserved_microusd`.
    """

    input_tokens: int = 0
    """Tokens that were sent, those from the provider's cache included."""
    output_tokens: int = 0
    """Tokens that the model wrote, those for reasoning included."""
    cached_tokens: int = 0
    """The part of `input_tokens` that the provider read from its cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that the model spent on thinking."""
    calls: int = 0
    """Model calls, those whose usage was not reported included, and those that failed but were billed."""
    cost_usd: float | None = None
    """Price in US dollars; None if it is not known, which never means free. In a sum the price of the calls whose price
    is known: `unpriced_calls` says whether others are missing."""
    unreported_calls: int = 0
    """Calls of which the provider reported no usage."""
    unpriced_calls: int = 0
    """Calls whose price is not known, beside others in `cost_usd`; 0 if that is None, because then no price is known."""
    reserved_tokens: int = 0
    """Tokens that budgets count beyond the reported ones: upper bounds, reserved for calls without a report."""
    reserved_microusd: int = 0
    """Millionths of a US dollar that budgets count beyond `cost_usd`: upper bounds, reserved for calls without a price."""

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Return the sum, such as that of the calls of a task.

        Its cost is that of the calls whose price is known, and `unpriced_calls` counts the others.
        """
        counts = dict(zip(COUNTS, map(add, _counts_of(self), _counts_of(other)), strict=True))
        if self.cost_usd is None and other.cost_usd is None:
            return Usage(**counts)
        counts["unpriced_calls"] = sum(
            one.calls if one.cost_usd is None else one.unpriced_calls for one in (self, other)
        )
        return Usage(**counts, cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0))


COST: Final = "cost_usd"
"""The only field that is not a count."""
UNREPORTED: Final = Usage(calls=1, unreported_calls=1)
"""One call of which the provider reported no usage."""
COUNTS: Final = tuple(one.name for one in fields(Usage) if one.name != COST)
"""Names of the counts, in the order in which they are stored."""
_counts_of: Final = attrgetter(*COUNTS)
"""Returns the counts of a usage as a tuple."""
IN_REPORTS: Final = tuple(name for name in COUNTS if not name.startswith("reserved_"))
"""Names of the counts that reports show: those of which nothing is an upper bound."""
_NAMES: Final = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
"""Names in reports that are others than those of the fields."""


def summed(usage: Usage) -> dict[str, Any]:
    """Return *usage* as plain data for a report: all tokens, each count under its name in reports, and the cost.

    What budgets reserved is left out: it is an upper bound, and no provider reported it.
    """
    counts = {_NAMES.get(name, name): getattr(usage, name) for name in IN_REPORTS}
    return {"total_tokens": usage.total_tokens, **counts, COST: usage.cost_usd}
