"""Errors of threads: verbs, answers, runs, forks, and the claims of other writers."""

from __future__ import annotations

from graphrt.errors import ConflictError, InputError
from graphrt.errors._error_code import ErrorCode

INTERRUPT_NEEDS_THREAD = ErrorCode(
    "interrupt-needs-thread",
    InputError,
    "Node {node!r} asked for an interrupt, but this run has no thread that could wait.",
    fix='Run it on a thread: Runtime(graph, store="memory:").run(input, thread="t").',
)

PRUNED_WHILE_READ = ErrorCode(
    "conflict",
    ConflictError,
    "Thread {thread!r} was pruned or deleted while it was read: its entries end at {last}, not at {end}.",
    fix="Try again.",
    where="thread {thread!r}",
)
HELD_BY_ANOTHER_RUN = PRUNED_WHILE_READ.variant(
    "Thread {thread!r} is held by another run.",
    fix="Wait for that run, cancel it, or use another thread.",
    where="thread {thread!r}",
)
THREAD_HAS_MOVED = PRUNED_WHILE_READ.variant(
    "Thread {thread!r} is at entry {got}, not at {expected}: nothing of this commit was stored.",
    known="last entry {got}",
    fix="Load the thread and go on from its last entry.",
    where="thread {thread!r}",
)

UNKNOWN_THREAD = ErrorCode(
    "unknown-thread",
    InputError,
    "There is no thread {thread!r}.",
    fix="Give the id of a thread that was started, or start this one.",
)

THREAD_EXISTS = ErrorCode(
    "thread-exists",
    InputError,
    "There is a thread {thread!r} already.",
    fix="Give another id, or delete that thread first.",
    where="thread {thread!r}",
)

NO_SNAPSHOT = ErrorCode(
    "no-snapshot",
    InputError,
    "Thread {thread!r} has no snapshot of entry {seq}: the entries after it could not be folded.",
    known="snapshots of the entries {entries}",
    fix="Prune up to an entry that has a snapshot, or commit one first.",
    where="thread {thread!r}",
)

LOST_LEASE = ErrorCode(
    "lost-lease",
    ConflictError,
    "The claim number {epoch} on thread {thread!r} is void: nothing of this commit was stored.",
    fix="Claim the thread again and go on from what is stored; a longer lease_s outlasts longer pauses.",
    where="thread {thread!r}",
)
