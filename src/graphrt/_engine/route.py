"""Routing from finished tasks to the next ones (rules R3, R4): edges, routers and Commands, in task order.

Routers are called here, on a view of the folded values. Arrivals at joins are only collected, and `joins` counts them.
The engine is not changed: it commits the result, a `Routed`, as a whole.

R3: edges and routers see the folded state; a Command's goto replaces all outgoing edges of its node. R4: plain
activations of one node merge into one task, and Sends never merge. R16: no error may quote the value of an untracked
field. In the tables of a graph, END is None where a node is expected. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, final

import typing_extensions as te

from graphrt._cancellations import failures
from graphrt._engine.task import HANDLED, NOTHING, Due, Handled, HandOver, Outside, Task
from graphrt._plan.copying import SCALARS, own
from graphrt._plan.quoting import quoted, short, tells
from graphrt._plan.tables import NO_DEFAULT, BranchPlan, NodePlan, Plan
from graphrt.commands import END, EndType, Send, StartType, node_name
from graphrt.errors import Place, RouteError, TaskFailure, closest
from graphrt.errors._codes.nodes import (
    BAD_ROUTE,
    DIFFERENT_GOTOS,
    ROUTER_FAILED,
    SEND_WITHOUT_CONTEXT,
    UNDECLARED_GOTO,
    UNDECLARED_HAND_OVER,
    UNKNOWN_ROUTE,
    UNKNOWN_TARGET,
)

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState

_make: Any = getattr(tuple, "__new__")  # noqa: B009 - as Any: its typed form is partly unknown to checkers
"""Creates a Due from (node, arg, error, is_send) in a third of the time of `Due(...)`, because fan-outs create many."""


D_co = te.TypeVar("D_co", default=Any, covariant=True)
"""Type of `deps`. Covariant: a router only reads it."""


@final
class RouterContext(Generic[D_co]):
    """The second argument of a router, with data besides the state: `router(state, ctx)`.

    It has no clock, effects or models, so that a router remains a pure function of recorded data and the caller's
    arguments. Such a router is called for each task of its node, in task order.
    """

    __slots__ = ("arg", "deps", "node", "thread")

    def __init__(
        self,
        *,
        node: str,
        arg: Any = None,
        thread: str | None = None,
        deps: D_co = None,  # type: ignore[assignment]  # None where the caller passed nothing, as for a Context
    ) -> None:
        self.node: str = node
        """Name of the edge's source node; `"__start__"` for START."""
        self.arg: Any = arg
        """Argument of the Send that started the task; None for a plain activation."""
        self.thread: str | None = thread
        """Id of the run's thread, without its tenant; None for a run without one."""
        self.deps: D_co = deps
        """The `deps=` that the caller passed."""

    def __repr__(self) -> str:
        return f"RouterContext(node={self.node!r}, arg={self.arg!r}, thread={self.thread!r})"


@final
class Routed:
    """Targets of finished tasks: the tasks that become due, and the joins with arrivals."""

    __slots__ = ("arrivals", "emptied", "ends", "errors", "plain", "sends")

    def __init__(self) -> None:
        self.plain: dict[int, NodePlan] = {}
        """Plain activations by node index: several of one node merge (R4)."""
        self.sends: list[Due] = []
        """Sends in the order in which they were emitted; they never merge."""
        self.arrivals: list[tuple[int, int]] = []
        """(join index, node index of the source) in task order."""
        self.errors: dict[int, list[Handled]] = {}
        """Failures in task order, by the index of the `on_error` node that handles them."""
        self.ends: bool = False
        """Whether a router returned a label that leads to END, for `CompiledGraph.route`."""
        self.emptied: list[BranchPlan] = []
        """Conditional edges whose routers returned an empty list: a map over nothing (decision 0060). `joins` then
        marks the joins behind them, which may never fire."""

    def due(self) -> list[Due]:
        """Return the next tasks in task order: plain ones as their nodes were added, then Sends as emitted (R2)."""
        nodes = self.plain
        order = sorted(nodes) if len(nodes) > 1 else nodes  # indexes number the nodes as they were added
        if self.errors:
            return [Due(nodes[at], None, self._error(at), False) for at in order] + self.sends
        return [_make(Due, (nodes[at], None, None, False)) for at in order] + self.sends

    def _error(self, at: int) -> Handled | None:
        """Return the failures that the node with index *at* handles, as one value; None if it handles none."""
        handled = self.errors.get(at)
        return Handled.together(handled) if handled else None


