"""`threads`, `show`, `log`, `diff` and `why` inspect threads; `fork` and `cancel` are the edits that run no node."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, get_args

import click

from graphrt.cli import exits
from graphrt.cli.command import Command
from graphrt.cli.opening import LISTED, STORE, TARGET, THREAD, is_store, opened_any, opened_runtime, threads_of, way_on
from graphrt.cli.output import Answer, Output
from graphrt.console import counted, moment, views
from graphrt.errors import GraphrtError, closest
from graphrt.errors._codes.arguments import UNKNOWN_NAME_IN_ARGUMENT
from graphrt.events import (
    Event,
    RunStarted,
    SuperstepAbandoned,
    SuperstepCommitted,
    TaskSucceeded,
    ThreadMigrated,
    ThreadUpdated,
    Usage,
    event_kind,
)
from graphrt.runtime import Provenance, Runtime
from graphrt.stores import Status
from graphrt.wires import plain_data

EVENT_KINDS: Final = [event_kind(kind.__new__(kind)) for kind in get_args(Event)]
"""Names that `--event` accepts."""
_ASKED_S: Final = 5.0
"""Seconds that `cancel` waits for the run of another process to end."""


@click.command("threads", cls=Command)
@LISTED
@STORE
@click.option("--status", type=click.Choice(get_args(Status)), help="Only threads with this status.")
@click.option("--graph", metavar="NAME", help="Only threads of the graph with this name.")
@click.option("--prefix", metavar="TEXT", help="Only threads whose id begins with this.")
@click.option("--after", metavar="ID", help="Only threads that were created after this one.")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows.")
def threads(target: str | None, store: str | None, **filters: Any) -> Answer:
    """List the threads of a store. TARGET is the store; or a graph, whose threads are listed."""
    with threads_of(target, store) as (runtime, graph):
        selection: dict[str, Any] = {**filters, "graph": filters["graph"] or graph}
        infos = runtime.threads(**selection)
    return Answer(
        data={"threads": [plain_data.thread(info) for info in infos]},
        lines=lambda width: [*views.threads(infos, width), [(counted(len(infos), "thread"), "faint")]],
    )


@click.command("show", cls=Command)
@TARGET
@THREAD
@STORE
@click.option("--at", type=click.IntRange(min=1), metavar="ENTRY", help="As it was after this entry.")
@click.option("--history", "past", is_flag=True, help="List its past states too.")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of past states.")
@click.option(
    "--html", metavar="FILE", help="Write the thread as one HTML page, which needs no server, over an earlier one."
)
@click.option(
    "--prompts", is_flag=True, help="With --html: rebuild prompts, which runs nodes again on the recorded data."
)
@click.option(
    "--coverage", metavar="FILE", help="With --html: the data of `pytest --graphrt-cov`, laid over the graph."
)
def show(
    target: str, thread: str, store: str | None, at: int | None, past: bool, limit: int | None, html: str | None,
    prompts: bool, coverage: str | None,
) -> Answer:  # fmt: skip
    """Show a thread: its state, its next nodes, its questions.

    TARGET is the thread's graph, or the store, which shows the last write to each field without reducers.
    """
    if html is not None:
        from graphrt.cli.viewing import written  # few commands make pages

        if at is not None or past or limit is not None:
            raise click.UsageError("--html writes the whole thread: leave out --at, --history and --limit.")
        return written(target, thread, store, html, prompts=prompts, coverage=coverage)
    if prompts or coverage:
        raise click.UsageError("--prompts and --coverage are for --html.")
    if is_store(target):
        if at is not None or past:
            raise click.UsageError("--at and --history fold the state, which needs the graph as TARGET.")
        with opened_any(target, store) as runtime:
            return _without_graph(runtime, thread)
    with opened_runtime(target, store) as runtime:
        snapshot = runtime.state(thread, at=at)
        history = runtime.history(thread, limit=limit) if past else ()
        data = plain_data.snapshot(snapshot)
    if past:
        data["history"] = [plain_data.snapshot(earlier, values=False) for earlier in history]
    return Answer(
        data=data,
        lines=lambda width: [
            *views.snapshot(snapshot, width),
            *([[], *views.history(history, width)] if past else []),
        ],
    )


def _without_graph(runtime: Runtime[Any, Any], thread: str) -> Answer:
    """Return the thread's state according to its entries, without the classes and reducers of its graph."""
    entries = tuple(runtime.entries(thread, raw=True))  # raises if there is no such thread
    info = next(candidate for candidate in runtime.threads(prefix=thread) if candidate.thread == thread)
    events = [entry.event for entry in entries if not entry.path]
    commits = [event for event in events if isinstance(event, SuperstepCommitted | ThreadUpdated)]
    steps = [event.superstep for event in events if isinstance(event, SuperstepCommitted)]
    due = list(commits[-1].next or ()) if commits and info.status != "completed" else []
    error = info.error  # read while the store is open; the lines are made after it is closed
    usage = sum(
        (event.usage for event in events if isinstance(event, TaskSucceeded) and event.usage is not None), Usage()
    )
    interrupts = [item.interrupt for item in runtime.inbox(graph=info.graph, limit=None) if item.thread == thread]
    state: dict[str, Any] = {}
    for event in events:
        for update in _written(event):
            state |= {name: plain_data.untagged(value) for name, value in update.items()}
    data = {
        **{name: getattr(info, name) for name in ("thread", "status", "seq")},
        "at": info.updated_at,
        "superstep": (steps[-1] if steps else 0) + bool(due),
        "run": entries[-1].run,
        "next": due,
        "tasks": None,  # outcomes of an open superstep are staged in a form that needs the graph
        "error": error,
        "usage": plain_data.usage(usage),
        "interrupts": [plain_data.question(item, typed=False) for item in interrupts],
        "state": state,
    }
    note = "without the graph, each field has its last written value: reducers were not applied"
    return Answer(
        data=data,
        lines=lambda width: [
            *views.beside(views.status_segment(info.status), f"thread {thread} of {info.graph}", width),
            *views.paragraph(f"entry {info.seq}, {moment(info.updated_at)}", width, style="faint"),
            *(views.paragraph(f"next: {', '.join(due)}", width) if due else []),
            *(views.paragraph(error, width, style="bad") if error else []),
            *views.questions(interrupts, width),
            [],
            *views.state(state, width),
            *views.paragraph(note, width, style="faint"),
        ],
    )


