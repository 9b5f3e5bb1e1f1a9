"""`audit erase`: a person's values out of the threads of a store."""

from __future__ import annotations

import click

from graphrt.cli import exits
from graphrt.cli.command import Command
from graphrt.cli.opening import STORE, TARGET, opened_runtime
from graphrt.cli.output import Answer
from graphrt.console import counted, views
from graphrt.console.screen import Line
from graphrt.runtime import ErasureReport


@click.command("erase", cls=Command)
@TARGET
@click.option("--containing", "text", metavar="TEXT", help="Erase the values that contain this text.")
@click.option("--field", nargs=2, metavar="THREAD FIELD", help="Erase all writes of a field of a thread.")
@click.option("--thread", "threads", multiple=True, metavar="ID", help="Only in this thread; may be repeated.")
@click.option("--reason", default="", help="The reason, for the journal. Do not repeat the values in it.")
@click.option("--by", help="The person who asked for it, for the journal.")
@click.option("--dry-run", is_flag=True, help="Erase nothing, and report the values that would be erased.")
@click.option("--force", is_flag=True, help="Also values that an unfinished thread still needs.")
@click.option("--key-file", metavar="FILE", help="File with the key of the threads' audit logs.")
@STORE
def erase(
    target: str, text: str | None, field: tuple[str, str] | None, threads: tuple[str, ...], reason: str,
    by: str | None, dry_run: bool, force: bool, key_file: str | None, store: str | None,
) -> Answer:  # fmt: skip
    """Erase a person's values from stored threads. Records that prove the threads stay.

    Exit code 1 if threads that were looked through may still hold the values.
    """
    where = field if text is None else text
    if where is None or (text is not None and field is not None):
        raise click.UsageError("Give --containing or --field.")
    with opened_runtime(target, store, key_file=key_file) as runtime:
        report = runtime.erase(
            where,
            threads=threads or None,
            reason=reason,
            by=by,
            dry_run=dry_run,
            force=force,
        )
    inside = [leftover for leftover in report.left if leftover.thread is not None]
    return Answer(
        data=_data(report), lines=lambda width: _lines(report, width), code=exits.FAILED if inside else exits.OK
    )


def _data(report: ErasureReport) -> dict[str, object]:
    return {
        "dry_run": report.dry_run,
        "threads": list(report.threads),
        "records": report.records,
        "lines": report.lines,
        "blobs": report.blobs,
        "model_calls": report.model_calls,
        "left": [{"thread": leftover.thread, "what": leftover.what, "why": leftover.why} for leftover in report.left],
    }


def _lines(report: ErasureReport, width: int) -> list[Line]:
    done = "would be erased" if report.dry_run else "erased"
    lines: list[Line] = [
        [(f"{counted(report.lines, 'value')} {done}", "title"), f"  in {counted(len(report.threads), 'thread')}"]
    ]
    for leftover in report.left:
        lines += [
            *views.paragraph(leftover.thread or "elsewhere", width, style="warn"),
            *views.paragraph(leftover.why, width),
        ]
    return lines
