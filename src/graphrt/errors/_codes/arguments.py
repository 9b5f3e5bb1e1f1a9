"""Errors of calls: arguments of a Runtime and of its methods, options of a run, names that do not exist."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._codes.inputs import UNKNOWN_RUN_OPTION
from graphrt.errors._error_code import ErrorCode

INVALID_ARGUMENT = ErrorCode("input", InputError, "{problem}.")
BAD_OBSERVER = INVALID_ARGUMENT.variant(
    "The observer of graphs in the environment cannot be used: {error:told}",
    known="{variable}={given!r}",
    fix="Set it to module:function, a function without arguments, or remove it.",
)
OPTION_NOT_TEXT = INVALID_ARGUMENT.variant("{option} must be a str, not {value!r}.")
OPTION_NOT_A_MAPPING = INVALID_ARGUMENT.variant(
    "{option} must be a mapping from names to values, not {value:a_type}.",
    fix='Give for instance {option}={{"user": "u-1"}}.',
)
OPTION_NOT_A_LIST = INVALID_ARGUMENT.variant(
    "{option} must be a list, not {value!r}.", fix="Put it into a list: {option}=[...]."
)
OPTION_OUT_OF_BOUNDS = INVALID_ARGUMENT.variant(
    "{problem}.", fix="Give such a number, or None to leave it out.", carries=("value",)
)
OPTION_OF_WRONG_TYPE = INVALID_ARGUMENT.variant("{option} must be of type {kind}, not {value!r}.")
OPTION_NOT_A_FUNCTION = INVALID_ARGUMENT.variant("{option} must be a function, not {value!r}.")

COMMAND_HAS_NO_RESUME = UNKNOWN_RUN_OPTION.variant(
    "A Command has no resume=.",
    fix="Answer a question from outside: Runtime(graph, store=...).resume(thread, answer).",
    boundary=True,
)
COMMAND_HAS_NO_GRAPH = UNKNOWN_RUN_OPTION.variant(
    "A Command has no graph=.",
    fix="A Command leads to nodes of its own graph. What a nested graph returns tells the graph around it.",
    boundary=True,
)
NO_SUCH_PARAMETER = UNKNOWN_RUN_OPTION.variant("{function}() has no parameter {word!r}.", fix="{advice}")
TOO_MANY_ARGUMENTS = UNKNOWN_RUN_OPTION.variant(
    "{function}() takes one argument without a name, the input, but {number} were given.", fix="{advice}"
)
CALL_DOES_NOT_FIT = UNKNOWN_RUN_OPTION.variant("{function}() {problem}.", fix="{advice}")
