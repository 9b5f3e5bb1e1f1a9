"""Errors of workers: their arguments, and when they may begin."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

TWO_RUNTIMES_OF_ONE_GRAPH = ErrorCode(
    "duplicate-runtime",
    InputError,
    "Two runtimes have a graph named {name!r}.",
    known="a thread names its graph, and the worker finds the runtime by this name",
    fix="Give the graphs different names, or pass one of the runtimes.",
)
TWO_STORES_OF_A_WORKER = ErrorCode(
    "two-stores",
    InputError,
    "The runtime of graph {name!r} has the store {store}, and the runtime of graph {other!r} has {first}.",
    known="a worker looks for threads, schedules and old threads in one store",
    fix="Pass one store to all runtimes of a worker, and make another worker for the other store.",
)
SERVE_OUTSIDE_MAIN_THREAD = ErrorCode(
    "serve-outside-main",
    InputError,
    "serve() was called in the worker thread {thread!r}, where Python runs no signal handlers.",
    known="only the main thread gets SIGTERM and SIGINT",
    fix="Call serve() in the main thread; elsewhere, call start(), and stop() when the process is to end.",
)
WORKER_RUNS_ALREADY = ErrorCode(
    "worker-began",
    InputError,
    "This worker is {state}: it begins once.",
    fix="Make another Worker with the same runtimes.",
)
UNKNOWN_GRAPH = ErrorCode(
    "unknown-graph",
    InputError,
    "Thread {thread!r} is of graph {name!r}, and no runtime of the host has a graph of this name.",
    known="{graphs:names}",
    fix="Pass a Runtime of this graph to the host, or ask another host.",
)
