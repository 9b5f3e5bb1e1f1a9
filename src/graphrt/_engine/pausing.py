"""Pausing and resuming tasks (rules R1, R10): interrupts before and after a node, answers, and withdrawn questions.

Which answer belongs to which question is decided in `questions`. A nested graph shares its question objects with the
task that runs it, so that both see an answer. Its engine is *parked* on that task (`Extra.child`) while it waits.

The questions of a held superstep are in `RunState.after` and not on tasks. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrt._engine.open_interrupt import EXPIRED, TASK, OpenInterrupt
from graphrt._engine.questions import take_answer
from graphrt._engine.task import DONE, DUE, FAILED, PAUSED, Task
from graphrt.errors import InputError
from graphrt.errors._codes.threads import INTERRUPT_NEEDS_THREAD

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


def answer(engine: RunState, answers: Mapping[str, Any], *, nth: int = 0, replace: bool = False, by: str = "") -> None:
    """Take answers by interrupt id; tasks whose questions are all answered become due again.

    Ids that belong to no question here are passed over: the caller has checked them, or they are of another graph.

    Args:
        nth: Number of the answer among those of its task, when a journalled one is applied; 0 for a new one.
        replace: Let these answers replace earlier ones, which a resume of a failed thread does.
        by: What gives them, as in `OpenInterrupt.by`: empty for a person, else for instance a timer.
    """
    # No code of a node gets the answer to an `interrupt_after`, so neither its number nor what gave it matters.
    for question in engine.after:
        if question.id in answers:
            question.answered, question.answer = True, answers[question.id]
    for task in engine.tasks:
        if task.node.child is not None:
            # Kept for a nested graph that begins anew in a fork and asks again (decision 0027). Ids of its questions go
            # on with a slash where those of the task itself have `#`: `thread/task/inner task#key`.
            around = engine.interrupt_prefix(task)
            inside = f"{around[:-1]}/"
            if mine := {id_: answer for id_, answer in answers.items() if id_.startswith((around, inside))}:
                task.more().answers_ahead.update({id_: (answer, by) for id_, answer in mine.items()})
        extra = task.extra
        if extra is None or task.status not in (DUE, PAUSED, FAILED):
            # The task is done, but its superstep could not be folded or routed: perhaps the answer was wrong (R10).
            if extra is not None and task.status == DONE and not engine.held:
                _answer_anew(task, answers, nth=nth, replace=replace, by=by)
            continue
        if extra.child is not None:
            answer(extra.child, answers, nth=nth, replace=replace, by=by)  # it shares its questions with the task
        for question in extra.interrupts:
            # `current`: an answer still counts. On a restart, the event that an answer was discarded may be applied
            # before the answer itself, which is then taken nevertheless. If the call above, for a nested graph, has
            # answered a question already, it is not answered twice.
            wanted = question.current or not question.answered
            if question.id in answers and wanted and (extra.child is None or not question.answered):
                take_answer(extra, question, answers[question.id], nth=nth, replace=replace, by=by)
    take_answers(engine)


def _answer_anew(task: Task, answers: Mapping[str, Any], *, nth: int, replace: bool, by: str) -> None:
    """Make a finished task due again with another answer, because its outcome could not be folded or routed.

    Without *replace*, an answer is another one if its number *nth* is higher: it was journalled after the present one.
    """
    extra = task.more()
    for question in extra.interrupts:
        newer = question.answered and question.current and not question.static and (replace or nth > question.nth)
        if newer and question.id in answers:
            take_answer(extra, question, answers[question.id], nth=nth, replace=replace, by=by)
            task.again()
            task.updates, task.goto = (), None


def answer_number(engine: RunState, id_: str) -> int:
    """Return the number of the answer to question *id_* among the answers of its task, for the event; 0 if unknown."""
    for task in engine.tasks:
        extra = task.extra
        if extra is None:
            continue
        if extra.child is not None and (nth := answer_number(extra.child, id_)):
            return nth
        for question in extra.interrupts:
            if question.id == id_:
                return question.nth
    return 0


def withdraw(engine: RunState, ids: Collection[str], reason: str) -> None:
    """Close open questions by id: they take no answer any more, and their tasks run again.

    A question that expired is removed, so that it is asked again under the same id: nothing else is asked, and it has
    no answer that could be mistaken for another one's (decision 0057).
    """
    for task in engine.tasks:
        extra = task.extra
        if task.status not in (PAUSED, DUE) or extra is None:
            continue
        mine = [question for question in extra.interrupts if question.id in ids and question.open]
        child: RunState | None = extra.child
        if child is not None:
            withdraw(child, ids, reason)
            left = left_with(task)  # the task's own questions; the others are of the nested graph, and go with it
            extra.interrupts = [one for one in extra.interrupts if one not in mine or one in left]
        for question in mine:
            question.closed = reason
        if reason == EXPIRED:
            extra.interrupts = [question for question in extra.interrupts if question not in mine]
        if not mine or task.status != PAUSED:
            continue
        # A nested graph may go on with some questions open; a function runs again once none is open.
        if may_go_on(task, child) if child is not None else not task.open_interrupts():
            task.again()


def take_answers(engine: RunState) -> None:
    """Make due every paused task that its answers let run again, also inside nested graphs that are due already."""
    for task in engine.tasks:
        if task.status == PAUSED:
            unpause(task)
        elif task.status == DUE and task.extra is not None and task.extra.child is not None:
            take_answers(task.extra.child)


def after(engine: RunState, tasks: Sequence[Task], told: Collection[str] | None) -> list[OpenInterrupt]:
    """Return the questions to ask between the fold of *tasks* and their routers: one for each `interrupt_after`.

    Args:
        told: Ids of the tasks that a journalled commit names, when that is repeated; None decides by the policies of
            the nodes.

    Raises:
        InputError: The run has no thread that could wait.
    """
    found: list[OpenInterrupt] = []
    for task in tasks:
        node = task.node
        if told is not None:
            if task.id in told:
                found.append(question_after(engine, task.id, node.name))
            continue
        if not node.pauses or not node.policy.interrupt_after or task.status != DONE:
            continue
        extra, question = task.extra, question_after(engine, task.id, node.name)
        # Not asked after an edit as the node, or if a fork has the answer.
        if extra is not None and (extra.edited or question.id in extra.answers_ahead):
            continue
        if engine.thread is None:
            raise no_thread(engine, task)
        found.append(question)
    return found


def question_after(engine: RunState, task_id: str, node: str) -> OpenInterrupt:
    """Return the question that the `interrupt_after` of a task asks, for a commit or for its fold from the journal."""
    return OpenInterrupt(f"{engine.thread}/{task_id}#after", "after", node, {"after": node}, kind="after")


def no_thread(engine: RunState, task: Task) -> InputError:
    """Return the error for a pause in a run without a thread."""
    return INTERRUPT_NEEDS_THREAD(
        node=task.node.name, asks="asked for an interrupt or a timer", where=engine.where(task)
    )


def unpause(task: Task) -> None:
    """Make a paused *task* due if all its questions are answered; with a nested graph, if that can run again.

    A nested graph may continue with some questions open, if one of its tasks is due.
    """
    extra = task.more()
    child: RunState | None = extra.child
    if child is not None:
        take_answers(child)
        left = left_with(task)  # questions about the queue stay, also when closed
        extra.interrupts = [question for question in extra.interrupts if question.open or question in left]
        if may_go_on(task, child):
            task.again()
    elif not task.open_interrupts():
        task.again()  # it runs from its start


def left_with(task: Task) -> list[OpenInterrupt]:
    """Return the questions with which *task* was left to its queue: open and closed ones, oldest first.

    They are its own, unlike the others of a task with a nested graph. Closed ones are kept, since the next one is
    numbered by them.
    """
    asked = task.extra.interrupts if task.extra is not None else ()
    return [question for question in asked if question.kind == TASK and question.task_id == task.id]


def may_go_on(task: Task, child: RunState) -> bool:
    """Return whether *task* can run again: its nested graph goes on, and no worker of a queue runs it."""
    return goes_on(child) and not any(question.open for question in left_with(task))


def goes_on(engine: RunState) -> bool:
    """Return whether *engine* has something to do before a person, a timer or a signal must answer."""
    if engine.held:
        return not engine.open_interrupts()
    statuses = {task.status for task in engine.tasks}  # empty between two supersteps, when the next one can begin
    return PAUSED not in statuses or DUE in statuses
