"""`reexecute`: repeats the runs of a thread from its log, and compares the result with the log entry by entry.

The *log* is the list of the thread's journal entries; a place in it is an index from 0. The thread's runs, answers and
edits become calls of the same verbs on a new in-memory thread. Inputs, people's answers, model replies, results of
tools and effects, the seed and the commit times come from the log (`recordings`). A sink receives each committed entry
and compares it with the next one of the log. The first difference ends the execution.

Work that began elsewhere cannot be re-executed. Entries up to a fork, a migration or the remainder of a prune are
*taken over*, that is, copied. An entry with a path belongs to a nested graph, which runs as part of the top graph's
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Final, final

from graphrt import events
from graphrt._engine.engine import Engine
from graphrt._engine.erased_values import erased_in
from graphrt._plan.state import Recorded
from graphrt._runs import mail, reopen_run, run_to_end, state_edits
from graphrt._runs.answers import Given
from graphrt._runs.deep_equal import alike
from graphrt._runs.entries import entries, staged_rows
from graphrt._runs.entry_differences import bare, in_words, local, node_of
from graphrt._runs.if_exists import IfExists
from graphrt._runs.inspection import state
from graphrt._runs.kept_states import KeptStates
from graphrt._runs.loading import the_store
from graphrt._runs.queued_again import reported_again
from graphrt._runs.recordings import Recordings
from graphrt._runs.run_config import ActiveRuns, RunConfig
from graphrt._runs.run_to_end import drive
from graphrt.audit._reexecution import Reexecution
from graphrt.commands import END, UNSET, Send
from graphrt.errors import GraphrtError, StoreError
from graphrt.events import Entry
from graphrt.events.status import Status
from graphrt.stores.memory import MemoryStore
from graphrt.stores.protocol import Store
from graphrt.stores.tenants import TenantStore
from graphrt.stores.values import Head, Record

_STARTS: Final = (events.RunStarted, events.RunResumed)
_ENDS: Final = (events.RunInterrupted, events.RunCompleted, events.RunFailed, events.RunCancelled)
_PASSED: Final = (
    events.RunResumed, events.RunHandedOver, events.HistoryPruned, events.OutcomeDropped, events.ReplyStopped,
    events.ThreadCopied, events.ThreadLabelled, events.LetterDropped,
)  # fmt: skip
"""Events unrelated to computed values: a process ended, a reply was cut off, a letter came too late, or the thread was
pruned, copied or labelled."""
_TAKEN: Final = (events.ThreadForked, events.ThreadMigrated)
"""Events that import results of another thread or another graph."""
_FROM_OUTSIDE: Final = frozenset({"DeadlineError"})
"""Run errors that depend on the speed of the machine and so cannot be reproduced."""
_ANSWERS: Final = (
    events.EffectStarted, events.EffectRecorded, events.ModelReplied, events.UsageRecorded,
    events.BudgetHeld, events.BudgetReleased,
)  # fmt: skip
"""The inputs of a task, in the order of its requests. For concurrent calls, timing decides the order."""
_OF_OTHER_COMMITS: Final = (
    *_STARTS, *_ENDS, events.InterruptAnswered, events.SuperstepCommitted, events.TasksRouted, events.ThreadUpdated,
)  # fmt: skip
"""Events of the top graph that never precede a `SuperstepAbandoned` in the same commit."""
_STOPPED: Final = "the second execution ends here"
"""Reason for which the second execution cancels its run at the end of the log or at the first difference."""


@dataclass(frozen=True, slots=True)
class _Verb:
    """A user's call, as recorded in the log. *make* repeats it with the configuration of the second execution."""

    at: int
    """Place of its first entry in the log."""
    make: Callable[[RunConfig], Any]
    seed: int | None = None
    """Seed of the run that it begins; None if it begins none."""


