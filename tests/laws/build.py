"""Builds a real graph from a description, using only the public API of graphrt.

The scripts of nodes and routers are in `description`; this module wraps them in the forms that a user would write: a
state class, functions of a state and perhaps a context, updates, Commands, Sends. It must not contain rules of
execution.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

import pydantic

from graphrt import (
    DELETE,
    END,
    START,
    Command,
    Context,
    GraphBuilder,
    Limits,
    Overwrite,
    RetryPolicy,
    RouterContext,
    Send,
)
from graphrt import reducers as built_in

from . import description
from .description import MISSING, Conditional, Field, Graph, Node, SendTo, State, Target, Turn, thaw

NodeKind: TypeAlias = Literal["sync", "async", "mixed"]

JUDGEMENTS = ("unreachable-node", "no-way-out", "starving-join", "write-conflict", "endless-loop")


class ScriptedError(Exception):
    """The error of a node whose turn fails."""


@dataclasses.dataclass
class Pace:
    """The speed of tasks, without a clock."""

    hops: Callable[[str], int] = lambda _: 0
    """How often an async task yields to others before its work; by task id, or node name without a context."""
    enter: Callable[[str, int], None] = lambda *_: None
    """Called in a sync node with its name and visit before it does its work."""
    leave: Callable[[str, int], None] = lambda *_: None
    """The same, after it."""


class Script:
    """The scripted nodes and routers of one run, and the values that they saw.

    A new one for each run: it counts visits.
    """

    def __init__(self, graph: Graph, pace: Pace) -> None:
        self.graph = graph
        self.pace = pace
        self.args: dict[str, Any] = {}
        """Task id -> `ctx.arg`, of all tasks with a context."""
        self.order: list[tuple[str, int]] = []
        """(node, visit) of tasks in the order in which they finished."""
        self._steps: dict[str, set[int]] = {}
        self._calls: dict[str, int] = {}
        self._lock = threading.Lock()

    def visit(self, node: Node, ctx: Context | None) -> int:
        """The visit number: supersteps in which the node was active so far, including this one."""
        with self._lock:
            if ctx is None:
                self._calls[node.name] = self._calls.get(node.name, 0) + 1
                return self._calls[node.name]
            self.args[ctx.task_id] = ctx.arg
            seen = self._steps.setdefault(node.name, set())
            seen.add(ctx.step)
            return sum(step <= ctx.step for step in seen)

    def play(self, node: Node, state: Any, ctx: Context | None) -> Any:
        """One task of a sync node."""
        visit = self.visit(node, ctx)
        self.pace.enter(node.name, visit)
        try:
            return self.outcome(node, visit, state, ctx)
        finally:
            self.finish(node, visit)
            self.pace.leave(node.name, visit)

    async def aplay(self, node: Node, state: Any, ctx: Context | None) -> Any:
        """One task of an async node."""
        visit = self.visit(node, ctx)
        for _ in range(self.pace.hops(node.name if ctx is None else ctx.task_id)):
            await asyncio.sleep(0)
        try:
            return self.outcome(node, visit, state, ctx)
        finally:
            self.finish(node, visit)

    def finish(self, node: Node, visit: int) -> None:
        with self._lock:
            self.order.append((node.name, visit))

    def outcome(self, node: Node, visit: int, state: Any, ctx: Context | None) -> Any:
        """The return value of the node."""
        turn = node.turn(visit)
        if turn.fails:
            raise ScriptedError(node.name)
        return self.result(turn, state, None if ctx is None else ctx.arg)

    def result(self, turn: Turn, state: Any, arg: int | None) -> Any:
        """The result of a turn for the state and the argument."""
        snapshot = to_plain(self.graph, state)
        update: dict[str, Any] = {}
        for write in turn.writes:
            value: Any = write.value(self.graph, snapshot, arg)
            update[write.field] = {"set": value, "overwrite": Overwrite(value), "delete": DELETE}[write.op]
        result: Any = [{name: value} for name, value in update.items()] if turn.apart else update
        if turn.goto is not None:
            goto = [to_target(target) for target in turn.goto]
            return Command(update=result, goto=goto[0] if len(goto) == 1 else goto)
        return result or None

    def function(self, node: Node, *, is_async: bool) -> Callable[..., Any]:
        """The node as a user would write it: sync or async, with or without a context."""

        def plain(state: Any) -> Any:
            return self.play(node, state, None)

        def with_context(state: Any, ctx: Context) -> Any:
            return self.play(node, state, ctx)

        async def aplain(state: Any) -> Any:
            return await self.aplay(node, state, None)

        async def awith_context(state: Any, ctx: Context) -> Any:
            return await self.aplay(node, state, ctx)

        chosen: dict[tuple[bool, bool], Callable[..., Any] | Callable[..., Awaitable[Any]]] = {
            (False, False): plain,
            (False, True): with_context,
            (True, False): aplain,
            (True, True): awith_context,
        }
        return chosen[is_async, node.context]

    def inside(self, node: Node) -> Script:
        """Plays the nodes of the graph that is nested in *node*."""
        raise NotImplementedError(node)

    def router(self, conditional: Conditional) -> Callable[[Any], Any]:
        """The router as a user would write it."""

        def route(state: Any) -> Any:
            return led(state, None)

        def route_with_context(state: Any, ctx: RouterContext) -> Any:
            assert ctx.node == ("__start__" if conditional.src is None else conditional.src)
            return led(state, ctx.arg)

        def led(state: Any, arg: int | None) -> Any:
            answer = conditional.router.answer(to_plain(self.graph, state), arg)
            if answer is None or isinstance(answer, str):
                return answer
            return [Send(each.node, each.arg) if isinstance(each, SendTo) else each for each in answer]

        return route_with_context if conditional.router.hears else route


def build(graph: Graph, script: Script, *, nodes: NodeKind = "sync", **policies: Any) -> Any:
    """Compile *graph* with all findings allowed; *script* plays its nodes, which all have *policies*."""
    builder: GraphBuilder[Any, Any] = GraphBuilder(state_class(graph), name="law")
    for place, node in enumerate(graph.nodes):
        is_async = nodes == "async" or (nodes == "mixed" and place % 2 == 0)
        if node.child is not None:
            inside = build(node.child, script.inside(node), nodes=nodes, **policies)
            builder.add_node(node.name, inside, **policy(node))
            continue
        builder.add_node(node.name, script.function(node, is_async=is_async), **policy(node), **policies)
    for src, dst in graph.edges:
        builder.add_edge(START if src is None else src, name_of(dst))
    for conditional in graph.conditionals:
        builder.add_conditional_edges(
            START if conditional.src is None else conditional.src,
            script.router(conditional),
            {label: name_of(target) for label, target in conditional.routes},
            default=None if conditional.default is None else name_of(conditional.default),
        )
    for join in graph.joins:
        builder.add_join(list(join.sources), join.dst, when=join.when, starved=join.starved)
    caps = graph.caps
    limits = Limits(max_steps=caps.max_steps, max_visits=caps.max_visits, max_tasks=caps.max_tasks)
    return builder.compile(limits=limits, allow=JUDGEMENTS)


def policy(node: Node) -> dict[str, Any]:
    """The policy arguments of `add_node` that the description sets."""
    given = {
        "max_visits": node.max_visits,
        "on_error": None if node.on_error is None else name_of(node.on_error),
        "on_fatigue": None if node.on_fatigue is None else name_of(node.on_fatigue),
        "goto": None if node.declared is None else [name_of(target) for target in node.declared],
        "retry": RetryPolicy(node.flaky + 1, wait_initial_s=0.0) if node.flaky else None,
        "interrupt_before": True if node.pauses == "before" else None,
        "interrupt_after": True if node.pauses == "after" else None,
        "defer": node.defer or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def name_of(name: str) -> Any:
    return END if name == description.END else name


def to_target(target: Target) -> Any:
    return Send(name_of(target.node), target.arg) if isinstance(target, SendTo) else name_of(target)


# state ---------------------------------------------------------------------------------------------------------------


def to_plain(graph: Graph, state: Any) -> State:
    """A state of any style as a mapping of its present fields."""
    if isinstance(state, Mapping):
        return dict(typing.cast(Mapping[str, Any], state))
    return {each.name: getattr(state, each.name) for each in graph.fields if hasattr(state, each.name)}


def mix(current: int, incoming: int) -> int:
    """The user's own reducer."""
    return description.mix(current, incoming)


