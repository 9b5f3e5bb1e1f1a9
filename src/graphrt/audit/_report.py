"""Reports of a log for people: as a table, as Markdown, or as data. It needs neither the graph nor the user's classes.

Each entry of interest in the top-level graph is a row: inputs, finished tasks, questions, answers, edits, ends.
Values are shown as their stored JSON. Control and markup characters are escaped, so a value cannot forge a row.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeAlias

from graphrt import events
from graphrt._journal.reader import Reader
from graphrt._journal.thread_meta import read_meta
from graphrt._journal.verifying import PLAIN
from graphrt._usage.amounts import UNITS
from graphrt.audit._export import opened
from graphrt.audit._restore import Log, bytes_of
from graphrt.audit.offline import verify
from graphrt.errors._codes.arguments import INVALID_ARGUMENT

if TYPE_CHECKING:
    from graphrt.events import Amounts, Entry, Usage
    from graphrt.stores.protocol import Store

FORM: Final = "graphrt-report/1"
_MOST: Final = 120
"""Maximum number of characters of a value in a table."""
_HEADINGS: Final = ("seq", "time", "step", "node", "what", "values", "tokens", "cost")
_MARKED: Final = str.maketrans({one: f"\\{one}" for one in "\\`*_[]<>|#&~"})
Source: TypeAlias = "str | os.PathLike[str] | bytes | BinaryIO | tuple[Store | str, str]"
"""A log in its portable form, or a store with the id of a thread."""


def report(
    source: Source,
    format: Literal["table", "markdown", "json"] = "table",
    *,
    key: bytes | None = None,
    older: Sequence[bytes] = (),
    anchor: str | os.PathLike[str] | bytes | BinaryIO | None = None,
    width: int | None = None,
) -> str:
    """Return a readable report of the events of a thread.

    Args:
        source: A log in its portable form, or a store (or its URL) and the id of a thread.
        format: "table" for a terminal, drawn by rich if that is installed; "markdown"; or "json", whose form is in
            `docs/reference/audit-log.md`.
        key: Root key of the log, for its verdict; None checks no MACs. Not used for a stored thread.
        older: Earlier keys of the log.
        anchor: Heads that were kept outside the log.
        width: Columns of a table; None uses the width of the terminal.

    Raises:
        InputError: *format* is unknown, or there is no such thread.
        StoreError: An entry is missing or damaged.
    """
    if format not in ("table", "markdown", "json"):
        raise INVALID_ARGUMENT(argument="The format of a report", value=format, wanted="'table', 'markdown' or 'json'")
    data = _data(source, key, older, anchor)
    if format == "json":
        return json.dumps(data, ensure_ascii=True, indent=2) + "\n"
    cells = [_cells(row) for row in data["rows"]]
    title = f"{data['graph'] or 'thread'}, thread {data['thread']}: {data['sentence'] or data['status']}"
    if format == "markdown":
        return _markdown(title, cells, data["totals"])
    return _table(title, cells, data["totals"], width)


def _data(source: Any, key: bytes | None, older: Sequence[bytes], anchor: Any) -> dict[str, Any]:
    verdict = slug = sentence = None
    if source.__class__ is tuple:
        store, thread = source
        with opened(store) as held:
            entries = list(_stored(held, str(thread)))
    else:
        data = bytes_of(source)
        result = verify(data, key=key, older=older, anchor=anchor)
        verdict, slug, sentence = result.verdict.value, result.slug, result.sentence
        log = Log(data) if result.slug != "unreadable" else None
        thread = result.thread
        entries = list(log.entries()) if log is not None else []
    rows = [row for entry in entries if not entry.path and (row := _row(entry)) is not None]
    used = [row["usage"] for row in rows if row["usage"] is not None]
    costs = [item_usage["cost_usd"] for item_usage in used if item_usage["cost_usd"] is not None]
    return {
        "form": FORM,
        "thread": thread,
        "graph": next((entry.event.graph for entry in entries if isinstance(entry.event, events.RunStarted)), ""),
        "status": rows[-1]["kind"] if rows else "empty",
        "verdict": verdict,
        "slug": slug,
        "sentence": sentence,
        "rows": rows,
        "totals": {
            "tasks": sum(row["kind"] == "task" for row in rows),
            "failures": sum(row["kind"] == "failure" for row in rows),
            "input_tokens": sum(item_usage["input_tokens"] for item_usage in used),
            "output_tokens": sum(item_usage["output_tokens"] for item_usage in used),
            "unreported_calls": sum(item_usage["unreported_calls"] for item_usage in used),
            "cost_usd": sum(costs) if costs else None,
            "unpriced_calls": sum(item_usage["unpriced_calls"] for item_usage in used),
        },
    }


def _stored(store: Store, thread: str) -> Iterable[Entry]:
    meta = read_meta(store.load(thread, upto=0).meta, thread)
    reader = Reader(store, thread, PLAIN, meta=meta)
    return reader.entries(store.records(thread, after=store.head(thread).first - 1))


def _row(entry: Entry) -> dict[str, Any] | None:
    """Return the row of an entry; None if it has none."""
    event: Any = entry.event
    shown = _SHOWN.get(event.__class__)
    if shown is None:
        return None
    task: str | None = getattr(event, "task", None)
    return {
        "seq": entry.seq,
        "at": entry.at,
        "time": _time(entry.at),
        "run": entry.run,
        "kind": shown.kind,
        "superstep": int(task.partition(".")[0]) if task else None,
        "node": getattr(event, "node", None),
        "task": task,
        "values": dict(shown.values(event)),
        "text": shown.text(event),
        "user": (event.by if shown.kind == "erasure" else getattr(event, "user", None)) or None,
        "usage": _usage(event.usage) if shown.kind in ("task", "failure") and event.usage is not None else None,
    }


@dataclass(frozen=True, slots=True)
class _Shown:
    """The report's view of an event."""

    kind: str
    text: Callable[[Any], str] = lambda _: ""
    """The content of the event apart from its values, in words."""
    values: Callable[[Any], Mapping[str, Any]] = lambda _: {}