def reexecute(config: RunConfig, thread: str) -> Reexecution:
    """Execute the runs of *thread* again; see `Runtime.reexecute`."""
    log = list(entries(config, thread))
    store = the_store(config)
    last_taken_over = _taken_over(store, thread, log)
    tenant = getattr(store, "tenant", None)
    with MemoryStore() as shared:
        memory: Store = (
            shared if tenant is None else TenantStore(shared, tenant)
        )  # so that tenant-qualified ids are the same
        status: Status = state(config, thread, last_taken_over).status if last_taken_over else "new"
        if last_taken_over:
            _copy(store, memory, thread, last_taken_over, status=status)
        rest = [entry for entry in log if entry.seq > last_taken_over]
        staged = [event for _, row_events in staged_rows(config, store.load(thread)) for event in row_events]
        second = _Second(config, memory, thread, rest, last_taken_over, staged)
        for verb in _verbs(rest, thread, status):
            if second.differs or not second.repeat(verb):
                break
        return second.report(log)


def _taken_over(store: Store, thread: str, log: Sequence[Entry]) -> int:
    """Return the number of the last entry that cannot be executed (fork, migration, prune); 0 if all can be."""
    last = store.head(thread).first - 1  # what remains after a prune begins after this entry
    for entry in log:
        if not entry.path and isinstance(entry.event, _TAKEN):
            last = entry.seq
    # Only whole records can be copied.
    ends = [record.seq for record in store.records(thread) if record.seq >= last]
    return min(ends, default=last) if last else 0


def _copy(store: Store, to: Store, thread: str, upto: int, *, status: Status) -> None:
    """Write the thread up to entry *upto* into another store, without its chain, since later entries have no key."""
    from pydantic_core import to_json

    from graphrt._journal.batch_format import blob_names
    from graphrt._journal.thread_meta import read_meta
    from graphrt.stores._copying import Whole, write_thread

    loaded = store.load(thread, upto=upto)
    head = loaded.head
    records_before = [record for record in store.records(thread, after=head.first - 1, upto=upto) if record.seq <= upto]
    snapshot = store.load(thread, upto=head.first - 1).snapshot if head.first > 1 else None
    snapshots = {snapshot.seq: snapshot.body} if snapshot is not None else {}
    named = {
        name for body in (*(record.body for record in records_before), *snapshots.values()) for name in blob_names(body)
    }
    meta = {**read_meta(loaded.meta, thread), "chained": None}
    # 0: there has been no claim yet. The empty list in `Whole`: nothing is staged.
    first = Head(thread, upto, 0, status, head.graph, head.created_at, head.updated_at, owned=False, first=head.first)
    records = [Record(record.seq, record.count, record.body) for record in records_before]  # without their seals
    whole = Whole(first, to_json(meta), [], snapshots, records)
    write_thread(to, thread, lambda: whole, lambda: [store.blobs(thread, named)], made_at=head.created_at)


def _verbs(log: Sequence[Entry], thread: str, status: Status) -> Iterator[_Verb]:
    """Yield the calls that wrote the entries, in order. While a run is active, entries belong to the call before them.

    Args:
        log: The entries that are not taken over.
        thread: Id of the thread.
        status: Status of the thread before them.
    """
    begins = not log or isinstance(log[0].event, (*_STARTS, events.ThreadUpdated, events.SuperstepAbandoned))
    running = status == "running" and not begins
    retry = partial(run_to_end.retry, thread=thread)
    if running:  # a fork, migration or prune in the middle of a run
        yield _Verb(0, retry)
    if_exists: IfExists = "update"
    began = 0  # place of the first entry of the commit that abandoned a superstep
    edited = sent = -1  # places up to which edits and signals belong to a verb that was yielded
    for at, entry in enumerate(log):
        event = entry.event
        if entry.path:
            continue
        if isinstance(event, events.SuperstepAbandoned):  # belongs to the `RunStarted` that follows
            if_exists, began = "abandon", _first_given_up(log, at)
        elif isinstance(event, events.RunStarted):
            first = at if if_exists == "update" else began
            yield _Verb(first, _run(event, thread, if_exists=if_exists), event.seed)
            running, if_exists = True, "update"
        elif isinstance(event, events.RunResumed) and not running:  # else a crash cut the run off, which continues here
            again = _resume(thread, _answers(log, at, thread)) if event.verb == "resume" else retry
            # It may instead have taken the outcomes of tasks that queue workers ran.
            yield _Verb(at, reported_again(log[at + 1 :], thread) or again)
            running = True
        elif isinstance(event, events.SignalReceived) and not running and at > sent:
            signals = [
                later.event
                for later in takewhile(lambda later: isinstance(later.event, events.SignalReceived), log[at:])
            ]
            sent = at + len(signals)
            yield _Verb(at, _signal(thread, signals))
            running = sent < len(log) and isinstance(log[sent].event, events.RunResumed)
        elif isinstance(event, events.RunCancelled) and not running:
            yield _Verb(at, partial(state_edits.cancel, thread=thread))
        elif isinstance(event, events.ThreadUpdated) and at > edited:
            edits = [later.event for later in _of_one_commit(log, at) if isinstance(later.event, events.ThreadUpdated)]
            edited = at + len(edits) - 1
            yield _Verb(at, _update(thread, edits))
        elif isinstance(event, _ENDS):
            running = False