def annotation(each: Field) -> Any:
    """`Annotated[T, reducer, marker]`, or the bare type."""
    reducer = mix if each.reducer == "mix" else built_in.by_name(each.reducer)
    kind: Any = list[int] if each.is_list else int if each.reducer == "mix" or each.default is not None else int | None
    notes: list[Any] = [] if each.reducer == "overwrite" else [reducer]
    notes += [built_in.ephemeral] if each.ephemeral else []
    notes += [built_in.untracked] if each.untracked else []
    for note in notes:
        kind = Annotated[kind, note]  # nested Annotated are flattened
    return kind


def state_class(graph: Graph) -> Any:
    """The state class in the style of the description."""
    title = "State" if graph.nodes[0].name.islower() else "Inner"  # a store distinguishes classes by name
    if graph.style == "typeddict":
        given = dict(graph.given)
        keys = {
            each.name: annotation(each) if each.name in given or each.has_identity else NotRequired[annotation(each)]
            for each in graph.fields
        }
        return typing.TypedDict(title, keys)  # type: ignore[operator]  # built from data
    if graph.style == "pydantic":
        made = {each.name: (annotation(each), default(each, pydantic.Field, ...)) for each in graph.fields}
        return pydantic.create_model(title, **made)  # type: ignore[call-overload]  # built from data
    return dataclasses.make_dataclass(
        title,
        [(e.name, annotation(e), default(e, dataclasses.field, dataclasses.field())) for e in graph.fields],
        kw_only=True,
    )


def default(each: Field, field: Callable[..., Any], nothing: Any) -> Any:
    """The default of the field, built by *field*; *nothing* if it has none."""
    if each.default is MISSING:
        return nothing
    value = each.default
    return field(default_factory=lambda: thaw(value)) if isinstance(value, tuple) else field(default=value)
