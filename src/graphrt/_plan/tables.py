"""The plan of a graph as frozen tables: nodes by index, with resolved edges, routes by label, and joins.

Built once from a valid spec. The engine, the drivers and the renderers read it, and worker threads may share it. For
the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final, final

from graphrt import reducers
from graphrt._plan import specs
from graphrt._plan.cache import DEFAULT_SIZE, NodeCache
from graphrt._plan.callables import node_shape
from graphrt._plan.fields import Field
from graphrt._plan.specs import BranchSpec, ChosenGraph, EdgeSpec, GraphSpec, JoinSpec, NodeFields, NodeSpec, Policy
from graphrt._plan.state import StateSchema, Values
from graphrt._plan.updates import UpdateSchema
from graphrt.commands import END, START, EndType
from graphrt.errors import InputError
from graphrt.limits import Limits

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._plan.state_classes import StateClasses

CALL_SYNC, CALL_ASYNC, CALL_WITH_CONTEXT, CALL_TIMED = 1, 2, 0, 3
"""Ways to call a node: `fn(state)`, `await fn(state)`, the general way (with a context, a nested graph, ...), or a call
that the caller can abandon, for a sync function that may be cut off."""

NO_DEFAULT: Final = object()
"""The default of a branch that has no `default=`. (None is taken: it means END.)"""


@final
class NodePlan:
    """One node, with its edges resolved to other NodePlans. Frozen once the plan is built.

    It is created from its function and its policy (the other arguments of `add_node`). `Plan` then sets its edges and
    calls `settle`.
    """

    # fmt: off
    __slots__ = (
        "arrives", "asked_each", "branches", "cache", "child", "choose", "defer", "due", "ends", "fn", "goto", "id_name", "index", "is_async", "max_visits",
        "name", "next", "on_error", "on_fatigue", "one_way", "pauses", "plain", "policy", "router", "static", "table",
        "timed", "wants_context", "writable",
    )
    # fmt: on

    def __init__(self, name: str, index: int, fn: Any, policy: Policy) -> None:
        shape = node_shape(fn) if fn is not None else None
        child = getattr(fn, "__graphrt_plan__", None)  # a compiled graph has its plan as this attribute
        self.name: str = name
        self.id_name: str = name
        """The name in ids of its tasks: `name`, or the older one in a copy that `formerly` returns."""
        self.index: int = index
        """Place in the order of declaration, which is task order (R2); -1 for START."""
        self.fn: Any = fn
        """The user's function, compiled graph or ChosenGraph; None for START."""
        self.policy: Policy = policy
        self.due: Any = None
        """A plain activation of the node, as the engine writes it; made at first use."""
        self.child: Plan | None = child
        """The plan of a nested graph; None for a function."""
        self.choose: bool = fn.__class__ is ChosenGraph
        """True if each task has its own nested graph, chosen by the argument of the Send that starts it."""
        self.cache: NodeCache | None = None
        """Results of earlier tasks by their inputs; None if the node has no `cache=`."""
        if policy.cache is not False:
            self.cache = NodeCache(DEFAULT_SIZE if policy.cache is True else policy.cache, policy.key)
        self.wants_context: bool = bool(shape and shape.wants_context and child is None)
        self.is_async: bool = bool(shape and shape.is_async and child is None)
        self.writable: Mapping[str, Field] = {}
        """Fields that the engine may write directly from a returned dict; all others are reported. These are the fields
        of `UpdateSchema.fields`, restricted to those in `writes=` if declared."""
        self.static: tuple[NodePlan, ...] = ()
        """Targets of static edges, END left out."""
        self.ends: bool = False
        """True if the node has a static edge to END."""
        self.branches: tuple[BranchPlan, ...] = ()
        """Conditional edges, in declaration order."""
        self.asked_each: tuple[BranchPlan, ...] = ()
        """Those branches whose routers take a context and are called for each task of the node."""
        self.arrives: tuple[int, ...] = ()
        """Indexes of the joins that this node is a source of."""
        self.on_error: NodePlan | EndType | None = None
        """The node that follows if the node fails; None if a failure fails the run."""
        self.on_fatigue: NodePlan | EndType | None = None
        """The node that runs instead if the node would exceed `max_visits`; None if that fails the run."""
        self.goto: frozenset[str | EndType] | None = None
        """Declared targets of its Commands, of those of its tools, and of hand-overs of its nested graph; None if undeclared."""
        self.max_visits: int | str | None = policy.max_visits
        """A number, None for no limit, or "graph" for the graph's limit."""
        self.pauses: bool = policy.interrupt_before or policy.interrupt_after
        """True if the node pauses by its policy, before or after it runs."""
        self.defer: bool = policy.defer
        """True if its plain activations wait until no other task is due."""
        self.timed: bool = policy.timeout_s is not None or policy.idle_timeout_s is not None
        """True if the node limits the time of its attempts."""
        self.plain: int = CALL_WITH_CONTEXT
        """CALL_SYNC, CALL_ASYNC or CALL_WITH_CONTEXT."""
        if not (self.wants_context or self.timed or self.choose or child is not None or self.cache is not None):
            self.plain = CALL_ASYNC if self.is_async else CALL_SYNC
        self.one_way: bool = False
        """True if `next`, or `router` and `table`, fully describe where the node leads: it has one edge and is in no
        join."""
        self.next: NodePlan | None = None
        """The only static target; None if the branch ends, or if there is a router."""
        self.router: Callable[[Any], Any] | None = None
        """The only router, if it takes no context; None if there is no conditional edge."""
        self.table: Mapping[Any, NodePlan | None] = {}
        """Routes of `router`: label to node, None for END. It lacks the labels that take the route of `default=`."""

    def settle(self) -> None:
        """Set `one_way` and the attributes that depend on it, once the edges are set."""
        self.asked_each = tuple([branch for branch in self.branches if branch.wants_context])
        if self.arrives or self.asked_each:
            return
        if not self.branches and len(self.static) <= 1:
            self.one_way = True
            self.next = self.static[0] if self.static else None
        elif len(self.branches) == 1 and not self.static:
            self.one_way = True
            self.router = self.branches[0].router
            self.table = self.branches[0].table

    def formerly(self, name: str) -> NodePlan:
        """Return a copy for the tasks that were pending when the node was still called *name*.

        Their ids keep that name, and so do the keys of what is staged for them and their idempotency keys: an outside
        service must recognise an effect that comes again after a release renamed the node.
        """
        node = copy(self)
        node.id_name, node.due = name, None
        return node

    def __repr__(self) -> str:
        return f"NodePlan({self.name!r})"


