"""Errors of runs that reached a limit."""

from __future__ import annotations

from graphrt.errors import DeadlineError, LimitError, NodeFatigueError, StarvedJoinError, StepLimitError
from graphrt.errors._error_code import ErrorCode

STARVED_JOIN = ErrorCode(
    "starved-join",
    StarvedJoinError,
    "Nothing is due any more, and {waiting}.",
    known="arrived: {arrived:names}; needed: {need}",
    fix="Route to every source of the join, or give it starved='run', starved='ignore' or when='any'.",
    carries=("join", "node", "nodes"),
)

STEP_LIMIT = ErrorCode(
    "step-limit",
    StepLimitError,
    "The run made {steps:count superstep}, and more work remains: {due}.",
    known="max_steps={limit}",
    fix="If the loop is meant to run longer, raise Limits(max_steps=...); otherwise correct its way out.",
    carries=("nodes", "state"),
)

TASK_LIMIT = ErrorCode(
    "task-limit",
    LimitError,
    "{number:count task} {number:is|are} due in one superstep: {due}.",
    known="max_tasks={limit}",
    fix="Send fewer tasks at once, or raise Limits(max_tasks=...).",
    carries=("nodes", "state"),
)

NODE_FATIGUE = ErrorCode(
    "node-fatigue",
    NodeFatigueError,
    "Node {node!r} is due again after {visits:count visit} in this run.",
    known="max_visits={limit}",
    fix="Correct the loop, raise max_visits, or give the node an on_fatigue= route.",
    carries=("nodes", "state"),
)

DEPTH_LIMIT = ErrorCode(
    "depth-limit",
    LimitError,
    "Node {node!r} nests graph {nested!r} {depth:count level} deep.",
    known="max_depth={limit}",
    fix="Raise Limits(max_depth=...) if the nesting is meant.",
)

DEADLINE = ErrorCode(
    "deadline",
    DeadlineError,
    "The run took longer than {limit:g} s; open: {open_nodes}.",
    known="deadline_s={limit:g}, {steps:count superstep} made",
    fix="Raise Limits(deadline_s=...), or give slow nodes a timeout_s.{then_retry}",
    carries=("nodes", "state"),
)