def _first_given_up(log: Sequence[Entry], at: int) -> int:
    """Return the place of the first entry of the commit with the `SuperstepAbandoned` at *at*: what its tasks did."""
    commit = log[at]
    while at and ((before := log[at - 1]).run, before.at) == (commit.run, commit.at):
        if not before.path and isinstance(before.event, _OF_OTHER_COMMITS):  # of a run with the same id
            break
        at -= 1
    return at


def _of_one_commit(log: Sequence[Entry], at: int) -> list[Entry]:
    """Return the entries from *at* on that have its time and cause, as those of one commit do."""
    first = log[at]
    commit_entries: list[Entry] = []
    for entry in log[at:]:
        if (entry.at, entry.cause) != (first.at, first.cause) or type(entry.event) is not type(first.event):
            break
        commit_entries.append(entry)
    return commit_entries


def _answers(log: Sequence[Entry], at: int, thread: str) -> dict[str, Given]:
    """Return the answers after the `RunResumed` at *at*, by ids of this thread; entries of a copy name its source."""
    answers: dict[str, Given] = {}
    for entry in log[at + 1 :]:
        if not isinstance(entry.event, events.InterruptAnswered) or entry.path:
            break
        answers[f"{thread}/{local(entry.event.id)}"] = Given(entry.event.answer, entry.event.by)
    return answers


def _run(event: events.RunStarted, thread: str, *, if_exists: IfExists) -> Callable[[RunConfig], Any]:
    """Return the call that started a run on an input."""

    def run(config: RunConfig) -> Any:
        update = config.plan.update
        whole_update = update.whole is not None and not event.fresh  # one value, which a reducer of the state takes
        input_: Any = update.returned(event.input) if whole_update else Recorded(event.input)
        return run_to_end.run(config, input_, thread, if_exists=if_exists)

    return run


def _resume(thread: str, answers: dict[str, Given]) -> Callable[[RunConfig], Any]:
    """Return the call that answered questions. Answers of the clock are given regardless of the current time."""

    def of_log(engine: Engine, *, failed: bool, reported: bool) -> dict[str, Given]:  # noqa: ARG001 - of `Prepare`
        """Return the answers, whatever the thread's state; `continued` requests them after loading the thread."""
        return answers

    if any(answer.by for answer in answers.values()):  # not a person: a timer, a default, or the end of a child
        return lambda config: drive(reopen_run.continued(config, thread, "resume", of_log))
    by_id = {id_: answer.answer for id_, answer in answers.items()}
    return lambda config: run_to_end.resume(config, thread, by_id, UNSET)


def _signal(thread: str, signals: Sequence[Any]) -> Callable[[RunConfig], Any]:
    """Return the calls that sent *signals*, took them, and drove the thread if a task had waited for one."""

    def send(config: RunConfig) -> Any:
        for event in signals:
            mail.signal(config, thread, event.name, event.value, event.id)
        reopen_run.take_mail(config, thread)
        if the_store(config).head(thread).status == "running":
            run_to_end.retry(config, thread)

    return send


