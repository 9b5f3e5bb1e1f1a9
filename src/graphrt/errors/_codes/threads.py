"""Errors of threads: verbs, answers, runs, forks, and the claims of other writers."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

INTERRUPT_NEEDS_THREAD = ErrorCode(
    "interrupt-needs-thread",
    InputError,
    "Node {node!r} asked for an interrupt, but this run has no thread that could wait.",
    fix='Run it on a thread: Runtime(graph, store="memory:").run(input, thread="t").',
)
