"""`start`, `worker` and `trace`: start runs for workers, drive them, and export their traces."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from graphrt.cli import exits, watching
from graphrt.cli.command import Command
from graphrt.cli.documents import assignments, seconds
from graphrt.cli.opening import STORE, TARGET, THREAD, check_is_shared, opened_runtime, runtime_options
from graphrt.cli.output import Answer, Output
from graphrt.cli.run import IF_EXISTS, input_of
from graphrt.cli.targets import load
from graphrt.errors import a_type
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.runtime import IfExists


@click.command("start", cls=Command)
@TARGET
@click.option(
    "--input", "-i", "source", metavar="FILE", help="The input: a JSON object in a file, or - for standard input."
)
@click.option("--set", "fields", multiple=True, metavar="FIELD=TEXT", help="A field of the input, as text.")
@click.option("--thread", metavar="ID", help="The thread to run on.")
@IF_EXISTS
@click.option("--title", help="Title of the thread.")
@click.option("--tag", "tags", multiple=True, help="A tag of the thread; may be given several times.")
@click.option("--priority", type=int, default=0, help="Workers take threads of a higher one first.")
@STORE
def start(
    target: str, source: str | None, fields: tuple[str, ...], thread: str | None, if_exists: IfExists,
    title: str | None, tags: tuple[str, ...], priority: int, store: str | None,
) -> Answer:  # fmt: skip
    """Start a run, and leave it to a worker."""
    values = input_of(source, fields)
    with opened_runtime(target, store, creates=True) as runtime:
        check_is_shared(target, runtime)
        labels: dict[str, Any] = {"title": title, "tags": tags, "priority": priority}
        id_ = runtime.start(values, thread=thread, if_exists=if_exists, **labels)
        status = runtime.state(id_).status
    return Answer(data={"thread": id_, "status": status}, lines=lambda _width: [[(id_, "title"), f"  {status}"]])


@click.command("worker", cls=Command)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@runtime_options
@click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Threads at once.")
@click.option(
    "--poll",
    type=click.FloatRange(0, min_open=True),
    default=0.1,
    show_default=True,
    help="Seconds between two polls of the store.",
)
@click.option(
    "--max-tries", type=click.IntRange(1), default=5, show_default=True, help="Deaths in a row that park a thread."
)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue whose tasks it runs; may be repeated.")
@click.option("--grace", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds to end supersteps.")
@click.option("--delete-older-than", "age", metavar="TIME",
              help="Delete ended threads that were last written longer ago, such as 90s, 12h or 30d; once an hour.")  # fmt: skip
@click.option(
    "--lease", "lease_s", type=click.FloatRange(0, min_open=True), help="Seconds until a hung worker loses a thread."
)
@click.option(
    "--per-graph", "per_graph", multiple=True, metavar="NAME=N", help="Threads of one graph at once; may be repeated."
)
@click.option("--health-file", metavar="PATH", help="A JSON file with the worker's health, written every 2 seconds.")
@click.pass_obj
def worker(
    output: Output, /, targets: tuple[str, ...], concurrency: int, poll: float, max_tries: int, grace: float,
    queues: tuple[str, ...], age: str | None, per_graph: tuple[str, ...], health_file: str | None, **options: Any,
) -> Answer:  # fmt: skip
    """Drive the threads of a store that are due, until SIGTERM or Ctrl-C. Then hand them over."""
    from graphrt.workers import Retention, Worker

    rules = [] if age is None else [Retention(older_than=seconds(age, "--delete-older-than"))]
    with ExitStack() as stack:
        if not output.quiet:
            stack.enter_context(watching.logged())
        runtimes = [stack.enter_context(opened_runtime(target, creates=True, **options)) for target in targets]
        for target, runtime in zip(targets, runtimes, strict=True):
            check_is_shared(target, runtime)
        working = Worker(
            *runtimes, concurrency=concurrency, poll_s=poll, max_tries=max_tries, queues=queues, retention=rules,
            per_graph=assignments(per_graph, "--per-graph"),
        )  # fmt: skip
        output.note((f"working on {', '.join(runtime.graph.name for runtime in runtimes)}", "good"))
        with watching.health_file(health_file, working.health):
            working.serve(grace_s=grace)
        health = working.health()
    data = {name: getattr(health, name) for name in ("ended", "failed", "parked", "deleted", "tasks_ended")}
    summary = ", ".join(f"{number} {name}" for name, number in data.items())
    return Answer(data=data, lines=lambda _width: [[("stopped", "title"), f"  {summary}"]])


@click.command("trace", cls=Command)
@TARGET
@THREAD
@STORE
@click.option("--provider", metavar="TARGET", help="The tracer provider; the global one if it is left out.")
@click.option("--namespace", default="", help="The namespace of the Tracing of the live runs.")
@click.pass_obj
def trace(output: Output, target: str, thread: str, store: str | None, provider: str | None, namespace: str) -> Answer:
    """Send the trace of a stored thread to OpenTelemetry, with the ids that live runs give it."""
    from graphrt.otel import trace_thread

    tracer_provider: Any = load(provider) if provider else None
    if provider and not callable(getattr(tracer_provider, "get_tracer", None)):
        raise INVALID_ARGUMENT(
            argument="--provider",
            value=provider,
            known=f"it names {a_type(tracer_provider)}",
            wanted="package.module:name, where name is a TracerProvider of OpenTelemetry, or a function that makes one",
        )
    with opened_runtime(target, store) as runtime:
        id_ = trace_thread(runtime, thread, tracer_provider=tracer_provider, namespace=namespace)
    if tracer_provider is None:
        output.note(("sent to the global tracer provider, which keeps nothing unless it is configured", "quiet"))
    # The API has no `force_flush`, which belongs to the SDK. It returns False if an exporter timed out.
    elif (flush := getattr(tracer_provider, "force_flush", None)) is not None and flush() is False:
        output.note(("the provider could not export all spans in time", "warn"))
    return Answer(data={"thread": thread, "trace": id_}, lines=lambda _width: [[(id_, "title")]], code=exits.OK)
