"""The model of a thread: its journal, its state, and the results of its verbs (R9, R10, R11, R17, R18).

Like the model of one drive it follows the rules, and does not import graphrt.
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
    """The call was invalid: an InputError with this code. Nothing changes."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Shown(NamedTuple):
    """The observable data of a thread after one of its entries."""

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
        """After a conflict: the possible states of the thread, since the rules do not determine which of several
        conflicts is raised.
        """
        self.origin: tuple[str, int] | None = None
        """The thread from which this one was forked, and the entry."""

    @property
    def seq(self) -> int:
        return len(self.entries)

    # looking ----------------------------------------------------------------------------------------------------------

    def shown(self) -> Shown:
        return show(self.flow, self.seq, self.status)

    def shown_at(self, at: int) -> Shown:
        """The state after the entry *at*; outcomes that were only staged are no longer known."""
        if not max(self.first - 1, 1) <= at <= self.seq:
            raise RefusedError("unknown-entry")
        if at == self.seq:
            return self.shown()
        flow, status = self.folded(at)
        return show(flow, at, status)

    def folded(self, at: int) -> tuple[Flow, str]:
        """The fold of the entries up to *at*, and their status."""
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
        """A run on an input: the whole state on a new thread, an update on a finished or abandoned one."""
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
        """Answers by id without the thread; none if the owner died. Other answers for a failed task."""
        given = self.flow.replaceable() if self.status == "failed" and answers else []
        if given:
            self.check_replacing(answers, given)
            return self.go_on(answers, outside, replace=True)
        self.want("resume")
        self.check(answers)
        return self.go_on(answers, outside)

    def check(self, answers: Mapping[str, Any]) -> None:
        """Refuse answers without an open question, or of a wrong type."""
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
        """Refuse another answer if the task started or performed an effect after the first one (R10)."""
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
        """Ids of the questions that a retry withdraws, with the reason: stale ones, and those of a cancelled run."""
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
            self.flow.tell_question(id_)
            self.flow.tell("interrupt-answered", data=(id_, answer, replace))
        return self.drive(outside)

    def drive(self, outside: Outside) -> str:
        """Drive to the end; a failed run raises after its failure was recorded."""
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
        """The durable data, which another process would load."""
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
        """Move the recorded entries to the journal."""
        self.entries += self.flow.log
        self.flow.log, self.flow.flushed = [], 0

    def decide(self, next_: tuple[str, ...]) -> None:
        """Choose among several possible failures the one that matches the due tasks."""
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
        if edits:  # all are one record, and a snapshot is possible only after a record
            trial.flow.log[-1].data["last"] = True
        self.__dict__.update(trial.__dict__)
        self.settle()
        self.flow.forget_untracked()

    def edit(self, values: Mapping[str, Any], as_node: str | None) -> None:
        flow, fresh = self.flow, self.status == "new"
        if fresh:  # they are its whole state, and no task is due (R18)
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
                ended = [] if flow.jobs else [i.task.arg for i in flow.due if i.task.node == as_node]
                first, *others = ended or [None]
                failures = model.follow_edges(self.graph, copy.deepcopy(state), as_node, due, first)
                for arg in others:
                    failures += model.follow_hearing(self.graph, copy.deepcopy(state), as_node, due, arg)
                if failures:
                    raise FailedError(*failures)
                generations = copy.deepcopy(flow.generations)
                due.plain |= {self.graph.joins[at].dst for at in model.arrive(self.graph, generations, as_node)}
                model.empty(self.graph, generations, due)
                defers = self.graph.node(as_node).defer
                before = [i for i in flow.waiting if i.task.node != as_node or not defers]
                if not flow.jobs:
                    before = [i for i in (*flow.due, *flow.waiting) if i.task.node != as_node]
                data["due"], data["generations"] = merged(flow, before, due, frozenset()), generations
        data["status"] = ""
        flow.tell("thread-updated", data=data)
        if (self.status == "interrupted" and not flow.questions()) or (
            self.status == "completed" and (flow.due or flow.jobs)
        ):
            self.status = "running"
        data["status"] = self.status

    def want_edges(self, name: str) -> None:
        """R18: the successors of a node that routes only by Commands are unknown."""
        node = self.graph.node(name)
        sources = {src for src, _ in self.graph.edges} | {each.src for each in self.graph.conditionals}
        sources |= {source for join in self.graph.joins for source in join.sources}
        if node.declared and name not in sources:
            raise RefusedError("goto-needed")

    def fork(self, id: str, at: int | None) -> ThreadModel:
        """A new thread with the state of this one after the entry *at*."""
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
            job.untold = 0 if job.status == "failed" else job.untold  # the source has recorded its attempts
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
        """Remove entries up to the last commit or edit before *before*; return their number."""
        found = self.prunable(before)
        if not found:
            return 0
        gone = found - self.first + 1
        self.first = found + 1
        self.flow.tell("history-pruned")
        self.settle()
        return gone

    def was_edited_open(self) -> bool:
        """Whether the open superstep was edited since the last entry that can be pruned."""
        later = self.entries[max(self.prunable(None), self.first - 1) :]
        return any(entry.kind == "thread-updated" and entry.data["open"] for entry in later)

    def prunable(self, before: int | None) -> int:
        """The last entry before *before* that a snapshot can replace; 0 if there is none."""
        least = self.seq + 1 if before is None else before
        found = 0
        for seq, entry in enumerate(self.entries, 1):
            # Of the same record, unless it belongs to a nested graph
            after = self.entries[seq] if seq < self.seq else None
            alone = entry.kind == "thread-forked" and (
                after is None or bool(after.path) or after.kind not in ("interrupt-raised", "interrupt-answered")
            )
            # A commit with an `after` question shares its record with that question, and the last one with the end.
            is_last = after is not None and after.kind == "run-completed"
            committed = entry.kind == "superstep-committed" and not entry.data["after"] and not is_last
            edited = entry.kind == "thread-updated" and not entry.data["open"] and "last" in entry.data
            whole = committed or entry.kind == "run-completed" or alone or edited
            if self.first <= seq < least and not entry.path and whole:
                found = seq
        return found


def tell_anew(flow: Flow) -> None:
    """The journal of a fork records all entries of the nested graphs of the open superstep again."""
    for job in flow.jobs:
        if job.child is not None:
            job.child.collected = 0
            tell_anew(job.child)


def check_types(questions: Mapping[str, Question], answers: Mapping[str, Any]) -> None:
    for id_, answer in answers.items():
        if questions[id_].typed and isinstance(answer, str) and answer not in ("run", "fail"):
            raise RefusedError("bad-answer")


def show(flow: Flow, seq: int, status: str) -> Shown:
    open_ = [] if status == "cancelled" else flow.questions()  # they cannot be answered: a retry asks again
    questions = tuple((question.id, question.node) for question in open_)
    return Shown(seq, status, copy.deepcopy(flow.state), flow.next(), questions)
