"""Questions: everything that a thread waits for, from the call that asks until the outcome of the answer is known.

Everything that a thread waits for is a question of a task: `KINDS` lists who asks and who answers. A task that asks
pauses. When all its questions are closed, its node runs again from its start and asks again. `ask` decides which answer
belongs to the repeated question (R10, decision 0057).

A single state machine drives a question, in a live run and when journalled or staged entries are folded. The events are
`raised`, `answered` and `ended`, and `MOVES` contains the next state. An event that is not in the table changes
nothing, so an event may be applied twice (the law *duplicate*).

    event                                   state before        state after    the task that asked
    InterruptRaised                         (none)              open           PAUSED
    InterruptRaised                         open                open           shows the newest payload
    InterruptAnswered                       open                answered       DUE if no other question is open
    InterruptAnswered, with a higher nth    answered, used      answered       DUE if it was DONE: it runs again (R10)
    AnswerUsed                              answered            used           its node asked again and got the answer
    AnswerDiscarded                         answered, used      discarded      its node asks again, or did not ask again
    InterruptWithdrawn                      open                withdrawn      DUE if no other question is open
    InterruptExpired                        open                (none)         DUE; it may ask again under the same id

An edit of the state is a mark (`stale`), not a state: an answer is then used even if the node asks something else. A
task with a waiting nested graph is DUE once that graph can continue (`may_go_on`). The question of an `interrupt_after`
is asked after the commit of its superstep (`RunState.unrouted`) and does not make a task due: the routers are called
once it is answered.

Data: `RunState.questions` contains all questions of the open superstep by id. Nested graphs share the dict, so that
events find a question even before the nested graph is restored. `Extra.interrupts` lists the questions of a task in the
order in which they were first asked; for a task with a nested graph, it lists the open questions inside. If a
question's payload or answer type changes, it becomes a new question with the next version. The older ones are kept, so
that their ids are never reused. For the terms, see docs/glossary.md.
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
    NOT_FOR_PEOPLE,
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
"""Events about the outcome of a question or of its answer."""

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
    """Return where the question *id_* was asked: `superstep.index` of each enclosing task, outermost first.

    Node names are left out, because the entries of an older graph may have different ones.
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


# -- events of questions -----------------------------------------------------------------------------


def move(question: OpenInterrupt, kind: type[events.Event]) -> bool:
    """Move *question* to the next state after an event of the class *kind*. Returns False if there is no transition."""
    state = MOVES.get((question.state, kind))
    if state is None:
        return False
    if kind is events.InterruptAnswered:  # the outcome of a new answer is not known yet
        question.reason, question.reworded, question.newest = "", False, None
        question.end_logged = question.answer_logged = False
    question.state = state
    return True


def raised(engine: RunState, task: Task | None, event: events.InterruptRaised, *, journalled: bool = True) -> None:
    """Add the question that *task* asked, or update a known one. The task waits if the question is open.

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
            not question.logged_in
        ):  # those of `interrupt_before` are created when the superstep opens; keep the journal's order
            engine.know(engine.questions.pop(question.id))
        question.logged_in |= {engine.path}
    if task is None:
        return
    extra = task.more()
    if question not in extra.interrupts:
        _attach(extra, question)
    elif not journalled:
        # Staged rows contain all questions of the task in the order in which they were asked, while the journal of a
        # fork contains only those asked after it. The order matters, because the last question decides how the task
        # continues.
        extra.interrupts.remove(question)
        extra.interrupts.append(question)
    if question.open:
        task.status = PAUSED


def answered(engine: RunState, event: events.InterruptAnswered, *, journalled: bool = True) -> None:
    """Apply the answer to a question; its task is due if no other question is open.

    `nth` numbers the answers of the task. So a later answer replaces an earlier one, and an answer that is applied
    twice, because it is both staged and journalled, changes nothing.
    """
    question = _known(engine, local_id(engine, event.id))
    before = question.answered
    if (before and event.nth <= question.nth) or not move(question, events.InterruptAnswered):
        question.answer_logged = question.answer_logged or (journalled and event.nth == question.nth)
        return
    question.answered, question.answer, question.by, question.nth = True, own(event.answer), event.by, event.nth
    question.answer_logged = journalled
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
    """Apply the outcome of a question (expired, withdrawn) or of its answer (used, discarded).

    A question that expired is removed, so that it is asked again under the same id: no other question is asked, and it
        has
    no answer that could be mistaken for another one's (decision 0057).
    """
    id_ = local_id(engine, event.id)
    if isinstance(event, events.InterruptExpired):
        if id_ in engine.questions and engine.questions[id_].open:
            _follow(engine, id_, expired=engine.questions.pop(id_))
        return
    question = _known(engine, id_)
    about_another = not isinstance(event, events.InterruptWithdrawn) and 0 < event.nth < question.nth
    if about_another or not move(question, event.__class__):
        return
    question.end_logged = question.end_logged or journalled
    if isinstance(event, events.AnswerUsed):
        question.reworded, question.newest = event.reworded, event.payload  # the payload with which the node asked then
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
"""The function that applies an event of a question, by its class; `raised` also gets the task."""


def _known(engine: RunState, id_: str) -> OpenInterrupt:
    """Return the question *id_*, creating an unasked one if no entry has raised it yet.

    An entry may answer a question before it is raised if the question was only staged, or if its nested graph is
    restored later or starts over in a fork (decision 0027).
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
    """Add *question* to the task of *extra* as its latest question."""
    extra.interrupts.append(question)
    extra.answers = max(extra.answers, question.nth)


