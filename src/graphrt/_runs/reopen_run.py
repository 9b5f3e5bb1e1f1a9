"""Continuing an unfinished thread: it paused, failed, was cancelled, or its owner died.

The steps are always the same: claim and load the thread, apply what has arrived for it, then open a run or release the
thread. What arrives is a caller's answers, answers given by the clock, reports of queue workers, and mail.

Status, ids, types and storability of the answers are checked before anything is changed.

`resume` answers questions. `retry` reruns what failed or was left undone, and asks expired and stale questions again.
The order is fixed: the thread is claimed, loaded and checked; then the first events of the run are noted in the engine
and stored with its first commit. If a step before that fails, the claim is released and nothing has been written.
`ActiveRun.close` undoes the rest: it removes the run from `config.active`, where `cancel` and `hand_over` look it up.

A letter has a place and a kind (`what`): "cancel", "signal", "answers", "input" (a new run), "ended" (the end of a
child thread) or "task" (the report of a queue worker). `told` is its content by name. `take_mail` processes the mail of
a thread that no process drives (R22): the thread is cancelled, answered, or starts its next run. The effects of the
mail are written and the letters deleted in one commit. If the thread can then continue, it has the status "running",
like a thread that was started and left to workers; `Runtime.drive` drives it next. A run processes mail that arrives
during it itself (`_flows.run`).

A worker of a queue posts what the driver would have staged (R27, decision 0159). `letters_about_tasks` reads its
reports before the thread is folded, and `take_reports` writes them as the first commit of the run. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import emit_events
from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.mail import Failure, Letter, deliver, drop, take_letters
from graphrt._engine.open_interrupt import TASK, WITHDRAWN
from graphrt._engine.questions import replaceable
from graphrt._engine.redacting import redacted_value
from graphrt._engine.storability import stamp, tracked
from graphrt._journal.leases import check_unmoved, give_back, take
from graphrt._journal.letters import read
from graphrt._journal.thread_commits import ThreadCommits
from graphrt._runs import loading, open_run
from graphrt._runs.active_run import ActiveRun, reason_of
from graphrt._runs.answers import Given, answers_by_id, renewed
from graphrt._runs.arguments import check_size
from graphrt._runs.child_threads import give_children
from graphrt._runs.forking import journal_of
from graphrt._runs.if_exists import IfExists, Unfinished, check_if_exists, digests, given_fields
from graphrt._runs.loading import check_build, present, the_store
from graphrt._runs.mail import labels_of
from graphrt._runs.run_config import RunConfig
from graphrt._runs.stream_items import NOTHING, Reads
from graphrt.commands import UNSET
from graphrt.errors import GraphrtError, InputError
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER
from graphrt.errors._codes.threads import INPUT_OR_ANSWERS, NOT_DUE, OTHER_INPUT
from graphrt.events.status import Status
from graphrt.limits import Limits
from graphrt.stores.filters import MailFilter
from graphrt.stores.ids import check_id, shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Labels, StoredThread

if TYPE_CHECKING:
    from graphrt._journal.task_letters import Report, Reported


class Prepare(Protocol):
    """Checks the caller's answers, or finds those given by the clock, by interrupt id. Changes nothing.

    `failed`: the thread failed, so the answers replace earlier ones. `reported`: queue workers have reported on tasks
    of the thread (R27), so it also continues without an answer.
    """

    def __call__(self, engine: Engine, *, failed: bool, reported: bool) -> Mapping[str, Given]: ...


def on_either(
    config: RunConfig,
    input_: Any,
    thread_id: str | None,
    answers: Any,
    answer: Any,
    labels: Labels | None = None,
    *,
    reads: Reads = NOTHING,
    if_exists: IfExists = "update",
) -> ActiveRun:
    """Open a run on an input, or continue a thread: as `resume` does if there are answers, else as `retry` does.

    `if_exists` and `labels` apply only to an input: what to do with it if the thread exists, and its title and tags.

    `steps`, `stream` and `start` use this to open their runs. UNSET stands for an argument that their caller did not
    pass. The arguments choose the verb, never the status of the thread. So a forgotten answer is an error and not a
    retry (decision 0029).

    Raises:
        InputError: An input and answers were given, or neither an input nor a thread; else as for the verb.
        if_exists.Present: The thread exists, and *if_exists* asks for the result that it has.
    """
    check_if_exists(config, if_exists, input_, thread_id)
    answered = answers is not UNSET or answer is not UNSET
    if labels is not None and input_ is UNSET:  # title and tags are set with an input only
        raise ARGUMENT_NEEDS_ANOTHER(
            argument="title=, tags= or priority=",
            missing="an input",
            fix="Add an input, or call label() to change the labels of a thread.",
            where=config.plan.place(),
        )
    if input_ is UNSET and thread_id is not None:
        if answered:
            return resumed(config, thread_id, answers, answer, reads=reads)
        return retried(config, thread_id, reads=reads)
    if input_ is not UNSET and not answered:
        return on_input(config, input_, thread_id, labels, reads=reads, if_exists=if_exists)
    missing = input_ is UNSET
    raise INPUT_OR_ANSWERS(
        problem="Answers were given, but no thread that waits for them."
        if missing and answered
        else "Neither an input nor a thread to continue with was given."
        if missing
        else "An input and answers were given: a run takes one of them.",
        thread=thread_id,
        where=config.plan.place(),
    )


def on_input(
    config: RunConfig,
    input_: Any,
    thread_id: str | None,
    labels: Labels | None = None,
    *,
    reads: Reads = NOTHING,
    if_exists: IfExists = "update",
) -> ActiveRun:
    """Open a run on an input, or continue an unfinished thread that the same input began; see `open_run.begin`.

    Raises:
        InputError: Another input began the run of the thread (`other-input`), or as for `begin`.
        if_exists.Present: The thread exists, and *if_exists* asks for the result that it has.
    """
    try:
        return open_run.begin(config, input_, thread_id, reads=reads, if_exists=if_exists, labels=labels)
    except Unfinished as unfinished:
        claim = unfinished.claim

    def same(engine: Engine, *, failed: bool, reported: bool) -> Mapping[str, Given]:
        """Check the input once the thread is loaded; there are no answers. Implements `Prepare`."""
        del failed, reported
        _check_same_input(config, engine, input_, claim.head.status)
        return {}

    opened = continued(config, claim.thread, "retry", same, reads=reads, claim=claim)
    if labels is not None:
        open_run.note_labels(opened, claim, labels)
    return opened


def _check_same_input(config: RunConfig, engine: Engine, input_: Any, status: str) -> None:
    """Check that *input_*, as it would be stored, has the digests of the input that began the thread's run.

    Raises:
        InputError: It is another input (`other-input`), or does not fit.
    """
    plan = engine.plan
    names = given_fields(plan, input_)
    # An input is checked as a whole state on a new thread, and otherwise field by field. In the first case the class
    # may change field values, so an input that differs as an update is also compared as a whole state.
    ways: list[Callable[[], dict[str, Any]]] = [
        lambda: open_run.checked_update(engine, input_, what="The input of a thread"),
        lambda: plan.state.initial(input_, where=plan.place(), given_as=plan.spec.input_schema),
    ]
    input_digests: dict[str, str] = {}
    refusal: InputError | None = None
    is_valid = False  # in at least one of the two ways
    for number, way in enumerate(ways):
        try:
            values = open_run.entered(config, engine, way(), whole=bool(number))
            input_digests = digests(stamp(plan.codec, tracked(engine, values)), names)
        except NotStorable as error:
            raise open_run.not_storable(engine, error, "The input holds a value") from error
        except InputError as error:
            refusal = None if is_valid else error
            continue
        is_valid, refusal = True, None
        if input_digests == engine.began:
            return
    if refusal is not None:
        raise refusal
    differ = sorted(
        name for name in {*input_digests, *engine.began} if input_digests.get(name) != engine.began.get(name)
    )
    raise OTHER_INPUT(thread=engine.thread, status=status, fields=differ, where=engine.where())


def resumed(config: RunConfig, thread_id: str, answers: Any, answer: Any, *, reads: Reads = NOTHING) -> ActiveRun:
    """Open a run that answers open interrupts; see `continued`."""

    def prepare(engine: Engine, *, failed: bool, reported: bool) -> Mapping[str, Given]:
        """Check the answers once the thread is loaded; see `Prepare`."""
        del reported  # the caller called `resume`, so missing answers are still an error
        return answers_by_id(engine, answers, answer, config.clock, failed=failed)

    return continued(
        config,
        thread_id,
        "resume",
        prepare,
        given=answers is not UNSET or answer is not UNSET,
        reads=reads,
    )


def retried(config: RunConfig, thread_id: str, *, reads: Reads = NOTHING) -> ActiveRun:
    """Open a run that completes a thread's unfinished work, without answers; see `continued`."""
    return continued(config, thread_id, "retry", None, reads=reads)