def merged(before: Sequence[Due], routed: Routed) -> list[Due]:
    """Merge the tasks that were already due with those of *routed*, in task order; plain ones of a node merge (R2, R4).

    For edits (`Runtime.update(as_node=...)`), which make tasks due while others are due or open, and for deferred
    nodes, which wait. Earlier Sends precede those of *routed*. *routed* is changed.
    """
    for item in before:
        if not item.is_send:
            routed.plain.setdefault(item.node.index, item.node)
            if item.error is not None:
                routed.errors.setdefault(item.node.index, []).insert(0, item.error)  # older failures come first
    due = routed.due()
    plain = [item for item in due if not item.is_send]
    return [*plain, *(item for item in before if item.is_send), *due[len(plain) :]]


def plain_activation(node: NodePlan) -> Due:
    """Return the task of *node* that an edge starts. It is the same in each superstep, so it is cached on the node."""
    due: Due = _make(Due, (node, None, None, False))
    node.due = due
    return due


def handed_over(tasks: Sequence[Task]) -> HandOver | None:
    """Return the target to which *tasks* of a nested graph, whose superstep commits, hand over; None if none does.

    Raises:
        RouteError: Two of them hand over to different targets (`different-gotos`).
    """
    handing_over = [task for task in tasks if task.goto.__class__ is HandOver]
    for task in handing_over[1:]:
        if task.goto != handing_over[0].goto:
            first, second = handing_over[0], task
            raise DIFFERENT_GOTOS(
                who=f"Nodes {first.node.name!r} and {second.node.name!r}, which hand over to the graph above,",
                first=short(first.goto),
                second=short(second.goto),
                node=second.node.name,
                where=second.engine.where(second),
            )
    return handing_over[0].goto if handing_over else None  # type: ignore[return-value]  # a HandOver, see above


def router_of(engine: RunState) -> Router:
    """Return a Router for the plan of *engine*."""
    return Router(engine.plan, engine.where, engine.outside)


