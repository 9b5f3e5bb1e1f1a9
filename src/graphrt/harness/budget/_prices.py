"""Cost of tokens at the prices of a `ModelProfile`.

A cost that the provider reports itself is read by its adapter, and wins over these prices.
"""

from __future__ import annotations

from dataclasses import replace

from graphrt.events import Usage
from graphrt.harness.protocol import ModelProfile

__all__ = ["cost_of", "priced"]


def cost_of(profile: ModelProfile, read: int, written: int) -> float | None:
    """Return the dollars for *read* input tokens and *written* output tokens; None if a price is unknown."""
    if profile.input_usd_per_token is None or profile.output_usd_per_token is None:
        return None
    return read * profile.input_usd_per_token + written * profile.output_usd_per_token


def priced(usage: Usage, profile: ModelProfile) -> Usage:
    """Return *usage* with a cost at the profile's prices, unless it already has one or a price is unknown.

    What was not reported has no price: a usage without tokens is returned as it is.
    """
    if usage.cost_usd is not None or not (usage.input_tokens or usage.output_tokens):
        return usage
    cost = cost_of(profile, usage.input_tokens, usage.output_tokens)
    return usage if cost is None else replace(usage, cost_usd=cost, unpriced_calls=usage.unreported_calls)
