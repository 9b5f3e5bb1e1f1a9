"""Apply events of questions and answers to the engine: the part of `evolve` for pauses. Nothing is decided here.

Events come from the journal, or were staged. Staged events of a task contain all its questions, also those that the
journal has. So a question may be applied twice, and the fields `logged` and `fate_told` of a question keep which of its
events the journal has, so that none is written twice. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt import events
from graphrt._engine.open_interrupt import EXPIRED, USED, OpenInterrupt
from graphrt._engine.pausing import question_after
from graphrt._engine.task import PAUSED, Task
from graphrt.commands import UNSET

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.run_state import RunState


def answered(engine: Engine, event: events.InterruptAnswered) -> None:
    """Apply the answer to a question.

    `nth` numbers the answers that the task was given; by it, a later answer to a question replaces an earlier one. `by`
    says what answered: empty for a person or program, else for instance a timer (`OpenInterrupt.by`).
    """
    engine.answer({local_id(engine, event.id): event.answer}, nth=event.nth, by=event.by)


def _signal_received(engine: Engine, event: events.SignalReceived) -> None:
    """Let a signal, which another process posted to the thread, wait until a node takes it by `ctx.receive` (R22)."""
    engine.receive(event.id, event.name, event.value)


def _signal_taken(engine: Engine, event: events.SignalTaken) -> None:
    """Remove a signal that was taken; the answer to the question is an event of its own."""
    engine.take_signal(event.id)


SIGNALS: Final[dict[Any, Callable[[Any, Any], None]]] = {
    events.SignalReceived: _signal_received,
    events.SignalTaken: _signal_taken,
}
"""The functions that apply events of signals, by class."""


FATES: Final = (events.InterruptExpired, events.InterruptWithdrawn, events.AnswerUsed, events.AnswerDiscarded)
"""Events that say what became of a question or of its answer."""


def fated(
    engine: Engine,
    event: events.InterruptExpired | events.InterruptWithdrawn | events.AnswerUsed | events.AnswerDiscarded,
    *,
    journalled: bool,
) -> None:
    """Apply the end of a question (expired, withdrawn) or of its answer (used, discarded).

    Args:
        journalled: Whether *event* comes from the journal; if so, it is not logged again.
    """
    id_ = local_id(engine, event.id)
    if isinstance(event, events.InterruptExpired):
        engine.withdraw({id_}, EXPIRED)
    elif isinstance(event, events.InterruptWithdrawn):
        engine.withdraw({id_}, event.reason)
    for task in engine.tasks:
        for question in task.extra.interrupts if task.extra is not None else ():
            if question.id != id_:
                continue
            question.fate_told = question.fate_told or journalled
            if isinstance(event, events.AnswerDiscarded):
                question.fate = event.reason
            elif isinstance(event, events.AnswerUsed):
                question.fate, question.reworded = USED, event.reworded
                question.newest = event.payload  # what the node asked then; None if unchanged


def local_id(engine: RunState, id_: str) -> str:
    """Return interrupt id *id_* with the id of the engine's own thread in front.

    An interrupt id is `thread/task#key`. The entries of a copied thread still name the thread that they were copied
    from.
    """
    return f"{engine.thread}/{id_.split('/', 1)[1]}" if "/" in id_ else id_


def hold(engine: Engine, waiting: Sequence[str]) -> None:
    """Hold the folded superstep: its routers wait for the answers to the `interrupt_after` questions of some tasks.

    Args:
        waiting: Ids of these tasks, `path/superstep.index:node`, as the journal has them.
    """
    engine.hold([question_after(engine, task, task[len(engine.path) :].partition(":")[2]) for task in waiting])


def raised_after(engine: Engine, event: events.InterruptRaised, *, journalled: bool) -> None:
    """Apply the event of an `interrupt_after` question, which the commit before it created: only mark it as logged."""
    id_ = local_id(engine, event.id)
    for question in engine.after:
        if question.id == id_:
            question.logged = question.logged or journalled


def raised(task: Task, event: events.InterruptRaised, *, journalled: bool) -> None:
    """Add the question that *task* asked, or update a known one; the task waits if it is open.

    Args:
        journalled: Whether *event* comes from the journal; false if it was staged.
    """
    engine = task.engine
    id_ = local_id(engine, event.id)
    extra = task.more()
    question = next((known for known in extra.interrupts if known.id == id_), None)
    if question is None:
        # None: the payload is set below, as for a known question.
        question = OpenInterrupt(id_, event.key, event.node, None, kind=event.kind, version=event.version)
        extra.interrupts.append(question)
    elif not journalled:
        # Staged rows have all questions of the task in the order in which they were asked, and the journal of a fork
        # only those asked after it. The order matters, because the last question decides how the task continues.
        extra.interrupts.remove(question)
        extra.interrupts.append(question)
    if not question.answered:  # a keyed question asked with another payload
        question.payload, question.closed = event.payload, ""
    question.answer_type, question.expires_at = event.answer_type, event.expires_at
    question.default = event.default if event.has_default else UNSET
    question.stale = question.stale or event.stale
    # A nested graph's question has an entry in each enclosing graph, where the nested graph's task asks it. `told` is
    # the set of paths of those graphs; `logged` says only whether the graph that asked has its entry.
    if task.node.child is None:
        question.logged = question.logged or journalled
    elif journalled:
        question.told |= {engine.path}
    if question.open:
        task.status = PAUSED
