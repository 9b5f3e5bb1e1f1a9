"""Questions: what a thread waits for, from the moment that a task asks until it is known what became of the answer.

Everything that a thread waits for is a question of a task: `KINDS` lists what asks and what answers. A task that asks
pauses. When it has no open question left, its node runs again from its start and asks again. `ask` decides which answer
belongs to what it asks then (R10, decision 0057).

One automaton moves a question, in a live run and when entries are folded, whether these come from the journal or were
staged: an event happens to it (`raised`, `answered`, `ended`), and `MOVES` says which state follows. An event that is
not in the table changes nothing, so that an event may come twice (the law *duplicate*).

    event                                   state before        state after    the task that asked
    InterruptRaised                         (none)              open           PAUSED
    InterruptRaised                         open                open           shows the newest payload
    InterruptAnswered                       open                answered       DUE if no other question is open
    InterruptAnswered, with a higher nth    answered, used      answered       DUE if it was DONE: it runs again (R10)
    AnswerUsed                              answered            used           its node asked again and got the answer
    AnswerDiscarded                         answered, used      discarded      its node asks anew, or did not ask again
    InterruptWithdrawn                      open                withdrawn      DUE if no other question is open
    InterruptExpired                        open                (none)         DUE; it may ask again under the same id

An edit of the state is a mark (`stale`) and no state: an answer is then used whatever the node asks. A task with a
nested graph that waits is DUE once that graph can go on (`may_go_on`). The question of an `interrupt_after` is asked
after the commit of its superstep (`RunState.unrouted`) and makes no task due: the routers are called once it is answered.

Data: `RunState.questions` has all questions of the open superstep by id, also those of nested graphs, which share the
dict: events reach a question by it, even before the nested graph is restored. `Extra.interrupts` lists those of a task
in the order in which they were first asked, and of a task with a nested graph those that are open inside. A question
that is asked anew, because its payload or answer type changed, is another question with the next version. The older
ones stay, so that their ids are never used again. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine.open_interrupt import (
    AFTER,
    ANSWERED,
    BEFORE,
    BY_EXPIRY,
    DISCARDED,
    EXPIRED,
    FAILED_TASK,
    OPEN,
    QUEUE,
    REWORDED,
    TASK,
    USED,
    WITHDRAWN,
    OpenInterrupt,
    task_of,
)
from graphrt._engine.task import DONE, DUE, FAILED, HANDLED, PAUSED, Extra, Task
from graphrt._plan.fields import own
from graphrt.commands import UNSET
from graphrt.errors import InputError
from graphrt.errors._codes.threads import INTERRUPT_NEEDS_THREAD

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState

Ended: TypeAlias = events.AnswerUsed | events.AnswerDiscarded | events.InterruptWithdrawn | events.InterruptExpired
"""Events that say what became of a question or of its answer."""

MOVES: Final[Mapping[tuple[str, type[events.Event]], str]] = {
    (OPEN, events.InterruptRaised): OPEN,
    (OPEN, events.InterruptAnswered): ANSWERED,
    (ANSWERED, events.InterruptAnswered): ANSWERED,
    (USED, events.InterruptAnswered): ANSWERED,
    (ANSWERED, events.AnswerUsed): USED,
    (USED, events.AnswerUsed): USED,
    (ANSWERED, events.AnswerDiscarded): DISCARDED,
    (USED, events.AnswerDiscarded): DISCARDED,
    (DISCARDED, events.AnswerDiscarded): DISCARDED,
    (OPEN, events.InterruptWithdrawn): WITHDRAWN,
    (WITHDRAWN, events.InterruptWithdrawn): WITHDRAWN,
}
"""The state after an event, by the state before. `InterruptExpired` removes an open question."""


def places_of(id_: str) -> list[str]:
    """Return where the question *id_* was asked: `superstep.index` of the task of the graph at the top, and so inwards.

    Names of nodes are left out, because the entries of an older graph may have other ones.
    """
    return _places(task_of(id_))


def _places(path: str) -> list[str]:
    """Return the `superstep.index` of each task in a path."""
    return [part.partition(":")[0] for part in path.split("/")]


def local_id(engine: RunState, id_: str) -> str:
    """Return interrupt id *id_* with the id of the engine's own thread in front.

    An interrupt id is `thread/task#key`. The entries of a copied thread still name the thread that they were copied
    from.
    """
    return f"{engine.thread}/{id_.split('/', 1)[1]}" if "/" in id_ else id_


# -- events happen to questions -----------------------------------------------------------------------------


def move(question: OpenInterrupt, kind: type[events.Event]) -> bool:
    """Put *question* into the state that follows on an event of the class *kind*; return False if nothing follows."""
    state = MOVES.get((question.state, kind))
    if state is None:
        return False
    if kind is events.InterruptAnswered:  # of a new answer it is not known yet what became of it
        question.reason, question.reworded, question.newest = "", False, None
        question.end_told = question.answer_told = False
    question.state = state
    return True


def raised(engine: RunState, task: Task | None, event: events.InterruptRaised, *, journalled: bool = True) -> None:
    """Add the question that *task* asked, or update a known one; the task waits if it is open.

    Args:
        task: None for the question of an `interrupt_after`, which the commit before it has added.
        journalled: Whether *event* comes from the journal; false if it was staged.
    """
    question = _known(engine, local_id(engine, event.id))
    if not question.asked or move(question, events.InterruptRaised):
        question.payload = event.payload
    if not question.asked:
        question.asked, question.key, question.node = True, event.key, event.node
        question.kind, question.version = event.kind, event.version
    question.answer_type, question.expires_at = event.answer_type, event.expires_at
    question.default = event.default if event.has_default else UNSET
    question.stale = question.stale or event.stale
    if journalled:
        if (
            not question.told
        ):  # those of `interrupt_before` are made when the superstep opens; the order is the journal's
            engine.know(engine.questions.pop(question.id))
        question.told |= {engine.path}
    if task is None:
        return
    extra = task.more()
    if question not in extra.interrupts:
        _attach(extra, question)
    elif not journalled:
        # Staged rows have all questions of the task in the order in which they were asked, and the journal of a fork
        # only those asked after it. The order matters, because the last question decides how the task continues.
        extra.interrupts.remove(question)
        extra.interrupts.append(question)
    if question.open:
        task.status = PAUSED


def answered(engine: RunState, event: events.InterruptAnswered, *, journalled: bool = True) -> None:
    """Apply the answer to a question; its task is due if no other question is open.

    `nth` numbers the answers that the task was given. By it, a later answer replaces an earlier one, and one that is
    applied twice, because it is staged and journalled, changes nothing.
    """
    question = _known(engine, local_id(engine, event.id))
    before = question.answered
    if (before and event.nth <= question.nth) or not move(question, events.InterruptAnswered):
        question.answer_told = question.answer_told or (journalled and event.nth == question.nth)
        return
    question.answered, question.answer, question.by, question.nth = True, own(event.answer), event.by, event.nth
    question.answer_told = journalled
    task = asker(engine, question.id)
    if task is not None:
        extra = task.more()
        extra.answers = max(extra.answers, question.nth)
        if before and task.status == DONE and not question.static:
            # Its outcome could not be folded or routed, perhaps because the answer was wrong (R10).
            task.again()
            task.updates, task.goto = (), None
    _follow(engine, question.id)


def ended(engine: RunState, event: Ended, *, journalled: bool = True) -> None:
    """Apply what became of a question (expired, withdrawn) or of its answer (used, discarded).

    A question that expired is removed, so that it is asked again under the same id: nothing else is asked, and it has
    no answer that could be mistaken for another one's (decision 0057).
    """
    id_ = local_id(engine, event.id)
    if isinstance(event, events.InterruptExpired):
        if id_ in engine.questions and engine.questions[id_].open:
            _follow(engine, id_, gone=engine.questions.pop(id_))
        return
    question = _known(engine, id_)
    about_another = not isinstance(event, events.InterruptWithdrawn) and 0 < event.nth < question.nth
    if about_another or not move(question, event.__class__):
        return
    question.end_told = question.end_told or journalled
    if isinstance(event, events.AnswerUsed):
        question.reworded, question.newest = event.reworded, event.payload  # what the node asked then
        return
    question.reason = event.reason
    if isinstance(event, events.InterruptWithdrawn):
        _follow(engine, id_)


APPLY: Final[Mapping[Any, Callable[..., None]]] = {
    events.InterruptAnswered: answered,
    events.AnswerUsed: ended,
    events.AnswerDiscarded: ended,
    events.InterruptWithdrawn: ended,
    events.InterruptExpired: ended,
}
"""The function that applies an event of a question, by its class; `raised` is called with the task besides."""


def _known(engine: RunState, id_: str) -> OpenInterrupt:
    """Return the question *id_*; one that is not asked yet, if no entry has raised it.

    Entries answer a question before it is raised where it was only staged, or in a nested graph that is restored later,
    or that begins anew in a fork (decision 0027).
    """
    question = engine.questions.get(id_)
    if question is None:
        key = id_.partition("#")[2]
        base, _, number = key.rpartition(":")
        version = int(number) if base and number.isdecimal() else 1
        kind = {BEFORE: BEFORE, AFTER: AFTER, QUEUE: TASK}.get(base if version > 1 else key, "question")
        question = OpenInterrupt(id_, key, "", None, kind=kind, version=version)
        question.asked = False
        engine.know(question)
    return question


def _attach(extra: Extra, question: OpenInterrupt) -> None:
    """Put *question* on the task of *extra*, as the last one that it asked."""
    extra.interrupts.append(question)
    extra.answers = max(extra.answers, question.nth)


def _inside(engine: RunState, id_: str) -> Task | None:
    """Return the task of the open superstep of *engine* that asked *id_*, or runs the nested graph that asked it."""
    places, around = places_of(id_), _places(engine.path)[:-1]
    depth = len(around)
    index = places[depth].partition(".")[2] if len(places) > depth and places[:depth] == around else ""
    if not index.isdecimal() or int(index) >= len(engine.tasks):
        return None
    task = engine.tasks[int(index)]
    return task if places[depth] == f"{task.superstep}.{task.index}" else None


def asker(engine: RunState, id_: str) -> Task | None:
    """Return the task that asked *id_*; while its nested graph is not restored, the task that runs that graph.

    None if no such task is open, as for an `interrupt_after`.
    """
    task = _inside(engine, id_)
    inner = task is not None and len(places_of(id_)) > engine.path.count("/") + 1
    if not inner or task is None or task.extra is None or task.extra.child is None:
        return task
    return asker(task.extra.child, id_)


def _follow(engine: RunState, id_: str, gone: OpenInterrupt | None = None) -> None:
    """Make the task that asked *id_* due, and those around it, if they can run after what happened to the question.

    Args:
        gone: The question if it expired, so that it leaves the tasks.
    """
    task = _inside(engine, id_)
    if task is None or task.extra is None:
        return
    extra = task.extra
    if extra.child is not None:
        _follow(extra.child, id_, gone)
        extra.interrupts = [one for one in extra.interrupts if one.open or one.task_id == task.id]
    if gone is not None:
        extra.interrupts = [one for one in extra.interrupts if one is not gone]
    if task.status == PAUSED and may_go_on(task):
        task.again()


def may_go_on(task: Task) -> bool:
    """Return whether a paused *task* can run again: nothing that it asked itself is open, and its nested graph goes on."""
    child: RunState | None = task.extra.child if task.extra is not None else None
    if child is None:
        return not task.open_interrupts()
    return goes_on(child) and not any(question.open for question in left_with(task))


def goes_on(engine: RunState) -> bool:
    """Return whether *engine* has something to do before a person, a timer or a signal must answer."""
    if engine.unrouted:
        return not engine.open_interrupts()
    statuses = {task.status for task in engine.tasks}  # empty between two supersteps, when the next one can begin
    return PAUSED not in statuses or DUE in statuses


# -- what a live run does with questions ----------------------------------------------------------------------


def answer_now(engine: RunState, id_: str, answer: Any, by: str) -> events.InterruptAnswered:
    """Answer question *id_*, in place of an earlier answer, and return the event.

    Args:
        by: What gives it, as in `OpenInterrupt.by`.
    """
    task = asker(engine, id_)
    nth = 0 if task is None else task.more().answers + 1  # no code gets the answer to an `interrupt_after`
    event = events.InterruptAnswered(id=id_, answer=own(answer), nth=nth, by=by)
    answered(engine, event)
    return event


def withdraw_now(engine: RunState, id_: str, reason: str) -> events.InterruptWithdrawn | events.InterruptExpired:
    """Close the open question *id_* for a *reason*, so that its task runs again, and return the event."""
    event = events.InterruptExpired(id=id_) if reason == EXPIRED else events.InterruptWithdrawn(id=id_, reason=reason)
    ended(engine, event)
    return event


def ask(
    engine: RunState, task: Task, name: str, payload: Any, answer_type: Any, *, keyed: bool, kind: str
) -> OpenInterrupt:
    """Return the question that matches what *task* asks now: one with an answer, one still open, or a new one.

    `ctx.interrupt`, `ctx.sleep`, `ctx.receive` and `ctx.wait` call this; the task pauses unless it is answered. A
    question with a key is matched by key and answer type, one without by its ordinal, its answer type and its payload.
    If nothing matches, the node asks anew. No answer makes a thread fail.

    Args:
        name: Key or ordinal of the question inside its task.
        payload: What the node asks now: data to show, the name of a signal, or the id of a child thread.
        answer_type: Type that the answer must have, as plain data; None if any answer will do.
        keyed: Whether the name identifies the question, whatever its payload; else the payload must be the same.
        kind: As `OpenInterrupt.kind`.
    """
    extra = task.more()
    version = 1
    # Only the newest version can match: an answer belongs to one wording.
    last = next((q for q in reversed(extra.interrupts) if not q.static and q.base == name), None)
    if last is not None and not last.asked:  # answered before: the entry that raised it is missing
        last.asked, last.node, last.kind = True, task.node.name, kind
        last.payload, last.answer_type = own(payload), answer_type
    if last is not None:
        if last.current:
            same = _same(engine, last.payload, payload)
            if last.answer_type == answer_type and (keyed or last.stale or same):
                if move(last, events.AnswerUsed):
                    last.reworded, last.newest = not same, None if same else own(payload)
                elif keyed and not same:  # still open: journal it once more, with the newest payload
                    last.payload, last.told = own(payload), frozenset()
                return last
            last.reason = REWORDED if last.open or last.answer_type == answer_type else "retyped"
            move(last, events.InterruptWithdrawn if last.open else events.AnswerDiscarded)
        version = last.version + 1
    taken = {q.key for q in extra.interrupts}
    while (key := name if version == 1 else f"{name}:{version}") in taken:
        version += 1  # a user's key may look like a version of another key
    question = new(engine, task, key, own(payload), kind=kind, version=version)
    question.answer_type = answer_type
    put(task, question)
    return question


def _same(engine: RunState, one: Any, other: Any) -> bool:
    """Return whether two payloads are equal by `==` or by their stored bytes, by which a NaN equals itself."""
    with contextlib.suppress(Exception):  # `==` is user code; if it raises, the bytes decide
        if one == other:
            return True
    dump = engine.plan.codec.dump
    try:
        return dump(one) == dump(other)
    except NotStorable:
        return False


def new(
    engine: RunState, task: Task, key: str, payload: Any, *, kind: str = "question", version: int = 1
) -> OpenInterrupt:
    """Return a new question of *task*, which does not have it yet."""
    id_ = f"{engine.interrupt_prefix(task)}{key}"
    return OpenInterrupt(id_, key, task.node.name, payload, kind=kind, version=version)


def put(task: Task, question: OpenInterrupt) -> None:
    """Put a new *question* on its *task*."""
    task.engine.know(question)
    task.more().interrupts.append(question)


def pause(task: Task, questions: Sequence[OpenInterrupt], child: RunState | None = None) -> None:
    """Let *task* of a thread wait for the answers to *questions*.

    Args:
        questions: What the task asks, in order. A question of `ctx.interrupt` is on the task already, and may be left
            out.
        child: The engine of the nested graph whose open questions these are, kept for the resume; None for a node that
            asks itself.
    """
    extra = task.more()
    if child is not None:
        extra.child, extra.interrupts = child, [*left_with(task), *questions]
    else:
        for question in questions:
            if question not in extra.interrupts:
                put(task, question)
    task.status = PAUSED


def before(engine: RunState, task: Task) -> list[OpenInterrupt]:
    """Return the question to ask before the node of *task* runs (`interrupt_before`); none if it is answered."""
    known = engine.questions.get(f"{engine.interrupt_prefix(task)}{BEFORE}")
    question = known or new(engine, task, BEFORE, {BEFORE: task.node.name}, kind=BEFORE)
    return [question] if question.open else []


def take_known(engine: RunState) -> None:
    """Put what entries say of questions of the tasks whose superstep opens now on these tasks.

    The journal may have answered what is only staged, or what a nested graph of a fork asks when it begins anew.
    """
    for question in engine.questions.values():
        task = _inside(engine, question.id)
        own = task is not None and len(places_of(question.id)) == engine.path.count("/") + 1
        if own and task is not None and question.kind != AFTER:
            _attach(task.more(), question)


def after(engine: RunState, tasks: Sequence[Task], told: Collection[str] | None) -> list[Task]:
    """Return those of *tasks* whose `interrupt_after` asks a question between their fold and their routers.

    Args:
        told: Ids of the tasks that a journalled commit names, when that is repeated; None decides by the policies of
            the nodes.

    Raises:
        InputError: The run has no thread that could wait.
    """
    if told is not None:
        return [task for task in tasks if task.id in told]
    found: list[Task] = []
    for task in tasks:
        if not task.node.pauses or not task.node.policy.interrupt_after or task.status != DONE:
            continue
        known = engine.questions.get(f"{engine.interrupt_prefix(task)}{AFTER}")
        # Not asked after an edit as the node, or if a fork has the answer.
        if (known is not None and known.answered) or (task.extra is not None and task.extra.edited):
            continue
        if engine.thread is None:
            raise no_thread(engine, task)
        found.append(task)
    return found


def pause_after(engine: RunState, asking: Collection[str]) -> None:
    """Let the routers of the superstep that has just committed wait for answers.

    Args:
        asking: Ids of the tasks whose `interrupt_after` asks, as the entry of the commit names them.
    """
    tasks = engine.tasks
    engine.pause_before_routing()
    for task_id in asking:
        node, id_ = task_id[len(engine.path) :].partition(":")[2], f"{engine.thread}/{task_id}#{AFTER}"
        index = int(task_id[len(engine.path) :].partition(":")[0].partition(".")[2])
        # The entries of the graph around a nested one may have raised and answered it already.
        put(tasks[index], engine.questions.get(id_) or OpenInterrupt(id_, AFTER, node, {AFTER: node}, kind=AFTER))


def no_thread(engine: RunState, task: Task) -> InputError:
    """Return the error for a pause in a run without a thread."""
    return INTERRUPT_NEEDS_THREAD(
        node=task.node.name, asks="asked for an interrupt or a timer", where=engine.where(task)
    )


def returned(extra: Extra) -> OpenInterrupt | None:
    """Return the last answered question that the node asked by returning an Interrupt, and mark its answer as used.

    For `ctx.answer`. None if there is none. An answer that was discarded because the question had expired is over:
    `retry` lets the node ask anew.
    """
    for question in reversed(extra.interrupts):
        if question.answered and question.base.startswith("returned") and question.reason != EXPIRED:
            move(question, events.AnswerUsed)
            return question
    return None


def ask_anew(extra: Extra) -> None:
    """Discard the answers that made the task fail: its next execution asks these questions anew.

    They are those by which it learned that a question had expired, and "fail" to one about changed arguments. For
    `retry` of a failed thread. The event is logged with the next events of the task.
    """
    for question in extra.interrupts:
        expired = question.by == BY_EXPIRY
        failed = question.answered and question.answer == "fail" and question.of_change
        if (expired or failed) and question.current and move(question, events.AnswerDiscarded):
            question.reason, question.end_told = EXPIRED if expired else FAILED_TASK, False


def mark_stale(task: Task) -> None:
    """Mark what *task* has asked as asked before an edit; a question of a policy shows nothing of the state."""
    for question in task.extra.interrupts if task.extra is not None else ():
        question.stale = question.stale or not question.static


def drop_open(task: Task) -> None:
    """Drop the open questions of *task*, whose attempt failed: nothing waits for their answers."""
    extra = task.more()
    for question in extra.interrupts:
        if question.open:
            task.engine.questions.pop(question.id, None)
    extra.interrupts = [question for question in extra.interrupts if not question.open]


def drop_all(task: Task) -> None:
    """Drop all questions of *task* and of its nested graph, which an edit has ended."""
    known = task.engine.questions
    for id_ in [id_ for id_ in known if _inside(task.engine, id_) is task]:
        known.pop(id_)
    task.more().interrupts = []


# -- tasks of nodes with a queue (R27, decision 0159) -------------------------------------------------------------
# The process that drives the thread does not run such a task. It *leaves* it: the task waits with a question of the
# kind TASK. Workers find the task by that question, run it, and report its outcome by mail, which withdraws the
# question. Each time the task is left, the question has the next version, so that a report about an earlier time is
# never taken for one about this time.


def leave(engine: RunState, task: Task) -> None:
    """Let *task*, which is due, wait for a worker of its node's queue. The run pauses once no other task is due."""
    version = 1 + len(left_with(task))
    key = QUEUE if version == 1 else f"{QUEUE}:{version}"
    put(task, new(engine, task, key, task.node.policy.queue, kind=TASK, version=version))
    task.status = PAUSED
    engine.note_change(task)  # stage it anew: an outcome that was staged before, such as a failure, is out of date