@final
class BranchPlan:
    """One conditional edge: a router, and the node for each label (None for END)."""

    __slots__ = ("default", "hint", "router", "router_name", "table", "wants_context", "where")

    def __init__(
        self,
        router: Callable[..., Any],
        table: Mapping[Any, NodePlan | None],
        default: Any,
        hint: Any = None,
        where: str = "",
    ) -> None:
        self.router: Callable[..., Any] = router
        self.wants_context: bool = node_shape(router).wants_context
        """True if the router is called as `router(state, ctx)`."""
        self.router_name: str = str(getattr(router, "__name__", None) or type(router).__name__)
        self.table: Mapping[Any, NodePlan | None] = table
        self.default: Any = default
        """Node for any other label: a NodePlan, None for END, or NO_DEFAULT."""
        self.hint: Any = hint
        """The router's return annotation, resolved if possible."""
        self.where: str = where
        """`file:line` of the call that added the edge; empty if unknown."""


@final
class JoinPlan:
    """A join: node *dst* runs once *need* distinct sources have arrived (R5). *sources* has their indexes.

    If the others never arrive, the run fails (*starved* is "error"), ends ("ignore"), or the node runs ("run").
    """

    __slots__ = ("dst", "index", "need", "sources", "starved")

    def __init__(self, index: int, sources: tuple[NodePlan, ...], dst: NodePlan, need: int, starved: str) -> None:
        self.index = index
        self.sources = frozenset(node.index for node in sources)
        self.dst = dst
        self.need = need
        self.starved = starved


