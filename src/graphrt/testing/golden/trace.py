"""`golden_trace`: a run as text with one event per line, and the parser of this text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.recorded_runs import BAD_GOLDEN_TRACE
from graphrt.events import Entry, RunStarted
from graphrt.harness.request import ModelRequest
from graphrt.testing.golden._events import supersteps
from graphrt.testing.golden._requests import folded, in_any_order, in_fixed_order, requests_by_agent, unfolded
from graphrt.testing.recording import RecordedRun

FORMAT: Final = "graphrt golden trace"
VERSION: Final = 1
"""Version of the format. Readers refuse other versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The content of a golden trace."""

    graph: str | None
    """Name of the graph; None if the entries do not have it."""
    supersteps: list[tuple[int, list[dict[str, Any]]]]
    """Events by superstep, in order."""
    requests: dict[str, list[dict[str, Any]]]
    """Complete model requests, by agent."""
    any_order: bool
    """Whether the order of the requests is meaningless."""


def golden_trace(
    run: RecordedRun[Any] | Iterable[Entry],
    *,
    requests: Iterable[ModelRequest] | Mapping[str, Iterable[ModelRequest]] | None = None,
) -> str:
    """Return the events of *run* as JSON text with one event per line, the same for equal runs.

    Ids of threads and runs, times, seeds and fingerprints are left out. Texts of more than 2,000 characters, and lists
    and mappings of more than 20,000, are kept as their beginning with their length and a digest.

    Args:
        run: The result of `record`, or journal entries.
        requests: The model requests of the run, such as the `calls` of a `ScriptedModel`; or a mapping from names of
            agents to requests. If parallel tasks may have made them, they are sorted by their contents. Values of their
            `options` are left out.

    Raises:
        InputError: *run* has no entries, or *requests* has items that are not model requests.
    """
    entries = entries_of(run)
    asked = requests_by_agent(requests)
    any_order = in_any_order(entries, sum(map(len, asked.values())))
    if any_order:
        asked = {agent: in_fixed_order(calls) for agent, calls in asked.items()}
    graph = next((entry.event.graph for entry in entries if isinstance(entry.event, RunStarted)), None)
    return _written(Trace(graph=graph, supersteps=supersteps(entries), requests=asked, any_order=any_order))


def entries_of(run: Any) -> list[Entry]:
    """Return the entries of a recorded run, or the given entries.

    Raises:
        InputError: There are none, or they are of another type.
    """
    unchecked: Any = run.entries if run.__class__ is RecordedRun else run
    entries: list[Any] = list(unchecked) if hasattr(unchecked, "__iter__") else [unchecked]
    if not entries:
        raise INVALID_ARGUMENT(
            argument="The run of a golden trace",
            value=unchecked,
            wanted="a recorded run that has entries: run = record(graph, input)",
        )
    if not all(isinstance(entry, Entry) for entry in entries):
        raise INVALID_ARGUMENT(
            argument="The run of a golden trace", value=run, wanted="a recorded run: run = record(graph, input)"
        )
    return entries


# -- to text -----------------------------------------------------------------------------------------------------


def _written(trace: Trace) -> str:
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "graph": trace.graph}
    if trace.any_order and trace.requests:
        head["requests_in_any_order"] = True
    groups = [_block(f'  {{"superstep": {number}, "events": [', events, "  ]}") for number, events in trace.supersteps]
    parts = [f"{_line(name)}: {_line(item)}" for name, item in head.items()]
    parts.append('"trace": [\n' + ",\n".join(groups) + "\n]")
    if trace.requests:
        agents = [_agent(agent, calls) for agent, calls in trace.requests.items()]
        parts.append('"requests": {\n' + ",\n".join(agents) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _agent(agent: str, calls: list[dict[str, Any]]) -> str:
    blocks: list[str] = []
    for line in folded(calls):
        head = _line({name: item for name, item in line.items() if name != "messages"})
        blocks.append(_block(f'    {head[:-1]}, "messages": [', line["messages"], "    ]}", indent=6))
    return f"  {_line(agent)}: [\n" + ",\n".join(blocks) + "\n  ]" if blocks else f"  {_line(agent)}: []"


def _block(start: str, items: list[Any], end: str, *, indent: int = 4) -> str:
    lines = ",\n".join(" " * indent + _line(item) for item in items)
    return f"{start}\n{lines}\n{end}"


def _line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


# -- from text ---------------------------------------------------------------------------------------------------


def read_trace(text: str) -> Trace:
    """Parse a golden trace.

    Raises:
        InputError: *text* is not a golden trace, or one of another version (`bad-golden-trace`).
    """
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        conflict = any(line.startswith(("<<<<<<<", ">>>>>>>")) for line in text.splitlines())
        why = "it has the marks of a merge conflict" if conflict else f"it is not valid JSON: {error}"
        raise BAD_GOLDEN_TRACE(why=why) from None
    except RecursionError:
        raise BAD_GOLDEN_TRACE(why="it is nested too deeply") from None
    if data.__class__ is not dict or data.get("format") != FORMAT:
        raise BAD_GOLDEN_TRACE(why=f'it does not have "format": "{FORMAT}"')
    if data.get("version") != VERSION:
        raise BAD_GOLDEN_TRACE(
            why=f"its version is {data.get('version')!r}, and this version of graphrt reads version {VERSION}"
        )
    asked: Any = data.get("requests", {})
    if asked.__class__ is not dict:
        raise BAD_GOLDEN_TRACE(why="requests is not a mapping")
    return Trace(
        graph=data.get("graph"),
        supersteps=[_group(group, f"trace[{at}]") for at, group in enumerate(_list(data.get("trace"), "trace"))],
        requests={agent: _calls(calls, f"requests.{agent}") for agent, calls in asked.items()},
        any_order=data.get("requests_in_any_order") is True,
    )


def _group(group: Any, place: str) -> tuple[int, list[dict[str, Any]]]:
    if group.__class__ is not dict or group.get("superstep").__class__ is not int:
        raise BAD_GOLDEN_TRACE(why=f'{place} is not a mapping with a "superstep"')
    events = _list(group.get("events"), f"{place}.events")
    for at, event in enumerate(events):
        if event.__class__ is not dict or event.get("event").__class__ is not str:
            raise BAD_GOLDEN_TRACE(why=f'{place}.events[{at}] is not a mapping with an "event"')
    return group["superstep"], events


def _calls(calls: Any, place: str) -> list[dict[str, Any]]:
    for at, line in enumerate(_list(calls, place)):
        if line.__class__ is not dict:
            raise BAD_GOLDEN_TRACE(why=f"{place}[{at}] is not a mapping")
        for number, message in enumerate(_list(line.get("messages"), f"{place}[{at}].messages")):
            if message.__class__ is not dict:
                raise BAD_GOLDEN_TRACE(why=f"{place}[{at}].messages[{number}] is not a mapping")
    try:
        return unfolded(calls)
    except ValueError as error:
        raise BAD_GOLDEN_TRACE(why=f"a line of {place} {error}") from None


def _list(value: Any, place: str) -> list[Any]:
    if value.__class__ is not list:
        raise BAD_GOLDEN_TRACE(why=f"{place} is not a list")
    items: list[Any] = value
    return items
