"""`inbox` and `signal`: list what threads wait for, and send them signals. No graph is needed."""

from __future__ import annotations

from typing import Any, get_args

import click

from graphrt.cli import exits
from graphrt.cli.command import Command
from graphrt.cli.documents import A_TEXT, parsed
from graphrt.cli.opening import LISTED, STORE, TARGET, THREAD, opened_any, threads_of
from graphrt.cli.output import Answer, Output
from graphrt.console import counted, moment, views
from graphrt.console.screen import Line
from graphrt.runtime import InboxItem, InterruptKind
from graphrt.wires import plain_data


@click.command("inbox", cls=Command)
@LISTED
@STORE
@click.option("--kind", type=click.Choice(get_args(InterruptKind)), help="Only questions of this kind.")
@click.option("--graph", metavar="NAME", help="Only questions that the graph with this name asked.")
@click.option("--node", metavar="NAME", help="Only questions that the node with this name asked.")
@click.option("--tenant", metavar="NAME", help="Only questions of this tenant's threads.")
@click.option("--tag", "tags", multiple=True, help="Only threads with this tag; may be given several times.")
@click.option("--after", metavar="TOKEN", help="Only questions after the one with this token.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of rows.")
def inbox(target: str | None, store: str | None, **filters: Any) -> Answer:
    """List the open questions of all threads of a store. TARGET is the store; or a graph, whose questions are listed."""
    with threads_of(target, store) as (runtime, graph):
        selection: dict[str, Any] = {**filters, "graph": filters["graph"] or graph}
        items = runtime.inbox(**selection)
    return Answer(
        data={"questions": [plain_data.inbox_item(item) for item in items]}, lines=lambda width: _lines(items, width)
    )


def _lines(items: tuple[InboxItem, ...], width: int) -> list[Line]:
    lines: list[Line] = []
    for item in items:
        title = f", {item.title}" if item.title else ""
        lines += views.beside((moment(item.asked_at), "faint"), f"thread {item.thread} of {item.graph}{title}", width)
        lines += [*views.questions([item.interrupt], width), []]
    return [*lines, [(counted(len(items), "question"), "faint")]]


@click.command("signal", cls=Command)
@TARGET
@THREAD
@click.argument("name")
@click.argument("value", required=False)
@STORE
@click.option("--id", "id_", metavar="ID", help="Id of the signal: a second one with this id is not kept.")
@click.pass_obj
def signal(
    output: Output, target: str, thread: str, name: str, value: str | None, store: str | None, id_: str | None
) -> Answer:
    """Send a signal to a thread, whichever process drives it. Exit code 1 if it was sent before.

    TARGET is the store, or the thread's graph or runtime, which redacts the value. VALUE is JSON, such as 5, true, '"text"' or '{"a": 1}'; without it, the node gets None.
    """
    payload = None if value is None else parsed(value, "VALUE", A_TEXT)
    with opened_any(target, store) as runtime:
        stored = runtime.signal(thread, name, payload, id=id_)
    if not stored:
        output.note((f"{thread} has got a signal with the id {id_} before.", "warn"))
    message = f"{name} to {thread}" if stored else f"{name} was not sent again"
    return Answer(
        data={"thread": thread, "name": name, "kept": stored},
        lines=lambda width: views.beside(("✓", "good") if stored else ("-", "faint"), message, width),
        code=exits.OK if stored else exits.FAILED,
    )
