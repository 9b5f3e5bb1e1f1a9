"""Model requests as data, without parts that the provider never sees or that may be secret."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events import Entry, InterruptRaised, TaskFailed, TaskRetried, TaskSucceeded
from graphrt.harness.messages import ToolCall
from graphrt.harness.request import ModelRequest
from graphrt.testing.golden._values import as_json, compact, is_equal, plain

UNNAMED: Final = "model"
"""Name of the agent for requests that are given without a name."""
_WITH_CALLS: Final = (TaskSucceeded, TaskFailed, TaskRetried, InterruptRaised)


def requests_by_agent(requests: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the requests of each agent as data. *requests* is a list of requests, or a mapping of lists.

    Raises:
        InputError: *requests* is something else.
    """
    if requests is None:
        return {}
    lists: dict[Any, Any] = dict(requests) if issubclass(requests.__class__, Mapping) else {UNNAMED: requests}
    return {str(agent): [_shown(request) for request in _checked(calls)] for agent, calls in lists.items()}


def _checked(calls: Any) -> list[ModelRequest]:
    requests: list[Any] = list(calls) if hasattr(calls, "__iter__") else [calls]
    for request in requests:
        if not isinstance(request, ModelRequest):
            raise INVALID_ARGUMENT(
                argument="A model request in requests=",
                value=request,
                wanted="the calls of a double: requests=model.calls; or a mapping from names of agents to such lists",
            )
    return requests


def _shown(request: ModelRequest) -> dict[str, Any]:
    values = compact(request)
    # Values of `options` may be credentials; `timeout_s` is not sent to the model.
    values.pop("timeout_s", None)
    if "options" in values:
        values["options"] = sorted(values["options"])
    messages = [_message(message) for message in values.pop("messages")]
    return {**{name: plain(item) for name, item in values.items()}, "messages": messages}


def _message(message: Any) -> dict[str, Any]:
    values = compact(message)
    values.pop("id", None)  # providers never see it
    if "tool_calls" in values:
        values["tool_calls"] = [_call(call) for call in values["tool_calls"]]
    return {name: plain(item) for name, item in values.items()}


def _call(call: ToolCall) -> dict[str, Any]:
    values = compact(call)
    if call.error is None:
        values.pop("arguments_text", None)  # the same as `arguments`
    return values


def in_any_order(entries: Sequence[Entry], count: int) -> bool:
    """Return whether parallel tasks may have made the *count* requests of a run, so that their order is meaningless."""
    calls: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for entry in entries:
        event = entry.event
        if isinstance(event, _WITH_CALLS):
            superstep = event.task.removeprefix(f"{entry.path}/").partition(".")[0]
            tasks = calls[entry.path, superstep]
            tasks[event.task] = max(tasks.get(event.task, 0), event.usage.calls if event.usage else 0)
    if any(sum(number > 0 for number in tasks.values()) > 1 for tasks in calls.values()):
        return True
    # A call that no task counted may be from any of them.
    counted = sum(sum(tasks.values()) for (path, _), tasks in calls.items() if not path)
    return counted < count and any(len(tasks) > 1 for tasks in calls.values())


def in_fixed_order(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort *requests* by their contents, keeping the rounds of a conversation in order."""
    return sorted(
        requests, key=lambda request: ([as_json(message) for message in request["messages"]], as_json(request))
    )


def folded(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *requests* in the form of the file: a round of a conversation has only what it adds to the last one."""
    lines: list[dict[str, Any]] = []
    for at, request in enumerate(requests):
        messages = request["messages"]
        number = next((n for n in range(at, 0, -1) if _begins(messages, requests[n - 1]["messages"])), None)
        head: dict[str, Any] = {"request": at + 1}
        if number is None:
            lines.append({**head, **request})
            continue
        before = requests[number - 1]
        changed = {
            name: request.get(name)
            for name in {**before, **request}
            if name != "messages" and not is_equal(request.get(name), before.get(name))
        }
        rest = messages[len(before["messages"]) :]
        lines.append({**head, "continues": number, **changed, "messages": rest})
    return lines


def unfolded(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the complete requests from *lines*, the result of `folded`.

    Raises:
        ValueError: A line continues a request that is not before it.
    """
    requests: list[dict[str, Any]] = []
    for line in lines:
        values = {name: item for name, item in line.items() if name not in ("request", "continues")}
        number = line.get("continues")
        if number is not None:
            if type(number) is not int or not 1 <= number <= len(requests):
                raise ValueError(f"continues request {number!r}, which is not before it")
            before = requests[number - 1]
            continued = {**before, **values, "messages": [*before["messages"], *values["messages"]]}
            values = {name: item for name, item in continued.items() if item is not None}
        requests.append(values)
    return requests


def _begins(messages: list[Any], before: list[Any]) -> bool:
    return 0 < len(before) < len(messages) and is_equal(messages[: len(before)], before)
