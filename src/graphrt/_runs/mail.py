"""Posts mail to a thread that another process may drive, after checking it.

A letter (rule R22) has an id, and the store keeps only one letter per id, so a call with an unknown outcome can be
repeated safely. A letter also has a kind, such as "signal", and a mapping of names to values that depends on the kind.

The sender does not have the claim. So this module checks everything that can be checked without it; the rest is checked
when the letter is taken (`reopen_run.take_mail`). For the terms, see docs/glossary.md.
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
from graphrt._runs.arguments import check_size
from graphrt._runs.entries import entries
from graphrt._runs.labels import labels_of_head, with_more
from graphrt._runs.loading import present, the_store
from graphrt._runs.open_run import checked_update, entered, not_storable
from graphrt._runs.run_config import RunConfig
from graphrt.commands import check_signal_name
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.threads import ANSWER_WAITS
from graphrt.stores.filters import BEGINS, WAITS, MailFilter
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Head, Labels

ABANDONS, QUEUED = f"{BEGINS}abandon:", WAITS
"""Id prefixes of letters with an input: for one that ends the active run, and for one that waits for its end.

Stores do not read letters, so they distinguish them by their ids, and so does `moves`."""
_ANSWERS: Final = "answers:"
"""Id prefix of letters with answers."""
LONGEST_ID: Final = 150
"""Maximum length of a signal id in characters."""
LOOKED: Final = 256
"""Number of recent entries that are searched for a signal whose id was sent before. It is limited to keep a repetition
cheap."""


def signal(config: RunConfig, thread: str, name: Any, value: Any, id: Any) -> bool:
    """Send a signal to a thread: a named value that waits until a node takes it by `ctx.receive`; see `Runtime.signal`.

    Args:
        name: What nodes receive it by, unchecked.
        value: Any value that can be stored.
        id: Chosen by the sender, so that a second signal with the same id is dropped; None generates one.

    Returns:
        Whether the signal was kept.

    Raises:
        InputError: There is no such thread, an argument is wrong, the store keeps no mail, or another signal was sent
            under *id* (`key-reused`).
        AuditError: The value could not be redacted.
    """
    store = the_store(config)
    store.require("mail")
    check_id(thread)
    check_signal_name(name)
    id_ = config.ids() if id is None else id
    if not (type(id_) is str and 1 <= len(id_) <= LONGEST_ID and id_.isprintable()):
        raise INVALID_ARGUMENT(
            argument="id= of a signal", value=id, wanted=f"a str of 1 to {LONGEST_ID} printable characters, or None"
        )
    engine = _engine(config, thread)
    try:
        value = redacted_value(engine, value, "the value of a signal")
        content = {"name": name, "value": value, "user": config.user}
        is_new = _post(config, store, thread, signal_id(id_), "signal", content)
    except NotStorable as error:
        raise not_storable(engine, error, "The signal has a value") from error
    if not is_new:
        codec = config.plan.codec
        before = _sent_before(config, store, thread, id_)
        if before is not None and codec.dump([*before]) != codec.dump([name, value]):
            from graphrt.errors._codes.serving import KEY_REUSED  # most programs load no errors of the server

            raise KEY_REUSED(key=f"The id {id_!r} of a signal", thread=thread)
    return is_new


def _sent_before(config: RunConfig, store: Store, thread: str, id: str) -> tuple[str, Any] | None:
    """Return the name and value of the signal *id* if it waits or is among the recent entries; None if it is older."""
    for message in store.query(MailFilter(thread=thread)):
        if message.id == signal_id(id):
            content = read(config.plan.codec, message, thread).content
            return content["name"], content["value"]
    for entry in entries(config, thread, after=max(0, store.head(thread).seq - LOOKED)):
        if isinstance(entry.event, events.SignalReceived) and entry.event.id == id:
            return entry.event.name, entry.event.value
    return None


def ask_to_cancel(config: RunConfig, thread: str) -> bool:
    """Ask the process that drives *thread* to cancel its run; return False if there is no such process."""
    store = the_store(config)
    if "mail" not in store.offers:
        return False
    try:
        check_id(thread)
        release_now(store, thread)  # a claim that this process failed to release would make the thread look driven
        head = store.head(thread)
        # The epoch is the number of the owner's claim: a later run has a different one and drops the request. The epoch
        # is also in the id, so that asking twice posts only one letter.
        if head.owned:  # else it was released meanwhile, and its driver is gone
            _post(config, store, thread, f"cancel:{head.epoch}", "cancel", {"epoch": head.epoch})
    except InputError:
        return False  # it was deleted
    return head.owned


def leave_answers(config: RunConfig, thread: str, answers: Any, answer: Any) -> None:
    """Post answers to a thread that another process drives. They are checked against the questions that are open now.

    The first answer to a question counts, so an answer is also checked against those that wait in the mail. The same
    answer is posted once. Two processes that post different answers at the same moment do not see each other's: then
    the entry of the dropped letter is the only trace of the later one.

    Args:
        answers: Answers by interrupt id, or the answer to the only question; UNSET without any.
        answer: The answer to the only question; UNSET without one.

    Raises:
        InputError: As for `resume`; or another answer to a question waits (`unknown-interrupt`). Nothing was posted.
    """
    store = the_store(config)
    store.require("mail")
    # Before the thread is read: a commit that takes a letter also answers its questions.
    waiting = _waiting_answers(config, store, thread)
    engine = present(config, thread).engine  # fold the whole thread, since the open questions are needed
    if config.redactor is not None:
        engine.redact_with(config.redactor)
    # A letter does not name the source of an answer. Answers of the clock are left to the owner, who computes them too.
    by_id = {
        id_: answer_given
        for id_, answer_given in answers_by_id(engine, answers, answer, config.clock).items()
        if not answer_given.by
    }
    if not by_id:
        return
    try:
        content = {id_: redacted_value(engine, value, f"the answer to {id_}") for id_, (value, _) in by_id.items()}
        dump = config.plan.codec.dump
        for id_ in [id_ for id_ in content if id_ in waiting]:
            if dump([content.pop(id_)]) != dump([waiting[id_]]):
                raise ANSWER_WAITS(interrupt=id_, thread=thread, interrupts=(id_,), where=engine.where())
        if content:
            # A new id for each call, so that the letter is kept in any case.
            _post(config, store, thread, f"{_ANSWERS}{config.ids()}", "answers", {"answers": content})
    except NotStorable as error:
        raise not_storable(engine, error, "An answer holds a value") from error


def has_answers(store: Store, thread: str) -> bool:
    """Return whether answers wait in the mail of the thread."""
    return any(letter.id.startswith(_ANSWERS) for letter in store.query(MailFilter(thread=thread)))


def _waiting_answers(config: RunConfig, store: Store, thread: str) -> dict[str, Any]:
    """Return the answers in the mail of the thread, by interrupt id; of several, the one that was posted first."""
    waiting: dict[str, Any] = {}
    for message in store.query(MailFilter(thread=thread)):
        if message.id.startswith(_ANSWERS):
            waiting = read(config.plan.codec, message, thread).content["answers"] | waiting
    return waiting


def leave_input(config: RunConfig, head: Head, input_: Any, labels: Labels | None, *, abandon: bool) -> None:
    """Post an input to the thread of *head*, to run after the current run or, with *abandon*, in place of it.

    Args:
        input_: The input, unchecked. The thread exists, so it is an update of the state.
        labels: Title, tags and priority that the thread gets with it; None changes none.

    Raises:
        InputError: It does not fit as an update of the state, or cannot be stored.
    """
    store = the_store(config)
    store.require("mail")
    engine = _engine(config, head.thread)
    update = entered(config, engine, checked_update(engine, input_, what="The input of a thread"), whole=False)
    if labels is not None:
        with_more(labels_of_head(head), labels)  # checks that it may have so many
    content: dict[str, Any] = {"input": dict(update), "abandon": abandon}
    if labels is not None:
        content |= {"title": labels.title, "tags": sorted(labels.tags), "priority": labels.priority}
    try:
        _post(config, store, head.thread, f"{ABANDONS if abandon else QUEUED}{config.ids()}", "input", content)
    except NotStorable as error:
        raise not_storable(engine, error, "The input holds a value") from error


def moves(store: Store, head: Head) -> bool:
    """Return whether mail makes a thread that no process drives continue.

    An input queued behind a run does not until that run has completed, which may need a person's answer.
    """
    # A thread with the status "running" is due even without mail; a failed or cancelled one first needs a `retry`.
    if head.status not in ("interrupted", "completed") or "mail" not in store.offers:
        return False
    mail = store.query(MailFilter(thread=head.thread))
    return any(head.status == "completed" or not letter.id.startswith(QUEUED) for letter in mail)


def has_input(store: Store, thread: str) -> bool:
    """Return whether an input waits for the thread. If so, a completed thread counts as running."""
    if "mail" not in store.offers:
        return False
    return any(letter.id.startswith(BEGINS) for letter in store.query(MailFilter(thread=thread)))


def labels_of(content: Mapping[str, Any]) -> Labels | None:
    """Return the labels of a letter with an input, from its content; None if it has none."""
    # Letters of versions without priorities may still wait, hence the default.
    return (
        Labels(content["title"], frozenset(content["tags"]), content.get("priority", 0)) if "tags" in content else None
    )


def _engine(config: RunConfig, thread: str) -> Engine:
    """Return an engine that checks and redacts values as a run on *thread* does, without loading the thread.

    `listen` gives it the codec. An engine without a codec accepts values that cannot be stored, as in a run without a
    store.
    """
    engine = Engine(config.plan, config.limits, thread=thread)
    engine.listen(config.plan.codec)
    if config.redactor is not None:
        engine.redact_with(config.redactor)
    return engine


def _post(config: RunConfig, store: Store, thread: str, id: str, what: What, content: dict[str, Any]) -> bool:
    """Post a letter of the kind *what*; return False if the thread already had a letter with this id.

    Raises:
        NotStorable: A value in *content* cannot be stored, or the letter is larger than `max_input_bytes`.
    """
    body = written(config.plan.codec, what, content)
    check_size(config.limits, len(body))
    return store.post(thread, id, body)
