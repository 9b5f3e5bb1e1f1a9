"""Errors of mocks and scripted models. The errors of the test kit are in `testing_doubles`."""

from __future__ import annotations

from graphrt.errors import ScriptError
from graphrt.errors._error_code import ErrorCode

SCRIPT_UNKNOWN_TOOL = ErrorCode(
    "script-unknown-tool",
    ScriptError,
    "The MockHarness replies with a call of tool {tool_name!r}, which call {number} does not offer.",
    known="offered: {offered}",
    fix="Pass the ToolSpec in tools=[...], or correct the script.",
)


SCRIPT_WRONG_CALL = ErrorCode(
    "script-wrong-call",
    ScriptError,
    "The {double} calls tool {tool!r} with arguments that do not fit it now: {problem}",
    known="arguments in the script: {arguments:names}",
    fix="Correct the call in the script. If the test is about such a call, pass check_calls=False to the double.",
)
DOUBLE_OF_ANOTHER_TOOL = SCRIPT_WRONG_CALL.variant(
    "The double of tool {tool!r} does not take the arguments of the tool: {problem}",
    known="arguments of the call: {got:names}",
    fix="Give it the parameters of the tool as it is now, or **arguments.",
)

SCRIPT_OUTPUT = ErrorCode(
    "script-output", ScriptError, "The {double} cannot reply to call {number} with {reply}: {problem}."
)

SCRIPT_LEFT_OVER = ErrorCode(
    "script-left-over",
    ScriptError,
    "The script of the {double} was not used up: {number} left over after {calls} calls.",
    known="{items}{and_more}",
    fix="Remove them from the script, or find out why the calls were not made.",
)

SCRIPT_UNEXPECTED_CALL = ErrorCode(
    "script-unexpected-call",
    ScriptError,
    "The {double} expected {expected}, but got a call with {said!r}.",
    known="{left} items of the script left{rules}",
    fix="Add the reply to the script, or find out why the call was made.",
    where="call {call}, after {served} items of the script",
)
