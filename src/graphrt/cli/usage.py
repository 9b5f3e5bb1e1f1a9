"""`usage`: sums the usage of model calls from the journals of threads, by node, model, tool and run."""

from __future__ import annotations

import click

from graphrt.cli.command import Command
from graphrt.cli.opening import STORE, TARGET, opened_runtime
from graphrt.cli.output import Answer, Output
from graphrt.console import views
from graphrt.harness import TokenTracker
from graphrt.wires import plain_data


@click.command("usage", cls=Command)
@TARGET
@click.argument("threads", nargs=-1)
@STORE
@click.option("--prefix", metavar="TEXT", help="Without threads: only those whose id begins with this.")
@click.pass_obj
def usage(output: Output, target: str, threads: tuple[str, ...], store: str | None, prefix: str | None) -> Answer:
    """Sum the model calls of threads: of those named, or of all threads of the graph."""
    tracker = TokenTracker()
    with opened_runtime(target, store) as runtime:
        name = runtime.graph.name
        chosen = threads or tuple(info.thread for info in runtime.threads(graph=name, prefix=prefix))
        for number, thread in enumerate(chosen, 1):
            output.busy(f"reading {number:,} of {len(chosen):,}: {thread}")
            tracker.read(runtime.entries(thread))
    by = {"node": tracker.by_node(), "model": tracker.by_model(), "tool": tracker.by_tool(), "run": tracker.by_run()}
    return Answer(
        data={
            "threads": list(chosen),
            "total": plain_data.usage(tracker.total),
            **{
                f"by_{dimension}": {name: plain_data.usage(total) for name, total in sums.items()}
                for dimension, sums in by.items()
            },
        },
        lines=lambda width: views.usage(by, tracker.total, width),
    )