def _check_storable(config: RunConfig, engine: Engine, answer: Given) -> None:
    """Check that an answer can be stored, and that a person's answer is not too large.

    Raises:
        InputError: It cannot be stored, or is too large.
    """
    try:
        size = len(engine.plan.codec.dump(answer.answer))
        if not answer.by:
            check_size(config.limits, size)
    except NotStorable as error:
        raise open_run.not_storable(engine, error, "An answer holds a value") from error


def continued(
    config: RunConfig,
    thread_id: str,
    verb: Literal["resume", "retry"],
    prepare: Prepare | None,
    *,
    given: bool = True,
    reads: Reads = NOTHING,
    admit: Callable[[Claim, StoredThread], None] | None = None,
    claim: Claim | None = None,
) -> ActiveRun:
    """Open a run that continues a paused, failed or cancelled thread, or one whose owner died.

    Args:
        verb: The verb that the journal records. Workers resume a paused thread whose timer has fired, and retry a
            running one.
        prepare: Checks the answers; None if the verb takes none.
        given: Whether the caller gave answers. A thread whose owner died needs none, even with open questions.
        reads: Reads of the items that the caller reads.
        admit: Called with the claim and the loaded data, before anything is changed; it may raise. Workers check there
            that the thread is still due.
        claim: The claim on the thread, if the caller has one; it is released if the run cannot be opened.

    Raises:
        InputError: There is no store or no such thread, the thread needs another verb, or an answer does not fit.
        ConflictError: Another run drives the thread.
        StoreError: The store failed, or the thread cannot be read.
    """
    store = loading.the_store(config)
    check_id(thread_id)
    # A claim uses *at* only as the creation time of a new thread.
    if claim is None:
        claim = open_run.claimed(config, store, thread_id, create=False, at=0.0)
    opened: ActiveRun | None = None
    try:
        loaded, kept_state = config.kept.load(store, thread_id)
        check_unmoved(claim, loaded.head)
        if admit is not None:
            admit(claim, loaded)
        fold = loading.folded(config, loaded, kept_state, letters=letters_about_tasks(config, store, thread_id))
        engine = fold.engine
        if config.redactor is not None:
            engine.redact_with(config.redactor)
        config.secrets.give_back(engine)  # no store has the values of Secrets; this process may still know them
        status = claim.head.status
        # R10: two cases in which a verb is right although the status alone would require another verb. A retry asks
        # stale questions (the state was edited since) and expired ones again; a resume of a failed thread replaces an
        # answer.
        expired_questions = renewed(engine, status, config.clock) if verb == "retry" else []
        replacing = verb == "resume" and status == "failed" and given and bool(replaceable(engine))
        if not expired_questions and not replacing:
            open_run.want(claim, verb, config, reads)  # raises an error that names the right verb, if this one is wrong
        answers: Mapping[str, Given] = {}
        # "running" means that the owner died. A resume without answers then only continues.
        if prepare is not None and (given or status != "running"):
            answers = prepare(engine, failed=replacing, reported=fold.reported is not None)
        # Nodes are not called with erased values. *work*: also check that no open or due task needs one.
        open_run.check_erased(fold, engine.values, work=True)
        loading.check_build(config, fold)
        for answer in answers.values():
            _check_storable(config, engine, answer)
        answers = {id_: _redacted(engine, id_, answer) for id_, answer in answers.items()}
        engine.limit(config.limits)  # each drive uses the limits of its own runtime
        opened = ActiveRun(config, engine, claim, fold=fold, seed=fold.seed, reads=reads)
    except BaseException as error:
        config.clean(error)  # the error may quote an answer, which the redaction rules cover
        open_run.give_up(store, claim, opened, error)
        raise
    open_run.adopted(engine, fold)  # notes a migration to a changed graph (R14)
    emit_events.note(
        engine,
        events.RunResumed(verb=verb, thread=opened.services.known_as, user=config.user, redaction=config.redaction),
    )
    engine.retry()  # the failed tasks of the open superstep are due again
    for question, reason in expired_questions:
        engine.withdraw({question.id}, reason)
    for id_, (answer, by) in answers.items():
        engine.answer({id_: answer}, by=by, replace=replacing)
    give_children(opened, open_run.begin)
    config.active.add(thread_id, opened.control)
    take_reports(opened, fold.reported)  # last, since it commits; closes the run if the commit fails
    return opened


