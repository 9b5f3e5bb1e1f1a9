"""The model of a thread: its journal, where it stands, and what its verbs come to (R9, R10, R11, R17, R18).

Like the model of one drive it decides everything from the rules, and imports nothing of graphrt.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from laws import model, model_fold
from laws.description import Graph, State, thaw
from laws.model import FailedError
from laws.model_fold import Update

from .dying import fail_writers, forget_loose, stand_failed, stand_paused
from .flow import Flow
from .forking import CHANGES, questions_of
from .merging import merged
from .parts import Entry, Job, Outside, Question, UndecidedError

ENDS = frozenset({"run-completed", "run-interrupted", "run-failed", "run-cancelled"})
RIGHT = {"interrupted": "resume", "failed": "retry", "cancelled": "retry", "completed": "run"}


class RefusedError(Exception):
    """The call was wrong: an InputError with this code. Nothing changes."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Shown(NamedTuple):
    """What can be seen of a thread after one of its entries."""

    seq: int
    status: str
    values: State
    next: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]
    """Id without the thread, and node."""


class ThreadModel:
    """One thread."""

    def __init__(self, id: str, graph: Graph) -> None:
        self.id = id
        self.graph = graph
        self.flow = Flow(graph)
        self.entries: list[Entry] = []
        self.status = "new"
        self.first = 1
        """Number of the oldest entry that was not pruned."""
        self.shown_live: State = {}
        """The state at the end of the last drive, untracked fields as they were."""
        self.steps = 0
        """Supersteps of that run, an open one included."""
        self.undecided: list[Flow] = []
        """After a conflict: where the thread may stand, since no rule says which of several conflicts is told."""
        self.origin: tuple[str, int] | None = None
        """The thread that this one is a fork of, and after which entry."""

    @property
    def seq(self) -> int:
        return len(self.entries)

    # looking ----------------------------------------------------------------------------------------------------------

    def shown(self) -> Shown:
        return show(self.flow, self.seq, self.status)

    def shown_at(self, at: int) -> Shown:
        """As it stood after the entry *at*; outcomes that only stood beside the journal are not known any more."""
        if not max(self.first - 1, 1) <= at <= self.seq:
            raise RefusedError("unknown-entry")
        if at == self.seq:
            return self.shown()
        flow, status = self.folded(at)
        return show(flow, at, status)

    def folded(self, at: int) -> tuple[Flow, str]:
        """The fold of the entries up to *at*, and the status that they tell."""
        flow, status = Flow(self.graph), "new"
        for entry in self.entries[:at]:
            if entry.path:
                continue
            if entry.kind == "thread-forked":
                flow, status = copy.deepcopy(entry.data)
            elif entry.kind in ("run-started", "run-resumed"):
                status = "running"
            elif entry.kind in ENDS:
                status = entry.kind.removeprefix("run-")
            flow.apply(entry)
            if entry.kind == "thread-updated":
                status = entry.data["status"]
        flow.forget_untracked()
        flow.log = []
        return flow, status

    def history(self) -> list[int]:
        """Numbers of the entries that a history shows, newest first."""
        found: list[int] = [self.first - 1] if self.first > 1 else []
        changed = False
        for seq, entry in enumerate(self.entries, 1):
            if seq < self.first or entry.path:
                continue
            if entry.kind == "run-completed" and changed:
                found[-1] = seq  # it changed nothing since the last commit
            elif entry.kind in CHANGES or (entry.kind in ENDS and found):
                found.append(seq)
            else:
                continue
            changed = entry.kind in CHANGES
        return found[::-1]

    # driving ----------------------------------------------------------------------------------------------------------

    def run(self, given: Mapping[str, Any], outside: Outside, *, abandon: bool = False) -> str:
        """A run on an input: the whole state on a new thread, an update on a finished one, or on one that is given up."""
        if self.status == "new":
            state = self.first_state(given)
        else:
            if not (abandon or self.status == "cancelled"):
                self.want("run")
            state = self.folded_in(given, reset=True)
            if self.status != "completed":
                self.flow.give_up()
        self.status = "running"
        self.flow.tell("run-started", data=state)
        return self.drive(outside)

    def first_state(self, given: Mapping[str, Any]) -> State:
        return {**model.first_state(self.graph), **{name: thaw(value) for name, value in given.items()}}

    def resume(self, answers: Mapping[str, Any], outside: Outside) -> str:
        """Answers by id without the thread; none where the owner died. Other answers for a task that failed."""
        given = self.flow.replaceable() if self.status == "failed" and answers else []
        if given:
            self.check_replacing(answers, given)
            return self.go_on(answers, outside, replace=True)
        self.want("resume")
        self.check(answers)
        return self.go_on(answers, outside)

    def check(self, answers: Mapping[str, Any]) -> None:
        """Refuse answers that nobody waits for, or of a wrong type."""
        questions = {question.id: question for question in self.flow.questions()}
        if not questions or (self.status == "running" and not answers):
            if answers:
                raise RefusedError("unknown-interrupt")
            return
        if any(id_ not in questions for id_ in answers):
            raise RefusedError("unknown-interrupt")
        if not answers:
            raise RefusedError("no-answer")
        check_types(questions, answers)

    def check_replacing(self, answers: Mapping[str, Any], given: Sequence[tuple[Job, Question]]) -> None:
        """Refuse another answer where the task began or did an effect after it was given the first (R10)."""
        questions = {question.id: question for question in (*(one for _, one in given), *self.flow.questions())}
        if any(id_ not in questions for id_ in answers):
            raise RefusedError("unknown-interrupt")
        for job, question in given:
            if question.id in answers and any(heard >= question.nth for heard in job.heard.values()):
                raise RefusedError("answer-has-effects")
        check_types(questions, answers)

    def retry(self, outside: Outside) -> str:
        anew = self.renewed()
        if not (anew and self.status == "interrupted"):
            self.want("retry")
        return self.go_on({}, outside, anew=anew)

    def renewed(self) -> list[tuple[str, str]]:
        """Ids of the questions that a retry withdraws, and why: stale ones, and those of a run that was cancelled."""
        if self.status not in ("interrupted", "cancelled", "failed"):
            return []
        return [
            (question.id, "stale" if question.stale else "cancelled")
            for question in self.flow.questions()
            if question.stale or (self.status == "cancelled" and not question.static)
        ]

    def want(self, verb: str) -> None:
        if self.status == "new":
            raise RefusedError("unknown-thread")
        if RIGHT.get(self.status, "retry") != verb and not (self.status == "running" and verb != "run"):
            raise RefusedError("wrong-verb")

    def go_on(
        self,
        answers: Mapping[str, Any],
        outside: Outside,
        *,
        anew: Sequence[tuple[str, str]] = (),
        replace: bool = False,
    ) -> str:
        self.status = "running"
        self.flow.tell("run-resumed")
        for id_, reason in anew:
            self.flow.tell("interrupt-withdrawn", data=(id_, reason))
        for id_, answer in answers.items():
            self.flow.tell("interrupt-answered", data=(id_, answer, replace))
        return self.drive(outside)

    def drive(self, outside: Outside) -> str:
        """To its end; a failed one raises after it was told."""
        outside.stored = lambda: outside.kept.append(self.stored() if outside.keeps else None)
        try:
            status = self.flow.drive(outside)
        except FailedError as failed:
            choices = failed.choices if isinstance(failed, UndecidedError) else [[]]
            self.undecided = [self.flow, *(copy.deepcopy(self.flow) for _ in choices[1:])]
            for flow, jobs in zip(self.undecided, choices, strict=True):
                fail_writers(flow, jobs)
            self.end("failed", outside)
            raise
        self.end(status, outside)
        return status

    def end(self, status: str, outside: Outside) -> None:
        self.status = status
        self.flow.tell(f"run-{status}")
        self.settle()
        self.shown_live, self.steps = copy.deepcopy(self.flow.state), self.flow.steps
        self.flow.forget_untracked()
        self.flow.close_untouched()
        outside.stored()

    def stored(self) -> ThreadModel:
        """What is durable now: another process would find this."""
        kept = copy.deepcopy(self)
        kept.settle()
        forget_loose(kept.flow)
        for job in kept.flow.jobs:
            if job.child is not None:
                stand_failed(job.child)
        stand_paused(kept.flow)
        kept.flow.forget_untracked()
        kept.flow.close_untouched()
        return kept

    def settle(self) -> None:
        """What was told is in the journal."""
        self.entries += self.flow.log
        self.flow.log, self.flow.flushed = [], 0

    def decide(self, next_: tuple[str, ...]) -> None:
        """Take the one of several ways to have failed that fits to what is due."""
        for flow in self.undecided:
            if flow.next() == next_:
                flow.log, flow.flushed = [], 0
                flow.forget_untracked()
                self.flow = flow
                return

    def cancel(self) -> bool:
        """End a paused thread, or one whose owner died."""
        if self.status not in ("interrupted", "running"):
            return False
        self.status = "cancelled"
        self.flow.tell("run-cancelled")
        self.settle()
        return True

    # editing ----------------------------------------------------------------------------------------------------------

    def folded_in(self, values: Mapping[str, Any], *, reset: bool) -> State:
        """The state with an update from outside folded in."""
        update: Update = {name: ("set", thaw(value)) for name, value in values.items()}
        state = copy.deepcopy(self.flow.state)
        if reset:
            return model_fold.fold(self.graph, state, [update])
        for name, (_, value) in update.items():
            each = self.graph.field(name)
            if not each.untracked:
                state[name] = model_fold.reduce(each, state.get(name), copy.deepcopy(value))
        return state

    def update(self, edits: Sequence[tuple[Mapping[str, Any], str | None]]) -> None:
        """Edits in one commit: all of them or none."""
        trial = copy.deepcopy(self)
        for values, as_node in edits:
            trial.edit(values, as_node)
        if edits:  # all are one record, and a snapshot can stand after a record only
            trial.flow.log[-1].data["last"] = True
        self.__dict__.update(trial.__dict__)
        self.settle()
        self.flow.forget_untracked()

    def edit(self, values: Mapping[str, Any], as_node: str | None) -> None:
        flow, fresh = self.flow, self.status == "new"
        if fresh:  # they are its whole state, and nothing is due (R18)
            self.status = "completed"
            flow.start(self.first_state(values))
        state = copy.deepcopy(flow.state) if fresh else self.folded_in(values, reset=False)
        data: dict[str, Any] = {"state": state, "ends": None, "due": None, "generations": flow.generations}
        data["fresh"] = fresh
        data["open"] = bool(flow.jobs)
        if as_node is not None:
            self.want_edges(as_node)
            data["ends"] = as_node
            stuck = self.status == "failed" and all(job.ended for job in flow.jobs)
            if not any(job.item.task.node == as_node and (flow.held or stuck or not job.ended) for job in flow.jobs):
                due = model.Due()
                failures = model.follow_edges(self.graph, copy.deepcopy(state), as_node, due)
                if failures:
                    raise FailedError(*failures)
                generations = copy.deepcopy(flow.generations)
                due.plain |= {self.graph.joins[at].dst for at in model.arrive(self.graph, generations, as_node)}
                model.empty(self.graph, generations, due)
                before = flow.waiting if flow.jobs else [i for i in flow.due if i.task.node != as_node]
                data["due"], data["generations"] = merged(flow, before, due, frozenset()), generations
        data["status"] = ""
        flow.tell("thread-updated", data=data)
        if (self.status == "interrupted" and not flow.questions()) or (
            self.status == "completed" and (flow.due or flow.jobs)
        ):
            self.status = "running"
        data["status"] = self.status

    def want_edges(self, name: str) -> None:
        """R18: where a node leads that routes by Commands alone nobody knows."""
        node = self.graph.node(name)
        sources = {src for src, _ in self.graph.edges} | {each.src for each in self.graph.conditionals}
        sources |= {source for join in self.graph.joins for source in join.sources}
        if node.declared and name not in sources:
            raise RefusedError("goto-needed")

    def fork(self, id: str, at: int | None) -> ThreadModel:
        """A new thread that stands where this one stood after the entry *at*."""
        if at is None or at == self.seq:
            at, flow, status = self.seq, copy.deepcopy(self.flow), self.status
        else:
            self.shown_at(at)
            flow, status = self.folded(at)
        new = ThreadModel(id, self.graph)
        closed = copy.deepcopy(flow)
        closed.close_jobs()
        new.entries = [Entry("thread-forked", "", None, (closed, status)), *questions_of(self.entries[:at], flow)]
        told = {entry.data.id for entry in new.entries if entry.kind == "interrupt-raised"}
        for job in flow.jobs:
            job.untold = 0 if job.status == "failed" else job.untold  # the source has told its attempts
        tell_anew(flow)
        for question in (question for job in flow.jobs for question in job.questions):
            question.fate_told = False
            if question.id not in told:
                question.told.discard("")
        if status == "interrupted" and not flow.questions():
            status = "running"
        new.flow, new.status, new.origin = flow, status, (self.id, at)
        return new

    def copied(self, id: str) -> ThreadModel:
        new = copy.deepcopy(self)
        new.id = id
        new.flow.tell("thread-copied")
        new.settle()
        return new

    def prune(self, before: int | None) -> int:
        """Forget entries up to the last commit or edit before *before*; returns how many went."""
        found = self.prunable(before)
        if not found:
            return 0
        gone = found - self.first + 1
        self.first = found + 1
        self.flow.tell("history-pruned")
        self.settle()
        return gone

    def was_edited_open(self) -> bool:
        """Whether the superstep that is open was edited since the last entry that can be pruned."""
        later = self.entries[max(self.prunable(None), self.first - 1) :]
        return any(entry.kind == "thread-updated" and entry.data["open"] for entry in later)

    def prunable(self, before: int | None) -> int:
        """The last entry before *before* that a snapshot can replace; 0 if there is none."""
        least = self.seq + 1 if before is None else before
        found = 0
        for seq, entry in enumerate(self.entries, 1):
            after = self.entries[seq] if seq < self.seq else None  # of the same record, unless it is of a nested graph
            alone = entry.kind == "thread-forked" and (
                after is None or bool(after.path) or after.kind not in ("interrupt-raised", "interrupt-answered")
            )
            # A commit with an `after` question shares its record with that question.
            committed = entry.kind == "superstep-committed" and not entry.data["after"]
            edited = entry.kind == "thread-updated" and not entry.data["open"] and "last" in entry.data
            whole = committed or entry.kind == "run-completed" or alone or edited
            if self.first <= seq < least and not entry.path and whole:
                found = seq
        return found


def tell_anew(flow: Flow) -> None:
    """The journal of a fork tells all that the nested graphs of the open superstep did, as if nothing had been told."""
    for job in flow.jobs:
        if job.child is not None:
            job.child.collected = 0
            tell_anew(job.child)


def check_types(questions: Mapping[str, Question], answers: Mapping[str, Any]) -> None:
    for id_, answer in answers.items():
        if questions[id_].typed and isinstance(answer, str) and answer not in ("run", "fail"):
            raise RefusedError("bad-answer")


def show(flow: Flow, seq: int, status: str) -> Shown:
    open_ = [] if status == "cancelled" else flow.questions()  # nobody can answer them: a retry asks anew
    questions = tuple((question.id, question.node) for question in open_)
    return Shown(seq, status, copy.deepcopy(flow.state), flow.next(), questions)
