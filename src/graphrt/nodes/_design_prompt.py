"""The request to a designer, and its prompt for a model: the task, the allowed parts, the refused designs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphrt.errors import Problem
from graphrt.nodes._topology_validator import TopologyValidator
from graphrt.specs import Registry, Section

_RULES = """\
Design a graph of nodes for this task, as one JSON object that fits the schema.
- Each node has a unique "name", a "kind", and the fields of its kind.
- "edges" lead from "START" through the nodes to "END": {"from": "START", "to": "first"}.
- A text with a field of the state in braces, such as {topic}, gets its value. No other form of braces is filled."""
_MOST = 8_000
"""Maximum number of characters of the last design that the prompt repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRequest:
    """The request to a designer."""

    attempt: int
    """Number of the attempt, from 1."""
    problems: tuple[Problem, ...]
    """Why the previous design was refused; empty in the first attempt."""
    schema: Mapping[str, Any]
    """JSON schema of allowed designs."""
    registry: Registry
    """The things that a design may use."""
    validator: TopologyValidator


def request_text(task: str, request: DesignRequest, before: Any) -> str:
    """Return the whole prompt.

    Args:
        task: The filled prompt of the node.
        request: What is allowed, and the problems of the last design.
        before: The last design, or a text in its place; None in the first attempt.
    """
    rules = request.validator
    parts = [task, _RULES, "You may use only this:", *_allowed(request)]
    parts.append(
        f"At most {rules.max_nodes} nodes, {rules.max_fan_out} at once, {rules.max_depth} levels of nested graphs, "
        f"{rules.max_prompt} characters in a text. Loops need a conditional edge that leads out."
    )
    if request.problems:
        points = [
            f"- {problem.where or 'the design'}: {problem.message} {problem.hint}".rstrip()
            for problem in request.problems
        ]
        parts += ["Your last design was refused. Correct every point:", *points]
        if before is not None:
            parts.append(f"It was: {json.dumps(before, ensure_ascii=False)[:_MOST]}")
    return "\n".join(parts)


def _allowed(request: DesignRequest) -> list[str]:
    rules, registry = request.validator, request.registry
    lines = [f"- kinds of nodes: {_names(registry.kinds)}"]
    lines += [f"- fields that may be read: {_names((*rules.reads, *rules.writes))}"]
    lines += [f"- fields that may be written: {_names(rules.writes)}"]
    for word, known in (("tool", registry.section("tools")), ("function", registry.section("functions"))):
        lines += [f"- {word} {name}{_signature(entry)}{_purpose(entry)}" for name, entry in known.items()]
    sections: tuple[Section, ...] = ("routers", "models", "agents", "graphs", "types")
    for section in sections:
        names = list(registry.section(section))
        if names:
            lines.append(f"- {section}: {_names(names)}")
    if rules.queues:
        lines.append(f"- queues that a policy may name: {_names(rules.queues)}")
    return lines


def _names(names: Any) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"


def _signature(fn: Any) -> str:
    try:
        return f"({', '.join(inspect.signature(fn).parameters)})"
    except (TypeError, ValueError):
        return ""


def _purpose(fn: Any) -> str:
    lines = (inspect.getdoc(fn) or "").strip().splitlines()
    return f": {lines[0]}" if lines else ""