def _written(event: Event) -> tuple[Any, ...]:
    """Return the updates in an event of the top-level graph, oldest first, as mappings of fields."""
    match event:
        case RunStarted():
            return (event.input,)
        case TaskSucceeded():
            return event.updates
        case ThreadUpdated() | ThreadMigrated():
            return (event.values,)
        case SuperstepAbandoned():
            return (event.said,)
        case _:
            return ()


@click.command("log", cls=Command)
@TARGET
@THREAD
@STORE
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="ENTRY", help="Only entries after this one.")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows.")
@click.option("--event", "kinds", multiple=True, metavar="KIND", help="Only events of this kind, such as task-failed.")
def log(target: str, thread: str, store: str | None, after: int, limit: int | None, kinds: tuple[str, ...]) -> Answer:
    """Show the journal of a thread. TARGET is the thread's graph; or the store, with values as they are stored."""
    for kind in kinds:
        if kind not in EVENT_KINDS:
            raise UNKNOWN_NAME_IN_ARGUMENT(
                argument="--event",
                name=kind,
                what="kind of event",
                known_names=EVENT_KINDS,
                guess=closest(kind, EVENT_KINDS),
            )
    with opened_any(target, store) as runtime:
        every = runtime.entries(thread, after=after, raw=is_store(target))
        chosen = (entry for entry in every if not kinds or event_kind(entry.event) in kinds)
        entries = list(islice(chosen, limit))
    return Answer(
        data={"thread": thread, "entries": [plain_data.entry(entry) for entry in entries]},
        lines=lambda width: views.log(entries, width),
    )


