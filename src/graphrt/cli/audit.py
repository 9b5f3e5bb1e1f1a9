"""`audit`: verify, show, export and replay audit logs, and make their keys.

A subcommand is a line of `COMMANDS`, and is imported when it is called.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from graphrt._display import brief
from graphrt.audit import Report, Verdict, generate_key
from graphrt.audit import export as export_log
from graphrt.audit import verify as verify_log
from graphrt.audit.offline import _proof_check, lines_of, parse
from graphrt.cli import exits
from graphrt.cli.command import SETTINGS, Command, LazyGroup
from graphrt.cli.documents import key_in
from graphrt.cli.opening import STORE, TARGET, THREAD, opened_any, opened_runtime
from graphrt.cli.output import Answer
from graphrt.console import Column, counted, moment, table, views
from graphrt.console.screen import Line, Segment
from graphrt.errors._codes.command_line import BAD_DOCUMENT
from graphrt.errors._codes.stores import CANNOT_WRITE_FILE, PATH_EXISTS
from graphrt.wires import plain_data

COMMANDS: Final = {
    "verify": ("graphrt.cli.audit:verify", "Verify a log, or a proof taken from one, without a store."),
    "show": ("graphrt.cli.audit:show", "List the lines of a log."),
    "export": ("graphrt.cli.audit:export", "Write the log of a thread to a file."),
    "replay": ("graphrt.cli.audit:replay", "Fold a thread again, and compare every reducer and router."),
    "erase": ("graphrt.cli.erasing:erase", "Erase a person's values from stored threads."),
    "keygen": ("graphrt.cli.audit:keygen", "Make a key."),
}
"""Maps a subcommand to its function and the first line of its help."""
_KEY: Final = click.option(
    "--key-file",
    metavar="FILE",
    help="File with the root key of the log, as `graphrt audit keygen` writes it: its bytes.",
)


@click.group("audit", cls=LazyGroup, table=COMMANDS, meant={"redact": "erase"}, context_settings=SETTINGS)
def audit() -> None:
    """Verify, show and replay audit logs, erase values, and make keys."""


@click.command("verify", cls=Command)
@click.argument("file")
@_KEY
@click.option("--older-key-file", multiple=True, metavar="FILE", help="File with a key that was used before.")
@click.option("--anchor", metavar="FILE", help="File with heads that were kept outside of the log.")
@click.option("--strict", is_flag=True, help="Exit with 1 if the log is sound, but not all of it is proved.")
def verify(
    file: str, key_file: str | None, older_key_file: tuple[str, ...], anchor: str | None, strict: bool
) -> Answer:
    """Verify a log, or a proof taken from one, without a store.

    Exit code 3 if it was changed or values were withheld, 2 if it cannot be checked.
    """
    older = [key_in(path) for path in older_key_file]
    key = key_in(key_file) if key_file else None
    if not Path(file).is_file():
        raise BAD_DOCUMENT(
            source=repr(file), form="an audit log", problem="there is no such file", fix="Name the file of a log."
        )
    report = verify_log(file, key=key, older=older, anchor=anchor)
    if report.slug == "unreadable" and (proof := _proof_check(file)):
        report = proof(file, key=key, older=older, anchor=anchor)
    code = {0: exits.OK, 1: exits.INTEGRITY, 2: exits.USAGE, 3: exits.FAILED if strict else exits.OK}[report.exit_code]
    if report.verdict is Verdict.WITHHELD:
        code = exits.INTEGRITY
    return Answer(data=_report(report), lines=lambda width: _report_lines(report, width), code=code)


def _report(report: Report) -> dict[str, Any]:
    findings = [
        {
            "verdict": finding.verdict.value,
            "slug": finding.slug,
            "message": finding.message,
            "line": finding.line,
            "record": finding.record,
            "seq": finding.seq,
            "where": finding.where,
        }
        for finding in report.findings
    ]
    return {
        "verdict": report.verdict.value,
        "slug": report.slug,
        "sentence": report.sentence,
        "proved": report.proved,
        "log": report.log,
        "thread": report.thread,
        "records": report.records,
        "proved_records": report.proved_records,
        "erased_values": report.erased_values,
        "erased_lines": report.erased_lines,
        "withheld_lines": report.withheld_lines,
        "absent_blobs": report.absent_blobs,
        "findings": findings,
        "more_findings": report.more_findings,
    }


def _report_lines(report: Report, width: int) -> list[Line]:
    style = {0: "verdict-good", 3: "warn"}.get(report.exit_code, "verdict-bad")
    label = report.verdict.value if report.slug == report.verdict.value else f"{report.verdict.value} ({report.slug})"
    mark = "✓" if report.exit_code == 0 else "!" if report.exit_code == 3 else "✗"
    lines: list[Line] = [[(f"{mark} {label}", style), f"  {counted(report.records, 'record')}"]]
    lines += views.paragraph(report.proved, width)
    for finding in report.findings:
        place = f"line {finding.line}: " if finding.line else ""
        lines += views.paragraph(f"[{finding.slug}] {place}{finding.message}", width, style="faint")
    return lines


@click.command("show", cls=Command)
@click.argument("file")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of lines.")
def show(file: str, limit: int | None) -> Answer:
    """List the lines of a log: records with their entries, heads and other data. Nothing is verified."""
    if not Path(file).is_file():
        raise BAD_DOCUMENT(
            source=repr(file), form="an audit log", problem="there is no such file", fix="Name the file of a log."
        )
    file_lines: list[dict[str, Any]] = []
    for number, (line, whole) in enumerate(lines_of(file), 1):
        if limit is not None and number > limit:
            break
        file_lines.append({"line": number, "bytes": len(line), **_told(line, whole=whole)})
    return Answer(data={"path": file, "lines": file_lines}, lines=lambda width: _show_lines(file_lines, width))


def _told(line: bytes, *, whole: bool) -> dict[str, Any]:
    """Describe the content of a line. The content is untrusted, so it is only shown as text or numbers."""
    try:
        value: Mapping[str, Any] = parse(line)
        if "seal" in value:
            seq, count = int(value["seq"]), int(value["count"])
            structure = json.loads(value["lines"][0])
            return {"kind": "record", "first": seq - count + 1, "last": seq, "at": float(structure[1])}
        if "staged" in value:
            return {"kind": "staged", "told": ", ".join(str(key) for key, _ in value["staged"])}
        kind = next(
            (name for name in ("head", "begin", "names", "blob", "recovered", "form") if name in value),
            "other",
        )
        content = value.get(kind)
        return {"kind": kind, "told": content if isinstance(content, str) else plain_data.plain(content)}
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return {"kind": "unreadable" if whole else "torn", "told": None}


def _show_lines(file_lines: list[dict[str, Any]], width: int) -> list[Line]:
    columns = [
        Column(title="line", right=True),
        Column(title="kind"),
        Column(title="entries", right=True),
        Column(title="when", rank=2),
        Column(title="bytes", right=True, rank=3),
        Column(title="", least=12, rank=1),
    ]
    rows: list[list[Segment]] = []
    for line in file_lines:
        record = line["kind"] == "record"
        at = line.get("at")
        rows.append([
            str(line["line"]),
            (line["kind"], "name" if record else "bad" if line["kind"] in ("unreadable", "torn") else "accent"),
            (f"{line['first']}-{line['last']}" if line["first"] != line["last"] else str(line["last"]))
            if record else "",
            (moment(at) if isinstance(at, (int, float)) else "", "faint"),
            f"{line['bytes']:,}",
            "" if line.get("told") is None else brief(line["told"], width),
        ])  # fmt: skip
    return table(columns, rows, width)


@click.command("export", cls=Command)
@TARGET
@THREAD
@click.argument("file")
@STORE
@_KEY
def export(target: str, thread: str, file: str, store: str | None, key_file: str | None) -> Answer:
    """Write the log of a thread to a file, which `audit verify` checks without the store.

    TARGET is the store, or a graph. A log of the same thread that is at FILE already is replaced; other files are not.
    """
    key = key_in(key_file) if key_file else None
    if Path(file).is_dir():
        raise CANNOT_WRITE_FILE(file=file, reason="it is a folder")
    with opened_any(target, store) as runtime:
        opened: Any = runtime.store  # which every command has
        try:
            head = export_log(opened, thread, file, key=key)
        except OSError as error:
            raise CANNOT_WRITE_FILE(file=file, reason=error.strerror or str(error)) from error
    return Answer(
        data={"thread": thread, "path": file, "head": head.to_dict()},
        lines=lambda width: [
            *views.beside(("✓", "good"), f"{thread} in {file}", width),
            *views.paragraph(f"{counted(head.size, 'record')}, root {head.root.hex()}", width, style="faint"),
        ],
    )


@click.command("replay", cls=Command)
@TARGET
@THREAD
@STORE
@_KEY
def replay(target: str, thread: str, store: str | None, key_file: str | None) -> Answer:
    """Fold a thread again from its first entry, and compare every reducer and router. No node runs.

    Exit code 3 if one of them now gives another result, or if stored data is damaged.
    """
    with opened_runtime(target, store, key_file=key_file) as runtime:
        snapshot = runtime.replay(thread)
        data = plain_data.snapshot(snapshot)
    return Answer(
        data=data,
        lines=lambda width: [
            [("✓ the same", "verdict-good"), f"  up to entry {snapshot.seq}"],
            *views.snapshot(snapshot, width),
        ],
    )


@click.command("keygen", cls=Command)
@click.argument("file")
def keygen(file: str) -> Answer:
    """Make a key: 32 random bytes in a new file that only this user may read. It is never printed."""
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise PATH_EXISTS(kind="file", file=file) from error
    except OSError as error:
        raise CANNOT_WRITE_FILE(file=file, reason=error.strerror or str(error)) from error
    with os.fdopen(number, "wb") as key_file:
        key_file.write(generate_key())
    return Answer(
        data={"path": file, "bytes": 32}, lines=lambda width: views.beside(("✓", "good"), f"a key in {file}", width)
    )