def _inside(engine: RunState, id_: str) -> Task | None:
    """Return the task in *engine*'s open superstep that asked *id_*, or that runs the nested graph that asked it."""
    places, own_places = places_of(id_), _places(engine.path)[:-1]
    depth = len(own_places)
    index = places[depth].partition(".")[2] if len(places) > depth and places[:depth] == own_places else ""
    if not index.isdecimal() or int(index) >= len(engine.tasks):
        return None
    task = engine.tasks[int(index)]
    return task if places[depth] == f"{task.superstep}.{task.index}" else None


def asker(engine: RunState, id_: str) -> Task | None:
    """Return the task that asked *id_* or, while its nested graph is not restored, the task that runs that graph.

    None if no such task is open, as for an `interrupt_after`.
    """
    task = _inside(engine, id_)
    inner = task is not None and len(places_of(id_)) > engine.path.count("/") + 1
    if not inner or task is None or task.extra is None or task.extra.child is None:
        return task
    return asker(task.extra.child, id_)


def _follow(engine: RunState, id_: str, expired: OpenInterrupt | None = None) -> None:
    """Make the task that asked *id_*, and its enclosing tasks, due if they can run after the event of the question.

    Args:
        expired: The question if it expired, so that it leaves the tasks.
    """
    task = _inside(engine, id_)
    if task is None or task.extra is None:
        return
    extra = task.extra
    if extra.child is not None:
        _follow(extra.child, id_, expired)
        extra.interrupts = [question for question in extra.interrupts if question.open or question.task_id == task.id]
    if expired is not None:
        extra.interrupts = [question for question in extra.interrupts if question is not expired]
    if task.status == PAUSED and may_go_on(task):
        task.again()


def may_go_on(task: Task) -> bool:
    """Return whether a paused *task* can run again: its own questions are closed, and its nested graph can continue."""
    child: RunState | None = task.extra.child if task.extra is not None else None
    if child is None:
        return not task.open_interrupts()
    return goes_on(child) and not any(question.open for question in left_with(task))


def goes_on(engine: RunState) -> bool:
    """Return whether *engine* has work to do that does not wait for a person, a timer or a signal."""
    if engine.unrouted:
        return not engine.open_interrupts()
    statuses = {task.status for task in engine.tasks}  # empty between two supersteps, when the next one can begin
    return PAUSED not in statuses or DUE in statuses


# -- questions in a live run ----------------------------------------------------------------------


