"""The policy arguments of a node: their types for type checkers, and how they are read into a `Policy`.

A policy is how a node is run, apart from its function. A *target* is a node or END.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic

import typing_extensions as te

from graphrt._arguments import is_number
from graphrt._plan.node_attributes import agent_of
from graphrt._plan.specs import Policy, ToolUse
from graphrt.commands import EndType
from graphrt.errors import Problem, closest
from graphrt.errors._codes.findings import (
    POLICY_OF_WRONG_KIND,
    UNKNOWN_POLICY,
)
from graphrt.errors._langgraph_names import POLICIES
from graphrt.graph.handles import S, Target
from graphrt.limits import RetryPolicy, is_queue_name

if TYPE_CHECKING:
    from graphrt._usage.budget import Budget
    from graphrt.harness.tools.protocol import Tool

_OPTIONS = frozenset(Policy.__slots__)
"""Names of all policy arguments."""
_NOTHING = Policy()
"""The policy of a node without arguments, which most nodes share."""


class NodeDefaults(te.TypedDict, total=False):
    """Policy arguments that a builder can set for all of its nodes."""

    retry: RetryPolicy | int | None
    """Which failed attempts are retried, and when; a number sets the number of attempts."""
    timeout_s: float | None
    """Seconds for one attempt; None takes the limit of the run."""
    idle_timeout_s: float | None
    """Seconds that an attempt may go without activity, such as `ctx.heartbeat()`; None means no limit."""
    inline: bool
    """Run a sync node on the event loop under `arun` and the other async verbs, not on a worker thread. For nodes that
    never wait."""
    queue: str | None
    """Name of a queue: on a thread, workers that serve the queue run the node, and the driver waits for them."""
    on_error: Target | None
    """Target if the node fails for good. A target node finds the exception as `ctx.error`."""
    on_fatigue: Target | None
    """Target that runs instead of the node once `max_visits` is reached."""
    max_visits: int | None
    """Number of supersteps in which the node may be active; None means no limit."""
    tools: Iterable[str | Tool]
    """Tools that the agent of the run may use for this node, or their names. By default all of its tools, and in a
    nested graph all that need no approval. An empty list offers none. `compile()` checks the declared reads and writes
    of tools given as objects."""
    budget: Budget | None
    """Limits of the model calls of each task of the node."""


DEFAULTS: Final = frozenset(NodeDefaults.__annotations__)
"""Names of the arguments of `set_node_defaults`."""


class NodePolicy(NodeDefaults, Generic[S], total=False):
    """How a node is run, apart from its function."""

    cache: bool | int
    """Cache results by the node's inputs; a number sets how many results to keep."""
    key: Callable[[S], Hashable] | None
    """Function of the state whose result is the cache key; None uses all inputs."""
    writes: Iterable[str] | None
    """Fields that the node may write, for `compile()` to find conflicts. A write of another field is an UpdateError."""
    goto: Target | Iterable[Target] | None
    """Targets to which the node's Commands may lead."""
    interrupt_before: bool
    """Pause before the node runs."""
    interrupt_after: bool
    """Pause after the node has run and its update was folded."""
    defer: bool
    """Run the node once no other task is due. A Send does not wait."""
    version: str | None
    """Part of the graph's fingerprint: change it when the node's meaning changes."""


class GraphPolicy(NodePolicy[S], total=False):
    """How a nested graph is run, and how its fields map to the fields of this graph."""

    input: Mapping[str, str] | Callable[[S], Any] | Callable[[S, Any], Any] | None
    """Maps fields of the nested graph to fields of this graph, or a function from this state to the nested graph's
    input. A function with two parameters also gets the argument of the Send and returns the whole input."""
    output: Mapping[str, str] | Callable[[Any], Mapping[str, Any]] | None
    """Maps fields of this graph to fields of the nested one, or a function from the nested graph's last state to an
    update."""
    hands_over_to: Target | Iterable[Target] | None
    """Nodes of this graph that Commands with `graph=PARENT` in the nested graph may lead to, in addition to those that
    it declares itself."""
    stateful: str | None
    """Field of this graph that keeps the nested graph's state between tasks; its type is that state or None."""
    update_of: Callable[[Any], Any] | None
    """Function from an update of the nested graph to an update of this one, or to None for no change. Needed if one of
    the two has a reducer of the whole state and the other does not have the same update type."""


