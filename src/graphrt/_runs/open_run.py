"""Opening a run on an input: on a new or finished thread, or without a thread. Nothing is driven here.

This module also decides, for `reopen_run` too, whether a verb (`run`, `resume`, `retry`) fits the status of a thread.
The order is fixed: the thread is claimed, then loaded, then everything is checked. If a step fails, the claim is
released and nothing has been written. `note` adds an event to the engine's log, which the run's first commit writes.
`own` copies a value, so that no container is shared (R15). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from graphrt import events
from graphrt._arguments import is_mapping
from graphrt._codec import NotStorable
from graphrt._engine import emit_events
from graphrt._engine.abandoning import give_up_superstep
from graphrt._engine.edit import folded_in, say
from graphrt._engine.engine import Engine
from graphrt._engine.redacting import redacted_update
from graphrt._engine.spending import budget_field
from graphrt._engine.storability import storable, tracked
from graphrt._journal import batch, leases
from graphrt._plan.fields import describe, own
from graphrt._plan.state import Recorded, explain
from graphrt._plan.state_reducer import WHOLE
from graphrt._plan.value_checks import is_marker
from graphrt._runs import listeners, loading
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.arguments import check_size, size_of
from graphrt._runs.child_threads import give_children
from graphrt._runs.if_exists import IfExists, Present, Unfinished, action, digests, given_fields, present
from graphrt._runs.labels import labelled, labels_of_head, with_more
from graphrt._runs.partial_messages import partial_messages
from graphrt._runs.run_config import RunConfig
from graphrt._runs.stream_items import NOTHING, Reads
from graphrt.errors import ConflictError, GraphrtError, InputError
from graphrt.errors._codes.arguments import BAD_INPUT, INPUT_OF_WRONG_KIND, INVALID_ARGUMENT, UNKNOWN_KEY
from graphrt.errors._codes.threads import (
    INPUT_NOT_STORABLE,
    INTERRUPT_NEEDS_THREAD,
    MADE_ID_EXISTS,
    THREAD_WITHOUT_STORE,
    WRONG_VERB,
)
from graphrt.reducers import TOKEN_BUDGET
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Labels

if TYPE_CHECKING:
    from graphrt._journal.thread_fold import Fold
    from graphrt._plan.tables import Plan


def begin(
    config: RunConfig,
    input_: Any,
    thread_id: str | None,
    *,
    reads: Reads = NOTHING,
    if_exists: IfExists = "update",
    labels: Labels | None = None,
    admit: Callable[[Claim], None] | None = None,
    parent: str | None = None,
) -> ActiveRun:
    """Open a run on an input, for all verbs that take one, and for child threads.

    Args:
        input_: The input, unchecked: the whole state of a new thread, an update of an existing one.
        thread_id: None generates an id if there is a store, and runs without a thread if there is none.
        reads: Modes of the items that the caller reads.
        if_exists: What to do with the input if the thread exists; checked by the caller (`check_if_exists`).
        labels: Title and tags for the thread; tags are added to the existing ones. None leaves both unchanged.
        admit: Called with the claim before anything is read or changed; raises to refuse.
        parent: Id, without tenant, of the thread whose task starts the new thread by `ctx.start`; None for any other.

    Raises:
        if_exists.Present: The thread exists, and *if_exists* asks for its current result.
        if_exists.Unfinished: It continues without the input. The exception carries the claim.
        InputError: The input does not fit, there is no store for a thread, or the thread needs another verb.
        ConflictError: Another run drives the thread.
        StoreError: The store failed.
    """
    plan = config.plan
    store = config.store
    if labels is not None:
        _check_labels(config)
    if thread_id is not None and store is None:
        raise THREAD_WITHOUT_STORE(what=f"thread={thread_id!r} was given", thread=thread_id, where=plan.place())
    if store is None:
        if plan.pausing is not None:  # the name of a node whose policy pauses the run
            raise _needs_thread(plan, plan.pausing)
        # `check_state`: whether the run checks for values that nodes changed in place (R15).
        engine = Engine(plan, config.limits, check_state=config.checks_state)
        # Sinks see the run begin as soon as it is opened, so the input is checked first. If that fails, nothing has to
        # be released. No error needs redacting: redaction rules come with an audit log, which needs a store.
        values = entered(
            config, engine, plan.state.initial(input_, where=plan.place(), given_as=plan.spec.input_schema)
        )
        opened = ActiveRun(config, engine, None, reads=reads)
        return _started(opened, values, values, fresh=True, names=())
    made = thread_id is None
    thread_id = check_id(config.ids() if thread_id is None else thread_id)
    at = config.clock()  # read once (R13): a thread's creation and its first commit have the same time
    if at - at:  # inf - inf and nan - nan are nan, which is true; a finite time gives 0.0
        raise batch.no_time(at)
    claim = claimed(config, store, thread_id, create=True, at=at, admit=admit)
    opened_run: ActiveRun | None = None
    try:
        if claim.head.seq == 0:
            values = plan.state.initial(input_, where=plan.place(), given_as=plan.spec.input_schema)
            engine = Engine(plan, config.limits, thread=thread_id, check_state=config.checks_state)
            values = entered(config, engine, values)
            engine.belong_to(parent)
            opened_run = ActiveRun(config, engine, claim, at=at, reads=reads)
            started = _started(opened_run, values, values, fresh=True, names=given_fields(plan, input_))
        else:
            fold = _loaded(config, claim, if_exists, reads, made=made)
            engine = fold.engine
            config.secrets.give_back(engine)  # no store has the values of Secrets; this process may still know them
            update = entered(config, engine, checked_update(engine, input_), whole=False)
            gives_up = (
                claim.head.status != "completed"
            )  # `_loaded` has checked that the unfinished work may be abandoned
            messages = partial_messages(config, engine) if gives_up else {}
            if messages:
                say(engine, messages)
            # Through the reducers, after resetting ephemeral fields, as when a superstep is folded (R16).
            values = folded_in(engine, update, reset=True)
            check_erased(fold, values, work=False)
            engine.limit(config.limits)
            opened_run = ActiveRun(config, engine, claim, fold=fold, at=at, reads=reads)
            adopted(engine, fold)
            if gives_up:
                give_up_superstep(engine, messages)
            started = _started(opened_run, values, update, fresh=False, names=given_fields(plan, input_))
        if labels is not None:
            note_labels(opened_run, claim, labels)
    except Unfinished:  # whoever catches it gets the claim
        raise
    except BaseException as error:
        config.clean(error)  # redacts what it quotes of the input
        give_up(store, claim, opened_run, error)
        raise
    give_children(started, begin)  # lets nodes start child threads, which this function opens
    config.active.add(thread_id, started.control)  # `Runtime.cancel` finds the run by it; closing the run removes it
    return started


def _loaded(config: RunConfig, claim: Claim, if_exists: IfExists, reads: Reads, *, made: bool) -> Fold:
    """Return a claimed thread that takes an input according to *if_exists*, folded, with its engine.

    Args:
        made: Whether `ids=` made the id of the thread, which should be new then.

    Raises:
        Present, Unfinished: It takes no input; see `begin`.
        InputError: Another verb is right, or the id was made.
    """
    if made:
        raise MADE_ID_EXISTS(thread=claim.thread, where=config.plan.place())
    next_action = action(if_exists, claim.head.status)
    if next_action is None:
        purpose = "return a result: its last run has none" if if_exists == "return" else ""
        want(claim, "run", config, reads, doing=purpose)  # raises the error that names the right verb
    if next_action == "retry":
        raise Unfinished(claim)
    fold = loading.present(config, claim.thread, claim)  # makes the engine, with the same `check_state`
    if next_action == "present":
        raise Present(present(config, claim, fold))
    return fold


def claimed(
    config: RunConfig,
    store: Store,
    thread: str,
    *,
    create: bool,
    at: float,
    admit: Callable[[Claim], None] | None = None,
) -> Claim:
    """Claim *thread* for a run; see `leases.take`. Report a conflict to the sinks that count them.

    Args:
        at: Creation time of a new thread, in seconds since the epoch.
        admit: As in `begin`. If it raises, the claim is released.
    """
    try:
        claim = leases.take(store, thread, create=create, lease_s=config.lease_s, at=at)
    except ConflictError:
        listeners.conflicted(config)
        raise
    if admit is not None:
        try:
            admit(claim)
        except BaseException:
            leases.give_back(store, claim)
            raise
    return claim


def check_erased(fold: Fold, values: Mapping[str, Any], *, work: bool) -> None:
    """Check that a run can continue with *values*. Nodes are not called with values that `Runtime.erase` has replaced.

    Args:
        work: Whether the open and due tasks also continue.

    Raises:
        InputError: A field holds an erased value that its type does not allow, or a task needs one (`erased-value`).
    """
    if not fold.reader.erased:  # nothing that was read holds an erased value
        return
    # Imported late, since hardly any thread has erased values.
    from graphrt._engine.erased_work import erased_fields, erased_work
    from graphrt.errors._codes.erasing import ERASED_VALUE, ERASED_WORK

    thread, engine = fold.reader.thread, fold.engine
    fields = erased_fields(engine, values)
    if fields:
        raise ERASED_VALUE(thread=thread, fields=fields, first=fields[0], where=engine.where())
    what = next(erased_work(engine), None) if work else None
    if what is not None:
        raise ERASED_WORK(thread=thread, what=what, where=engine.where())


def _check_labels(config: RunConfig) -> None:
    """Raise an InputError if threads cannot have labels, because there is no store or it does not support them."""
    if config.store is None:
        raise THREAD_WITHOUT_STORE(what="title= or tags= were given", thread=None, where=config.plan.place())
    config.store.require("labels")


def note_labels(opened: ActiveRun, claim: Claim, labels: Labels) -> None:
    """Record that *labels* are added to those of the thread, if that changes them."""
    old_labels = labels_of_head(claim.head)
    new_labels = with_more(old_labels, labels)
    if new_labels != old_labels:
        emit_events.note(opened.engine, labelled(opened.config, new_labels))


def _needs_thread(plan: Plan, node: str) -> InputError:
    """Return the error for running a graph without a thread when the policy of *node* pauses the run."""
    return INTERRUPT_NEEDS_THREAD(
        node=node, asks="has interrupt_before or interrupt_after", known="nothing has run", where=plan.place()
    )


def give_up(store: Store, claim: Claim, opened: ActiveRun | None, error: BaseException) -> None:
    """Close the run, if one was opened, and release the claim after *error* interrupted the opening."""
    if opened is not None:
        opened.broke(error)
    leases.give_back(store, claim)


def _started(
    opened: ActiveRun, values: dict[str, Any], checked_input: Mapping[str, Any], *, fresh: bool, names: Collection[str]
) -> ActiveRun:
    """Start the engine of an opened run, and note its first event.

    Args:
        values: The whole state that the run starts from.
        checked_input: The checked input: the same values on a new thread (*fresh*), an update on an existing one.
        names: Fields that the caller gave; the journal keeps digests of them.

    Raises:
        InputError: The input cannot be stored, or leaves a negative token budget.
    """
    engine, services = opened.engine, opened.services
    if services.doubles is not None:
        services.doubles.saw_start = True
    if TOKEN_BUDGET in checked_input:
        _check_budget(engine, values)
    if opened.listening:  # a journal or a sink reads events
        stored = tracked(engine, checked_input)  # an untracked field is never stored (R16)
        try:
            stored = storable(engine, stored)
            check_size(opened.config.limits, size_of(stored))
        except NotStorable as error:
            raise not_storable(engine, error, "The input holds a value") from error
        engine.begin_with(digests(stored, names))
        if engine.codec is None:  # nothing encodes the event, and it must not share containers with the state (R15)
            stored = engine.plan.state.own_all(stored)
        emit_events.note(
            engine,
            events.RunStarted(
                graph=engine.plan.name,
                fingerprint=opened.config.graph.fingerprint,
                thread=services.known_as,
                seed=opened.services.seed,
                input=stored,
                fresh=fresh,
                user=opened.config.user,
                redaction=opened.config.redaction,
                parent=engine.parent if fresh else None,
                digests=engine.began,
            ),
        )
    engine.reset_counts()  # usage, grants and child threads of earlier runs do not count
    engine.start(values)
    return opened


def _check_budget(engine: Engine, values: Mapping[str, Any]) -> None:
    """Check that the input leaves 0 or more in the field `token_budget`, which counts the tokens left for model calls.

    It can only drop below 0 during a run, since a model call may use more tokens than it reserved.

    Raises:
        InputError: The budget field is below 0.
    """
    tokens = budget_field(engine, values)
    if tokens is not None and tokens < 0:
        raise INVALID_ARGUMENT(
            argument=f"With this input, field {TOKEN_BUDGET!r}",
            value=tokens,
            wanted="0 or more: the tokens that the run may spend",
            field=TOKEN_BUDGET,
            where=engine.where(),
        )


def entered(
    config: RunConfig, engine: Engine, values: dict[str, Any], *, what: str = "the input", whole: bool = True
) -> dict[str, Any]:
    """Return checked values from the caller as they enter the thread, redacted if the runtime has redaction rules.

    From then on, the engine also redacts.

    Args:
        what: Noun for the values, for error texts.
        whole: Whether they are a whole state rather than an update.

    Raises:
        AuditError: A redaction rule failed, or a field cannot hold its result.
        InputError: A value has no encoded form, so no rule can inspect it.
    """
    if config.redactor is None:
        return values
    engine.redact_with(config.redactor)
    try:
        return dict(redacted_update(engine, values, what, whole=whole))
    except NotStorable as error:
        raise not_storable(engine, error, f"{what[0].upper()}{what[1:]} holds a value") from error


def not_storable(engine: Engine, error: NotStorable, what: str) -> InputError:
    """Return the error for a value from the caller that cannot be stored; *what* begins its message."""
    return INPUT_NOT_STORABLE(
        given=what,
        at=f" at {error.path}" if error.path else "",
        why=error.why,
        advice=error.fix,
        thread=engine.thread,
        where=engine.where(),
    )


def adopted(engine: Engine, fold: Fold) -> None:
    """If loading has migrated the thread to a changed graph, record that: the next entries belong to that graph."""
    if fold.migrated is not None:
        emit_events.note(engine, fold.migrated)


_RIGHT: dict[str, str] = {"interrupted": "resume", "failed": "retry", "cancelled": "retry", "completed": "run"}
"""Maps a thread status to the verb that continues it. For any other status the owner died, and the verb is `retry`."""


def want(claim: Claim, verb: str, config: RunConfig, reads: Reads, *, doing: str = "") -> None:
    """Check that *verb* fits the status of the claimed thread.

    For `run`, `if_exists.action` has found that it does not.

    A claimed thread with the status "running" lost its owner. It accepts both `resume` and `retry`.

    Args:
        reads: What the caller reads. If that is more than the result, the message also names the streaming form of the
            verb.
        doing: The action that the thread does not allow; if empty, that of the verb.

    Raises:
        InputError: Another verb is right (`wrong-verb`); the message names it. Or the thread belongs to another graph.
    """
    status, thread = claim.head.status, claim.thread
    right_verb = _RIGHT.get(status, "retry")
    if right_verb == verb or (status == "running" and verb != "run"):
        return
    loading.refuse_other_graph(config.plan, claim.head)  # no verb is right for it
    doing = doing or {"run": "take a new input", "resume": "be resumed", "retry": "be retried"}[verb]
    calls = {"resume": f"resume({thread!r}, answers)", "retry": f"retry({thread!r})"}
    watch_arguments = {"resume": f"thread={thread!r} with answers=", "retry": f"thread={thread!r} alone"}
    abandon_text = "."
    if verb == "run":
        call = f"run(input, thread={thread!r}, if_exists="
        if status == "interrupted":
            continue_text = f", retry({thread!r}) if a question is stale or has expired"
        else:
            continue_text = f', {call}"continue") if the same input began it'
        abandon_text = f'{continue_text}, {call}"abandon") to give up what is left, or another thread.'
        if status == "running":
            abandon_text += (
                f" start(input, thread={thread!r}, while_running='queue') leaves the input for after the run."
            )
    raise WRONG_VERB(
        thread=thread,
        status=status,
        doing=doing,
        entries=claim.head.seq,
        right=calls.get(right_verb, f"run(input, thread={thread!r})"),
        or_watch=f", or {watch_arguments.get(right_verb, f'an input with thread={thread!r}')} to watch it"
        if reads
        else "",
        or_abandon=abandon_text,
        graph_name=config.plan.name,
    )


def checked_update(engine: Engine, input_: Any, *, what: str = "The input of a finished thread") -> dict[str, Any]:
    """Return a value from the caller as a checked update, in containers of its own (R15).

    Args:
        input_: A mapping of fields, or an instance of the state class or the graph's input class. For a pydantic model
            only the fields that were set count. An update, as nodes return it, if the graph has a reducer of the whole state.
        what: Subject of the error messages.

    Raises:
        InputError: It is not a mapping of fields, a field is unknown, or a value does not fit.
    """
    plan = engine.plan
    if plan.update.whole is not None:
        return _checked_whole(engine, input_, what)
    if input_.__class__ is Recorded:
        return plan.state.own_all(input_)
    entries: Any = plan.state.as_mapping(input_)
    validated: frozenset[str] = frozenset()
    schema = plan.spec.input_schema
    if plan.state.is_instance(input_):
        entries = plan.state.values_of(input_, set_only=True)
        validated = plan.state.validated(entries)
    elif schema is not None and schema.is_instance(input_):
        entries = schema.values_of(input_, set_only=True)
    if not is_mapping(entries):
        raise INPUT_OF_WRONG_KIND(
            who=what,
            wanted=f"a mapping of the fields to update, or a {plan.state.cls.__name__}",
            given=type(input_).__name__,
            where=engine.where(),
        )
    entries = plan.state.by_names(entries)
    unknown = [key for key in entries if key not in plan.state.fields]
    if unknown:
        raise UNKNOWN_KEY(
            who=what,
            unknown=unknown,
            schema="state",
            fields=plan.state.fields,
            field=str(unknown[0]),
            where=engine.where(),
        )
    checked: dict[str, Any] = {}
    for name, value in entries.items():
        try:
            field = plan.state.fields[name]
            if name in validated and field.check is field.check_whole and not is_marker(value):
                checked[name] = own(value)
                continue
            # "START": the name that errors give for the field's writer.
            checked[name] = plan.update._check_one(field, own(value), "START", engine.where())
        except GraphrtError:
            raise
        except Exception as error:  # noqa: BLE001 - of a validator; `unquoted`: fields that errors must not quote (R16)
            raise BAD_INPUT(
                who=what,
                state_class=plan.state.cls.__name__,
                problems=explain(error, name, plan.state.unquoted),
                field=name,
                where=engine.where(),
            ) from None
    return checked


def _checked_whole(engine: Engine, input_: Any, what: str) -> dict[str, Any]:
    """Return a value from the caller as a checked update of a graph with a reducer of the whole state.

    Raises:
        InputError: It does not have the type of the graph's updates.
    """
    update = engine.plan.update
    wanted = describe(update.cls)
    entries = update.entries(own(input_))
    if entries is None or input_ is None:
        raise INPUT_OF_WRONG_KIND(
            who=what, wanted=f"an update of the type {wanted}", given=type(input_).__name__, where=engine.where()
        )
    try:
        return {WHOLE: update.check_any(entries[WHOLE])}
    except Exception as error:  # noqa: BLE001 - of a validator
        raise BAD_INPUT(
            who=what, state_class=wanted, problems=explain(error, "update"), field=None, where=engine.where()
        ) from None
