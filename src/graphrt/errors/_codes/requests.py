"""Errors of what is said to a model: messages, requests, options, structured output, harnesses."""

from __future__ import annotations

from graphrt.errors import BadResponseError, InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._error_code import ErrorCode

BAD_HARNESS = ErrorCode("bad-harness", InputError, "{taker}, not {given}.", carries=("value",))

TOOL_WITHOUT_NAME = INVALID_ARGUMENT.variant(
    "A tool has an empty name.", known="description {description!r}", fix="Name the tool."
)
BAD_TOOL_PARAMETERS = INVALID_ARGUMENT.variant(
    "The parameters of tool {name!r} are of type {value:type}.",
    fix="Give the JSON schema of the arguments as a mapping.",
)
ARGUMENTS_NOT_JSON = INVALID_ARGUMENT.variant(
    "The arguments of the call of tool {name!r} are not JSON: {error}.",
    known="{arguments!r}",
    fix="Give strings, numbers, booleans, None, lists and mappings.",
    carries=("value",),
)
SYSTEM_NOT_TEXT = INVALID_ARGUMENT.variant(
    "system must be a str, not {value:a_type}.", fix="Render a Template first: template.render(state)."
)
UNKNOWN_HARNESS_OPTION = INVALID_ARGUMENT.variant(
    "A harness has no option {value!r}.",
    known="{options:names}",
    fix="{hint}What only one provider understands goes into options={{...}}.",
)
NOT_A_PROMPT = INVALID_ARGUMENT.variant(
    "A prompt is a str or a list of messages, not {value:a_type}.", fix="Give a text, or a list of messages."
)
NOT_A_MESSAGE = INVALID_ARGUMENT.variant(
    "The prompt contains a value of type {value:type}, which is not a message: {value!r}.",
    known="{kinds:names}",
    fix='Give a text, or a list of messages such as UserMessage(text="...").',
)
NO_MESSAGES = INVALID_ARGUMENT.variant("The prompt has no messages.", fix="Give a text, or at least one message.")
UNKNOWN_REASONING = INVALID_ARGUMENT.variant(
    "reasoning is {value!r}.",
    known="{efforts:names}",
    fix="Use one of these. What only one provider understands goes into options={{...}}.",
)
NOT_A_TOOL_SPEC = INVALID_ARGUMENT.variant("A tool is of type {value:type}.", fix="Give ToolSpec values.")
TWO_TOOLS_OF_ONE_NAME = INVALID_ARGUMENT.variant(
    "Two tools are named {name!r}.", known="{tools:names}", fix="Rename one of them."
)
UNKNOWN_TOOL_CHOICE = INVALID_ARGUMENT.variant(
    "tool_choice is {value!r}, which is not a tool of the call.",
    fix='Use "auto", "none", "required" or the name of a tool.',
)
TOOL_CHOICE_WITHOUT_TOOLS = INVALID_ARGUMENT.variant(
    'tool_choice is "required", but there are no tools.', fix="Give tools."
)

BAD_TOOL_ARGUMENTS = ErrorCode(
    "bad-tool-arguments",
    BadResponseError,
    "The model called tool {name!r} with arguments that are not a JSON object: {error}.",
    known="call {call!r}, text {value!r}",
    fix="Answer the call with a ToolMessage that shows the model this error.",
)

NO_SCHEMA = ErrorCode(
    "bad-output-type",
    InputError,
    "No JSON schema can be made of output={value!r}: {reason}",
    fix="Give a pydantic model, a dataclass, a TypedDict or a simple type.",
)
NOT_AN_OUTPUT_TYPE = NO_SCHEMA.variant("output= is {given}, which is not a type.", carries=("value",))

BAD_OUTPUT = ErrorCode(
    "bad-output",
    BadResponseError,
    "The answer of {of} does not have the form that was asked for: {problem}.",
    known="{told}its answer began with {beginning!r}",
    fix="Ask for less at once, describe the fields, or use a model that supports structured output.",
    carries=("model", "messages"),
)