def _redacted(engine: Engine, id_: str, answer: Given) -> Given:
    """Return an answer redacted. Answers of the clock (`by` is set) were redacted when the question was asked."""
    return answer if answer.by else Given(redacted_value(engine, answer.answer, f"the answer to {id_}"))


# -- reports of queue workers -------------------------------------------------------------------------------


def letters_about_tasks(config: RunConfig, store: Store, thread: str) -> Sequence[Report]:
    """Return the letters of *thread* that queue workers have posted, in order; other mail is left out."""
    if "mail" not in store.offers or not (letters := store.query(MailFilter(thread=thread))):
        return ()
    from graphrt._journal.task_letters import reports  # hardly any thread has such letters

    return reports(config.plan.codec, letters, thread)


def take_reports(opened: ActiveRun, reported: Reported | None) -> None:
    """Journal which tasks have ended elsewhere, stage their outcomes, and delete the letters, in one commit.

    The engine of *opened* already has this data, restored from the staged data and the letters. A failure is kept for
    the flow of this run, which fails with it. If the process dies before that, the task goes back to its queue.

    Args:
        opened: The run, which holds the claim on the thread.
        reported: The content of the letters: events to stage by key (`rows`), places of all letters, letters about
            tasks that did not wait for them (`dropped`), and failures by task id, each a `TaskFailed` and whether its
            error is raised as it is. None if no letter was read, which changes nothing.

    Raises:
        StoreError: Nothing was stored. The run is closed.
    """
    if reported is None:
        return
    engine = opened.engine
    opened.control.failures = {id_: Failure(*failure) for id_, failure in reported.failures.items()}
    for question in engine.questions.values():  # a report that a task has ended withdraws its question
        if question.kind == TASK and question.state == WITHDRAWN and not question.end_logged:
            engine.withdraw({question.id}, question.reason)
    for letter in reported.dropped:
        reason = "the task did not wait for it any more"
        emit_events.note(engine, events.LetterDropped(id=letter.id, what="task", reason=reason))
    # Under the keys that the worker used, so that after a crash they are restored like outcomes of this process.
    staged = [(key, list(logged)) for key, logged in reported.rows.items()]
    assert opened.services.record is not None  # noqa: S101 - only runs on a thread get letters
    try:
        opened.services.record(emit_events.take(engine), staged, taken=reported.places)
    except BaseException as error:
        opened.broke(error)
        raise


