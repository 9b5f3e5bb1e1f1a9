"""`builds`: to which builds of a graph its unfinished threads belong, and threads that an older build may drive again.

A subcommand is a line of `COMMANDS`, and is imported when it is called.
"""

from __future__ import annotations

from typing import Any, Final

import click

from graphrt.cli.command import SETTINGS, Command, LazyGroup
from graphrt.cli.opening import STORE, TARGET, opened_runtime
from graphrt.cli.output import Answer
from graphrt.console import counted, views
from graphrt.console.screen import Line
from graphrt.runtime import Compatibility, Runtime

COMMANDS: Final = {
    "list": ("graphrt.cli.builds:list_", "List the builds that the unfinished threads of a graph belong to."),
    "allow": ("graphrt.cli.builds:allow", "Let this build drive the threads that wait for a newer one."),
}
"""Maps a subcommand to its function and the first line of its help."""


@click.group("builds", cls=LazyGroup, table=COMMANDS, context_settings=SETTINGS)
def builds() -> None:
    """Say which builds of a graph its threads belong to, and take a release back."""


@click.command("list", cls=Command)
@TARGET
@STORE
def list_(target: str, store: str | None) -> Answer:
    """List the builds that the unfinished threads of a graph belong to, and which of them this build may drive."""
    with opened_runtime(target, store) as runtime:
        rows = by_build(runtime)
        own = {"version": runtime.graph.version, "fingerprint": runtime.graph.fingerprint}
    return Answer(data={"build": own, "builds": rows}, lines=lambda width: lines_of(rows, width))


@click.command("allow", cls=Command)
@TARGET
@click.argument("threads", nargs=-1, metavar="[THREAD]...")
@STORE
def allow(target: str, threads: tuple[str, ...], store: str | None) -> Answer:
    """Let this build drive the threads that wait for a newer one: all of them, or those that are named.

    For a release that was taken back: the threads belong to this build then, and its workers drive them.
    """
    with opened_runtime(target, store) as runtime:
        candidates = threads or tuple(
            compatibility.thread for compatibility in _of_graph(runtime) if compatibility.waits_for
        )
        allowed = [thread for thread in candidates if runtime.adopt(thread)]
    return Answer(
        data={"allowed": allowed},
        lines=lambda width: views.beside(
            ("✓", "good"), f"{counted(len(allowed), 'thread')} may be driven by this build", width
        ),
    )


def by_build(runtime: Runtime[Any, Any]) -> list[dict[str, Any]]:
    """Return the builds that unfinished threads of the runtime's graph belong to, newest version first."""
    groups: dict[tuple[int, str], list[Compatibility]] = {}
    for compatibility in _of_graph(runtime):
        groups.setdefault((compatibility.version, compatibility.source), []).append(compatibility)
    return [
        {
            "version": version,
            "fingerprint": fingerprint,
            "is_this": fingerprint == runtime.graph.fingerprint and version == runtime.graph.version,
            "threads": len(members),
            "waiting": [compatibility.thread for compatibility in members if compatibility.waits_for],
            "waits_for": next((compatibility.waits_for for compatibility in members if compatibility.waits_for), None),
        }
        for (version, fingerprint), members in sorted(groups.items(), reverse=True)
    ]


def lines_of(found: list[dict[str, Any]], width: int) -> list[Line]:
    """Format the result of `by_build` as lines."""
    lines: list[Line] = []
    for build in found:
        mark = ("○", "warn") if build["waiting"] else ("✓", "good")
        which = "this build" if build["is_this"] else f"fingerprint {build['fingerprint'][:12]}"
        text = f"version {build['version']}, {which}: {counted(build['threads'], 'unfinished thread')}"
        lines += views.beside(mark, text, width)
        if build["waiting"]:
            waiting = f"{counted(len(build['waiting']), 'thread')} waits" if len(build["waiting"]) == 1 else (
                f"{counted(len(build['waiting']), 'thread')} wait"
            )  # fmt: skip
            lines += views.paragraph(f"{waiting} for a newer build: {build['waits_for']}.", width, style="faint")
    return lines or views.paragraph("No thread of this graph is unfinished.", width)


def _of_graph(runtime: Runtime[Any, Any]) -> list[Compatibility]:
    """Return the verdicts on unfinished threads of the runtime's graph; the store may also have threads of others."""
    ours = {info.thread for info in runtime.threads(graph=runtime.graph.name)}
    return [compatibility for compatibility in runtime.check_threads() if compatibility.thread in ours]
