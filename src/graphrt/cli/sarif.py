"""Findings in the Static Analysis Results Interchange Format (OASIS, 2.1.0), in the form that code scanning takes.

Code scanning shows a result only where it has a line, and relates its path to the root of the repository. So every
result has a location, the first line of its target if no other is known. Paths are relative to the current folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import graphrt
from graphrt.errors._page import sections

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def report(checked: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the SARIF log of the findings of `check`: one run, with a rule for each code."""
    problems = [(entry["target"], problem) for entry in checked for problem in entry["problems"]]
    results = [_result(target, problem) for target, problem in problems]
    failed = [entry for entry in checked if entry["error"] is not None]
    results += [_failure(entry["target"], entry["error"]) for entry in failed]
    first = {problem["code"]: problem for _, problem in reversed(problems)}
    rules = [_rule(code, first[code]) for code in sorted(first)]
    if failed:
        rules.append({"id": "bad-target", "shortDescription": {"text": "A target cannot be loaded."}})
    driver = {
        "name": "graphrt", "version": graphrt.__version__, "semanticVersion": graphrt.__version__, "rules": rules,
    }  # fmt: skip
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(code: str, problem: Mapping[str, Any]) -> dict[str, Any]:
    title, text = _texts(code, problem)
    return {
        "id": code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": text},
        "help": {"text": text},
        "defaultConfiguration": {"level": problem["level"]},
    }


def _texts(code: str, problem: Mapping[str, Any]) -> tuple[str, str]:
    """Return the title of a code and its description. A problem with a reason comes from a LangGraph graph."""
    if problem["why"]:
        from graphrt.compat.langgraph import RULES

        rule = RULES[code]
        return rule.title, f"{rule.title}. See docs/reference/langgraph-rules.md#{code}."
    text = sections().get(code) or code
    return text.split("\n")[0], f"python -m graphrt.errors {code}"


def _result(target: str, problem: Mapping[str, Any]) -> dict[str, Any]:
    parts = [problem["message"], problem["why"], problem["hint"]]
    file, _, line = problem["where"].rpartition(":")
    where = (_path(target, file), int(line)) if file and line.isdigit() else (_path(target, ""), 1)
    return {
        "ruleId": problem["code"],
        "level": problem["level"],
        "message": {"text": " ".join(part for part in parts if part)},
        "locations": [_location(*where)],
        "properties": {"proved": problem["proved"], "target": target, "graph": problem["graph"]},
    }


def _failure(target: str, error: Any) -> dict[str, Any]:
    return {
        "ruleId": "bad-target",
        "level": "error",
        "message": {"text": error.what},
        "locations": [_location(_path(target, ""), 1)],
    }


def _location(path: str, line: int) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": path}, "region": {"startLine": line}}}


def _path(target: str, file: str) -> str:
    """Return the path of *file* relative to the current folder, as a URI; of the target's own file if *file* is empty.

    Findings of graphrt name files without a folder; they are in the folder of the target.
    """
    place = target.rpartition(":")[0] or target
    is_file = place.endswith((".py", ".json"))
    own = Path(place) if is_file else Path(*place.split(".")).with_suffix(".py")
    resolved = own if not file else Path(file) if Path(file).is_file() else own.parent / file
    resolved = resolved if resolved.is_file() else Path(file or own)
    return resolved.as_uri() if resolved.is_absolute() else resolved.as_posix()