# -- mail of a thread that no process drives ----------------------------------------------------------------


Work: TypeAlias = Callable[[Engine, Sequence[Letter], Status], list[int]]
"""Notes in the engine's log the effect of letters on a thread with the given status, and returns the places of those
taken. It receives all waiting letters; those it does not take stay."""
_NOT_THE_INPUT = frozenset({"not-due", "wrong-verb", "unknown-thread", "incompatible-graph"})
"""Error codes of a new run that its input did not cause, so that the letter stays."""


def take_mail(config: RunConfig, thread: str) -> bool:
    """Process the mail of *thread* as far as its status allows, and return whether any was taken.

    Raises:
        ConflictError: Another process has the thread, and takes its mail.
        InputError, StoreError: As `Runtime.retry`.
    """
    store = the_store(config)
    if "mail" not in store.offers:
        return False
    has_taken = False
    while letters := _waiting(config, store, thread):
        status = store.head(thread).status
        if status in ("running", "interrupted"):  # the next drive handles the reports about tasks
            letters = [letter for letter in letters if letter.what != "task"]
        input_letter = next((letter for letter in letters if letter.what == "input"), None)
        # *abandon*: the letter asks to abandon the current run. Any other input waits until that run has ended.
        begins = input_letter is not None and (status in ("completed", "cancelled") or input_letter.content["abandon"])
        # Before a new run, first take earlier signals, and cancel requests for a run that has ended.
        if any(letter.what != "input" for letter in letters):
            if not _take(config, store, thread):
                break
            has_taken = True
        elif input_letter is not None and begins:
            return _begin(config, store, thread, input_letter) or has_taken
        else:
            break  # inputs that wait for the end of the run
    return has_taken


