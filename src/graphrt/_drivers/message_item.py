"""What the stream mode `messages` shows. A value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["MessageItem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageItem:
    """One item of the stream mode `messages`: a piece of a reply, the whole reply at its end, or what an agent does."""

    node: str
    task_id: str
    item: Any
    """A TextDelta, a ToolCallDelta, an AgentReply, or one of the events of an agent."""
