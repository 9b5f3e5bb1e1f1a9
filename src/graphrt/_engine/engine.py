"""The engine: the one mutable object of a run, with the verbs that decide what changes.

The engine is level-triggered: what is due follows from its state alone, never from the caller. After a crash or a pause
the run loop (`_flows.run`) just calls the same verbs again. A superstep takes `begin`, `open_superstep`, one `report` for
each task, and `commit`.

A verb that needs more than a few lines is a function of a neighbouring module, which gets the state of the run. For the
terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, final

from graphrt._engine import committing, emit_events, joins, limit_checks, mutation_check, outcome, questions
from graphrt._engine.child_threads import is_child
from graphrt._engine.chosen_nodes import node_for
from graphrt._engine.route import Router
from graphrt._engine.run_state import NO_VIEW, RunState
from graphrt._engine.storability import check_sends
from graphrt._engine.task import DUE, FAILED, Due, Task


@final
class Engine(RunState):
    """The state of a run, with the verbs that change it."""

    __slots__ = ()

    def inherit(self, children: Iterable[str], parent: str | None) -> None:
        """Take the *children* and the *parent* from a snapshot, except for those of the thread that this is a copy of.

        A child's id tells whose child it is. So the children in the snapshot of a source are not those of a fork.
        """
        state: RunState = self  # as in `open_superstep`
        state.children = {child: None for child in children if is_child(self.thread, child)}
        self.belong_to(parent)

    def belong_to(self, parent: str | None) -> None:
        """Note which thread this one is a child of; None if it is not one. A copy of a child has no parent."""
        state: RunState = self  # as in `open_superstep`
        state.parent = parent if is_child(parent, self.thread) else None

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
        """Decide which tasks are due, within the limits; return False if nothing is due and no superstep is open.

        Asks the router of START, replaces tired nodes by their `on_fatigue` routes, and fires starved joins, as far as
        the state calls for it. It opens and counts nothing: `open_superstep` does.

        Raises:
            LimitError: One of the limits allows no further superstep.
            RouteError: The router of START failed; the next call of this function calls it again.
            UpdateError: The argument of a Send cannot be stored.
            StarvedJoinError: Nothing is due, and a join with `starved="error"` still waits.
        """
        if self.check_state:
            mutation_check.look(self)
        if self.tasks:  # open already: after a pause, a failure or a restart
            self.looks = True
            return True
        if self.handed is not None:  # to the graph around this nested one
            return False
        if self.entering:
            self._enter()
        visits, limits = self.visits, self.visit_limits
        for item in self.due or self.quiesce():
            at = item[0].index  # of its node
            if visits[at] >= limits[at]:
                # Tired nodes first: an `on_fatigue` route may lead to END, and such a run needs no further superstep
                # (decision 0006).
                limit_checks.rest(self)
                return self.begin()
        due = self.due
        if not due:
            return False
        if self.steps >= self.max_steps or len(due) > self.limits.max_tasks:
            raise limit_checks.limit_error(self, due)
        return True

    def _enter(self) -> None:
        """Make due what the routers of START lead to."""
        view = self.take_view()
        self.use_view(view)  # the first task gets this view too, so that an assignment by the router is found
        routed = self.router().ask(self.plan.start, view)
        moved = joins.arrive(self, routed)  # START is not a source of joins, but its routers may empty some
        self.make_due(routed.due())
        mutation_check.check_routers(self, (), view, self.values)
        self.make_due(check_sends(self, self.due))
        self.entered()  # last: after an error above the router is called again
        emit_events.routed(self, "entry", moved)

    def open_superstep(self) -> list[Task]:
        """Open a superstep of what is due: count it, and make and return its tasks. The limits are checked by `begin`.

        A fold of the journal calls it without `begin`: the superstep was within its limits then.
        """
        state: RunState = self  # whose attributes these are: an assignment to `self` would declare them anew
        due, visits, make, values = self.due, self.visits, self.make_view, self.values
        state.due, state.opened, state.told = [], due, None
        state.steps += 1
        superstep = state.superstep = self.superstep + 1
        view, state.view = self.view, NO_VIEW  # only tasks hold it from now on
        tasks: list[Task] = []
        index = 0
        for node, arg, error, is_send in due:
            # Each task has a view of its own, so that an assignment can be traced to its node (decision 0052).
            if index or view is NO_VIEW:
                view = make(values)
            # Of a `chosen_graph` node, the argument chooses the nested graph that this task runs (decision 0105).
            task = Task(node_for(node, arg, self.plan) if node.choose else node, index, superstep, arg, view, self)
            if error is not None:
                task.more().handles = error
            if not is_send:
                visits[node.index] += 1
            tasks += [task]
            index += 1
        if due[-1].is_send:  # Sends come last: a node is visited once in a superstep, however many of them it has (R8)
            plain = {item.node.index for item in due if not item.is_send}
            for at in {item.node.index for item in due} - plain:
                visits[at] += 1
        state.tasks = tasks
        state.lone = tasks[0] if index == 1 else None
        # Outcomes must be checked before they are staged, that is, stored before their superstep commits. A fan-out that
        # stages nothing is cheaper to check at its commit.
        state.looks = self.staging or self.check_state or index == 1
        if self.questions:
            questions.take_known(self)
        if self.plan.pauses_before:  # also in a fold: the process may have died before the question was shown
            for task in tasks:
                if task.node.policy.interrupt_before and (asked := questions.before(self, task)):
                    outcome.pause(self, task, asked)
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
        """Call the routers and count the joins that waited for an `interrupt_after`; see `committing.route`."""
        committing.route(self)

    def quiesce(self) -> list[Due]:
        """Fire the starved and emptied joins with `starved="run"`, when nothing is due; return what is due now.

        A join is starved if some of the nodes that it waits for have arrived and nothing can arrive any more (R5). A
        join is emptied if a router returned an empty list where such a node could have started. Both fire. The run is
        complete if still nothing is due.

        Raises:
            StarvedJoinError: A join with `starved="error"` still waits.
        """
        if fired := joins.fire_starved(self):
            emit_events.routed(self, "starved", fired)
        return self.due

    def retry(self) -> None:
        """Make the failed tasks of the open superstep due again, with all their attempts (R9); for `resume`, too."""
        for task in self.tasks:
            extra = task.extra
            # By the failure too: a failed task is due already if staged questions and answers of it were applied.
            if task.status == FAILED or (task.status == DUE and extra is not None and extra.failure is not None):
                if task.status == FAILED:
                    task.again()
                extra = task.more()
                task.attempt, extra.failure = 1, None
                extra.retried += 1  # by this count, `ctx.wait` looks again at a child thread that had failed
                questions.ask_anew(extra)  # questions whose expiry or answer made the node fail

    def answer(self, answers: Mapping[str, Any], *, by: str = "", replace: bool = False) -> None:
        """Answer questions by id, in the order given, and log that; tasks without an open question are due again.

        Args:
            by: What gives the answers, as in `OpenInterrupt.by`; empty for a person.
            replace: Let these answers replace earlier ones, which a resume of a failed thread does (R10).
        """
        for id_, answer in answers.items():
            question = self.questions.get(id_)
            if question is not None and (question.open or replace):
                emit_events.note(self, questions.answer_now(self, id_, answer, by))

    def withdraw(self, ids: Collection[str], reason: str) -> None:
        """Close the questions *ids* for a *reason* such as `stale`, and log that: their tasks run again."""
        for id_ in ids:
            emit_events.note(self, questions.withdraw_now(self, id_, reason))