def read_policy(
    name: Any,
    arguments: Mapping[str, Any],
    resolve: Callable[[Any], Any],
    where: str,
    *,
    known: Collection[str] = _OPTIONS,
) -> tuple[Policy, list[Problem]]:
    """Return the policy of a node, or the defaults of all nodes, and the problems of its arguments.

    A wrong argument is left out of the policy, so that `compile()` can continue and report all problems at once.
    Arguments not checked here are checked by `compile()`, which knows the whole graph.

    Args:
        name: The node's name.
        arguments: The policy arguments, as the user wrote them.
        resolve: Returns the name of the node that a handle, a string or its function names.
        where: `file:line` of the call.
        known: Names of all valid arguments.
    """
    if not arguments:
        return _NOTHING, []
    node = name if isinstance(name, str) else None  # a name of another type is reported by `compile()`
    options = {option: value for option, value in arguments.items() if option in known}
    problems = [_unknown(name, option, where, known) for option in arguments if option not in known]
    retry = options.get("retry")
    if is_number(retry, whole=True):
        options["retry"] = RetryPolicy(retry)
    elif retry is not None and not isinstance(retry, RetryPolicy):
        options["retry"] = None
        problems.append(
            POLICY_OF_WRONG_KIND(
                name=name,
                option="retry",
                given=retry,
                wanted="RetryPolicy(attempts=...) or a number of attempts",
                node=node,
                where=where,
            )
        )
    for option in ("on_error", "on_fatigue"):
        if option in options:
            options[option] = resolve(options[option])
    for option in ("goto", "hands_over_to"):
        targets: Any = options.get(option)
        if targets is not None:
            options[option] = tuple(resolve(ref) for ref in several(targets))
    writes = options.get("writes")
    if writes is not None:
        options["writes"] = several(writes)
    if "tools" in options:
        tools: Any = options["tools"]
        options["tools"] = several(tools)
        options["tools"] = tuple(_tool_name(tool) for tool in options["tools"])
        invalid = [tool for tool in options["tools"] if not isinstance(tool, str)]
        if invalid:
            options["tools"] = ()
            problems.append(
                POLICY_OF_WRONG_KIND(
                    name=name,
                    option="tools",
                    given=invalid[0],
                    wanted="tools that the agent has, or their names",
                    node=node,
                    where=where,
                )
            )
    problems += _misplaced(name, options, node, where)
    # A `Budget` is recognised by its attribute `limits`, so that its class need not be imported here.
    if options.get("budget") is not None and not hasattr(options["budget"], "limits"):
        problems.append(
            POLICY_OF_WRONG_KIND(
                name=name, option="budget", given=options["budget"], wanted="Budget(tokens=...)", node=node, where=where
            )
        )
        options["budget"] = None
    return Policy(**options), problems


def _tool_name(tool: Any) -> Any:
    """Return the name of a tool given as an object; any other value unchanged."""
    return tool if isinstance(tool, str) else getattr(getattr(tool, "spec", None), "name", tool)


def offered_tools(fn: Any, arguments: Mapping[str, Any]) -> tuple[ToolUse, ...]:
    """Return the state access that the node's tools declare, as far as the tools are known.

    They are known if the node declares the agent that it runs, or if `tools=` has the tools themselves rather than
    names.

    Args:
        fn: The function of the node.
        arguments: The policy arguments, as the user wrote them.
    """
    agent: Any = agent_of(fn)
    tool_options = several(arguments.get("tools", ()))
    tools: Any = [tool for tool in tool_options if hasattr(tool, "spec") and hasattr(tool, "policy")]
    if hasattr(agent, "__graphrt_tools__"):
        tools = agent.__graphrt_tools__({_tool_name(tool) for tool in tool_options} if "tools" in arguments else None)
    if not tools:
        return ()
    from graphrt.harness.tools.registry import needing_graph  # only a node with tools loads it

    return tuple(ToolUse.of(tool, below=below) for tool, below in needing_graph(tools))


def _misplaced(name: Any, options: dict[str, Any], node: str | None, where: str) -> list[Problem]:
    """Remove invalid options about where the node runs from *options*; return their problems."""
    problems: list[Problem] = []
    if not isinstance(options.get("inline", False), bool):
        problems.append(
            POLICY_OF_WRONG_KIND(
                name=name,
                option="inline",
                given=options.pop("inline"),
                wanted="True for a sync node that never waits, or False",
                node=node,
                where=where,
            )
        )
    if options.get("queue") is not None and not is_queue_name(options["queue"]):
        problems.append(
            POLICY_OF_WRONG_KIND(
                name=name,
                option="queue",
                given=options.pop("queue"),
                wanted="1 to 64 letters, digits and the characters _ . -, such as queue='gpu'",
                node=node,
                where=where,
            )
        )
    return problems


def several(value: Any) -> tuple[Any, ...]:
    """Return the names or targets in an option, which may be a single one, or something that is neither."""
    if isinstance(value, (str, EndType)) or hasattr(value, "__graphrt_node__") or not hasattr(value, "__iter__"):
        return (value,)
    return tuple(value)


def _unknown(name: Any, option: str, where: str, known: Collection[str]) -> Problem:
    """Return the problem of a policy argument that does not exist, with the most similar name."""
    return UNKNOWN_POLICY(
        name=name,
        option=option,
        known_options=sorted(known),
        node=name if isinstance(name, str) else None,
        where=where,
        guess=closest(option, known) if option not in POLICIES else "",
        fix=f"Use {POLICIES[option]}." if option in POLICIES else None,
    )
