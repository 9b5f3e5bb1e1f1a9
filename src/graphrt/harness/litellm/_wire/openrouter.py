"""OpenRouter's additions to chat completions: `reasoning_details`, and the price of an answer.

Source:
    https://openrouter.ai/docs/guides/best-practices/reasoning-tokens and .../usage-accounting
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from graphrt._arguments import is_number
from graphrt.harness.litellm._wire._values import mapping, mappings
from graphrt.harness.messages import ThinkingBlock

_TEXTS: Final = ("text", "summary")
"""Fields of a detail that arrive in pieces. Encrypted data arrives whole."""


class Details:
    """Assembles the `reasoning_details` of one answer, whose pieces in a stream have the same type and index."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []
        self._texts: list[dict[str, list[str]]] = []
        """The pieces of the texts of each detail."""

    def add(self, details: Any) -> str:
        """Add the details of a message or a delta, and return the readable text in them."""
        texts: list[str] = []
        for detail in mappings(details):
            if not (self._details and _continues(self._details[-1], detail)):
                self._details.append({})
                self._texts.append({})
            merged, pieces = self._details[-1], self._texts[-1]
            for name, value in detail.items():
                if name in _TEXTS and isinstance(value, str):
                    pieces.setdefault(name, []).append(value)
                    texts.append(value)
                elif value is not None or name not in merged:
                    merged[name] = value
        return "".join(texts)

    def block(self, provider: str) -> ThinkingBlock | None:
        """Return the details as one block of *provider*; None if there are none."""
        if not self._details:
            return None
        joined = [{name: "".join(pieces) for name, pieces in fields.items()} for fields in self._texts]
        details = [detail | texts for detail, texts in zip(self._details, joined, strict=True)]
        readable = "".join(texts.get(name, "") for texts in joined for name in _TEXTS)
        return ThinkingBlock(provider=provider, text=readable, data={"reasoning_details": details})


def _continues(last: Mapping[str, Any], detail: Mapping[str, Any]) -> bool:
    same = all(last.get(name) == detail.get(name) for name in ("type", "index"))
    return same and "data" not in detail and any(name in detail for name in (*_TEXTS, "signature"))


def cost_of(usage: Mapping[str, Any]) -> float | None:
    """Return the price of an answer in dollars, from *usage*; None if it has none.

    If the user has their own key for the upstream provider, its price is added to OpenRouter's.
    """
    details = mapping(usage.get("cost_details"))
    cost: Any = usage.get("cost")
    if not details and "is_byok" not in usage:
        return None  # another provider's field of the same name
    upstream: Any = details.get("upstream_inference_cost") if usage.get("is_byok") is True else 0
    if not all(is_number(price) and isfinite(price) and price >= 0 for price in (cost, upstream)):
        return None
    return float(cost) + float(upstream)
