"""`ui`: threads in a browser; and `show --html`: a thread as one file."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from graphrt._overwriting import check_overwritable
from graphrt.cli.command import Command
from graphrt.cli.opening import is_store, opened_any, opened_runtime, opened_store, runtime_options
from graphrt.cli.output import Answer, Output
from graphrt.console import views
from graphrt.errors._codes.stores import CANNOT_WRITE_FILE

TOKEN: Final = "GRAPHRT_UI_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token of the page; without it, one is made and printed."""
_BEGINS: Final = rb"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta http-equiv=\"content-security-policy\""
"""The beginning of every page that `show --html` writes."""
_HOST: Final = "127.0.0.1"
_GRACE_S: Final = 1.0
"""Grace period for open requests at shutdown, in seconds."""


def written(target: str, thread: str, store: str | None, path: str, *, prompts: bool, coverage: str | None) -> Answer:
    """Write a thread as one HTML file.

    Raises:
        InputError: The file cannot be written, there is a file that is not such a page (`path-exists`), or an error of
            `opened_runtime`.
    """
    from graphrt.viewer import html

    with opened_any(target, store) as runtime:
        known = "" if is_store(target) else target  # the target may be a store URL with a password
        text = html(runtime, thread, prompts=prompts, coverage=coverage, target=known)
    data = text.encode()
    try:
        check_overwritable(path, kind="a page of a thread", begins=_BEGINS)
        Path(path).write_bytes(data)
    except OSError as error:
        raise CANNOT_WRITE_FILE(file=path, reason=error.strerror or str(error)) from error
    return Answer(
        data={"thread": thread, "path": path, "bytes": len(data)},
        lines=lambda width: views.beside(("✓", "good"), f"{path}, {len(data):,} bytes", width),
    )


@click.command("ui", cls=Command)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@runtime_options
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8001, show_default=True, help="The port; 0: a free one."
)
@click.option("--act", is_flag=True, help="Answer, retry and cancel from the page; this process continues the threads.")
@click.option("--coverage", metavar="FILE", help="The data of `pytest --graphrt-cov`, laid over the graphs.")
@click.pass_obj
def ui(
    output: Output, /, targets: tuple[str, ...], port: int, act: bool, coverage: str | None, **options: Any
) -> Answer:
    """Show threads in a browser, on this machine, until SIGTERM or Ctrl-C.

    TARGET is a graph, whose threads are shown; more of them may be named. Or it is a store: then all of its threads are
    shown, except for parts that need the code of their graphs. The page listens on loopback and needs the token that is printed.
    """
    from graphrt.serve import LoopbackAccess, serve
    from graphrt.viewer import app

    first, *more = targets
    only_store = is_store(first)
    if more and any(is_store(candidate) for candidate in targets):
        raise click.UsageError("Name one store, or graphs.")
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    url = ""
    with ExitStack() as stack:
        if only_store:
            if act:
                raise click.UsageError("--act runs nodes, which needs the graph as TARGET.")
            shown: Any = stack.enter_context(opened_store(first))
        else:
            shown = [stack.enter_context(opened_runtime(target, **options)) for target in targets]
        application = app(
            shown,
            authorize=LoopbackAccess(token),
            acting="drive" if act else "off",
            prompts=not only_store,
            coverage=coverage,
            target="" if only_store else first,
        )

        def started(at: str) -> None:
            nonlocal url
            url = at
            output.note((f"open {at}/#token={token}", "title"))

        serve(application, host=_HOST, port=port, grace_s=_GRACE_S, started=started)
    return Answer(data={"url": url}, lines=lambda _width: [[("stopped", "title"), f"  {url}"]])
