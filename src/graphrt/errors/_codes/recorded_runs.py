"""Errors of recorded runs in tests: recordings and assertions about them, golden traces, and cases."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._error_code import ErrorCode

BAD_GOLDEN_TRACE = ErrorCode(
    "bad-golden-trace",
    InputError,
    "The text is not a golden trace: {why}.",
    fix="Restore the file from version control, or write it again: pytest --graphrt-update.",
)

BAD_CASE = ErrorCode(
    "bad-case",
    InputError,
    "This is not the text of a case: {why}.",
    fix="Write the file again with case_of(); only the recording at its end must stay as it is.",
)
GRAPH_NOT_IMPORTABLE = INVALID_ARGUMENT.variant(
    "The test cannot import graph {graph_name!r}: {problem}.",
    fix="Say where it is: case_of(..., graph='module:variable'), or 'module:function()' if a function returns it.",
)
SEVERAL_UPDATES = INVALID_ARGUMENT.variant(
    "Task {task!r} ran a nested graph, which made {number} updates.",
    fix="Compare `updates`, which has one for each commit of the nested graph.",
)
