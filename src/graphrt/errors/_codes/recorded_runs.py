"""Errors of recorded runs in tests: recordings and assertions about them, golden traces, and cases."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.journal import GRAPH_CHANGED, OTHER_GRAPH
from graphrt.errors._error_code import ErrorCode

NOT_A_RECORDED_RUN = INVALID_ARGUMENT.variant(
    "assert_run() takes a RecordedRun, not {given:a_type}.", fix="Record the run first: run = record(graph, input)."
)
UNKNOWN_NAME_IN_ASSERTION = INVALID_ARGUMENT.variant(
    "The assertion names {name!r}, which is not {what:a}.", known="{known_names:names}", fix="Use one of these names."
)
RECORD_OF_A_RUNTIME = INVALID_ARGUMENT.variant(
    "record() takes a compiled graph, not a Runtime, because it adds a sink of its own.",
    fix="Pass runtime.graph, and the arguments of the runtime as options: record(graph, input, harness=...).",
)
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
TRACE_OF_NO_RUN = INVALID_ARGUMENT.variant(
    "A golden trace is made from a recorded run, not from {given:a_type}.",
    fix="Record the run first: run = record(graph, input).",
)
TRACE_WITHOUT_ENTRIES = INVALID_ARGUMENT.variant(
    "A golden trace is made from a recorded run, and this one has no entries.",
    fix="Record the run first: run = record(graph, input).",
)
NOT_MODEL_REQUESTS = INVALID_ARGUMENT.variant(
    "requests= has a value of type {value:type}, which is not a model request.",
    known="a list of requests, or a mapping from names of agents to such lists",
    fix="Pass the calls of a double: requests=model.calls.",
)

BAD_CASE = ErrorCode(
    "bad-case",
    InputError,
    "This is not the text of a case: {why}.",
    fix="Write the file again with case_of(); only the recording at its end must stay as it is.",
)
NO_RUNTIME_FOR_CASE = INVALID_ARGUMENT.variant(
    "case_of() takes a Runtime, not {given:a_type}.", fix="Pass the runtime of the thread."
)
NOT_AN_ENTRY_NUMBER = INVALID_ARGUMENT.variant(
    "at={at!r} is not the number of an entry.",
    fix="Take the seq of a snapshot of history(thread), or leave it out for the last step.",
    carries=("thread",),
)
NO_SUPERSTEP_YET = INVALID_ARGUMENT.variant("No superstep of thread {thread!r} has ended yet.", fix="Run it first.")
NO_SUPERSTEP_AFTER = INVALID_ARGUMENT.variant(
    "No superstep follows entry {seq} of thread {thread!r}.",
    known="supersteps follow the entries {entries}",
    fix="Take the seq of a snapshot of history(thread), after which the step ran.",
)
CASE_OF_CHANGED_GRAPH = GRAPH_CHANGED.variant(
    "The step after entry {seq} of thread {thread!r} ran what graph {graph_name!r} no longer has: {gone:names}.",
    known="nodes {known_nodes:names}",
    fix="Pass a runtime of the graph as it was when the step ran, or the `at` of another step.",
    where="",
    carries=(),
)
GRAPH_NOT_IMPORTABLE = INVALID_ARGUMENT.variant(
    "The test cannot import graph {graph_name!r}: no variable of an imported module holds it.",
    fix="Say where it is: case_of(..., graph='module:variable'), or 'module:function()' if a function returns it.",
)
NO_GRAPH_AT = INVALID_ARGUMENT.variant(
    "There is no graph at {given!r}: {error:told}.",
    fix="Pass graph='module:variable', or 'module:function()' if a function returns the graph.",
)
OTHER_GRAPH_AT = INVALID_ARGUMENT.variant(
    "At {given!r} is {found}, and not the runtime's graph {graph_name!r} as it is now.",
    fix="Name the variable that holds the graph that the runtime drives.",
)
CASE_FILE_EXISTS = INVALID_ARGUMENT.variant(
    "There is a file {file!r} already, with other content.",
    fix="Pass another path as to=, or overwrite=True if the file has no changes that you need.",
)
CASE_OF_OTHER_GRAPH = OTHER_GRAPH.variant(
    "The case is of graph {wanted!r}, and this is graph {graph_name!r}.",
    fix="Pass graph {wanted!r}, or write the case again with case_of(), if the graph was renamed.",
    where="thread {thread!r}",
    carries=(),
)
SEVERAL_UPDATES = INVALID_ARGUMENT.variant(
    "Task {task!r} ran a nested graph, which made {number} updates.",
    fix="Compare `updates`, which has one for each commit of the nested graph.",
)
NO_SUCH_TASK = INVALID_ARGUMENT.variant(
    "No task {key!r} ended in the step.", known="tasks {tasks:names}", fix="Name a task by its id."
)
SEVERAL_TASKS_OF_NODE = INVALID_ARGUMENT.variant(
    "The step had {number} tasks of node {key!r}.", known="tasks {tasks:names}", fix="Name a task by its id."
)
