"""Errors of child threads: starting them, waiting for them, and children that did not complete."""

from __future__ import annotations

from graphrt.errors import ChildThreadError, InputError
from graphrt.errors._error_code import ErrorCode

CHILD_ENDED = ErrorCode(
    "child-ended",
    ChildThreadError,
    "Child thread {child!r} {ended}{error}.",
    known="it runs the graph {runs!r}",
    fix="Catch ChildThreadError in the node; or retry the child, and this thread when the child has completed.",
)
CHILD_DELETED = CHILD_ENDED.variant(
    "Child thread {child!r} was deleted before the node that waits for it could read how it ended.",
    fix="Catch ChildThreadError in the node; and let retention keep child threads longer than their parents wait.",
)
CHILDREN_NEED_STORE = ErrorCode(
    "child-needs-store",
    InputError,
    "Node {node!r} uses child threads, and its run has no thread in a store that keeps mail.",
    known="a child thread is kept in the store of its parent, and tells it by mail that it has ended",
    fix="Run the graph by a Runtime with a store that comes with graphrt: Runtime(graph, store=...).run(input, thread=...).",
    boundary=True,
)
NOT_A_CHILD = ErrorCode(
    "not-a-child",
    InputError,
    "Thread {child!r} has not ended, and is not a child of {thread!r}, which would not be notified of its end.",
    known="ctx.wait() waits for what ctx.start() of the same thread has started",
    fix="Start it in this thread. In a fork, start a child of its own.",
    boundary=True,
)
WAITS_FOR_THREAD = ErrorCode(
    "waits-for-thread",
    InputError,
    "Interrupt {interrupt} waits for the child thread {payload}, and takes no answer.",
    known="asked by {asker!r} with ctx.wait()",
    fix="Let a Worker drive the child. retry({thread!r}) looks at it again, and cancel({thread!r}) ends both.",
)