def answer_now(engine: RunState, id_: str, answer: Any, by: str) -> events.InterruptAnswered:
    """Answer question *id_*, replacing an earlier answer, and return the event.

    Args:
        by: Source of the answer, as in `OpenInterrupt.by`.
    """
    task = asker(engine, id_)
    nth = 0 if task is None else task.more().answers + 1  # the answer to an `interrupt_after` is not passed to code
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
    """Return the question that matches the current call of *task*: an answered, an open, or a new one.

    `ctx.interrupt`, `ctx.sleep`, `ctx.receive` and `ctx.wait` call this; the task pauses unless it is answered. A
    question with a key is matched by key and answer type, one without by its ordinal, its answer type and its payload.
    If nothing matches, the node asks again. A mismatched answer never makes a thread fail.

    Args:
        name: Key or ordinal of the question within its task.
        payload: The current payload: data to show, the name of a signal, or the id of a child thread.
        answer_type: Required type of the answer, as plain data; None for any answer.
        keyed: Whether the name alone identifies the question; otherwise the payload must match too.
        kind: As `OpenInterrupt.kind`.
    """
    extra = task.more()
    version = 1
    # Only the latest version can match, because an answer belongs to one version.
    last = next((q for q in reversed(extra.interrupts) if not q.static and q.base == name), None)
    if last is not None and not last.asked:  # answered earlier, but the entry that raised it is missing
        last.asked, last.node, last.kind = True, task.node.name, kind
        last.payload, last.answer_type = own(payload), answer_type
    if last is not None:
        if last.current:
            same = _same(engine, last.payload, payload)
            if last.answer_type == answer_type and (keyed or last.stale or same):
                if move(last, events.AnswerUsed):
                    last.reworded, last.newest = not same, None if same else own(payload)
                elif keyed and not same:  # still open: journal it again, with the latest payload
                    last.payload, last.logged_in = own(payload), frozenset()
                return last
            last.reason = REWORDED if last.open or last.answer_type == answer_type else "retyped"
            move(last, events.InterruptWithdrawn if last.open else events.AnswerDiscarded)
        version = last.version + 1
    keys = {q.key for q in extra.interrupts}
    while (key := name if version == 1 else f"{name}:{version}") in keys:
        version += 1  # a user's key may look like a version of another key
    question = new(engine, task, key, own(payload), kind=kind, version=version)
    question.answer_type = answer_type
    put(task, question)
    return question


def _same(engine: RunState, first: Any, second: Any) -> bool:
    """Return whether two payloads are equal by `==` or by their stored bytes, where NaN equals itself."""
    with contextlib.suppress(Exception):  # `==` is user code; if it raises, the bytes decide
        if first == second:
            return True
    dump = engine.plan.codec.dump
    try:
        return dump(first) == dump(second)
    except NotStorable:
        return False


def new(
    engine: RunState, task: Task, key: str, payload: Any, *, kind: str = "question", version: int = 1
) -> OpenInterrupt:
    """Return a new question for *task*, without adding it."""
    id_ = f"{engine.interrupt_prefix(task)}{key}"
    return OpenInterrupt(id_, key, task.node.name, payload, kind=kind, version=version)


def put(task: Task, question: OpenInterrupt) -> None:
    """Add a new *question* to its *task*."""
    task.engine.know(question)
    task.more().interrupts.append(question)


def pause(task: Task, questions: Sequence[OpenInterrupt], child: RunState | None = None) -> None:
    """Make *task* of a thread wait for the answers to *questions*.

    Args:
        questions: The questions of the task, in order. A question of `ctx.interrupt` is already on the task and may be
            left out.
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
    """Return the question to ask before the node of *task* runs (`interrupt_before`); nothing if it is answered."""
    known = engine.questions.get(f"{engine.interrupt_prefix(task)}{BEFORE}")
    question = known or new(engine, task, BEFORE, {BEFORE: task.node.name}, kind=BEFORE)
    return [question] if question.open else []


def take_known(engine: RunState) -> None:
    """Add the journalled outcomes of questions to the tasks of a newly opened superstep.

    The journal may contain the answer to a question that is only staged, or that a nested graph of a fork asks when it
    starts over.
    """
    for question in engine.questions.values():
        task = _inside(engine, question.id)
        own = task is not None and len(places_of(question.id)) == engine.path.count("/") + 1
        if own and task is not None and question.kind != AFTER:
            _attach(task.more(), question)


def after(engine: RunState, tasks: Sequence[Task], task_ids: Collection[str] | None) -> list[Task]:
    """Return those of *tasks* whose `interrupt_after` asks a question between their fold and their routers.

    Args:
        task_ids: Ids of the tasks in a journalled commit that is repeated; None decides by the policies of the nodes.

    Raises:
        InputError: The run has no thread that could wait.
    """
    if task_ids is not None:
        return [task for task in tasks if task.id in task_ids]
    asking: list[Task] = []
    for task in tasks:
        if not task.node.pauses or not task.node.policy.interrupt_after or task.status != DONE:
            continue
        known = engine.questions.get(f"{engine.interrupt_prefix(task)}{AFTER}")
        # Not asked after an edit on behalf of the node, or if a fork has the answer.
        if (known is not None and known.answered) or (task.extra is not None and task.extra.edited):
            continue
        if engine.thread is None:
            raise no_thread(engine, task)
        asking.append(task)
    return asking


def pause_after(engine: RunState, asking: Collection[str]) -> None:
    """Make the routers of the superstep that has just committed wait for answers.

    Args:
        asking: Ids of the tasks whose `interrupt_after` asks, as the entry of the commit names them.
    """
    tasks = engine.tasks
    engine.pause_before_routing()
    for task_id in asking:
        node, id_ = task_id[len(engine.path) :].partition(":")[2], f"{engine.thread}/{task_id}#{AFTER}"
        index = int(task_id[len(engine.path) :].partition(":")[0].partition(".")[2])
        # The entries of the enclosing graph may have already raised and answered it.
        put(tasks[index], engine.questions.get(id_) or OpenInterrupt(id_, AFTER, node, {AFTER: node}, kind=AFTER))


def no_thread(engine: RunState, task: Task) -> InputError:
    """Return the error for a pause in a run without a thread."""
    return INTERRUPT_NEEDS_THREAD(
        node=task.node.name, asks="asked for an interrupt or a timer", where=engine.where(task)
    )


def returned(extra: Extra) -> OpenInterrupt | None:
    """Return the last answered question asked by returning an Interrupt, and mark its answer as used; None if none.

    For `ctx.answer`. An answer that was discarded because the question had expired does not count: after a `retry` the
    node asks again.
    """
    for question in reversed(extra.interrupts):
        if question.answered and question.base.startswith("returned") and question.reason != EXPIRED:
            move(question, events.AnswerUsed)
            return question
    return None


def discard_failed_answers(extra: Extra) -> None:
    """Discard the answers that made the task fail, so that its next execution asks these questions again.

    These are expiries without a default, and "fail" as the answer about changed arguments. For `retry` of a failed
    thread. The event is logged with the next events of the task.
    """
    for question in extra.interrupts:
        expired = question.by == BY_EXPIRY
        failed = question.answered and question.answer == "fail" and question.of_change
        if (expired or failed) and question.current and move(question, events.AnswerDiscarded):
            question.reason, question.end_logged = EXPIRED if expired else FAILED_TASK, False


def mark_stale(task: Task) -> None:
    """Mark the questions of *task* as asked before an edit, except a policy's, which do not depend on the state."""
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
# The process that drives the thread does not run such a task but *leaves* it: the task waits with a question of the
# kind TASK. Workers find the task through that question, run it, and report its outcome by mail, which withdraws the
# question. Each time the task is left, the question gets the next version, so that a late report about an earlier
# version is recognised.


