"""Model access: the harness protocol, typed messages, agents, tools, budgets, test doubles and the litellm adapter.

This module only lists the names that the package exports. Each name is imported at first use (PEP 562), so that
importing the package costs next to nothing; no work may happen here. Modules of the package import no engine, journal,
driver or runtime: the import contract `floors` allows only lower packages. The one exception is the two names for
graphs as tools and as harnesses, which are documented here and defined in `graphrt._agents` (decision 0081).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphrt._agents.graph_tools import GraphHarness, GraphTool
    from graphrt._usage.budget import Budget, BudgetWarning
    from graphrt.events import Usage
    from graphrt.harness.agent.agent import Agent
    from graphrt.harness.agent.cache import ResponseCache
    from graphrt.harness.agent.checks import Check, CheckContext, Retry
    from graphrt.harness.agent.compaction import Compaction
    from graphrt.harness.agent.events import (
        AgentEvent,
        CheckEnded,
        EventSink,
        HandedOver,
        ModelEnded,
        ModelFailed,
        ModelStarted,
        SubAgentItem,
        ToolEnded,
        ToolStarted,
    )
    from graphrt.harness.agent.handoffs import Handoff
    from graphrt.harness.agent.limits import AgentLimits
    from graphrt.harness.agent.middleware import Middleware
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.harness.budget._token_tracker import TokenTracker
    from graphrt.harness.cassette._cassette import Cassette
    from graphrt.harness.litellm._harness import LiteLLMHarness
    from graphrt.harness.litellm._model import LiteLLMModel
    from graphrt.harness.media import Audio, Document, Image, Media
    from graphrt.harness.messages import (
        AssistantMessage,
        Content,
        LeftOut,
        Message,
        Part,
        Prompt,
        ProviderPart,
        SystemMessage,
        TextPart,
        ThinkingBlock,
        ToolCall,
        ToolMessage,
        ToolSpec,
        UserMessage,
    )
    from graphrt.harness.mock import Expectation, MockHarness, expect
    from graphrt.harness.protocol import (
        AgentHarness,
        AgentReply,
        AgentRequest,
        ChatModel,
        FinishReason,
        ModelProfile,
        ModelRequest,
        ModelResponse,
        RunOptions,
        StreamingHarness,
        StreamItem,
        TextDelta,
        ThinkingDelta,
        ToolCallDelta,
    )
    from graphrt.harness.real_requests import allow_model_requests
    from graphrt.harness.request import OutputSpec
    from graphrt.harness.scripted_model import FunctionModel, ScriptedModel
    from graphrt.harness.template._template import Template
    from graphrt.harness.tools.from_model import ModelTool, tool_from_model
    from graphrt.harness.tools.function import FunctionTool, tool
    from graphrt.harness.tools.injected import Injected
    from graphrt.harness.tools.mcp._server import McpServer, McpTool
    from graphrt.harness.tools.protocol import Tool, ToolContext, ToolPolicy, ToolResult
    from graphrt.harness.tools.registry import ToolRegistry

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentHarness",
    "AgentLimits",
    "AgentReply",
    "AgentRequest",
    "AssistantMessage",
    "Audio",
    "Budget",
    "BudgetWarning",
    "Cassette",
    "ChatModel",
    "Check",
    "CheckContext",
    "CheckEnded",
    "Compaction",
    "Content",
    "Document",
    "EventSink",
    "Expectation",
    "FinishReason",
    "FunctionModel",
    "FunctionTool",
    "GraphHarness",
    "GraphTool",
    "HandedOver",
    "Handoff",
    "Image",
    "Injected",
    "Ledger",
    "LeftOut",
    "LiteLLMHarness",
    "LiteLLMModel",
    "McpServer",
    "McpTool",
    "Media",
    "Message",
    "Middleware",
    "MockHarness",
    "ModelEnded",
    "ModelFailed",
    "ModelProfile",
    "ModelRequest",
    "ModelResponse",
    "ModelStarted",
    "ModelTool",
    "OutputSpec",
    "Part",
    "Prompt",
    "ProviderPart",
    "ResponseCache",
    "Retry",
    "RunOptions",
    "ScriptedModel",
    "StreamItem",
    "StreamingHarness",
    "SubAgentItem",
    "SystemMessage",
    "Template",
    "TextDelta",
    "TextPart",
    "ThinkingBlock",
    "ThinkingDelta",
    "TokenTracker",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolEnded",
    "ToolMessage",
    "ToolPolicy",
    "ToolRegistry",
    "ToolResult",
    "ToolSpec",
    "ToolStarted",
    "Usage",
    "UserMessage",
    "allow_model_requests",
    "expect",
    "tool",
    "tool_from_model",
]

_NAMES: Final = {
    "graphrt._agents.graph_tools": "GraphHarness GraphTool",
    "graphrt.events": "Usage",
    "graphrt.harness.agent.agent": "Agent",
    "graphrt.harness.agent.cache": "ResponseCache",
    "graphrt.harness.agent.checks": "Check CheckContext Retry",
    "graphrt.harness.agent.compaction": "Compaction",
    "graphrt.harness.agent.events": (
        "AgentEvent CheckEnded EventSink HandedOver ModelEnded ModelFailed ModelStarted SubAgentItem ToolEnded "
        "ToolStarted"
    ),
    "graphrt.harness.agent.handoffs": "Handoff",
    "graphrt.harness.agent.limits": "AgentLimits",
    "graphrt.harness.agent.middleware": "Middleware",
    "graphrt.harness.budget": "Budget BudgetWarning",
    "graphrt.harness.budget._ledger": "Ledger",
    "graphrt.harness.budget._token_tracker": "TokenTracker",
    "graphrt.harness.cassette": "Cassette",
    "graphrt.harness.litellm": "LiteLLMHarness",
    "graphrt.harness.litellm._model": "LiteLLMModel",
    "graphrt.harness.media": "Audio Document Image Media",
    "graphrt.harness.messages": (
        "AssistantMessage Content LeftOut Message Part Prompt ProviderPart SystemMessage TextPart ThinkingBlock "
        "ToolCall ToolMessage ToolSpec UserMessage"
    ),
    "graphrt.harness.mock": "Expectation MockHarness expect",
    "graphrt.harness.protocol": (
        "AgentHarness AgentReply AgentRequest ChatModel FinishReason ModelProfile ModelRequest "
        "ModelResponse RunOptions StreamItem StreamingHarness TextDelta ThinkingDelta ToolCallDelta"
    ),
    "graphrt.harness.real_requests": "allow_model_requests",
    "graphrt.harness.request": "OutputSpec",
    "graphrt.harness.scripted_model": "FunctionModel ScriptedModel",
    "graphrt.harness.template": "Template",
    "graphrt.harness.tools.from_model": "ModelTool tool_from_model",
    "graphrt.harness.tools.function": "FunctionTool tool",
    "graphrt.harness.tools.injected": "Injected",
    "graphrt.harness.tools.mcp": "McpServer McpTool",
    "graphrt.harness.tools.protocol": "Tool ToolContext ToolPolicy ToolResult",
    "graphrt.harness.tools.registry": "ToolRegistry",
}
"""Public names of each module, joined by spaces."""
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names.split()}
"""Module that each public name is imported from."""


def __getattr__(name: str) -> object:
    module_name = _HOMES.get(name)
    if module_name is None:
        from graphrt.errors._langgraph_names import no_export

        raise no_export(__name__, name)
    from importlib import import_module

    value = getattr(import_module(module_name), name)
    globals()[name] = value  # later accesses no longer come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
