"""`schedules`: list, add and remove the schedules of a graph.

A subcommand is a line of `COMMANDS`, and is imported when it is called.
"""

from __future__ import annotations

from typing import Any, Final

import click

from graphrt.cli.command import SETTINGS, Command, LazyGroup
from graphrt.cli.opening import STORE, TARGET, check_is_shared, opened_runtime
from graphrt.cli.output import Answer
from graphrt.cli.run import input_of
from graphrt.console import Column, counted, moment, table, views
from graphrt.console.screen import Line, Segment
from graphrt.runtime import Schedule
from graphrt.wires import plain_data

COMMANDS: Final = {
    "list": ("graphrt.cli.schedules:list_", "List the schedules of a graph."),
    "add": ("graphrt.cli.schedules:add", "Start a thread at each time that a cron expression names."),
    "remove": ("graphrt.cli.schedules:remove", "Delete a schedule."),
}
"""Maps a subcommand to its function and the first line of its help."""


@click.group("schedules", cls=LazyGroup, table=COMMANDS, meant={"delete": "remove"}, context_settings=SETTINGS)
def schedules() -> None:
    """List, add and remove schedules, which start threads at the times of a cron expression."""


@click.command("list", cls=Command)
@TARGET
@STORE
def list_(target: str, store: str | None) -> Answer:
    """List the schedules of a graph."""
    with opened_runtime(target, store) as runtime:
        listed = runtime.schedules.list()
    return Answer(
        data={"schedules": [plain_data.schedule(schedule) for schedule in listed]},
        lines=lambda width: _lines(listed, width),
    )


@click.command("add", cls=Command)
@TARGET
@click.argument("name")
@click.argument("cron")
@click.option(
    "--input", "-i", "source", metavar="FILE", help="The input: a JSON object in a file, or - for standard input."
)
@click.option("--set", "fields", multiple=True, metavar="FIELD=TEXT", help="A field of the input, as text.")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="Time zone of CRON.")
@click.option("--missed", type=click.Choice(["once", "all", "skip"]), default="once", show_default=True,
              help="Handling of times at which no worker ran.")  # fmt: skip
@click.option("--title", help="Title of the threads.")
@click.option("--tag", "tags", multiple=True, help="A tag of the threads; may be given several times.")
@click.option("--replace", is_flag=True, help="Replace another schedule of this name.")
@STORE
def add(
    target: str, name: str, cron: str, source: str | None, fields: tuple[str, ...], store: str | None, **options: Any
) -> Answer:
    """Start a thread at each time that a cron expression names, such as '0 9 * * MON-FRI'."""
    values = input_of(source, fields)
    with opened_runtime(target, store, creates=True) as runtime:
        check_is_shared(target, runtime)
        schedule = runtime.schedules.add(name, cron, values, **options)
    return Answer(data=plain_data.schedule(schedule), lines=lambda width: _lines((schedule,), width))


@click.command("remove", cls=Command)
@TARGET
@click.argument("name")
@STORE
def remove(target: str, name: str, store: str | None) -> Answer:
    """Delete a schedule. Threads that it started continue."""
    with opened_runtime(target, store) as runtime:
        runtime.schedules.remove(name)
    return Answer(data={"name": name}, lines=lambda width: views.beside(("✓", "good"), name, width))


def _lines(listed: tuple[Schedule, ...], width: int) -> list[Line]:
    columns = [
        Column(title="schedule", least=max(12, min(24, width - 20)), wrap=True),
        Column(title="cron"),
        Column(title="zone", rank=2),
        Column(title="due", rank=1),
    ]
    rows: list[list[Segment]] = [
        [(schedule.name, "name"), schedule.cron, schedule.timezone, (moment(schedule.due_at), "faint")]
        for schedule in listed
    ]
    return [*table(columns, rows, width), [(counted(len(listed), "schedule"), "faint")]]
