"""`reexecute`: the runs of a thread, made again with what its log has, and compared with it entry by entry.

The thread's runs, answers and edits become calls of the same verbs on a new thread in memory. Inputs, answers of
persons, replies of models, results of tools and effects, the seed and the times of commits come from the log
(`recordings`). A sink compares each entry as it is committed. The first one that differs ends the execution.

What began elsewhere cannot be executed: entries up to a fork, a migration, or what a prune left are taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, final

from graphrt import events
from graphrt._engine.engine import Engine
from graphrt._runs import mail, reopen_run, run_to_end, state_edits, taking_mail
from graphrt._runs.deep_equal import alike
from graphrt._runs.driving import drive
from graphrt._runs.entries import entries
from graphrt._runs.entry_differences import bare, in_words, local, node_of
from graphrt._runs.loading import the_store
from graphrt._runs.queued_again import reported_again
from graphrt._runs.recordings import Recordings
from graphrt._runs.run_config import ActiveRuns, RunConfig
from graphrt._runs.timers import Given
from graphrt.audit._reexecution import Reexecution
from graphrt.commands import END, UNSET, Send
from graphrt.errors import GraphrtError
from graphrt.events import Entry
from graphrt.stores.memory import MemoryStore
from graphrt.stores.protocol import Head, Record, Store

_STARTS: Final = (events.RunStarted, events.RunResumed)
_ENDS: Final = (events.RunInterrupted, events.RunCompleted, events.RunFailed, events.RunCancelled)
_PASSED: Final = (events.RunResumed, events.RunHandedOver, events.HistoryPruned, events.OutcomeDropped)
"""Events that say where a process ended or what was tidied, and nothing about what was computed."""
_TAKEN: Final = (events.ThreadForked, events.ThreadMigrated)
"""Events that bring in what another thread, or another graph, had computed."""
_FROM_OUTSIDE: Final = frozenset({"DeadlineError"})
"""Errors of runs that depend on how fast a machine is, and so cannot be repeated."""
_ANSWERS: Final = (
    events.EffectStarted,
    events.EffectRecorded,
    events.ModelReplied,
    events.UsageRecorded,
    events.BudgetHeld,
    events.BudgetReleased,
)
"""What a task was told, in the order in which it asked. Where it asks side by side, timing decides the order."""
_STOPPED: Final = "the second execution ends here"


@dataclass(frozen=True, slots=True)
class _Verb:
    """A call that a user made, as the log tells it."""

    at: int
    """Place of its first entry in the log."""
    make: Callable[[RunConfig], Any]
    seed: int | None = None


def reexecute(config: RunConfig, thread: str) -> Reexecution:
    """Execute the runs of *thread* again; see `Runtime.reexecute`."""
    log = list(entries(config, thread))
    store = the_store(config)
    begun = _taken_over(store, thread, log)
    objects = begun and any(one.body.__class__ is not bytes for one in store.records(thread, upto=begun))
    with MemoryStore() if objects else _Bytes() as memory:
        if begun:
            _copy(store, memory, thread, begun, status=_status(log, begun))
        rest = [entry for entry in log if entry.seq > begun]
        second = _Second(config, memory, thread, rest, begun)
        for verb in _verbs(rest, thread):
            if second.differs or not second.repeat(verb):
                break
        return second.report(log)


def _taken_over(store: Store, thread: str, log: Sequence[Entry]) -> int:
    """Return the last entry that cannot be executed: that of a fork, a migration or a prune; 0 if all can be."""
    begun = store.head(thread).first - 1
    for entry in log:
        if not entry.path and isinstance(entry.event, _TAKEN):
            begun = entry.seq
    ends = [record.seq for record in store.records(thread) if record.seq >= begun]
    return min(ends, default=begun) if begun else 0


@final
class _Bytes(MemoryStore):  # type: ignore[misc]  # final: but only its promise to keep objects differs here
    """A store in memory that is given bytes, as a durable one is, so that values are compared as they are stored."""

    durable = True


def _status(log: Sequence[Entry], upto: int) -> Any:
    """Return the status of the thread after the entry *upto*."""
    from graphrt._journal.batch import STATUS

    status: Any = "completed"
    for entry in log:
        event = entry.event
        if entry.seq <= upto and not entry.path:
            status = event.state.status if isinstance(event, events.ThreadForked) else STATUS.get(type(event), status)
    return status


def _copy(store: Store, to: Store, thread: str, upto: int, *, status: Any) -> None:
    """Write the thread up to an entry into another store, without its chain: what follows has no key."""
    from pydantic_core import to_json

    from graphrt._journal.batch_format import blob_names
    from graphrt._journal.thread_meta import read_meta
    from graphrt.stores._copying import Whole, write_thread

    loaded = store.load(thread, upto=upto)
    head = loaded.head
    kept = [record for record in store.records(thread, after=head.first - 1, upto=upto) if record.seq <= upto]
    snapshot = store.load(thread, upto=head.first - 1).snapshot if head.first > 1 else None
    snapshots = {snapshot.seq: snapshot.body} if snapshot is not None else {}
    named = {name for body in (*(one.body for one in kept), *snapshots.values()) for name in blob_names(body)}
    meta = {**read_meta(loaded.meta, thread), "chained": None}
    at = head.updated_at
    first = Head(thread, upto, 0, status, head.graph, head.created_at, at, owned=False, first=head.first)
    records = [Record(one.seq, one.count, one.body) for one in kept]
    whole = Whole(first, to_json(meta), [], snapshots, records)
    write_thread(to, thread, lambda: whole, lambda: [store.blobs(thread, named)], made_at=head.created_at, at=at)


# -- what the user called ----------------------------------------------------------------------------------------------


def _verbs(log: Sequence[Entry], thread: str) -> Iterator[_Verb]:
    """Yield the calls that wrote the entries, in order. A run that a crash cut off goes on without another call."""
    running = not log or not isinstance(log[0].event, (*_STARTS, events.ThreadUpdated, events.SuperstepAbandoned))
    if running and log:  # a fork or a migration in the middle of a run
        yield _Verb(0, lambda config: run_to_end.retry(config, thread))
    abandon = False
    edited = sent = -1
    for at, entry in enumerate(log):
        event = entry.event
        if entry.path:
            continue
        if isinstance(event, events.SuperstepAbandoned):
            abandon = True
        elif isinstance(event, events.RunStarted):
            yield _Verb(at, _run(event, thread, abandon=abandon), event.seed)
            running, abandon = True, False
        elif isinstance(event, events.RunResumed) and not running:
            again = _resume(thread, _answers(log, at, thread)) if event.verb == "resume" else _retry(thread)
            yield _Verb(at, reported_again(log[at + 1 :], thread) or again)
            running = True
        elif isinstance(event, events.SignalReceived) and not running and at > sent:
            signals = [one.event for one in takewhile(_is_signal, log[at:])]
            sent = at + len(signals)
            yield _Verb(at, _signal(thread, signals))
            running = sent < len(log) and isinstance(log[sent].event, events.RunResumed)
        elif isinstance(event, events.RunCancelled) and not running:
            yield _Verb(at, _cancel(thread))
        elif isinstance(event, events.ThreadUpdated) and at > edited:
            edits = [one.event for one in _of_one_commit(log, at) if isinstance(one.event, events.ThreadUpdated)]
            edited = at + len(edits) - 1
            yield _Verb(at, _update(thread, edits))
        elif isinstance(event, _ENDS):
            running = False


def _of_one_commit(log: Sequence[Entry], at: int) -> list[Entry]:
    """Return the entries from *at* on that have its time and cause, as those of one commit do."""
    first = log[at]
    found: list[Entry] = []
    for entry in log[at:]:
        if (entry.at, entry.cause) != (first.at, first.cause) or type(entry.event) is not type(first.event):
            break
        found.append(entry)
    return found


def _answers(log: Sequence[Entry], at: int, thread: str) -> dict[str, Given]:
    """Return the answers after the entry at *at*, by ids on this thread: those of a copied thread name its source."""
    answers: dict[str, Given] = {}
    for entry in log[at + 1 :]:
        if not isinstance(entry.event, events.InterruptAnswered) or entry.path:
            break
        answers[f"{thread}/{local(entry.event.id)}"] = Given(entry.event.answer, entry.event.by)
    return answers


def _run(event: events.RunStarted, thread: str, *, abandon: bool) -> Callable[[RunConfig], Any]:
    def run(config: RunConfig) -> Any:
        names = config.plan.spec.input_names if event.fresh else None
        given = {name: value for name, value in event.input.items() if names is None or name in names}
        return run_to_end.run(config, given, thread, abandon=abandon)

    return run


def _resume(thread: str, answers: dict[str, Given]) -> Callable[[RunConfig], Any]:
    def as_told(engine: Engine, *, failed: bool, reported: bool) -> dict[str, Given]:  # noqa: ARG001 - of `Prepare`
        return answers

    if any(given.by for given in answers.values()):  # the time gave them, and it has come
        return lambda config: drive(reopen_run.continued(config, thread, "resume", as_told))
    given = {id_: one.answer for id_, one in answers.items()}
    return lambda config: run_to_end.resume(config, thread, given, UNSET)


def _retry(thread: str) -> Callable[[RunConfig], Any]:
    return lambda config: run_to_end.retry(config, thread)


def _is_signal(entry: Entry) -> bool:
    return isinstance(entry.event, events.SignalReceived)


def _signal(thread: str, signals: Sequence[Any]) -> Callable[[RunConfig], Any]:
    def send(config: RunConfig) -> Any:
        for event in signals:
            mail.signal(config, thread, event.name, event.value, event.id)
        taking_mail.take_mail(config, thread)
        if the_store(config).head(thread).status == "running":  # a task took one
            run_to_end.retry(config, thread)

    return send


def _cancel(thread: str) -> Callable[[RunConfig], Any]:
    return lambda config: state_edits.cancel(config, thread)


def _update(thread: str, edits: Sequence[events.ThreadUpdated]) -> Callable[[RunConfig], Any]:
    def goto(event: events.ThreadUpdated) -> list[Any] | None:
        if event.goto is None:
            return None
        plain = [END if name == "END" else name for name in event.goto]
        return [Send(event.goto[at], event.sends[at]) if at in event.sends else plain[at] for at in range(len(plain))]

    made = [(event.values, event.as_node, goto(event)) for event in edits]
    return lambda config: state_edits.update(config, thread, made)


# -- the second execution ----------------------------------------------------------------------------------------------


@final
class _Second:
    """A second execution: the thread in memory, and how far it agrees with the log."""

    def __init__(self, config: RunConfig, store: Store, thread: str, log: Sequence[Entry], begun: int) -> None:
        self._thread, self._log, self._begun = thread, list(log), begun
        self.recorded = Recordings(log)
        self._at = 0
        """Place in the log of the next entry to repeat."""
        self._same = 0
        self._why = ""
        self._got: Entry | None = None
        self._fields: tuple[str, ...] = ()
        self._config = config._replace(
            store=store,
            durability="sync",
            chain=False,
            audit=None,
            recorded=self.recorded,
            clock=self._time,
            ids=self._run_id,
            sleep=_no_wait,
            sinks=(self._compare,),
            active=ActiveRuns(),
            migrations=(),
        )
        self._skip()

    @property
    def differs(self) -> bool:
        """Whether the second execution has done something else than the first."""
        return bool(self._why)

    @property
    def _next(self) -> Entry | None:
        return self._log[self._at] if self._at < len(self._log) else None

    def _time(self) -> float:
        entry = self._next or self._log[-1]
        return entry.at

    def _run_id(self) -> str:
        entry = self._next or self._log[-1]
        return entry.run

    def repeat(self, verb: _Verb) -> bool:
        """Make the call of *verb*; return whether the log goes on after it.

        Raises:
            KeyboardInterrupt: The user stopped it.
        """
        if verb.at > self._at and any(not isinstance(one.event, _PASSED) for one in self._log[self._at : verb.at]):
            self._differ("the log goes on, and the second execution has ended", None)
            return False
        config = self._config if verb.seed is None else self._config._replace(seed=verb.seed)
        before = self._same
        try:
            verb.make(config)
        except Exception as error:  # noqa: BLE001 - a run that fails again is compared by its entries, like any other
            if not self.differs and self._same == before and self._next is not None:
                told = error.what if isinstance(error, GraphrtError) else str(error)
                self._differ(f"the call is refused now: {told}", None)
        return self._next is not None

    def _skip(self) -> None:
        """Go on to the next entry that is compared, and end the run where only the outside ended it."""
        while (entry := self._next) is not None and (isinstance(entry.event, _PASSED) or _from_outside(entry)):
            if _from_outside(entry):
                self._stop(entry)
            self._at += 1
        self.recorded.at = self._at
        if entry is None:
            self._stop(None)  # the log ends here, perhaps in the middle of a run
        elif isinstance(entry.event, events.RunCancelled) and not entry.path:
            self._config.active.cancel(self._thread, entry.event.reason)

    def _stop(self, _entry: Entry | None) -> None:
        self._config.active.cancel(self._thread, _STOPPED)

    def _compare(self, got: Entry) -> None:
        """Compare an entry that was just committed with the next one of the log."""
        if self.differs or isinstance(got.event, _PASSED) or self._ended_here(got):
            return
        expected = self._next
        if expected is None:
            return
        one, other = bare(expected), bare(got)
        if alike(one, other) or self._beside(expected, other):
            self._at += 1
            self._same += 1
            self._skip()
            return
        self._fields = tuple(sorted(name for name in {*one, *other} if not alike(one.get(name), other.get(name))))
        self._differ(in_words(expected, got, self._fields), got)

    def _beside(self, expected: Entry, got: dict[str, Any]) -> bool:
        """Return whether the log has *got* among the answers of the same task: which came first, timing decides."""
        if not isinstance(expected.event, _ANSWERS):
            return False
        for at in range(self._at + 1, len(self._log)):
            entry = self._log[at]
            if not isinstance(entry.event, _ANSWERS) or entry.event.task != expected.event.task:
                return False
            if alike(bare(entry), got):
                self._log[self._at], self._log[at] = entry, expected
                return True
        return False

    @staticmethod
    def _ended_here(got: Entry) -> bool:
        return isinstance(got.event, events.RunCancelled) and got.event.reason == _STOPPED

    def _differ(self, why: str, got: Entry | None) -> None:
        asked = self.recorded.unanswered[0] if self.recorded.unanswered else None
        if asked is not None:
            why = f"node {asked.node!r} asks {asked.asked} now, and {asked.known}."
        self._why, self._got = f"{why.rstrip('.')}.", got
        self._stop(None)

    def report(self, log: Sequence[Entry]) -> Reexecution:
        """Return what was found."""
        if not self.differs and self._next is not None:
            self._differ("the log goes on, and the second execution has ended", None)
        expected = self._next if self.differs else None
        graph = self._config.graph
        prints = {entry.event.fingerprint for entry in log if isinstance(entry.event, events.RunStarted)}
        changed = bool(prints) and graph.fingerprint not in prints
        asked = self.recorded.unanswered[0] if self.recorded.unanswered else None
        return Reexecution(
            thread=self._thread,
            same=not self.differs,
            entries=self._same,
            begun=self._begun,
            seq=expected.seq if expected is not None else None,
            node=asked.node if asked is not None and self.differs else node_of(expected, self._got),
            expected=expected,
            got=self._got,
            fields=self._fields,
            why=self._why,
            unanswered=tuple(self.recorded.unanswered),
            changes=(f"The graph {graph.__graphrt_plan__.name!r} has another fingerprint than the log.",)
            if changed
            else (),
        )


def _no_wait(_seconds: float) -> None:
    """Stand in for the waits before retries."""


def _from_outside(entry: Entry) -> bool:
    return isinstance(entry.event, events.RunFailed) and not entry.path and entry.event.error in _FROM_OUTSIDE
