"""What an agent does, as values for those who watch: on its stream, on the graph's stream, for an EventSink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from graphrt.events import Usage
from graphrt.harness.budget._budget import BudgetWarning
from graphrt.harness.messages import ToolCall
from graphrt.harness.protocol import StreamItem

__all__ = [
    "AgentEvent",
    "EventSink",
    "ModelEnded",
    "ModelFailed",
    "ModelStarted",
    "SubAgentItem",
    "ToolEnded",
    "ToolStarted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStarted:
    """A model is asked."""

    call: int
    """Number of the call in this run of the agent, from 1."""
    model: str
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEnded:
    """A model has answered."""

    call: int
    model: str
    usage: Usage | None
    source: str = "model"
    """Where the answer is from: "model", "cache", or "journal" after a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """An attempt failed; another one, or another model, follows, or the run fails."""

    call: int
    model: str
    error: str
    """Name of the error's class."""
    delay_s: float | None
    """Seconds until the next attempt; None if there is none with this model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool is called."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """A tool call has ended: exactly one for each ToolStarted."""

    call: ToolCall
    """As it was made: with the arguments that a layer put in place of the model's, if it did; not after a restart."""
    text: str
    """What the model is told."""
    error: bool = False
    value: Any = None
    """What the tool gave for the program; None after a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentItem:
    """Something that an agent below does."""

    agent: str
    """Names of the agents from the outermost one below, joined by "/"."""
    item: Any


AgentEvent: TypeAlias = ModelStarted | ModelEnded | ModelFailed | ToolStarted | ToolEnded | BudgetWarning
AgentItem: TypeAlias = StreamItem | AgentEvent | SubAgentItem
"""What `Agent.stream` yields; the AgentReply comes last."""


class EventSink(Protocol):
    """Takes what an agent does, in order. It must not block; what it raises is logged and changes nothing."""

    def __call__(self, item: Any, /) -> object:
        """Take one item."""
        ...
