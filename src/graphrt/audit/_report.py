"""Reports of a log for people: as a table, as Markdown, or as data. Neither a graph nor classes of the user are needed.

Each entry at the top that somebody would want to read is a row: inputs, finished tasks, questions, answers, edits, ends.
Values are shown as the JSON that they are stored as. Characters that a terminal or a page would act on are shown as
escapes, so that a value can forge no row.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeAlias

from graphrt import events
from graphrt._journal.reader import Reader
from graphrt._journal.thread_meta import read_meta
from graphrt._journal.verifying import PLAIN
from graphrt._usage.amounts import UNITS
from graphrt.audit._restore import Log, bytes_of
from graphrt.audit._stored import opened
from graphrt.audit.offline import verify
from graphrt.errors._codes.arguments import INVALID_ARGUMENT

if TYPE_CHECKING:
    from graphrt.events import Amounts, Entry, Usage
    from graphrt.stores.protocol import Store

FORM: Final = "graphrt-report/1"
_MOST: Final = 120
"""Most characters of a value in a table."""
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
    """Return what happened in a thread, for people.

    Args:
        source: A log in its portable form, or a store (or its URL) and the id of a thread.
        format: "table" for a terminal, drawn by rich if that is installed; "markdown"; or "json", whose form is in
            `docs/reference/audit-log.md`.
        key: Root key of the log, for its verdict; None checks no MACs. Not used for a stored thread.
        older: Keys that the log was written with before.
        anchor: Heads that were kept outside of the log.
        width: Columns of a table; None takes those of the terminal.

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
        found = verify(data, key=key, older=older, anchor=anchor)
        verdict, slug, sentence = found.verdict.value, found.slug, found.sentence
        log = Log(data) if found.slug != "unreadable" else None
        thread = found.thread
        entries = list(log.entries()) if log is not None else []
    rows = [row for entry in entries if not entry.path and (row := _row(entry)) is not None]
    used = [row["usage"] for row in rows if row["usage"] is not None]
    costs = [one["cost_usd"] for one in used if one["cost_usd"] is not None]
    return {
        "form": FORM,
        "thread": thread,
        "graph": next((one.event.graph for one in entries if isinstance(one.event, events.RunStarted)), ""),
        "status": rows[-1]["kind"] if rows else "empty",
        "verdict": verdict,
        "slug": slug,
        "sentence": sentence,
        "rows": rows,
        "totals": {
            "tasks": sum(row["kind"] == "task" for row in rows),
            "failures": sum(row["kind"] == "failure" for row in rows),
            "input_tokens": sum(one["input_tokens"] for one in used),
            "output_tokens": sum(one["output_tokens"] for one in used),
            "unreported_calls": sum(one["unreported_calls"] for one in used),
            "cost_usd": sum(costs) if costs else None,
            "unpriced_calls": sum(one["unpriced_calls"] for one in used),
        },
    }


def _stored(store: Store, thread: str) -> Iterable[Entry]:
    meta = read_meta(store.load(thread, upto=0).meta, thread)
    reader = Reader(store, thread, PLAIN, meta=meta)
    return reader.entries(store.records(thread, after=store.head(thread).first - 1))


def _row(entry: Entry) -> dict[str, Any] | None:
    """Return the row of an entry; None if it has none."""
    event: Any = entry.event
    kind = _KINDS.get(event.__class__)
    if kind is None:
        return None
    task: str | None = getattr(event, "task", None)
    return {
        "seq": entry.seq,
        "at": entry.at,
        "time": _time(entry.at),
        "run": entry.run,
        "kind": kind,
        "superstep": int(task.partition(".")[0]) if task else None,
        "node": getattr(event, "node", None),
        "task": task,
        "values": _values(event),
        "text": _text(event),
        "user": (event.by if kind == "erasure" else getattr(event, "user", None)) or None,
        "usage": _usage(event.usage) if kind in ("task", "failure") and event.usage is not None else None,
    }


_KINDS: Final[Mapping[Any, str]] = {
    events.RunStarted: "input",
    events.RunResumed: "resumed",
    events.TaskSucceeded: "task",
    events.TaskFailed: "failure",
    events.TaskRetried: "retry",
    events.InterruptRaised: "question",
    events.InterruptAnswered: "answer",
    events.BudgetGranted: "budget raised",
    events.ThreadUpdated: "edit",
    events.ValuesErased: "erasure",
    events.ThreadForked: "fork",
    events.ThreadCopied: "copy",
    events.ThreadMigrated: "migration",
    events.SuperstepAbandoned: "abandoned",
    events.HistoryPruned: "prune",
    events.ThreadDeleted: "deletion",
    events.RunInterrupted: "interrupted",
    events.RunCompleted: "completed",
    events.RunFailed: "failed",
    events.RunCancelled: "cancelled",
    events.RunHandedOver: "handed over",
    events.SignalReceived: "signal",
    events.SignalTaken: "signal taken",
    events.LetterDropped: "mail dropped",
    events.ThreadStarted: "child thread",
}


