"""Errors of tools: their definitions, names, calls and results."""

from __future__ import annotations

from graphrt.errors import InputError, ToolArgumentsError, ToolError, ToolStateError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._error_code import ErrorCode

TOOL_ARGUMENTS = ErrorCode("tool-arguments", ToolArgumentsError, "{text}")

TOOL_FAILED_BY_VALIDATOR = ErrorCode(
    "tool-failed",
    ToolError,
    "A validator of tool {tool!r} failed: {error:type}.",
    fix="Let validators raise ValueError for what does not fit.",
)

INJECTION_MISSING = ErrorCode(
    "tool-injection",
    ToolError,
    "Tool {tool!r} needs {field!r}, which was not given: {why}.",
    fix="Pass it in deps where the agent is run.",
)

TOOL_SCHEMA = ErrorCode("tool-schema", InputError, "{problems}", fix="Correct the parameters that are listed.")

WRONG_INJECTION = INVALID_ARGUMENT.variant("{text}")

DUPLICATE_TOOL = ErrorCode(
    "duplicate-tool",
    InputError,
    "Two tools are named {tool!r}.",
    fix="Rename one of them, for instance @tool(name=...), or give a server's tools a prefix.",
    where="{first} and {second}",
)

UNKNOWN_TOOL = ErrorCode(
    "unknown-tool", InputError, "There is no tool {tool!r}.", fix="Use one of the names above, or add the tool."
)

TOOL_RESULT_NOT_JSON = ErrorCode(
    "tool-result",
    ToolError,
    "The result of tool {tool!r} cannot become JSON: {path} is of type {culprit:type}.",
    fix="Return a text, a ToolResult, or what JSON has: numbers, lists, dicts, dataclasses, pydantic models.",
)
RESULT_WITH_SURROGATE = TOOL_RESULT_NOT_JSON.variant(
    "The text that tool {tool!r} returned has a lone surrogate at position {position}.",
    fix="Decode bytes with errors='replace'.",
)

TOOL_STATE = ErrorCode(
    "tool-state",
    ToolStateError,
    "Tool {tool!r} of agent {agent!r} in node {node!r} {problem}.",
    fix="Correct what the tool declares, or offer it in another node.",
)
UNDECLARED_READ = TOOL_STATE.variant(
    "Tool {tool!r} read {field!r} of the state, which its reads= does not declare.",
    known="declared {declared:names}",
    fix="Declare the field: @tool(reads=[...]).",
)
STATE_ASSIGNED = TOOL_STATE.variant(
    "Tool {tool!r} assigned field {field!r} of the state, which it can only read.",
    fix="Return Command(update={{{field!r}: ...}}), and declare @tool(writes=[{field!r}]).",
)
TOOL_OUTSIDE_GRAPH = TOOL_STATE.variant(
    "Tool {tool!r} of agent {agent!r} uses the state of a graph, and the agent does not run in a node of one.",
    fix="Run the agent in a node that takes a context: add_node('ask', agent), ctx.bind(agent) or ctx.harness. A unit test "
    "can call the tool as a function, with ToolContext(call=..., state=...).",
)

MCP_CONNECT = ErrorCode(
    "mcp-connect",
    ToolError,
    "MCP server {server} cannot be reached: {reason}{status}.",
    fix="Check the command or the address, and that the server runs and speaks MCP. A slow one needs a larger connect_timeout_s.",
)

MCP_TIMEOUT = ErrorCode(
    "mcp-timeout",
    ToolError,
    "MCP server {server} did not answer within {timeout_s:g} s: {request}.",
    fix="Raise timeout_s, or ask for less at once.",
)

MCP_LOST = ErrorCode(
    "mcp-lost",
    ToolError,
    "MCP server {server} went away during {request}: {reason}. Whether it was done is unknown.",
    fix="The next call connects again; repeat this one only if that does no harm.",
)

MCP_REFUSED = ErrorCode(
    "mcp-refused",
    ToolError,
    "MCP server {server} refused {request}: {reason}{status}.",
    fix="Read what the server says. A tool that it no longer has is gone from tools().",
)

MCP_NOT_OPEN = ErrorCode(
    "mcp-not-open", ToolError, "MCP server {server} is not open.", fix="Use its tools inside of `async with server:`."
)
