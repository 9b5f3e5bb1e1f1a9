"""Opening a run on a thread that is unfinished: it paused, failed, was cancelled, or its owner died.

Status, ids, types and storability of the answers are checked before anything is changed.

`resume` answers questions. `retry` runs again what failed or was left undone, and asks expired and stale questions
anew. The order is fixed: the thread is claimed, loaded and checked; then the first events of the run are noted in the
engine, and stored with its first commit. If a step before that fails, the claim is released and nothing was written.
`ActiveRun.close` undoes the rest: it takes the run out of `config.active`, by which `cancel` and `hand_over` find it.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.questions import replaceable
from graphrt._engine.redacting import redacted_value
from graphrt._engine.storability import stamp, tracked
from graphrt._journal import leases
from graphrt._runs import loading, open_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.answers import answers_by_id, renewed
from graphrt._runs.child_threads import give_children
from graphrt._runs.if_exists import IfExists, Unfinished, check_if_exists, digests, given_fields
from graphrt._runs.input_size import check_size
from graphrt._runs.run_config import RunConfig
from graphrt._runs.stream_items import NOTHING, Reads
from graphrt._runs.task_reports import letters_about_tasks, take_reports
from graphrt._runs.timers import Given
from graphrt.commands import UNSET
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER
from graphrt.errors._codes.threads import INPUT_OR_ANSWERS, OTHER_INPUT
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Claim, Labels, Loaded


class Prepare(Protocol):
    """Checks the caller's answers, or finds those that the time gives, by interrupt id. Changes nothing.

    `failed` says that the thread failed, so that the answers replace earlier ones. `reported` says that workers of
    queues have reported tasks of the thread (R27): then it goes on without an answer too.
    """

    def __call__(self, engine: Engine, *, failed: bool, reported: bool) -> Mapping[str, Given]: ...


def on_either(
    config: RunConfig,
    given: Any,
    thread_id: str | None,
    answers: Any,
    answer: Any,
    labels: Labels | None = None,
    *,
    reads: Reads = NOTHING,
    if_exists: IfExists = "update",
) -> ActiveRun:
    """Open a run on an input, or continue a thread: as `resume` does if there are answers, else as `retry` does.

    `if_exists` and `labels` are for an input only: what becomes of it if the thread exists, and title and tags.

    `steps`, `stream` and `start` open their runs by this. UNSET stands for an argument that their caller did not pass. The
    arguments choose the verb, never the status of the thread. So a forgotten answer is an error and not a retry
    (decision 0029).

    Raises:
        InputError: An input and answers were given, or neither an input nor a thread; else as for the verb.
        if_exists.Present: The thread exists, and *if_exists* asks for the result that it has.
    """
    check_if_exists(config, if_exists, given, thread_id)
    answered = answers is not UNSET or answer is not UNSET
    if labels is not None and given is UNSET:  # title and tags are set with an input only
        raise ARGUMENT_NEEDS_ANOTHER(
            argument="title=, tags= or priority=",
            missing="an input",
            fix="Add an input, or call label() to change the labels of a thread.",
            where=config.plan.place(),
        )
    if given is UNSET and thread_id is not None:
        if answered:
            return resumed(config, thread_id, answers, answer, reads=reads)
        return retried(config, thread_id, reads=reads)
    if given is not UNSET and not answered:
        return on_input(config, given, thread_id, labels, reads=reads, if_exists=if_exists)
    missing = given is UNSET
    raise INPUT_OR_ANSWERS(
        problem="Answers were given, but no thread that waits for them."
        if missing and answered
        else "Neither an input nor a thread to go on with was given."
        if missing
        else "An input and answers were given: a run takes one of them.",
        thread=thread_id,
        where=config.plan.place(),
    )


def on_input(
    config: RunConfig,
    given: Any,
    thread_id: str | None,
    labels: Labels | None = None,
    *,
    reads: Reads = NOTHING,
    if_exists: IfExists = "update",
) -> ActiveRun:
    """Open a run on an input, or go on with an unfinished thread that the same input began; see `open_run.begin`.

    Raises:
        InputError: Another input began the run of the thread (`other-input`), or as for `begin`.
        if_exists.Present: The thread exists, and *if_exists* asks for the result that it has.
    """
    try:
        return open_run.begin(config, given, thread_id, reads=reads, if_exists=if_exists, labels=labels)
    except Unfinished as unfinished:
        claim = unfinished.claim

    def same(engine: Engine, *, failed: bool, reported: bool) -> Mapping[str, Given]:
        """Check the input once the thread is loaded; there are no answers. Implements `Prepare`."""
        del failed, reported
        _check_same_input(config, engine, given, claim.head.status)
        return {}

    opened = continued(config, claim.thread, "retry", same, reads=reads, claim=claim)
    if labels is not None:
        open_run.note_labels(opened, claim, labels)
    return opened


def _check_same_input(config: RunConfig, engine: Engine, given: Any, status: str) -> None:
    """Check that *given*, as it would be stored, has the digests of the input that began the thread's run.

    Raises:
        InputError: It is another input (`other-input`), or does not fit.
    """
    plan = engine.plan
    names = given_fields(plan, given)
    # An input is checked as a whole state on a new thread, and else field by field. A class may make other values of the
    # fields in the first case, so an input that differs as an update is compared as a whole state too.
    ways: list[Callable[[], dict[str, Any]]] = [
        lambda: open_run.checked_update(engine, given, what="The input of a thread"),
        lambda: plan.state.initial(given, where=plan.place(), only=plan.spec.input_names),
    ]
    found: dict[str, str] = {}
    refused: InputError | None = None
    fits = False  # in one way at least
    for number, way in enumerate(ways):
        try:
            values = open_run.entered(config, engine, way(), whole=bool(number))
            found = digests(stamp(plan.codec, tracked(engine, values)), names)
        except NotStorable as error:
            raise open_run.not_storable(engine, error, "The input holds a value") from error
        except InputError as error:
            refused = None if fits else error
            continue
        fits, refused = True, None
        if found == engine.began:
            return
    if refused is not None:
        raise refused
    differ = sorted(name for name in {*found, *engine.began} if found.get(name) != engine.began.get(name))
    raise OTHER_INPUT(thread=engine.thread, status=status, fields=differ, where=engine.where())


def resumed(config: RunConfig, thread_id: str, answers: Any, answer: Any, *, reads: Reads = NOTHING) -> ActiveRun:
    """Open a run that answers open interrupts; see `continued`."""

    def prepare(engine: Engine, *, failed: bool, reported: bool) -> Mapping[str, Given]:
        """Check the answers once the thread is loaded; see `Prepare`."""
        del reported  # the caller called `resume`: answers that are missing are an error all the same
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
    """Open a run of what a thread left undone, without answers; see `continued`."""
    return continued(config, thread_id, "retry", None, reads=reads)


def _check_storable(config: RunConfig, engine: Engine, answer: Given) -> None:
    """Check that an answer can be stored, and that one of a person is not too large.

    Raises:
        InputError: It cannot, or it is.
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
    admit: Callable[[Claim, Loaded], None] | None = None,
    claim: Claim | None = None,
) -> ActiveRun:
    """Open a run that continues a paused, failed or cancelled thread, or one whose owner died.

    Args:
        verb: What the journal calls it. Workers resume a paused thread whose time has come, and retry a running one.
        prepare: Checks the answers; None if the verb takes none.
        given: Whether the caller gave answers. A thread whose owner died needs none, even with open questions.
        reads: Reads of the items that the caller reads.
        admit: Called with the claim and what was loaded, before anything is changed; it may raise. Workers check there
            that the thread is still due.
        claim: The claim on the thread, if the caller has one; it is released if the run cannot be opened.

    Raises:
        InputError: There is no store or no such thread, the thread needs another verb, or an answer does not fit.
        ConflictError: Another run drives the thread.
        StoreError: The store failed, or the thread cannot be read.
    """
    store = loading.the_store(config)
    check_id(thread_id)
    # A claim uses *at* for the creation time of a new thread only.
    if claim is None:
        claim = open_run.claimed(config, store, thread_id, create=False, at=0.0)
    opened: ActiveRun | None = None
    try:
        loaded, kept = config.kept.load(store, thread_id)
        leases.check_unmoved(claim, loaded.head)
        if admit is not None:
            admit(claim, loaded)
        fold = loading.folded(config, loaded, kept, letters=letters_about_tasks(config, store, thread_id))
        engine = fold.engine
        if config.redactor is not None:
            engine.redact_with(config.redactor)
        config.secrets.give_back(engine)  # no store has the values of Secrets; this process may still know them
        status = claim.head.status
        # R10: two cases in which a verb is right although the status alone would want another one. A retry asks stale
        # questions (the state was edited since) and expired ones anew; a resume of a failed thread replaces an answer.
        anew = renewed(engine, status, config.clock) if verb == "retry" else []
        replacing = verb == "resume" and status == "failed" and given and bool(replaceable(engine))
        if not anew and not replacing:
            open_run.want(claim, verb, config, reads)  # raises an error that names the right verb, if it is another one
        answers: Mapping[str, Given] = {}
        # "running" means that the owner died. A resume without answers then only goes on.
        if prepare is not None and (given or status != "running"):
            answers = prepare(engine, failed=replacing, reported=fold.reported is not None)
        # Nodes are not called with values that were erased. *work*: nor do open and due tasks need one.
        open_run.check_erased(fold, engine.values, work=True)
        loading.check_build(config, fold)
        for answer in answers.values():
            _check_storable(config, engine, answer)
        answers = {id_: _redacted(engine, id_, answer) for id_, answer in answers.items()}
        engine.limit(config.limits)  # each drive has the limits of its own runtime
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
    for question, reason in anew:
        engine.withdraw({question.id}, reason)
    for id_, (answer, by) in answers.items():
        engine.answer({id_: answer}, by=by, replace=replacing)
    give_children(opened, open_run.begin)
    config.active.add(thread_id, opened.control)
    take_reports(opened, fold.reported)  # last, since it commits; it closes the run if that fails
    return opened


def _redacted(engine: Engine, id_: str, given: Given) -> Given:
    """Return an answer redacted. What the time gives (`by` is set) was redacted when the question was asked."""
    return given if given.by else Given(redacted_value(engine, given.answer, f"the answer to {id_}"))