@click.command("diff", cls=Command)
@TARGET
@THREAD
@click.argument("other")
@STORE
@click.option("--run", metavar="ID", help="Compare this run of the first thread only.")
@click.option("--other-run", metavar="ID", help="Compare this run of the other thread only.")
def diff(target: str, thread: str, other: str, store: str | None, run: str | None, other_run: str | None) -> Answer:
    """Find where two threads first differ. Exit code 1 if they do."""
    with opened_runtime(target, store) as runtime:
        divergence = runtime.diff(thread, other, run=run, other_run=other_run)
    data = {
        "same": divergence is None,
        "left": plain_data.entry(divergence.left) if divergence is not None and divergence.left is not None else None,
        "right": plain_data.entry(divergence.right)
        if divergence is not None and divergence.right is not None
        else None,
        "fields": list(divergence.fields) if divergence is not None else [],
    }
    code = exits.OK if divergence is None else exits.FAILED
    return Answer(data=data, lines=lambda width: views.divergence(divergence, width), code=code)


@click.command("why", cls=Command)
@TARGET
@THREAD
@click.argument("field")
@STORE
@click.option("--at", type=click.IntRange(min=1), metavar="ENTRY", help="The value after this entry.")
def why(target: str, thread: str, field: str, store: str | None, at: int | None) -> Answer:
    """Explain where the value of a field came from, back to the input."""
    with opened_runtime(target, store) as runtime:
        provenance = runtime.why(thread, field, at=at)
    return Answer(data=partial(_provenance, provenance), lines=lambda width: views.why(provenance, width))


def _provenance(provenance: Provenance) -> dict[str, Any]:
    """Return the data of `why`: each write names all its inputs, so its size is quadratic in the number of writes."""
    return {
        "thread": provenance.thread,
        "field": provenance.field,
        "at": provenance.at,
        "writes": [write.seq for write in provenance.writes],
        "all": [_write(write) for write in provenance.all()],
    }


def _write(write: Any) -> dict[str, Any]:
    names = ("field", "kind", "seq", "at", "run", "node", "task", "user")
    return {
        **{name: getattr(write, name) for name in names},
        "value": plain_data.plain(write.value),
        "calls": [plain_data.entry(call) for call in write.calls],
        "inputs": [source.seq for source in write.inputs],
    }


@click.command("fork", cls=Command)
@TARGET
@THREAD
@STORE
@click.option("--at", type=click.IntRange(min=1), metavar="ENTRY", help="Fork the state after this entry.")
@click.option("--to", metavar="ID", help="Id of the new thread.")
@click.option("--keep-effects", is_flag=True, help="Give the first superstep the effects and answers it had.")
def fork(target: str, thread: str, store: str | None, at: int | None, to: str | None, keep_effects: bool) -> Answer:
    """Create a thread from an entry of another thread. The old thread stays as it is."""
    with opened_runtime(target, store) as runtime:
        forked = runtime.fork(thread, at=at, to=to, keep_effects=keep_effects)
        snapshot = runtime.state(forked)
        data = {"thread": forked, "source": thread, "status": snapshot.status, "next": list(snapshot.next)}
    # A fork from within a superstep is due, and has no driver.
    verb = {"running": "retry", "interrupted": "resume"}.get(snapshot.status)
    then = f"continue with: {way_on(verb, target, forked)}" if verb is not None else ""
    return Answer(
        data=data,
        lines=lambda width: [
            *views.snapshot(snapshot, width),
            *([[], *views.paragraph(then, width, style="accent")] if then else []),
        ],
    )


@click.command("cancel", cls=Command)
@TARGET
@THREAD
@STORE
@click.pass_obj
def cancel(output: Output, target: str, thread: str, store: str | None) -> Answer:
    """Cancel a paused thread, or the run of another process. Exit code 1 if there is nothing to cancel."""
    with opened_runtime(target, store) as runtime:
        done = runtime.cancel(thread)
        if done:
            with suppress(GraphrtError):  # its driver may take longer, or the run ended otherwise
                runtime.wait(thread, timeout_s=_ASKED_S)
        snapshot = runtime.state(thread)
        data = {"thread": thread, "cancelled": done, "status": snapshot.status}
    if not done:
        output.note((f"{thread} was not cancelled: there is nothing to cancel.", "warn"))
    elif snapshot.status == "running":
        output.note((f"The request is stored. The run of {thread} ends when its open nodes have ended.", "warn"))
    return Answer(
        data=data, lines=lambda width: views.snapshot(snapshot, width), code=exits.OK if done else exits.FAILED
    )