def leave(engine: RunState, task: Task) -> None:
    """Make *task*, which is due, wait for a worker of its node's queue. The run pauses once no other task is due."""
    version = 1 + len(left_with(task))
    key = QUEUE if version == 1 else f"{QUEUE}:{version}"
    put(task, new(engine, task, key, task.node.policy.queue, kind=TASK, version=version))
    task.status = PAUSED
    engine.note_change(task)  # stage it again, because a previously staged outcome, such as a failure, is out of date


def left_with(task: Task) -> list[OpenInterrupt]:
    """Return the questions with which *task* was left to its queue: open and closed ones, oldest first.

    Unlike the other questions of a task with a nested graph, they belong to the task itself. Closed ones are kept,
    because they determine the version of the next one.
    """
    interrupts = task.extra.interrupts if task.extra is not None else ()
    return [question for question in interrupts if question.kind == TASK and question.task_id == task.id]


def left_to_queue(task: Task) -> OpenInterrupt | None:
    """Return the open question with which *task* waits for a queue; None if it does not."""
    if task.status != PAUSED:
        return None
    return next((question for question in left_with(task) if question.open), None)


def waiting(engine: RunState) -> Iterator[tuple[RunState, Task, OpenInterrupt]]:
    """Yield the tasks that wait for a queue with their engines and questions, including those of nested graphs."""
    for task in engine.tasks:
        child: RunState | None = task.extra.child if task.extra is not None else None
        if child is not None:
            yield from waiting(child)
        question = left_to_queue(task)
        if question is not None:
            yield engine, task, question


# -- queries -----------------------------------------------------------------------------------


def replaceable(engine: RunState) -> list[tuple[Task, OpenInterrupt]]:
    """Return the (task, question) pairs whose answer may be replaced, because the task failed after the answer (R10).

    If no task failed, the superstep could not be folded or routed, and the answer of any task may be the cause. Tasks
    of nested graphs are included.
    """
    pairs: list[tuple[Task, OpenInterrupt]] = []
    # Selected by failure, not by status: a failed task becomes due when its staged questions and answers are applied.
    failed = [task for task in engine.tasks if task.status != HANDLED and task.extra and task.extra.failure is not None]
    for task in failed or engine.tasks:
        extra = task.extra
        # HANDLED: it failed, but its `on_error` node takes over, so that the failure does not end the run.
        if extra is None or task.status == HANDLED or (failed and task.status == DONE):
            continue
        if extra.child is not None:  # the engine of a nested graph, whose tasks received the answers
            pairs += replaceable(extra.child)
        else:
            pairs += [(task, q) for q in extra.interrupts if q.replaceable]
    return pairs


