"""GraphBuilder: collects a graph's declarations in the order of the calls. It executes nothing and judges nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, final, overload

from graphrt._drivers.context import Context
from graphrt._plan import hints
from graphrt._plan.judge import JUDGEMENTS, judgements
from graphrt._plan.specs import BranchSpec, Declared, EdgeSpec, GraphSpec, JoinSpec, NodeSpec, Policy
from graphrt._plan.state import StateSchema
from graphrt._plan.tables import Plan
from graphrt._plan.updates import UpdateSchema
from graphrt._plan.validate import errors
from graphrt.commands import END, START, Command, NodeRef, node_name
from graphrt.errors import DefinitionError, Problem, closest, names
from graphrt.graph.compiled import CompiledGraph
from graphrt.graph.handles import NodeHandle, Returned, RouterResult, S, Source, Target, U
from graphrt.limits import Limits, RetryPolicy

X = TypeVar("X")
L = TypeVar("L")
"""Labels of a router. Invariant: `to` takes exactly the labels that the router returns."""

_POLICY = frozenset(Policy.__slots__)


@final
class Branch(Generic[L, S, U]):
    """A conditional edge that waits for its routes; see `GraphBuilder.branch`."""

    def __init__(self, builder: GraphBuilder[S, U], src: Source, router: Callable[[S], L], where: str) -> None:
        self._builder = builder
        self._src = src
        self._router = router
        self._where = where

    def to(self, routes: Mapping[L, Target], *, default: Target | None = None) -> GraphBuilder[S, U]:
        """Say where each label leads; type checkers compare the labels with the router's `Literal`."""
        self._builder._branch(self._src, self._router, routes, default, self._where)
        return self._builder


