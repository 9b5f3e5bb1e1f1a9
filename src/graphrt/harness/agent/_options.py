"""The keyword arguments of `Agent` as a type for type checkers; `Agent` documents them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from graphrt._usage.budget import Budget
from graphrt.harness.agent._tool_calls import Approve, OnBadCall
from graphrt.harness.agent.events import EventSink
from graphrt.harness.agent.limits import AgentLimits
from graphrt.harness.agent.middleware import Middleware
from graphrt.harness.protocol import ChatModel
from graphrt.harness.tools.registry import AnyTool
from graphrt.limits import RetryPolicy

if TYPE_CHECKING:
    from graphrt.harness.agent.cache import ResponseCache

__all__ = ["AgentOptions"]


class AgentOptions(TypedDict, total=False):
    """The keyword arguments of `Agent` except `output`, which decides the type of the agent."""

    tools: Iterable[AnyTool]
    system: str | None
    name: str
    limits: AgentLimits | None
    retry: RetryPolicy | int | None
    fallbacks: Sequence[ChatModel | str]
    cache: ResponseCache | None
    middleware: Sequence[Middleware]
    budget: Budget | None
    unknown_tool: OnBadCall
    invalid_arguments: OnBadCall
    approve: Approve | None
    max_tokens: int | None
    temperature: float | None
    options: Mapping[str, Any] | None
    sinks: Sequence[EventSink]
