"""Events of an agent run, for its stream, the graph's stream and event sinks; the journal does not contain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from graphrt._usage.budget import BudgetWarning
from graphrt.events import Usage
from graphrt.harness.messages import Content, ToolCall
from graphrt.harness.protocol import StreamItem

__all__ = [
    "AgentEvent",
    "CheckEnded",
    "EventSink",
    "HandedOver",
    "ModelEnded",
    "ModelFailed",
    "ModelStarted",
    "SubAgentItem",
    "ToolEnded",
    "ToolStarted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStarted:
    """An attempt of a model call has begun."""

    call: int
    """Number of the call in this run of the agent, from 1."""
    model: str
    attempt: int = 1
    """Number of the attempt with this model, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEnded:
    """A model call has its response."""

    call: int
    model: str
    usage: Usage | None
    source: str = "model"
    """Origin of the response: "model", "cache", or "journal" after a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """An attempt of a model call failed: another attempt or a fallback follows, or the run fails."""

    call: int
    model: str
    error: str
    """Name of the error's class."""
    delay_s: float | None
    """Seconds until the next attempt; None if there is none with this model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool call has begun."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """A tool call has ended; there is exactly one for each ToolStarted."""

    call: ToolCall
    """The call with the arguments that middleware may have changed; after a restart, the model's own call."""
    text: str
    """The whole result, of which the model gets only a part if it is long; the name of the error's class if the tool
    raised an error that ends the run."""
    error: bool = False
    """Whether the call failed."""
    content: Sequence[Content] = ()
    """Texts and media of the result in order, if there are media; else empty."""
    value: Any = None
    """The result for the program; None after a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEnded:
    """A check of an agent's input or answer has ended."""

    check: str
    """Name of the function."""
    subject: Literal["input", "answer"]
    passed: bool
    text: str = ""
    """Why it did not pass; empty if it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """An agent handed the conversation over to another agent, to which the items that follow belong."""

    source: str
    """Name of the agent that handed over."""
    target: str
    """Name of the agent that continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentItem:
    """A stream item or event of a sub-agent."""

    agent: str
    """Names of the sub-agents on the way to it, outermost first, joined by "/"."""
    item: Any
    """The item as the sub-agent shows it."""


AgentEvent: TypeAlias = (
    ModelStarted | ModelEnded | ModelFailed | ToolStarted | ToolEnded | CheckEnded | HandedOver | BudgetWarning
)
"""An event of an agent run."""
AgentItem: TypeAlias = StreamItem | AgentEvent | SubAgentItem
"""An item of `Agent.stream`; the AgentReply comes last."""


class EventSink(Protocol):
    """Receives the items and events of an agent, in order. It must not block; its exceptions are logged and ignored."""

    def __call__(self, item: Any, /) -> object:
        """Take one item."""
        ...