def _error(event: Any) -> str:
    return f"{event.error}: {event.message}"


def _reason(event: Any) -> str:
    return str(event.reason)


def _updates(event: events.TaskSucceeded) -> dict[str, Any]:
    """Return the writes of a task; for a field that it wrote several times, a list of all values."""
    merged: dict[str, Any] = {}
    for update in event.updates:
        for name, value in update.items():
            merged[name] = value if name not in merged else [*_listed(merged[name]), *_listed(value)]
    return merged


def _listed(value: Any) -> list[Any]:
    listed: list[Any] = value if value.__class__ is list else [value]
    return listed


_SHOWN: Final[Mapping[Any, _Shown]] = {
    events.RunStarted: _Shown(
        "input",
        lambda event: f"child of {event.parent!r}" if event.parent is not None else "",
        lambda event: event.input,
    ),
    events.RunResumed: _Shown("resumed", lambda event: event.verb),
    events.TaskSucceeded: _Shown(
        "task", lambda event: f"goto {', '.join(event.goto)}" if event.goto is not None else "", _updates
    ),
    events.TaskFailed: _Shown("failure", _error),
    events.TaskRetried: _Shown("retry", _error),
    events.InterruptRaised: _Shown(
        "question",
        values=lambda event: {"payload": event.payload} | ({"default": event.default} if event.has_default else {}),
    ),
    events.InterruptAnswered: _Shown(
        "answer", values=lambda event: {"answer": event.answer} | ({"by": event.by} if event.by else {})
    ),
    events.BudgetGranted: _Shown("budget raised", lambda event: f"{event.of}: {_amounts(event.amounts)}"),
    events.ThreadUpdated: _Shown(
        "edit", lambda event: f"as {event.as_node}" if event.as_node is not None else "", lambda event: event.values
    ),
    events.ValuesErased: _Shown(
        "erasure", lambda event: f"{event.lines} values: {event.reason}" if event.reason else f"{event.lines} values"
    ),
    events.ThreadForked: _Shown("fork", lambda event: f"of {event.source!r} at {event.at}"),
    events.ThreadCopied: _Shown("copy", lambda event: f"of {event.source!r}"),
    events.ThreadMigrated: _Shown("migration", lambda event: event.why),
    events.SuperstepAbandoned: _Shown("abandoned"),
    events.HistoryPruned: _Shown("prune", lambda event: f"up to entry {event.upto}"),
    events.ThreadDeleted: _Shown("deletion"),
    events.RunInterrupted: _Shown("interrupted"),
    events.RunCompleted: _Shown("completed"),
    events.RunFailed: _Shown("failed", _error),
    events.RunCancelled: _Shown("cancelled", _reason),
    events.RunHandedOver: _Shown("handed over", _reason),
    events.SignalReceived: _Shown("signal", lambda event: event.name, lambda event: {"value": event.value}),
    events.SignalTaken: _Shown("signal taken"),
    events.LetterDropped: _Shown("mail dropped", _reason),
    events.ThreadStarted: _Shown("child thread", lambda event: f"{event.thread!r} of graph {event.graph!r}"),
}