@final
class GraphBuilder(Generic[S, U]):
    """Declares a graph over a state.

    Args:
        state: A pydantic model, a dataclass or a TypedDict; reducers stand on its fields.
        update: What nodes return: a TypedDict with total=False, a pydantic model or a dataclass. If it is left out,
            any mapping of the state's fields.
        name: The graph's name in messages, journals and pictures.
        input: A narrower schema that inputs are checked against.
        output: A narrower schema of what the graph gives back.
    """

    @overload
    def __init__(
        self, state: type[S], update: type[U], *, name: str = ..., input: type[Any] | None = ..., output: type[Any] | None = ...
    ) -> None: ...
    @overload
    def __init__(
        self: GraphBuilder[S, Mapping[str, Any]],
        state: type[S],
        *,
        name: str = ...,
        input: type[Any] | None = ...,
        output: type[Any] | None = ...,
    ) -> None: ...
    def __init__(
        self,
        state: type[Any],
        update: type[Any] | None = None,
        *,
        name: str = "graph",
        input: type[Any] | None = None,
        output: type[Any] | None = None,
    ) -> None:
        self._setup(state, update, name, overwrite=False, depth=2, input=input, output=output)

    def _setup(
        self,
        state: type[Any],
        update: type[Any] | None,
        name: str,
        *,
        overwrite: bool,
        depth: int,
        input: type[Any] | None = None,
        output: type[Any] | None = None,
    ) -> None:
        caller = sys._getframe(depth)
        self._localns: Mapping[str, Any] = caller.f_locals if caller.f_locals is not caller.f_globals else {}
        self._name = name
        self._state = StateSchema(state, self._localns)
        self._update = UpdateSchema(self._state, update, overwrite=overwrite, localns=self._localns)
        self._declared: list[Declared] = []
        self._problems: list[Problem] = []
        self._by_function: dict[int, str] = {}
        self._where = _at(caller)
        self._input = input
        self._output = output
        if not isinstance(name, str) or not name.strip():
            self._problems.append(
                Problem(
                    code="bad-name",
                    message=f"{name!r} cannot be the name of a graph.",
                    hint="Use a non-empty string.",
                    where=self._where,
                )
            )
        self._names = {
            option: self._schema_names(option, schema) for option, schema in (("input", input), ("output", output))
        }

    @staticmethod
    def overwrite(state: type[X], *, name: str = "graph") -> GraphBuilder[X, X]:
        """A builder whose nodes return the full next state each time."""
        builder: GraphBuilder[X, X] = object.__new__(GraphBuilder)
        builder._setup(state, state, name, overwrite=True, depth=2)
        return builder

    def _schema_names(self, option: str, schema: Any) -> frozenset[str] | None:
        if schema is None:
            return None
        read = StateSchema(schema, self._localns)
        unknown = [field for field in read.fields if field not in self._state.fields]
        self._problems += read.problems
        if unknown:
            self._problems.append(
                Problem(
                    code="bad-update-type",
                    message=f"The {option} schema {schema.__name__} has fields that the state lacks: {names(unknown)}.",
                    hint=f"Known: {names(self._state.fields)}.",
                    where=self._where,
                )
            )
        return frozenset(read.fields)

    # -- nodes ---------------------------------------------------------------------------------------------------

    @overload
    def node(
        self, fn: Callable[[S], Command[U]], /
    ) -> NodeHandle[[S], Command[U]]: ...
    @overload
    def node(
        self, fn: Callable[[S], Coroutine[Any, Any, Command[U]]], /
    ) -> NodeHandle[[S], Coroutine[Any, Any, Command[U]]]: ...
    @overload
    def node(self, fn: Callable[[S], Coroutine[Any, Any, U]], /) -> NodeHandle[[S], Coroutine[Any, Any, U]]: ...
    @overload
    def node(
        self, fn: Callable[[S], Coroutine[Any, Any, Returned[U]]], /
    ) -> NodeHandle[[S], Coroutine[Any, Any, Returned[U]]]: ...
    @overload
    def node(self, fn: Callable[[S], U], /) -> NodeHandle[[S], U]: ...
    @overload
    def node(self, fn: Callable[[S], Returned[U]], /) -> NodeHandle[[S], Returned[U]]: ...
    @overload
    def node(
        self, fn: Callable[[S, Context[Any]], Command[U]], /
    ) -> NodeHandle[[S, Context[Any]], Command[U]]: ...
    @overload
    def node(
        self, fn: Callable[[S, Context[Any]], Coroutine[Any, Any, Command[U]]], /
    ) -> NodeHandle[[S, Context[Any]], Coroutine[Any, Any, Command[U]]]: ...
    @overload
    def node(
        self, fn: Callable[[S, Context[Any]], Coroutine[Any, Any, U]], /
    ) -> NodeHandle[[S, Context[Any]], Coroutine[Any, Any, U]]: ...
    @overload
    def node(
        self, fn: Callable[[S, Context[Any]], Coroutine[Any, Any, Returned[U]]], /
    ) -> NodeHandle[[S, Context[Any]], Coroutine[Any, Any, Returned[U]]]: ...
    @overload
    def node(self, fn: Callable[[S, Context[Any]], U], /) -> NodeHandle[[S, Context[Any]], U]: ...
    @overload
    def node(
        self, fn: Callable[[S, Context[Any]], Returned[U]], /
    ) -> NodeHandle[[S, Context[Any]], Returned[U]]: ...
    @overload
    def node(
        self,
        *,
        name: str | None = ...,
        retry: RetryPolicy | int | None = ...,
        timeout_s: float | None = ...,
        on_error: Target | None = ...,
        on_fatigue: Target | None = ...,
        max_visits: int | None = ...,
        cache: bool | int = ...,
        key: Callable[[S], Hashable] | None = ...,
        writes: Iterable[str] | None = ...,
        goto: Iterable[Target] | None = ...,
        interrupt_before: bool = ...,
        interrupt_after: bool = ...,
        version: str | None = ...,
    ) -> NodeDecorator[S, U]: ...
    def node(self, fn: Any = None, /, *, name: str | None = None, **policy: Any) -> Any:
        """Add a function as a node named like it; with arguments, under another name or with a policy.

        Returns:
            A handle: callable as the function was, and standing for the node wherever one is named.
        """
        where = _at(sys._getframe(1))
        if fn is not None:
            return self._decorate(fn, name, {}, where)
        return lambda function: self._decorate(function, name, policy, where)

    def _decorate(self, fn: Any, name: str | None, policy: dict[str, Any], where: str) -> Any:
        own_name = name if name is not None else getattr(fn, "__name__", type(fn).__name__)
        self._add(own_name, fn, policy, where)
        return NodeHandle(fn, own_name)

    @overload
    def add_node(
        self,
        name: str,
        fn: Callable[[S], Returned[U] | Coroutine[Any, Any, Returned[U]]],
        /,
        **policy: Any,
    ) -> GraphBuilder[S, U]: ...
    @overload
    def add_node(
        self,
        name: str,
        fn: Callable[[S, Context[Any]], Returned[U] | Coroutine[Any, Any, Returned[U]]],
        /,
        **policy: Any,
    ) -> GraphBuilder[S, U]: ...
    @overload
    def add_node(self, name: str, fn: CompiledGraph[Any, Any], /, **policy: Any) -> GraphBuilder[S, U]: ...
    def add_node(self, name: str, fn: Any, /, **policy: Any) -> GraphBuilder[S, U]:
        """Add a function or a compiled graph as a node.

        Args:
            name: The node's name.
            fn: `fn(state)` or `fn(state, ctx)`, sync or async; or a CompiledGraph, which shares the fields of the
                same name, or those that `input=` and `output=` map.
            policy: `retry`, `timeout_s`, `on_error`, `on_fatigue`, `max_visits`, `cache`, `key`, `writes`, `goto`,
                `interrupt_before`, `interrupt_after`, `version`; for a graph also `input` (its field to this graph's
                field, or a function of this state) and `output` (this graph's field to its field, or a function of
                its last state).
        """
        self._add(name, fn, policy, _at(sys._getframe(1)))
        return self

    def _add(self, name: Any, fn: Any, given: dict[str, Any], where: str) -> None:
        unknown = [option for option in given if option not in _POLICY]
        for option in unknown:
            guess = closest(option, _POLICY)
            self._problems.append(
                Problem(
                    code="bad-policy",
                    message=f"Node {name!r} has no policy {option!r}.",
                    node=name if isinstance(name, str) else None,
                    hint=f"Did you mean {guess!r}?" if guess else f"Known: {names(sorted(_POLICY))}.",
                    where=where,
                )
            )
        fn = getattr(fn, "_fn", fn) if isinstance(fn, NodeHandle) else fn
        if not given:
            policy = _NO_POLICY
        else:
            options = {option: value for option, value in given.items() if option in _POLICY}
            policy = self._policy(name, options, where)
        hint = hints.UNRESOLVED
        annotations = getattr(fn, "__annotations__", None)
        if annotations:
            hint = hints.return_hint(fn, self._localns)
        self._declared.append(NodeSpec(name, fn, policy, where, hint))
        self._by_function.setdefault(id(fn), name)

    def _policy(self, name: Any, options: dict[str, Any], where: str) -> Policy:
        retry = options.get("retry")
        if isinstance(retry, int) and not isinstance(retry, bool):
            options["retry"] = RetryPolicy(retry)
        elif retry is not None and not isinstance(retry, RetryPolicy):
            options["retry"] = None
            self._problems.append(
                Problem(
                    code="bad-policy",
                    message=f"Node {name!r}: retry must be a RetryPolicy or a number of attempts, not {retry!r}.",
                    node=name if isinstance(name, str) else None,
                    hint="Use RetryPolicy(attempts=...).",
                    where=where,
                )
            )
        for option in ("on_error", "on_fatigue"):
            if option in options:
                options[option] = self._ref(options[option])
        if options.get("goto") is not None:
            goto = options["goto"]
            items = (goto,) if isinstance(goto, str) or hasattr(goto, "__graphrt_node__") else goto
            options["goto"] = tuple(self._ref(ref) for ref in ([items] if items is END else items))
        if options.get("writes") is not None:
            writes = options["writes"]
            options["writes"] = (writes,) if isinstance(writes, str) else tuple(writes)
        return Policy(**options)

    # -- edges ---------------------------------------------------------------------------------------------------

    @overload
    def add_edge(self, src: Source, dst: Target) -> GraphBuilder[S, U]: ...
    @overload
    def add_edge(self, src: Sequence[NodeRef], dst: Target) -> GraphBuilder[S, U]: ...
    def add_edge(self, src: Any, dst: Any) -> GraphBuilder[S, U]:
        """Always go from *src* to *dst*; from a list of nodes, wait for all of them (a join)."""
        where = _at(sys._getframe(1))
        if isinstance(src, (list, tuple)):
            self._join(src, dst, "all", "error", where)
        else:
            self._declared.append(EdgeSpec(self._ref(src), self._ref(dst), where))
        return self

    def add_sequence(self, nodes: Sequence[NodeRef]) -> GraphBuilder[S, U]:
        """Go through *nodes* one after another."""
        where = _at(sys._getframe(1))
        for src, dst in zip(nodes, nodes[1:], strict=False):
            self._declared.append(EdgeSpec(self._ref(src), self._ref(dst), where))
        return self

    def add_join(
        self,
        src: Sequence[NodeRef],
        dst: Target,
        *,
        when: Literal["all", "any"] | int = "all",
        starved: Literal["error", "ignore", "run"] = "error",
    ) -> GraphBuilder[S, U]:
        """Run *dst* once all, any or n of *src* have arrived, over as many supersteps as it takes.

        Args:
            src: The sources, each named once.
            dst: The node that waits.
            when: How many distinct sources it waits for.
            starved: What happens if nothing is due any more and it still waits: fail, end the run, or run it with
                those that arrived.
        """
        self._join(src, dst, when, starved, _at(sys._getframe(1)))
        return self

    def _join(self, src: Sequence[Any], dst: Any, when: Any, starved: Any, where: str) -> None:
        sources = (src,) if isinstance(src, str) else tuple(src)
        self._declared.append(JoinSpec(tuple(self._ref(ref) for ref in sources), self._ref(dst), when, starved, where))

    def add_conditional_edges(
        self,
        src: Source,
        router: Callable[[S], RouterResult],
        routes: Mapping[Any, Target] | Sequence[Target],
        default: Target | None = None,
    ) -> GraphBuilder[S, U]:
        """Go where *router* says, asked on the committed state.

        Args:
            src: The node (or START) that it comes after.
            router: A pure sync function of the state that returns a label, a list of labels or a list of Sends.
            routes: Label to node or END; a list of nodes stands for itself.
            default: Takes any other label.
        """
        self._branch(src, router, routes, default, _at(sys._getframe(1)))
        return self

    def branch(self, src: Source, router: Callable[[S], L]) -> Branch[L, S, U]:
        """Begin a conditional edge whose labels and targets type checkers verify: `g.branch(a, router).to({...})`."""
        return Branch(self, src, router, _at(sys._getframe(1)))

    def _branch(self, src: Any, router: Any, routes: Any, default: Any, where: str) -> None:
        if isinstance(routes, Mapping):
            routes = {label: self._ref(target) for label, target in routes.items()}
        else:
            routes = [self._ref(target) for target in ((routes,) if isinstance(routes, str) else routes or ())]
        default = None if default is None else self._ref(default)
        hint = hints.return_hint(router, self._localns)
        spec = BranchSpec(self._ref(src), router, routes, default, where, hints.labels_of(hint), hint)
        self._declared.append(spec)

    def set_entry(self, node: NodeRef) -> GraphBuilder[S, U]:
        """Begin at *node*: an edge from START."""
        self._declared.append(EdgeSpec(START, self._ref(node), _at(sys._getframe(1))))
        return self

    def set_conditional_entry(
        self,
        router: Callable[[S], RouterResult],
        routes: Mapping[Any, Target] | Sequence[Target],
        default: Target | None = None,
    ) -> GraphBuilder[S, U]:
        """Begin where *router* says, asked on the initial state."""
        self._branch(START, router, routes, default, _at(sys._getframe(1)))
        return self

    def set_finish(self, node: NodeRef) -> GraphBuilder[S, U]:
        """End after *node*: an edge to END."""
        self._declared.append(EdgeSpec(self._ref(node), END, _at(sys._getframe(1))))
        return self

    def _ref(self, ref: Any) -> Any:
        if isinstance(ref, str):
            return ref
        name = node_name(ref)
        if name is ref and callable(ref):  # the bare function of a node that was added by name
            return self._by_function.get(id(ref), ref)
        return name

    # -- compiling -----------------------------------------------------------------------------------------------

    def compile(self, *, limits: Limits | None = None, allow: Iterable[str] = ()) -> CompiledGraph[S, U]:
        """Check the whole graph and freeze it. The builder stays as it is and may be compiled again.

        Args:
            limits: Bounds of a run; a runtime may override them field by field.
            allow: Codes of judgements that are accepted, for instance "unreachable-node".

        Raises:
            DefinitionError: Something is wrong; `.problems` has all findings in declaration order.
        """
        limits = limits if limits is not None else Limits()
        accepted = frozenset((allow,) if isinstance(allow, str) else allow)
        spec = GraphSpec(
            name=self._name,
            state=self._state,
            update=self._update,
            declared=tuple(self._declared),
            where=self._where,
            input=self._input,
            output=self._output,
            input_names=self._names["input"],
            output_names=self._names["output"],
            problems=tuple(self._problems),
        )
        found = errors(spec, limits)
        for code in sorted(accepted.difference(JUDGEMENTS), key=str):
            found.append(
                Problem(
                    code="bad-allow",
                    message=f"allow= names {code!r}, which is no judgement that could be accepted.",
                    hint=f"Known: {names(JUDGEMENTS)}.",
                )
            )
        plan: Plan | None = None
        if not found:
            plan = Plan(spec, limits)
            found = [problem for problem in judgements(plan) if problem.code not in accepted]
        if found or plan is None:
            count = "a problem" if len(found) == 1 else f"{len(found)} problems"
            raise DefinitionError(f"Graph {self._name!r} has {count}.", found, where=f"defined at {self._where}")
        return CompiledGraph(plan)

    def __repr__(self) -> str:
        return f"GraphBuilder({self._name!r}, {len(self._declared)} declarations)"


