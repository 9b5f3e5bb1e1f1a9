"""Converts node policies of LangGraph to graphrt: retry, cache, timeout, error handlers and pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph._internal._cache import default_cache_key
from langgraph.errors import NodeTimeoutError
from langgraph.types import RetryPolicy as LangGraphRetry

from graphrt.compat.langgraph import _langgraph as lg
from graphrt.compat.langgraph._read import GraphDescription, Node
from graphrt.compat.langgraph._report import Notes
from graphrt.limits import RetryPolicy


def policies_of(node: Node, graph: GraphDescription, notes: Notes, read: Callable[[Any], Any] | None) -> dict[str, Any]:
    """Return the policy arguments of `add_node` for a node.

    Args:
        node: The node.
        graph: Its graph.
        notes: Collects the omitted features.
        read: Reads the node's input from a state, for the key of a cache; None for a nested graph.
    """
    policies: dict[str, Any] = {}
    if node.defer:
        policies["defer"] = True
    if node.retry:
        policies["retry"] = _retry(node, notes)
    if node.timeout is not None:
        if node.timeout.run_timeout is not None:
            policies["timeout_s"] = node.timeout.run_timeout
        if node.timeout.idle_timeout is not None and node.subgraph is None:
            policies["idle_timeout_s"] = node.timeout.idle_timeout
    if node.error_handler is not None:
        policies["on_error"] = node.error_handler
    if node.cache is not None and graph.cache is not None:
        policies |= _cache(node, notes, read)
    if node.name in graph.interrupt_before:
        policies["interrupt_before"] = True
    if node.name in graph.interrupt_after:
        policies["interrupt_after"] = True
    return policies


def _retry(node: Node, notes: Notes) -> RetryPolicy:
    """Return the retry policy. With several, the first one that matches an error decides whether it is retried."""
    policies: tuple[LangGraphRetry, ...] = node.retry
    first = policies[0]
    if len(policies) > 1:
        notes.differs(
            "several retry policies",
            node.name,
            "an error is retried if one of them fits it, with the attempts and waits of the first one.",
            "Give the node one policy.",
        )
    return RetryPolicy(
        max(policy.max_attempts for policy in policies),
        wait_initial_s=first.initial_interval,
        wait_max_s=first.max_interval,
        growth=max(1.0, first.backoff_factor),
        jitter=first.jitter,
        retry_on=lambda error: any(_fits(policy, as_langgraph(error, node)) for policy in policies),
    )


def as_langgraph(error: BaseException, node: Node) -> BaseException:
    """Return a timeout error as LangGraph's class, which policies and handlers know; any other error unchanged."""
    timeout: Any = node.timeout
    if not isinstance(error, TimeoutError) or timeout is None:
        return error
    idle: Any = timeout.idle_timeout
    run: Any = timeout.run_timeout
    kind: Any = "idle" if run is None or "sign of life" in str(error) else "run"
    elapsed: Any = idle if kind == "idle" else run
    timeout_error: BaseException = NodeTimeoutError(node.name, elapsed, kind=kind, idle_timeout=idle, run_timeout=run)
    timeout_error.__cause__ = error
    return timeout_error


def _fits(policy: LangGraphRetry, error: Any) -> bool:
    on: Any = policy.retry_on
    if lg.is_a(on, type):
        return isinstance(error, on)
    if lg.is_a(on, list, tuple):
        return isinstance(error, tuple(on))
    return bool(on(error))


def _cache(node: Node, notes: Notes, read: Callable[[Any], Any] | None) -> dict[str, Any]:
    """Return the arguments for a cache, which lives in this process and has no time to live."""
    policy: Any = node.cache
    if policy.ttl is not None:
        notes.left_out(
            f"the time to live of its cache, {policy.ttl} s",
            node.name,
            "results are kept in this process until newer ones take their place.",
            "Let the key of the cache have the time, or leave out ttl=.",
        )
    notes.differs(
        f"the cache {type(node.cache).__name__}",
        node.name,
        "results are kept in this process, and not in the cache that the graph was compiled with.",
        "Nothing to do, if one process runs the graph.",
    )
    key_func: Any = policy.key_func
    if key_func is default_cache_key or read is None:
        return {"cache": True}

    def key(state: Any) -> Any:
        """Return LangGraph's key of the node's input."""
        return key_func(read(state))

    return {"cache": True, "key": key}
