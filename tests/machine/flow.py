"""The model of one drive: a graph from superstep to superstep, with tasks that ask, fail, are retried and nest graphs.

Written from the rules of execution, to be read beside them (R1 to R10, R16, R17): it decides everything again from plain
lists, and imports nothing of graphrt. Folding, routes, joins and limits are those of the model of the laws.

What became true is told in entries. An entry carries what it comes to, so that `apply` needs no rule: that is the fold.
"""

from __future__ import annotations

import copy
from typing import Any

from laws import model, model_fold
from laws.description import END, Graph, Node, State, Target
from laws.model import FailedError, Generation
from laws.model_fold import Failure, Task, Update

from .merging import merged, together
from .parts import Entry, Item, Job, Outside, Question, UndecidedError


class Flow:
    """A graph between two entries."""

    def __init__(self, graph: Graph, path: str = "") -> None:
        self.graph = graph
        self.path = path
        self.state: State = {}
        self.superstep = 0
        self.steps = 0
        self.visits: dict[str, int] = {}
        self.generations: list[Generation] = []
        self.entering = False
        self.due: list[Item] = []
        self.opened: list[Item] = []
        self.waiting: list[Item] = []
        self.jobs: list[Job] = []
        self.log: list[Entry] = []
        self.flushed = 0
        """How many entries of it are durable."""
        self.collected = 0
        """How many entries of a nested graph stand in the journal."""

    # what is known ----------------------------------------------------------------------------------------------------

    def next(self) -> tuple[str, ...]:
        """Nodes that run next."""
        open_ = tuple(job.item.task.node for job in self.jobs if not job.ended)
        return open_ or tuple(item.task.node for item in self.due)

    def questions(self) -> list[Question]:
        """Open ones, in task order."""
        return [question for job in self.jobs if job.status == "paused" for question in job.open()]

    def forget_untracked(self) -> None:
        """R16: an untracked field has its default after each load, and what tasks wrote to it is gone."""
        for each in self.graph.fields:
            if each.untracked:
                model_fold.reset(self.state, each)
                for update in (update for job in self.jobs for update in job.updates):
                    update.pop(each.name, None)

    # entries and their fold -------------------------------------------------------------------------------------------

    def tell(self, kind: str, job: int | None = None, data: Any = None) -> None:
        entry = Entry(kind, self.path, job, data)
        self.apply(entry)
        self.log.append(entry)

    def apply(self, entry: Entry) -> None:
        """Fold an entry of this graph's own."""
        kind, _, at, data = entry
        if at is not None:
            if not self.jobs:
                self.open_jobs()
            self.apply_to(self.jobs[at], kind, data)
        elif kind == "run-started":
            self.begin(copy.deepcopy(data))
        elif kind == "run-resumed":
            self.retry()
        elif kind == "interrupt-answered":
            self.answer(dict([data]))
        elif kind in ("superstep-committed", "tasks-routed"):
            if kind == "superstep-committed":
                if not self.jobs:
                    self.open_jobs()
                self.jobs, self.waiting = [], []
                self.state = copy.deepcopy(data["state"])
            self.due, self.entering = list(data["due"]), False
            self.generations = copy.deepcopy(data["generations"])
        elif kind == "thread-updated":
            self.edit(data)

    def apply_to(self, job: Job, kind: str, data: Any) -> None:
        """Fold an entry about a task."""
        if kind == "task-retried":
            job.attempt, job.untold = data + 1, job.untold + 1
        elif kind == "effect-started":
            job.starts[data[0]] = data[1]
        elif kind == "effect-recorded":
            job.results[data[0]] = data[1]
        elif kind == "interrupt-raised":
            known = next((each for each in job.questions if each.id == data.id), None)
            if known is None:
                known = copy.deepcopy(data)
                known.answered, known.answer, known.told = False, None, set()
                job.questions.append(known)
            known.told.add(self.path)
            if not known.answered:
                job.status = "paused"
        else:
            job.status = {"task-succeeded": "done", "task-handled": "handled", "task-failed": "failed"}[kind]
            job.updates, job.goto = copy.deepcopy(data)

    def begin(self, state: State) -> None:
        """A run begins: its counters are reset, START's edges lead to what is due."""
        self.state = state
        self.steps = 0
        self.visits = {node.name: 0 for node in self.graph.nodes}
        self.generations = [Generation() for _ in self.graph.joins]
        self.jobs, self.waiting = [], []
        edges = [dst for src, dst in self.graph.edges if src is None]
        simple = len(edges) == 1 and all(each.src is not None for each in self.graph.conditionals)
        self.entering = not simple or edges == [END]
        self.due = [] if self.entering else [Item(Task(edges[0]))]

    def open_jobs(self) -> None:
        """Open the superstep of what is due."""
        self.superstep += 1
        self.steps += 1
        for name in {item.task.node for item in self.due}:
            self.visits[name] += 1
        self.jobs = [
            Job(f"{self.path}{self.superstep}.{at}:{item.task.node}", item) for at, item in enumerate(self.due)
        ]
        self.due, self.opened = [], self.due
        for job in self.jobs:
            node = self.graph.node(job.item.task.node)
            if node.pauses == "before":
                self.ask(job, "before", {"before": node.name})

    def close_jobs(self) -> None:
        """Leave the open superstep out: what opened it is due again."""
        if self.jobs:
            self.superstep -= 1
            self.steps -= 1
            for name in {job.item.task.node for job in self.jobs}:
                self.visits[name] -= 1
            self.jobs, self.due = [], self.opened

    def close_untouched(self) -> None:
        """A superstep of which nothing is known but what opened it is not open for whoever loads the thread."""
        if not any(job.touched for job in self.jobs):
            self.close_jobs()

    def retry(self) -> None:
        """R9: what failed runs again, with all its attempts."""
        for job in self.jobs:
            if job.status == "failed":
                job.status, job.attempt = "due", 1

    def answer(self, answers: dict[str, Any]) -> None:
        """R10: a task whose questions are all answered goes on."""
        for job in self.jobs:
            if self.graph.node(job.item.task.node).child is not None:
                job.foreseen |= {
                    id_: one for id_, one in answers.items() if id_.startswith((f"{job.id}#", f"{job.id}/"))
                }
            asked = [question for question in job.open() if question.id in answers]
            for question in asked:
                question.answered, question.answer = True, answers[question.id]
            if asked and not job.ended:
                self.unpause(job)

    def unpause(self, job: Job) -> None:
        """R10, R17: it goes on when its nested graph can, which may wait for other answers still."""
        child = job.child
        if child is not None and not job.known:
            for inner in [each for each in child.jobs if each.status == "paused"]:
                child.unpause(inner)
            job.questions = job.open()
            if {inner.status for inner in child.jobs} & {"due", "paused"} != {"paused"}:
                job.status = "due"
        elif not job.open():
            job.status = "done" if job.questions[-1].key == "after" and job.known else "due"

    def edit(self, data: dict[str, Any]) -> None:
        """R18: an edit from outside."""
        if data["open"] and not self.jobs:
            self.open_jobs()
        self.state = copy.deepcopy(data["state"])
        for job in self.jobs:
            if job.item.task.node == data["ends"] and not job.ended:
                job.status, job.updates, job.goto = "done", [], None
                job.questions = []  # what a nested graph did until then is told with the task's end
        if data["due"] is not None:
            if self.jobs:
                self.waiting = list(data["due"])
            else:
                self.due, self.entering = list(data["due"]), False
            self.generations = copy.deepcopy(data["generations"])

    # driving ----------------------------------------------------------------------------------------------------------

    def drive(self, outside: Outside) -> str:
        """Drive until it completes, pauses or is cancelled.

        Raises:
            FailedError: It failed, in one of these ways.
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
                self.flush(outside)
                continue
            self.flush(outside)
            status = self.finish(outside)
            if status is not None:
                return status

    def flush(self, outside: Outside) -> None:
        """What was told is durable before a task runs: what is known of tasks stands on it."""
        if len(self.log) > self.flushed:
            self.flushed = len(self.log)
            outside.stored()

    def items(self, due: model.Due, rescues: frozenset[str] = frozenset()) -> list[Item]:
        """R2: what is due in task order."""
        return [Item(task, not task.sent and task.node in rescues) for task in due.tasks(self.graph)]

    def open(self) -> bool:
        """Open what is due, if anything is."""
        if self.entering:
            due = self.items(model.leave_start(self.graph, copy.deepcopy(self.state)))
            self.tell("tasks-routed", data={"due": due, "generations": self.generations})
        tired = self.tired()
        if tired:
            sends = [item.task for item in self.due if item.task.sent]
            before = model.Due({item.task.node for item in self.due if not item.task.sent}, sends)
            rescues = frozenset(i.task.node for i in self.due if i.rescues and i.task.node not in tired)
            due = self.items(model.relieve(self.graph, before, self.visits), rescues)
            for _ in tired:
                self.tell("node-fatigued")
            self.tell("tasks-routed", data={"due": due, "generations": self.generations})
        if not self.due:
            return False
        model.check_limits(self.graph, [item.task for item in self.due], self.steps)
        self.open_jobs()
        return True

    def tired(self) -> list[str]:
        """Nodes whose `on_fatigue` routes are taken, those in the middle of a chain too."""

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
        """Run what is due of the open superstep, and commit it if all has ended."""
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
                for question in job.open():
                    if self.path not in question.told:
                        question.told.add(self.path)
                        self.tell("interrupt-raised", self.jobs.index(job), question)
            return "interrupted"
        self.commit()
        self.flush(outside)
        return None

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

    # one task ---------------------------------------------------------------------------------------------------------

    def play(self, job: Job, outside: Outside) -> bool:
        """One execution of a task; True if it was stopped in the middle."""
        from . import playing

        node = self.graph.node(job.item.task.node)
        if node.child is not None:
            return playing.nested(self, job, node, outside)
        playing.script(self, job, node, outside)
        return False

    def ask(self, job: Job, key: str, payload: Any, *, typed: bool = False) -> None:
        """Pause with a question, a new one if this one is not known."""
        if all(question.key != key for question in job.questions):
            job.questions.append(Question(f"{job.id}#{key}", key, job.item.task.node, payload, typed))
        job.status = "paused"

    def end(self, job: Job, node: Node, updates: list[Update], goto: tuple[Target, ...] | None) -> None:
        """The task has ended well."""
        job.updates, job.goto, job.known = updates, goto, True
        asked = {*job.foreseen, *(question.id for question in job.questions)}
        if node.pauses == "after" and f"{job.id}#after" not in asked:
            self.ask(job, "after", {"after": node.name})
        else:
            job.status = "done"

    def fail(self, job: Job, node: Node, *failures: Failure, hopeless: bool = False) -> None:
        """An attempt failed; *hopeless*: another one would fail as well."""
        if job.attempt <= node.flaky and not hopeless:
            job.attempt += 1
            job.untold += 1
            return
        job.updates, job.goto, job.failures = [], None, failures
        job.status = "failed" if node.on_error is None else "handled"

    def tell_outcome(self, job: Job) -> None:
        """All that the journal tells of a task that ended."""
        at, attempt = self.jobs.index(job), job.attempt
        untold, job.untold = job.untold, 0
        for number in range(untold):
            self.tell("task-retried", at, attempt - untold + number)
        job.untold = 0
        for number, count in job.starts.items():
            self.tell("effect-started", at, (number, count))
        for number, result in sorted(job.results.items()):
            self.tell("effect-recorded", at, (number, result))
        if job.child is not None:
            self.log += job.child.log[job.child.collected :]
            job.child.collected = len(job.child.log)
        kind = {"done": "task-succeeded", "handled": "task-handled", "failed": "task-failed"}[job.status]
        self.tell(kind, at, (job.updates, job.goto))

    # the commit -------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """R3 and R6: fold, routes and next tasks come together or not at all."""
        tasks = [job.item.task for job in self.jobs]
        wrote = [together(job.updates) for job in self.jobs]
        conflicts = model_fold.find_conflicts(self.graph, tasks, wrote)
        if conflicts:
            choices = [[at for at, update in enumerate(wrote) if conflict.field in update] for conflict in conflicts]
            raise UndecidedError(choices, *conflicts)
        state = model_fold.fold(self.graph, self.state, [update for job in self.jobs for update in job.updates])
        gotos: list[tuple[Target, ...] | None] = []
        rescuers: set[str] = set()
        for job in self.jobs:
            on_error = self.graph.node(job.item.task.node).on_error
            if job.status == "handled" and on_error is not None:
                rescuers.add(on_error)
                gotos.append((on_error,))
            else:
                gotos.append(job.goto)
        due, sources = model.route(self.graph, state, tasks, gotos)
        generations = copy.deepcopy(self.generations)
        for source in sources:
            due.plain |= {self.graph.joins[at].dst for at in model.arrive(self.graph, generations, source)}
        items = merged(self, self.waiting, due, frozenset(rescuers))
        for job in self.jobs:
            self.tell_outcome(job)
        self.tell("superstep-committed", data={"state": state, "due": items, "generations": generations})
