"""`GraphBuilder`: collects the declarations of a graph in the order of the calls.

It runs nothing and checks nothing: `compile()` checks the plan as a whole, so that all problems are reported at once.
Each declaration therefore records the location of the call, as `file:line` (*where*), for error messages.

`S` is the state, and `U` is the update that a node returns. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, final, overload

from typing_extensions import Unpack

from graphrt._drivers.context import Context
from graphrt._engine.route import RouterContext
from graphrt._observers import substituted
from graphrt._plan import hints
from graphrt._plan.node_attributes import fields_of
from graphrt._plan.specs import (
    BranchSpec,
    ChosenGraph,
    Declared,
    EdgeSpec,
    GraphSpec,
    JoinSpec,
    NodeSpec,
    routes_to,
    show,
)
from graphrt._plan.state import StateSchema
from graphrt._plan.updates import UpdateSchema
from graphrt.commands import END, START, Command, EndType, NodeRef, node_name
from graphrt.errors import Problem, names
from graphrt.errors._codes.findings import BAD_LIMIT_OPTION, BAD_NAME, DUPLICATE_EDGE, UNKNOWN_FIELDS_OF_UPDATE
from graphrt.errors._langgraph_names import no_attribute
from graphrt.graph.checking import checked
from graphrt.graph.compiled import CompiledGraph
from graphrt.graph.decorator import NodeDecorator
from graphrt.graph.handles import I_co, Outcome, RouterResult, S, Source, Target, U, function_of
from graphrt.graph.harness_node import HarnessPolicy, harness_node, is_harness
from graphrt.graph.places import at, caller, here
from graphrt.graph.policies import DEFAULTS, GraphPolicy, NodeDefaults, NodePolicy, offered_tools, read_policy, several
from graphrt.limits import Limits

if TYPE_CHECKING:
    from graphrt import specs
    from graphrt.harness import AgentHarness

X = TypeVar("X")
"""A state class, where `S` is already the builder's own."""
V = TypeVar("V")
"""The same for an update class."""
D = TypeVar("D", bound=Mapping[str, object])
"""A TypedDict: a state, or an `input=`. For any other class a part is a mapping of unknown keys."""
E = TypeVar("E", bound=Mapping[str, object])
"""A TypedDict that is the update of another TypedDict."""
L = TypeVar("L")
"""Labels of a router. Invariant: `Branch.to` takes exactly the labels that the router returns."""


@final
class Branch(Generic[L, S, U, I_co]):
    """A conditional edge without its routes yet, made by `GraphBuilder.branch`; until `to` names them, it has none."""

    def __init__(self, builder: GraphBuilder[S, U, I_co], src: Source, router: Callable[..., Any], where: str) -> None:
        self._builder = builder
        self._src = src
        self._router = router
        self._where = where
        builder._branch(src, router, (), None, where)
        self._unrouted = builder._declared[-1]
        """The edge without routes, which `compile()` reports if `to` was not called."""

    def to(self, routes: Mapping[L, Target], *, default: Target | None = None) -> GraphBuilder[S, U, I_co]:
        """Add the edge with its routes, and return the builder. Type checkers compare labels with the router's type.

        Args:
            routes: Label to node or END.
            default: Target of any other label; None rejects other labels.
        """
        declared = self._builder._declared
        declared[:] = [item for item in declared if item is not self._unrouted]
        self._builder._branch(self._src, self._router, routes, default, self._where)
        return self._builder


