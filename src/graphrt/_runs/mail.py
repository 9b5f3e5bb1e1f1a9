"""Mail to a thread that another process may drive: what is posted, and how it is checked before.

A letter (rule R22) has an id, and the store keeps one letter of each id, so a call whose outcome is not known may be
repeated. A letter also has a kind, such as "signal", and says a mapping of names to values, which depends on the kind.

The sender does not have the claim. So whatever can be checked without it is checked here, and the rest when the letter
is taken (`reopen_run.take_mail`). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine.engine import Engine
from graphrt._engine.mail import What
from graphrt._engine.redacting import redacted_value
from graphrt._journal.leases import release_now
from graphrt._journal.letters import read, signal_id, written
from graphrt._runs.answers import answers_by_id
from graphrt._runs.entries import entries
from graphrt._runs.input_size import check_size
from graphrt._runs.labels import labels_of_head, with_more
from graphrt._runs.loading import present, the_store
from graphrt._runs.open_run import checked_update, entered, not_storable
from graphrt._runs.run_config import RunConfig
from graphrt.commands import check_signal_name
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.stores.filters import BEGINS, WAITS, MailFilter
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Head, Labels

ABANDONS, QUEUED = f"{BEGINS}abandon:", WAITS
"""Beginnings of the ids of letters with an input: one that ends the run that goes on, and one that waits for its end.

