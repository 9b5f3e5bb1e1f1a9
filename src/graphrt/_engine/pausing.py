"""Pausing and going on (rules R1, R10): questions asked before and after a node, answers, questions that are withdrawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt._engine import outcome
from graphrt._engine.questions import OpenInterrupt, take_answer
from graphrt._engine.task import DONE, DUE, FAILED, PAUSED, Task
from graphrt.errors import InputError

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


EXPIRED: Final = "expired"


def answer(engine: Engine, answers: Mapping[str, Any], *, nth: int = 0, replace: bool = False) -> None:
    """Take answers by interrupt id; tasks whose questions are all answered are due again.

    Args:
        nth: Number of the answer, where an entry tells one.
        replace: Let them replace answers that were given.
    """
    for question in engine.after:
        if question.id in answers:
            question.answered, question.answer = True, answers[question.id]
    for task in engine.tasks:
        if task.node.child is not None:
            around = engine.interrupt_prefix(task)
            inside = f"{around[:-1]}/"
            if mine := {id_: answer for id_, answer in answers.items() if id_.startswith((around, inside))}:
                task.more().answers_ahead.update(mine)
        extra = task.extra
        if extra is None or task.status not in (DUE, PAUSED, FAILED):
            if extra is not None and task.status == DONE and not engine.held:
                _answer_anew(task, answers, nth=nth, replace=replace)
            continue
        if extra.child is not None:
            answer(extra.child, answers, nth=nth, replace=replace)  # the task shares its questions
        for question in extra.interrupts:
            wanted = question.current or not question.answered  # what became of it may be told before its answer
            if question.id in answers and wanted and (extra.child is None or not question.answered):
                take_answer(extra, question, answers[question.id], nth=nth, replace=replace)
    take_answers(engine)


def _answer_anew(task: Task, answers: Mapping[str, Any], *, nth: int, replace: bool) -> None:
    """Let a task run again whose outcome could not be folded or routed, with another answer than the one it had."""
    extra = task.more()
    for question in extra.interrupts:
        newer = question.answered and question.current and not question.static and (replace or nth > question.nth)
        if newer and question.id in answers:
            take_answer(extra, question, answers[question.id], nth=nth, replace=replace)
            outcome.again(task)
            task.updates, task.goto, extra.ended = (), None, False


def answer_number(engine: Engine, id_: str) -> int:
    """The number that the answer to a question has among those of its task; 0 if the question is not here."""
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


def withdraw(engine: Engine, ids: Collection[str], reason: str) -> None:
    """Close open questions: they take no answer any more, and their tasks run again.

    One that expired is asked again under the same id: no answer came that could be taken for another question's.
    """
    for task in engine.tasks:
        extra = task.extra
        if task.status not in (PAUSED, DUE) or extra is None:
            continue
        mine = [question for question in extra.interrupts if question.id in ids and question.open]
        child: Engine | None = extra.child
        if child is not None:
            child.withdraw(ids, reason)
            extra.interrupts = [question for question in extra.interrupts if question not in mine]
        for question in mine:
            question.closed = reason
        if reason == EXPIRED:
            extra.interrupts = [question for question in extra.interrupts if question not in mine]
        if not mine or task.status != PAUSED:
            continue
        if goes_on(child) if child is not None else not task.open_interrupts():
            outcome.again(task)


def take_answers(engine: Engine) -> None:
    """Let tasks go on whose questions were answered, also in nested graphs that others hold up or let go on already."""
    for task in engine.tasks:
        if task.status == PAUSED:
            unpause(task)
        elif task.status == DUE and task.extra is not None and task.extra.child is not None:
            task.extra.child.take_answers()


def pause_before(engine: Engine, task: Task) -> None:
    """Ask before *task* may start: the node has interrupt_before."""
    node = task.node.name
    question = OpenInterrupt(f"{engine.interrupt_prefix(task)}before", "before", node, {"before": node}, kind="before")
    outcome.pause(engine, task, [question])


def after(engine: Engine, tasks: Sequence[Task], told: Collection[str] | None) -> list[OpenInterrupt]:
    """What is asked when *tasks* were folded, before their routers are: one question for each with interrupt_after.

    Args:
        told: Those that an entry tells ask; None looks at the policies of their nodes.

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
        if extra is not None and (extra.edited or question.id in extra.answers_ahead or _asked_before_the_fold(task)):
            continue
        if engine.thread is None:
            raise no_thread(engine, task)
        found.append(question)
    return found


def question_after(engine: Engine, task_id: str, node: str) -> OpenInterrupt:
    """What the interrupt_after of a task asks."""
    return OpenInterrupt(f"{engine.thread}/{task_id}#after", "after", node, {"after": node}, kind="after")


def _asked_before_the_fold(task: Task) -> bool:
    """Whether graphrt 0.1 asked: it paused with the outcome staged, and folded it after the answer."""
    return any(question.kind == "after" for question in task.more().interrupts)


def no_thread(engine: Engine, task: Task) -> InputError:
    """The error for a pause in a run without a thread."""
    return InputError(
        f"Node {task.node.name!r} asked for an interrupt, but this run has no thread that could wait.",
        code="interrupt-needs-thread",
        where=engine.where(task),
        fix='Run it on a thread: Runtime(graph, store="memory:").run(input, thread="t").',
        node=task.node.name,
    )


def unpause(task: Task) -> None:
    """Let a paused task go on, if all its questions are answered, or its nested graph can go on with some of them."""
    extra = task.more()
    child: Engine | None = extra.child
    if child is not None and not extra.ended:
        child.take_answers()
        extra.interrupts = [question for question in extra.interrupts if question.open]
        if goes_on(child):
            outcome.again(task)
    elif not task.open_interrupts():
        if extra.ended and extra.interrupts[-1].kind == "after":  # else its outcome was only staged: it runs again
            task.status = DONE
        else:
            outcome.again(task)


def goes_on(engine: Engine) -> bool:
    """Whether there is something to do before a person must answer."""
    if engine.held:
        return not engine.open_interrupts()
    statuses = {task.status for task in engine.tasks}
    return PAUSED not in statuses or DUE in statuses
