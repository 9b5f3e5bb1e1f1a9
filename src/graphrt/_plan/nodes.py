"""Errors of one node by itself: its name, its policy, and the fields and targets it declares.

A node's policy is what `add_node` was given besides name and function: retry, limits, cache, and so on. The generators
yield findings of `compile()`, which `validate` calls for each node. Edges are checked there, too.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from typing import Any, Final

from graphrt._arguments import number_problem
from graphrt._plan import hints
from graphrt._plan.fields import describe, is_mapping
from graphrt._plan.quoting import short
from graphrt._plan.specs import ChosenGraph, NodeSpec, ToolUse
from graphrt._plan.state import StateSchema
from graphrt._plan.updates import UpdateSchema
from graphrt.commands import Command
from graphrt.errors import Problem, closest, names
from graphrt.errors._codes.findings import (
    BAD_LIMIT_IN_GRAPH,
    BAD_POLICY,
    COMMAND_OF_TARGETS,
    NESTED_UPDATES,
    UNKNOWN_FIELDS_OF_UPDATE,
    UNKNOWN_READ,
    UNTRACKED_LEAK,
    WRITES_BESIDE_STATE_REDUCER,
)
from graphrt.errors._error_code import Finding

MAX_NAME: Final = 500
"""Greatest length of a node's name, in characters."""


def name_problem(name: object) -> str | None:
    """Return why *name* cannot be the name of a node, as a clause with "it", or None."""
    if not isinstance(name, str):
        return f"it is not a string but of type {type(name).__name__}"
    if not name.strip():
        return "it is empty"
    if len(name) > MAX_NAME:
        return f"it has {len(name)} characters"
    if not name.isascii():
        try:
            name.encode()  # names are stored as UTF-8, which has no form for a lone surrogate
        except UnicodeEncodeError:
            return "it has a lone surrogate"
    return None


def policy_problems(node: NodeSpec) -> Iterator[tuple[Finding, str]]:
    """Yield (finding, what is wrong) for each bad value in a node's policy.

    The arguments that take the name of a node are checked with the edges.
    """
    policy = node.policy
    # Texts of what is wrong with numbers; None where nothing is. An `optional` number may be None.
    limits: list[str | None] = []
    if policy.max_visits != "graph":
        limits.append(number_problem("max_visits", policy.max_visits, optional=True, least=1))
    limits.append(number_problem("timeout_s", policy.timeout_s, optional=True, seconds=True))
    limits.append(number_problem("idle_timeout_s", policy.idle_timeout_s, optional=True, seconds=True))
    if policy.retry is not None:
        limits += [f"retry: {text}" for text in policy.retry.problems()]
    if policy.cache is not False and policy.cache is not True:
        limits.append(number_problem("cache", policy.cache, optional=False, least=1))
    yield from ((BAD_LIMIT_IN_GRAPH, text) for text in limits if text)
    for option in ("interrupt_before", "interrupt_after"):
        value = getattr(policy, option)
        if not isinstance(value, bool):
            yield BAD_POLICY, f"{option} must be True or False, not {short(value)}"
    version: Any = policy.version
    if version is not None and not isinstance(version, str):
        yield BAD_POLICY, f"version must be a string, not {short(version)}"
    if policy.key is not None and not callable(policy.key):
        yield BAD_POLICY, f"key must be a function of the state, not {short(policy.key)}"
    elif policy.key is not None and policy.cache is False:
        yield BAD_POLICY, "key= has no effect without cache="
    yield from ((BAD_POLICY, text) for text in _nesting_problems(node))


def _nesting_problems(node: NodeSpec) -> Iterator[str]:
    """Yield what is wrong with the arguments of a node that are for nested graphs."""
    policy = node.policy
    # A compiled graph has its plan as this attribute.
    is_function = getattr(node.fn, "__graphrt_plan__", None) is None and not isinstance(node.fn, ChosenGraph)
    if policy.idle_timeout_s is not None and not is_function:
        yield "idle_timeout_s= is for functions: give it to the nodes of the nested graph"
    if is_function:
        for option in ("input", "output", "update_of", "hands_over_to"):
            if getattr(policy, option) is not None:
                yield f"{option}= is for nested graphs, and this node is a function"
    elif policy.update_of is not None and not callable(policy.update_of):
        yield f"update_of must be a function of an update, not {short(policy.update_of)}"
    elif policy.update_of is not None and policy.output is not None:
        yield "update_of= and output= both say what the nested graph gives back"


def unknown_writes(node: NodeSpec, update: UpdateSchema) -> Iterator[Problem]:
    """Yield a problem for each name in a node's `writes=` that is not a field of the state.

    Beside a reducer of the whole state nodes write no fields, so that `writes=` itself is the problem.
    """
    written: tuple[Any, ...] = node.policy.writes or ()
    state = update.state
    if update.whole is not None:
        if node.policy.writes is not None:
            yield WRITES_BESIDE_STATE_REDUCER(node=node.name, fields=written, where=node.where)
        return
    for name in written:
        if not isinstance(name, str) or name not in state.fields:
            guess = closest(name, state.fields)
            yield UNKNOWN_FIELDS_OF_UPDATE(
                who=f"writes= of node {node.name!r}",
                unknown=short(name),
                fields=state.fields,
                node=node.name,
                where=node.where,
                guess=guess,
            )