def _update(thread: str, edits: Sequence[events.ThreadUpdated]) -> Callable[[RunConfig], Any]:
    """Return the call of `update` with *edits*, which were committed together."""

    def goto(event: events.ThreadUpdated) -> list[Any] | None:
        """Return the `goto=` of an edit: names, END and Sends; None if the edges of its node applied."""
        if event.goto is None:
            return None
        plain = [END if name == "END" else name for name in event.goto]
        return [Send(event.goto[at], event.sends[at]) if at in event.sends else plain[at] for at in range(len(plain))]

    def made(config: RunConfig) -> list[state_edits.Edit]:
        """Return the edits in the form `update` takes; an edit that created a thread has the whole state as values."""
        updates = config.plan.update
        return [
            (event.values if event.fresh else updates.returned(event.values), event.as_node, goto(event))
            for event in edits
        ]

    return lambda config: state_edits.update(config, thread, made(config))


@final
class _Second:
    """A second execution of *log*, the entries after *begun*, in *store*; tracks how far it agrees with the log.

    For *staged* see `Recordings`.
    """

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        thread: str,
        log: Sequence[Entry],
        last_taken_over: int,
        staged: Iterable[events.Event],
    ) -> None:
        self._thread, self._log, self._begun = thread, list(log), last_taken_over
        self.recorded = Recordings(log, staged)
        self._at = 0
        """Place in the log of the next entry to repeat."""
        self._same = 0
        """Number of entries that were compared and are the same."""
        # The first difference: a sentence (empty while there is none), the entry that was got, the fields that differ.
        self._why = ""
        self._got: Entry | None = None
        self._fields: tuple[str, ...] = ()
        self._config = config._replace(
            store=store,
            chain=False,  # there is no key to seal entries with
            audit=None,  # the log file is not rewritten
            recorded=self.recorded,  # answers model calls and effects
            clock=lambda: self._present.at,
            ids=lambda: self._present.run,
            sleep=_no_wait,
            sinks=(self._compare,),
            active=ActiveRuns(),  # a separate one, so that `_stop` ends no other run of the thread
            kept=KeptStates(),
            migrations=(),  # the last one was taken over
        )
        self.recorded.post = lambda event: mail.signal(self._config, thread, event.name, event.value, event.id)
        self._skip()

    @property
    def differs(self) -> bool:
        """Whether the second execution has diverged from the first."""
        return bool(self._why)

    @property
    def _next(self) -> Entry | None:
        """The entry of the log that is to be repeated next; None at its end."""
        return self._log[self._at] if self._at < len(self._log) else None

    @property
    def _present(self) -> Entry:
        """The entry that gives the second execution its time and the ids of its runs: the next one, or the last."""
        return self._next or self._log[-1]

    def repeat(self, verb: _Verb) -> bool:
        """Make the call of *verb*; return whether the log continues after it.

        Raises:
            KeyboardInterrupt: The user stopped it.
        """
        if verb.at > self._at and any(
            not isinstance(skipped.event, _PASSED) for skipped in self._log[self._at : verb.at]
        ):
            self._differ("the log continues, and the second execution has ended", None)
            return False
        config = self._config if verb.seed is None else self._config._replace(seed=verb.seed)
        before = self._same
        try:
            verb.make(config)
        except Exception as error:  # noqa: BLE001 - a run that fails again is compared by its entries, like any other
            if not self.differs and self._same == before and self._next is not None:  # raised before any entry
                reason = error.what if isinstance(error, GraphrtError) else str(error)
                if _is_erased(self._next.event):
                    reason = "values that it was given were erased from the log"
                elif isinstance(error, StoreError) and self._begun:  # the copy in memory has no staged outcomes
                    reason = (
                        f"a superstep was open after entry {self._begun}, which was taken over, and what its tasks had "
                        "done by then is in no entry"
                    )
                self._differ(f"the call is refused now: {reason}", None)
        return self._next is not None

    def _skip(self) -> None:
        """Continue to the next entry that is compared, and end the run where only an outside event ended it."""
        while (entry := self._next) is not None and (isinstance(entry.event, _PASSED) or _from_outside(entry)):
            if _from_outside(entry):
                self._stop()
            self._at += 1
        self.recorded.at = self._at  # it takes failures before this place as those of earlier attempts
        if entry is None:
            self._stop()  # the log ends here, perhaps in the middle of a run
        elif isinstance(entry.event, events.RunCancelled) and not entry.path:  # it was cancelled from outside here
            self._config.active.cancel(self._thread, entry.event.reason)

    def _stop(self) -> None:
        """End the run of the second execution, if one is active."""
        self._config.active.cancel(self._thread, _STOPPED)

    def _compare(self, actual: Entry) -> None:
        """Compare a newly committed entry with the next one of the log."""
        stopped = isinstance(actual.event, events.RunCancelled) and actual.event.reason == _STOPPED  # by `_stop`
        if self.differs or stopped or isinstance(actual.event, _PASSED):
            return
        if isinstance(actual.event, events.SuperstepAbandoned):
            # Skip what the tasks of a cancelled run had done by then.
            places = range(self._at, len(self._log))
            given_up = next((at for at in places if isinstance(self._log[at].event, events.SuperstepAbandoned)), None)
            if given_up is not None and _first_given_up(self._log, given_up) <= self._at:
                self._at = given_up
        expected = self._next
        if expected is None:
            return
        expected_fields, actual_fields = bare(expected), bare(actual)  # the fields that must be the same
        if alike(expected_fields, actual_fields) or self._beside(expected, actual_fields):
            self._at += 1
            self._same += 1
            self._skip()
            return
        self._fields = tuple(
            sorted(
                name
                for name in {*expected_fields, *actual_fields}
                if not alike(expected_fields.get(name), actual_fields.get(name))
            )
        )
        self._differ(in_words(expected, actual, self._fields), actual)

    def _beside(self, expected: Entry, actual_fields: dict[str, Any]) -> bool:
        """Return whether the log has *actual_fields* among the same task's answers, whose order depends on timing."""
        if not isinstance(expected.event, _ANSWERS):
            return False
        for at in range(self._at + 1, len(self._log)):
            entry = self._log[at]
            if not isinstance(entry.event, _ANSWERS) or entry.event.task != expected.event.task:
                return False
            if alike(bare(entry), actual_fields):
                self._log[self._at], self._log[at] = entry, expected  # *expected* may follow later
                return True
        return False

    def _differ(self, reason: str, actual: Entry | None) -> None:
        """Record the first difference and end the run. A call missing from the log explains it better than *reason*."""
        unanswered = self.recorded.unanswered[0] if self.recorded.unanswered else None
        if unanswered is not None:
            reason = f"node {unanswered.node!r} asks {unanswered.asked} now, and {unanswered.known}."
        self._why, self._got = f"{reason.rstrip('.')}.", actual
        self._stop()

    def report(self, log: Sequence[Entry]) -> Reexecution:
        """Return the findings; *log* has all entries, including those taken over."""
        if not self.differs and self._next is not None:
            self._differ("the log continues, and the second execution has ended", None)
        expected = self._next if self.differs else None
        graph = self._config.graph
        prints = {entry.event.fingerprint for entry in log if isinstance(entry.event, events.RunStarted)}
        changed = bool(prints) and graph.fingerprint not in prints
        unanswered = self.recorded.unanswered[0] if self.recorded.unanswered else None
        change = f"The graph {graph.__graphrt_plan__.name!r} has another fingerprint than the log."
        return Reexecution(
            thread=self._thread,
            same=not self.differs,
            entries=self._same,
            begun=self._begun,
            seq=expected.seq if expected is not None else None,
            node=unanswered.node if unanswered is not None and self.differs else node_of(expected, self._got),
            expected=expected,
            got=self._got,
            fields=self._fields,
            why=self._why,
            unanswered=tuple(self.recorded.unanswered),
            requests=self.recorded.requests,
            changes=(change,) if changed else (),
        )


def _no_wait(_seconds: float) -> None:
    """Replace the waits before retries."""


def _from_outside(entry: Entry) -> bool:
    """Return whether *entry* records that the run failed with an error in `_FROM_OUTSIDE`."""
    return isinstance(entry.event, events.RunFailed) and not entry.path and entry.event.error in _FROM_OUTSIDE


def _is_erased(event: Any) -> bool:
    """Return whether values from the caller in *event* were erased."""
    values: Mapping[str, Any] = getattr(event, "input", None) or getattr(event, "values", None) or {}
    answer: Any = getattr(event, "answer", None)
    return erased_in(answer) or any(map(erased_in, values.values()))