def _amounts(amounts: Amounts) -> str:
    return " and ".join(
        f"{unit.shown(amount)} {unit.noun(amount)}" for unit, amount in zip(UNITS, amounts, strict=True) if amount
    )


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "calls": usage.calls,
        "unreported_calls": usage.unreported_calls,
        "cost_usd": usage.cost_usd,
        "unpriced_calls": usage.calls if usage.cost_usd is None else usage.unpriced_calls,
    }


def _time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # a clock of the user may return any time
        return repr(at)


# -- as text -----------------------------------------------------------------------------------------------------------


def shown(text: str, max_chars: int = _MOST) -> str:
    """Return *text* with control characters escaped, truncated to *max_chars* characters."""
    cut = text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
    return "".join(char if char.isprintable() else _escape(char) for char in cut)


def _escape(char: str) -> str:
    # Control characters, and format characters such as those that reverse the text direction.
    return char.encode("unicode_escape").decode() if unicodedata.category(char) != "Zs" else " "


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    values = "; ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in row["values"].items())
    usage: dict[str, Any] = row["usage"] or {}
    description = " ".join(
        part for part in (row["kind"], f"by {row['user']}" if row["user"] else "", row["text"]) if part
    )
    cost = usage.get("cost_usd")
    cells = (
        str(row["seq"]),
        row["time"],
        "" if row["superstep"] is None else str(row["superstep"]),
        row["node"] or "",
        description,
        values,
        str(usage["input_tokens"] + usage["output_tokens"]) if usage else "",
        "" if cost is None else f"{cost:.6f}",
    )
    return tuple(shown(cell) for cell in cells)


def _sums(totals: Mapping[str, Any]) -> str:
    cost, unreported = totals["cost_usd"], totals["unreported_calls"]
    qualifier = "at least " if totals["unpriced_calls"] else ""
    return (
        f"{totals['tasks']} tasks, {totals['failures']} failures, "
        f"{totals['input_tokens'] + totals['output_tokens']} tokens"
        + (f" and {unreported} calls without a report" if unreported else "")
        + ("" if cost is None else f", {qualifier}{cost:.6f} USD")
    )


def _markdown(title: str, cells: Sequence[Sequence[str]], totals: Mapping[str, Any]) -> str:
    lines = [f"# {shown(title, 1000).translate(_MARKED)}", "", f"| {' | '.join(_HEADINGS)} |"]
    lines.append("|" + "---|" * len(_HEADINGS))
    lines += [f"| {' | '.join(cell.translate(_MARKED) for cell in row)} |" for row in cells]
    return "\n".join([*lines, "", _sums(totals), ""])


def _table(title: str, cells: Sequence[Sequence[str]], totals: Mapping[str, Any], width: int | None) -> str:
    try:
        return _rich(title, cells, totals, width)
    except ImportError:
        widths = [max(map(len, column)) for column in zip(_HEADINGS, *cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
            for row in (_HEADINGS, *cells)
        ]
        return "\n".join([shown(title, 1000), "", *lines, "", _sums(totals), ""])


def _rich(title: str, cells: Sequence[Sequence[str]], totals: Mapping[str, Any], width: int | None) -> str:
    from importlib import import_module
    from io import StringIO
    from shutil import get_terminal_size

    # Imported by name, so that type checkers need not have the optional package.
    console, drawing, writing = (import_module(f"rich.{module}") for module in ("console", "table", "text"))
    # Plain text instead of markup: values may contain brackets.
    table = drawing.Table(title=writing.Text(shown(title, 1000)), caption=writing.Text(_sums(totals)))
    for heading in _HEADINGS:
        table.add_column(heading)
    for row in cells:
        table.add_row(*(writing.Text(cell) for cell in row))
    written = StringIO()
    columns = width if width is not None else get_terminal_size((160, 40)).columns
    console.Console(file=written, width=columns, force_terminal=False, color_system=None).print(table)
    return written.getvalue()
