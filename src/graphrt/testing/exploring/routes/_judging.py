"""Finds the problems of one walk. `_loops` finds loops that span several walks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from graphrt.errors import (
    AgentLimitError,
    BudgetExceededError,
    ConcurrentUpdateError,
    DeadlineError,
    GraphrtError,
    NodeFatigueError,
    RouteError,
    StarvedJoinError,
    StepLimitError,
    UpdateError,
    describe_error,
)
from graphrt.errors._codes.explorations import IMPOSSIBLE_ALTERNATIVE, IMPOSSIBLE_REPLIES
from graphrt.testing.exploring.routes._walk import Plan, Walk
from graphrt.testing.exploring.search import Bug, is_missing_reply, root

_KINDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (StarvedJoinError, "starved-join"),
    (ConcurrentUpdateError, "write-conflict"),
    (StepLimitError, "endless-loop"),
    (NodeFatigueError, "endless-loop"),
    (BudgetExceededError, "over-budget"),
    (DeadlineError, "over-deadline"),
    (AgentLimitError, "agent-limit"),
    (UpdateError, "bad-update"),
    (RouteError, "wrong-route"),
)
_CLOSE: Final = 0.75
"""Similarity of two labels above which one counts as a misspelling of the other."""


def bugs(walk: Walk, plan: Plan) -> Iterator[Bug]:
    """Yield the problems of *walk* alone."""
    if walk.error is not None:
        yield _of_error(walk.error, plan)
    yield from walk.broken
    yield from _unanswered(walk)
    if walk.ended == "bound" and len(walk.marks) >= plan.depth and not externally(walk):
        nodes = " -> ".join(_loop(walk))
        text = (
            f"The run has not ended after {len(walk.marks)} supersteps, and nobody was asked in the last half: {nodes}."
        )
        yield "endless-loop", " ".join(sorted(set(_loop(walk)))), text


def externally(walk: Walk) -> bool:
    """Return whether *walk* is driven by a person or a free label, that is, whether its second half has one."""
    return any(mark.external for mark in walk.marks[len(walk.marks) // 2 :])


def _loop(walk: Walk) -> list[str]:
    """Return the nodes that repeat at the end of *walk*, or its last ones if none do."""
    visited = [name for mark in walk.marks for name in mark.nodes]
    for size in range(1, len(visited) // 2 + 1):
        if visited[-size:] == visited[-2 * size : -size]:
            return visited[-size:]
    return visited[-8:]


def _unanswered(walk: Walk) -> Iterator[Bug]:
    if walk.ended == "unanswered":
        text = next(text for text, tried in reversed(walk.questions.values()) if not tried)
        yield "unanswerable-interrupt", text, f"{text}, and no declared answer is left for it."


def refused(questions: Mapping[str, tuple[str, Mapping[int, bool]]]) -> Iterator[tuple[str, Bug]]:
    """Yield the questions that refuse all declared answers, with their sites."""
    for site, (text, tried) in questions.items():
        of = int(site.rpartition("#")[2])
        if tried and len(tried) == of and not any(tried.values()):
            yield site, ("unanswerable-interrupt", text, f"{text}, and each of the {of} declared answers is refused.")


def _of_error(error: Exception, plan: Plan) -> Bug:
    cause = root(error)
    if is_missing_reply(cause):
        raise IMPOSSIBLE_REPLIES(error=cause) from error
    kind = next((kind for cls, kind in _KINDS if isinstance(error, cls) or isinstance(cause, cls)), "node-error")
    node = getattr(error, "node", None)
    _refuse_impossible(kind, node, error, plan)
    message = str(error).splitlines()[0]
    fields = plan.graph.topology()["state"]
    if isinstance(cause, KeyError) and cause.args and cause.args[0] in fields:
        kind, message = "unset-field", f"Field {cause.args[0]!r} is read and was never set: {message}"
    code = error.code if isinstance(error, GraphrtError) else ""
    return kind, f"{node or ''} {code} {type(cause).__name__}".strip(), message


def _refuse_impossible(kind: str, node: Any, error: Exception, plan: Plan) -> None:
    """Raise errors caused by an alternative: a value that the state refuses, or an undeclared target."""
    if kind not in {"bad-update", "wrong-route"}:
        return
    chosen = (
        choice for choice in reversed(plan.chooser.made) if choice.kind == "node" and choice.name.split("/")[-1] == node
    )
    last = next(chosen, None)
    if last is not None and not callable(last.value) and getattr(error, "code", "") != "route-failed":
        routed = kind == "wrong-route" and getattr(error, "code", "") not in {"unknown-target", "undeclared-goto"}
        if not routed:
            raise IMPOSSIBLE_ALTERNATIVE(key=last.name, problem=f"{last.said}. {describe_error(error)}") from error


def slip(label: Any, labels: list[str], nodes: tuple[str, ...], target: str) -> str | None:
    """Return the probable meaning of *label*, which only the default route takes; None if nothing is close."""
    if not isinstance(label, str) or not label:
        return None
    folded = {_folded(known): known for known in labels}
    if _folded(label) in folded:
        return f"label {folded[_folded(label)]!r}"
    if label in nodes and label != target:
        return f"node {label!r}"
    close = get_close_matches(_folded(label), folded, n=1, cutoff=_CLOSE)
    return f"label {folded[close[0]]!r}" if close else None


def _folded(label: str) -> str:
    return "".join(letter for letter in label.casefold() if letter.isalnum())