def left_with(task: Task) -> list[OpenInterrupt]:
    """Return the questions with which *task* was left to its queue: open and closed ones, oldest first.

    They are its own, unlike the others of a task with a nested graph. Closed ones are kept, since the next one is
    numbered by them.
    """
    asked = task.extra.interrupts if task.extra is not None else ()
    return [question for question in asked if question.kind == TASK and question.task_id == task.id]


def left_to_queue(task: Task) -> OpenInterrupt | None:
    """Return the open question with which *task* waits for a queue; None if it does not."""
    if task.status != PAUSED:
        return None
    return next((question for question in left_with(task) if question.open), None)


def waiting(engine: RunState) -> Iterator[tuple[RunState, Task, OpenInterrupt]]:
    """Yield the tasks that wait for a queue with their engines and questions, also those of nested graphs."""
    for task in engine.tasks:
        child: RunState | None = task.extra.child if task.extra is not None else None
        if child is not None:
            yield from waiting(child)
        question = left_to_queue(task)
        if question is not None:
            yield engine, task, question


# -- looking at questions -----------------------------------------------------------------------------------


def replaceable(engine: RunState) -> list[tuple[Task, OpenInterrupt]]:
    """Return the (task, question) pairs whose answer may be replaced, because their task failed after it (R10).

    If no task failed, the superstep could not be folded or routed: then the answer of any task may be the reason. Tasks
    of nested graphs are included.
    """
    found: list[tuple[Task, OpenInterrupt]] = []
    # By the failure and not by the status: a failed task becomes due when its staged questions and answers are applied.
    failed = [task for task in engine.tasks if task.status != HANDLED and task.extra and task.extra.failure is not None]
    for task in failed or engine.tasks:
        extra = task.extra
        # HANDLED: it failed, but its `on_error` node takes over, so that the failure does not end the run.
        if extra is None or task.status == HANDLED or (failed and task.status == DONE):
            continue
        if extra.child is not None:  # the engine of a nested graph, whose tasks were answered
            found += replaceable(extra.child)
        else:
            found += [(task, q) for q in extra.interrupts if q.answered and q.current and not q.static]
    return found