def _waiting(config: RunConfig, store: Store, thread: str) -> list[Letter]:
    """Return the letters that wait for the thread, decoded, in the order in which they were posted."""
    return [read(config.plan.codec, letter, thread) for letter in store.query(MailFilter(thread=thread))]


def _begin(config: RunConfig, store: Store, thread: str, letter: Letter) -> bool:
    """Begin a run with the input of *letter*, and leave the thread due.

    Returns:
        True; or False if the input does not fit, and another worker has dropped the letter meanwhile.

    Raises:
        InputError: Another worker has begun the run (`not-due`), or the thread cannot take an input now.
    """

    def admit(claim: Claim) -> None:
        """Refuse to begin if the letter is gone."""
        # Under the claim: another worker may have begun this run, and even ended it.
        if all(waiting.place != letter.place for waiting in store.query(MailFilter(thread=thread))):
            raise NOT_DUE(thread=thread, status=claim.head.status)

    # Its sender has checked the size of the input, by the limits of its own process.
    checked = config._replace(limits=Limits(max_input_bytes=None).over(config.limits))
    try:
        opened = open_run.begin(
            checked,
            letter.content["input"],
            thread,
            if_exists="abandon" if letter.content["abandon"] else "update",
            labels=labels_of(letter.content),
            admit=admit,
        )
    except GraphrtError as error:
        if error.code in _NOT_THE_INPUT or not isinstance(error, InputError):
            raise
        return _drop_input(config, store, thread, letter, error)
    opened.hand_over(taken=(letter.place,))
    return True


def _drop_input(config: RunConfig, store: Store, thread: str, letter: Letter, error: GraphrtError) -> bool:
    """Drop the input of *letter*, which caused *error*; return False if it was taken meanwhile."""

    def dropped(engine: Engine, letters: Sequence[Letter], _status: Status) -> list[int]:
        """Note that the letter changes nothing; implements `Work`."""
        if all(waiting.place != letter.place for waiting in letters):  # another worker has taken it meanwhile
            return []
        drop(engine, letter, error.what)
        return [letter.place]

    return _edit(config, store, thread, dropped)