def _values(event: Any) -> dict[str, Any]:
    match event:
        case events.RunStarted():
            return dict(event.input)
        case events.ThreadUpdated():
            return dict(event.values)
        case events.TaskSucceeded():
            merged: dict[str, Any] = {}
            for update in event.updates:
                for name, value in update.items():
                    merged[name] = value if name not in merged else [*_listed(merged[name]), *_listed(value)]
            return merged
        case events.InterruptRaised():
            return {"payload": event.payload} | ({"default": event.default} if event.has_default else {})
        case events.InterruptAnswered():
            return {"answer": event.answer} | ({"by": event.by} if event.by else {})
        case events.SignalReceived():
            return {"value": event.value}
        case _:
            return {}


def _listed(value: Any) -> list[Any]:
    listed: list[Any] = value if value.__class__ is list else [value]
    return listed


def _text(event: Any) -> str:
    """Return what else an event says, in words."""
    text = ""
    match event:
        case events.TaskFailed() | events.TaskRetried() | events.RunFailed():
            text = f"{event.error}: {event.message}"
        case events.RunCancelled() | events.RunHandedOver() | events.LetterDropped():
            text = event.reason
        case events.SignalReceived():
            text = event.name
        case events.RunResumed():
            text = event.verb
        case events.TaskSucceeded() if event.goto is not None:
            text = f"goto {', '.join(event.goto)}"
        case events.ThreadUpdated() if event.as_node is not None:
            text = f"as {event.as_node}"
        case events.ThreadForked():
            text = f"of {event.source!r} at {event.at}"
        case events.ThreadCopied():
            text = f"of {event.source!r}"
        case events.ThreadMigrated():
            text = event.why
        case events.HistoryPruned():
            text = f"up to entry {event.upto}"
        case _:
            text = _rarer_text(event)
    return text


def _rarer_text(event: Any) -> str:
    match event:
        case events.BudgetGranted():
            return f"{event.of}: {_amounts(event.amounts)}"
        case events.ValuesErased():
            return f"{event.lines} values: {event.reason}" if event.reason else f"{event.lines} values"
        case events.ThreadStarted():
            return f"{event.thread!r} of graph {event.graph!r}"
        case events.RunStarted() if event.parent is not None:
            return f"child of {event.parent!r}"
        case _:
            return ""


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
    except (OverflowError, ValueError, OSError):  # a clock of the user may say anything
        return repr(at)


# -- as text -----------------------------------------------------------------------------------------------------------


def shown(text: str, most: int = _MOST) -> str:
    """Return *text* without characters that a terminal acts on: those are escaped. It is cut after *most* characters."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(one if one.isprintable() else _escape(one) for one in cut)


def _escape(one: str) -> str:
    # Controls, and format characters such as those that reverse the direction of what follows.
    return one.encode("unicode_escape").decode() if unicodedata.category(one) != "Zs" else " "


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    values = "; ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in row["values"].items())
    usage: dict[str, Any] = row["usage"] or {}
    what = " ".join(part for part in (row["kind"], f"by {row['user']}" if row["user"] else "", row["text"]) if part)
    cost = usage.get("cost_usd")
    cells = (
        str(row["seq"]),
        row["time"],
        "" if row["superstep"] is None else str(row["superstep"]),
        row["node"] or "",
        what,
        values,
        str(usage["input_tokens"] + usage["output_tokens"]) if usage else "",
        "" if cost is None else f"{cost:.6f}",
    )
    return tuple(shown(cell) for cell in cells)


def _sums(totals: Mapping[str, Any]) -> str:
    cost, unreported = totals["cost_usd"], totals["unreported_calls"]
    least = "at least " if totals["unpriced_calls"] else ""
    return (
        f"{totals['tasks']} tasks, {totals['failures']} failures, "
        f"{totals['input_tokens'] + totals['output_tokens']} tokens"
        + (f" and {unreported} calls without a report" if unreported else "")
        + ("" if cost is None else f", {least}{cost:.6f} USD")
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

    # By name: type checkers need not know a package that may be missing.
    console, drawing, writing = (import_module(f"rich.{one}") for one in ("console", "table", "text"))
    # Text and not markup: values may contain brackets.
    table = drawing.Table(title=writing.Text(shown(title, 1000)), caption=writing.Text(_sums(totals)))
    for heading in _HEADINGS:
        table.add_column(heading)
    for row in cells:
        table.add_row(*(writing.Text(cell) for cell in row))
    written = StringIO()
    columns = width if width is not None else get_terminal_size((160, 40)).columns
    console.Console(file=written, width=columns, force_terminal=False, color_system=None).print(table)
    return written.getvalue()
