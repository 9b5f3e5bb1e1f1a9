"""`backup`, `export`, `import` and `sweep`: maintenance of a database and its threads. No graph is needed."""

from __future__ import annotations

from typing import Any, Final, get_args

import click

from graphrt.cli.command import Command
from graphrt.cli.documents import seconds
from graphrt.cli.opening import LISTED, STORE, TARGET, THREAD, opened_any, opened_store, threads_of
from graphrt.cli.output import Answer, Output
from graphrt.console import counted, views
from graphrt.errors._codes.command_line import NO_BACKUP_OF
from graphrt.stores import Status
from graphrt.wires.plain_data import thread as thread_data

_DONE: Final = ("✓", "good")


@click.command("backup", cls=Command)
@click.argument("file")
@STORE
@click.pass_obj
def backup(output: Output, file: str, store: str | None) -> Answer:
    """Copy a SQLite database while it is in use. The copy is from one point in time."""
    with opened_store(store) as opened:
        copy: Any = getattr(opened, "backup", None)
        if copy is None:
            raise NO_BACKUP_OF(store=opened)
        output.busy("copying")
        path = copy(file)
    return Answer(data={"path": path}, lines=lambda width: views.beside(_DONE, path, width))


@click.command("export", cls=Command)
@TARGET
@THREAD
@click.argument("file")
@STORE
@click.option("--decrypted", is_flag=True, help="The store encrypts, and the file may have the thread in plain text.")
def export(target: str, thread: str, file: str, store: str | None, decrypted: bool) -> Answer:
    """Write a thread to a file, which any other store can import. TARGET is the store, or a graph."""
    with opened_any(target, store) as runtime:
        runtime.export_thread(thread, file, decrypted=decrypted)
    return Answer(
        data={"thread": thread, "path": file}, lines=lambda width: views.beside(_DONE, f"{thread} in {file}", width)
    )


@click.command("import", cls=Command)
@TARGET
@click.argument("file")
@STORE
@click.option("--thread", metavar="ID", help="Id of the new thread; by default the exported one.")
def import_(target: str, file: str, store: str | None, thread: str | None) -> Answer:
    """Create a thread from an exported file. It becomes visible when it is complete. TARGET is the store, or a graph."""
    with opened_any(target, store, creates=True) as runtime:
        imported = runtime.import_thread(file, thread=thread)
    return Answer(data={"thread": imported, "path": file}, lines=lambda width: views.beside(_DONE, imported, width))


@click.command("sweep", cls=Command)
@LISTED
@STORE
@click.option("--older-than", required=True, metavar="TIME", help="Time since the last write, such as 90s, 12h or 30d.")
@click.option("--status", type=click.Choice(get_args(Status)),
              help="Only threads with this status; by default those that are completed, failed or cancelled.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows.")
@click.option("--dry-run", is_flag=True, help="Delete nothing, and list the threads that would be deleted.")
@click.pass_obj
def sweep(
    output: Output,
    target: str | None,
    store: str | None,
    older_than: str,
    status: Any,
    limit: int | None,
    dry_run: bool,
) -> Answer:
    """Delete threads that were not written for a while, except those that a run is using. TARGET is the store; or a graph."""
    age_s = seconds(older_than, "--older-than")
    with threads_of(target, store) as (runtime, graph):
        output.busy("looking for old threads")
        old = runtime.sweep(older_than_s=age_s, status=status, graph=graph, limit=limit, dry_run=True)
        if dry_run:
            return Answer(
                data={"dry_run": True, "deleted": 0, "threads": [thread_data(info) for info in old]},
                lines=lambda width: [
                    *views.threads(old, width),
                    [(f"{counted(len(old), 'thread')} would be deleted", "faint")],
                ],
            )
        output.busy(f"deleting {counted(len(old), 'thread')}")
        deleted = runtime.sweep(older_than_s=age_s, status=status, graph=graph, limit=limit)
    return Answer(
        data={"dry_run": False, "deleted": deleted, "threads": []},
        lines=lambda width: views.beside(_DONE, f"{counted(deleted, 'thread')} deleted", width),
    )