def leaking(node: NodeSpec, state: StateSchema) -> Iterator[Problem]:
    """Yield a problem for each untracked field that a nested graph shares with a tracked field, in either direction.

    An untracked field is never stored or shown (R16), but the tracked one would do both with its value. The fields are
    those of the same name, or those that `input=` and `output=` map. A mapping function is its author's responsibility.

    Args:
        node: A node whose function is a compiled graph.
        state: The state of the graph around it.
    """
    plan: Any = node.fn.__graphrt_plan__
    inner: StateSchema = plan.state
    for option, given, only in (
        ("input", node.policy.input, plan.spec.input_names),
        ("output", node.policy.output, plan.spec.output_names),
    ):
        entering = option == "input"
        # `given` maps fields of the target to fields of the source; `only` are the fields of the nested graph's schema.
        source, target = (state, inner) if entering else (inner, state)
        pairs: Iterable[tuple[Any, Any]]
        if given is None:
            pairs = [(name, name) for name in inner.fields if only is None or name in only]
        else:
            pairs = given.items() if is_mapping(given) else ()  # nothing is known of a function
        for into, out_of in pairs:
            if out_of in source.untracked and into in target.fields and into not in target.untracked:
                yield UNTRACKED_LEAK(
                    name=node.name,
                    verb="is given" if entering else "gives back",
                    out_of=out_of,
                    into=into,
                    state=target.cls.__name__,
                    option=option,
                    node=str(node.name),
                    where=node.where,
                )


def other_updates(node: NodeSpec, outer: UpdateSchema) -> Iterator[Problem]:
    """Yield a problem if the updates of a nested graph cannot be folded by the graph around it, and none is made of them.

    They can if both graphs fold updates by field, or if both have a reducer of the whole state and one type of updates.

    Args:
        node: A node whose function is a compiled graph.
        outer: The updates of the graph around it.
    """
    inner: UpdateSchema = node.fn.__graphrt_plan__.update
    made = node.policy.update_of is not None or (callable(node.policy.output) and not is_mapping(node.policy.output))
    if made or (inner.whole is None and outer.whole is None):
        return
    if inner.whole is None or outer.whole is None or inner.cls != outer.cls or node.policy.output is not None:
        yield NESTED_UPDATES(
            node=node.name,
            inner=_updates(inner),
            outer=_updates(outer),
            where=node.where,
        )


def _updates(schema: UpdateSchema) -> str:
    """Return what the updates of a graph are, for a message."""
    return "mappings of fields" if schema.whole is None else f"of the type {describe(schema.cls)}"


def targets_in_a_type(node: NodeSpec) -> Iterator[Problem]:
    """Yield a problem if a node is annotated `Command[Literal[...]]`: the parameter is the update, not the targets.

    LangGraph declares targets in this place; graphrt declares them with `goto=[...]`.
    """
    if node.hint is None or node.hint is hints.UNRESOLVED:
        return
    for member in hints.members(node.hint):
        if typing.get_origin(member) is not Command:
            continue
        targets = hints.labels_of(hints.bare(typing.get_args(member)[0]))  # (values of the Literal, whether all)
        if targets is not None and targets[0]:
            text = ", ".join(repr(target) for target in targets[0])
            yield COMMAND_OF_TARGETS(node=node.name, targets=text, where=node.where)


def tool_problems(use: ToolUse, update: UpdateSchema, *, cached: bool) -> Iterator[str]:
    """Yield what is wrong with a tool that is offered in a node, as ends of a sentence about the tool.

    Whether the nodes exist that it may lead to is not checked here.

    Args:
        use: What the tool declares.
        update: The updates of the graph.
        cached: Whether the node keeps results (`cache=`).
    """
    state = update.state
    computed: Any = getattr(state.cls, "model_computed_fields", ())
    for name in use.reads:
        if name not in state.fields and name not in computed:
            yield f"reads {short(name)}, which is not a field of the state; fields: {names(state.fields)}"
    if use.writes and (update.whole is not None or update.kind == "overwrite"):
        yield "writes fields, and the nodes of this graph return whole states or updates"
        return
    for name in use.writes:
        if name not in update.names:
            yield f"writes {short(name)}, which is not a field of the update; fields: {names(update.names)}"
        elif name in state.untracked:  # what a tool writes is recorded with its call, and such a field never is (R16)
            yield f"writes {short(name)}, which is untracked, while results of tools are recorded"
    if use.goto and use.below:
        yield "declares goto=, and belongs to an agent that is a tool itself: only the agent of the node may route"
    if cached and (use.writes or use.goto):
        yield "writes or routes, and the node has cache=, which would leave that out the next time"


def unknown_reads(node: NodeSpec, state: StateSchema) -> Iterator[Problem]:
    """Yield a problem for each field that a node declares to read and that the state lacks."""
    if node.fields is None:
        return
    computed: Any = getattr(state.cls, "model_computed_fields", ())  # of a pydantic model; a node can read these, too
    for name in node.fields.reads:
        if name in state.fields or name in computed:
            continue
        guess = closest(name, state.fields)
        yield UNKNOWN_READ(node=node.name, name=short(name), fields=state.fields, where=node.where, guess=guess)
