"""What tokens cost by the prices of a profile. What the provider says of its own prices is its adapter's."""

from __future__ import annotations

from dataclasses import replace

from graphrt.events import Usage
from graphrt.harness.protocol import ModelProfile

__all__ = ["cost_of", "priced"]


def cost_of(profile: ModelProfile, read: int, written: int) -> float | None:
    """Dollars for tokens *read* and *written*; None where a price is not known."""
    if profile.input_usd_per_token is None or profile.output_usd_per_token is None:
        return None
    return read * profile.input_usd_per_token + written * profile.output_usd_per_token


def priced(usage: Usage, profile: ModelProfile) -> Usage:
    """*usage* with its cost, where nobody told it and the profile knows."""
    if usage.cost_usd is not None or profile.input_usd_per_token is None:
        return usage
    cost = cost_of(profile, usage.input_tokens, usage.output_tokens)
    return usage if cost is None else replace(usage, cost_usd=cost)
