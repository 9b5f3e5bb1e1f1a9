"""Errors of tools: how they are made, named, called, and what they return."""

from __future__ import annotations

from graphrt.errors import InputError, ToolArgumentsError, ToolError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._error_code import ErrorCode

TOOL_ARGUMENTS = ErrorCode("tool-arguments", ToolArgumentsError, "{text}", carries=("values", "tool"))

VALIDATOR_FAILED = ErrorCode(
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

BAD_TOOL_NAME = ErrorCode(
    "bad-tool", InputError, "{value!r} cannot be the name of a tool.", fix="Give name=, up to 64 of A-Z a-z 0-9 _ -."
)
BAD_TOOL_OPTION = BAD_TOOL_NAME.variant("{option} of a tool is {value!r}.", fix="Give {wanted}.")
NOT_A_TOOL_MODEL = BAD_TOOL_NAME.variant(
    "A tool from a model needs a class and a function, not {given!r} and {fn!r}.",
    fix="Write tool_from_model(Model, function).",
)
TOOL_OF_NO_FUNCTION = BAD_TOOL_NAME.variant("A tool is made of a function, not of {value!r}.", fix="Give the function.")
TOOL_OF_A_NAME = BAD_TOOL_NAME.variant(
    "@tool was given {value!r} as if it were a function.", fix='Write @tool(name="...").'
)
ONLY_TAKES_NAMES = BAD_TOOL_NAME.variant(
    "only() takes several names, not the text {value!r}.", fix="Write only([{value!r}])."
)
NOT_SEVERAL_TOOLS = BAD_TOOL_NAME.variant(
    "A ToolRegistry takes several tools, not {value!r}.", fix="Write ToolRegistry([...])."
)
NOT_A_TOOL = BAD_TOOL_NAME.variant(
    "{value!r} is not a tool.",
    known="a tool has spec, policy, check and call",
    fix="Give a function, or what tool(), tool_from_model() or McpServer.tools() made.",
)

TOOL_SCHEMA = ErrorCode(
    "tool-schema", InputError, "{problems}", fix="Correct the parameters that are listed.", carries=("values", "tool")
)

FOREIGN_INJECTION = INVALID_ARGUMENT.variant("{text}")
INJECTED_WITHOUT_SOURCE = INVALID_ARGUMENT.variant(
    '{parameter}: Injected needs its source; write Injected("name in deps")'
)
SEVERAL_INJECTED = INVALID_ARGUMENT.variant(
    "{parameter}: has {number} Injected; one value can come from one source only"
)
BAD_INJECTED = INVALID_ARGUMENT.variant(
    "Injected takes a name in deps or a function of the ToolContext, not {value!r}.",
    fix='Write Injected("db") or Injected(lambda context: ...).',
)

DUPLICATE_TOOL = ErrorCode(
    "duplicate-tool",
    InputError,
    "Two tools are named {tool!r}.",
    fix="Rename one of them, for instance @tool(name=...), or give a server's tools a prefix.",
    where="{first} and {second}",
)

NO_SUCH_TOOL = ErrorCode(
    "unknown-tool", InputError, "There is no tool {tool!r}.", fix="Use one of the names above, or add the tool."
)

RESULT_NOT_JSON = ErrorCode(
    "tool-result",
    ToolError,
    "What tool {tool!r} returned cannot become JSON: {path} is of type {culprit:type}.",
    fix="Return a text, a ToolResult, or what JSON has: numbers, lists, dicts, dataclasses, pydantic models.",
)
RESULT_WITH_SURROGATE = RESULT_NOT_JSON.variant(
    "The text that tool {tool!r} returned has a lone surrogate at position {position}.",
    fix="Decode bytes with errors='replace'.",
    carries=("path",),
)
