"""The usage of model calls, as the provider reports it and as budgets count it. Values that can be added.

`Usage` has a price in dollars, if it is known. `Amounts` are integers, because sums of integers are exact, and so a
limit is exact too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Amounts", "Usage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What model calls used: tokens, calls and cost."""

    input_tokens: int = 0
    """Tokens that were sent, those from the provider's cache included."""
    output_tokens: int = 0
    """Tokens that the model wrote, those for reasoning included."""
    cached_tokens: int = 0
    """The part of `input_tokens` that the provider read from its cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that the model spent on thinking."""
    calls: int = 0
    """Model calls, including those whose usage was not reported."""
    cost_usd: float | None = None
    """Price in US dollars; None if it is not known."""

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        # The sum of the known costs: an unknown one counts as nothing, and None stays only if none is known.
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            calls=self.calls + other.calls,
            cost_usd=sum(costs) if costs else None,
        )


class Amounts(NamedTuple):
    """Amounts of a budget: what calls have used, reserve or may use."""

    tokens: int = 0
    """Input and output tokens together."""
    microusd: int = 0
    """Millionths of a US dollar."""
    calls: int = 0
    """Model calls."""

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum."""
        return Amounts(self.tokens + other.tokens, self.microusd + other.microusd, self.calls + other.calls)

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference."""
        return Amounts(self.tokens - other.tokens, self.microusd - other.microusd, self.calls - other.calls)
