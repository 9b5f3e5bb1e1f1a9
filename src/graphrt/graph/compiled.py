"""`CompiledGraph`: a checked and frozen graph. It can be drawn, routed without a run, copied with other nodes, and run.

`run` and the other verbs make the same calls as those of `Runtime`, with a configuration for a single run.

The attribute `__graphrt_plan__` has the *plan*: the checked declarations, with edges resolved to nodes. Other modules
recognise a graph by it. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, final, overload

from typing_extensions import Unpack

from graphrt._arguments import is_mapping
from graphrt._codec import NotStorable
from graphrt._drivers.context import Context
from graphrt._engine.route import Router
from graphrt._engine.steps import Step
from graphrt._engine.task import Outside
from graphrt._flows.live import Live, MessageItem
from graphrt._observers import observed
from graphrt._plan import render
from graphrt._plan.node_attributes import MadeOf
from graphrt._plan.specs import NodeFields
from graphrt._plan.tables import NodePlan, Plan
from graphrt._plan.views import EXTRA, Values
from graphrt._runs import run_to_end, streams
from graphrt._runs.arguments import Mode, Modes, stream_modes
from graphrt._runs.if_exists import IfExists
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig, configure
from graphrt._runs.runtime_options import RuntimeOptions, check_options
from graphrt._runs.stream_items import STEPS
from graphrt._runs.streams import AsyncStream, Stream
from graphrt.commands import END, UNSET, EndType, NodeRef, Send, StartType, node_name
from graphrt.errors import closest
from graphrt.errors._codes.arguments import UNKNOWN_NODE_ASKED
from graphrt.errors._langgraph_names import no_attribute
from graphrt.events import Entry
from graphrt.graph import copies
from graphrt.graph.handles import I_co, S, U
from graphrt.limits import Limits

if TYPE_CHECKING:
    from graphrt.specs import GraphDiff, GraphSpec, Registry

Stub: TypeAlias = Callable[[S], Any] | Callable[[S, Context[Any]], Any]
"""A replacement for a node's function. Its result is checked at run time, since types of a lambda in a union are not
inferred."""
__tracebackhide__ = True  # pytest shows the line of the caller, not those of this module
_DRAWN: Final = 60
"""Maximum number of nodes for which notebooks show a graph as a picture; drawing takes up to a millisecond per node."""


@final
class CompiledGraph(Generic[S, U, I_co]):
    """An immutable graph, made by `GraphBuilder.compile()`. Runtimes and worker threads may share it."""

    __slots__ = ("__graphrt_form__", "__graphrt_plan__", "__weakref__", "_allow", "_fingerprint")
    __graphrt_form__: MadeOf | None
    """How a factory in `graphrt.nodes` created the graph, for `to_spec`; None for any other graph."""
    __graphrt_plan__: Plan
    _allow: frozenset[str]
    """Codes of the judgements that `compile` was asked to accept; `rewired` accepts them too."""
    _fingerprint: str | None
    """None until it is first asked for."""

    def __init__(self, plan: Plan, allow: frozenset[str] = frozenset()) -> None:
        # `object.__setattr__`, because the graph's own refuses every assignment.
        object.__setattr__(self, "__graphrt_form__", None)
        object.__setattr__(self, "__graphrt_plan__", plan)
        object.__setattr__(self, "_allow", allow)
        object.__setattr__(self, "_fingerprint", None)
        observed(self)  # shows the graph to tools such as coverage, if there are any

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"CompiledGraph is immutable: cannot set {name!r}; use with_nodes() or compile again")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"CompiledGraph is immutable: cannot delete {name!r}")

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.__graphrt_plan__.name

    @property
    def version(self) -> int:
        """Number of the build, as given to `GraphBuilder`; 0 without one. It is not part of the fingerprint."""
        return self.__graphrt_plan__.spec.version

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in the order in which they were added."""
        return tuple(self.__graphrt_plan__.by_name)

    @property
    def limits(self) -> Limits:
        """The limits given to `compile`."""
        return self.__graphrt_plan__.limits

    @property
    def state_type(self) -> type[S]:
        """The state class."""
        cls: type[S] = self.__graphrt_plan__.state.cls
        return cls

    @property
    def input_type(self) -> Any:
        """The class of `GraphBuilder(input=)`; without one, the state class."""
        plan = self.__graphrt_plan__
        return plan.state.cls if plan.spec.input is None else plan.spec.input

    @property
    def output_type(self) -> Any:
        """The class of `GraphBuilder(output=)`; without one, the state class."""
        plan = self.__graphrt_plan__
        return plan.state.cls if plan.spec.output is None else plan.spec.output

    @property
    def update_type(self) -> Any:
        """The declared type of updates; None if an update is any mapping of the state's fields."""
        return self.__graphrt_plan__.update.cls

    @property
    def fingerprint(self) -> str:
        """SHA-256 of names, edges, policies, schema and versions; the same for the same graph in any process."""
        if self._fingerprint is None:
            object.__setattr__(self, "_fingerprint", render.fingerprint(self.__graphrt_plan__))
        return self._fingerprint  # type: ignore[return-value]  # set above

    @property
    def nested(self) -> Mapping[str, CompiledGraph[Any, Any, Any]]:
        """The nested graphs, by the names of the nodes that run them."""
        return {node.name: node.fn for node in self.__graphrt_plan__.nodes if node.child is not None}

    @property
    def queues(self) -> frozenset[str]:
        """Names of the queues of its nodes, and of the nodes of nested graphs."""
        return self.__graphrt_plan__.queues

    def declared_fields(self, node: NodeRef) -> NodeFields | None:
        """Return the fields that *node* declares to use; None if it declares none."""
        return self.__graphrt_plan__.spec_fields(self._known(node, "declared_fields()").index)

    def declared_at(self, node: NodeRef | None = None) -> tuple[str, int] | None:
        """Return file and line where the graph's builder was made, or where *node* was added; None if unknown.

        Raises:
            InputError: The node is unknown.
        """
        plan = self.__graphrt_plan__
        where = plan.spec.where if node is None else plan.spec_where(self._known(node, "declared_at()").index)
        file, _, line = where.rpartition(":")
        if not file or not line.isdigit():
            return None
        # Locations have no folder, so that messages are the same on every machine; only the path of the graph's own
        # file is known.
        return (plan.spec.file if plan.spec.file.endswith(file) else file), int(line)

    def topology(self) -> dict[str, Any]:
        """Return nodes, edges, fields and limits as plain, JSON-ready data."""
        return render.topology(self.__graphrt_plan__)

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart."""
        return render.to_mermaid(self.__graphrt_plan__)

    def to_dot(self) -> str:
        """Return the graph in the DOT language of Graphviz."""
        return render.to_dot(self.__graphrt_plan__)

    def to_svg(self) -> str:
        """Return the graph as an SVG picture with a layered layout, suited to graphs of a few dozen nodes."""
        from graphrt.graph.svg import to_svg  # few processes draw

        return to_svg(self.topology())

    def to_json(self) -> str:
        """Return the topology as JSON text."""
        return render.to_json(self.__graphrt_plan__)

    def to_spec(self, registry: Registry | None = None) -> GraphSpec:
        """Return the graph as a manifest, which `GraphBuilder.from_spec` reads back.

        Args:
            registry: Names of the parts. None uses the functions' own names; `graphrt.nodes.registry_of(graph)` maps
                these to the objects.

        Raises:
            DefinitionError: A part is not in the registry (`unknown-part`), or cannot be written as data (`bad-spec`).
        """
        from graphrt.specs.writing import write  # few programs write manifests

        return write(self, registry)

    def diff(self, other: CompiledGraph[Any, Any, Any]) -> GraphDiff:
        """Return the differences between this graph and *other*: `print(old.diff(new))`.

        It compares manifests, so functions and models are identified by name only.

        Raises:
            DefinitionError: One of the graphs cannot be written as a manifest.
        """
        from graphrt.specs.differences import diff

        return diff(self.to_spec(), other.to_spec())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:  # noqa: ARG002 - IPython's
        """Return a picture, Mermaid and plain text, of which notebooks show one without network access."""
        picture = {"image/svg+xml": self.to_svg()} if len(self.nodes) <= _DRAWN else {}
        return {**picture, "text/vnd.mermaid": self.to_mermaid(), "text/plain": repr(self)}

    if not TYPE_CHECKING:  # hidden from type checkers, which report unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def __repr__(self) -> str:
        return f"CompiledGraph({self.name!r}, {len(self.nodes)} nodes)"

    def route(
        self,
        node: NodeRef | StartType,
        state: S | Mapping[str, Any],
        *,
        arg: Any = None,
        deps: Any = None,
        thread: str | None = None,
    ) -> tuple[str | Send | EndType, ...]:
        """Return where the edges of *node* lead for *state*. This calls its routers but runs no node.

        Args:
            node: A node, or START.
            state: A state, or a mapping of its fields. It is validated like an input.
            arg: `arg` of a router's context.
            deps: `deps` of a router's context.
            thread: `thread` of a router's context.

        Returns:
            Names in task order, then Sends, then END if a branch ends. The node of a join is included as if the join
            had all its sources.

        Raises:
            InputError: The node is unknown, or the state does not fit.
            RouteError: A router raised, or returned a label without a route.
        """
        plan = self.__graphrt_plan__
        source = plan.start if isinstance(node, StartType) else self._known(node, "route()", ", or START")
        values = plan.state.initial(state, where=plan.place())
        routes = Router(plan, plan.place, Outside(deps, thread)).ask(source, plan.state.view(values), (arg,))
        for join, _ in routes.arrivals:  # joins that *node* leads to, by their number
            target = plan.joins[join].dst
            routes.plain[target.index] = target
        due: list[str | Send | EndType] = [
            Send(item.node.name, item.arg) if item.is_send else item.node.name for item in routes.due()
        ]
        # A router has chosen END, a static edge leads there, or no edge leads anywhere.
        if routes.ends or plan.leads_to_end(source.index) or not due:
            due.append(END)
        return tuple(due)

    def _known(self, node: Any, verb: str, others: str = "") -> NodePlan:
        """Return the plan of *node* for the method *verb*, which also accepts *others*; InputError if there is none."""
        plan = self.__graphrt_plan__
        name = node_name(node)
        if isinstance(name, str) and name in plan.by_name:
            return plan.by_name[name]
        guess = closest(name, plan.by_name)
        raise UNKNOWN_NODE_ASKED(
            who=verb, name=name, known_nodes=plan.by_name, or_end=others, where=plan.place(), guess=guess
        )

    def with_nodes(
        self, replacements: Mapping[Any, Stub[S] | CompiledGraph[Any, Any, Any]]
    ) -> CompiledGraph[S, U, I_co]:
        """Return a copy with the functions of some nodes replaced, for instance by stubs in a test.

        Args:
            replacements: Node, or its name, to a function or a compiled graph. Edges and policies stay.

        Raises:
            DefinitionError: A node is unknown, or a function cannot be called as a node.
        """
        return CompiledGraph(copies.with_functions(self.__graphrt_plan__, replacements), self._allow)

    def without_queues(self) -> CompiledGraph[S, U, I_co]:
        """Return a copy without queues: its nodes, including those of nested graphs, run where their thread is driven.

        For tests, notebooks and experiments, where no worker serves the queues. The fingerprint is the same. A nested
        graph chosen at run time keeps its queues.
        """
        plan = self.__graphrt_plan__
        return CompiledGraph(copies.without_queues(plan), self._allow) if plan.queues else self

    def run(
        self,
        input: S | I_co,
        *,
        thread: str | None = None,
        if_exists: IfExists = "update",
        **options: Unpack[RuntimeOptions],
    ) -> RunResult[S]:
        """Run the graph once: `Runtime(self, **options).run(input, thread=thread, if_exists=if_exists)`.

        Without a store, nothing is stored.

        Raises:
            GraphrtError: The run failed.
        """
        return run_to_end.run(self._configured(options), input, thread, if_exists=if_exists)

    async def arun(
        self,
        input: S | I_co,
        *,
        thread: str | None = None,
        if_exists: IfExists = "update",
        **options: Unpack[RuntimeOptions],
    ) -> RunResult[S]:
        """Run the graph once on the running event loop; see `run`."""
        return await run_to_end.arun(self._configured(options), input, thread, if_exists=if_exists)

    async def __graphrt_resume__(self, thread: str, answers: Any, **options: Unpack[RuntimeOptions]) -> RunResult[S]:
        """Answer questions of a thread by id and continue it; for graphs used as tools. See `resume`."""
        return await run_to_end.aresume(self._configured(options), thread, answers, UNSET)

    def steps(self, input: S | I_co, **options: Unpack[RuntimeOptions]) -> Stream[Step[S], S]:
        """Run the graph once and yield each finished task; see `Runtime.steps`."""
        return streams.stream(self._configured(options), input, STEPS)

    def asteps(self, input: S | I_co, **options: Unpack[RuntimeOptions]) -> AsyncStream[Step[S], S]:
        """Run the graph once on the running event loop and yield each finished task; see `Runtime.steps`."""
        return streams.astream(self._configured(options), input, STEPS)

    # *modes* chooses the items that are yielded. The overloads give the items' type: those of a single mode come as
    # they are, those of several modes as pairs (mode, item). `astream` has the same ones.
    @overload
    def stream(
        self,
        input: S | I_co,
        *,
        modes: Literal["updates"] = ...,
        **options: Unpack[RuntimeOptions],
    ) -> Stream[dict[str, Any], S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Literal["values"], **options: Unpack[RuntimeOptions]
    ) -> Stream[S, S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Literal["events"], **options: Unpack[RuntimeOptions]
    ) -> Stream[Entry, S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Literal["messages"], **options: Unpack[RuntimeOptions]
    ) -> Stream[MessageItem, S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Literal["live"], **options: Unpack[RuntimeOptions]
    ) -> Stream[Live, S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Literal["result"], **options: Unpack[RuntimeOptions]
    ) -> Stream[RunResult[S], S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Mode | tuple[Mode], **options: Unpack[RuntimeOptions]
    ) -> Stream[Any, S]: ...
    @overload
    def stream(
        self, input: S | I_co, *, modes: Modes, **options: Unpack[RuntimeOptions]
    ) -> Stream[tuple[str, Any], S]: ...
    def stream(
        self,
        input: S | I_co,
        *,
        modes: Mode | Modes = ("updates",),
        **options: Unpack[RuntimeOptions],
    ) -> Stream[Any, S]:
        """Run the graph once and yield the stream's items; see `Runtime.stream`."""
        return streams.stream(self._configured(options), input, stream_modes(modes))

    @overload
    def astream(
        self,
        input: S | I_co,
        *,
        modes: Literal["updates"] = ...,
        **options: Unpack[RuntimeOptions],
    ) -> AsyncStream[dict[str, Any], S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["values"], **options: Unpack[RuntimeOptions]
    ) -> AsyncStream[S, S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["events"], **options: Unpack[RuntimeOptions]
    ) -> AsyncStream[Entry, S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["messages"], **options: Unpack[RuntimeOptions]
    ) -> AsyncStream[MessageItem, S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["live"], **options: Unpack[RuntimeOptions]
    ) -> AsyncStream[Live, S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Literal["result"], **options: Unpack[RuntimeOptions]
    ) -> AsyncStream[RunResult[S], S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Mode | tuple[Mode], **options: Unpack[RuntimeOptions]
    ) -> AsyncStream[Any, S]: ...
    @overload
    def astream(
        self, input: S | I_co, *, modes: Modes, **options: Unpack[RuntimeOptions]
    ) -> AsyncStream[tuple[str, Any], S]: ...
    def astream(
        self,
        input: S | I_co,
        *,
        modes: Mode | Modes = ("updates",),
        **options: Unpack[RuntimeOptions],
    ) -> AsyncStream[Any, S]:
        """Run the graph once on the running event loop and yield the stream's items; see `Runtime.stream`."""
        return streams.astream(self._configured(options), input, stream_modes(modes))

    def __graphrt_reexecute__(self, store: Any, thread: str, options: RuntimeOptions) -> Any:
        """Execute the runs of *thread* in *store* again, and return the report, for `graphrt.audit.reexecute`."""
        from graphrt._runs.reexecution import reexecute  # loads the agents

        return reexecute(self._configured(options)._replace(store=store), thread)

    def __graphrt_dump_state__(self, state: S) -> dict[str, str]:
        """Return the fields of a state in their stored form, for `graphrt.serve.Client`.

        Fields are left out whose values have no stored form, as those of untracked fields may.
        """
        plan = self.__graphrt_plan__
        values: Values = {**state} if is_mapping(state) else plan.state.values_of(state)
        if more := {name: values.pop(name) for name in [*values] if name not in plan.state.fields}:
            values[EXTRA] = more
        fields: dict[str, str] = {}
        for name, value in values.items():
            with suppress(NotStorable):
                fields[name] = plan.codec.dump(value, name).decode()
        return fields

    def __graphrt_load_state__(self, fields: Mapping[str, str]) -> S:
        """Return the state that `__graphrt_dump_state__` wrote. Fields that are missing have their defaults.

        Raises:
            StoreError: A value has a class that this graph lacks (`unknown-type`), or does not fit (`damaged-value`).
        """
        plan = self.__graphrt_plan__
        values = {name: plan.codec.load(text.encode()) for name, text in fields.items()}
        state: S = plan.state.view(plan.state.unchecked(values))
        return state

    def _configured(self, options: RuntimeOptions) -> RunConfig:
        """Return the configuration of one run, from the unchecked keyword arguments of its verb.

        Raises:
            InputError: An option is unknown, or has a wrong value (`input`).
        """
        if options:
            check_options(options, where=self.__graphrt_plan__.place())
        config = configure(self, **options)
        if config.doubles is not None:
            config.doubles.for_one_run = True
        return config
