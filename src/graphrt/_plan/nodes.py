"""Errors of a single node: its name, its policy, and the fields and targets it declares.

A node's policy is the arguments of `add_node` other than name and function: retry, limits, cache, and so on. The
generators yield findings of `compile()`; `validate` calls them for each node and also checks the edges.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from graphrt._arguments import is_mapping, number_problem
from graphrt._plan import hints
from graphrt._plan.callables import node_shape
from graphrt._plan.fields import describe
from graphrt._plan.quoting import short
from graphrt._plan.specs import ChosenGraph, NodeFields, NodeSpec, ToolUse
from graphrt._plan.state import StateSchema
from graphrt._plan.updates import UpdateSchema
from graphrt.commands import Command
from graphrt.errors import Problem, closest, names
from graphrt.errors._codes.findings import (
    BAD_LIMIT_IN_GRAPH,
    BAD_POLICY,
    COMMAND_OF_TARGETS,
    NESTED_UPDATES,
    UNKNOWN_READ,
    UNKNOWN_WRITE,
    UNTRACKED_LEAK,
    WRITES_BESIDE_STATE_REDUCER,
)
from graphrt.errors._error_code import Finding

MAX_NAME: Final = 500
"""Maximum length of a node's name, in characters."""
NESTING: Final = ("input", "output", "update_of", "hands_over_to", "stateful")
"""Policy arguments that only nested graphs take."""


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
            name.encode()  # names are stored as UTF-8, which cannot encode a lone surrogate
        except UnicodeEncodeError:
            return "it has a lone surrogate"
    return None


def policy_problems(node: NodeSpec) -> Iterator[tuple[Finding, str]]:
    """Yield (finding, problem) for each bad value in a node's policy.

    Arguments that take a node's name are checked with the edges.
    """
    policy = node.policy
    # Texts of the problems of numbers; None where there is none. An `optional` number may be None.
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
    for option in ("interrupt_before", "interrupt_after", "defer"):
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
    """Yield the problems of a node's arguments for nested graphs."""
    policy = node.policy
    # A compiled graph has its plan as this attribute.
    is_function = getattr(node.fn, "__graphrt_plan__", None) is None and not isinstance(node.fn, ChosenGraph)
    if policy.idle_timeout_s is not None and not is_function:
        yield "idle_timeout_s= is for functions: give it to the nodes of the nested graph"
    if is_function:
        for option in NESTING:
            if getattr(policy, option) is not None:
                yield f"{option}= is for nested graphs, and this node is a function"
        return
    if callable(policy.input) and not is_mapping(policy.input):
        shape = node_shape(policy.input)
        if shape.problem is not None or shape.is_async:
            yield f"input= cannot be called as fn(state) or fn(state, arg): {shape.problem or 'it is async'}"
    if policy.update_of is not None and not callable(policy.update_of):
        yield f"update_of must be a function of an update, not {short(policy.update_of)}"
    elif policy.update_of is not None and policy.output is not None:
        yield "update_of= and output= both define the result of the nested graph"


def bad_keeping(node: NodeSpec, outer: UpdateSchema) -> Iterator[Problem]:
    """Yield the problems of `stateful=`, the enclosing graph's field that keeps the state of a nested graph.

    Args:
        node: A node whose function is a compiled graph, or a graph chosen by the argument of a Send.
        outer: The updates of the enclosing graph.
    """
    name: Any = node.policy.stateful
    if name is None:
        return
    inner: Any = getattr(node.fn, "__graphrt_plan__", None)
    field = outer.state.fields.get(name) if isinstance(name, str) else None
    problem: str | None = None
    if inner is None:
        problem = "stateful= needs one nested graph, and this one is chosen for each task"
    elif outer.whole is not None or outer.kind == "overwrite" or inner.update.whole is not None:
        problem = "stateful= needs graphs whose nodes return updates of fields"
    elif field is None:
        problem = f"stateful={short(name)} is not a field of the state; fields: {names(outer.state.fields)}"
    elif field.aggregates or field.ephemeral:
        mark = "is ephemeral" if field.ephemeral else f"has the reducer {field.reducer_name!r}"
        problem = f"stateful={name!r} takes the last state, and the field {mark}"
    elif not _holds(field.annotation, inner.state):
        expected = f"{inner.state.cls.__name__} | None"
        problem = (
            f"stateful={name!r} keeps a state, so the field has the type {expected}, not {describe(field.annotation)}"
        )
    if problem is not None:
        yield BAD_POLICY(owner=f"Node {node.name!r}", problem=problem, node=str(node.name), where=node.where)


def _holds(annotation: Any, state: StateSchema) -> bool:
    """Return whether a field with *annotation* can hold a state of the schema *state*."""
    mappings = (dict, Mapping) if state.kind == "typeddict" else ()
    kinds = [typing.get_origin(member) or member for member in hints.members(annotation)]
    return any(kind is state.cls or kind is Any or kind in mappings for kind in kinds)


