"""`serve`: threads over HTTP, and a worker that drives them."""

from __future__ import annotations

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from graphrt.cli import watching
from graphrt.cli.command import Command
from graphrt.cli.opening import check_is_shared, opened_runtime, runtime_options
from graphrt.cli.output import Answer, Output
from graphrt.cli.targets import named
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.command_line import AUTHORIZE_NEEDED

if TYPE_CHECKING:
    from graphrt.workers import Worker

TOKEN: Final = "GRAPHRT_SERVE_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token that requests have to send; without it, one is made and printed."""


@click.command("serve", cls=Command)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@runtime_options
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="The port; 0: a free one."
)
@click.option("--no-worker", is_flag=True, help="Drive no threads: leave them to other processes.")
@click.option(
    "--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Threads driven at once, per graph."
)
@click.option("--authorize", metavar="TARGET", help="A function of the request that returns a graphrt.serve.Caller.")
@click.option(
    "--cors", multiple=True, metavar="ORIGIN", help="Origin of pages that may call the server; may be repeated."
)
@click.option(
    "--grace", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds for open work to end."
)
@click.pass_obj
def serve(
    output: Output, /, targets: tuple[str, ...], host: str, port: int, no_worker: bool, concurrency: int,
    authorize: str | None, cors: tuple[str, ...], grace: float, **options: Any,
) -> Answer:  # fmt: skip
    """Serve threads over HTTP, with a worker in the process, until SIGTERM or Ctrl-C.

    Without --authorize, it listens on loopback, and requests need the token that it prints.
    """
    from graphrt.serve import LoopbackAccess, UiMessageChat, app
    from graphrt.serve import serve as serve_http
    from graphrt.serve._access import checked_origins, is_loopback
    from graphrt.workers import Worker

    guard: Any = named(authorize) if authorize else None
    if authorize and not callable(guard):
        raise INVALID_ARGUMENT(
            argument="--authorize", value=authorize, wanted="module:function, a function of a request"
        )
    checked_origins(cors, "--cors")
    given_token = os.environ.get(TOKEN)
    token = given_token or secrets.token_urlsafe(24)
    if guard is None and not is_loopback(host):
        raise AUTHORIZE_NEEDED(host=host)
    access: Any = LoopbackAccess(token, cors=cors) if guard is None else guard
    url = ""
    with ExitStack() as stack:
        if not output.quiet:
            stack.enter_context(watching.logged())
        runtimes = [stack.enter_context(opened_runtime(target, creates=True, **options)) for target in targets]
        for target, runtime in zip(targets, runtimes, strict=True):
            if no_worker:
                check_is_shared(target, runtime)
        workers: list[Worker] = [] if no_worker else [Worker(served, concurrency=concurrency) for served in runtimes]
        chats = {
            served.graph.name: f"/chat/{served.graph.name}"
            for served in runtimes
            if "messages" in served.graph.topology()["state"]
        }
        application = app(
            runtimes,
            authorize=access,
            cors=cors,
            mounts={path: UiMessageChat(name, page=True) for name, path in chats.items()},
            ready=[partial(_works, worker) for worker in workers],
        )

        def started(at: str) -> None:
            nonlocal url
            url = at
            output.note((f"serving {', '.join(served.graph.name for served in runtimes)} at {at}", "good"))
            if guard is None and not given_token:
                output.note((f"Authorization: Bearer {token}", "title"))
            for name, path in chats.items():
                secret = "" if guard is not None or given_token else f"#token={token}"
                output.note((f"chat with {name} at {at}{quote(path)}{secret}", "title"))
            for worker in workers:  # not before the server listens: otherwise a command that fails would run nodes
                worker.start()

        try:
            serve_http(application, host=host, port=port, grace_s=grace, started=started)
        finally:
            # All concurrently: the process has one grace period, not one for each graph.
            with ThreadPoolExecutor(max(1, len(workers))) as pool:
                for done in [pool.submit(worker.stop, grace_s=grace) for worker in workers]:
                    done.result()
    data = {"url": url, "graphs": [served.graph.name for served in runtimes]}
    return Answer(data=data, lines=lambda _width: [[("stopped", "title"), f"  {url}"]])


def _works(worker: Worker) -> bool:
    """Return whether a worker works and reaches its store."""
    return worker.health().ok
