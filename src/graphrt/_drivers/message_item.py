"""The item type of the stream mode `messages`: only the value. What makes and delivers it is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["MessageItem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageItem:
    """One item of the stream mode `messages`: a piece of a reply, the whole reply at its end, or an agent's event."""

    node: str
    """Name of the node that called the model."""
    task_id: str
    """Id of the task that called the model."""
    item: Any
    """A TextDelta, a ToolCallDelta, an AgentReply, or one of the events of an agent."""
