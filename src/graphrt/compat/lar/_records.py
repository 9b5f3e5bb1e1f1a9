"""Records: a step of a run as the dictionary that Lár's documents show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphrt.compat.lar._functions import told
from graphrt.compat.lar._nodes import BaseNode, LLMNode
from graphrt.compat.lar._state import BUDGET, compute_state_diff, copied
from graphrt.errors import GraphrtError, NodeError, NodeFatigueError, StepLimitError
from graphrt.events import Usage
from graphrt.runtime import Step

ERROR, MAX_STEPS, SUCCESS = "error", "max_steps_reached", "success"
INTERRUPTED, CANCELLED = "interrupted", "cancelled"
_OF_METADATA: Final = ("model", "reasoning_content", "finish_reason")
"""Keys of a note that stand in `run_metadata`."""


def visible(state: Any) -> dict[str, Any]:
    """Return the state of a graph as the program's keys and values."""
    budget = state.get(BUDGET)
    return dict(state["values"]) if budget is None else {**state["values"], BUDGET: budget}


def record_of(step: Step[Any], number: int, objects: Mapping[str, BaseNode]) -> dict[str, Any]:
    """Return the record of a finished step.

    Args:
        step: The step.
        number: Its number in the run, from 0.
        objects: Names of nodes to their objects.
    """
    before, after = visible(step.before), visible(step.after)
    note: dict[str, Any] = {**((step.update or {}).get("note") or {})}
    error = note.pop("error", None)
    kind = note.pop("error_type", None)
    if step.error is not None:
        error, kind = told(step.error), type(_innermost(step.error)).__name__
    outcome = ERROR if error is not None else step.outcome
    node = objects[step.node]
    metadata = _metadata(step.usage, note, failed=error is not None)
    if step.usage is not None and isinstance(node, LLMNode):
        metadata.setdefault("model", node.model_name)
    record = _record(number, step.node, node, before, after, metadata, outcome)
    if error is not None:
        record["error"] = error
        record["error_type"] = kind
    return {**record, **note}


def record_of_limit(
    error: GraphrtError, number: int, state: Mapping[str, Any], objects: Mapping[str, BaseNode]
) -> dict[str, Any]:
    """Return the record of a run that a limit, or a failure outside of any node, has ended.

    Args:
        error: What ended the run.
        number: The number of the step that was not made.
        state: The state at the end.
        objects: Names of nodes to their objects.
    """
    due = error.node or next(iter(error.nodes or ()), None)
    node = objects.get(due) if due is not None else None
    record = _record(number, due or "", node, state, state, {}, outcome_of(error))
    text = told(error)
    record["error"] = f"FATIGUE: {text}" if isinstance(error, NodeFatigueError) else text
    record["error_type"] = type(error).__name__
    return record


def outcome_of(error: GraphrtError) -> str:
    """Return the outcome of a run that *error* has ended."""
    return MAX_STEPS if isinstance(error, StepLimitError) else ERROR


def _record(
    number: int,
    name: str,
    node: BaseNode | None,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    metadata: dict[str, Any],
    outcome: str,
) -> dict[str, Any]:
    return {
        "step": number,
        "node": type(node).__name__ if node is not None else name,
        "node_id": name,
        "state_before": copied(before),
        "state_diff": copied(compute_state_diff(before, after)),
        "state_after": copied(after),
        "outcome": outcome,
        "run_metadata": metadata,
    }


def _metadata(usage: Usage | None, note: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    """Return the metadata of a step, whose keys are taken out of *note*. A failure without usage has none."""
    if failed and usage is None:
        return {}
    used = Usage() if usage is None else usage
    metadata: dict[str, Any] = {
        "prompt_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
    }
    if used.cost_usd is not None:
        metadata["cost_usd"] = used.cost_usd
    return metadata | {key: note.pop(key) for key in _OF_METADATA if key in note}


def _innermost(error: BaseException) -> BaseException:
    while type(error) is NodeError and error.__cause__ is not None:
        error = error.__cause__
    return error