def effects_after(task: Task, question: OpenInterrupt) -> list[str]:
    """Return the keys of effects that *task* started or recorded after *question* was answered.

    The answer to *question* cannot be replaced then: the results may depend on it, and are found by name when the node
    runs again (decision 0057).
    """
    extra = task.more()
    # `answers`: how many answers the task had been given by then. Of an effect that has ended, its end counts.
    given = {key: effect.answers for key, effect in extra.intents.items()}
    given |= {key: effect.answers for key, effect in extra.effects.items()}
    return [key for key, answers in given.items() if answers >= question.nth]


# -- events of questions, to be logged or staged ----------------------------------------------------------------


def raised_event(task: Task, question: OpenInterrupt) -> events.InterruptRaised:
    """Return the event that *task* asked *question*."""
    return events.InterruptRaised(
        id=question.id,
        task=task.id,
        node=question.node,
        payload=question.payload,
        key=question.key,
        answer_type=question.answer_type,
        expires_at=question.expires_at,
        usage=task.extra.usage if task.extra else None,
        kind=question.kind,
        version=question.version,
        stale=question.stale,
        default=None if question.default is UNSET else question.default,
        has_default=question.default is not UNSET,
    )


def answered_event(question: OpenInterrupt) -> events.InterruptAnswered:
    """Return the event that *question* was answered."""
    return events.InterruptAnswered(id=question.id, answer=question.answer, nth=question.nth, by=question.by)


