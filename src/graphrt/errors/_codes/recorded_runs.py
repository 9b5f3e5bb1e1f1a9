"""Errors of recorded runs in tests: recordings and assertions about them, golden traces, and cases."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.journal import GRAPH_CHANGED, OTHER_GRAPH
from graphrt.errors._error_code import ErrorCode

BAD_RECORD_OPTIONS = INVALID_ARGUMENT.variant(
    "record() cannot make a Runtime of these options: {error}.",
    known="given: {options:names}",
    fix="Pass options of Runtime, such as harness= and deps=.",
)

BAD_GOLDEN_TRACE = ErrorCode(
    "bad-golden-trace",
    InputError,
    "The text is not a golden trace: {why}.",
    fix="Restore the file from version control, or write it anew: pytest --graphrt-update.",
)

BAD_CASE = ErrorCode(
    "bad-case",
    InputError,
    "This is not the text of a case: {why}.",
    fix="Write the file again with case_of(); only the recording at its end must stay as it is.",
)
NO_SUPERSTEP_AFTER = INVALID_ARGUMENT.variant(
    "No superstep follows entry {seq} of thread {thread!r}.",
    known="supersteps follow the entries {entries}",
    fix="Take the seq of a snapshot of history(thread), after which the step ran.",
)
CASE_OF_CHANGED_GRAPH = GRAPH_CHANGED.variant(
    "The step after entry {seq} of thread {thread!r} ran what graph {graph_name!r} no longer has: {gone:names}.",
    known="nodes {known_nodes:names}",
    fix="Pass a runtime of the graph as it was when the step ran, or the `at` of another step.",
)
GRAPH_NOT_IMPORTABLE = INVALID_ARGUMENT.variant(
    "The test cannot import graph {graph_name!r}: {problem}.",
    fix="Say where it is: case_of(..., graph='module:variable'), or 'module:function()' if a function returns it.",
)
CASE_FILE_EXISTS = INVALID_ARGUMENT.variant(
    "There is a file {file!r} already, with other content.",
    fix="Pass another path as to=, or overwrite=True if the file has no changes that you need.",
)
CASE_OF_OTHER_GRAPH = OTHER_GRAPH.variant(
    "The case is of graph {wanted!r}, and this is graph {graph_name!r}.",
    fix="Pass graph {wanted!r}, or write the case again with case_of(), if the graph was renamed.",
    where="thread {thread!r}",
)
SEVERAL_UPDATES = INVALID_ARGUMENT.variant(
    "Task {task!r} ran a nested graph, which made {number} updates.",
    fix="Compare `updates`, which has one for each commit of the nested graph.",
)
NOT_ONE_TASK = INVALID_ARGUMENT.variant(
    "{number:count task} of the step {number:has|have} the name {key!r}.",
    known="tasks {tasks:names}",
    fix="Name a task by its id.",
)
