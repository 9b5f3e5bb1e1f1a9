"""Errors of requests to a model: messages, options, structured output, harnesses."""

from __future__ import annotations

from graphrt.errors import BadResponseError, InputError
from graphrt.errors._error_code import ErrorCode

BAD_HARNESS = ErrorCode("bad-harness", InputError, "{taker}, not {given}.")


BAD_TOOL_ARGUMENTS = ErrorCode(
    "bad-tool-arguments",
    BadResponseError,
    "The model called tool {name!r} with arguments that are not a JSON object: {error}.",
    known="call {call!r}, text {value!r}",
    fix="Answer the call with a ToolMessage that shows the model this error.",
)

BAD_CONVERSATION = ErrorCode(
    "bad-conversation",
    InputError,
    "Message {index} of {conversation} {problem}.",
    known="providers refuse such a conversation",
    fix="Answer each tool call by one ToolMessage, directly after the message that makes the calls.",
)

BAD_MEDIA = ErrorCode("bad-media", InputError, "{subject} {problem}.")
TOO_MANY_MEDIA = BAD_MEDIA.variant(
    "A message has {number} images, audio parts and documents, and {limit} are allowed.",
    fix="Spread them over several messages.",
)

BAD_OUTPUT_TYPE = ErrorCode(
    "bad-output-type",
    InputError,
    "No JSON schema can be made of output={value!r}: {reason}",
    fix="Pass a pydantic model, a dataclass, a TypedDict or a simple type.",
)
NOT_AN_OUTPUT_TYPE = BAD_OUTPUT_TYPE.variant("output= is {given}, which is not a type.")

BAD_OUTPUT = ErrorCode(
    "bad-output",
    BadResponseError,
    "The answer of {of} does not have the form that was asked for: {problem}.",
    known="{note}its answer began with {beginning!r}",
    fix="Ask for less at once, describe the fields, or use a model that supports structured output.",
)
