"""`Seen`: the data of one answer that was read below litellm. It takes precedence over litellm's data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graphrt.harness.litellm._wire._failures import Failure
from graphrt.harness.messages import ProviderPart, ThinkingBlock
from graphrt.harness.protocol import FinishReason


@dataclass(slots=True)
class Seen:
    """Facts about the latest answer of one call."""

    api: str | None = None
    """Name of the API whose form was read; None if the form is unknown. For a known API, usage and reason are read
    from every answer, so None means that the provider reported none."""
    begun: bool = False
    """Whether a part of the body arrived."""
    start: bytes = b""
    """The first bytes of the body, for an error about an answer that cannot be read."""
    ended: bool = False
    """Whether a stream came to the end that its API prescribes."""
    model: str | None = None
    """The model that answered, as the provider names it; None leaves it to litellm."""
    reason: str | None = None
    """Why the model stopped, in the provider's word; None if it did not say."""
    finish: FinishReason | None = None
    """The same in our words; None leaves it to litellm."""
    refusal: str = ""
    """The model's refusal; empty if it did not refuse."""
    usage: Any = None
    """The usage that the provider reported, in OpenAI's chat form (`_openai_format.read_usage`); None without a
    report."""
    cost_usd: float | None = None
    """The provider's price for the answer, in dollars; None if it named none."""
    service_tier: str | None = None
    """The tier at which the provider charges; None if it did not say."""
    thoughts: list[str] = field(default_factory=list[str])
    """0..n pieces of the model's thinking that litellm does not read."""
    blocks: list[ThinkingBlock] = field(default_factory=list[ThinkingBlock])
    """0..n blocks of reasoning that the provider wants back, in its order."""
    parts: list[ProviderPart] = field(default_factory=list[ProviderPart])
    """0..n parts that are neither text nor calls nor thinking, in the provider's order."""
    is_document: bool = False
    """Whether a document without an error arrived in place of the requested stream."""
    failure: Failure | None = None
    """The error that the provider reported; None if it reported none."""
