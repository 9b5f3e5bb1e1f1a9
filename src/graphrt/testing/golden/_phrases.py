"""Events in words, for the explanation of a difference."""

from __future__ import annotations

from typing import Any, Final

_TASKS: Final = {
    "task-succeeded": "{node} succeeded",
    "task-failed": "{node} failed with {error}: {message}",
    "task-retried": "{node} was retried after {error}: {message}",
    "interrupt-raised": "{node} asked a question",
    "effect-started": "{node} started the effect {key!r}",
    "effect-recorded": "{node} recorded the effect {key!r}",
    "outcome-dropped": "an outcome of {node} was dropped",
}
_RUNS: Final = {
    "run-started": "the run started",
    "run-resumed": "the run was continued",
    "run-interrupted": "the run paused",
    "run-completed": "the run completed",
    "run-failed": "the run failed with {error}: {message}",
    "run-cancelled": "the run was cancelled",
    "superstep-committed": "superstep {superstep} ended",
    "tasks-routed": "{next} became due",
    "node-fatigued": "{node} had too many visits",
}


def place(superstep: int, event: dict[str, Any]) -> str:
    """Return where *event* is: its superstep, task and kind."""
    kind: str = event["event"]
    if "task" in event:
        return f"superstep {superstep}, {kind} of {_node(event)} (task {event['task']})"
    inside = f" of the nested graph of {event['path']}" if "path" in event else ""
    return f"superstep {superstep}, {kind}{inside}"


def happened(event: dict[str, Any]) -> str:
    """Return what *event* says, in a few words."""
    kind: str = event["event"]
    if "task" in event:
        words = _TASKS.get(kind, f"{kind} of {{node}}")
        return _filled(words, {**event, "node": _node(event)}) + f" (task {event['task']})"
    inside = f" (in {event['path']})" if "path" in event else ""
    about = f" ({event['id']})" if "id" in event else ""
    return _filled(_RUNS.get(kind, kind), event) + about + inside


def _filled(words: str, event: dict[str, Any]) -> str:
    # A file that was edited by hand may lack any of them.
    return words.format_map(_Known(event))


class _Known(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return "?"


def _node(event: dict[str, Any]) -> str:
    return repr(str(event["task"]).rpartition("/")[2].partition(":")[2])