@final
class GraphBuilder(Generic[S, U, I_co]):
    """Declares a graph over a state.

    Args:
        state: A pydantic model, a dataclass or a TypedDict. Reducers are annotations of its fields.
        update: The type that nodes return: a TypedDict with total=False, a pydantic model or a dataclass. By default
            any mapping of the state's fields.
        name: The graph's name in messages, journals and pictures.
        input: A class with the fields that an input may have. By default all fields of the state.
        output: A class with the fields of `RunResult.output`. By default the whole state.
        inline: Run sync nodes on the event loop under `arun` and the other async verbs, unless a node says otherwise.
        reducer: A pure function `(state, update) -> state` that folds each update into the whole state, in task order.
            *update* may then be any type: a number, an enum, a union of models. Fields then have no reducers.
        version: Build number, from 0. It is not part of the fingerprint. It orders builds whose shape does not show
            which is newer: a lower version does not drive threads that a higher one left unfinished.
        hands_over_to: Nodes of the enclosing graphs, or END, to which its nodes may lead with `Command(goto=...,
            graph=PARENT)` where it is nested. Each enclosing graph must have them.
    """

    # With an update class, U is that class; without one, it is a mapping of the state's fields. With a reducer, U is
    # the type that it accepts, since mypy cannot infer an update type from a union of classes. Type checkers know the
    # parts of a run's input (I_co) if `input=` or the state is a TypedDict. A part of a model or dataclass is just a
    # mapping.
    @overload
    def __init__(
        self: GraphBuilder[X, V, V | Mapping[str, Any]],
        state: type[X],
        update: type[Any] | UnionType,
        *,
        reducer: Callable[[X, V], X],
        name: str = ...,
        input: type[Any] | None = ...,
        output: type[Any] | None = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: GraphBuilder[X, V, D],
        state: type[X],
        update: type[V],
        *,
        name: str = ...,
        input: type[D],
        output: type[Any] | None = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: GraphBuilder[X, Mapping[str, Any], D],
        state: type[X],
        *,
        name: str = ...,
        input: type[D],
        output: type[Any] | None = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: GraphBuilder[D, E, D | E],
        state: type[D],
        update: type[E],
        *,
        name: str = ...,
        input: None = ...,
        output: type[Any] | None = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: GraphBuilder[D, Mapping[str, Any], D],
        state: type[D],
        *,
        name: str = ...,
        input: None = ...,
        output: type[Any] | None = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: GraphBuilder[X, V, Mapping[str, Any]],
        state: type[X],
        update: type[V],
        *,
        name: str = ...,
        input: type[Any] | None = ...,
        output: type[Any] | None = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: GraphBuilder[X, Mapping[str, Any], Mapping[str, Any]],
        state: type[X],
        *,
        name: str = ...,
        input: type[Any] | None = ...,
        output: type[Any] | None = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> None: ...
    def __init__(
        self,
        state: type[Any],
        update: Any = None,
        *,
        reducer: Callable[[Any, Any], Any] | None = None,
        name: str = "graph",
        input: type[Any] | None = None,
        output: type[Any] | None = None,
        inline: bool = False,
        version: int = 0,
        hands_over_to: Target | Iterable[Target] = (),
    ) -> None:
        frame = caller()  # of the user's code, where the names in local annotations are found too
        self._localns: Mapping[str, Any] = frame.f_locals if frame.f_locals is not frame.f_globals else {}
        self._name = name
        self._state = StateSchema(state, self._localns)
        self._update = UpdateSchema(self._state, update, reducer=reducer, localns=self._localns)
        self._declared: list[Declared] = []
        self._problems: list[Problem] = []
        self._by_function: dict[int, str] = {}  # the first node of each function, by its `id`; see `_ref`
        self._where = at(frame)
        self._file = frame.f_code.co_filename
        self._input = input
        self._output = output
        self._defaults: dict[str, Any] = {"inline": True} if inline else {}
        """Default policy arguments for nodes that do not set them, as a `Policy`."""
        if not is_name(name):
            self._problems.append(
                BAD_NAME(name=repr(name), owner="a graph", wanted="a string that is not blank", where=self._where)
            )
        if version.__class__ is not int or version < 0:  # a bool is not a version
            self._problems.append(
                BAD_LIMIT_OPTION(
                    owner=f"graph {name!r}", option="version", given=version, wanted="an int from 0", where=self._where
                )
            )
        self._version = version
        self._hands_over_to: tuple[Any, ...] = tuple(node_name(ref) for ref in several(hands_over_to))
        for ref in self._hands_over_to:
            if not isinstance(ref, (str, EndType)):
                self._problems.append(
                    BAD_LIMIT_OPTION(
                        owner=f"graph {name!r}",
                        option="hands_over_to",
                        given=ref,
                        wanted="names of nodes of the graphs around it, or END",
                        where=self._where,
                    )
                )
        # Set by `from_spec`, and used by `compile`: the limits and the accepted judgements of a manifest.
        self._limits: Limits | None = None
        self._allow: tuple[str, ...] = ()
        self._schemas = {
            option: _schema(option, schema, self._state, self._localns, self._where, self._problems)
            for option, schema in (("input", input), ("output", output))
        }

    @staticmethod
    @overload
    def overwrite(
        state: type[D],
        *,
        name: str = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> GraphBuilder[D, D, D]: ...
    @staticmethod
    @overload
    def overwrite(
        state: type[X],
        *,
        name: str = ...,
        inline: bool = ...,
        version: int = ...,
        hands_over_to: Target | Iterable[Target] = ...,
    ) -> GraphBuilder[X, X, Mapping[str, Any]]: ...
    @staticmethod
    def overwrite(
        state: type[Any],
        *,
        name: str = "graph",
        inline: bool = False,
        version: int = 0,
        hands_over_to: Target | Iterable[Target] = (),
    ) -> GraphBuilder[Any, Any, Any]:
        """Return a builder whose nodes return the full next state, instead of an update."""
        builder: GraphBuilder[Any, Any, Any] = GraphBuilder(
            state, state, name=name, inline=inline, version=version, hands_over_to=hands_over_to
        )
        builder._update = UpdateSchema(builder._state, state, overwrite=True, localns=builder._localns)
        return builder

    @staticmethod
    def from_spec(
        spec: specs.GraphSpec | Mapping[str, Any] | str | bytes,
        registry: specs.Registry | None = None,
        *,
        state: type[Any] | None = None,
        limits: specs.SpecLimits | None = None,
    ) -> GraphBuilder[Any, Any, Any]:
        """Return a builder with the declarations of a manifest and its limits for `compile()`. Nothing is executed.

        Args:
            spec: What `graph.to_spec()` returned, or the same as JSON text or a mapping.
            registry: Resolves the names in it. `graphrt.nodes.registry(...)` also knows the ready-made nodes.
            state: The state class; None uses that of the manifest.
            limits: Size limits of the manifest; None uses the defaults.

        Raises:
            InputError: It is not JSON, or too large (`bad-spec-text`).
            DefinitionError: It has problems; `.problems` has all of them, each with its path as `where`.
        """
        from graphrt.graph.from_spec import declared_builder  # few programs read manifests

        kind: type[GraphBuilder[Any, Any, Any]] = GraphBuilder
        return declared_builder(kind, spec, registry, state, limits)

    @property
    def node(self) -> NodeDecorator[S, U]:
        """Decorator that adds a function as a node of the same name: `@g.node`, or `@g.node(name=..., retry=3)`.

        It returns a handle that can be called like the function, and that is accepted wherever a node is named. The
        policy arguments are those of `add_node`. Add a lambda with `add_node`, which gives it a name.
        """
        return NodeDecorator(self._add)

    # Functions that only return Commands come first, since pyright cannot infer a dictionary type through a union of
    # classes.
    @overload
    def add_node(
        self, name: str, fn: Callable[[S], Command[U]], /, **policy: Unpack[NodePolicy[S]]
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def add_node(
        self, name: str, fn: Callable[[S, Context[Any]], Command[U]], /, **policy: Unpack[NodePolicy[S]]
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def add_node(
        self, name: str, fn: Callable[[S], Outcome[U]], /, **policy: Unpack[NodePolicy[S]]
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def add_node(
        self, name: str, fn: Callable[[S, Context[Any]], Outcome[U]], /, **policy: Unpack[NodePolicy[S]]
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def add_node(
        self, name: str, fn: CompiledGraph[Any, Any, Any], /, **policy: Unpack[GraphPolicy[S]]
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def add_node(
        self, name: str, fn: AgentHarness, /, **policy: Unpack[HarnessPolicy[S]]
    ) -> GraphBuilder[S, U, I_co]: ...
    def add_node(self, name: str, fn: Any, /, **policy: Any) -> GraphBuilder[S, U, I_co]:
        """Add a function, a compiled graph, an agent or a harness as a node, and return the builder.

        Args:
            name: The node's name.
            fn: `fn(state)` or `fn(state, ctx)`, sync or async; or a CompiledGraph. A graph shares the fields that have
                the same name here, or those that `input=` and `output=` map. An agent or harness continues the
                conversation in the state's field with the reducer `messages`, or uses `input=` and `output=`.
            policy: `retry`, `timeout_s`, `idle_timeout_s`, `inline`, `on_error`, `on_fatigue`, `max_visits`, `cache`,
                `key`, `writes`, `goto`, `interrupt_before`, `interrupt_after`, `defer`, `version`, `tools`, `budget`,
                `queue`. For a graph also `input` (its field to this graph's field, or a function of this state),
                `output` (this graph's field to its field, or a function of its last state), `stateful` (the field that
                keeps its state) and `hands_over_to` (nodes of this graph). For an agent or harness: `input`, a field, a
                Template or a function of the state that is the prompt, and `output`, a field for the answer or a
                mapping of fields to attributes of the reply.
        """
        self._add(name, fn, policy, here())
        return self

    def _add(self, name: Any, fn: Any, arguments: Mapping[str, Any], where: str) -> None:
        """Declare a node with the policy arguments *arguments*, for `add_node`, `@g.node` and manifests."""
        own = frozenset(arguments)
        fn = function_of(fn)
        if is_harness(fn):
            fn, arguments, problem = harness_node(name, fn, arguments, self._state, where)
            self._problems += [] if problem is None else [problem]
        fields = fields_of(fn)
        if fields is not None and fields.writes:  # the first line of `declare_fields` for the function
            arguments = {"writes": fields.writes, **arguments}
        tools = offered_tools(fn, arguments)
        policy, problems = read_policy(name, arguments, self._ref, where)
        self._problems += problems
        hint = hints.return_hint(fn, self._localns) if getattr(fn, "__annotations__", None) else hints.UNRESOLVED
        self._declared.append(NodeSpec(name, fn, policy, where, hint, fields, tools, own))
        self._by_function.setdefault(id(fn), name)

    def set_node_defaults(self, **policy: Unpack[NodeDefaults]) -> GraphBuilder[S, U, I_co]:
        """Set policy arguments for all nodes of this graph, whenever they are added, and return the builder.

        A node's own argument takes precedence. The node named by `on_error` or `on_fatigue` does not handle itself.
        Nodes of nested graphs use the defaults of their own builders.

        Args:
            policy: `retry`, `timeout_s`, `idle_timeout_s`, `inline`, `queue`, `on_error`, `on_fatigue`, `max_visits`,
                `tools`, `budget`. A second call adds to the first.
        """
        arguments: dict[str, Any] = dict(policy)
        read, problems = read_policy("set_node_defaults", arguments, self._ref, here(), known=DEFAULTS)
        self._problems += problems
        self._defaults |= {option: getattr(read, option) for option in arguments if option in DEFAULTS}
        return self

    def _with_defaults(self, item: Declared) -> Declared:
        """Return a declaration; a node's declaration gets the defaults for arguments it does not set."""
        if not isinstance(item, NodeSpec):
            return item
        is_graph = hasattr(item.fn, "__graphrt_plan__") or isinstance(item.fn, ChosenGraph)
        missing = {
            option: value
            for option, value in self._defaults.items()
            if option not in item.given
            and not (option in ("on_error", "on_fatigue") and value == item.name)
            and not (option == "idle_timeout_s" and is_graph)  # the nodes inside the graph may have one
        }
        return replace(item, policy=replace(item.policy, **missing)) if missing else item

    def add_edge(self, src: Source | Sequence[NodeRef], dst: Target) -> GraphBuilder[S, U, I_co]:
        """Add a static edge: when *src* has finished, run *dst*. A list of sources makes a join that waits for all."""
        where = here()
        if isinstance(src, (list, tuple)):
            self._join(src, dst, "all", "error", where)
        else:
            self._declared.append(EdgeSpec(self._ref(src), self._ref(dst), where))
        return self

    def add_sequence(self, nodes: Sequence[Source | Target]) -> GraphBuilder[S, U, I_co]:
        """Add a static edge between each consecutive pair of *nodes*, which are 2..n nodes in order.

        START may be the first and END the last. Elsewhere `compile()` reports them, since the type cannot exclude them.
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
    ) -> GraphBuilder[S, U, I_co]:
        """Run *dst* once all, any or n of *src* have arrived, over as many supersteps as it takes.

        Args:
            src: The sources, each named once.
            dst: The node that waits.
            when: How many distinct sources to wait for.
            starved: What happens if nothing is due any more and *dst* still waits: "error" fails the run, "ignore" ends
                it, "run" runs *dst* with the sources that have arrived.
        """
        self._join(src, dst, when, starved, here())
        return self

    def _join(self, src: Sequence[Any], dst: Any, when: Any, starved: Any, where: str) -> None:
        """Declare a join, for `add_edge`, `add_join` and manifests. For the arguments see `add_join`."""
        sources = several(src)  # a single node is one source
        self._declared.append(JoinSpec(tuple(self._ref(ref) for ref in sources), self._ref(dst), when, starved, where))

    # Pairs have a separate signature, since mypy cannot infer pairs or lambdas through a union.
    @overload
    def add_conditional_edges(
        self,
        src: Source,
        router: Callable[[S], RouterResult],
        routes: Mapping[Any, Target] | Sequence[Target] | None = None,
        default: Target | None = None,
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def add_conditional_edges(
        self,
        src: Source,
        router: Callable[[S], RouterResult],
        routes: Sequence[tuple[Any, Target]],
        default: Target | None = None,
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def add_conditional_edges(
        self,
        src: Source,
        router: Callable[[S, RouterContext[Any]], RouterResult],
        routes: Mapping[Any, Target] | Sequence[Target] | None = None,
        default: Target | None = None,
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def add_conditional_edges(
        self,
        src: Source,
        router: Callable[[S, RouterContext[Any]], RouterResult],
        routes: Sequence[tuple[Any, Target]],
        default: Target | None = None,
    ) -> GraphBuilder[S, U, I_co]: ...
    def add_conditional_edges(
        self, src: Source, router: Callable[..., RouterResult], routes: Any = None, default: Target | None = None
    ) -> GraphBuilder[S, U, I_co]:
        """Add a conditional edge: after *src*, *router* is called with the committed state and chooses the next nodes.

        Args:
            src: The source node, or START.
            router: A pure sync function of the state that returns a label, a list of labels or a list of Sends. With a
                second parameter, which gets a `RouterContext`, it is asked for each task of *src*.
            routes: Label to node or END, as a mapping or as pairs. In a list of nodes, each node's name is its label.
                None, if the router is annotated to return a Literal or Enum of node names: each label is a node,
                and `"__end__"` is END.
            default: Target of any other label; None rejects other labels.
        """
        self._branch(src, router, routes, default, here())
        return self

    @overload  # L is the type of a label, whether the router returns one or a list
    def branch(self, src: Source, router: Callable[[S], list[L]]) -> Branch[L, S, U, I_co]: ...
    @overload
    def branch(self, src: Source, router: Callable[[S], L]) -> Branch[L, S, U, I_co]: ...
    @overload
    def branch(self, src: Source, router: Callable[[S, RouterContext[Any]], list[L]]) -> Branch[L, S, U, I_co]: ...
    @overload
    def branch(self, src: Source, router: Callable[[S, RouterContext[Any]], L]) -> Branch[L, S, U, I_co]: ...
    def branch(self, src: Source, router: Callable[..., Any]) -> Branch[Any, S, U, I_co]:
        """Begin a conditional edge whose labels and targets type checkers verify: `g.branch(a, router).to({...})`.

        Args:
            src: The source node, or START.
            router: A pure sync function, as for `add_conditional_edges`, that returns a label or a list of labels. A
                router that returns Sends needs `add_conditional_edges`.
        """
        return Branch(self, src, router, here())

    def _branch(self, src: Any, router: Any, routes: Any, default: Any, where: str) -> None:
        """Declare a conditional edge, for `Branch.to`, `add_conditional_edges` and manifests."""
        hint = hints.return_hint(router, self._localns)
        labels = hints.labels_of(hint)
        if routes is None and labels is not None:
            routes = routes_to(labels[0])
        # A single node counts as a list of one. None counts as no routes, which `compile()` reports.
        is_mapping = isinstance(routes, Mapping)
        known = cast("Mapping[Any, Any]", routes) if is_mapping else list[Any](several(routes or ()))
        if not isinstance(known, Mapping) and known and all(map(_is_pair, known)):
            pairs: list[tuple[Any, Any]] = known
            known = dict(pairs)
            for label, number in Counter(label for label, _ in pairs).items():
                if number > 1:
                    edge = f"route {show(label)} after {show(self._ref(src))}"
                    self._problems.append(DUPLICATE_EDGE(edge=edge, at=" in the same list", where=where))
        if isinstance(known, Mapping):
            routes = {label: self._ref(known[label]) for label in known}
        else:
            routes = [self._ref(target) for target in known]
        default = None if default is None else self._ref(default)
        spec = BranchSpec(self._ref(src), router, routes, default, where, labels, hint)
        self._declared.append(spec)

    def set_entry(self, node: NodeRef) -> GraphBuilder[S, U, I_co]:
        """Add an edge from START to *node*."""
        self._declared.append(EdgeSpec(START, self._ref(node), here()))
        return self

    @overload
    def set_conditional_entry(
        self,
        router: Callable[[S], RouterResult],
        routes: Mapping[Any, Target] | Sequence[Target] | None = None,
        default: Target | None = None,
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def set_conditional_entry(
        self,
        router: Callable[[S], RouterResult],
        routes: Sequence[tuple[Any, Target]],
        default: Target | None = None,
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def set_conditional_entry(
        self,
        router: Callable[[S, RouterContext[Any]], RouterResult],
        routes: Mapping[Any, Target] | Sequence[Target] | None = None,
        default: Target | None = None,
    ) -> GraphBuilder[S, U, I_co]: ...
    @overload
    def set_conditional_entry(
        self,
        router: Callable[[S, RouterContext[Any]], RouterResult],
        routes: Sequence[tuple[Any, Target]],
        default: Target | None = None,
    ) -> GraphBuilder[S, U, I_co]: ...
    def set_conditional_entry(
        self, router: Callable[..., RouterResult], routes: Any = None, default: Target | None = None
    ) -> GraphBuilder[S, U, I_co]:
        """Add a conditional edge from START: *router* is called with the initial state; see `add_conditional_edges`."""
        self._branch(START, router, routes, default, here())
        return self

    def set_finish(self, node: NodeRef) -> GraphBuilder[S, U, I_co]:
        """Add an edge from *node* to END."""
        self._declared.append(EdgeSpec(self._ref(node), END, here()))
        return self

    def _ref(self, ref: Any) -> Any:
        """Return the name of the node that *ref* refers to; START, END and unknown values unchanged."""
        if isinstance(ref, str):
            return ref
        name = node_name(ref)
        if name is ref and callable(ref):  # the plain function of a node that was added by name
            return self._by_function.get(id(ref), ref)
        return name

    def compile(self, *, limits: Limits | None = None, allow: Iterable[str] = ()) -> CompiledGraph[S, U, I_co]:
        """Check the whole graph and return it frozen. The builder does not change and may be compiled again.

        Args:
            limits: Limits of a run. A runtime may override them, field by field.
            allow: Codes of judgements (findings that may be intended) to accept, for instance "unreachable-node".

        Raises:
            DefinitionError: The graph has problems; `.problems` has all of them, in declaration order.
        """
        limits = limits if limits is not None else self._limits or Limits()
        accepted = frozenset((*self._allow, *((allow,) if isinstance(allow, str) else allow)))
        spec = GraphSpec(
            name=self._name,
            state=self._state,
            update=self._update,
            declared=tuple(self._with_defaults(item) for item in self._declared),
            where=self._where,
            file=self._file,
            input=self._input,
            output=self._output,
            input_schema=self._schemas["input"],
            output_schema=self._schemas["output"],
            version=self._version,
            hands_over_to=self._hands_over_to,
            problems=tuple(self._problems),
        )
        graph: CompiledGraph[S, U, I_co] = CompiledGraph(checked(spec, limits, accepted), accepted)
        # A tool such as mutation testing may have asked to substitute another graph for each compiled one.
        replaced: CompiledGraph[S, U, I_co] = substituted(graph)
        return replaced

    if not TYPE_CHECKING:  # hidden from type checkers, which report unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def __repr__(self) -> str:
        return f"GraphBuilder({self._name!r}, {len(self._declared)} declarations)"


def _is_pair(route: Any) -> bool:
    """Return True if an item of routes is a (label, target) pair. A node is named by a str, a handle or a function."""
    return route.__class__ in (tuple, list) and len(route) == 2


def is_name(name: object) -> bool:
    """Return True if *name* can be the name of a graph."""
    return isinstance(name, str) and bool(name.strip())


def _schema(
    option: str, schema: Any, state: StateSchema, localns: Mapping[str, Any], where: str, problems: list[Problem]
) -> StateSchema | None:
    """Return an input or output schema; None without one, which means all fields of the state.

    Args:
        option: `input` or `output`.
        schema: The class.
        state: The schema of the state, which must have its fields.
        localns: Local names around the builder, for annotations.
        where: `file:line` of the builder.
        problems: Problems are appended to it.
    """
    if schema is None:
        return None
    read = StateSchema(schema, localns, title=f"graph {option}", unquoted=state.unquoted)
    unknown = [field for field in read.fields if field not in state.fields]
    problems += read.problems
    if unknown:
        problems.append(
            UNKNOWN_FIELDS_OF_UPDATE(
                who=f"The {option} schema {schema.__name__}", unknown=names(unknown), fields=state.fields, where=where
            )
        )
    return read
