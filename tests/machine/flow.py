"""The model of one drive: a graph from superstep to superstep, with tasks that ask, fail, are retried and nest graphs.

Written from the rules of execution, to be read beside them (R1 to R10, R16, R17): it recomputes everything from plain
lists, and does not import graphrt. Folding, routes, joins and limits are those of the model of the laws.

Events are recorded as entries. An entry carries its result: `apply`, which is the fold, needs no rule.
"""

from __future__ import annotations

import copy
from typing import Any

from laws import model, model_fold
from laws.description import END, Graph, Node, State, Target
from laws.model import FailedError, Generation
from laws.model_fold import Failure, Update

from .merging import merged, together
from .parts import Entry, Item, Job, Outside, Question, UndecidedError
from .standing import Standing


class Flow(Standing):
    """A graph that is driven, and the log of its entries."""

    def __init__(self, graph: Graph, path: str = "") -> None:
        super().__init__(graph, path)
        self.log: list[Entry] = []
        self.flushed = 0
        """Number of its durable entries."""
        self.collected = 0
        """Number of entries of a nested graph in the journal."""
        self.known: dict[str, Question] = {}
        """Questions that the journal has of a nested graph which restarts in a fork, by id; it finds them when it asks."""

    def tell(self, kind: str, job: int | None = None, data: Any = None) -> None:
        entry = Entry(kind, self.path, job, data)
        self.apply(entry)
        self.log.append(entry)

    def drive(self, outside: Outside) -> str:
        """Drive until it completes, pauses or is cancelled.

        Raises:
            FailedError: The run failed, in one of these ways.
        """
        while True:
            if outside.halted:
                return "cancelled"
            if not self.jobs and not self.open():
                saved = model.quiesce(self.graph, generations := copy.deepcopy(self.generations))
                if not saved:
                    return "completed"
                due = model.Due(plain={self.graph.joins[at].dst for at in saved})
                self.tell("tasks-routed", data={"due": self.items(due), "generations": generations})
                continue
            self.flush(outside)
            status = self.finish(outside)
            if status is not None:
                return status

    def flush(self, outside: Outside) -> None:
        """Entries are durable before a task runs, because it depends on the known facts about tasks."""
        if len(self.log) > self.flushed:
            self.flushed = len(self.log)
            outside.stored()

    def items(self, due: model.Due, rescues: frozenset[str] = frozenset()) -> list[Item]:
        """R2: the due tasks in task order."""
        return [Item(task, not task.sent and task.node in rescues) for task in due.tasks(self.graph)]

    def open(self) -> bool:
        """Open a superstep of the due tasks, if there are any."""
        if self.entering:
            left = model.leave_start(self.graph, copy.deepcopy(self.state))
            generations = copy.deepcopy(self.generations)
            model.empty(self.graph, generations, left)
            self.tell("tasks-routed", data={"due": self.items(left), "generations": generations})
        while tired := self.tired():
            sends = [item.task for item in self.due if item.task.sent]
            before = model.Due({item.task.node for item in self.due if not item.task.sent}, sends)
            rescues = frozenset(i.task.node for i in self.due if i.rescues and i.task.node not in tired)
            due = merged(self, self.waiting, model.relieve(self.graph, before, self.visits), rescues)
            for _ in tired:
                self.tell("node-fatigued")
            self.tell("tasks-routed", data={"due": due, "generations": self.generations})
        if not self.due:
            return False
        model.check_limits(self.graph, [item.task for item in self.due], self.steps)
        self.open_jobs()
        return True

    def tired(self) -> list[str]:
        """Nodes whose `on_fatigue` routes are taken, including those in the middle of a chain."""

        def allowed(name: str) -> int | None:
            own = self.graph.node(name).max_visits
            return self.graph.caps.max_visits if own is None else own

        found: list[str] = []
        for item in self.due:
            name: str | None = item.task.node
            passed: list[str] = []
            while name is not None and name != END and name not in passed:
                most = allowed(name)
                if most is None or self.visits[name] + 1 <= most:
                    break
                passed.append(name)
                name = self.graph.node(name).on_fatigue
            found += [each for each in passed if each not in found]
        return found

    def finish(self, outside: Outside) -> str | None:
        """Run the due tasks of the open superstep, and commit it if all have ended."""
        if self.held:
            if self.questions():
                return "interrupted"
            due, generations = self.leads(self.state)
            self.tell("tasks-routed", data={"due": due, "generations": generations})
            self.close(outside)
            return None
        self.run_due(outside)
        failed = [job for job in self.jobs if job.status == "failed"]
        if failed:
            for job in failed:
                self.tell_outcome(job)
            raise FailedError(*failed[0].failures)
        if any(job.status == "due" for job in self.jobs):
            return "cancelled"
        paused = [job for job in self.jobs if job.status == "paused"]
        if paused:
            for job in paused:
                if job.child is None:
                    self.tell_fates(job)
                for question in job.open():
                    if self.path not in question.told:
                        question.told.add(self.path)
                        self.tell("interrupt-raised", self.jobs.index(job), question)
            return "interrupted"
        self.commit()
        self.close(outside)
        return "interrupted" if self.held else None

    def close(self, outside: Outside) -> None:
        """Make the end of a superstep durable, unless the end of its run is durable with it."""
        if not self.completes(outside):
            self.flush(outside)

    def completes(self, outside: Outside) -> bool:
        """Whether the superstep that was just committed is the last of its run, whose end is durable with it."""
        waits = any((each.arrived and not each.fired) or each.emptied for each in self.generations)
        return not (self.path or self.held or outside.halted or waits or self.due or self.jobs)

    def run_due(self, outside: Outside) -> None:
        due = [job for job in self.jobs if job.status == "due"]
        if len(due) == 1:
            while due[0].status == "due" and not outside.halted:
                if self.play(due[0], outside):
                    return
                if due[0].status == "due":
                    outside.stored()
            return
        queue = list(due)
        while queue and not outside.halted:
            job = queue.pop(-1 if outside.backwards else 0)
            stopped = self.play(job, outside)
            if job.status == "failed":
                return  # its siblings never start
            if job.status == "due" and not stopped:
                queue.append(job)
            if queue:
                outside.stored()

    def play(self, job: Job, outside: Outside) -> bool:
        """One execution of a task; True if it was stopped in the middle."""
        from . import playing

        node = self.graph.node(job.item.task.node)
        if node.child is not None:
            return playing.nested(self, job, node, outside)
        return bool(playing.script(self, job, node, outside))

    def end(self, job: Job, node: Node, updates: list[Update], goto: tuple[Target, ...] | None) -> None:
        """The task has ended successfully."""
        job.updates, job.goto, job.known = updates, goto, True
        job.status = "done"

    def fail(self, job: Job, node: Node, *failures: Failure, hopeless: bool = False) -> None:
        """An attempt failed; *hopeless*: another one would fail as well."""
        if job.attempt <= node.flaky and not hopeless:
            job.attempt += 1
            job.untold += 1
            return
        job.updates, job.goto, job.failures = [], None, failures
        job.status = "failed" if node.on_error is None else "handled"

    def take_known(self, job: Job) -> None:
        for question in self.known.values():
            if question.id == f"{job.id}#{question.key}" and question.key != "after":
                job.questions.append(question)
                job.answers = max(job.answers, question.nth)

    def hand_down(self) -> None:
        from . import playing

        playing.begin_again(self)

    def give_up(self) -> None:
        """R10: record the abandoned tasks and their usage; the due superstep gives up its number too."""
        self.tell_spent_by_all()
        self.tell("superstep-abandoned", data=self.superstep + bool(self.due and not self.jobs))

    def tell_spent_by_all(self) -> None:
        """Record the usage of the tasks of the open superstep that will have no outcome."""
        for job in [] if self.held else self.jobs:
            self.tell_effects(job)
            if job.child is not None:
                if job.status != "handled":  # a nested graph that has failed has ended: its tasks tell no more
                    job.child.tell_spent_by_all()
                self.collect(job.child)

    def tell_outcome(self, job: Job) -> None:
        """All entries about a task that ended."""
        self.tell_effects(job)
        self.tell_fates(job)
        if job.child is not None:
            if job.edited:  # from outside, while tasks of the nested graph were open
                job.child.tell_spent_by_all()
            self.collect(job.child)
        kind = {"done": "task-succeeded", "handled": "task-handled", "failed": "task-failed"}[job.status]
        self.tell(kind, self.jobs.index(job), (job.updates, job.goto))

    def collect(self, child: Flow) -> None:
        """The entries of a nested graph that are not in the journal yet."""
        self.log += child.log[child.collected :]
        child.collected = len(child.log)

    def tell_question(self, id_: str) -> None:
        """Record a question that is answered, if the run was cut off before it paused."""
        for at, job in enumerate(self.jobs):
            for question in job.open():
                if question.id == id_ and self.path not in question.told:
                    question.told.add(self.path)
                    self.tell("interrupt-raised", at, question)

    def tell_effects(self, job: Job) -> None:
        at, attempt = self.jobs.index(job), job.attempt
        untold, job.untold = job.untold, 0
        for number in range(untold):
            self.tell("task-retried", at, attempt - untold + number)
        job.untold = 0
        for number, count in job.starts.items():
            self.tell("effect-started", at, (number, count, job.heard[number]))
        for number, result in sorted(job.results.items()):
            self.tell("effect-recorded", at, (number, result, job.heard[number]))

    def tell_fates(self, job: Job) -> None:
        """Record the fates of the answers to a task (R10)."""
        for question in job.questions:
            if question.static or question.fate_told or not question.answered:
                continue
            fate = question.fate or ("not-asked" if job.ended else "")
            if fate:
                kind = "answer-used" if fate == "used" else "answer-discarded"
                self.tell(kind, self.jobs.index(job), (question.id, fate))

    def commit(self) -> None:
        """R3 and R6: fold, routes and next tasks are committed together or not at all."""
        tasks = [job.item.task for job in self.jobs]
        wrote = [together(job.updates) for job in self.jobs]
        conflicts = model_fold.find_conflicts(self.graph, tasks, wrote)
        if conflicts:
            choices = [[at for at, update in enumerate(wrote) if conflict.field in update] for conflict in conflicts]
            raise UndecidedError(choices, *conflicts)
        state = model_fold.fold(self.graph, self.state, [update for job in self.jobs for update in job.updates])
        after = [
            self.known.get(f"{job.id}#after")
            or Question(f"{job.id}#after", "after", job.item.task.node, {"after": job.item.task.node}, base="after")
            for job in self.jobs
            if self.graph.node(job.item.task.node).pauses == "after" and self.pauses_after(job)
        ]
        due, generations = ([], self.generations) if after else self.leads(state)
        for job in self.jobs:
            self.tell_outcome(job)
        self.tell("superstep-committed", data={"state": state, "due": due, "generations": generations, "after": after})
        for question in self.after:
            at = next(at for at, job in enumerate(self.jobs) if question.id == f"{job.id}#after")
            self.tell("interrupt-raised", at, question)

    def pauses_after(self, job: Job) -> bool:
        """Whether the routes after a successful task are still waiting for an answer."""
        known = self.known.get(f"{job.id}#after")
        has_answer = f"{job.id}#after" in job.answers_ahead or (known is not None and known.answered)
        return job.status == "done" and not job.edited and not has_answer

    def leads(self, state: State) -> tuple[list[Item], list[Generation]]:
        """R3, R4, R5: the tasks after the open superstep, and the arrivals at joins."""
        gotos: list[tuple[Target, ...] | None] = []
        rescuers: set[str] = set()
        for job in self.jobs:
            on_error = self.graph.node(job.item.task.node).on_error
            if job.status == "handled" and on_error is not None:
                rescuers.add(on_error)
                gotos.append((on_error,))
            else:
                gotos.append(job.goto)
        due, sources = model.route(self.graph, state, [job.item.task for job in self.jobs], gotos)
        generations = copy.deepcopy(self.generations)
        for source in sources:
            due.plain |= {self.graph.joins[at].dst for at in model.arrive(self.graph, generations, source)}
        model.empty(self.graph, generations, due)
        return merged(self, self.waiting, due, frozenset(rescuers)), generations
