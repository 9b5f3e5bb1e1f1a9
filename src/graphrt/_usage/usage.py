"""`Usage`: what model calls used, as the provider reports it. The only place that lists its counts.

Sums, checks, reports and the stored form follow from the fields of `Usage`. A new count is an int with the default 0,
declared last. The response parsers (`harness.litellm`) define where a provider reports it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import add, attrgetter
from typing import Any, Final

__all__ = ["COST", "COUNTS", "IN_REPORTS", "UNREPORTED", "Usage", "summed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of model calls, as their providers reported it: tokens, calls and cost.

    Nothing is estimated. Calls without reported usage are counted in `calls` and `unreported_calls`, and add nothing to
    the tokens. The amounts that budgets count for them are in `reserved_tokens` and `reserved_microusd`.
    """

    input_tokens: int = 0
    """Tokens that were sent, including those read from the provider's cache."""
    output_tokens: int = 0
    """Tokens that the model generated, including reasoning tokens."""
    cached_tokens: int = 0
    """The part of `input_tokens` that the provider read from its cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that the model spent on thinking."""
    calls: int = 0
    """Model calls, including calls without reported usage and failed calls that were billed."""
    cost_usd: float | None = None
    """Price in US dollars; None if it is not known, which never means free. A sum covers the calls with a known price;
    `unpriced_calls` counts the others."""
    unreported_calls: int = 0
    """Calls for which the provider reported no usage."""
    unpriced_calls: int = 0
    """Calls without a known price, not covered by `cost_usd`; 0 if `cost_usd` is None, when no price is known at
    all."""
    reserved_tokens: int = 0
    """Tokens that budgets count beyond the reported ones: upper bounds, reserved for calls without a report."""
    reserved_microusd: int = 0
    """Millionths of a US dollar that budgets count beyond `cost_usd`: upper bounds, reserved for calls without a price."""

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of two usages.

        Its cost covers the calls with a known price, and `unpriced_calls` counts the others.
        """
        counts = dict(zip(COUNTS, map(add, _counts_of(self), _counts_of(other)), strict=True))
        if self.cost_usd is None and other.cost_usd is None:
            return Usage(**counts)
        counts["unpriced_calls"] = sum(
            usage.calls if usage.cost_usd is None else usage.unpriced_calls for usage in (self, other)
        )
        return Usage(**counts, cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0))


COST: Final = "cost_usd"
"""The only field that is not a count."""
UNREPORTED: Final = Usage(calls=1, unreported_calls=1)
"""One call for which the provider reported no usage."""
COUNTS: Final = tuple(one.name for one in fields(Usage) if one.name != COST)
"""Names of the counts, in the order in which they are stored."""
_counts_of: Final = attrgetter(*COUNTS)
"""Returns the counts of a usage as a tuple."""
IN_REPORTS: Final = tuple(name for name in COUNTS if not name.startswith("reserved_"))
"""Names of the counts that reports show: counts without an upper bound."""
_NAMES: Final = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
"""Names in reports that differ from the field names."""


def summed(usage: Usage) -> dict[str, Any]:
    """Return *usage* as plain data for a report: all tokens, each count under its name in reports, and the cost.

    Budget reservations are left out, because they are upper bounds and were not reported by a provider.
    """
    counts = {_NAMES.get(name, name): getattr(usage, name) for name in IN_REPORTS}
    return {"total_tokens": usage.total_tokens, **counts, COST: usage.cost_usd}
