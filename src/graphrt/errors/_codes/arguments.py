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