@final
class Plan:
    """A whole graph, frozen.

    Codecs, topology and visit limits are created at first use, by whichever worker thread comes first.
    """

    # fmt: off
    __slots__ = (
        "_checking", "_classes", "_codec", "_custom", "_ends", "_node_specs", "_unstorable", "_visit_limits", "by_name",
        "defers", "has_timeouts", "hears", "joins", "levels", "limits", "name", "nodes", "pauses_after", "pauses_before", "pausing", "queues",
        "redacted", "shown", "spec", "start", "state", "update",
    )
    # fmt: on

    def __init__(self, spec: GraphSpec, limits: Limits) -> None:
        self.spec: GraphSpec = spec
        self.name: str = spec.name
        self.limits: Limits = limits
        """The graph's own limits of a run, which a runtime may override."""
        self.state: StateSchema = spec.state
        self.update: UpdateSchema = spec.update
        self.nodes: list[NodePlan] = []
        """Nodes by index, in the order of declaration, without START."""
        self.by_name: dict[str, NodePlan] = {}
        self.start: NodePlan = NodePlan(START.value, -1, None, _NO_POLICY)
        """START as a node, for its edges; it never runs."""
        self.joins: tuple[JoinPlan, ...] = ()
        """Joins by index, in the order of declaration."""
        self._node_specs: list[NodeSpec] = []
        """Declarations of the nodes, by index."""
        self._ends: set[int] = set()
        """Indexes of the nodes with an edge to END."""
        self._visit_limits: tuple[int, list[int]] | None = None
        """The last result of `visit_limits`, preceded by the general limit that it was computed for."""
        self._classes: StateClasses | None = None
        self._codec: Codec | None = None
        self._checking: Codec | None = None
        self._custom: tuple[str, ...] | None = None
        self._unstorable: tuple[tuple[str, str], ...] | None = None
        self.shown: dict[str, Any] | None = None
        """The topology as journals store it; None until the first journal needs it. Must not be changed."""
        self._build()
        self.has_timeouts: bool = any(node.timed for node in self.nodes)
        self.defers: bool = any(node.defer for node in self.nodes)
        """True if a node is deferred."""
        self.hears: bool = any(node.asked_each or node.choose for node in (self.start, *self.nodes)) or any(
            node.child is not None and node.child.hears for node in self.nodes
        )
        """True if a router of this graph or of a nested one takes a context, or if that is not known yet."""
        self.queues: frozenset[str] = frozenset(self._queues())
        """Names of the queues of its nodes, and of the nodes of nested graphs."""
        nested = [node.child for node in self.nodes if node.child is not None]
        self.redacted: frozenset[str] = self.state.redacted.union(*(child.redacted for child in nested))
        """Fields that are marked `redacted`, in its state and in those of nested graphs, at any depth."""
        self.pauses_before: bool = any(node.policy.interrupt_before for node in self.nodes)
        self.pauses_after: bool = any(node.policy.interrupt_after for node in self.nodes)
        self.levels: int = max((1 + node.child.levels for node in self.nodes if node.child is not None), default=0)
        """Nesting depth of the graphs inside it, for `max_depth`; graphs chosen at run time do not count."""
        self.pausing: str | None = self._pausing()
        """A node that pauses by its policy, as `node` or `outer/inner`; None if no node does. With one, a run needs a
        thread, which is stored and can be resumed (R10)."""

    def _queues(self) -> Iterator[str]:
        """Yield the names of the queues whose workers run nodes of this graph and of its nested graphs; may repeat."""
        for node in self.nodes:
            if node.policy.queue is not None:
                yield node.policy.queue
            if node.child is not None:
                yield from node.child.queues

    def _pausing(self) -> str | None:
        """Return the first node with `interrupt_before` or `interrupt_after`, for the attribute `pausing`."""
        for node in self.nodes:
            if node.pauses:
                return node.name
            if node.child is not None and node.child.pausing is not None:
                return f"{node.name}/{node.child.pausing}"
        return None

    def _build(self) -> None:
        """Create the nodes in the order of declaration, then connect them, since edges may be declared before nodes."""
        declared: tuple[Any, ...] = self.spec.declared
        for item in declared:
            if item.__class__ is NodeSpec:
                node = NodePlan(item.name, len(self.nodes), item.fn, item.policy)
                writes, fields = item.policy.writes, self.update.fields
                node.writable = fields if writes is None else {n: f for n, f in fields.items() if n in writes}
                self.nodes.append(node)
                self._node_specs.append(item)
                self.by_name[item.name] = node
        self._connect(declared)

    def _connect(self, declared: tuple[Any, ...]) -> None:
        """Resolve edges, branches and joins, and set the attributes of the nodes that depend on them."""
        by_name = self.by_name
        # Each by the index of its source.
        static: dict[int, list[NodePlan]] = {}
        branches: dict[int, list[BranchPlan]] = {}
        arrives: dict[int, list[int]] = {}
        joins: list[JoinPlan] = []
        for item in declared:
            kind = item.__class__
            if kind is EdgeSpec:
                at = self._node(item.src).index
                if item.dst is END:
                    self._ends.add(at)
                else:
                    static.setdefault(at, []).append(by_name[item.dst])
            elif kind is BranchSpec:
                branches.setdefault(self._node(item.src).index, []).append(self._branch(item))
            elif kind is JoinSpec and item.dst is END:  # END runs nothing, so there is nothing to wait for
                self._ends.update(by_name[src].index for src in item.sources)
            elif kind is JoinSpec:
                sources = tuple(by_name[src] for src in item.sources)
                need = len(sources) if item.when == "all" else 1 if item.when == "any" else item.when
                joins.append(JoinPlan(len(joins), sources, by_name[item.dst], need, item.starved))
                for node in sources:
                    arrives.setdefault(node.index, []).append(len(joins) - 1)
        self.joins = tuple(joins)
        for node in (self.start, *self.nodes):
            node.static = tuple(static.get(node.index, ()))
            node.ends = node.index in self._ends
            node.branches = tuple(branches.get(node.index, ()))
            node.arrives = tuple(arrives.get(node.index, ()))
            policy = node.policy
            if policy is not _NO_POLICY:  # START has none
                node.on_error = self._end_or_node(policy.on_error)
                node.on_fatigue = self._end_or_node(policy.on_fatigue)
                extra_targets = self.tool_targets(node.index) | self.handed_targets(node)
                if policy.goto is not None or extra_targets:
                    node.goto = extra_targets.union(policy.goto or ())  # type: ignore[arg-type]  # validated references
            node.settle()

    def _node(self, ref: Any) -> NodePlan:
        """Return the node that *ref*, a name or START, refers to."""
        return self.start if ref is START else self.by_name[ref]

    def _end_or_node(self, ref: Any) -> NodePlan | EndType | None:
        """Return the target of a policy: END, None for none, or the node with this name."""
        return ref if ref is None or isinstance(ref, EndType) else self.by_name[ref]

    def _branch(self, branch: BranchSpec) -> BranchPlan:
        """Return the conditional edge with its targets resolved; END is None."""
        table = {
            label: None if isinstance(target, EndType) else self._node(target)
            for label, target in specs.pairs(branch.routes)
        }
        default: Any = NO_DEFAULT
        if branch.default is not None:
            default = None if isinstance(branch.default, EndType) else self._node(branch.default)
        return BranchPlan(branch.router, table, default, branch.hint, branch.where)

    def visit_limits(self, general: int, unlimited: int) -> list[int]:
        """Return the greatest number of visits of each node, by index (R8).

        A visit is a superstep in which a node is active.

        Args:
            general: The limit of nodes without their own.
            unlimited: The number to use for "no limit".
        """
        cached = self._visit_limits
        # *unlimited* is always the same number.
        if cached is None or cached[0] != general:
            mine = (node.max_visits for node in self.nodes)
            limits = [general if m == "graph" else unlimited if m is None else int(m) for m in mine]
            self._visit_limits = cached = (general, limits)
        return cached[1]

    @property
    def custom(self) -> tuple[str, ...]:
        """Tracked (stored) fields with a user-defined reducer, in declaration order.

        The journal has their checksums, because a changed reducer would fold to different values in a replay.
        """
        if self._custom is None:
            tracked = [f.name for f in self.state.fields.values() if f.aggregates and not f.untracked]
            fields = self.state.fields
            self._custom = tuple(n for n in tracked if not reducers.is_own(fields[n].reduce))
            if self.update.reducer is not None:  # the user's, which makes every field
                self._custom = tuple(fields)
        return self._custom

    @property
    def classes(self) -> StateClasses:
        """The classes reachable from the stored fields, and from the updates of a reducer of the whole state (R14).

        Computed at first use, that is, for the fingerprint.
        """
        if self._classes is None:
            from graphrt._plan.state_classes import StateClasses

            roots: list[Any] = [field.annotation for field in self.state.fields.values() if not field.untracked]
            if self.update.reducer is not None:  # then the journal has the updates themselves
                roots.append(self.update.cls)
            self._classes = StateClasses(roots)
        return self._classes

    @property
    def codec(self) -> Codec:
        """The codec, which makes bytes of values, for this graph and its nested graphs; created at first use.

        Raises:
            InputError: Two of their classes have the same tag (`duplicate-tag`).
        """
        if self._codec is None:
            from graphrt._codec import Codec

            self._codec = Codec(self._types())
        return self._codec

    @property
    def checking(self) -> Codec:
        """The codec for `check_state`, the search for values that a node changed in place (R15); created at first use.

        It compares stored forms of this graph's own values. If two classes of nested graphs would be stored under the
        same tag, which matters only in a store, this codec knows only this graph's classes.
        """
        if self._checking is None:
            from graphrt._codec import Codec

            try:
                self._checking = self.codec
            except InputError:  # two classes of one tag: leave those of nested graphs out
                self._checking = Codec([cls for cls in (self.state.cls, self.update.cls) if cls is not None])
        return self._checking

    @property
    def unstorable(self) -> tuple[tuple[str, str], ...]:
        """Names of the fields whose values can never be stored, each with the reason, of this graph and of nested ones.

        Untracked fields are not included. Computed at first use, with the classes registered by then.
        """
        if self._unstorable is None:
            codec = self.codec
            fields = [field for field in self.state.fields.values() if not field.untracked]
            reasons = ((field.name, codec.why_never(field.annotation)) for field in fields)
            never_stored = [
                (f"{name!r} of {self.state.cls.__name__}", reason) for name, reason in reasons if reason is not None
            ]
            for node in self.nodes:
                if node.child is not None:
                    never_stored += node.child.unstorable
            self._unstorable = tuple(never_stored)
        return self._unstorable

    def _types(self) -> list[Any]:
        """Return the schema classes of this graph and of its nested graphs, whose fields lead to all stored classes."""
        types: list[Any] = [self.state.cls, self.update.cls, self.spec.input, self.spec.output]
        for node in self.nodes:
            if node.child is not None:
                types += node.child._types()
            elif node.choose:
                types += node.fn.states
        return [cls for cls in types if cls is not None]

    def spec_hint(self, index: int) -> Any:
        """Return the return annotation of the node; `hints.UNRESOLVED` if unknown. *index* is 0 or more."""
        return self._node_specs[index].hint

    def spec_fields(self, index: int) -> NodeFields | None:
        """Return the fields that the node declares to use; None if it declares none. *index* is 0 or more."""
        return self._node_specs[index].fields

    def tool_writes(self, index: int) -> frozenset[str]:
        """Return the fields that the tools of the node declare to write. *index* is 0 or more."""
        return frozenset(name for use in self._node_specs[index].tools for name in use.writes)

    def tool_targets(self, index: int) -> frozenset[str | EndType]:
        """Return the node names, or END, that the tools of the node may lead to. *index* is 0 or more."""
        return frozenset(ref for use in self._node_specs[index].tools for ref in use.goto)  # type: ignore[misc]  # validated

    def handed_targets(self, node: NodePlan) -> frozenset[str | EndType]:
        """Return the node names of this graph, or END, to which the nested graph of *node* may hand over."""
        inner: tuple[Any, ...] = () if node.child is None else node.child.spec.hands_over_to
        return frozenset(inner).union(node.policy.hands_over_to or ())  # type: ignore[arg-type]  # validated references

    def spec_where(self, index: int) -> str:
        """Return the `file:line` where the node was added; empty if unknown, and for START."""
        return self._node_specs[index].where if 0 <= index < len(self._node_specs) else ""

    def leads_to_end(self, index: int) -> bool:
        """Return True if a static edge, or a join, leads from the node to END."""
        return index in self._ends

    def place(self) -> str:
        """Return the graph's name and source line for the "Where" line of errors."""
        at = f", added at {self.spec.where}" if self.spec.where else ""
        return f"graph {self.name!r}{at}"


_NO_POLICY: Final = Policy()

__all__ = ["BranchPlan", "JoinPlan", "NodePlan", "Plan", "Values"]