def unknown_writes(node: NodeSpec, update: UpdateSchema) -> Iterator[Problem]:
    """Yield a problem for each name in a node's `writes=` that is not a field of the state.

    With a reducer of the whole state, nodes do not write fields, so `writes=` itself is the problem.
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
            yield UNKNOWN_WRITE(
                writer=f"Node {node.name!r}",
                name=short(name),
                of="the state",
                fields=state.fields,
                node=str(node.name),
                where=node.where,
                guess=guess,
            )


def leaking(node: NodeSpec, state: StateSchema) -> Iterator[Problem]:
    """Yield a problem for each untracked field that a nested graph shares with a tracked field, in either direction.

    An untracked field is never stored or shown (R16), but the tracked field would do both with its value. Fields are
    shared by name, or as mapped by `input=` and `output=`. A mapping function is its author's responsibility.

    Args:
        node: A node whose function is a compiled graph.
        state: The state of the enclosing graph.
    """
    plan: Any = node.fn.__graphrt_plan__
    inner: StateSchema = plan.state
    for option, mapping, only in (
        ("input", node.policy.input, plan.spec.input_names),
        ("output", node.policy.output, plan.spec.output_names),
    ):
        entering = option == "input"
        # `mapping` maps target fields to source fields; `only` are the fields of the nested graph's schema.
        source, target = (state, inner) if entering else (inner, state)
        pairs: Iterable[tuple[Any, Any]]
        if mapping is None:
            pairs = [(name, name) for name in inner.fields if only is None or name in only]
        else:
            pairs = mapping.items() if is_mapping(mapping) else ()  # the fields used by a function are unknown
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


def unknown_sources(node: NodeSpec, state: StateSchema) -> Iterator[Problem]:
    """Yield a problem for each field that an `input=` or `output=` mapping reads, and that its source does not have.

    Args:
        node: A node whose function is a compiled graph.
        state: The state of the enclosing graph, from which the input comes.
    """
    inner: StateSchema = node.fn.__graphrt_plan__.state
    for option, mapping, source in (("input", node.policy.input, state), ("output", node.policy.output, inner)):
        for name in mapping.values() if is_mapping(mapping) else ():
            if not isinstance(name, str) or name not in source.fields:
                yield UNKNOWN_READ(
                    reader=f"{option}= of node {node.name!r}",
                    name=short(name),
                    of=source.cls.__name__,
                    fields=source.fields,
                    node=str(node.name),
                    where=node.where,
                    guess=closest(name, source.fields),
                )


def unknown_targets(node: NodeSpec, outer: UpdateSchema) -> Iterator[Problem]:
    """Yield a problem for each field that an `input=` or `output=` mapping writes, and that its target does not have.

    Args:
        node: A node whose function is a compiled graph.
        outer: The updates of the enclosing graph, which the output becomes.
    """
    plan: Any = node.fn.__graphrt_plan__
    inner: StateSchema = plan.spec.input_schema or plan.state
    into_inner: Any = node.policy.input if is_mapping(node.policy.input) else {}
    into_outer: Any = node.policy.output if is_mapping(node.policy.output) and outer.whole is None else {}
    # An Update class may declare fewer fields than the state.
    updated = outer.state.cls if outer.names == outer.state.fields.keys() else outer.cls
    for option, unknown, target, fields in (
        ("input", inner.unknown(into_inner), inner.cls, inner.fields),
        ("output", [name for name in into_outer if name not in outer.names], updated, outer.names),
    ):
        for name in unknown:
            yield UNKNOWN_WRITE(
                writer=f"{option}= of node {node.name!r}",
                name=short(name),
                of=target.__name__,
                fields=fields,
                node=str(node.name),
                where=node.where,
                guess=closest(name, fields),
            )


def other_updates(node: NodeSpec, outer: UpdateSchema) -> Iterator[Problem]:
    """Yield a problem if the enclosing graph cannot fold a nested graph's updates and nothing converts them.

    It can if both graphs fold updates by field, or if both have a reducer of the whole state and the same update type.

    Args:
        node: A node whose function is a compiled graph.
        outer: The updates of the enclosing graph.
    """
    inner: UpdateSchema = node.fn.__graphrt_plan__.update
    is_converted = node.policy.update_of is not None or (
        callable(node.policy.output) and not is_mapping(node.policy.output)
    )
    if is_converted or (inner.whole is None and outer.whole is None):
        return
    if inner.whole is None or outer.whole is None or inner.cls != outer.cls or node.policy.output is not None:
        yield NESTED_UPDATES(
            node=node.name,
            inner=_updates(inner),
            outer=_updates(outer),
            where=node.where,
        )


def _updates(schema: UpdateSchema) -> str:
    """Describe a graph's updates for a message."""
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
    """Yield the problems of a tool offered in a node, as predicates of a sentence about the tool.

    Whether its target nodes exist is not checked here.

    Args:
        use: The tool's declarations.
        update: The updates of the graph.
        cached: Whether the node caches results (`cache=`).
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
        elif name in state.untracked:  # a tool's writes are recorded, but untracked fields must not be (R16)
            yield f"writes {short(name)}, which is untracked, while results of tools are recorded"
    if use.goto and use.below:
        yield "declares goto=, and belongs to an agent that is a tool itself: only the agent of the node may route"
    if cached and (use.writes or use.goto):
        yield "writes or routes, and the node has cache=, which would leave that out the next time"


def unknown_reads(
    reader: str, fields: NodeFields | None, state: StateSchema, *, node: str | None, where: str
) -> Iterator[Problem]:
    """Yield a problem for each field that *reader*, a node or a router, declares to read and the state lacks."""
    if fields is None:
        return
    computed: Any = getattr(state.cls, "model_computed_fields", ())  # of a pydantic model; these can be read too
    for name in fields.reads:
        if name in state.fields or name in computed:
            continue
        guess = closest(name, state.fields)
        yield UNKNOWN_READ(
            reader=reader,
            name=short(name),
            of="the state",
            fields=state.fields,
            node=node,
            where=where,
            guess=guess,
        )
