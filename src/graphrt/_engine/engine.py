"""The engine: the one mutable object of a run, and the verbs that change it.

What is due follows from the state alone (it is level-triggered), never from who called: after a crash or a pause one
simply asks again. The order of a superstep: `begin`, a `report` for each task, `commit`; `fast_path` has the fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._engine import committing, emit_events, joins, limit_checks, mutation_check, outcome, pausing
from graphrt._engine.failures import place
from graphrt._engine.fold import CONTAINERS
from graphrt._engine.joins import JoinState
from graphrt._engine.questions import OpenInterrupt
from graphrt._engine.route import Due, Routed, Router
from graphrt._engine.steps import StepRecorder
from graphrt._engine.storability import check_sends
from graphrt._engine.task import DONE, FAILED, HANDLED, PAUSED, Task
from graphrt._plan.fields import Field
from graphrt._plan.state import Values
from graphrt._plan.tables import NodePlan, Plan
from graphrt.errors import Place
from graphrt.events import Usage
from graphrt.limits import Limits

if TYPE_CHECKING:
    from graphrt._codec import Codec, NotStorable

_NO_LIMIT: Final = 1 << 62
_NO_VIEW: Final = object()


@final
class Engine:
    """One run of one plan: values, open superstep, joins, counters."""

    __slots__ = (
        "after",
        "aliases",
        "asked",
        "batches",
        "call",
        "check_state",
        "codec",
        "depth",
        "dirty",
        "due",
        "entering",
        "ephemeral",
        "fast",
        "fields",
        "granted",
        "guard",
        "held",
        "joins",
        "keeps",
        "limits",
        "log",
        "looks",
        "make_view",
        "max_steps",
        "opened",
        "path",
        "plan",
        "quick",
        "recorder",
        "run_id",
        "settled",
        "sizes",
        "spoilt",
        "staging",
        "stamps",
        "steps",
        "superstep",
        "tasks",
        "thread",
        "told",
        "trail",
        "trail_last",
        "unstorable",
        "usage",
        "values",
        "view",
        "visit_limits",
        "visits",
        "waiting",
        "watched",
        "writable",
    )

    def __init__(  # noqa: PLR0915 - one statement for each thing that a run knows
        self, plan: Plan, limits: Limits, *, thread: str | None = None, path: str = "", check_state: bool = False
    ) -> None:
        self.plan: Plan = plan
        self.aliases: dict[str, NodePlan] = {}
        """Nodes of an older graph, by name: renamed ones, and stand-ins for those that are gone."""
        self.fields: dict[str, Field] = plan.state.fields
        self.writable: dict[str, Field] = plan.update.fields
        self.make_view: Callable[[Values], Any] = plan.state.view
        self.ephemeral: list[Field] = [f for f in self.fields.values() if f.ephemeral]
        self.thread: str | None = thread
        self.path: str = path
        """Task id of the nested graph's node, with a slash; empty at the top."""
        self.run_id: str | None = None
        self.check_state: bool = check_state
        self.codec: Codec | None = None
        """Says what can be stored, where there is a store."""
        self.stamps: bool = False
        """Whether updates keep the bytes that stand for them: entries are bytes."""
        self.quick: Callable[[Task, dict[str, Any] | None, NodePlan | None], None] | None = None
        """Takes commits of the fast path that need no events."""
        self.told: Any = None
        """What `fast_path.tell` noted of such a commit, until it is written."""
        self.values: Values = {}
        self.sizes: dict[str, int] = {}
        """Length of every container among the values, to find a node that changed one."""
        self.view: Any = _NO_VIEW
        """The snapshot of the open superstep, once one was made."""
        self.keeps: int = plan.state.keeps
        self.looks: bool = True
        """Whether each report looks at once for what its task changed, or the commit does for all of them."""
        self.guard: dict[str, bytes] = {}
        """With `check_state`: the stored form of the values."""
        self.unstorable: dict[str, NotStorable] = {}
        """Fields of which such a form was wanted, and why there is none."""
        self.spoilt: set[str] = set()
        """Fields that a node changed in place, and that could not be put back."""
        self.superstep: int = 0
        """Number of the open or last superstep; counts per thread."""
        self.steps: int = 0
        """Supersteps of this run."""
        self.visits: list[int] = []
        self.joins: list[JoinState] = [JoinState(join) for join in plan.joins]
        self.due: list[Due] = []
        self.waiting: list[Due] = []
        """Due with the next commit beside what it routes to: an edit from outside put them there."""
        self.tasks: list[Task] = []
        """The open superstep."""
        self.opened: list[Due] = []
        """What was due when the open superstep was opened."""
        self.held: bool = False
        """The open superstep was folded and committed; its routers and joins wait for the answers to `after`."""
        self.after: list[OpenInterrupt] = []
        """Questions of `interrupt_after`, in task order."""
        self.entering: bool = False
        """START's router is still to be asked."""
        self.asked: Any = None
        """A router that the fast path asked, and what it said."""
        self.call: Task | None = None
        self.log: list[Any] | None = None
        """Events that became true and were not taken yet; None if nobody listens."""
        self.staging: bool = False
        """Whether outcomes of the open superstep are to be kept before it commits."""
        self.dirty: dict[Task, None] = {}
        """Tasks of the open superstep with something that is not staged yet."""
        self.settled: list[Any] = []
        """Events of a nested graph that are staged, for the parent's journal."""
        self.batches: int = 0
        """How often events of a nested graph were staged."""
        self.trail: list[dict[str, Any]] | None = None
        """Updates in commit order, for the parent of a nested graph."""
        self.trail_last: frozenset[str] = frozenset()
        """Fields of which the trail needs the last write only."""
        self.depth: int = 0
        """Graphs around this one."""
        self.usage: Usage | None = None
        """What the model calls of committed tasks used."""
        self.granted: tuple[int, int, int] | None = None
        """What people allowed the run's budget beyond its limits, in committed tasks."""
        self.recorder: StepRecorder | None = None
        """Makes the Steps of a step generator."""
        self.watched: bool = False
        """Whether there is a trail or a tape."""
        self.limit(limits)

    def limit(self, limits: Limits) -> None:
        """Apply *limits*: they are read again at each drive."""
        self.limits: Limits = limits
        self.max_steps: int = limits.max_steps
        general = _NO_LIMIT if limits.max_visits is None else limits.max_visits
        self.visit_limits: list[int] = self.plan.visit_limits(general, _NO_LIMIT)
        timed = limits.timeout_s is not None or limits.deadline_s is not None
        self.fast: bool = not (timed or self.ephemeral or self.check_state)

    def watch(self, *, recorder: bool) -> None:
        """Keep what a step generator needs, or do not."""
        self.recorder = StepRecorder(self) if recorder else None
        self._look()

    def leave_trail(self, last: frozenset[str]) -> None:
        """Keep the updates for a parent graph; of the fields *last* only the newest write counts there."""
        self.trail, self.trail_last = [], last
        self._look()

    def listen(self, codec: Codec | None = None, *, staging: bool = False, stamps: bool = False) -> None:
        """Keep events from now on, for a journal or a sink; *staging* keeps outcomes of an open superstep as well."""
        self.log, self.codec, self.staging, self.stamps = [], codec, staging, stamps
        self._look()
        for task in self.tasks:
            if task.extra is not None and task.extra.child is not None:
                task.extra.child.listen(codec, staging=staging, stamps=stamps)
                task.extra.child.run_id = self.run_id

    def _look(self) -> None:
        self.watched = self.recorder is not None or self.trail is not None or self.log is not None

    def follow(self, update: dict[str, Any]) -> None:
        """Add a committed update to the trail. Bounded for a loop that writes last-value fields."""
        trail = self.trail
        if trail is None or not update:
            return
        if trail and update.keys() <= self.trail_last:
            trail[-1] = {**trail[-1], **update}
        else:
            trail.append(update)

    # -- beginning -----------------------------------------------------------------------------------------------

    def start(self, values: Values) -> None:
        """Begin a run on *values*, which become the engine's own. START's router is asked when it is driven."""
        self.values, self.guard = values, {}
        self.sizes = {name: len(value) for name, value in values.items() if value.__class__ in CONTAINERS}
        self.view = self.make_view(values)
        self.steps = 0
        self.visits = [0] * (len(self.plan.nodes) + len(self.aliases))
        for join in self.joins:
            join.arrived, join.fired, join.emptied = set(), False, False
        start = self.plan.start
        self.due = [Due(start.next)] if start.simple and start.next is not None else []
        self.entering = not self.due

    def forget_view(self) -> None:
        """Drop the snapshot: the values changed."""
        self.view = _NO_VIEW

    def router(self, task: Task | None = None) -> Router:
        """Asks the routers of the plan, or reads the Command of *task*."""
        return Router(self.plan, partial(self.where, task))

    def take_view(self) -> Any:
        """The current snapshot; the engine lets go of it, so that only the tasks hold it."""
        view, self.view = self.view, _NO_VIEW
        return self.make_view(self.values) if view is _NO_VIEW else view

    def begin(self) -> bool:
        """Open the superstep that is due, or go on with the open one.

        Returns:
            False if nothing is due.

        Raises:
            LimitError: One of the limits allows no further superstep. Nothing was counted.
            RouteError: The entry router failed; the next call asks it again.
        """
        if self.tasks:
            return mutation_check.prepare(self)
        if self.entering:
            view = self.view = self.take_view()
            routed = self.router().ask(self.plan.start, view)
            moved = self.arrive(routed)
            self.due = routed.due()
            mutation_check.check_routers(self, (), view, self.values)
            check_sends(self, self.due)
            self.entering = False
            emit_events.routed(self, "entry", moved)
        if self.due:
            limit_checks.rest(self)
        due = self.due
        if not due:
            return False
        limit_checks.check_limits(self, due)
        self.open()
        return mutation_check.prepare(self)

    def open(self) -> list[Task]:
        """Open the superstep of what is due: count it and make its tasks. No limit is asked."""
        due, view, make, values = self.due, self.take_view(), self.make_view, self.values
        self.due, self.opened = [], due
        self.superstep += 1
        self.steps += 1
        seen: set[int] = set()
        superstep = self.superstep
        tasks: list[Task] = []
        asks = False
        for index, (node, arg, error, _) in enumerate(due):
            if node.index not in seen:
                seen.add(node.index)
                self.visits[node.index] += 1
            task = Task(node, index, superstep, arg, make(values) if index else view, self)  # each its own
            if error is not None:
                task.more().handles = error
            tasks.append(task)
            if node.pauses:
                asks = True
        self.tasks = tasks
        if asks:
            for task in tasks:  # a restart asks again: the process may have died before the question was shown
                if task.node.pauses and task.node.policy.interrupt_before:
                    pausing.pause_before(self, task)
        return tasks

    # -- ending a superstep --------------------------------------------------------------------------------------

    def report(self, task: Task, execution: int, reply: Any) -> bool:
        """Stage the outcome of one execution; False if it is a duplicate or late and changed nothing."""
        return outcome.report(self, task, execution, reply)

    def failed(self) -> Task | None:
        """The first task of the open superstep that failed for good."""
        return next((task for task in self.tasks if task.status == FAILED), None)

    def open_interrupts(self) -> list[OpenInterrupt]:
        """Questions of the open superstep without an answer, in task order."""
        if self.held:
            return [question for question in self.after if question.open]
        return [question for task in self.tasks if task.status == PAUSED for question in task.open_interrupts()]

    def commit(self, after: Collection[str] | None = None, *, past: bool = False) -> bool:
        """Fold the staged updates, ask the routers, make the next tasks due; see `committing.commit`."""
        return committing.commit(self, after, past=past)

    def hold(self, after: list[OpenInterrupt]) -> None:
        """Keep the superstep, which is folded, until the questions *after* it are answered."""
        self.held, self.after = True, after
        self.dirty.clear()

    def route(self) -> None:
        """Ask the routers and joins of a superstep that was held; see `committing.route`."""
        committing.route(self)

    def close_superstep(self) -> None:
        """Forget the open superstep."""
        self.waiting, self.tasks = [], []
        self.held, self.after = False, []
        self.dirty.clear()

    def arrive(self, routed: Routed) -> list[JoinState]:
        """Count the arrivals of *routed*, and let it lead to the joins that fire; returns the joins that changed."""
        moved: list[JoinState] = []
        for join, source in routed.arrivals:
            state = self.joins[join]
            if state.arrive(source):
                routed.plain[state.plan.dst.index] = state.plan.dst
            if state not in moved:
                moved.append(state)
        for branch in routed.emptied:
            moved += [state for state in joins.empty(self, branch) if state not in moved]
        return moved

    def take(self, values: Values, written: Iterable[str]) -> None:
        """Take *values* as the committed ones; *written* are the fields that changed."""
        self.values = values
        for name in written:
            self.guard.pop(name, None)
            value: Any = values.get(name)
            if value.__class__ in CONTAINERS:
                self.sizes[name] = len(value)
            else:
                self.sizes.pop(name, None)

    def quiesce(self) -> bool:
        """Nothing is due: look for joins that still wait. True if some fire with those that arrived.

        Raises:
            StarvedJoinError: A join with starved="error" waits.
        """
        if fired := joins.fire_starved(self):
            emit_events.routed(self, "starved", fired)
        return bool(self.due)

    # -- going on ------------------------------------------------------------------------------------------------

    def answer(self, answers: Mapping[str, Any], *, nth: int = 0, replace: bool = False) -> None:
        """Take answers by interrupt id; tasks whose questions are all answered are due again. For options see `pausing`."""
        pausing.answer(self, answers, nth=nth, replace=replace)

    def withdraw(self, ids: Collection[str], reason: str) -> None:
        """Close open questions: they take no answer any more, and their tasks run again."""
        pausing.withdraw(self, ids, reason)

    def take_answers(self) -> None:
        """Let tasks go on whose questions were answered through the parent graph."""
        pausing.take_answers(self)

    def retry(self) -> None:
        """Make what is left of the open superstep due: tasks that failed, with all their attempts again."""
        for task in self.tasks:
            if task.status == FAILED:
                outcome.again(task)
                task.attempt = 1
                task.more().failure = None

    def pending(self) -> tuple[str, ...]:
        """Nodes that are due or open, in task order."""
        open_ = tuple(task.node.name for task in self.tasks if task.status not in (DONE, HANDLED))
        return open_ or tuple(item.node.name for item in self.due)

    def snapshot_for(self, task: Task) -> Any:
        """The state that *task* sees; made again for a re-execution."""
        if task.state is None:
            task.state = self.take_view()
        return task.state

    # -- words for errors ----------------------------------------------------------------------------------------

    def interrupt_prefix(self, task: Task) -> str:
        """What ids of interrupts of *task* begin with."""
        return f"{self.thread}/{task.id}#"

    def where(self, task: Task | None = None) -> Place:
        """Where an error happens: what it takes as its attributes."""
        return place(self, task)
