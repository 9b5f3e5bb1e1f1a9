"""A graph according to its entries: its state, and the change of each entry. Folding makes no decisions.

Written from the rules of execution, to be read beside them (R1 to R10, R16 to R18); it does not import graphrt.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from laws import model_fold
from laws.description import END, Graph, State
from laws.model import Generation
from laws.model_fold import Task

from .parts import Entry, Item, Job, Question

if TYPE_CHECKING:
    pass


class Standing:
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
        self.held = False
        """The open superstep was folded; its routers and joins wait until the questions `after` it are answered (R1)."""
        self.after: list[Question] = []

    def next(self) -> tuple[str, ...]:
        """Nodes that run next."""
        open_ = tuple(job.item.task.node for job in self.jobs if not job.ended)
        return open_ or tuple(item.task.node for item in self.due)

    def questions(self) -> list[Question]:
        """Open ones, in task order."""
        if self.held:
            return [question for question in self.after if question.open]
        return [question for job in self.jobs if job.status == "paused" for question in job.open()]

    def goes_on(self) -> bool:
        """Whether there is a task to run before a person answers."""
        if self.held:
            return not self.questions()
        statuses = {job.status for job in self.jobs}
        return "paused" not in statuses or "due" in statuses

    def forget_untracked(self) -> None:
        """R16: an untracked field has its default after each load, and the writes of tasks to it are gone."""
        for each in self.graph.fields:
            if each.untracked:
                model_fold.reset(self.state, each)
                for update in (update for job in self.jobs for update in job.updates):
                    update.pop(each.name, None)

    def apply(self, entry: Entry) -> None:
        """Fold an entry of this graph's own."""
        kind, _, at, data = entry
        if self.held and kind == "interrupt-raised":
            for question in self.after:
                if question.id == data.id:
                    question.told.add(self.path)
        elif at is not None:
            if not self.jobs:
                self.open_jobs()
            self.apply_to(self.jobs[at], kind, data)
        else:
            self.apply_alone(kind, data)

    def apply_alone(self, kind: str, data: Any) -> None:
        """Fold an entry about the graph as a whole; entries that are not listed change nothing."""
        folds: dict[str, Callable[[Any], None]] = {
            "run-started": lambda state: self.begin(copy.deepcopy(state)),
            "run-resumed": lambda _: self.retry(),
            "interrupt-answered": lambda given: self.answer({given[0]: given[1]}, replace=given[2]),
            "interrupt-withdrawn": lambda given: self.withdraw({given[0]}, given[1]),
            "superstep-abandoned": self.abandon,
            "superstep-committed": self.commit_as,
            "tasks-routed": self.route_as,
            "thread-updated": self.edit,
        }
        if kind in folds:
            folds[kind](data)

    def commit_as(self, data: dict[str, Any]) -> None:
        """R1, R3: the folded values, and the due tasks unless a question comes first."""
        if not self.jobs:
            self.open_jobs()
        self.state, self.after = copy.deepcopy(data["state"]), copy.deepcopy(data["after"])
        self.held = bool(self.after)
        if self.held:
            self.due, self.entering = [], False
        else:
            self.route_as(data)

    def route_as(self, data: dict[str, Any]) -> None:
        """The due tasks, and the arrivals at joins."""
        self.jobs, self.held, self.after, self.entering = [], False, [], False
        self.due, self.waiting = self.parted(data["due"])
        self.generations = copy.deepcopy(data["generations"])

    def parted(self, due: list[Item]) -> tuple[list[Item], list[Item]]:
        """The tasks that start now, and those that wait while any other task is due."""
        later = [item for item in due if self.graph.node(item.task.node).defer and not item.task.sent]
        now = [item for item in due if item not in later]
        return (now, later) if now else (later, [])

    def apply_to(self, job: Job, kind: str, data: Any) -> None:
        """Fold an entry about a task."""
        if kind == "task-retried":
            job.attempt, job.untold = data + 1, job.untold + 1
        elif kind == "effect-started":
            job.starts[data[0]], job.heard[data[0]] = data[1:]
        elif kind == "effect-recorded":
            job.results[data[0]], job.heard[data[0]] = data[1:]
        elif kind in ("answer-used", "answer-discarded"):
            for question in job.questions:
                if question.id == data[0]:
                    question.fate, question.fate_told = data[1], True
        elif kind == "interrupt-raised":
            known = next((each for each in job.questions if each.id == data.id), None)
            if known is None:
                known = copy.deepcopy(data)
                known.answered, known.answer, known.told, known.nth = False, None, set(), 0
                known.stale, known.closed, known.fate, known.fate_told = False, "", "", False
                job.questions.append(known)
            known.told.add(self.path)
            if known.open:
                job.status = "paused"
        else:
            job.status = {"task-succeeded": "done", "task-handled": "handled", "task-failed": "failed"}[kind]
            job.has_failed = job.has_failed or kind == "task-failed"
            job.updates, job.goto = copy.deepcopy(data)

    def begin(self, state: State) -> None:
        """A run begins: its counters are reset, and START's edges set the due tasks."""
        self.state = state
        self.steps = 0
        self.visits = {node.name: 0 for node in self.graph.nodes}
        self.generations = [Generation() for _ in self.graph.joins]
        self.jobs, self.waiting = [], []
        self.held, self.after = False, []
        edges = [dst for src, dst in self.graph.edges if src is None]
        simple = len(edges) == 1 and all(each.src is not None for each in self.graph.conditionals)
        self.entering = not simple or edges == [END]
        self.due = [] if self.entering else [Item(Task(edges[0]))]

    def start(self, state: State) -> None:
        """A thread begins without a run."""
        self.begin(state)
        self.due, self.entering = [], False

    def open_jobs(self) -> None:
        """Open the superstep of the due tasks."""
        self.superstep += 1
        self.steps += 1
        for name in {item.task.node for item in self.due}:
            self.visits[name] += 1
        self.jobs = [
            Job(f"{self.path}{self.superstep}.{at}:{item.task.node}", item) for at, item in enumerate(self.due)
        ]
        self.due, self.opened = [], self.due
        for job in self.jobs:
            self.take_known(job)
            node = self.graph.node(job.item.task.node)
            if node.pauses == "before" and not any(one.key == "before" and one.answered for one in job.questions):
                self.ask(job, "before", {"before": node.name})

    def take_known(self, job: Job) -> None:
        """Give a task the questions that it had asked in the source of a fork."""

    def close_jobs(self) -> None:
        """Drop the open superstep: its tasks are due again."""
        if self.jobs and not self.held:
            self.superstep -= 1
            self.steps -= 1
            for name in {job.item.task.node for job in self.jobs}:
                self.visits[name] -= 1
            self.jobs, self.due = [], self.opened

    def close_untouched(self) -> None:
        """A superstep without any known fact besides its opening is not open after a load."""
        if not any(job.touched for job in self.jobs):
            self.close_jobs()

    def ask(self, job: Job, key: str, payload: Any, *, typed: bool = False) -> None:
        """Pause with a question, which is new if its id is unknown."""
        before = [question for question in job.questions if question.base == key]
        if not before or before[-1].closed:
            name = key if not before else f"{key}:{len(before) + 1}"
            job.questions.append(Question(f"{job.id}#{name}", name, job.item.task.node, payload, typed, base=key))
        job.status, job.loose = "paused", set()  # the execution ended: the results of pure effects are stored with it

    def retry(self) -> None:
        """R9: failed tasks run again, with all their attempts."""
        for job in self.jobs:
            if job.status == "failed":
                job.status, job.attempt, job.loose = "due", 1, set()

    def withdraw(self, ids: set[str], reason: str) -> None:
        """R10: withdrawn questions are asked again when their task runs again."""
        for job in self.jobs:
            if job.status not in ("paused", "due"):
                continue
            mine = [question for question in job.open() if question.id in ids]
            if job.child is not None:
                job.child.withdraw(ids, reason)
                job.questions = [question for question in job.questions if question not in mine]
            for question in mine:
                question.closed = reason
            if mine and job.status == "paused" and (job.child.goes_on() if job.child is not None else not job.open()):
                job.status = "due"

    def abandon(self, superstep: int) -> None:
        """R10: unfinished tasks are abandoned."""
        self.superstep = superstep
        self.jobs, self.due, self.waiting, self.opened = [], [], [], []
        self.held, self.after, self.entering = False, [], False

    def answer(self, answers: dict[str, Any], *, replace: bool = False) -> None:
        """R10: a task whose questions are all answered continues."""
        for question in self.after:
            if question.id in answers:
                question.answered, question.answer = True, answers[question.id]
        for job in self.jobs:
            if self.graph.node(job.item.task.node).child is not None:
                job.answers_ahead |= {
                    id_: one for id_, one in answers.items() if id_.startswith((f"{job.id}#", f"{job.id}/"))
                }
            if job.child is not None:
                job.child.answer(answers, replace=replace)
            elif not job.ended or (replace and job.status == "done" and not self.held):
                for question in job.questions:
                    if question.id in answers and not question.closed and (replace or question.open):
                        if job.ended:  # its result could not be folded or routed
                            job.status, job.updates, job.goto, job.known = "due", [], None, False
                        job.answers += 1
                        question.answered, question.answer, question.nth = True, answers[question.id], job.answers
                        question.fate, question.fate_told = "", False
            if job.status == "paused":
                self.unpause(job)

    def unpause(self, job: Job) -> None:
        """R10, R17: it continues when its nested graph can, which may still wait for other answers."""
        child = job.child
        if child is not None and not job.known:
            for inner in [each for each in child.jobs if each.status == "paused"]:
                child.unpause(inner)
            job.questions = job.open()
            if child.goes_on():
                job.status = "due"
        elif not job.open():
            job.status = "due"

    def edit(self, data: dict[str, Any]) -> None:
        """R18: an edit from outside."""
        if data["open"] and not self.jobs:
            self.open_jobs()
        if data["fresh"]:
            self.start({})
        self.state = copy.deepcopy(data["state"])
        self.hand_down()
        # If the edit made a task due, its node had no open task, though its outcome may be unknown here.
        mine = [job for job in self.jobs if data["due"] is None and job.item.task.node == data["ends"]]
        ends = [job for job in mine if self.held or not job.ended] or mine
        for job in self.jobs:
            if job in ends:
                job.status, job.updates, job.goto, job.edited = "done", [], None, True
                job.questions = []  # the entries of a nested graph until then are recorded with the task's end
                self.after = [question for question in self.after if question.id != f"{job.id}#after"]
            elif not job.ended:
                for question in job.questions:
                    question.stale = question.stale or not question.static
        if data["due"] is not None:
            if self.jobs:
                self.waiting = list(data["due"])
            else:
                self.due, self.waiting = self.parted(data["due"])
                self.entering = False
            self.generations = copy.deepcopy(data["generations"])

    def hand_down(self) -> None:
        """Pass an edited state on to nested graphs."""

    def replaceable(self) -> list[tuple[Job, Question]]:
        """R10: questions whose answers may be replaced, since the answered task failed."""
        found: list[tuple[Job, Question]] = []
        if self.held:
            return found
        failed = [job for job in self.jobs if job.status == "failed"]
        for job in failed or self.jobs:  # if no task failed, the fold or a router did, perhaps because of an answer
            if job.status == "handled":
                continue
            if job.child is not None:
                found += job.child.replaceable()
            else:
                kept = [one for one in job.questions if one.answered and not one.static and not one.closed]
                found += [(job, question) for question in kept if question.fate in ("", "used")]
        return found
