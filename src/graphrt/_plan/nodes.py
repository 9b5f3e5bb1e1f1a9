"""What can be wrong with a node by itself: its name, and the values of its policy. Edges are the business of `validate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from graphrt._plan.specs import NodeSpec
from graphrt._plan.state import short
from graphrt.limits import limit_problem

MAX_NAME: Final = 500
"""Characters of a node's name at the most."""


def name_problem(name: object) -> str | None:
    """Why *name* cannot be the name of a node, or None."""
    if not isinstance(name, str):
        return f"it is no string but of type {type(name).__name__}"
    if not name.strip():
        return "it is empty"
    if len(name) > MAX_NAME:
        return f"it has {len(name)} characters"
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            return "it has a lone surrogate"
    return None


def policy_problems(node: NodeSpec) -> Iterator[tuple[str, str]]:
    """(code, what is wrong) for the values of a node's policy."""
    policy = node.policy
    limits: list[str | None] = []
    if policy.max_visits != "graph":
        limits.append(limit_problem("max_visits", policy.max_visits, optional=True, least=1))
    limits.append(limit_problem("timeout_s", policy.timeout_s, optional=True, seconds=True))
    if policy.retry is not None:
        limits += [f"retry: {text}" for text in policy.retry.problems()]
    if policy.cache is not False and policy.cache is not True:
        limits.append(limit_problem("cache", policy.cache, optional=False, least=1))
    yield from (("bad-limit", text) for text in limits if text)
    for option in ("interrupt_before", "interrupt_after"):
        value = getattr(policy, option)
        if not isinstance(value, bool):
            yield "bad-policy", f"{option} must be True or False, not {short(value)}"
    version: Any = policy.version
    if version is not None and not isinstance(version, str):
        yield "bad-policy", f"version must be a string, not {short(version)}"
    if policy.key is not None and not callable(policy.key):
        yield "bad-policy", f"key must be a function of the state, not {short(policy.key)}"
    elif policy.key is not None and policy.cache is False:
        yield "bad-policy", "key= says nothing without cache="
    if getattr(node.fn, "__graphrt_plan__", None) is None:
        for option in ("input", "output"):
            if getattr(policy, option) is not None:
                yield "bad-policy", f"{option}= is for nested graphs, and this node is a function"
