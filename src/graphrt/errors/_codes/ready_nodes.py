"""Errors of ready-made nodes: arguments of their factories, parts of results, and batches."""

from __future__ import annotations

from graphrt.errors import LimitError, NodeError, UpdateError
from graphrt.errors._codes.agents import AGENT_LIMIT
from graphrt.errors._error_code import ErrorCode, Finding

MISSING_PART = ErrorCode(
    "missing-part",
    UpdateError,
    "The result of {source} has no {part!r}.",
    known="it is of type {result:type} and has {parts}",
    fix="Correct into=, or let the result have that part.",
)
RESULT_WITHOUT_FIELD = MISSING_PART.variant(
    "{function}() returned a value of type {result:type}, and no field takes it.",
    fix="Name the field, tool(fn, into='result'), or return a mapping of fields.",
)

AGENT_WITHOUT_OUTPUT = AGENT_LIMIT.variant(
    "The agent of node {node!r} was stopped by its limit {limit!r} and has no output.",
    fix="Raise the limit of the agent, or route the error with on_error=.",
)

NO_BATCH_ITEMS = ErrorCode(
    "batch-items",
    NodeError,
    "Batch {name!r} is to run over a value of type {given:type}, which has no items.",
    fix="Pass a list, or a function of the state that makes one.",
)

BATCH_LIMIT = ErrorCode(
    "batch-limit",
    LimitError,
    "Batch {name!r} has more than {limit:count item}.",
    fix="Split the items into several runs, or raise max_items= if so many tasks are meant.",
)

BATCH_QUORUM = ErrorCode(
    "batch-quorum",
    NodeError,
    "Only {succeeded} of {total:count task} of batch {name!r} succeeded, and its quorum is {limit}.",
    known="{failed}",
    fix="Look at error.values, which has each failed item. Route the error with on_error=, or lower the quorum.",
    boundary=True,
)

FORBIDDEN_DESIGN = Finding("forbidden-design", "{problem}.", fix="Design within the limits of the validator.")

DESIGN_REJECTED = ErrorCode(
    "design-rejected",
    NodeError,
    "No valid design was made in {attempts:count attempt}: {reasons}.",
    fix="Read the reasons in error.values. Route the error with on_error=, allow more, or make the prompt more precise.",
    boundary=True,
)
DESIGN_NO_LONGER_VALID = DESIGN_REJECTED.variant(
    "The design that was accepted before is refused now: {reasons}.",
    fix="The validator or the registry has changed since. Allow what the design uses, or let on_error= lead to a node that makes a new design.",
)
