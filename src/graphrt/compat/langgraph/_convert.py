"""`convert`: turns a LangGraph graph into a `CompiledGraph`, and reports the features that are not carried over.

    StateGraph, CompiledStateGraph ── _read.read ──> GraphDescription
        ├── _fields     channels become fields
        ├── _nodes      nodes keep their functions, which functions of graphrt call
        ├── _policies   retry, cache, timeout, error handler, pauses
        └── _nested     graphs that are nodes, converted in the same way

Nodes are added in the order of their names: LangGraph folds the writes of a superstep in that order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn, final

from graphrt.commands import END, START
from graphrt.compat.langgraph import _langgraph as lg
from graphrt.compat.langgraph import _messages, _read
from graphrt.compat.langgraph._called import CALLED, keeps_called, kept_in
from graphrt.compat.langgraph._fields import BRANCHES, HANDED_UP, Fields, fields_of
from graphrt.compat.langgraph._nested import input_of, output_of
from graphrt.compat.langgraph._nodes import Router, Task, function_of, reader_of, router_of, target
from graphrt.compat.langgraph._policies import policies_of
from graphrt.compat.langgraph._read import GraphDescription, Node
from graphrt.compat.langgraph._report import Notes, Report, refused
from graphrt.compat.langgraph._results import destinations
from graphrt.compat.langgraph._surroundings import Surroundings
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.limits import Limits
from graphrt.reducers import ephemeral

JUDGEMENTS: Final = (
    "unreachable-node",
    "no-way-out",
    "starving-join",
    "write-conflict",
    "endless-loop",
    "deleted-source",
)
"""Findings of `compile()` that LangGraph graphs may have, which are left to `graphrt check`."""


def convert(graph: Any, strict: bool = False) -> tuple[CompiledGraph[Any, Any, Any], Report]:  # noqa: FBT001, FBT002
    """Return a graph of LangGraph as a graph of graphrt, and a report of the features that are not carried over.

    Nodes keep their functions and signatures. The graph is run by graphrt's API: `Runtime(graph,
    store=...).run(input)`.

    Args:
        graph: A `StateGraph`, a `CompiledStateGraph`, or the result of `create_react_agent` or `create_agent`.
        strict: Raise if something is left out. Differences in behaviour are only reported.

    Raises:
        TypeError: *graph* is not a graph of LangGraph.
        DefinitionError: *strict*, and something is left out: `.problems` lists everything (`not-carried-over`). Or the
            graph cannot run in graphrt.
    """
    description = _read.read(graph)
    notes = Notes()
    _messages.register()
    converted = _Conversion(description, _options(graph), notes, None).graph()
    report = Report(graph=description.name, deviations=tuple(notes.found))
    if strict and report.left_out:
        raise refused(report)
    return converted, report


def _options(graph: Any) -> Mapping[str, Any]:
    """Return the config that `with_config` bound to a graph."""
    config: Any = getattr(graph, "config", None)
    if lg.is_a(config, Mapping):
        options: Mapping[str, Any] = config
        return options
    return {}


@final
@dataclass(frozen=True, slots=True)
class Above:
    """The position of a nested graph: its parent graph, and its node there."""

    graph: GraphDescription
    node: str
    store: Any

    @property
    def static(self) -> tuple[str, ...]:
        """Targets of the static edges of the node."""
        return _static(self.graph, self.node)


def _static(graph: GraphDescription, source: str) -> tuple[str, ...]:
    """Return the targets of the static edges of a node, END left out."""
    return tuple(target for start, target in graph.edges if start == source and target != _read.END)


class _Conversion:
    """The conversion of one graph."""

    def __init__(
        self, description: GraphDescription, options: Mapping[str, Any], notes: Notes, above: Above | None
    ) -> None:
        self.description = description
        self.options = options
        self.notes = notes
        self.above = above
        self.store = description.store if description.store is not None or above is None else above.store
        self.surroundings = Surroundings(description.context_schema, options, self.store, _steps())
        self.waiting = {source for edge in description.waiting for source in edge.sources if edge.target != _read.END}
        self.keeping = {name for name, node in description.nodes.items() if keeps_called(node)}
        self.children = {
            name: self._child(node, node.subgraph)
            for name, node in description.nodes.items()
            if node.subgraph is not None
        }
        # `checkpointer=True`: the nested graph keeps its state from run to run, in a field of this graph.
        self.lasting = {
            name: f"__state_of_{name}__"
            for name, child in self.children.items()
            if child.description.checkpointer is True
        }
        extra: dict[str, Any] = {field: self.children[name].fields.state for name, field in self.lasting.items()}
        if self.keeping:
            extra[CALLED] = Annotated[dict[str, Any], kept_in]
        if self.waiting:
            extra[BRANCHES] = Annotated[dict[str, Any], _joined, ephemeral]
        if above is not None:
            extra[HANDED_UP] = Annotated[list[Any], ephemeral]
        self.fields: Fields = fields_of(description, notes, extra=extra)

    def graph(self) -> CompiledGraph[Any, Any, Any]:
        """Return the compiled graph."""
        description = self.description
        self._note()
        builder: Any = GraphBuilder(self.fields.state, self.fields.update, name=description.name)
        for name in sorted(description.nodes):
            self._add(builder, description.nodes[name])
        self._connect(builder, _read.START, START)
        for edge in description.waiting:
            if edge.target != _read.END:
                builder.add_join(list(edge.sources), edge.target, starved="ignore")
        step_s: Any = getattr(description.compiled, "step_timeout", None)
        steps: int = self.options.get("recursion_limit") or _steps()
        limits = Limits(max_visits=None, max_steps=steps, step_timeout_s=step_s)
        compiled: CompiledGraph[Any, Any, Any] = builder.compile(limits=limits, allow=JUDGEMENTS)
        return compiled

    def _note(self) -> None:
        """Report deviations that concern the graph as a whole."""
        description = self.description
        if description.checkpointer not in (None, False, True):
            self.notes.differs(
                f"the checkpointer {type(description.checkpointer).__name__}",
                None,
                "threads that it has stored are not read.",
                "Give the runtime a store: Runtime(graph, store='sqlite:///runs.db').",
            )
        if description.store is not None:
            self.notes.differs(
                f"the store {type(description.store).__name__}",
                None,
                "nodes keep using it, so what they write there does not belong to the commits of the thread.",
                "Compile the graph without store=, and nodes get the memory of the runtime's store.",
            )

    def _add(self, builder: Any, node: Node) -> None:
        """Add a node with its policies and edges."""
        if node.subgraph is not None:
            self._add_nested(builder, node, node.subgraph, self.children[node.name])
            self._connect(builder, node.name, node.name)
            return
        description = self.description
        named_by_the_function: Any = lg.names_around(node.function) if node.function is not None else ()
        for value in named_by_the_function:
            if lg.is_a(value, lg.TaskFunction):
                self.notes.left_out(
                    f"the @task {value.__name__}",
                    node.name,
                    "a call of it fails.",
                    f"Call its function, {value.__name__}.func(...), or make it a node.",
                )
        routers = tuple(
            router_of(description, branch, self.fields) for branch in description.branches if branch.source == node.name
        )
        reader = reader_of(description, node.input_schema, self.fields)
        arrives = node.name in self.waiting
        # In graphrt, an error of a router does not cause a retry of the node.
        routed = bool(routers) and all(router.plain for router in routers) and not arrives and not node.retry
        task = Task(
            node=node,
            fields=self.fields,
            surroundings=self.surroundings,
            reader=reader,
            routers=routers,
            static=_static(description, node.name),
            arrives=arrives,
            routed=routed,
            keeps=node.name in self.keeping,
            handled=description.nodes,
            above=None if self.above is None else self.above.static,
        )
        policies = policies_of(node, description, self.notes, lambda state: reader.read(state, {"configurable": {}}))
        declared = declared_targets(description, node)
        if declared is not None and not arrives and not routed:
            policies["goto"] = [END if name == _read.END else name for name in declared]
        builder.add_node(node.name, function_of(task), **policies)
        if arrives:
            plain = all(router.plain for router in routers)
            edited = _plain_router(self, routers, task.static) if plain else _goto_needed(node.name)
            chosen = _chosen(node.name, edited)
            builder.add_conditional_edges(node.name, chosen, _routes(description))
        elif routed:
            router = _plain_router(self, routers, task.static)
            builder.add_conditional_edges(node.name, router, _routes(description, routers, task.static))
        elif not routers:
            for name in task.static:
                builder.add_edge(node.name, name)
            if not task.static and (node.name, _read.END) in description.edges:
                builder.add_edge(node.name, END)

    def _child(self, node: Node, inner: GraphDescription) -> _Conversion:
        """Return the conversion of the nested graph *node*."""
        above = Above(self.description, node.name, self.store)
        options = {**self.options, **_options(node.runnable)}
        return _Conversion(inner, options, self.notes.inside(node.name), above)

    def _add_nested(self, builder: Any, node: Node, inner: GraphDescription, child: _Conversion) -> None:
        """Add *node*, which is a nested graph."""
        description = self.description
        policies = policies_of(node, description, self.notes, None)
        if node.name in self.lasting:
            policies["stateful"] = self.lasting[node.name]
        make_input = input_of(inner, reader_of(description, node.input_schema))
        others = [*description.nodes, END]
        back = output_of(inner, self.fields)
        builder.add_node(node.name, child.graph(), input=make_input, output=back, hands_over_to=others, **policies)

    def _connect(self, builder: Any, source: str, handle: Any) -> None:
        """Add the edges of START or of a nested graph, whose branches are evaluated by a router."""
        description = self.description
        branches = [branch for branch in description.branches if branch.source == source]
        static = _static(description, source)
        if branches or source in self.waiting:
            routers = [router_of(description, branch, self.fields) for branch in branches]
            router = _outer_router(self, routers, static, source)
            builder.add_conditional_edges(handle, router, _routes(description))
            return
        for name in static:
            builder.add_edge(handle, name)
        if not static and (source, _read.END) in description.edges and source != _read.START:
            builder.add_edge(handle, END)


def _steps() -> int:
    """Return LangGraph's default limit of supersteps."""
    from langgraph._internal._config import DEFAULT_RECURSION_LIMIT

    return int(DEFAULT_RECURSION_LIMIT)


def _routes(
    description: GraphDescription, routers: Sequence[Router] = (), static: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the routes of a router that returns node names: the targets of path maps and static edges, if known."""
    names = set(description.nodes)
    if routers and all(router.path_map is not None for router in routers):
        names = {target for router in routers for target in (router.path_map or {}).values()} | set(static)
    return {**{name: name for name in sorted(names) if name != _read.END}, _read.END: END}


def _plain_router(conversion: _Conversion, routers: Sequence[Router], static: Sequence[str]) -> Callable[[Any], Any]:
    """Return the router of a node whose branches are functions of the state, for tasks alone in their superstep."""
    untracked = conversion.fields.untracked
    config: dict[str, Any] = {}

    def route(state: Any) -> Any:
        next_nodes: list[Any] = [*static]
        for router in routers:
            next_nodes += destinations(router.call(router.reader.read(state, config), config), router.path_map)
        if len(next_nodes) == 1 and next_nodes[0].__class__ is str:
            return next_nodes[0]
        return [target(destination, state, untracked) for destination in next_nodes] if next_nodes else _read.END

    return route


def _joined(current: Any, incoming: Any) -> Any:
    """Collect the targets that the tasks of each node chose; the reducer of `BRANCHES`."""
    held: dict[str, list[Any]] = dict(current or {})
    for node, targets in incoming.items():
        held[node] = [*held.get(node, ()), *targets]
    return held


def _chosen(node: str, otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the router of a node that is the source of a waiting edge. It reads the targets that tasks chose.

    Args:
        node: The node.
        otherwise: Routes if no task chose: without branches, and for `update(as_node=)`.
    """

    def chosen(state: Any) -> Any:
        targets = state.get(BRANCHES, {}).get(node)
        return otherwise(state) if targets is None else targets

    return chosen


def _goto_needed(node: str) -> Callable[[Any], NoReturn]:
    """Return the router for an edit `as_node=` of a node whose branches need a task."""

    def refuse(_: Any) -> NoReturn:
        raise ValueError(f"The branches of node {node!r} need a task: name the target, update(..., goto=...).")

    return refuse


def _outer_router(
    conversion: _Conversion, routers: Sequence[Router], static: Sequence[str], source: str
) -> Callable[[Any, Any], Any]:
    """Return the router of START or of a nested graph, which have no task that could evaluate branches."""
    untracked = conversion.fields.untracked

    def route(state: Any, ctx: Any) -> Any:
        config = conversion.surroundings.of_router(ctx.deps, source, ctx.thread)
        next_nodes: list[Any] = [*static]
        for router in routers:
            result = router.call(router.given(state, None, config), config)
            if router.is_async:
                result = _awaited(result)
            next_nodes += [
                target(destination, state, untracked) for destination in destinations(result, router.path_map)
            ]
        return next_nodes

    return route


def _awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of an async router, which the engine calls synchronously."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, coroutine).result()


def declared_targets(graph: GraphDescription, node: Node) -> tuple[str, ...] | None:
    """Return all nodes to which a node can lead by its branches and Commands; None if that is not known.

    The targets come from the path maps of its branches and the annotation of its Commands. A function without an
    annotation that does not name `Command` is assumed to return none.
    """
    branches = [branch for branch in graph.branches if branch.source == node.name]
    if any(branch.path_map is None for branch in branches):
        return None
    commands = node.annotated_targets
    if commands is None:
        code: Any = getattr(_read.plain_function(node.function), "__code__", None) if node.function else None
        if code is None or "Command" in code.co_names or "Command" in code.co_freevars:
            return None
        if not branches:
            return None  # it follows its static edges
        commands = ()
    targets = [target for branch in branches for target in (branch.path_map or {}).values()]
    return tuple(dict.fromkeys([*targets, *commands, *_static(graph, node.name), _read.END]))
