"""`doctor`: checks the installation, and verifies a whole database. It inspects extras without importing them."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import click

import graphrt
from graphrt.cli import exits
from graphrt.cli.builds import by_build, lines_of
from graphrt.cli.command import Command
from graphrt.cli.opening import STORE, opened_store
from graphrt.cli.output import Answer, Output
from graphrt.cli.targets import graph_of
from graphrt.console import counted, views
from graphrt.console.screen import Line
from graphrt.runtime import Runtime
from graphrt.stores import Store, Verification
from graphrt.stores._verifying import verify

EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "cli": ("click", "rich"),
    "litellm": ("litellm",),
    "postgres": ("psycopg",),
    "crypto": ("cryptography",),
    "dbos": ("dbos",),
    "schedule": ("cronsim", "tzdata"),
    "regex-search": ("google-re2",),
    "serve": ("starlette", "uvicorn", "httpx"),
    "tools": ("griffelib",),
    "mcp": ("mcp",),
    "otel": ("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
    "langgraph": ("langgraph",),
    "testing": ("hypothesis",),
}
"""Maps an extra to the distributions that it needs."""
_GUARDS: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
"""Settings that the adapter makes before it imports litellm, unless the environment overrides them."""


@click.command("doctor", cls=Command)
@STORE
@click.option(
    "--replay", metavar="TARGET", help="Also replay the threads of this graph, and list the builds that they belong to."
)
@click.pass_obj
def doctor(output: Output, store: str | None, replay: str | None) -> Answer:
    """Check the installation; with --store, read a whole database and check that it is intact.

    Exit code 3 if something in the database is damaged, 1 if something is wrong with the installation.
    """
    installed = _installation()
    report = _verified(output, store, replay) if store else None
    builds = _builds(store, replay) if store and replay else []
    wrong = [check for check in installed["checks"] if not check["ok"]]
    code = exits.INTEGRITY if report is not None and not report.ok else exits.FAILED if wrong else exits.OK
    data = {**installed, "database": None if report is None else {**_report(report), "builds": builds}}
    return Answer(data=data, lines=lambda width: _lines(data, width), code=code)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _installation() -> dict[str, Any]:
    checks: list[dict[str, Any]] = []

    def check(subject: str, description: str, *, ok: bool) -> None:
        checks.append({"what": subject, "told": description, "ok": ok})

    check("python", f"{platform.python_implementation()} {platform.python_version()}", ok=True)
    check("pydantic", _version("pydantic") or "missing", ok=_version("pydantic") is not None)
    check("sqlite", sqlite3.sqlite_version, ok=sqlite3.sqlite_version_info >= (3, 35))
    litellm = _version("litellm")
    if litellm is not None:
        broken = litellm.startswith("1.106.")
        check("litellm", f"{litellm}{': it cannot make calls with tools' if broken else ''}", ok=not broken)
        for name, guard in _GUARDS.items():
            current = os.environ.get(name)
            description = (
                f"{current!r}, by the environment"
                if current is not None
                else f"{guard!r}, set before litellm is imported"
            )
            check(name, description, ok=current is None or current.lower() == guard.lower())
    extras = {extra: {package: _version(package) for package in packages} for extra, packages in EXTRAS.items()}
    return {"graphrt": graphrt.__version__, "platform": platform.platform(), "checks": checks, "extras": extras}


def _verified(output: Output, store: str, replay: str | None) -> Verification:
    graph = graph_of(replay)[0] if replay else None
    read = 0

    with opened_store(store) as opened:

        def further(source: Store, thread: str) -> None:
            nonlocal read
            read += 1
            output.busy(f"verifying: {counted(read, 'thread')}")
            if graph is not None and source.head(thread).graph == graph.name:
                with Runtime(graph, store=source) as runtime:
                    runtime.replay(thread)

        output.busy("verifying")
        try:
            return verify(opened, further)
        finally:
            output.busy(None)


def _builds(store: str, replay: str) -> list[dict[str, Any]]:
    """Return the builds that unfinished threads of the graph belong to; see `graphrt builds list`."""
    with opened_store(store) as opened, Runtime(graph_of(replay)[0], store=opened) as runtime:
        return by_build(runtime)


def _report(report: Verification) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "threads": report.threads,
        "entries": report.entries,
        "damaged": list(report.damaged),
        "findings": [finding._asdict() for finding in report.findings],
    }


def _lines(data: dict[str, Any], width: int) -> list[Line]:
    lines = views.beside((f"graphrt {data['graphrt']}", "title"), data["platform"], width)
    for check in data["checks"]:
        mark = ("✓", "good") if check["ok"] else ("✗", "bad")
        lines += views.beside(mark, f"{check['what']}  {check['told']}", width)
    for extra, packages in data["extras"].items():
        mark = ("✓", "good") if all(packages.values()) else ("○", "faint")
        versions = (
            ", ".join(f"{name} {installed}" for name, installed in packages.items() if installed) or "not installed"
        )
        lines += views.beside(mark, f"extra {extra}  {versions}", width)
    report = data["database"]
    if report is None:
        return lines
    mark = ("✓ sound", "verdict-good") if report["ok"] else ("✗ damaged", "verdict-bad")
    entries = f"{report['entries']:,} {'entry' if report['entries'] == 1 else 'entries'}"
    lines += [[], *views.beside(mark, f"{counted(report['threads'], 'thread')}, {entries}", width)]
    for finding in report["findings"]:
        place = f"{finding['thread']}: " if finding["thread"] else ""
        style = "bad" if finding["kind"] == "damage" else "faint"
        lines += views.paragraph(f"[{finding['code']}] {place}{finding['what']}", width, style=style)
    return lines + (lines_of(report["builds"], width) if report["builds"] else [])