def ended_event(question: OpenInterrupt) -> Ended | None:
    """Return the event that says what became of *question*; None while that is not known."""
    match question.state:
        case "used":
            return events.AnswerUsed(
                id=question.id, nth=question.nth, reworded=question.reworded, payload=question.newest
            )
        case "discarded":
            return events.AnswerDiscarded(id=question.id, nth=question.nth, reason=question.reason)
        case "withdrawn":
            return events.InterruptWithdrawn(id=question.id, reason=question.reason)
        case _:
            return None


def ends_to_log(task: Task) -> Iterator[events.Event]:
    """Yield how the questions of *task* and their answers ended, unless the journal has that already (`end_told`).

    Of withdrawals only those by another wording: the others are logged where they are decided.
    """
    for question in task.extra.interrupts if task.extra is not None else ():
        if question.static or question.end_told or question.task_id != task.id:  # by a policy, told, of a nested graph
            continue
        if question.state == ANSWERED and task.status in (DONE, HANDLED):  # the node ended without asking it again
            question.state, question.reason = DISCARDED, "not-asked"
        event = ended_event(question)
        if event is not None and (question.state != WITHDRAWN or question.reason == REWORDED):
            question.end_told = True
            yield event


def questions_to_log(task: Task) -> Iterator[events.Event]:
    """Yield the open questions of *task*, which pauses, unless they were logged before; first the ends of older ones."""
    if task.node.child is None:  # a nested graph logs the ends of its own questions
        yield from ends_to_log(task)
    path = task.engine.path
    for question in task.open_interrupts():
        # The entries of a nested graph are written with its parent's commit (R17). Until then each enclosing graph
        # logs the question too, once for its own path, so that the journal has it when the run pauses.
        if path not in question.told:
            question.told |= {path}
            yield raised_event(task, question)


