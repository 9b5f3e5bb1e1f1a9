"""The engine: the one mutable object of a run, with the verbs that decide what changes.

The engine is level-triggered: what is due follows from its state alone, never from the caller. After a crash or a pause
the run loop (`_flows.run`) just calls the same verbs again. A superstep takes `begin`, one `report` for each task, and
`commit`; `fast_path` does the same for supersteps of one plain task.

A verb that needs more than a few lines is a function of a neighbouring module, which gets the state of the run. For the
terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, final

from graphrt._engine import committing, emit_events, joins, limit_checks, mutation_check, outcome, pausing
from graphrt._engine.committed import CommitRecorder
from graphrt._engine.route import Router
from graphrt._engine.run_state import RunState
from graphrt._engine.storability import check_sends
from graphrt._engine.task import Task


@final
class Engine(RunState):
    """The state of a run, with the verbs that change it."""

    __slots__ = ()

    def watch(self, *, commits: bool, undo: bool = False) -> None:
        """Start or stop recording what commits do, for streams and steps.

        Args:
            commits: Whether it is recorded from now on.
            undo: Whether undo records are kept with it, which steps need.
        """
        self.record_with(CommitRecorder(undo=undo) if commits else None)

    def enter(self) -> None:
        """Make the tasks due that START leads to, as the entry router decides now.

        For `replay`, which compares them with the journalled ones. It then applies the entry, which also has the joins.
        A run enters in `begin`, with its checks.
        """
        self.make_due(self.router().ask(self.plan.start, self.make_view(self.values)).due())
        self.entered()

    def router(self, task: Task | None = None) -> Router:
        """Return a Router for the plan, whose errors name *task* if it is given."""
        return Router(self.plan, partial(self.where, task))

    def begin(self) -> bool:
        """Open the superstep that is due, or continue the open one.

        Returns:
            False if nothing is due.

        Raises:
            LimitError: One of the limits allows no further superstep. Nothing was counted.
            RouteError: The router of START failed; the next call of this function calls it again.
            UpdateError: The argument of a Send cannot be stored.
        """
        if self.tasks:  # open already: after a pause, a failure or a restart
            return mutation_check.prepare(self)
        if self.entering:  # the router of START was not called yet
            view = self.take_view()
            self.use_view(view)  # the first task gets this view too, so that an assignment by the router is found
            routed = self.router().ask(self.plan.start, view)
            moved = joins.arrive(self, routed)  # START is not a source of joins, but its routers may empty some
            self.make_due(routed.due())
            mutation_check.check_routers(self, (), view, self.values)
            self.make_due(check_sends(self, self.due))
            self.entered()  # last: after an error above the router is called again
            emit_events.routed(self, "entry", moved)
        if self.due:
            # Nodes that reached their limit of visits first: their `on_fatigue` route may lead to END, and such a run
            # needs no further superstep (decision 0006).
            limit_checks.rest(self)
        due = self.due
        if not due:
            return False
        limit_checks.check_limits(self, due)
        self.open()
        return mutation_check.prepare(self)  # chooses when tasks are checked for changes in place; always True

    def open(self) -> list[Task]:
        """Open a superstep of what is due without checking limits: count it, and make and return its tasks.

        `begin` calls this for a run. A fold of the journal calls it directly: the superstep was within its limits then.
        """
        tasks = self.make_tasks()
        for task in tasks:  # also in a fold: the process may have died before the question was shown
            if task.node.pauses and task.node.policy.interrupt_before:
                outcome.pause_before(self, task)
        return tasks

    def report(self, task: Task, execution: int, reply: Any) -> bool:
        """Stage the outcome of one execution; return False if it is a duplicate or late and changed nothing.

        Args:
            execution: Number of the execution (`Task.execution`) that the reply belongs to.
            reply: What the node returned, or one of the report classes of `task`, such as `Failed`.
        """
        return outcome.report(self, task, execution, reply)

    def commit(self, after: Collection[str] | None = None, *, past: bool = False) -> bool:
        """Fold the staged updates, call the routers and make the next tasks due; see `committing.commit`."""
        return committing.commit(self, after, past=past)

    def route(self) -> None:
        """Call the routers and count the joins of a held superstep; see `committing.route`."""
        committing.route(self)

    def quiesce(self) -> bool:
        """Fire the starved and emptied joins with `starved="run"`, when nothing is due; return whether anything is now.

        A join is starved if some of the nodes that it waits for have arrived and nothing can arrive any more (R5). A
        join is emptied if a router returned an empty list where such a node could have started. Both fire. The run is
        complete if this returns False.

        Raises:
            StarvedJoinError: A join with `starved="error"` still waits.
        """
        if fired := joins.fire_starved(self):
            emit_events.routed(self, "starved", fired)
        return bool(self.due)

    def answer(self, answers: Mapping[str, Any], *, nth: int = 0, replace: bool = False, by: str = "") -> None:
        """Take answers by interrupt id; tasks whose questions are all answered are due again.

        Args:
            nth: Number of the answer among those of its task, when a journalled one is applied; 0 for a new one.
            replace: Let these answers replace earlier ones.
            by: What gives them, as in `OpenInterrupt.by`; empty for a person.
        """
        pausing.answer(self, answers, nth=nth, replace=replace, by=by)

    def withdraw(self, ids: Collection[str], reason: str) -> None:
        """Close the questions *ids* for a *reason* such as `stale`: they take no answer, and their tasks run again."""
        pausing.withdraw(self, ids, reason)