def effects_after(task: Task, question: OpenInterrupt) -> list[str]:
    """Return the keys of effects that *task* started or recorded after *question* was answered.

    In that case the answer to *question* cannot be replaced: the results may depend on it, and are looked up by name
    when the node runs again (decision 0057).
    """
    extra = task.more()
    # `answers`: how many answers the task had received by then. If an effect has ended, its end counts.
    answer_counts = {key: effect.answers for key, effect in extra.intents.items()}
    answer_counts |= {key: effect.answers for key, effect in extra.effects.items()}
    return [key for key, answers in answer_counts.items() if answers >= question.nth]


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
    """Return the event for the outcome of *question*; None while it is not known."""
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
    """Yield the outcomes of *task*'s questions and answers that are not in the journal yet (`end_logged`).

    Of withdrawals, only those caused by a new version: the others are logged where they are decided.
    """
    for question in task.extra.interrupts if task.extra is not None else ():
        # Asked by a policy, already logged, or of a nested graph, which logs it itself.
        if question.static or question.end_logged or question.task_id != task.id:
            continue
        if question.state == ANSWERED and task.status in (DONE, HANDLED):  # the node ended without asking it again
            question.state, question.reason = DISCARDED, "not-asked"
        event = ended_event(question)
        if event is not None and (question.state != WITHDRAWN or question.reason == REWORDED):
            question.end_logged = True
            yield event


def questions_to_log(task: Task) -> Iterator[events.Event]:
    """Yield the open questions of *task*, which pauses, unless already logged; first the outcomes of older ones."""
    if task.node.child is None:  # a nested graph logs the ends of its own questions
        yield from ends_to_log(task)
    path = task.engine.path
    for question in task.open_interrupts():
        # The entries of a nested graph are written with its parent's commit (R17). Until then each enclosing graph logs
        # the question too, once for its own path, so that the journal contains it when the run pauses.
        if path not in question.logged_in:
            question.logged_in |= {path}
            yield raised_event(task, question)


def question_to_log(engine: RunState, id_: str) -> Iterator[events.Event]:
    """Yield the question *id_* to a person, who has answered it, unless already logged.

    A question is logged when the run pauses. A run that was cut off before that has only staged it, and while other
    tasks run it may be answered at once. The journal must not have an answer without the question.
    """
    question, task = engine.questions[id_], _inside(engine, id_)
    if task is not None and question.kind not in NOT_FOR_PEOPLE and engine.path not in question.logged_in:
        question.logged_in |= {engine.path}
        yield raised_event(task, question)


def questions_after_to_log(engine: RunState) -> Iterator[events.Event]:
    """Yield the open questions of `interrupt_after` that were not logged yet, once routers wait for them."""
    for task in engine.unrouted:
        for question in task.open_interrupts():
            if question.kind == AFTER and engine.path not in question.logged_in:
                question.logged_in |= {engine.path}
                yield raised_event(task, question)


def standing(task: Task) -> Iterator[events.Event]:
    """Yield all events of the questions of *task* that a restart needs."""
    for question in task.extra.interrupts if task.extra is not None else ():
        if not question.asked or (task.status == FAILED and question.task_id != task.id):
            continue  # belongs to an inner task, whose own row contains it: this task failed and no longer waits
        yield raised_event(task, question)
        if question.answered:
            yield answered_event(question)
        end = ended_event(question)
        if end is not None:
            yield end


def journalled(engine: RunState, *, usage: bool) -> Iterator[events.Event]:
    """Yield the journalled questions of the open superstep that are open or answered, each followed by its answer.

    Answers to questions that are not in the journal come last.

    Args:
        usage: Whether to include the usage of the task's model calls.
    """
    open_ = engine.open_interrupts()
    in_journal: list[OpenInterrupt] = [
        candidate for candidate in engine.questions.values() if engine.path in candidate.logged_in
    ]
    for question in in_journal:
        task = _inside(engine, question.id) or next(
            (t for t in engine.unrouted if question in t.more().interrupts), None
        )
        if task is not None and (question in open_ or question.answer_logged):
            event = raised_event(task, question)
            yield event if usage else replace(event, usage=None)
            if question.answer_logged:
                yield answered_event(question)
    yield from (
        answered_event(candidate)
        for candidate in engine.questions.values()
        if candidate.answer_logged and candidate not in in_journal
    )
