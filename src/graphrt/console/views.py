"""Formats results, threads, histories, journals and usage as lines of segments. It reads and decides nothing.

A function takes values that methods of `Runtime` return, and the number of columns. `Screen.line` shows the
lines, and `renderable` makes them a renderable of rich.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graphrt._display import brief, cost_text, fields_of, safe, unreported_text, usage_text
from graphrt.commands import UNSET
from graphrt.console.amounts import counted, duration, moment
from graphrt.console.screen import Line, Segment, cells, fit, fold
from graphrt.console.tables import Column, table
from graphrt.events import Entry, Usage, event_kind
from graphrt.runtime import Divergence, InterruptInfo, Provenance, RunResult, Snapshot, ThreadInfo

STATUS: Final[Mapping[str, tuple[str, str]]] = {
    "completed": ("✓", "good"),
    "interrupted": ("?", "warn"),
    "failed": ("✗", "bad"),
    "cancelled": ("✗", "warn"),
    "running": ("●", "accent"),
    "new": ("○", "faint"),
}
"""Mark and style of each status of a thread."""
_DETAIL: Final = ("task", "node", "superstep", "next", "wrote", "verb", "key", "id", "reason", "error", "message",
                  "model", "usage", "updates", "result", "answer", "payload", "input", "values", "upto", "source")  # fmt: skip
"""Event fields that a log shows, in this order."""


def status_segment(status: str) -> Segment:
    """Return a status with its mark."""
    mark, style = STATUS.get(status, ("·", ""))
    return f"{mark} {status}", style


def run(result: RunResult[Any], width: int, *, elapsed_s: float | None = None) -> list[Line]:
    """Return the lines of the summary of a run: its end, its usage, its questions and its state."""
    facts = [counted(result.steps, "superstep")]
    facts += [] if elapsed_s is None else [duration(elapsed_s)]
    used = usage_text(result.usage)
    lines: list[Line] = [
        *beside(status_segment(result.status), f"thread {result.thread}" if result.thread is not None else "", width),
        *paragraph(", ".join([*facts, *([used] if used else [])]), width, style="faint"),
    ]
    if result.visited:
        visits = (f"{name} {times}" if times > 1 else name for name, times in result.visited.items())
        lines += paragraph(", ".join(visits), width, style="faint")
    for warning in result.warnings:
        lines += paragraph(f"! {warning}", width, style="warn")
    return [*lines, *questions(result.interrupts, width), [], *state(result.state, width)]


def snapshot(found: Snapshot[Any], width: int) -> list[Line]:
    """Return the lines of a thread as it was after one of its entries."""
    lines: list[Line] = [
        *beside(status_segment(found.status), f"thread {found.thread}", width),
        *paragraph(f"entry {found.seq}, {moment(found.at)}, superstep {found.step}", width, style="faint"),
    ]
    if found.next:
        lines += paragraph(f"next: {', '.join(found.next)}", width)
    if found.progress is not None and found.progress[1] > 1:
        lines += paragraph(f"{found.progress[0]} of {found.progress[1]} tasks done", width)
    if found.error:
        lines += paragraph(found.error, width, style="bad")
    used = usage_text(found.usage)
    lines += paragraph(used, width, style="faint") if used else []
    return [*lines, *questions(found.interrupts, width), [], *state(found.values, width)]


def state(values: Any, width: int) -> list[Line]:
    """Return the lines of a state: a row for each field."""
    fields = fields_of(values)
    fields = {"state": values} if fields is None else fields
    columns = [Column(title="field", least=8), Column(title="value", least=12, wrap=True)]
    return table(columns, [[(name, "name"), brief(value, 4 * width)] for name, value in fields.items()], width)


_WAITS: Final[Mapping[str, str]] = {
    "signal": "waits for the signal",
    "thread": "waits for the child thread",
    "task": "waits for a worker of the queue",
}
"""Maps a kind of question that no person answers to a text about what its node waits for."""


def questions(interrupts: Sequence[InterruptInfo], width: int) -> list[Line]:
    """Return the lines of the open questions of a thread; none if there are none."""
    lines: list[Line] = []
    for interrupt in interrupts:
        stale = "  stale: the state was edited since" if interrupt.stale else ""
        if interrupt.kind == "timer":
            lines += [
                [],
                [(fit(f"{interrupt.node} sleeps until {moment(interrupt.expires_at or 0.0)}", width).rstrip(), "warn")],
            ]
            lines += paragraph(interrupt.id, width, style="faint")
            continue
        waits = _WAITS.get(interrupt.kind)
        asks = f"asks ({interrupt.kind})" if waits is None else f"{waits} {interrupt.payload!r}"
        lines += [[], [(fit(f"? {interrupt.node} {asks}{stale}", width).rstrip(), "warn")]]
        lines += paragraph(interrupt.id, width, style="faint")
        if waits is not None:
            continue
        shown = fields_of(interrupt.payload)
        rows = {"": interrupt.payload} if shown is None else shown
        for name, value in rows.items():
            text = value if isinstance(value, str) and len(value) <= 2_000 else brief(value, 8 * width)
            lines += paragraph(f"{name}: {text}" if name else text, width)
        if interrupt.expires_at is not None:
            then = (
                "" if interrupt.default is UNSET else f", and answers itself with {brief(interrupt.default, 2 * width)}"
            )
            lines += paragraph(f"expires {moment(interrupt.expires_at)}{then}", width, style="faint")
    return lines


def history(snapshots: Sequence[Snapshot[Any]], width: int) -> list[Line]:
    """Return a table of the past states of a thread."""
    columns = [
        Column(title="entry", right=True),
        Column(title="when", rank=3),
        Column(title="step", right=True, rank=2),
        Column(title="status"),
        Column(title="next", least=8, rank=1),
    ]
    rows: list[list[Segment]] = [
        [str(past.seq), (moment(past.at), "faint"), str(past.step), status_segment(past.status), ", ".join(past.next)]
        for past in snapshots
    ]
    return table(columns, rows, width)


def threads(found: Sequence[ThreadInfo | Any], width: int) -> list[Line]:
    """Return a table of threads, from `Runtime.threads` or `Store.heads`."""
    columns = [
        # Users copy ids from here, so ids up to the length of a UUID are never cut; other columns are dropped first.
        Column(title="thread", least=max(12, min(36, width - 20)), wrap=True),
        Column(title="status"),
        Column(title="graph", least=6, rank=2),
        Column(title="entries", right=True, rank=3),
        Column(title="last written", rank=1),
        Column(title="", rank=4),
    ]
    rows: list[list[Segment]] = [
        [(info.thread, "name"), status_segment(info.status), info.graph, f"{info.seq:,}",
         (moment(info.updated_at), "faint"), ("has an owner" if info.owned else "", "accent")]
        for info in found
    ]  # fmt: skip
    return table(columns, rows, width)


def log(entries: Iterable[Entry], width: int) -> list[Line]:
    """Return a table of journal entries."""
    columns = [
        Column(title="entry", right=True),
        Column(title="when", rank=2),
        Column(title="event"),
        Column(title="", least=24, rank=1),
    ]
    rows: list[list[Segment]] = [
        [str(entry.seq), (moment(entry.at), "faint"), (event_kind(entry.event), "name"), detail(entry, 2 * width)]
        for entry in entries
    ]
    return table(columns, rows, width)


def detail(entry: Entry, most: int) -> str:
    """Summarise an entry in one line of about *most* characters."""
    event = entry.event
    parts = [entry.path] if entry.path else []
    for name in _DETAIL:
        value = getattr(event, name, None)
        if value is None or value in ((), "") or (name == "node" and hasattr(event, "task")):
            continue  # the id of a task names its node
        if isinstance(value, Usage):
            parts.append(usage_text(value))
        elif name in ("task", "superstep", "id"):
            parts.append(str(value) if name != "superstep" else f"superstep {value}")
        elif isinstance(value, str):
            parts.append(f"{name}={value[:most]}")
        else:
            parts.append(f"{name}={brief(value, most)}")
        if sum(map(len, parts)) > most:
            break
    return safe("  ".join(part for part in parts if part))


def usage(by: Mapping[str, Mapping[str, Usage]], total: Usage, width: int) -> list[Line]:
    """Return tables of the usage of model calls: one for each way to sum it, such as `node` or `model`."""
    lines: list[Line] = []
    for dimension, sums in by.items():
        if not sums:
            continue
        columns = [
            Column(title=dimension, least=8),
            Column(title="calls", right=True),
            Column(title="tokens in", right=True, rank=1),
            Column(title="out", right=True, rank=1),
            Column(title="cost", right=True, rank=2),
        ]
        rows = [[(name, "name"), *_sums(amounts)] for name, amounts in sums.items()]
        lines += [*table(columns, rows, width), []]
    return [*lines, *paragraph(usage_text(total) or "no model calls", width, style="title")]


def _sums(amounts: Usage) -> list[Segment]:
    calls = f"{amounts.calls:,}{unreported_text(amounts)}"
    return [calls, f"{amounts.input_tokens:,}", f"{amounts.output_tokens:,}", cost_text(amounts)]


def divergence(found: Divergence | None, width: int) -> list[Line]:
    """Return where two threads first differ."""
    if found is None:
        return [[("✓ the same entries", "good")]]
    lines: list[Line] = [[("✗ they differ", "warn"), f"  in {', '.join(found.fields)}" if found.fields else ""]]
    for mark, entry in (("-", found.left), ("+", found.right)):
        description = (
            "ended before" if entry is None else f"{entry.seq} {event_kind(entry.event)}  {detail(entry, 3 * width)}"
        )
        lines += paragraph(f"{mark} {description}", width, style="bad" if mark == "-" else "good")
    return lines


def why(found: Provenance, width: int) -> list[Line]:
    """Return the writes that gave a field its value, and the values that they were made from."""
    title, *rest = str(found).split("\n")  # `FieldWrite` truncates its own values
    lines = paragraph(title, width, style="title")
    return lines + [line for text in rest for line in paragraph(text, width, style="" if text[:1] == "=" else "faint")]


def beside(mark: Segment, text: str, width: int) -> list[Line]:
    """Return a mark with its text: on one line, or with the text below if there is no room."""
    taken = cells(mark if isinstance(mark, str) else mark[0]) + 2
    folded = paragraph(text, width - taken)
    if not text or len(folded) > 1:
        return [[mark], *(paragraph(text, width) if text else [])]
    return [[mark, "  ", *folded[0]]]


def paragraph(text: str, width: int, *, style: str = "") -> list[Line]:
    """Return *text* in as many lines as it takes; its own newlines stay."""
    lines: list[Line] = []
    for part in safe(text, lines=True).split("\n"):
        lines += [[(line, style)] for line in (fold(part, width) if cells(part) > width else [part])]
    return lines