class NodeDecorator(Generic[S, U]):
    """What `g.node(...)` with arguments returns; only for type checkers."""

    @overload
    def __call__(self, fn: Callable[[S], Command[U]], /) -> NodeHandle[[S], Command[U]]: ...
    @overload
    def __call__(
        self, fn: Callable[[S], Coroutine[Any, Any, U]], /
    ) -> NodeHandle[[S], Coroutine[Any, Any, U]]: ...
    @overload
    def __call__(
        self, fn: Callable[[S], Coroutine[Any, Any, Returned[U]]], /
    ) -> NodeHandle[[S], Coroutine[Any, Any, Returned[U]]]: ...
    @overload
    def __call__(self, fn: Callable[[S], U], /) -> NodeHandle[[S], U]: ...
    @overload
    def __call__(self, fn: Callable[[S], Returned[U]], /) -> NodeHandle[[S], Returned[U]]: ...
    @overload
    def __call__(
        self, fn: Callable[[S, Context[Any]], Command[U]], /
    ) -> NodeHandle[[S, Context[Any]], Command[U]]: ...
    @overload
    def __call__(
        self, fn: Callable[[S, Context[Any]], Coroutine[Any, Any, U]], /
    ) -> NodeHandle[[S, Context[Any]], Coroutine[Any, Any, U]]: ...
    @overload
    def __call__(
        self, fn: Callable[[S, Context[Any]], Coroutine[Any, Any, Returned[U]]], /
    ) -> NodeHandle[[S, Context[Any]], Coroutine[Any, Any, Returned[U]]]: ...
    @overload
    def __call__(self, fn: Callable[[S, Context[Any]], U], /) -> NodeHandle[[S, Context[Any]], U]: ...
    @overload
    def __call__(
        self, fn: Callable[[S, Context[Any]], Returned[U]], /
    ) -> NodeHandle[[S, Context[Any]], Returned[U]]: ...
    def __call__(self, fn: Any, /) -> Any:
        """Add *fn* as the node."""
        raise NotImplementedError


_NO_POLICY = Policy()


def _at(frame: Any) -> str:
    """`file:line` of a frame, the file by its last part."""
    path = frame.f_code.co_filename
    return f"{path[path.rfind('/') + 1 :]}:{frame.f_lineno}"