def questions_after_to_log(engine: RunState) -> Iterator[events.Event]:
    """Yield the open questions of `interrupt_after` that were not logged before, once routers wait for them."""
    for task in engine.unrouted:
        for question in task.open_interrupts():
            if question.kind == AFTER and engine.path not in question.told:
                question.told |= {engine.path}
                yield raised_event(task, question)


def standing(task: Task) -> Iterator[events.Event]:
    """Yield all events of the questions of *task* that a restart needs."""
    for question in task.extra.interrupts if task.extra is not None else ():
        if not question.asked or (task.status == FAILED and question.task_id != task.id):
            continue  # of a task inside, whose own row has it: this task failed, and waits for nothing
        yield raised_event(task, question)
        if question.answered:
            yield answered_event(question)
        end = ended_event(question)
        if end is not None:
            yield end


def journalled(engine: RunState, *, usage: bool) -> Iterator[events.Event]:
    """Yield the journalled questions of the open superstep that are open or answered, each followed by its answer.

    Answers to questions that the journal does not have come last.

    Args:
        usage: Whether they keep what the model calls of the task have used.
    """
    open_ = engine.open_interrupts()
    asked: list[OpenInterrupt] = [one for one in engine.questions.values() if engine.path in one.told]
    for question in asked:
        task = _inside(engine, question.id) or next(
            (t for t in engine.unrouted if question in t.more().interrupts), None
        )
        if task is not None and (question in open_ or question.answer_told):
            event = raised_event(task, question)
            yield event if usage else replace(event, usage=None)
            if question.answer_told:
                yield answered_event(question)
    yield from (answered_event(one) for one in engine.questions.values() if one.answer_told and one not in asked)
