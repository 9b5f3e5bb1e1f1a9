"""The state of a run, and its elementary changes.

`Engine` adds the methods that make decisions. Functions that only read the state or change tasks take a `RunState`, so
that they do not depend on the engine. Each nested graph that runs or waits has its own, on the task that runs it
(`Extra.child`). The attributes form four groups:

- the plan and its limits: `plan`, `fields`, `limits`, `max_steps`, `visit_limits`, ...
- the state of the run: `values`, `due`, `tasks`, `joins`, `visits`, `superstep`, `unrouted`, `usage`, ...
- observers, None or empty if nothing listens: `log`, `committed`, `trail`, `dirty`, `settled`, ...

Only this class, the engine and `evolve` write them (tests/house/test_owner_of_state.py). For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from graphrt._engine.join_state import JoinKey, JoinState
from graphrt._engine.open_interrupt import AFTER
from graphrt._engine.ownership import CONTAINERS, lengths
from graphrt._engine.task import DONE, FAILED, HANDLED, NOTHING, PAUSED, Due, HandOver, Outside, Task, parted
from graphrt._plan.fields import Field
from graphrt._plan.quoting import tells
from graphrt._plan.state import Values
from graphrt._plan.tables import NodePlan, Plan
from graphrt.errors import Place
from graphrt.events import Amounts, Usage
from graphrt.limits import Limits

if TYPE_CHECKING:
    from graphrt._codec import Codec, NotStorable
    from graphrt._engine.committed import Committed
    from graphrt._engine.open_interrupt import OpenInterrupt
    from graphrt._engine.redactor import Redactor
    from graphrt._plan.state_reducer import StateReducer

_NO_LIMIT: Final = 1 << 62
"""Visit limit of an unlimited node: higher than a run can reach, so that comparisons need no special case for None."""
NO_VIEW: Final = object()
"""Marks `RunState.view` as missing: the values have changed, or only tasks hold the snapshot (R15)."""


class RunState:
    """One run of one plan: its values, open superstep, joins and counters.

    Args:
        plan: The compiled graph as tables.
        limits: Limits of the run; each drive may set others.
        thread: Id of the thread; None for a run without one.
        path: Id of the task that runs this nested graph, and a slash; empty for the graph at the top.
        check_state: Whether changes inside values are detected by comparing their stored forms (R15).
    """

    __slots__ = (
        "aliases",
        "around",
        "batches",
        "began",
        "changed_joins",
        "check_state",
        "checks_reports",
        "children",
        "codec",
        "committed",
        "depth",
        "designed",
        "dirty",
        "due",
        "entering",
        "ephemeral",
        "eventless",
        "fields",
        "granted",
        "guard",
        "handed",
        "is_read",
        "joins",
        "keeps",
        "keeps_undo",
        "kept",
        "limits",
        "log",
        "lone",
        "make_view",
        "max_steps",
        "observed",
        "opened",
        "outside",
        "parent",
        "path",
        "plain_commit",
        "plan",
        "questions",
        "redactor",
        "reducer",
        "run_id",
        "settled",
        "signals",
        "sizes",
        "spoilt",
        "staging",
        "steps",
        "superstep",
        "tasks",
        "thread",
        "timed",
        "trail",
        "trail_last",
        "unrouted",
        "unstorable",
        "usage",
        "values",
        "view",
        "visit_limits",
        "visits",
        "waiting",
    )

    def __init__(  # noqa: PLR0915 - one statement for each thing that a run knows
        self, plan: Plan, limits: Limits, *, thread: str | None = None, path: str = "", check_state: bool = False
    ) -> None:
        self.plan: Plan = plan
        """The compiled graph as tables: nodes, edges, joins, and the schema of the state."""
        self.aliases: dict[str, NodePlan] = {}
        """Nodes of an older graph by name: renamed ones, and placeholders for those that are gone."""
        self.changed_joins: Mapping[JoinKey, JoinKey] = {}
        """Maps joins of older graphs to the joins that replaced them, all by the current names of their nodes."""
        self.fields: dict[str, Field] = plan.state.fields
        """Fields of the state by name, in schema order."""
        self.reducer: StateReducer | None = plan.update.reducer
        """The reducer of the whole state; None if fields have reducers."""
        self.make_view: Callable[[Values], Any] = plan.state.view
        """Creates an instance of the user's state class from values; the containers in them are shared."""
        self.ephemeral: list[Field] = [f for f in self.fields.values() if f.ephemeral]
        """Fields that are reset before each fold (R16)."""
        self.thread: str | None = thread
        """Id of the thread; None for a run without one."""
        self.path: str = path
        """Task id of the nested graph's node, with a slash at its end; empty at the top."""
        self.run_id: str | None = None
        """Id of the run, for errors; None until the run sets it."""
        self.signals: tuple[tuple[str, str, Any], ...] = ()
        """Signals, posted by other processes, that no node has taken yet: id, name and value, in order of arrival. Only
        the graph at the top has any."""
        self.children: dict[str, None] = {}
        """Child threads started with `ctx.start` that are cancelled with this one and are not known to have ended: an
        ordered set of ids without tenant. A child that a task of a nested graph started is in the set of the graph at
        the top, and in that of the nested graph while it is open."""
        self.parent: str | None = None
        """Id, without tenant, of the thread whose task started this one; None for any other."""
        self.began: Mapping[str, str] = {}
        """Digests of the input that began the run, by field; see `events.RunStarted.digests`."""
        self.check_state: bool = check_state
        """Whether the stored forms of values are compared, to detect changes inside them (R15)."""
        self.codec: Codec | None = None
        """Encodes values, to check that they can be stored; None without a store."""
        self.eventless: bool = False
        """Whether plain commits are recorded in `plain_commit` instead of events, which only the store would read."""
        self.plain_commit: Any = None
        """(superstep, node, update, target) of the last commit, for the journal, if it was of one plain task. The update is a `Stamped`, or None if the node returned None; *target* is None at the end."""
        self.values: Values = {}
        """The committed values by field; an absent TypedDict key is missing."""
        self.sizes: dict[str, int] = {}
        """Length of every list, dict and set among the values, to detect a node that changed one in place."""
        self.view: Any = NO_VIEW
        """Snapshot for the next task; `NO_VIEW` if it has to be created."""
        self.keeps: int = plan.state.keeps
        """How views store their values: `IS_MAPPING`, `HAS_MAPPING` or `NEITHER` of `_plan.views`."""
        self.checks_reports: bool = True
        """Whether each report checks at once whether its task changed the state in place; if false, only the commit
        checks, all tasks together."""
        self.guard: dict[str, bytes] = {}
        """With `check_state`: encoded values by field, to compare with."""
        self.unstorable: dict[str, NotStorable] = {}
        """With `check_state`: fields whose values cannot be encoded, and why. Shared with nested graphs."""
        self.spoilt: set[str] = set()
        """Fields that a node changed in place and that could not be restored."""
        self.superstep: int = 0
        """Number of the open or last superstep, from 1; it counts per thread and is never reset."""
        self.steps: int = 0
        """Number of supersteps of this run, for `max_steps`."""
        self.visits: list[int] = []
        """Visits in this run by node index; indexes above the plan's belong to `aliases`."""
        self.joins: list[JoinState] = [JoinState(join) for join in plan.joins]
        """Open generations by join index."""
        self.due: list[Due] = []
        """Tasks of the next superstep, in task order."""
        self.waiting: list[Due] = []
        """Tasks that wait for the end of the open or due superstep, whose commit merges them with its routed tasks:
        tasks that an edit made due in the meantime, and activations of deferred nodes, which wait as long as others are
        due."""
        self.tasks: list[Task] = []
        """Tasks of the open superstep, in task order; empty if no superstep is open."""
        self.lone: Task | None = None
        """The task of the open superstep, if it is the only one."""
        self.opened: list[Due] = []
        """Value of `due` when the open superstep was opened; snapshots store it instead of the open tasks."""
        self.unrouted: list[Task] = []
        """Tasks whose superstep has committed, while its routers and joins wait for answers to an `interrupt_after`; no
        superstep is open then."""
        self.questions: dict[str, OpenInterrupt] = {}
        """All questions of the open superstep at the top by id, in the order in which they were asked; one dict for a
        thread and its nested graphs."""
        self.entering: bool = False
        """Whether the router of START has not been called yet."""
        self.log: list[Any] | None = None
        """Events that were logged but not taken yet, each as (path, event); None if nothing listens."""
        self.staging: bool = False
        """Whether outcomes of the open superstep are stored before it commits."""
        self.dirty: dict[Task, None] = {}
        """Tasks of the open superstep with changes that are not staged yet, as an ordered set."""
        self.settled: list[Any] = []
        """Events that a nested graph has staged, as (path, event): they are journalled with its parent's commit."""
        self.batches: int = 0
        """Number of event batches that a nested graph has staged, which is also the number of the next one."""
        self.kept: dict[str, Any] = {}
        """Events that a fork copied from its source for tasks of a nested graph, by task id: effects, questions,
        answers; or those that a second execution finds in the log. A task takes its events when its superstep opens."""
        self.trail: list[dict[str, Any]] | None = None
        """Committed updates of a nested graph in commit order, for its parent; None at the top."""
        self.trail_last: frozenset[str] = frozenset()
        """Fields of which the trail needs only the last write."""
        self.depth: int = 0
        """Number of graphs that enclose this one."""
        self.around: tuple[RunState, NodePlan] | None = None
        """The engine of the enclosing graph, and the node that runs this graph there; None at the top."""
        self.outside: Outside = NOTHING
        """The context of routers."""
        self.handed: HandOver | None = None
        """Where the enclosing graph continues after a task handed over to it, so that nothing more is due here; None
        before that."""
        self.designed: bool = False
        """True if this graph, or an enclosing one, was chosen by the argument of a Send, as designed graphs are."""
        self.usage: Usage | None = None
        """Usage of the model calls of committed tasks; None if there were no calls."""
        self.granted: Amounts | None = None
        """Grants of committed tasks to the run's budget: tokens, microdollars, calls; None if there are no grants."""
        self.is_read: bool = False
        """Whether a stream reads the changes of each commit."""
        self.keeps_undo: bool = False
        """Whether commits keep undo records, because steps are read."""
        self.committed: Committed | None = None
        """The effects of the last commit, if they have a reader and were not shown yet."""
        self.redactor: Redactor | None = None
        """Redacts values that enter the thread; None if nothing is redacted."""
        self.observed: bool = False
        """Whether the changes of commits are read, or there is a trail."""
        self.limit(limits)

    def limit(self, limits: Limits) -> None:
        """Apply *limits*, which each drive sets again."""
        self.limits: Limits = limits
        self.max_steps: int = limits.max_steps
        # Applies to nodes without their own limit.
        general = _NO_LIMIT if limits.max_visits is None else limits.max_visits
        self.visit_limits: list[int] = self.plan.visit_limits(general, _NO_LIMIT)
        self.timed: bool = not limits.timeout_s is limits.step_timeout_s is limits.deadline_s is None
        """Whether the run has time limits for attempts, supersteps or itself."""

    def nest_in(self, parent: RunState, node: NodePlan, kept: dict[str, Any], *, designed: bool) -> None:
        """Attach this engine of a nested graph to the run of *parent*.

        Args:
            parent: The engine of that graph.
            node: The node of *parent* that runs this graph.
            kept: As the attribute; the dict is shared by all nested graphs of the thread.
            designed: Whether the argument of a Send chose the graph.
        """
        self.kept, self.questions = kept, parent.questions
        self.around = (parent, node)
        self.outside = parent.outside
        self.designed = designed or parent.designed
        # Shared dict, so that each field causes only one warning.
        self.run_id, self.unstorable = parent.run_id, parent.unstorable
        self.depth = parent.depth + 1
        if parent.redactor is not None:
            self.redact_with(parent.redactor)

    def give_to_tasks(self, events: dict[str, Any]) -> None:
        """Give each task that opens later its *events*, by task id; for the engine of the top graph."""
        self.kept = events

    def surround(self, outside: Outside) -> None:
        """Set the data in the context of routers, also for nested graphs that wait on the tasks."""
        self.outside = outside
        for task in self.tasks:
            if task.extra is not None and task.extra.child is not None:
                task.extra.child.surround(outside)

    def redact_with(self, redactor: Redactor) -> None:
        """Redact with *redactor* from now on, also in nested graphs that wait on their tasks."""
        self.redactor = redactor
        for task in self.tasks:
            if task.extra is not None and task.extra.child is not None:
                task.extra.child.redact_with(redactor)

    def identify(self, run_id: str) -> None:
        """Set the id of the run; before `listen`, which passes it on to nested graphs."""
        self.run_id = run_id

    def reset_counts(self) -> None:
        """Begin a new run: reset usage, grants beyond the budget, and child threads of earlier runs."""
        self.usage = self.granted = None
        self.children = {}

    def start_child(self, thread: str) -> None:
        """Record that a task starts a child thread, which is cancelled with this one."""
        self.children[thread] = None

    def forget_child(self, thread: str) -> None:
        """Record that a child thread has ended."""
        self.children.pop(thread, None)

    def begin_with(self, digests: Mapping[str, str]) -> None:
        """Set the digests of the input that begins the run, by field."""
        self.began = digests

    def pass_over(self) -> None:
        """Mark the number of the due superstep as used, because it is abandoned without being opened."""
        self.superstep += 1

    def leave_trail(self, last: frozenset[str]) -> None:
        """Keep committed updates from now on, as a nested graph does for its parent.

        Args:
            last: Fields that take the last value in both graphs, so that the parent needs only the newest write.
        """
        self.trail, self.trail_last = [], last
        self._set_observed()

    def listen(self, codec: Codec | None = None, *, staging: bool = False) -> None:
        """Log events from now on, for a journal or a sink, also in nested graphs that wait on their tasks.

        Args:
            codec: As the attribute.
            staging: Whether outcomes of the open superstep are stored before it commits.
        """
        self.log, self.codec, self.staging = [], codec, staging
        self._set_observed()
        for task in self.tasks:
            if task.extra is not None and task.extra.child is not None:
                task.extra.child.listen(codec, staging=staging)
                task.extra.child.run_id = self.run_id

    def _set_observed(self) -> None:
        """Set `observed` again, after one of the observers was set."""
        self.observed = self.is_read or self.trail is not None

    def follow(self, update: dict[str, Any]) -> None:
        """Add a committed *update* to the trail, if there is one.

        Writes of fields in `trail_last` replace earlier ones, so that a loop that writes them keeps no history.
        """
        trail = self.trail
        if trail is None or not update:
            return
        if trail and update.keys() <= self.trail_last:
            trail[-1] = {**trail[-1], **update}
        else:
            trail.append(update)

    def start(self, values: Values) -> None:
        """Begin a run on *values*, which the engine then owns. If START has routers, `Engine.begin` calls them."""
        self.values, self.guard = values, {}
        self.sizes = lengths(values)
        self.view = self.make_view(values)
        self.steps = 0
        self.visits = [0] * (len(self.plan.nodes) + len(self.aliases))  # placeholders have indexes above the plan's
        for join in self.joins:
            join.arrived, join.fired, join.emptied = set(), False, False
        start = self.plan.start  # a single static edge needs no routing; `begin` routes anything else
        self.due = [Due(start.next)] if start.one_way and start.next is not None else []
        self.entering = not self.due

    def watch(self, *, commits: bool, undo: bool = False) -> None:
        """Start or stop recording the changes of commits, for streams and steps.

        Args:
            commits: Whether changes are recorded from now on.
            undo: Whether undo records, which steps need, are kept with them.
        """
        self.is_read, self.keeps_undo, self.committed = commits, undo, None
        self._set_observed()

    def note_commit(self, committed: Committed) -> None:
        """Keep the changes of a commit until they are shown."""
        self.committed = committed

    def take_committed(self) -> Committed | None:
        """Return the effects of the last commit; None if there was none since the last call, or they have no reader."""
        committed, self.committed = self.committed, None
        return committed

    def entered(self) -> None:
        """Record that the router of START has been called."""
        self.entering = False

    def wait_for_input(self) -> None:
        """Leave nothing due, so that the next input starts the run.

        For a thread created by `Runtime.update` (decision 0059).
        """
        self.due, self.entering = [], False

    def settle(self, logged: list[Any]) -> str:
        """Keep events of a nested graph until its parent's commit. Returns the key under which they are staged.

        The key is the path, `+` and the number of the batch: a restart reads the batches in this order.
        """
        key = f"{self.path}+{self.batches}"
        self.settled += logged
        self.batches += 1
        return key

    def fold_older(
        self, fields: Mapping[str, Field], nodes: Mapping[str, NodePlan], joins: Mapping[JoinKey, JoinKey]
    ) -> None:
        """Prepare to fold the entries of an older graph (R14).

        Args:
            fields: Placeholders, by name, for fields that the current graph does not have.
            nodes: Renamed nodes of the current graph, by their old names.
            joins: Maps joins of older graphs to the joins that replaced them.
        """
        if fields:
            self.fields = {**self.fields, **fields}
        if nodes:
            self.aliases = dict(nodes)
        self.changed_joins = joins

    def adopt(self, values: Values | None) -> None:
        """Drop the fields of an older graph, once its entries are folded (R14).

        Args:
            values: The state for the current graph, if a migration or a default changed it; None keeps the values.
        """
        self.fields = self.plan.state.fields
        if values is None:
            return
        self.values, self.sizes = {}, {}
        self.take(values, self.fields)
        for task in self.tasks:  # so that they get a new view of the replaced values
            task.state = None

    def forget_store(self) -> None:
        """Stop encoding values: a replay compares values and does not store any."""
        self.codec = None

    def forget_view(self) -> None:
        """Drop the view, because the values have changed, or because its references keep lists from growing in place.

        A list grows in place only if `values` is its only owner, and a view would be another owner (R15).
        """
        self.view = NO_VIEW

    def take_view(self) -> Any:
        """Return the current view and drop the engine's reference, so that only tasks hold it."""
        view, self.view = self.view, NO_VIEW
        return self.make_view(self.values) if view is NO_VIEW else view

    def failed(self) -> Task | None:
        """Return the first task of the open superstep that failed for good, or None."""
        return next((task for task in self.tasks if task.status == FAILED), None)

    def open_interrupts(self) -> list[OpenInterrupt]:
        """Return the questions of the open superstep that wait for an answer, in task order.

        Between the fold of a superstep and its routers they are those of `interrupt_after`.
        """
        if self.unrouted:
            interrupts = (question for task in self.unrouted for question in task.open_interrupts())
            return [question for question in interrupts if question.kind == AFTER]
        return [question for task in self.tasks if task.status == PAUSED for question in task.open_interrupts()]

    def know(self, question: OpenInterrupt) -> None:
        """Add a question of the open superstep."""
        self.questions[question.id] = question

    def receive(self, id: str, name: str, value: Any) -> None:
        """Let a signal wait until a node takes it."""
        self.signals = (*self.signals, (id, name, value))

    def take_signal(self, id: str) -> None:
        """Remove a signal that a node takes."""
        self.signals = tuple(signal for signal in self.signals if signal[0] != id)

    def pause_before_routing(self) -> None:
        """Close the committed superstep, and make its routers and joins wait."""
        tasks, waiting = self.tasks, self.waiting
        self.close_superstep([])
        self.unrouted, self.waiting = tasks, waiting

    def hand_over(self, goto: HandOver) -> None:
        """End this nested graph; the enclosing graph continues at *goto*."""
        self.handed = goto

    def close_superstep(self, due: list[Due]) -> None:
        """Remove the open superstep, which was committed and routed, or is abandoned.

        *due* are the next tasks. The caller merges `waiting`, the tasks that an edit (`Runtime.update(as_node=...)`)
        made due in the meantime, into *due*.
        """
        self.tasks, self.lone, self.unrouted = [], None, []
        self.make_due(due)
        if not self.path:  # those of a nested graph are kept until the commit at the top, for a fork
            self.questions.clear()
        if self.dirty:
            self.dirty = {}

    def take(self, values: Values, written: Iterable[str], view: Any = NO_VIEW) -> None:
        """Make *values* the committed ones.

        Args:
            written: The fields that changed.
            view: A snapshot of *values* for the next task; by default it is created on demand.
        """
        self.sizes = self.measured(values, written)
        self.values, self.view = values, view

    def measured(self, values: Values, written: Iterable[str]) -> dict[str, int]:
        """Return the length of each container in *values*, which differ from the committed ones in *written*.

        The result may be `sizes` itself, so it must not be changed. The stored forms of *written* are dropped.
        """
        guard, sizes = self.guard, self.sizes
        if guard:
            for name in written:
                guard.pop(name, None)  # encoded again before the next tasks run
        for name in written:
            if name in values and values[name].__class__ in CONTAINERS:
                sizes = {**sizes, name: len(values[name])}
            elif name in sizes:
                sizes = {key: size for key, size in sizes.items() if key != name}
        return sizes

    def note_change(self, task: Task) -> None:
        """Mark *task* to be staged again, if tasks are staged: the flow stages all of `dirty` the next time."""
        if self.staging:
            self.dirty[task] = None

    def pending(self) -> tuple[str, ...]:
        """Return the names of the nodes with unfinished tasks, or else of the due nodes, in task order."""
        open_ = tuple(task.node.name for task in self.tasks if task.status not in (DONE, HANDLED))
        return open_ or tuple(item.node.name for item in self.due)

    def snapshot_for(self, task: Task) -> Any:
        """Return the view of *task*, creating it if the task has none, for instance before it is executed again."""
        if task.state is None:
            task.state = self.take_view()
        return task.state

    def interrupt_prefix(self, task: Task) -> str:
        """Return the prefix of the ids of all interrupts of *task*, which are `thread/task#key`."""
        return f"{self.thread}/{task.id}#"

    def where(self, task: Task | None = None) -> Place:
        """Return the location of the run or *task*, for errors.

        The argument of a Send is left out if it reveals the value of an untracked field (R16).
        """
        plan, path = self.plan, self.path[:-1] or None  # without the slash at its end
        if task is None:
            superstep = self.superstep or None
            return Place(graph=plan.name, path=path, superstep=superstep, thread=self.thread, run_id=self.run_id)
        return Place(
            graph=plan.name,
            path=path,
            node=task.node.name,
            declared_at=plan.spec_where(task.node.index) or None,
            task_id=task.id,
            superstep=task.superstep,
            arg=None if tells(task.arg, plan.state.untracked, self.values) else task.arg,
            thread=self.thread,
            run_id=self.run_id,
        )

    def make_due(self, due: list[Due]) -> None:
        """Make *due* the tasks of the next superstep, replacing the current ones.

        Deferred nodes wait if anything else is due. The engine calls it with the targets of routes, and never while a
        superstep is open; `close_superstep` covers that case.
        """
        self.due, self.waiting = parted(due) if self.plan.defers else (due, [])

    def following(self) -> list[Due]:
        """Return the due tasks and those that wait for them, for events.

        Empty while an `interrupt_after` is open, because the next tasks are not known.
        """
        return [*self.due, *self.waiting] if self.waiting and not self.unrouted else self.due

    def use_view(self, view: Any) -> None:
        """Use *view*, a snapshot of the current values, for the next task."""
        self.view = view

    def note_without_events(self) -> None:
        """Record plain commits in `plain_commit` from now on, because only the store needs their events."""
        self.eventless = True

    def swap_log(self, log: list[Any] | None) -> list[Any] | None:
        """Replace the log and return the previous one: to take the logged events, or to build events separately."""
        before, self.log = self.log, log
        return before

    def count_usage(self, used: Usage) -> None:
        """Add *used* to the usage of committed tasks."""
        self.usage = used if self.usage is None else self.usage + used

    def grant(self, granted: Amounts | None) -> None:
        """Set the sum of the grants to the run's budget; None if there are none."""
        self.granted = granted

    def restore(self, name: str, value: Any) -> None:
        """Restore the value of a field that was changed in place. This is not a commit, so views are kept."""
        self.values[name] = value

    def measure(self, name: str) -> None:
        """Update the recorded length of the container in the field *name*, which the next check expects."""
        self.sizes[name] = len(self.values[name])

    def add_alias(self, name: str, node: NodePlan) -> None:
        """Add a placeholder for a node of an older graph, with a separate count of visits."""
        self.aliases[name] = node
        self.visits.append(0)
