"""`check`: everything that is wrong with graphs, as text, JSON or SARIF; and whether their threads can go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

import graphrt
from graphrt.cli import exits
from graphrt.cli.command import Command
from graphrt.cli.opening import STORE, opened_store
from graphrt.cli.output import Answer
from graphrt.cli.targets import graph_of
from graphrt.console import counted, views
from graphrt.console.screen import Line
from graphrt.errors import DefinitionError, InputError, Problem
from graphrt.errors._page import sections
from graphrt.runtime import Runtime, Verdict

_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@click.command("check", cls=Command)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@STORE
@click.option("--sarif", is_flag=True, help="Write SARIF 2.1.0, which code scanners read.")
def check(targets: Sequence[str], store: str | None, sarif: bool) -> Answer:
    """Check graphs, and list everything that is wrong with them.

    With --store, also check whether the unfinished threads in it can go on with the graphs.
    """
    checked = [_checked(target, store) for target in targets]
    wrong = any(one["problems"] or not all(thread["ok"] for thread in one["threads"]) for one in checked)
    failed = [one["error"] for one in checked if one["error"] is not None]
    code = exits.USAGE if failed else exits.FAILED if wrong else exits.OK
    return Answer(
        data={
            "targets": [{**one, "error": None if one["error"] is None else str(one["error"].what)} for one in checked]
        },
        lines=lambda width: [line for one in checked for line in _lines(one, width)],
        text=json.dumps(_sarif(checked), indent=2) if sarif else None,
        code=code,
        error=failed[0] if failed else None,
    )


def _checked(target: str, store: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"target": target, "graph": None, "nodes": 0, "problems": [], "threads": [], "error": None}
    try:
        graph, runtime = graph_of(target)
    except DefinitionError as error:
        problems = error.problems or (Problem(code=error.code, message=error.what, where=error.where),)
        return {**found, "problems": [_problem(one) for one in problems]}
    except InputError as error:
        return {**found, "error": error}
    found |= {"graph": graph.name, "nodes": len(graph.nodes), "fingerprint": graph.fingerprint}
    if store is None:
        return found
    if runtime is not None and runtime.store is not None:
        return {**found, "threads": [_verdict(one) for one in runtime.check_threads()]}
    migrations = runtime.migrations if runtime is not None else ()
    with opened_store(store) as opened, Runtime(graph, store=opened, migrations=migrations) as checking:
        ours = {one.thread for one in checking.threads(graph=graph.name)}
        return {**found, "threads": [_verdict(one) for one in checking.check_threads() if one.thread in ours]}


def _problem(one: Problem) -> dict[str, Any]:
    return {"code": one.code, "message": one.message, "node": one.node, "hint": one.hint, "where": one.where}


def _verdict(one: Verdict) -> dict[str, Any]:
    return {"thread": one.thread, "status": one.status, "kind": one.kind, "ok": one.ok,
            "waits_for": one.waits_for or None, "reasons": list(one.reasons), "pending": list(one.pending)}  # fmt: skip


def _lines(one: dict[str, Any], width: int) -> list[Line]:
    if one["error"] is not None:  # written to standard error already
        return []
    if one["problems"]:
        lines = views.beside(("✗", "bad"), f"{one['target']}  {counted(len(one['problems']), 'problem')}", width)
    else:
        lines = views.beside(("✓", "good"), f"{one['target']}  {one['graph']}, {counted(one['nodes'], 'node')}", width)
    for problem in one["problems"]:
        place = f" ({problem['where']})" if problem["where"] else ""
        lines += views.paragraph(f"[{problem['code']}] {problem['message']}{place}", width)
        lines += views.paragraph(f"Fix: {problem['hint']}", width, style="faint") if problem["hint"] else []
    for thread in one["threads"]:
        mark = ("✓", "good") if thread["ok"] else ("✗", "bad")
        lines += views.beside(mark, f"{thread['thread']}  {thread['kind']}", width)
        if thread["waits_for"]:
            lines += views.paragraph(f"It waits for a newer build: {thread['waits_for']}.", width)
        for reason in thread["reasons"]:
            lines += views.paragraph(reason, width, style="faint")
    return lines


def _sarif(checked: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the findings in the Static Analysis Results Interchange Format (OASIS, 2.1.0)."""
    pages = sections()
    codes = sorted({problem["code"] for one in checked for problem in one["problems"]})
    results = [_result(one["target"], problem) for one in checked for problem in one["problems"]]
    results += [
        {"ruleId": "bad-target", "level": "error", "message": {"text": one["error"].what}}
        for one in checked
        if one["error"] is not None
    ]
    rules = [
        {"id": code, "shortDescription": {"text": (pages.get(code) or code).split("\n")[0]},
         "help": {"text": f"python -m graphrt.errors {code}"}}
        for code in codes
    ]  # fmt: skip
    driver = {"name": "graphrt", "version": graphrt.__version__, "rules": rules}
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(target: str, problem: dict[str, Any]) -> dict[str, Any]:
    text = f"{problem['message']}{' ' + problem['hint'] if problem['hint'] else ''}"
    result: dict[str, Any] = {"ruleId": problem["code"], "level": "error", "message": {"text": text}}
    file, _, line = problem["where"].rpartition(":")
    if file and line.isdigit():
        place = {"artifactLocation": {"uri": _uri(target, file)}, "region": {"startLine": int(line)}}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(target: str, file: str) -> str:
    """Return the path of *file* from the current folder: findings name files without their folder."""
    place = target.rpartition(":")[0] or target
    folder = Path(place).parent if place.endswith(".py") else Path(*place.split(".")[:-1]) if "." in place else Path()
    found = folder / file
    return (found if found.is_file() else Path(file)).as_posix()
