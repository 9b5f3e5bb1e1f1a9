"""`golden_divergence`: the first difference between two golden traces, explained for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import Any, Final, TypeAlias

from graphrt.testing.golden._differences import Difference, first_difference, shown
from graphrt.testing.golden._values import as_json, is_equal
from graphrt.testing.golden.trace import Trace, read_trace

_FOLLOWING: Final = 2
"""Number of events shown after a missing or extra event."""
_TEXT: Final = 80
_HINT: Final = "the model was asked something else: with requests=model.calls, the golden trace shows what"
_Event: TypeAlias = tuple[int, dict[str, Any]]
"""An event, and the number of its superstep."""


def golden_divergence(expected: str, actual: str) -> str | None:
    """Explain the first difference of the golden trace *actual* from *expected*; None if they are equal.

    Args:
        expected: The stored text; formatting and the order of keys do not matter.
        actual: The text of the current run, from `golden_trace`.

    Raises:
        InputError: One of them is not a golden trace, or is of another version (`bad-golden-trace`).
    """
    before, now = read_trace(expected), read_trace(actual)
    if before.graph != now.graph:
        return f"The golden trace is of graph {before.graph!r}, and the run is of graph {now.graph!r}."
    wanted, actual_events = list(_events(before)), list(_events(now))
    asked = _in_requests(before, now)
    # Usage follows from the requests, so a longer prompt is reported as a changed request.
    event = _in_events(wanted, actual_events, usage=asked is None, hint=not before.requests)
    parts = [part for part in (event, asked) if part is not None]
    return "\n".join(parts) if parts else None


# -- events ------------------------------------------------------------------------------------------------------


def _events(trace: Trace) -> Iterator[_Event]:
    return ((number, event) for number, events in trace.supersteps for event in events)


def _in_events(wanted: list[_Event], actual: list[_Event], *, usage: bool, hint: bool) -> str | None:
    """Explain the first difference in more than usage or, if there is none, the first difference."""
    for alike in (_without_usage, _whole) if usage else (_without_usage,):
        for at in range(max(len(wanted), len(actual))):
            left, right = (side[at] if at < len(side) else None for side in (wanted, actual))
            if left is None or right is None or not is_equal(alike(left), alike(right)):
                return _explained(wanted[at:], actual[at:], alike, _nodes(wanted, actual, at), hint=hint)
    return None


def _nodes(wanted: list[_Event], actual: list[_Event], at: int) -> str:
    """Return the names of the nodes that ran before position *at* in the superstep of that position."""
    number = (wanted if at < len(wanted) else actual)[at][0]
    tasks = dict.fromkeys(event["task"] for n, event in actual[:at] if n == number and "task" in event)
    return ", ".join(dict.fromkeys(str(task).partition("/")[0].partition(":")[2] for task in tasks))


def _whole(item: _Event) -> _Event:
    return item


def _without_usage(item: _Event) -> _Event:
    number, event = item
    rest = {name: value for name, value in event.items() if name != "usage"}
    if event.get("key") == "model" and event.get("result").__class__ is dict:
        rest["result"] = {name: value for name, value in event["result"].items() if name != "usage"}
    return number, rest


def _explained(
    wanted: list[_Event], actual: list[_Event], alike: Callable[[_Event], _Event], nodes: str, *, hint: bool
) -> str:
    if wanted and actual and _identity(wanted[0]) == _identity(actual[0]):
        number, event = alike(wanted[0])
        other = alike(actual[0])[1]
        difference = first_difference(event, other)
        if event["event"] in ("superstep-committed", "tasks-routed") and difference.path.startswith("next"):
            return _routed(number, event, other, nodes)
        text = f"First difference: superstep {number}, {_what(event)}.\n{_indented(difference)}"
        return f"{text}\n    {_HINT}" if hint and difference.path.endswith("usage.input_tokens") else text
    number = min(side[0][0] for side in (wanted, actual) if side)
    return "\n".join(
        [
            f"First difference: superstep {number}.",
            f"  expected  {_next(wanted)}",
            f"  found     {_next(actual)}",
            *_followed("expected", wanted),
            *_followed("found", actual),
        ]
    )


def _identity(item: _Event) -> tuple[Any, ...]:
    number, event = item
    return (number, *(event.get(name) for name in ("event", "task", "path", "id", "key")))


def _routed(number: int, event: dict[str, Any], other: dict[str, Any], nodes: str) -> str:
    where = f"superstep {number}" + (f" ({nodes})" if nodes else "") if number else "START"
    inside = f", inside {event['path']}" if "path" in event else ""
    return f"First difference: what runs after {where}{inside}.\n  expected  {_due(event)}\n  found     {_due(other)}"


def _due(event: dict[str, Any]) -> str:
    return ", ".join(map(str, event.get("next", []))) or "nothing: the graph ends"


def _what(event: dict[str, Any]) -> str:
    """Return the kind of *event* and where it is."""
    kind, task = event["event"], str(event.get("task", ""))
    if task:
        return f"{kind} of {task.rpartition('/')[2].partition(':')[2]!r} (task {task})"
    return f"{kind} of the nested graph of {event['path']}" if "path" in event else kind


def _happened(event: dict[str, Any]) -> str:
    """Return a short description of *event*."""
    about = next((f" ({event[name]})" for name in ("id", "key") if name in event), "")
    return _what(event) + about + (f": {event['error']}: {event.get('message')}" if "error" in event else "")


def _next(side: list[_Event]) -> str:
    return _happened(side[0][1]) if side else "nothing more"


def _followed(name: str, side: list[_Event]) -> Iterator[str]:
    following = side[1 : 1 + _FOLLOWING]
    if following:
        yield f"  {name} then: {'; '.join(_happened(event) for _, event in following)}"


def _indented(difference: Difference) -> str:
    return "\n".join(f"  {line}" for line in difference.lines())


# -- requests ----------------------------------------------------------------------------------------------------


def _in_requests(before: Trace, now: Trace) -> str | None:
    for agent in {**before.requests, **now.requests}:
        if agent not in now.requests:
            return f"The golden trace has model requests of {agent!r}, and the test passes none: see requests=."
        if agent not in before.requests:
            return f"The test passes model requests of {agent!r}, and the golden trace has none."
        wanted, actual = before.requests[agent], now.requests[agent]
        pair = _first_unequal(wanted, actual, any_order=now.any_order)
        if pair is not None:
            return _request(agent, wanted, actual, *pair)
    return None


def _first_unequal(
    wanted: list[dict[str, Any]], actual: list[dict[str, Any]], *, any_order: bool
) -> tuple[int | None, int | None] | None:
    """Return the positions of the first two different requests, None for a missing one; None if all are equal."""
    if not any_order:
        at = next(
            (at for at, (left, right) in enumerate(zip(wanted, actual, strict=False)) if not is_equal(left, right)),
            None,
        )
        if at is None and len(wanted) == len(actual):
            return None
        at = min(len(wanted), len(actual)) if at is None else at
        return at if at < len(wanted) else None, at if at < len(actual) else None
    rest = list(range(len(actual)))
    missing: list[int] = []
    for at, request in enumerate(wanted):
        same = next((place for place in rest if is_equal(actual[place], request)), None)
        if same is None:
            missing.append(at)
        else:
            rest.remove(same)
    if not missing:
        return (None, rest[0]) if rest else None
    # Without an order, compare with the most similar request.
    text = as_json(wanted[missing[0]])
    return missing[0], max(rest, key=lambda place: _likeness(text, as_json(actual[place])), default=None)


def _likeness(left: str, right: str) -> float:
    return SequenceMatcher(None, left[:5_000], right[:5_000], autojunk=False).quick_ratio()


def _request(
    agent: str, wanted: list[dict[str, Any]], actual: list[dict[str, Any]], wanted_at: int | None, actual_at: int | None
) -> str:
    if wanted_at is None and actual_at is not None:
        asked = actual[actual_at]["messages"][-1:]
        return (
            f"Extra model request: request {actual_at + 1} of {agent!r}, which the golden trace does not have.\n"
            f"{_asked(asked)}"
        )
    assert wanted_at is not None  # noqa: S101 - one of the two is given
    if actual_at is None:
        asked = wanted[wanted_at]["messages"][-1:]
        return (
            f"Missing model request: request {wanted_at + 1} of {agent!r}, which the run did not make.\n{_asked(asked)}"
        )
    return (
        f"Model request that differs: request {wanted_at + 1} of {agent!r}.\n"
        f"{_indented(first_difference(wanted[wanted_at], actual[actual_at]))}"
    )


def _asked(messages: list[dict[str, Any]]) -> str:
    return "\n".join(f"  {message.get('role')}: {shown(message.get('text', ''), _TEXT)}" for message in messages)
