"""`check`: all problems of graphs, as text, JSON or SARIF, and whether their threads can continue.

A target is a graph of graphrt or of LangGraph, or a file: `langgraph.json`, which names graphs, or a manifest of
graphrt. The result for a target is a mapping, as it is in the document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import click

from graphrt.cli import exits
from graphrt.cli.command import Command
from graphrt.cli.documents import read_json
from graphrt.cli.opening import STORE, opened_store
from graphrt.cli.output import Answer
from graphrt.cli.sarif import report
from graphrt.cli.targets import file_of, graph_in, is_of_langgraph, load, short_path
from graphrt.console import counted, views
from graphrt.console.screen import Line
from graphrt.errors import DefinitionError, InputError, Problem
from graphrt.errors._codes.arguments import UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.command_line import BAD_TARGET
from graphrt.errors._page import sections
from graphrt.graph import GraphBuilder
from graphrt.nodes import registry as ready_made
from graphrt.runtime import Compatibility, Runtime
from graphrt.specs import Registry

_MARKS: Final = {"error": ("✗", "bad"), "warning": ("!", "warn"), "note": ("·", "faint")}
_FAILING: Final = ("error", "warning")


@click.command("check", cls=Command)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@STORE
@click.option("--sarif", is_flag=True, help="Write SARIF 2.1.0, which code scanners read.")
@click.option("--allow", multiple=True, metavar="CODE", help="Accept findings with this code. May be repeated.")
@click.option("--strict", is_flag=True, help="Let findings that are only possible fail the check too.")
@click.option(
    "--registry",
    metavar="MODULE:NAME",
    help="Registry of the names in a manifest; by default that of the ready-made nodes.",
)
def check(
    targets: Sequence[str], store: str | None, sarif: bool, allow: Sequence[str], strict: bool, registry: str | None
) -> Answer:
    """Check graphs, and list all their problems.

    A target may be a graph of LangGraph, a langgraph.json, or a manifest of graphrt. No node is run.

    With --store, also check whether the unfinished threads in it can continue with the graphs.
    """
    _check_codes(allow)
    checked = [result for target in targets for result in _expanded(target, store, registry)]
    for result in checked:
        result["problems"] = [problem for problem in result["problems"] if problem["code"] not in allow]
    failing = (*_FAILING, "note") if strict else _FAILING
    wrong = any(
        any(problem["level"] in failing for problem in result["problems"])
        or not all(thread["ok"] for thread in result["threads"])
        for result in checked
    )  # fmt: skip
    failed = [result["error"] for result in checked if result["error"] is not None]
    code = exits.USAGE if failed else exits.FAILED if wrong else exits.OK
    return Answer(
        data={
            "targets": [
                {**result, "error": None if result["error"] is None else str(result["error"].what)}
                for result in checked
            ]
        },
        lines=lambda width: [line for result in checked for line in _lines(result, width, failed[:1])],
        text=json.dumps(report(checked), indent=2) if sarif else None,
        code=code,
        error=failed[0] if failed else None,
    )


def _check_codes(allow: Sequence[str]) -> None:
    """Raise an error for an unknown code: a misspelt code would silently accept nothing."""
    known = set(sections()) | set(_rules())
    for code in allow:
        if code not in known:
            raise UNKNOWN_NAME_IN_ARGUMENT(
                argument="--allow", name=code, what="code of a finding", known_names=sorted(known), value=code
            )


def _rules() -> Sequence[str]:
    """Return the codes of the rules for graphs of LangGraph; none if LangGraph is not installed."""
    try:
        from graphrt.compat.langgraph import RULES
    except InputError:
        return ()
    return tuple(RULES)


def _expanded(target: str, store: str | None, registry: str | None) -> list[dict[str, Any]]:
    """Return the results for a target: one graph, or those that a `langgraph.json` names."""
    if not target.endswith(".json"):
        return [_checked(target, store)]
    try:
        document: Any = read_json(target)
        graphs: Any = document.get("graphs") if _is_mapping(document) else None
        if _is_mapping(graphs):
            return [_checked(graph_target, store) for graph_target in _graphs_of(target, graphs)]
        return [_checked_manifest(target, document, registry)]
    except InputError as error:
        return [{**_unchecked(target), "error": error}]


def _graphs_of(file: str, graphs: dict[str, Any]) -> list[str]:
    """Return the targets in a `langgraph.json`: texts like `./src/agent.py:graph`, or mappings with such a `path`."""
    folder = file.replace("\\", "/").rpartition("/")[0]
    targets: list[str] = []
    for name, value in graphs.items():
        place: Any = value.get("path") if _is_mapping(value) else value
        if not isinstance(place, str):
            raise BAD_TARGET(given=file, problem=f"the entry {name!r} of its graphs has no path", target=file)
        is_file = ".py" in place or "/" in place
        place = place.removeprefix("./")
        targets.append(f"{folder}/{place}" if folder and is_file else place)
    return targets


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _checked_manifest(target: str, document: Any, registry: str | None) -> dict[str, Any]:
    known: Any = ready_made() if registry is None else load(registry)
    if not isinstance(known, Registry):
        raise BAD_TARGET(
            given=registry, problem=f"it is of the type {type(known).__name__}, and no Registry", target=registry
        )
    result = _unchecked(target)
    try:
        graph = GraphBuilder[Any, Any].from_spec(document, known).compile()
    except DefinitionError as error:
        return {**result, "problems": _problems_of(error)}
    return {**result, "graph": graph.name, "nodes": len(graph.nodes), "fingerprint": graph.fingerprint}


def _unchecked(target: str) -> dict[str, Any]:
    return {"target": target, "graph": None, "nodes": 0, "problems": [], "threads": [], "error": None}


def _checked(target: str, store: str | None) -> dict[str, Any]:
    result = _unchecked(target)
    try:
        value = load(target)
        if is_of_langgraph(value):
            return {**result, **_of_langgraph(target, value)}
        graph, runtime = graph_in(target, value)
    except DefinitionError as error:
        return {**result, "problems": _problems_of(error)}
    except InputError as error:
        return {**result, "error": error}
    result |= {"graph": graph.name, "nodes": len(graph.nodes), "fingerprint": graph.fingerprint}
    if store is None:
        return result
    if runtime is not None and runtime.store is not None:
        return {**result, "threads": [_verdict(compatibility) for compatibility in runtime.check_threads()]}
    migrations = runtime.migrations if runtime is not None else ()
    with opened_store(store) as opened, Runtime(graph, store=opened, migrations=migrations) as checking:
        ours = {info.thread for info in checking.threads(graph=graph.name)}
        return {
            **result,
            "threads": [
                _verdict(compatibility) for compatibility in checking.check_threads() if compatibility.thread in ours
            ],
        }


def _of_langgraph(target: str, graph: Any) -> dict[str, Any]:
    """Return the report on a LangGraph graph."""
    from graphrt.compat.langgraph import check as check_graph

    findings = check_graph(graph, file=file_of(target))
    nodes = getattr(graph, "builder", graph).nodes
    return {
        "graph": getattr(graph, "name", None) or "LangGraph",
        "nodes": len(nodes),
        "problems": [
            {
                "code": finding.code, "level": finding.level, "proved": finding.proved, "message": finding.message,
                "node": finding.node, "graph": finding.graph, "why": finding.why, "hint": finding.fix,
                "where": "" if finding.place is None else f"{short_path(finding.place.file)}:{finding.place.line}",
            }
            for finding in findings
        ],
    }  # fmt: skip


def _problems_of(error: DefinitionError) -> list[dict[str, Any]]:
    problems = error.problems or (Problem(code=error.code, message=error.what, where=error.where),)
    return [
        {"code": problem.code, "level": "error", "proved": True, "message": problem.message, "node": problem.node,
         "graph": "", "why": "", "hint": problem.hint, "where": problem.where}
        for problem in problems
    ]  # fmt: skip


def _verdict(compatibility: Compatibility) -> dict[str, Any]:
    return {"thread": compatibility.thread, "status": compatibility.status, "kind": compatibility.kind,
            "ok": compatibility.ok, "waits_for": compatibility.waits_for or None,
            "reasons": list(compatibility.reasons), "pending": list(compatibility.pending)}  # fmt: skip


def _lines(result: dict[str, Any], width: int, written: Sequence[Exception]) -> list[Line]:
    """Return the lines for one target; *written* has the error that goes to standard error."""
    lines: list[Line] = []
    if (error := result["error"]) is not None:
        return lines if error in written else views.beside(_MARKS["error"], f"{result['target']}  {error.what}", width)
    problems = result["problems"]
    if result["graph"] is None:
        lines += views.beside(_MARKS["error"], f"{result['target']}  {counted(len(problems), 'problem')}", width)
    else:
        worst = next((level for level in _MARKS if any(problem["level"] == level for problem in problems)), "")
        facts = f"{result['graph']}, {counted(result['nodes'], 'node')}"
        facts += f", {counted(len(problems), 'finding')}" if problems else ""
        lines += views.beside(_MARKS.get(worst, ("✓", "good")), f"{result['target']}  {facts}", width)
    for problem in problems:
        place = f" ({problem['where']})" if problem["where"] else ""
        inner = f" in {problem['graph']}" if problem["graph"] else ""
        possible = "" if problem["proved"] else "Possible: "
        lines += views.paragraph(f"[{problem['code']}]{inner} {possible}{problem['message']}{place}", width)
        for label, key in (("Why", "why"), ("Fix", "hint")):
            lines += views.paragraph(f"{label}: {problem[key]}", width, style="faint") if problem[key] else []
    for thread in result["threads"]:
        mark = ("✓", "good") if thread["ok"] else ("✗", "bad")
        lines += views.beside(mark, f"{thread['thread']}  {thread['kind']}", width)
        if thread["waits_for"]:
            lines += views.paragraph(f"It waits for a newer build: {thread['waits_for']}.", width)
        for reason in thread["reasons"]:
            lines += views.paragraph(reason, width, style="faint")
    return lines