Stores do not read letters, so they tell them apart by their ids, and so does `moves`."""
LONGEST_ID: Final = 150
"""Most characters of the id of a signal."""
LOOKED: Final = 256
"""How many of the last entries are read for a signal whose id was sent before, so that a repetition stays cheap."""


def signal(config: RunConfig, thread: str, name: Any, value: Any, id: Any) -> bool:
    """Send a signal to a thread: a named value that waits until a node takes it by `ctx.receive`; see `Runtime.signal`.

    Args:
        name: What nodes receive it by, unchecked.
        value: Any value that can be stored.
        id: Chosen by the sender, so that a second signal with the same id is not kept; None makes one.

    Returns:
        Whether the signal is kept.

    Raises:
        InputError: There is no such thread, an argument is wrong, the store keeps no mail, or another signal was sent
            under *id* (`key-reused`).
        AuditError: The value could not be redacted.
    """
    store = the_store(config)
    store.require("mail")
    check_id(thread)
    check_signal_name(name)
    chosen = config.ids() if id is None else id
    if not (type(chosen) is str and 1 <= len(chosen) <= LONGEST_ID and chosen.isprintable()):
        raise INVALID_ARGUMENT(
            argument="id= of a signal", value=id, wanted=f"a str of 1 to {LONGEST_ID} printable characters, or None"
        )
    engine = _engine(config, thread)
    try:
        value = redacted_value(engine, value, "the value of a signal")
        told = {"name": name, "value": value, "user": config.user}
        kept = _post(config, store, thread, signal_id(chosen), "signal", told)
    except NotStorable as error:
        raise not_storable(engine, error, "The signal has a value") from error
    if not kept:
        codec = config.plan.codec
        before = _sent_before(config, store, thread, chosen)
        if before is not None and codec.dump([*before]) != codec.dump([name, value]):
            from graphrt.errors._codes.serving import SIGNAL_REUSED  # most programs load no errors of the server

            raise SIGNAL_REUSED(id=chosen, thread=thread)
    return kept


def _sent_before(config: RunConfig, store: Store, thread: str, id: str) -> tuple[str, Any] | None:
    """Return name and value of the signal *id*, which waits or is among the last entries; None if it is older."""
    for message in store.query(MailFilter(thread=thread)):
        if message.id == signal_id(id):
            told = read(config.plan.codec, message, thread).told
            return told["name"], told["value"]
    for entry in entries(config, thread, after=max(0, store.head(thread).seq - LOOKED)):
        if isinstance(entry.event, events.SignalReceived) and entry.event.id == id:
            return entry.event.name, entry.event.value
    return None


def ask_to_cancel(config: RunConfig, thread: str) -> bool:
    """Ask the process that drives *thread* to cancel its run; return False if nothing could be asked."""
    store = the_store(config)
    if "mail" not in store.offers:
        return False
    try:
        check_id(thread)
        release_now(store, thread)  # a claim that this process failed to release would make the thread look driven
        head = store.head(thread)
        # The epoch is the number of the owner's claim: a later run has another one, and drops the request. It is in the
        # id too, so that asking twice posts one letter.
        if head.owned:  # else it was released meanwhile, and its driver is gone
            _post(config, store, thread, f"cancel:{head.epoch}", "cancel", {"epoch": head.epoch})
    except InputError:
        return False  # it was deleted
    return head.owned


def leave_answers(config: RunConfig, thread: str, answers: Any, answer: Any) -> None:
    """Post answers to a thread that another process drives. They are checked against what is open now.

    Args:
        answers: Answers by interrupt id, or the answer to the only question; UNSET without any.
        answer: The answer to the only question; UNSET without one.

    Raises:
        InputError: As for `resume`.
    """
    store = the_store(config)
    store.require("mail")
    engine = present(config, thread).engine  # of the whole thread: the open questions are needed
    if config.redactor is not None:
        engine.redact_with(config.redactor)
    # A letter does not say what gives an answer: those that the time gives are left to the owner, who gives them too.
    given = {id_: one for id_, one in answers_by_id(engine, answers, answer, config.clock).items() if not one.by}
    if not given:
        return
    try:
        told = {id_: redacted_value(engine, one, f"the answer to {id_}") for id_, (one, _) in given.items()}
        # A new id for each call, so that the letter is kept in any case.
        _post(config, store, thread, f"answers:{config.ids()}", "answers", {"answers": told})
    except NotStorable as error:
        raise not_storable(engine, error, "An answer holds a value") from error


def leave_input(config: RunConfig, head: Head, given: Any, labels: Labels | None, *, abandon: bool) -> None:
    """Post an input to the thread of *head*: for after its run, or, with *abandon*, in place of it.

    Args:
        given: The input, unchecked. The thread exists, so it is an update of the state.
        labels: Title, tags and priority that the thread gets with it; None changes none.

    Raises:
        InputError: It does not fit as an update of the state, or cannot be stored.
    """
    store = the_store(config)
    store.require("mail")
    engine = _engine(config, head.thread)
    update = entered(config, engine, checked_update(engine, given, what="The input of a thread"), whole=False)
    if labels is not None:
        with_more(labels_of_head(head), labels)  # checks that it may have so many
    told: dict[str, Any] = {"input": dict(update), "abandon": abandon}
    if labels is not None:
        told |= {"title": labels.title, "tags": sorted(labels.tags), "priority": labels.priority}
    try:
        _post(config, store, head.thread, f"{ABANDONS if abandon else QUEUED}{config.ids()}", "input", told)
    except NotStorable as error:
        raise not_storable(engine, error, "The input holds a value") from error


def moves(store: Store, head: Head) -> bool:
    """Return whether mail makes a thread go on that no process drives.

    An input that was queued behind a run does not, until that run has completed, which may need the answer of a person.
    """
    # A thread with the status "running" is due without mail, and a failed or cancelled one first needs a `retry`.
    if head.status not in ("interrupted", "completed") or "mail" not in store.offers:
        return False
    mail = store.query(MailFilter(thread=head.thread))
    return any(head.status == "completed" or not one.id.startswith(QUEUED) for one in mail)


def has_input(store: Store, thread: str) -> bool:
    """Return whether an input waits for the thread. A completed one counts as running then."""
    if "mail" not in store.offers:
        return False
    return any(one.id.startswith(BEGINS) for one in store.query(MailFilter(thread=thread)))


def labels_of(told: Mapping[str, Any]) -> Labels | None:
    """Return the labels of a letter with an input, from what it says; None if it has none."""
    # Letters of versions without priorities may still wait, hence the default.
    return Labels(told["title"], frozenset(told["tags"]), told.get("priority", 0)) if "tags" in told else None


def _engine(config: RunConfig, thread: str) -> Engine:
    """Return an engine that checks and redacts values as a run on *thread* does, without loading the thread.

    By `listen` it gets the codec. An engine without one takes values that no store keeps, as in a run without a store.
    """
    engine = Engine(config.plan, config.limits, thread=thread)
    engine.listen(config.plan.codec)
    if config.redactor is not None:
        engine.redact_with(config.redactor)
    return engine


def _post(config: RunConfig, store: Store, thread: str, id: str, what: What, told: dict[str, Any]) -> bool:
    """Post a letter of the kind *what* that says *told*; return False if the thread had a letter with this id before.

    Raises:
        NotStorable: A value in *told* cannot be stored, or the letter is larger than `max_input_bytes`.
    """
    body = written(config.plan.codec, what, told)
    check_size(config.limits, len(body))
    return store.post(thread, id, body)
