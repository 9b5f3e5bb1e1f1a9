"""`ActiveRun`: one open run with its engine, services, journal and claim, and how it is closed.

`open_run` and `reopen_run` open runs, and a driver performs their `flow`. A run holds the claim on its thread, its
place among the active runs of the runtime, and perhaps worker threads. `ended`, `broke` and `close` give them back: one
of them must follow every opening.

Other processes reach a run through its store, by letters (R22). A `Mail` is a letter decoded: its kind (`what`) and
what it says, by name (`told`). Plain supersteps become event objects only for a reader. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

from graphrt._ambient import surroundings
from graphrt._drivers.run_services import RunServices
from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.joins import never_fired
from graphrt._engine.mail import Letter as Mail
from graphrt._engine.spending import used
from graphrt._flows.effects import Control, Flow
from graphrt._flows.run import HANDED_OVER, run
from graphrt._forks import FreshLock
from graphrt._journal import leases, letters, mail_watch, thread_commits, writer
from graphrt._runs import entries, listeners, run_log
from graphrt._runs.error_frames import prepare
from graphrt._runs.live_relay import LiveRelay
from graphrt._runs.live_show import LiveShow
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt._runs.stream_items import NOTHING, Reads, StreamItems
from graphrt._runs.task_services import services_of
from graphrt.errors import ConflictError
from graphrt.stores.filters import MailFilter
from graphrt.stores.ids import shared_id
from graphrt.stores.values import Claim

if TYPE_CHECKING:
    from graphrt._journal.chain import Chain
    from graphrt._journal.thread_fold import Fold
    from graphrt.events import Entry
    from graphrt.stores.values import MailMessage

_following = FreshLock()
"""Guards the change between a run that is followed and one that is not, for all runs: it is taken rarely."""
_delivering = FreshLock()
"""Guards which letters a run has seen: the worker thread of `mail_watch` and an agent may find one at once."""
_OVER = frozenset({"completed", "failed", "cancelled"})
"""Statuses of a thread whose last run has ended."""


def reason_of(cancel: Mail) -> str:
    """Return the reason that the journal gives for a run that the letter *cancel* ends."""
    # Only the letter of a parent thread, which cancels its children with itself (R24), names a parent.
    parent = cancel.told.get("parent")
    return "cancel() was called in another process" if parent is None else f"its parent {parent!r} was cancelled"


@final
class ActiveRun:
    """One open run. `services` are what its tasks share; `control` has the switches that halt it or hand it over.

    Args:
        config: Configuration of the runtime that opens the run.
        engine: The engine, which holds the state to start or continue from.
        claim: The right to write the thread; None for a run without a thread.
        fold: The thread that is continued, folded from its journal; None for a new thread or none.
        seed: Seed of `ctx.random` if the runtime has none; None draws one at first need.
        at: Time of the first commit in seconds since the epoch, if the clock was read for it already.
        reads: Modes of the items that the caller reads, or STEPS; none by default.
    """

    # fmt: off
    __slots__ = (
        "_commits", "_journal", "_seen", "_show", "_sinks", "claim", "config", "control", "engine", "items",
        "listening", "services",
    )
    # fmt: on

    def __init__(
        self,
        config: RunConfig,
        engine: Engine,
        claim: Claim | None,
        *,
        fold: Fold | None = None,
        seed: int | None = None,
        at: float | None = None,
        reads: Reads = NOTHING,
    ) -> None:
        self.config: RunConfig = config
        self.engine: Engine = engine
        self.claim: Claim | None = claim
        control = Control()
        self.control: Control = control
        control.watched = claim is not None  # `Runtime.cancel` finds a run by its thread, and may halt it at any time
        services = services_of(config, engine, control, seed)
        self.services: RunServices = services
        if claim is not None:
            services.former_owner.lost = claim.former
        self.items: StreamItems | None = None
        """The queue of what the caller reads; None if that is the result alone."""
        if reads:
            self.items = StreamItems(reads)
            self.items.connect(engine, services)
        elif engine.is_read:  # a run of the engine before was read
            engine.watch(commits=False)
        # Events are built only if something reads them: a stream, a thread's journal, or a sink (`sinks=`).
        self._sinks: tuple[listeners.Sink, ...] = ()
        if config.sinks or run_log.wanted():  # the log: the program listens to the logger `graphrt.runs`
            self._sinks, services.watcher = listeners.listeners(config, self._opened(fold))
        listen = "events" in reads
        self.listening: bool = listen or claim is not None or bool(self._sinks)
        self._journal: writer.Journal | None = None
        """Numbers the events, stores them for a thread, and shows them to the sinks; None if nothing listens."""
        self._commits: thread_commits.ThreadCommits | None = None  # on their way to the store; None without a thread
        self._show: LiveShow | None = None  # shows the run to followers; None if there can be none
        self._seen: frozenset[int] = frozenset()  # places of letters seen so far: each look finds all not yet taken
        if self.listening:
            self._open_journal(fold, listen=listen)
            if self._journal is not None:
                self._journal.given_at = at

    def _open_journal(self, fold: Fold | None, *, listen: bool) -> None:
        """Make the journal, and let engine and services write to it. Without a thread it stores nothing."""
        config, engine, services, claim = self.config, self.engine, self.services, self.claim
        run_id = services.run_id
        # graphrt's own sinks only read entries, and say so by `__graphrt_reads__`: copies are for all others (0042).
        copies = listen or not all(hasattr(sink, "__graphrt_reads__") for sink in self._sinks)
        journal = writer.Journal(clock=config.clock, run_id=run_id, sinks=self._sinks, watched=listen, copies=copies)
        engine.identify(run_id)
        services.record, services.show = journal.write, journal.show
        services.before_last = partial(self.config.secrets.remember, self.engine)
        store = config.store
        if claim is None or store is None:
            engine.listen()
        else:
            # `staging` keeps outcomes of the open superstep until they are stored beside the journal.
            engine.listen(engine.plan.codec, staging=True)
            chain: Chain | None = fold.chain if fold is not None else None
            meta: dict[str, Any] = {"chained": None}
            # Whether a journal is hash-chained is decided when its thread is made. The meta (data of the whole thread)
            # keeps the id that the chain began with, with the tenant.
            if fold is None and config.chains(store):
                from graphrt._journal.thread_fold import chain_of  # imported late: it loads OpenSSL

                meta["chained"] = begins = shared_id(store, claim.thread)
                chain = chain_of(begins, None, config.keys)
            commits = self._commits = thread_commits.ThreadCommits(store, claim)
            commits.recorder = config.recorder(store, claim.thread, chain)  # an audit log: its file and anchors
            commits.watcher = services.watcher
            # A seeded run salts its hashes alike each time; a seed of None draws salts at random.
            if fold is not None:
                journal.go_on(commits, fold, salts_seed=config.seed)
            else:
                journal.keep(commits, engine, chain=chain, meta=meta, salts_seed=config.seed)
            services.stage = journal.stage  # stores outcomes and effects of the open superstep
            services.blocking = store.blocking or commits.recorder is not None  # a log is a file, with any store
            # R9: an outcome is stored the moment its task ends.
            services.eager = True
            # Plain supersteps are written without event objects if only the store, and sinks that only read, need them.
            # Only events name the fields that a reducer of the whole state changed.
            if (not self._sinks or not copies) and not listen and not engine.is_read and engine.reducer is None:
                engine.note_without_events()
                services.tell = journal.tell
            if store.blocking:  # a claim of a store in memory holds until it is released: it has no lease to renew
                renewer = leases.renewer_of(store)
                renewer.add(claim)
                self.control.check_claim = partial(renewer.check, claim, partial(services.keep, ()))
            if "live" in store.offers:
                relay = LiveRelay(store, claim.thread, run_id, engine, lambda: self.seq)
                self._show = LiveShow(store, claim.thread, services, relay, _following, commits)
            if "mail" in store.offers:
                if engine.parent is not None and claim.head.status in _OVER:  # a new run of a child thread (R24)
                    self._pass_over_cancels(store.query(MailFilter(thread=claim.thread)))
                self.control.letters = deque()
                self.control.look = lambda: self._deliver(store.query(MailFilter(thread=claim.thread)))
                mail_watch.watch_of(store).add(claim.thread, self._deliver, self._show)
                # Tasks of queues are left to Workers, which find them by an index.
                self.control.queues = "labels" in store.offers
        self._journal = journal

    def _pass_over_cancels(self, stored: Sequence[MailMessage]) -> None:
        """Ignore the parent's requests to cancel, which are about earlier runs; the last commit deletes them."""
        assert self.claim is not None  # noqa: S101 - only threads get mail
        for letter in stored:
            mail = letters.read(self.engine.plan.codec, letter, self.claim.thread)
            if mail.what == "cancel" and mail.told["epoch"] is None:
                self._seen |= {letter.place}  # so that `_deliver` does not cancel this run by it
                self.control.settled = (*self.control.settled, letter.place)

    def _deliver(self, stored: Sequence[MailMessage]) -> None:
        """Take note of mail that waits for the thread: called by the worker thread of `mail_watch`, and by an agent.

        A request to cancel has the epoch (number) of the claim that it is about, or None from a parent: for any run.
        """
        control, claim = self.control, self.claim
        assert claim is not None  # noqa: S101 - only threads get mail
        with _delivering:
            unseen = [letter for letter in stored if letter.place not in self._seen]
            self._seen |= {letter.place for letter in unseen}
        for letter in unseen:
            mail = letters.read(self.engine.plan.codec, letter, claim.thread)
            if mail.what == "cancel":
                control.settled = (*control.settled, letter.place)  # the last commit of the run deletes these
                if mail.told["epoch"] in (claim.epoch, None):  # else it was about an earlier run, which had ended
                    control.cancel(reason_of(mail))
            elif mail.what in ("signal", "answers"):
                control.letters.append(mail)  # the flow takes them when the run would pause
            elif mail.what == "input" and mail.told["abandon"]:  # other letters make the thread due after this run
                # Handed over first, so that the next driver begins a run with this letter; a cancel alone ends the run.
                control.hand_over("a new input abandons the run")
                control.cancel("a new input abandons the run")

    def to_be_read(self) -> None:
        """Show what happens as for a reader, who may come at any time: a worker drives the run. `drive_due` calls this."""
        if self._show is not None:
            self._show.to_be_read()

    def _opened(self, fold: Fold | None) -> listeners.OpenedRun:
        """Return what the sinks that watch runs are given of this run before its first entry."""
        config, claim = self.config, self.claim
        thread = claim.thread if claim is not None else None
        return listeners.OpenedRun(
            graph=self.engine.plan.name,
            thread=self.services.known_as,
            run=self.services.run_id,
            seq=fold.seq if fold is not None else 0,
            # The claim was free, the thread running, and it was not handed over (`left`): the owner of that run died.
            taken_over=fold is not None and claim is not None and claim.head.status == "running" and not fold.left,
            entries=partial(_entries, config, thread),
        )

    @property
    def seq(self) -> int:
        """Number of the last entry of the thread; 0 before the first."""
        return self._journal.standing.seq if self._journal is not None else 0

    def hand_over(self, *, taken: Sequence[int] = ()) -> None:
        """Store the events noted so far, and release the thread in the same commit: it is due, for any Worker (R20).

        Args:
            taken: Places of letters to delete with the commit.

        Raises:
            StoreError: Nothing was stored. The run is closed.
        """
        assert self._journal is not None  # noqa: S101 - only runs on a thread are handed over
        try:
            emit_events.stopped(self.engine, "left to others", None)  # None: it was not cancelled
            self._journal.write(emit_events.take(self.engine), release=True, taken=taken)
            self.close()
        except BaseException as error:
            self.broke(error)
            raise

    def flow(self) -> Flow:
        """Return the run as a generator of effects, which a driver performs. It returns the status for `ended`."""
        return run(self.engine, self.control)

    def ended(self, status: Any) -> RunResult[Any]:
        """Close the run, which did not fail, and return its result.

        Args:
            status: `completed`, `interrupted`, `cancelled`, or HANDED_OVER if the run left its thread due; see `flow`.

        Raises:
            StoreError: The thread could not be released.
            ScriptError: Results of a scripted tool are left over, in a run that `CompiledGraph.run` or its kin began.
        """
        services = self.services
        if services.doubles is not None and status == "completed":  # else an agent may still run after a resume
            services.warnings += services.doubles.unmet()  # names in models= and tools= that nothing used
        if status == "completed":
            services.warnings += never_fired(self.engine)  # joins that waited for nodes that no router started
        elif status == HANDED_OVER:
            status = "cancelled"
            services.warnings.append(
                f"The run was handed over ({self.control.handing_over}): its thread is due, and any worker may go on."
            )
        if self.engine.unstorable and self.config.store is None:
            self._warn_of_values()
        if self.claim is not None and status == "completed":
            self.config.secrets.forget(self.claim.thread)
        else:  # no store has the secrets of the state: this runtime keeps them for the run that continues the thread
            self.config.secrets.remember(self.engine)
        result: RunResult[Any] = RunResult(self.engine, services, status)
        try:
            self.close()
        except BaseException as error:
            self._end_watching(error)
            raise
        self._end_watching(None)
        if services.doubles is not None and services.doubles.for_one_run and status == "completed":
            services.doubles.assert_done()  # results of scripted tools that no call used
        return result

    def _warn_of_values(self) -> None:
        """Warn of values that a thread would have refused (R7), if the check of the state met some (`check_state`)."""
        for name, error in self.engine.unstorable.items():
            text = (
                f"Field {name!r} of graph {self.engine.plan.name!r} has a value that no store takes"
                f"{f', at {error.path}' if error.path else ''}: it {error.why}. {error.fix}."
            )
            self.services.warnings.append(text)  # for `RunResult.warnings`
            warnings.warn(text, UserWarning, stacklevel=2)

    def broke(self, error: BaseException) -> None:
        """Close the run after *error*, which the caller of this method raises next. `prepare` adds run and entry."""
        prepare(error, self.engine, self.services, self.seq if self.claim is not None else 0)
        if self.claim is not None and isinstance(error, ConflictError) and self.seq == self.claim.head.seq:
            listeners.conflicted(self.config)  # another owner claimed the thread before the first commit of this run
        self.config.secrets.remember(self.engine)
        try:
            self.close()
        except Exception as other:  # noqa: BLE001 - the first error is the one to raise
            error.add_note(f"Closing the run then failed: {type(other).__name__}: {other}")
        self._end_watching(error)

    def _end_watching(self, error: BaseException | None) -> None:
        """Report the end of the run, and the *error* that its caller gets, to the sink that watches it."""
        if self.services.watcher is not None:
            self.services.watcher.ended(error)

    def close(self) -> None:
        """Give back what the run holds, and report its usage to the agent that has the graph as a tool, if one has.

        Raises:
            StoreError: The thread could not be released.
        """
        above = surroundings().above
        if above is not None and (usage := used(self.engine)) is not None:
            above.took.append(usage)  # the agent adds it to its own usage
        if self.control.halt is None:
            self.control.halt = "it has ended"  # code that its nodes have left behind must not act any more (R9)
        try:
            self.services.close()
            if self.items is not None and self.items.chain is not None:
                self.items.chain.end()  # steps are computed from the last values, which another run may change
        finally:  # a failure above must not keep the thread claimed
            self._give_back()

    def _give_back(self) -> None:
        """End the journal, which releases the claim, if there is one. Before that, stop what uses the claim."""
        claim, store = self.claim, self.config.store
        if claim is not None and store is not None:
            if store.blocking:
                leases.renewer_of(store).remove(claim)
            if "mail" in store.offers:
                mail_watch.watch_of(store).remove(claim.thread, self._deliver)
            self.config.active.remove(claim.thread, self.control)  # added by the module that opened the run
            try:
                if self._journal is not None:
                    self._journal.close()
                    self.config.kept.grown(claim.thread, self._journal.grown)
            finally:
                self.config.active.closed(self.control)  # last: this may close the store


def _entries(config: RunConfig, thread: str | None, after: int) -> Iterator[Entry]:
    """Read the entries of *thread* after a number; none without a thread."""
    return entries.entries(config, thread, after=after) if thread is not None else iter(())