@final
class Router:
    """Calls the routers and reads the Commands of one plan. Created for each commit or reply that needs it."""

    __slots__ = ("outside", "plan", "view", "where")

    def __init__(self, plan: Plan, where: Callable[[], str | Place], outside: Outside = NOTHING) -> None:
        self.plan: Plan = plan
        self.outside: Outside = outside
        self.where: Callable[[], str | Place] = where
        """Makes the place for errors."""
        self.view: Any = None
        """The state with which routers were called, used to find untracked values in texts; None until one was
        called."""

    def follow(self, tasks: Sequence[Task], view: Any) -> Routed:
        """Return the targets of *tasks*, whose superstep commits, on the folded state *view*.

        The edges and routers of a node are followed once, at its first task without a goto (decision 0005). Routers
        with a context are called for each task (decision 0276).

        Raises:
            RouteError: A router raised, or returned a value without a route.
        """
        result = Routed()
        plain = result.plain
        followed: set[int] = set()
        for task in tasks:
            node = task.node
            # HANDLED: it failed, and its `on_error` node takes over. Its own node's edges do not apply (decision 0007).
            if task.status == HANDLED:
                handler = node.on_error
                if isinstance(handler, NodePlan):  # else END: nothing follows the failure
                    plain[handler.index] = handler
                    failure = task.more().failure
                    assert failure is not None  # noqa: S101 - a HANDLED task has one
                    task_failure = TaskFailure(error=failure, node=node.name, task_id=task.id, arg=own(task.arg))
                    result.errors.setdefault(handler.index, []).append(Handled(failure, (task_failure,)))
            elif task.goto is not None:  # replaces all edges of the node, join arrivals included (R3)
                for target in task.goto:
                    if target.__class__ is NodePlan:
                        plain[target.index] = target
                    elif target is not END:
                        result.sends.append(target)
            elif node.index not in followed:
                followed.add(node.index)
                self._edges(node, view, result, task.arg)
            else:
                for branch in node.asked_each:
                    self._read(node, branch, self._ask(node, branch, view, task.arg), result)
        return result

    def lead(self, targets: Sequence[Any]) -> Routed:
        """Return the tasks for the checked *targets* of an edit's goto (R18)."""
        result = Routed()
        for target in targets:
            if target.__class__ is NodePlan:
                result.plain[target.index] = target
            elif target is not END:
                result.sends.append(target)
        return result

    def ask(self, node: NodePlan, view: Any, args: Sequence[Any] = (None,)) -> Routed:
        """Return the targets of the edges of *node* on the state *view*, for START and edits.

        Args:
            args: Arguments of the tasks that are treated as finished, 1 or more; None for a plain activation.

        Raises:
            RouteError: As for `follow`.
        """
        result = Routed()
        self._edges(node, view, result, args[0])
        for arg in args[1:]:
            for branch in node.asked_each:
                self._read(node, branch, self._ask(node, branch, view, arg), result)
        return result

    def _edges(self, node: NodePlan, view: Any, result: Routed, arg: Any) -> None:
        """Add the targets of all edges of *node* to *result*: static edges, then conditional ones in order, then joins.

        Args:
            arg: Argument of the task.
        """
        self.view = view
        for target in node.static:
            result.plain[target.index] = target
        for branch in node.branches:
            self._read(node, branch, self._ask(node, branch, view, arg), result)
        for join in node.arrives:
            result.arrivals.append((join, node.index))

    def _ask(self, node: NodePlan, branch: BranchPlan, view: Any, arg: Any) -> Any:
        """Return the result of the router of *branch*, a conditional edge of *node*, for *view*, and a task with *arg*.

        Raises:
            RouteError: The router raised.
        """
        try:
            if not branch.wants_context:
                return branch.router(view)
            deps, thread = self.outside  # the argument is copied: the router could change it in place (R15)
            return branch.router(view, RouterContext(node=node.name, arg=own(arg), thread=thread, deps=deps))
        except failures() as error:
            raise self.router_error(node, branch, error) from error

    def router_error(self, node: NodePlan, branch: BranchPlan, error: BaseException) -> RouteError:
        """Return the error for a router that raised *error*."""
        return ROUTER_FAILED(
            router=branch.router_name,
            source=self._name(node),
            error=error,
            declared_at=branch.where or None,
            node=self._node(node),
            where=self.where(),
        )

    def read(self, node: NodePlan, branch: BranchPlan, returned: Any, view: Any) -> Routed:
        """Return the target of *branch*, the only edge of *node*.

        Args:
            returned: The unchecked result of its router for the state *view*.

        Raises:
            RouteError: As for `follow`.
        """
        self.view = view
        result = Routed()
        self._read(node, branch, returned, result)
        return result

    def _read(self, node: NodePlan, branch: BranchPlan, returned: Any, result: Routed) -> None:
        """Add the targets of the returned value *returned* to *result*: a label, a Send, or a list or tuple of them."""
        if issubclass(type(returned), (list, tuple)):
            if not returned:  # ends the branch (R3), and may keep a join from firing
                result.emptied.append(branch)
            known, sends = self.plan.by_name, result.sends
            for item in returned:
                # A Send to a node that takes a context needs no further check; a fan-out has thousands of these.
                if item.__class__ is Send and (name := item.node).__class__ is str and name in known:
                    target = known[name]
                    if target.wants_context:
                        arg = item.arg  # copied, so that only its task holds it (R15)
                        sends.append(_make(Due, (target, arg if arg.__class__ in SCALARS else own(arg), None, True)))
                        continue
                self._one(node, branch, item, returned, result)
        else:
            self._one(node, branch, returned, returned, result)

    def _one(self, node: NodePlan, branch: BranchPlan, label: Any, returned: Any, result: Routed) -> None:
        """Add the target of *label*, one item of the router's result, to *result*.

        Args:
            returned: The router's complete result, for the error.

        Raises:
            RouteError: It is not a label or Send, or has no route.
        """
        if label.__class__ is Send:
            result.sends.append(self.send(label, branch, node))
            return
        if not isinstance(label, (str, int, Enum)):
            raise BAD_ROUTE(
                router=branch.router_name,
                source=self._name(node),
                quoted=self._quoted(returned),
                labels=_labels(branch),
                declared_at=branch.where or None,
                node=self._node(node),
                value=self._told(returned),
                where=self.where(),
                fix="Return [] to end the branch." if label is None else None,
            )
        target: Any = branch.table.get(label, NO_DEFAULT)  # None is a target: it means END
        if target is NO_DEFAULT:
            target = branch.default  # the route of all other labels; NO_DEFAULT if there is none
        if target is NO_DEFAULT:
            guess = closest(label, [known for known in branch.table if isinstance(known, str)])
            raise UNKNOWN_ROUTE(
                router=branch.router_name,
                source=self._name(node),
                label=self._quoted(label),
                labels=_labels(branch),
                declared_at=branch.where or None,
                node=self._node(node),
                value=self._told(label),
                where=self.where(),
                guess=guess,
            )
        if target is not None:
            result.plain[target.index] = target
        else:
            result.ends = True

    def _quoted(self, returned: Any) -> str:
        """Return the text of a router's result, without values of untracked fields (R16)."""
        return quoted(returned, self.plan.state.untracked, self.view)

    def _told(self, returned: Any) -> Any:
        """Return the result of a router, for an attribute of an error; None if it reveals an untracked value (R16)."""
        return None if tells(returned, self.plan.state.untracked, self.view) else returned

    def targets(self, goto: Any, node: NodePlan, *, by: str | None = None) -> tuple[Any, ...]:
        """Return the checked targets of a goto, in order: NodePlans, END, and Dues of Sends.

        Args:
            goto: The user's value in a Command or an edit: a node, END or a Send, or a list or tuple of them.
            node: The node that the goto belongs to.
            by: Node of the nested graph of *node* that hands over to *goto*; None if *node* itself routes.

        Raises:
            RouteError: A target is START, an unknown node, or outside the node's declared `goto=`, or a Send cannot be
                delivered.
        """
        items: Any = goto if issubclass(type(goto), (list, tuple)) else (goto,)
        return tuple(self._target(item, node, by) for item in items)

    def _target(self, item: Any, node: NodePlan, by: str | None) -> Any:
        """Return one checked target of a Command's goto; see `targets`."""
        what = f"Command.goto of node {node.name if by is None else by!r}"
        if by is not None:
            what = f"{what}, with graph=PARENT,"
        if isinstance(item, Send):
            due = self.send(item, None, node)
            self._declared(due.node.name, item, node, what, by)
            return due
        if isinstance(item, EndType):
            self._declared(END, item, node, what, by)
            return END
        name = node_name(item)
        plan = self.plan.by_name.get(name) if isinstance(name, str) else None
        if plan is None:
            raise self._unknown(item, what, node)
        self._declared(plan.name, item, node, what, by)
        return plan

    def _declared(self, target: Any, item: Any, node: NodePlan, what: str, by: str | None) -> None:
        """Check that *target* is among the declared targets of *node*.

        A node without declared targets may go anywhere; a nested graph without them may not go anywhere.

        Args:
            target: Name of a node, or END.
            item: The target as written by the user, for the error.
            what: Subject of the error's message.

        Raises:
            RouteError: It is not.
        """
        targets = () if by is not None and node.goto is None else node.goto
        if targets is not None and target not in targets:
            declared = UNDECLARED_GOTO if by is None else UNDECLARED_HAND_OVER
            raise declared(
                who=what,
                owner="node",
                target_text=short(item),
                declared=sorted(targets, key=str) or ["nothing"],
                node=self._node(node) if by is None else by,
                target=target if isinstance(target, str) else "END",
                where=self.where(),
            )

    def send(self, send: Send, branch: BranchPlan | None, node: NodePlan) -> Due:
        """Return the task that *send* starts; its argument is a copy (R15).

        Args:
            branch: The conditional edge whose router emitted it; None if a Command of *node* did.

        Raises:
            RouteError: Its node is END, START or unknown, or takes no context and so could not see the argument.
        """
        try:
            plan = self.plan.by_name[send.node]
        except (KeyError, TypeError):
            raise self._unknown(send.node, f"A Send of {self._emitter(branch, node)}", node) from None
        if not plan.wants_context and plan.child is None:  # a nested graph gets the argument as input (decision 0015)
            raise SEND_WITHOUT_CONTEXT(
                emitter=self._emitter(branch, node), target=plan.name, node=self._node(node), where=self.where()
            )
        due: Due = _make(Due, (plan, own(send.arg), None, True))
        return due

    def _emitter(self, branch: BranchPlan | None, node: NodePlan) -> str:
        """Describe the emitter of a Send for an error: the router of *branch* or, without one, a Command of *node*."""
        if branch is None:
            return f"the Command of node {node.name!r}"
        return f"router {branch.router_name}() after {self._name(node)}"

    def _unknown(self, item: Any, what: str, node: NodePlan) -> RouteError:
        """Return the error for a target that is not a node of the graph, with what may have been meant.

        Args:
            item: The target as written by the user.
            what: Subject of the error's message.
        """
        nodes, source, where = self.plan.by_name, self._node(node), self.where()
        target = item if isinstance(item, str) else short(item)
        target_text, fix, guess = short(item), None, ""
        if isinstance(item, (StartType, EndType)):
            target_text = f"{item.name}, where no task can run"
            end = isinstance(item, EndType)
            fix = "Put END itself into goto or the routes." if end else "Name the node that START leads to."
        elif callable(item):
            name = getattr(item, "__name__", type(item).__name__)
            target_text = f"the function {name}()"
            fix = f"Use the node's name, {name!r}, or what @g.node returned."
        else:
            guess = closest(item, nodes)
            if target in (END.name, END.value):
                fix = f"Pass END itself (from graphrt import END), not {item!r}."
        return UNKNOWN_TARGET(
            who=what,
            target_text=target_text,
            known_nodes=nodes,
            node=source,
            target=target,
            where=where,
            guess=guess,
            fix=fix,
        )

    def _name(self, node: NodePlan) -> str:
        """Return the name of *node* in an error; START has the index -1."""
        return "START" if node.index < 0 else f"node {node.name!r}"

    def _node(self, node: NodePlan) -> str | None:
        """Return the name of *node* for the attribute `node` of an error; None for START."""
        return None if node.index < 0 else node.name


def _labels(branch: BranchPlan) -> list[Any]:
    """Return the labels that have a route, for an error."""
    return [label for label in branch.table if not isinstance(label, EndType)]
