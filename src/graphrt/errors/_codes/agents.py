"""Errors of agents: their options, limits, middleware, approvals, and graphs as tools."""

from __future__ import annotations

from graphrt.errors import AgentLimitError, CheckError, InputError, ToolError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.models import BAD_RESPONSE
from graphrt.errors._codes.tools import TOOL_FAILED_BY_VALIDATOR, UNKNOWN_TOOL
from graphrt.errors._error_code import ErrorCode

NO_MODEL = ErrorCode(
    "no-model",
    InputError,
    "{of} is {given}.",
    known="{lack}",
    fix='Pass a ChatModel, or the name of a model such as "openai/gpt-4o-mini".',
)

AGENT_LIMIT = ErrorCode(
    "agent-limit",
    AgentLimitError,
    "Agent {name!r} reached its limit {option}={limit}.",
    known="{models:count model call}, {tools:count tool call}, {messages_made:count message}",
    fix='Raise AgentLimits({option}=...), or use on_limit="stop" to continue with what the agent has so far.',
)

REPEATED = AGENT_LIMIT.variant(
    "The model of agent {name!r} repeated {subject}, although it was asked not to.",
    known="repeats={limit}, {models:count model call}, {tools:count tool call}, {messages_made:count message}",
    fix='Read error.messages: a tool, its description or the instructions may mislead the model. AgentLimits({option}=...) allows more, and on_limit="stop" continues with what the agent has so far.',
)


BAD_MIDDLEWARE = ErrorCode(
    "bad-middleware",
    InputError,
    "middleware has {given}, which is not a layer.",
    fix="Derive from Middleware, override what you need, and give an instance.",
)
LAYER_SIGNATURE = BAD_MIDDLEWARE.variant(
    "Middleware {value:type}.{name}{shape} cannot be called with ({arguments}): {error}.",
    fix="Write `async def {name}(self, {arguments})`.",
)


ANSWER_CUT_OFF = ErrorCode(
    "answer-cut-off",
    AgentLimitError,
    "{problem}",
    fix='Raise max_tokens, or ask for less. With on_length="return", the incomplete answer is returned.',
    where="agent {name!r}",
)

NOT_A_RESPONSE = BAD_RESPONSE.variant(
    "Model {model!r} gave {problem} as its response.",
    fix="invoke() returns a ModelResponse, and the last item of stream() is one.",
)


OVERRIDE_OF_A_GENERATOR = ErrorCode(
    "bad-override",
    InputError,
    "override() cannot decorate {function}(), which is a generator: its body runs after the call.",
    fix="Write `with agent.override(model=...):` inside it.",
)

RUN_SYNC_IN_LOOP = ErrorCode(
    "run-sync-in-loop",
    InputError,
    "Agent {agent!r} was run by run_sync() in a coroutine, whose event loop it would keep from running.",
    fix="Await agent.run(...) instead.",
)

TOOL_NOT_OFFERED = UNKNOWN_TOOL.variant(
    "The model called a tool that it was not offered: {tool!r}.",
    error=ToolError,
    known="tools: {offered}",
    fix='Offer it, or use unknown_tool="return", which lets the model correct itself.',
)

TOOL_TIMEOUT = ErrorCode(
    "tool-timeout",
    ToolError,
    "{problem}",
    fix='Raise the tool\'s timeout_s, or let the model see it: on_error="return".',
)

TOOL_FAILED = TOOL_FAILED_BY_VALIDATOR.variant(
    "Tool {tool!r} failed: {error:described}",
    fix='Repair the tool, or let the model see what it raises: on_error="return".',
)


HARNESS_CANNOT_STREAM = ErrorCode(
    "no-stream",
    InputError,
    "Node {node!r} asked for a stream of {harness:type}, which has no stream().",
    fix="Use run() of the bound harness, or a harness that has stream().",
)

TOOL_NOT_ALLOWED = ErrorCode(
    "tool-not-allowed",
    InputError,
    "Node {node!r} asked for the tool {tool!r}, which it may not use.",
    known="tools of the node: {allowed}",
    fix="Name it on the node: @g.node(tools=({tool!r},)).",
)

STREAM_WITHOUT_REPLY = ErrorCode(
    "no-final-reply",
    InputError,
    "The stream of {harness:type} ended without a final reply: {ended}.",
    fix="Yield the whole AgentReply as the last item.",
)

USAGE_CANNOT_BE_COUNTED = BAD_RESPONSE.variant(
    "{harness:type} gave a reply with {problem}.",
    fix="Pass counts of 0 or more, or usage=None where they are not known.",
)

NESTED_TOO_DEEP = AGENT_LIMIT.variant(
    "{called} would run {depth:count level} below the outermost agent.",
    known="depth={limit}",
    fix="Raise AgentLimits(depth=...) of the agents above, if the nesting is meant.",
)

GRAPH_NOT_ENDED = ErrorCode(
    "graph-not-ended",
    ToolError,
    "Graph {tool!r} was {status} before it came to its end.",
    known="as a tool on a thread it may ask people, and wait for nothing else",
    fix="Wait in a node of the outer graph instead, or nest the graph there as a node.",
)

COMPACTION_BOUND = ErrorCode(
    "compaction-bound",
    AgentLimitError,
    "Agent {name!r} cannot shorten its request to {limit:count token}: instructions, tools and {rest} need {needed}.",
    fix="Raise Compaction(tokens=...), or send less: shorter tool results, instructions or messages.",
    where="agent {name!r}",
)

INPUT_REFUSED = ErrorCode(
    "check-failed",
    CheckError,
    "Check {check!r} refused an input of agent {name!r}: {why}",
    fix="Change the input, or the check. No model was asked about it.",
    where="agent {name!r}",
)

STREAM_INSIDE = INVALID_ARGUMENT.variant(
    "Agent.stream() of agent {agent!r} was called inside another agent, or in a node of a graph.",
    fix="Use run(): the outermost stream has its events. In a node, ctx.bind(agent).stream(...) yields them there.",
)

NOBODY_TO_ASK = ErrorCode(
    "nobody-to-ask",
    InputError,
    "An agent outside of a graph has to ask a person{about}: {payload!r}.",
    fix="{instead}, or run the agent in a node that takes ctx, on a thread: there the question becomes an interrupt.",
)
