"""GraphBuilder: collects a graph's declarations in the order of the calls. It executes nothing and judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, final, overload

from typing_extensions import Unpack

from graphrt._drivers.context import Context
from graphrt._plan import hints
from graphrt._plan.reachability import JUDGEMENTS, judgements
from graphrt._plan.specs import BranchSpec, Declared, EdgeSpec, GraphSpec, JoinSpec, NodeSpec
from graphrt._plan.state import StateSchema
from graphrt._plan.tables import Plan
from graphrt._plan.updates import UpdateSchema
from graphrt._plan.validate import errors
from graphrt.commands import END, START, Command, NodeRef, node_name
from graphrt.errors import DefinitionError, Problem, _foreign, names
from graphrt.graph.compiled import CompiledGraph
from graphrt.graph.decorator import NodeDecorator
from graphrt.graph.handles import Outcome, RouterResult, S, Source, Target, U, function_of
from graphrt.graph.places import at, caller, here
from graphrt.graph.policies import GraphPolicy, NodePolicy, read_policy
from graphrt.limits import Limits

X = TypeVar("X")
L = TypeVar("L")
"""Labels of a router. Invariant: `to` takes exactly the labels that the router returns."""


@final
class Branch(Generic[L, S, U]):
    """A conditional edge that waits for its routes; see `GraphBuilder.branch`."""

    def __init__(self, builder: GraphBuilder[S, U], src: Source, router: Callable[[S], Any], where: str) -> None:
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
        inline: Run the sync nodes on the event loop under `arun` and its kin, where they are not declared otherwise.
    """

    @overload
    def __init__(
        self,
        state: type[S],
        update: type[U],
        *,
        name: str = ...,
        input: type[Any] | None = ...,
        output: type[Any] | None = ...,
        inline: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: GraphBuilder[X, Mapping[str, Any]],
        state: type[X],
        *,
        name: str = ...,
        input: type[Any] | None = ...,
        output: type[Any] | None = ...,
        inline: bool = ...,
    ) -> None: ...
    @_foreign.told
    def __init__(
        self,
        state: type[Any],
        update: type[Any] | None = None,
        *,
        name: str = "graph",
        input: type[Any] | None = None,
        output: type[Any] | None = None,
        inline: bool = False,
    ) -> None:
        frame = caller()
        self._localns: Mapping[str, Any] = frame.f_locals if frame.f_locals is not frame.f_globals else {}
        self._name = name
        self._state = StateSchema(state, self._localns)
        self._update = UpdateSchema(self._state, update, overwrite=False, localns=self._localns)
        self._declared: list[Declared] = []
        self._problems: list[Problem] = []
        self._by_function: dict[int, str] = {}
        self._where = at(frame)
        self._input = input
        self._output = output
        self._inline = inline
        if not _is_name(name):
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
    def overwrite(state: type[X], *, name: str = "graph", inline: bool = False) -> GraphBuilder[X, X]:
        """A builder whose nodes return the full next state each time."""
        builder = GraphBuilder(state, state, name=name, inline=inline)
        builder._update = UpdateSchema(builder._state, state, overwrite=True, localns=builder._localns)
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

    @property
    def node(self) -> NodeDecorator[S, U]:
        """Decorator that adds a function as a node named like it: `@g.node`, or `@g.node(name=..., retry=3)`.

        What it returns is callable as the function was, and stands for the node wherever one is named. The policy
        arguments are those of `add_node`. A lambda is added with `add_node`.
        """
        return NodeDecorator(self._add)

    # A function that returns nothing but Commands comes first: pyright infers no dictionary through a union of classes.
    @overload
    def add_node(
        self, name: str, fn: Callable[[S], Command[U]], /, **policy: Unpack[NodePolicy[S]]
    ) -> GraphBuilder[S, U]: ...
    @overload
    def add_node(
        self, name: str, fn: Callable[[S, Context[Any]], Command[U]], /, **policy: Unpack[NodePolicy[S]]
    ) -> GraphBuilder[S, U]: ...
    @overload
    def add_node(
        self, name: str, fn: Callable[[S], Outcome[U]], /, **policy: Unpack[NodePolicy[S]]
    ) -> GraphBuilder[S, U]: ...
    @overload
    def add_node(
        self, name: str, fn: Callable[[S, Context[Any]], Outcome[U]], /, **policy: Unpack[NodePolicy[S]]
    ) -> GraphBuilder[S, U]: ...
    @overload
    def add_node(
        self, name: str, fn: CompiledGraph[Any, Any], /, **policy: Unpack[GraphPolicy[S]]
    ) -> GraphBuilder[S, U]: ...
    @_foreign.told
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
        self._add(name, fn, policy, here())
        return self

    def _add(self, name: Any, fn: Any, given: Mapping[str, Any], where: str) -> None:
        if self._inline:
            given = {"inline": self._inline, **given}
        policy, problems = read_policy(name, given, self._ref, where)
        self._problems += problems
        fn = function_of(fn)
        hint = hints.return_hint(fn, self._localns) if getattr(fn, "__annotations__", None) else hints.UNRESOLVED
        self._declared.append(NodeSpec(name, fn, policy, where, hint))
        self._by_function.setdefault(id(fn), name)

    # -- edges ---------------------------------------------------------------------------------------------------

    def add_edge(self, src: Source | Sequence[NodeRef], dst: Target) -> GraphBuilder[S, U]:
        """Always go from *src* to *dst*; from a list of nodes, wait for all of them (a join)."""
        where = here()
        if isinstance(src, (list, tuple)):
            self._join(src, dst, "all", "error", where)
        else:
            self._declared.append(EdgeSpec(self._ref(src), self._ref(dst), where))
        return self

    def add_sequence(self, nodes: Sequence[Source | Target]) -> GraphBuilder[S, U]:
        """Go through *nodes* one after another.

        Args:
            nodes: 2..n nodes; START may be the first and END the last. Elsewhere they are findings of `compile()`: a
                list has no type that tells its ends from its middle.
        """
        where = here()
        for src, dst in pairwise(nodes):
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
        self._join(src, dst, when, starved, here())
        return self

    def _join(self, src: Sequence[Any], dst: Any, when: Any, starved: Any, where: str) -> None:
        sources = (src,) if isinstance(src, str) else tuple(src)
        self._declared.append(JoinSpec(tuple(self._ref(ref) for ref in sources), self._ref(dst), when, starved, where))

    @_foreign.told
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
        self._branch(src, router, routes, default, here())
        return self

    @overload
    def branch(self, src: Source, router: Callable[[S], list[L]]) -> Branch[L, S, U]: ...
    @overload
    def branch(self, src: Source, router: Callable[[S], L]) -> Branch[L, S, U]: ...
    def branch(self, src: Source, router: Callable[[S], Any]) -> Branch[Any, S, U]:
        """Begin a conditional edge whose labels and targets type checkers verify: `g.branch(a, router).to({...})`.

        Args:
            src: The node (or START) that it comes after.
            router: Returns a label or a list of labels; for a router of Sends see `add_conditional_edges`.
        """
        return Branch(self, src, router, here())

    def _branch(self, src: Any, router: Any, routes: Any, default: Any, where: str) -> None:
        known: Mapping[Any, Any] | Iterable[Any] = (routes,) if isinstance(routes, str) else routes or ()
        if isinstance(known, Mapping):
            routes = {label: self._ref(known[label]) for label in known}
        else:
            routes = [self._ref(target) for target in known]
        default = None if default is None else self._ref(default)
        hint = hints.return_hint(router, self._localns)
        spec = BranchSpec(self._ref(src), router, routes, default, where, hints.labels_of(hint), hint)
        self._declared.append(spec)

    def set_entry(self, node: NodeRef) -> GraphBuilder[S, U]:
        """Begin at *node*: an edge from START."""
        self._declared.append(EdgeSpec(START, self._ref(node), here()))
        return self

    @_foreign.told
    def set_conditional_entry(
        self,
        router: Callable[[S], RouterResult],
        routes: Mapping[Any, Target] | Sequence[Target],
        default: Target | None = None,
    ) -> GraphBuilder[S, U]:
        """Begin where *router* says, asked on the initial state."""
        self._branch(START, router, routes, default, here())
        return self

    def set_finish(self, node: NodeRef) -> GraphBuilder[S, U]:
        """End after *node*: an edge to END."""
        self._declared.append(EdgeSpec(self._ref(node), END, here()))
        return self

    def _ref(self, ref: Any) -> Any:
        if isinstance(ref, str):
            return ref
        name = node_name(ref)
        if name is ref and callable(ref):  # the bare function of a node that was added by name
            return self._by_function.get(id(ref), ref)
        return name

    # -- compiling -----------------------------------------------------------------------------------------------

    @_foreign.told
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
                    message=f"allow= names {code!r}, which is not a judgement that could be accepted.",
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

    if not TYPE_CHECKING:  # checkers know that there is none

        def __getattr__(self, name: str) -> Any:
            _foreign.no_such(self, name, _foreign.BUILDER)

    def __repr__(self) -> str:
        return f"GraphBuilder({self._name!r}, {len(self._declared)} declarations)"


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name.strip())
