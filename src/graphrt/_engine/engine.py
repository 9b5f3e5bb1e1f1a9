"""The engine: the only mutable object of a run, with the methods that decide its changes.

The engine is level-triggered: the due nodes follow from its state alone, never from the caller. After a crash or a
pause, the run loop (`_flows.run`) simply calls the same methods again. A superstep consists of `begin`,
`open_superstep`, one `report` for each task, and `commit`.

A method that needs more than a few lines is a function of a neighbouring module, which receives the state of the run.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, final

from graphrt._engine import committing, emit_events, joins, limit_checks, mutation_check, outcome, questions
from graphrt._engine.child_threads import is_child
from graphrt._engine.chosen_nodes import node_for
from graphrt._engine.route import router_of
from graphrt._engine.run_state import NO_VIEW, RunState
from graphrt._engine.storability import check_sends
from graphrt._engine.task import DUE, FAILED, Due, Task


@final
class Engine(RunState):
    """The state of a run, with the methods that change it."""

    __slots__ = ()

    def inherit(self, children: Iterable[str], parent: str | None) -> None:
        """Set *children* and *parent* from a snapshot.

        In a copy of a thread, those of the source are ignored. The id of a child contains its parent. So the children
        in a source's snapshot do not belong to a fork.
        """
        state: RunState = self  # as in `open_superstep`
        state.children = {child: None for child in children if is_child(self.thread, child)}
        self.belong_to(parent)

    def belong_to(self, parent: str | None) -> None:
        """Set the parent thread, or None. A copy of a child has no parent."""
        state: RunState = self  # as in `open_superstep`
        state.parent = parent if is_child(parent, self.thread) else None

    def enter(self) -> None:
        """Make the tasks due that START leads to, as the entry router decides now.

        For `replay`, which compares them with the journalled ones and then applies the entry, which also contains the
        joins. A live run uses `begin`, with its checks.
        """
        self.make_due(router_of(self).ask(self.plan.start, self.make_view(self.values)).due())
        self.entered()

    def begin(self) -> bool:
        """Decide which tasks are due, within the limits; return False if nothing is due and no superstep is open.

        If the state requires it, calls the router of START, replaces tired nodes by their `on_fatigue` routes, and
        fires starved joins. Opening and counting the superstep is left to `open_superstep`.

        Raises:
            LimitError: A limit does not allow another superstep.
            RouteError: The router of START failed; the next call of this function calls it again.
            UpdateError: The argument of a Send cannot be stored.
            StarvedJoinError: Nothing is due, and a join with `starved="error"` still waits.
        """
        if self.check_state:
            mutation_check.encode_values(self)
        if self.tasks:  # open already: after a pause, a failure or a restart
            self.checks_reports = True
            return True
        if self.handed is not None:  # handed over to the enclosing graph
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
        """Make the targets of START's routers due."""
        view = self.take_view()
        self.use_view(view)  # the first task gets this view too, so that an assignment by the router is found
        forms = mutation_check.encoded(self, self.values) if self.check_state else None
        routed = router_of(self).ask(self.plan.start, view)
        changed_joins = joins.arrive(self, routed)  # START is not a source of joins, but its routers may empty some
        mutation_check.check_routers(self, (), view, self.values, self.sizes, forms)
        self.make_due(check_sends(self, routed.due()))
        self.entered()  # set last: after an error above, the router is called again
        emit_events.routed(self, "entry", changed_joins)

    def open_superstep(self) -> list[Task]:
        """Open a superstep of the due nodes: count it, create its tasks and return them.

        `begin` checks the limits. A fold of the journal calls this without `begin`, because the superstep was within
        its limits then.
        """
        state: RunState = self  # the class that owns these attributes; assigning to `self` would declare them again
        due, visits, make, values = self.due, self.visits, self.make_view, self.values
        state.due, state.opened, state.plain_commit = [], due, None
        state.steps += 1
        superstep = state.superstep = self.superstep + 1
        view, state.view = self.view, NO_VIEW  # from now on only tasks hold it
        tasks: list[Task] = []
        index = 0
        for node, arg, error, is_send in due:
            # Each task has a separate view, so that an assignment can be traced to its node (decision 0052).
            if index or view is NO_VIEW:
                view = make(values)
            # For a `chosen_graph` node, the argument chooses the nested graph that this task runs (decision 0105).
            task = Task(node_for(node, arg, self.plan) if node.choose else node, index, superstep, arg, view, self)
            if error is not None:
                task.more().handles = error
            if not is_send:
                visits[node.index] += 1
            tasks += [task]
            index += 1
        if due[-1].is_send:  # Sends come last; a node is visited once per superstep, however many Sends it has (R8)
            plain = {item.node.index for item in due if not item.is_send}
            for at in {item.node.index for item in due} - plain:
                visits[at] += 1
        state.tasks = tasks
        state.lone = tasks[0] if index == 1 else None
        # Outcomes must be checked before they are staged, that is, stored before their superstep commits. A fan-out that
        # stages nothing is cheaper to check at its commit.
        state.checks_reports = self.staging or self.check_state or index == 1
        if self.questions:
            questions.take_known(self)
        if self.plan.pauses_before:  # even in a fold: the process may have died before the question was shown
            for task in tasks:
                if task.node.policy.interrupt_before and (interrupts := questions.before(self, task)):
                    outcome.pause(self, task, interrupts)
        return tasks

    def report(self, task: Task, execution: int, reply: Any) -> bool:
        """Stage the outcome of one execution. Returns False if it is a duplicate or late, and so changes nothing.

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
        """Fire the starved and emptied joins with `starved="run"` when no node is due.

        Returns the nodes that are due then.

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
        """Make the failed tasks of the open superstep due again, with a full number of attempts (R9).

        Also used by `resume`.
        """
        for task in self.tasks:
            extra = task.extra
            # Also selected by failure, because a failed task is already due if staged questions and answers of it were
            # applied.
            if task.status == FAILED or (task.status == DUE and extra is not None and extra.failure is not None):
                if task.status == FAILED:
                    task.again()
                extra = task.more()
                task.attempt, extra.failure = 1, None
                extra.retried += 1  # makes `ctx.wait` read the outcome of a failed child thread again
                questions.discard_failed_answers(extra)  # questions whose expiry or answer made the node fail

    def answer(self, answers: Mapping[str, Any], *, by: str = "", replace: bool = False) -> None:
        """Answer questions by id, in the given order, and log it. Tasks without an open question become due again.

        Args:
            by: Source of the answers, as in `OpenInterrupt.by`; empty for a person.
            replace: Replace earlier answers, as a resume of a failed thread does (R10).
        """
        for id_, answer in answers.items():
            question = self.questions.get(id_)
            if question is not None and (question.open or replace):
                if not by:
                    emit_events.raised_before_answer(self, id_)
                emit_events.note(self, questions.answer_now(self, id_, answer, by))

    def withdraw(self, ids: Collection[str], reason: str) -> None:
        """Close the questions *ids* for a *reason* such as `stale`, and log it. Their tasks run again."""
        for id_ in ids:
            emit_events.note(self, questions.withdraw_now(self, id_, reason))