def _take(config: RunConfig, store: Store, thread: str) -> bool:
    """Take all letters but new inputs; return False if there are none.

    Ends of children are not taken while the thread is "running", since its tasks check their children themselves.
    """

    def taken(engine: Engine, letters: Sequence[Letter], status: Status) -> list[int]:
        """Cancel the thread if a letter asks for it, else apply signals, answers and ends of children; see `Work`."""
        cancels = [letter for letter in letters if letter.what == "cancel"]
        if cancels and status in ("running", "interrupted"):
            # Signals are kept for a node that takes them after a retry. Other letters wait.
            places = take_letters(engine, (letter for letter in letters if letter.what == "signal"))
            emit_events.cancelled(engine, reason_of(cancels[0]))
            return [*places, *(letter.place for letter in cancels)]
        for letter in cancels:
            # The epoch identifies the claim that the request targets. None: a parent thread was cancelled and could not
            # know that its child had ended. Such a request is deleted without an entry.
            if letter.content["epoch"] is not None:
                drop(engine, letter, "the run had ended")
        # A completed thread needs no task reports. With any other status, the report stays for the next drive.
        reports = [letter for letter in letters if letter.what == "task" and status == "completed"]
        for letter in reports:
            drop(engine, letter, "the run had ended")
        # Which task waits for a child must be known first. A task that a queue still runs may be the one.
        takes_ends = status != "running" and not any(question.kind == TASK for question in engine.open_interrupts())
        other_letters = [letter for letter in letters if letter.what != "ended" or takes_ends]
        return [*(letter.place for letter in (*cancels, *reports)), *take_letters(engine, other_letters)]

    return _edit(config, store, thread, taken)


def _edit(config: RunConfig, store: Store, thread: str, work: Work) -> bool:
    """Claim the thread, let *work* apply its mail, and write the result; return False if nothing was taken.

    Raises:
        ConflictError: Another process has the thread.
        InputError, StoreError: The thread cannot be loaded.
    """
    # `at` is the creation time of a new thread, and this one exists.
    claim = take(store, thread, create=False, lease_s=config.lease_s, at=0.0)
    try:
        letters = _waiting(config, store, thread)  # again, under the claim
        status = claim.head.status
        fold = present(config, thread, claim)
        check_build(config, fold)
        commits = ThreadCommits(store, claim)  # stores each commit at once
        journal = journal_of(config, store, fold, commits)
        engine = fold.engine
        engine.listen(engine.plan.codec)
        open_run.adopted(engine, fold)  # if the graph has changed, the journal has to say so first
        places = work(engine, letters, status)
        if not places:
            return False
        # The log has pairs of path and event. If the mail cancelled the thread, its signals stay for a `retry`.
        if status == "interrupted" and not isinstance(engine.log and engine.log[-1][1], events.RunCancelled):
            deliver(engine)  # gives waiting signals to the tasks that wait for them
        logged = emit_events.take(engine)
        if not logged:  # the letters caused no entry: delete them and release the thread
            commits.settle(fold.seq, places)
            return True
        if status == "interrupted" and any(event.__class__ in _ANSWERS for _, event in logged):
            logged = _as_resumption(config, thread, logged)
        journal.write(logged, release=True, taken=places)
    finally:
        give_back(store, claim)
    return True


_ANSWERS = (events.SignalTaken, events.InterruptAnswered)
"""Events after which a waiting task is due."""


def _as_resumption(config: RunConfig, thread: str, logged: Sequence[Logged]) -> list[Logged]:
    """Wrap *logged* in a run that resumes the thread and is handed over at once, so that the thread is "running".

    The run begins right before the first answer. Entries noted before it, such as a received signal, precede the run.
    """
    at = next(index for index, (_, event) in enumerate(logged) if event.__class__ in _ANSWERS)
    known_as = shared_id(config.store, thread)
    resumed_event = events.RunResumed(verb="resume", thread=known_as, user=config.user, redaction=config.redaction)
    handed_over = events.RunHandedOver(reason="mail was taken")
    return [*logged[:at], ("", resumed_event), *logged[at:], ("", handed_over)]
