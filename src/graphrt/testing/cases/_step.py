"""The superstep of a thread that a case is about, and the journal's record of its effects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from graphrt._arguments import is_list, is_mapping
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS
from graphrt.events import (
    EffectRecorded,
    Entry,
    InterruptAnswered,
    InterruptRaised,
    ModelReplied,
    RunFailed,
    RunStarted,
    SuperstepCommitted,
    TaskFailed,
    TasksRouted,
    TaskSucceeded,
    ThreadForked,
    ThreadMigrated,
    ThreadUpdated,
)
from graphrt.runtime import Runtime
from graphrt.testing.cases.replaying import ReplayedStep, step_in

_BEGINS: Final = (RunStarted, SuperstepCommitted, TasksRouted, ThreadUpdated, ThreadForked, ThreadMigrated)
"""Events of the top-level graph after which the next superstep begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A superstep as recorded in the journal."""

    at: int
    """The entry before it."""
    time: float
    """Time for the clock of the test, in seconds since the epoch: the one that the nodes wrote, or else the end."""
    run: str
    """Id of its run."""
    nodes: Sequence[str]
    """Nodes that were due, each once."""
    step: ReplayedStep
    """Its effects."""
    error: str | None
    """The error of the run in it, as `NodeError: text`; None if it did not fail."""
    replies: Sequence[tuple[str, str, Any]]
    """Records of its tasks: (task, kind, value)."""


def recorded(runtime: Runtime[Any, Any], thread: str, at: int | None) -> Recorded:
    """Return the superstep that follows the entry *at* of *thread*; the last one if *at* is None.

    Raises:
        InputError: No superstep follows.
    """
    if at is not None and at.__class__ is not int:
        raise _nothing_after(at, thread, "entries have numbers")
    entries = list(runtime.entries(thread))
    begins = [entry.seq for entry in entries if not entry.path and isinstance(entry.event, _BEGINS)]
    first = entries[0].seq - 1 if entries else 0
    if first:
        begins.insert(0, first)  # older entries were pruned, but the state before the first remaining one was kept
    steps = {seq: part for seq, part in _parts(entries, begins) if _did_something(part)}
    if not steps:
        raise _nothing_after(0, thread, "no superstep has ended yet: run the thread first")
    before = max(steps) if at is None else max((seq for seq in begins if seq <= at), default=None)
    if before not in steps:
        last = ", ".join(map(str, list(steps)[-12:]))
        more = "..., " if len(steps) > 12 else ""
        raise _nothing_after(at, thread, f"supersteps follow the entries {more}{last}")
    part = steps[before]
    ended = isinstance(part[-1].event, SuperstepCommitted)
    questions = () if ended else [question.payload for question in runtime.state(thread).interrupts]
    failed = [entry.event for entry in part if not entry.path and isinstance(entry.event, RunFailed)]
    step = step_in(part, questions)
    began = next((entry.at for entry in reversed(part) if isinstance(entry.event, InterruptAnswered)), None)
    if began is None:
        began = next((entry.at for entry in reversed(entries) if entry.seq <= before), part[0].at)
    return Recorded(
        at=before,
        time=_time(step, began, part[-1].at),
        run=part[-1].run,
        nodes=list(dict.fromkeys(runtime.state(thread, at=before).next)),
        step=step,
        error=f"{failed[-1].error}: {failed[-1].message}" if failed and not ended else None,
        replies=list(_replies(part)),
    )


def _nothing_after(seq: Any, thread: str, known: str) -> InputError:
    return ARGUMENT_OUT_OF_BOUNDS(
        problem=f"No superstep follows entry {seq} of thread {thread!r}",
        wanted="the seq of a snapshot of history(thread), after which the step ran",
        known=known,
    )


def _time(step: ReplayedStep, began: float, ended: float) -> float:
    """Return the time for the clock of the test.

    The journal does not have what `ctx.now()` returned (R13). If the nodes wrote exactly one time between *began* and
    *ended*, it is that time, which they probably read; else it is *ended*.
    """
    written = {
        time for task in step.values() for update in task.updates for time in _times(update) if began <= time <= ended
    }
    return written.pop() if len(written) == 1 else ended


def _times(data: Any) -> Iterator[float]:
    """Yield the possible times in *data*, in seconds since the epoch: floats, and texts in the form of ISO 8601."""
    if data.__class__ is float:
        yield data
    elif data.__class__ is str:
        with suppress(ValueError, OverflowError, OSError):
            yield datetime.fromisoformat(data).timestamp()
    elif is_mapping(data) or is_list(data):
        for item in data.values() if is_mapping(data) else data:
            yield from _times(item)


def _parts(entries: list[Entry], begins: list[int]) -> list[tuple[int, list[Entry]]]:
    """Return each entry that a superstep may follow, with the entries up to the next such entry or the commit."""
    ends = [*begins[1:], entries[-1].seq if entries else 0]
    spans = zip(begins, ends, strict=True)
    return [(at, [entry for entry in entries if at < entry.seq <= until]) for at, until in spans]


def _did_something(part: list[Entry]) -> bool:
    events = [entry.event for entry in part if not entry.path]
    return any(
        isinstance(event, TaskSucceeded | TaskFailed | RunFailed)
        or (isinstance(event, InterruptRaised) and event.kind != "after")
        for event in events
    )


def _replies(part: list[Entry]) -> Any:
    """Yield the values that a task received: model replies, tool results, results of effects, answers."""
    for event in (entry.event for entry in part):
        if isinstance(event, EffectRecorded):
            yield event.task, *_what(event)
        elif isinstance(event, ModelReplied):
            yield event.task, "model", _said(event.reply)
        elif isinstance(event, InterruptAnswered):
            yield event.id.partition("/")[2].partition("#")[0], "answer", event.answer


def _said(reply: Mapping[str, Any]) -> str:
    """Return the text of a model's reply, or the names of the tools that it calls."""
    calls: Sequence[Mapping[str, Any]] = reply.get("tool_calls", ())
    text = "".join(part.get("text", "") for part in reply["parts"])
    return text or f"calls {', '.join(str(call.get('name')) for call in calls)}"


def _what(effect: EffectRecorded) -> tuple[str, Any]:
    """Return the kind of an effect, and its result."""
    kind, _, rest = effect.key.partition("/")
    result: Any = effect.result
    if kind == "tool" and issubclass(type(result), Mapping) and "text" in result:
        return f"tool {rest.partition('/')[0]}", result["text"]
    return f"effect {effect.key.rpartition('#')[0]}", result
