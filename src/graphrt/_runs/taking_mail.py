"""Taking the mail of a thread that no process drives (rule R22): it is cancelled, answered, or begins its next run.

A letter has a place and a kind (`what`): "cancel", "signal", "answers", "input" (a new run), "ended" (the end of a
child thread) or "task" (the report of a worker of a queue). `told` is what it says, by name. `drop` notes that a letter
changes nothing. `take_letters` lets signals, answers and ends of children act, and returns their places.

Each step claims the thread, writes what the mail did and deletes it in one commit, and releases the thread again. If it
can go on then, it has the status "running", as a thread that was started and left. The caller, `Runtime.drive`, drives
it next. Mail that comes while a run goes on is taken by that run (`_flows.mail`). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.mail import Letter, deliver, drop, take_letters
from graphrt._engine.open_interrupt import TASK
from graphrt._journal.leases import give_back, take
from graphrt._journal.letters import read
from graphrt._journal.thread_commits import ThreadCommits
from graphrt._runs import open_run
from graphrt._runs.active_run import reason_of
from graphrt._runs.forking import journal_of
from graphrt._runs.loading import check_build, present, the_store
from graphrt._runs.mail import labels_of
from graphrt._runs.run_config import RunConfig
from graphrt.errors import GraphrtError, InputError
from graphrt.errors._codes.threads import NOT_DUE
from graphrt.limits import Limits
from graphrt.stores.filters import MailFilter
from graphrt.stores.ids import shared_id
from graphrt.stores.protocol import Claim, Status, Store

Work: TypeAlias = Callable[[Engine, Sequence[Letter], Status], list[int]]
"""Notes in the engine's log what letters do to a thread of the given status, and returns the places of those that are
taken. It gets all letters that wait; one that it does not take stays."""
_NOT_THE_INPUT = frozenset({"not-due", "wrong-verb", "unknown-thread", "incompatible-graph"})
"""Codes of errors of a new run that are not the fault of its input, so that the letter stays."""


def take_mail(config: RunConfig, thread: str) -> bool:
    """Take the mail of *thread* as far as its status allows, and return whether any was taken.

    Raises:
        ConflictError: Another process has the thread, and takes its mail.
        InputError, StoreError: As `Runtime.retry`.
    """
    store = the_store(config)
    if "mail" not in store.offers:
        return False
    took = False
    while letters := _waiting(config, store, thread):
        status = store.head(thread).status
        if status in ("running", "interrupted"):  # what is reported of tasks is taken by the drive that follows
            letters = [one for one in letters if one.what != "task"]
        given = next((one for one in letters if one.what == "input"), None)
        # *abandon*: the letter wants the present run to be given up. Another input waits until that run has ended.
        begins = given is not None and (status in ("completed", "cancelled") or given.told["abandon"])
        # Before a new run: signals that came before it, and requests to cancel a run that has ended, are taken first.
        if any(one.what != "input" for one in letters):
            if not _take(config, store, thread):
                break
            took = True
        elif given is not None and begins:
            return _begin(config, store, thread, given) or took
        else:
            break  # inputs that wait for the end of the run
    return took


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
        if all(one.place != letter.place for one in store.query(MailFilter(thread=thread))):
            raise NOT_DUE(thread=thread, status=claim.head.status)

    # Its sender has checked the size of the input, by the limits of its own process.
    checked = config._replace(limits=Limits(max_input_bytes=None).over(config.limits))
    try:
        opened = open_run.begin(
            checked,
            letter.told["input"],
            thread,
            if_exists="abandon" if letter.told["abandon"] else "update",
            labels=labels_of(letter.told),
            admit=admit,
        )
    except GraphrtError as error:
        if error.code in _NOT_THE_INPUT or not isinstance(error, InputError):
            raise
        return _drop_input(config, store, thread, letter, error)
    try:
        opened.hand_over(taken=(letter.place,))
    except BaseException as error:
        opened.broke(error)
        raise
    return True


def _drop_input(config: RunConfig, store: Store, thread: str, letter: Letter, error: GraphrtError) -> bool:
    """Drop the input of *letter*, which is at fault by *error*; return False if it was taken meanwhile."""

    def dropped(engine: Engine, letters: Sequence[Letter], _status: Status) -> list[int]:
        """Note that the letter changes nothing; implements `Work`."""
        if all(one.place != letter.place for one in letters):  # another worker has taken it meanwhile
            return []
        drop(engine, letter, error.what)
        return [letter.place]

    return _edit(config, store, thread, dropped)


def _take(config: RunConfig, store: Store, thread: str) -> bool:
    """Take all letters but new inputs; return False if there are none.

    The end of a child is not taken while the thread is "running": its tasks look at their children by themselves.
    """

    def taken(engine: Engine, letters: Sequence[Letter], status: Status) -> list[int]:
        """Cancel the thread if a letter asks for it, else let signals, answers and ends of children act; see `Work`."""
        cancels = [letter for letter in letters if letter.what == "cancel"]
        if cancels and status in ("running", "interrupted"):
            # Signals are kept for a node that takes them after a retry. Other letters wait.
            places = take_letters(engine, (letter for letter in letters if letter.what == "signal"))
            emit_events.cancelled(engine, reason_of(cancels[0]))
            return [*places, *(letter.place for letter in cancels)]
        for letter in cancels:
            # The epoch names the claim that the request was about. None: a parent thread was cancelled, which could not
            # know that its child had ended. Such a request goes without an entry.
            if letter.told["epoch"] is not None:
                drop(engine, letter, "the run had ended")
        # A completed thread needs no report of a task. At any other status it stays for the drive that goes on.
        reports = [letter for letter in letters if letter.what == "task" and status == "completed"]
        for letter in reports:
            drop(engine, letter, "the run had ended")
        # Which task waits for a child must be known first. A task that a queue still runs may be the one.
        hears = status != "running" and not any(one.kind == TASK for one in engine.open_interrupts())
        others = [letter for letter in letters if letter.what != "ended" or hears]
        return [*(letter.place for letter in (*cancels, *reports)), *take_letters(engine, others)]

    return _edit(config, store, thread, taken)


def _edit(config: RunConfig, store: Store, thread: str, work: Work) -> bool:
    """Claim the thread, let *work* note what its mail does, and write that; return False if nothing was taken.

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
        if not logged:  # the letters changed nothing that has an entry: they are deleted, and the thread is released
            commits.settle(fold.seq, places)
            return True
        if status == "interrupted" and any(event.__class__ in _ANSWERS for _, event in logged):
            logged = _as_resumption(config, thread, logged)
        journal.write(logged, release=True, taken=places)
    finally:
        give_back(store, claim)
    return True


_ANSWERS = (events.SignalTaken, events.InterruptAnswered)
"""Events after which a task that waited is due."""


def _as_resumption(config: RunConfig, thread: str, logged: Sequence[Logged]) -> list[Logged]:
    """Return *logged* as a run that resumes the thread and is handed over at once, so that the thread is "running".

    The run begins right before the first answer. What was noted before it, such as a received signal, precedes the run.
    """
    at = next(n for n, (_, event) in enumerate(logged) if event.__class__ in _ANSWERS)
    known_as = shared_id(config.store, thread)
    begun = events.RunResumed(verb="resume", thread=known_as, user=config.user, redaction=config.redaction)
    left = events.RunHandedOver(reason="mail was taken")
    return [*logged[:at], ("", begun), *logged[at:], ("", left)]
