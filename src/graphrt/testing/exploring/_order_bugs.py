"""The bugs that a run reveals, alone or compared with a run in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, get_type_hints

from graphrt._arguments import is_mapping
from graphrt.testing.exploring._scheduled_run import Scheduled
from graphrt.testing.exploring._user_functions import FunctionError, NoAnswerError
from graphrt.testing.exploring._values import differs, fields_of
from graphrt.testing.exploring._virtual_loop import HangError
from graphrt.testing.exploring.search import Bug


def by_itself(run: Scheduled) -> list[Bug]:
    """Return the bugs that do not depend on the order: an endless run, and mutated state, input or arguments."""
    bugs: list[Bug] = []
    if isinstance(run.error, FunctionError | NoAnswerError):
        bugs.append(("function-failed", "function", str(run.error)))
    if isinstance(run.error, HangError):
        bugs.append(("hangs", run.error.node, _sentence(str(run.error))))
    bugs += [
        ("mutated-state", node, f"Node {node!r} changed field {name!r} of the state in place.")
        for node, name in run.mutated
    ]
    if getattr(run.error, "code", None) == "mutated-state" and not run.mutated:
        node = getattr(run.error, "node", None)
        bugs.append(("mutated-state", str(node), str(run.error).splitlines()[0]))
    if run.input_changed:
        bugs.append(("mutated-input", "input", "The run changed its input in place."))
    return [*bugs, *_mutating_reducers(run)]


def compared(first: Scheduled, other: Scheduled, *, same_order: bool) -> list[Bug]:
    """Return the differences between two runs. If both had the same order, the order is not the cause."""
    before, after = first.outcome, other.outcome
    names = [name for name in {**before, **after} if differs(before.get(name), after.get(name))]
    nodes = _changed_nodes(first, other)
    writers = f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(repr, nodes))}" if nodes else "a reducer or a router"
    if isinstance(other.error, HangError):
        if isinstance(first.error, HangError):
            return []
        return [("hangs-in-some-order", other.error.node, f"{_sentence(str(other.error))[:-1]}, in this order only.")]
    if same_order:
        if not names and not nodes:
            return []
        seen = [f"node {node!r} {action}" for node, action in first.noted if node in nodes]
        why = "; ".join(seen) or "reads a clock, draws a number or keeps values between runs"
        text = f"Two runs in the same order differ: {why if seen else f'{writers} {why}'}."
        return [("not-deterministic", ", ".join(nodes), text)]
    if first.error is None and other.error is not None:
        node = getattr(other.error, "node", None)
        message = str(other.error).splitlines()[0]
        return [("fails-in-some-order", str(node), f"Node {node!r} fails in this order only: {message}")]
    reached = [name for name, by in first.shared if set(by) & set(nodes)]
    shared = f" and can reach {', '.join(map(repr, reached))} outside the state, which changed" if reached else ""
    return [
        (
            "order-dependent-result",
            name,
            (
                f"{name[0].upper()}{name[1:]} depends on the order; {writers} wrote something else{shared}.\n"
                f"in task order {before.get(name)!r}, here {after.get(name)!r}"
            ),
        )
        for name in names
    ]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _changed_nodes(first: Scheduled, other: Scheduled) -> list[str]:
    """Return the nodes of the earliest superstep in which a task wrote something different."""
    before, after = ({step.task_id: step for step in run.steps} for run in (first, other))  # the last execution counts
    changed: dict[str, None] = {}
    at: int | None = None
    for step in sorted(after.values(), key=lambda step: step.superstep):
        known = before.get(step.task_id)
        if known is not None and differs(known.update, step.update) and at in (None, step.superstep):
            at = step.superstep
            changed[step.node] = None
    return list(changed)


def _mutating_reducers(run: Scheduled) -> Iterator[Bug]:
    for step in run.steps:
        before: Any = step.before
        if not is_mapping(step.update) or before is None:
            continue
        written: Mapping[str, Any] = step.update
        reducers = _reducers(before.__class__)
        for name in written.keys() & reducers.keys():
            current = deepcopy(fields_of(before).get(name))
            incoming = deepcopy(written[name])
            arguments = deepcopy((current, incoming))
            try:
                reducers[name](current, incoming)
            except Exception:  # noqa: BLE001, S112 - the run itself reports a reducer that fails
                continue
            if differs(current, arguments[0]) or differs(incoming, arguments[1]):
                yield "mutating-reducer", name, f"The reducer of field {name!r} changes its arguments in place."


def _reducers(state: type) -> dict[str, Any]:
    """Return the user's reducers; graphrt's own are tested elsewhere."""
    try:
        hints = get_type_hints(state, include_extras=True)
    except (NameError, TypeError):
        return {}
    return {
        name: mark
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if callable(mark) and not isinstance(mark, type) and not str(mark.__module__).startswith("graphrt.")
    }
