"""A LangGraph graph as one frozen description, which the checker and the converter share.

`read` takes a `StateGraph`, a `CompiledStateGraph` (`create_react_agent` and `create_agent` return one) or a Runnable
that is bound to one. It reads only attributes and annotations, and calls no user code.

    GraphDescription
    ├── channels     Channel         one for each key of the state, with its reducer
    ├── nodes        Node            in the order of add_node, with policies, declared targets and nested graph
    ├── edges        (source, target)
    ├── waiting      WaitingEdge     add_edge([a, b], c): runs once all sources have run
    └── branches     Branch          add_conditional_edges: router, path map, and what its annotation says

`"__start__"` and `"__end__"` stand for START and END, as in LangGraph. LangGraph keeps edges in sets; here they are
sorted by the order of their nodes, so that two readings are equal.

Private attributes of LangGraph are read in this module only. Verified with langgraph 1.0 to 1.2.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import typing_extensions as te
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.base import RunnableBindingBase
from langgraph._internal._runnable import RunnableCallable
from langgraph._internal._runnable import coerce_to_runnable as _coerced  # pyright: ignore[reportUnknownVariableType]
from langgraph.channels.any_value import AnyValue
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.last_value import LastValue, LastValueAfterFinish
from langgraph.channels.topic import Topic
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.types import Command, Send

START: Final = "__start__"
END: Final = "__end__"
ROOT: Final = "__root__"
"""The only channel of a graph whose state is a single value instead of a mapping."""

Kind: te.TypeAlias = Literal[
    "last_value", "after_finish", "any_value", "ephemeral", "untracked", "reducer", "delta", "topic", "other"
]
_KINDS: Final[tuple[tuple[Any, Kind], ...]] = (
    (BinaryOperatorAggregate, "reducer"),
    (LastValueAfterFinish, "after_finish"),
    (LastValue, "last_value"),
    (AnyValue, "any_value"),
    (EphemeralValue, "ephemeral"),
    (UntrackedValue, "untracked"),
    (Topic, "topic"),
)
_DEFAULT_HANDLER: Final = "__default_error_handler__"
"""The name under which `compile()` adds the handler of `set_node_defaults(error_handler=...)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The location of a user's definition."""

    file: str
    """The path as Python knows it; `<ipython-input-...>` for a cell of a notebook."""
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One key of the state."""

    key: str
    """Its name; `ROOT` if the state is one value."""
    kind: Kind
    annotation: Any
    """The annotation in the first schema that declares it, with `Annotated`, `Required` and `NotRequired`."""
    value_type: Any
    """The annotation without these wrappers."""
    reducer: Callable[[Any, Any], Any] | None
    """The function of two values; None unless *kind* is `reducer` or `delta`."""
    schemas: tuple[type[Any], ...]
    """1..n schemas that declare it: of the state, the input, the output, nodes and routers. A key that only the input
    schema of a node declares is private to the nodes that read it."""
    channel: Any
    """LangGraph's object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node, with the defaults of `set_node_defaults` applied."""

    name: str
    runnable: Any
    """The Runnable that LangGraph made from the argument of `add_node`."""
    function: Callable[..., Any] | None
    """The callable behind it; None for a graph, or for a Runnable that does not wrap one function."""
    place: Place | None
    """Where the function, or the class of the Runnable, was defined; None for a graph."""
    accepts: frozenset[str]
    """Which of `config`, `runtime`, `store`, `writer`, `previous` and `error` LangGraph passes to the function."""
    input_schema: type[Any]
    reads: tuple[str, ...]
    """Keys of the input schema, including managed ones."""
    returns: Any
    """Its return annotation; `inspect.Parameter.empty` if it is missing or cannot be resolved."""
    unresolved: str
    """Why the annotations cannot be resolved, in which case LangGraph ignores all of them; empty if they can."""
    annotated_targets: tuple[str, ...] | None
    """Targets of its Commands according to `-> Command[Literal[...]]`, also inside a union; None without one."""
    targets: tuple[str, ...]
    """Targets that LangGraph draws: those of `destinations=`, else those of the annotation. They are not enforced."""
    destinations: bool
    """Whether `add_node(destinations=...)` was given, which hides the annotation."""
    defer: bool
    retry: tuple[Any, ...]
    """0..n `RetryPolicy`; the first one that matches an exception is used."""
    cache: Any
    """The `CachePolicy`, or None."""
    timeout: Any
    """The `TimeoutPolicy`, or None."""
    error_handler: str | None
    """The node that handles its exceptions."""
    is_error_handler: bool
    metadata: Mapping[str, Any]
    subgraph: GraphDescription | None
    """The description of the graph that is the node; None for a function, even if it calls a graph."""
    calls: tuple[Any, ...]
    """0..n compiled graphs that the code of the function names, and which it may therefore call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One conditional edge: a router of a node, or of START."""

    source: str
    name: str
    """The name of the router."""
    runnable: Any
    function: Callable[..., Any] | None
    place: Place | None
    accepts: frozenset[str]
    """As `Node.accepts`."""
    input_schema: type[Any] | None
    """The schema that the router reads; None means the input schema of the source."""
    path_map: Mapping[Any, str] | None
    """Labels to targets: passed by the user, or derived by LangGraph from a `Literal` that is the whole return
    annotation. None means that the router's result is used as node names, unchecked."""
    returns: Any
    """As `Node.returns`."""
    unresolved: str
    """As `Node.unresolved`."""
    labels: tuple[Any, ...] | None
    """Labels that the return annotation allows, wherever it has a `Literal`: in a list or a union too. None if it is
    missing, or also allows a type whose values are not known, such as `str`."""
    sends: bool
    """Whether the annotation mentions `Send`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEdge:
    """`add_edge([a, b], c)`: the target runs once all sources have run, over any number of supersteps."""

    sources: tuple[str, ...]
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDescription:
    """A LangGraph graph as plain data."""

    name: str
    state_schema: type[Any]
    input_schema: type[Any]
    output_schema: type[Any]
    context_schema: type[Any] | None
    inputs: tuple[str, ...]
    """Channels that the input may write."""
    outputs: tuple[str, ...]
    """Channels of the result."""
    channels: Mapping[str, Channel]
    managed: Mapping[str, Any]
    """Managed values by key, such as `IsLastStepManager` and `RemainingStepsManager`."""
    nodes: Mapping[str, Node]
    """By name, in the order of `add_node`, including error handlers; without START and END."""
    edges: tuple[tuple[str, str], ...]
    waiting: tuple[WaitingEdge, ...]
    branches: tuple[Branch, ...]
    """By source, in the order in which LangGraph runs them."""
    interrupt_before: tuple[str, ...]
    """Names of nodes; `"*"` is resolved to all of them."""
    interrupt_after: tuple[str, ...]
    checkpointer: Any
    """A saver, True (a nested graph with threads of its own), False, or None."""
    store: Any
    cache: Any
    late_nodes: tuple[str, ...]
    """Nodes that were added after `compile()`. They are neither in the compiled graph nor in *nodes*."""
    default_handler: bool
    """Whether `set_node_defaults` was given an error handler."""
    builder: Any
    """The `StateGraph`."""
    compiled: Any
    """The `CompiledStateGraph`, or None if a `StateGraph` was read."""


def is_graph(value: Any) -> bool:
    """Return whether `read` accepts *value*."""
    return _is_a(_unbound(value), StateGraph, CompiledStateGraph)


def read(graph: Any) -> GraphDescription:
    """Return the description of *graph*, a `StateGraph` or a `CompiledStateGraph`.

    Raises:
        TypeError: It is neither.
    """
    compiled: Any = _unbound(graph)
    builder: Any = compiled
    if _is_a(compiled, CompiledStateGraph):
        builder = compiled.builder
    elif _is_a(compiled, StateGraph):
        compiled = None
    else:
        raise TypeError(f"expected a StateGraph or a CompiledStateGraph, got {type(graph).__name__}")
    specs = _specs(builder)
    late = tuple(name for name in specs if compiled is not None and name not in compiled.nodes)
    nodes = {name: _node(name, spec, builder) for name, spec in specs.items() if name not in late}
    order = {name: index for index, name in enumerate((START, *nodes, END))}
    last = len(order)

    def rank(name: str) -> tuple[int, str]:
        return order.get(name, last), name

    schemas: Mapping[Any, Mapping[str, Any]] = builder.schemas
    return GraphDescription(
        name=getattr(compiled, "name", None) or "LangGraph",
        state_schema=builder.state_schema,
        input_schema=builder.input_schema,
        output_schema=builder.output_schema,
        context_schema=builder.context_schema,
        inputs=tuple(key for key in schemas[builder.input_schema] if key in builder.channels),
        outputs=tuple(key for key in schemas[builder.output_schema] if key in builder.channels),
        channels={key: _channel(key, channel, schemas) for key, channel in builder.channels.items()},
        managed=dict(builder.managed),
        nodes=nodes,
        edges=tuple(sorted(builder.edges, key=lambda edge: (rank(edge[0]), rank(edge[1])))),
        waiting=tuple(
            WaitingEdge(sources=tuple(sources), target=target)
            for sources, target in sorted(
                builder.waiting_edges,
                key=lambda waiting_edge: (rank(waiting_edge[1]), [rank(source) for source in waiting_edge[0]]),
            )
        ),
        branches=tuple(
            _branch(source, name, builder.branches[source][name])
            for source in sorted(builder.branches, key=rank)
            for name in builder.branches[source]
        ),
        interrupt_before=_names(getattr(compiled, "interrupt_before_nodes", ()), nodes),
        interrupt_after=_names(getattr(compiled, "interrupt_after_nodes", ()), nodes),
        checkpointer=getattr(compiled, "checkpointer", None),
        store=getattr(compiled, "store", None),
        cache=getattr(compiled, "cache", None),
        late_nodes=late,
        default_handler=_defaults(builder).get("error_handler") is not None,
        builder=builder,
        compiled=compiled,
    )


def place_of(value: Any) -> Place | None:
    """Return the location of a function, a method, a class or the class of an object; None if Python does not know it.

    A decorated function is followed to the innermost one, as `functools.wraps` records it.
    """
    value = plain_function(value)
    code = getattr(value, "__code__", None)
    if code is not None:
        return Place(file=code.co_filename, line=code.co_firstlineno)
    defined: Any = value if inspect.isclass(value) else value.__class__
    try:
        file = inspect.getsourcefile(defined)
        return None if file is None else Place(file=file, line=inspect.findsource(defined)[1] + 1)
    except (TypeError, OSError):  # a builtin; no file
        return None


def plain_function(value: Any) -> Any:
    """Return the function behind partials, bound methods, callable objects and decorators; *value* if there is none."""
    for _ in range(50):  # a `__wrapped__` may lead to itself
        if isinstance(value, functools.partial):
            value = value.func
        elif inspect.ismethod(value):
            value = value.__func__
        elif hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        elif not inspect.isfunction(value) and not inspect.isclass(value):
            call: Any = type(value).__call__ if callable(value) else None
            if not inspect.isfunction(call):
                return value
            value = call
        else:
            return value
    return value


def _is_a(value: object, *kinds: Any) -> bool:
    """Return whether *value* is an instance, without narrowing it from `Any`: LangGraph's generics have no defaults."""
    return isinstance(value, kinds)


def _unbound(value: Any) -> Any:
    while _is_a(value, RunnableBindingBase):
        value = value.bound
    return value


def _defaults(builder: Any) -> dict[str, Any]:
    """Return the policies of `set_node_defaults`, by name; older versions have none."""
    defaults = getattr(builder, "_node_defaults", None)
    names = "retry_policy", "cache_policy", "error_handler", "timeout"
    return {name: getattr(defaults, name, None) for name in names}


def _specs(builder: Any) -> dict[str, Any]:
    """Return LangGraph's specs of all nodes, with the default error handler that `compile()` would add."""
    specs = dict(builder.nodes)
    handler = _defaults(builder)["error_handler"]
    if handler is not None and _DEFAULT_HANDLER not in specs:
        specs[_DEFAULT_HANDLER] = types.SimpleNamespace(
            runnable=_coerced(handler, name=_DEFAULT_HANDLER, trace=False),
            input_schema=builder.state_schema,
            is_error_handler=True,
        )
    return specs


def _node(name: str, spec: Any, builder: Any) -> Node:
    defaults = _defaults(builder)
    is_handler = bool(getattr(spec, "is_error_handler", False))

    def policy(key: str, *, of_handlers: bool = True) -> Any:
        own = getattr(spec, key, None)
        return defaults[key] if own is None and (of_handlers or not is_handler) else own

    handler = getattr(spec, "error_handler_node", None)
    if handler is None and not is_handler and defaults["error_handler"] is not None:
        handler = _DEFAULT_HANDLER
    runnable = spec.runnable
    inner = _unbound(runnable)
    subgraph = read(inner) if _is_a(inner, CompiledStateGraph) else None
    function = None if subgraph is not None else _function_of(runnable)
    returns, unresolved = _return_annotation(function)
    ends: Any = getattr(spec, "ends", None) or ()
    annotated = _command_targets(returns)
    retry = policy("retry_policy")
    return Node(
        name=name,
        runnable=runnable,
        function=function,
        place=None if subgraph is not None else place_of(function if function is not None else inner),
        accepts=_accepts(runnable),
        input_schema=spec.input_schema,
        reads=tuple(builder.schemas.get(spec.input_schema, ())),
        returns=returns,
        unresolved=unresolved,
        annotated_targets=annotated,
        targets=tuple(ends),
        destinations=bool(ends) and tuple(ends) != annotated,
        defer=bool(getattr(spec, "defer", False)),
        retry=() if retry is None else _one_or_more(retry),
        cache=policy("cache_policy", of_handlers=False),
        timeout=policy("timeout"),
        error_handler=handler,
        is_error_handler=is_handler,
        metadata=dict(getattr(spec, "metadata", None) or {}),
        subgraph=subgraph,
        calls=tuple(_graphs_in(function)),
    )


def _one_or_more(policy: Any) -> tuple[Any, ...]:
    """Return policies as a tuple. A `RetryPolicy` is a named tuple itself."""
    return (policy,) if hasattr(policy, "max_attempts") else tuple(policy)


def _branch(source: str, name: str, spec: Any) -> Branch:
    function = _function_of(spec.path)
    returns, unresolved = _return_annotation(function)
    labels, sends = _labels(returns)
    return Branch(
        source=source,
        name=name,
        runnable=spec.path,
        function=function,
        place=place_of(function if function is not None else _unbound(spec.path)),
        accepts=_accepts(spec.path),
        input_schema=getattr(spec, "input_schema", None),
        path_map=dict(spec.ends) if spec.ends else None,  # LangGraph treats an empty path map as none
        returns=returns,
        unresolved=unresolved,
        labels=labels,
        sends=sends,
    )


def _channel(key: str, channel: Any, schemas: Mapping[Any, Mapping[str, Any]]) -> Channel:
    declaring = tuple(schema for schema, keys in schemas.items() if key in keys)
    annotation = next(
        (hints[key] for hints in map(_hints, declaring) if key in hints), declaring[0] if declaring else Any
    )
    delta = type(channel).__name__ == "DeltaChannel"  # LangGraph 1.2 and later
    return Channel(
        key=key,
        kind=_kind(channel, is_delta=delta),
        annotation=annotation,
        value_type=_stripped(annotation),
        reducer=getattr(channel, "reducer" if delta else "operator", None),
        schemas=declaring,
        channel=channel,
    )


def _kind(channel: Any, *, is_delta: bool) -> Kind:
    for cls, kind in _KINDS:
        if _is_a(channel, cls):
            return kind
    return "delta" if is_delta else "other"


def _names(names: Any, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    return tuple(nodes) if names == "*" else tuple(names or ())


def _function_of(runnable: Any) -> Callable[..., Any] | None:
    """Return the function that a Runnable wraps, a coroutine function if it has no other; None if it wraps none."""
    inner: Any = _unbound(runnable)
    if _is_a(inner, RunnableCallable, RunnableLambda):
        function: Callable[..., Any] | None = getattr(inner, "func", None) or getattr(inner, "afunc", None)
        return function
    return None


def _graphs_in(function: Any) -> Iterator[Any]:
    """Yield the compiled graphs that the code of a function names, in its closure or its module."""
    plain = plain_function(function)
    if not inspect.isfunction(plain):
        return
    known = dict(plain.__globals__)
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # a cell that is not assigned yet
            known[name] = cell.cell_contents
    for name in (*plain.__code__.co_names, *plain.__code__.co_freevars):
        value = _unbound(known.get(name))
        if _is_a(value, CompiledStateGraph):
            yield value


def _accepts(runnable: Any) -> frozenset[str]:
    return frozenset(getattr(_unbound(runnable), "func_accepts", None) or ())


def _hints(value: Any) -> dict[str, Any]:
    """Return resolved annotations, with extras; none at all if one of the names is unknown, as in LangGraph."""
    try:
        return typing.get_type_hints(value, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}


def _return_annotation(function: Any) -> tuple[Any, str]:
    """Return the return annotation of a function, and why its annotations cannot be resolved (empty if they can)."""
    plain = plain_function(function)
    if not inspect.isfunction(plain):
        return inspect.Parameter.empty, ""
    try:
        return typing.get_type_hints(plain).get("return", inspect.Parameter.empty), ""
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        return inspect.Parameter.empty, str(error)


def _stripped(annotation: Any) -> Any:
    while get_origin(annotation) in (Annotated, te.Required, te.NotRequired):
        annotation = get_args(annotation)[0]
    return annotation


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def union_parts(annotation: Any) -> list[Any]:
    """Return the members of a union, without None; any other annotation as the only member."""
    annotation = _stripped(annotation)
    parts = get_args(annotation) if _is_union(annotation) else (annotation,)
    return [_stripped(part) for part in parts if part is not type(None)]


def _command_targets(returns: Any) -> tuple[str, ...] | None:
    """Return the targets of `Command[Literal[...]]`, including in a union, a list or an Optional; None without one."""
    returns = _stripped(returns)
    if get_origin(returns) is Command:
        (inside,) = get_args(returns)
        return tuple(str(name) for name in get_args(inside)) if get_origin(inside) is Literal else None
    if _is_union(returns) or get_origin(returns) in (list, tuple, Sequence):
        target_lists = [targets for targets in map(_command_targets, get_args(returns)) if targets is not None]
        return tuple(dict.fromkeys(name for targets in target_lists for name in targets)) if target_lists else None
    return None


def _labels(returns: Any) -> tuple[tuple[Any, ...] | None, bool]:
    """Return the labels that a router's annotation allows, or None if it allows others too; and whether it has Sends."""
    parts, labels, sends, is_open = [_stripped(returns)], list[Any](), False, False
    while parts:
        part = parts.pop()
        if get_origin(part) is Literal:
            labels += get_args(part)
        elif _is_union(part) or get_origin(part) in (list, tuple, Sequence):
            parts += [_stripped(argument) for argument in get_args(part) if argument is not Ellipsis]
        elif part is Send:
            sends = True
        else:
            is_open = True
    return (None if is_open or not labels else tuple(dict.fromkeys(labels))), sends
