"""`ActiveRun`: one open run with its engine, services, journal and claim, and how it is closed.

`open_run` and `reopen_run` open runs, and a driver performs their `flow`. A run holds the claim on its thread, its
entry in the runtime's table of active runs, and sometimes worker threads. `ended`, `broke` and `close` release them;
every run that is opened must be closed by one of the three.

Other processes reach a run by posting letters to its store (R22). A `Letter` is a decoded letter with its kind (`what`)
and its content by name (`content`). Event objects for plain supersteps are built only if something reads them. For the
terms, see docs/glossary.md.
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
from graphrt._engine.mail import Letter
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
"""Guards switching a run between followed and not followed. One lock serves all runs, since it is rarely taken."""
_delivering = FreshLock()
"""Guards the set of letters that a run has seen: the `mail_watch` worker thread and an agent may find the same letter
at once."""
_OVER = frozenset({"completed", "failed", "cancelled"})
"""Statuses of a thread whose last run has ended."""


def reason_of(cancel: Letter) -> str:
    """Return the reason that the journal records for a run that the letter *cancel* ends."""
    # Only a parent thread names itself in the letter: cancelling a parent also cancels its children (R24).
    parent = cancel.content.get("parent")
    return "cancel() was called in another process" if parent is None else f"its parent {parent!r} was cancelled"


@final
class ActiveRun:
    """One open run. `services` holds what its tasks share; `control` has the switches that halt it or hand it over.

    Args:
        config: Configuration of the runtime that opens the run.
        engine: The engine, holding the state to start or continue from.
        claim: The right to write the thread; None for a run without a thread.
        fold: The thread to continue, folded from its journal; None for a new thread or a run without a thread.
        seed: Seed of `ctx.random` if the runtime has none; None draws one at first need.
        at: Time of the first commit in seconds since the epoch, if the clock has already been read.
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
        if engine.plan.hears:
            engine.surround(config.outside(None if claim is None else claim.thread))
        control = Control()
        self.control: Control = control
        control.watched = claim is not None  # `Runtime.cancel` finds a run by its thread, and may halt it at any time
        services = config.services(engine, control, seed)
        self.services: RunServices = services
        if claim is not None:
            services.former_owner.lost = claim.former
        self.items: StreamItems | None = None
        """Queue of the items that the caller reads; None if the caller reads only the result."""
        if reads:
            self.items = StreamItems(reads)
            self.items.connect(engine, services)
        elif engine.is_read:  # an earlier run of this engine had a reader
            engine.watch(commits=False)
        # Events are built only if something reads them: a stream, a thread's journal, or a sink (`sinks=`).
        self._sinks: tuple[listeners.Sink, ...] = ()
        if config.sinks or run_log.wanted():  # the log: the program listens to the logger `graphrt.runs`
            self._sinks, services.watcher = listeners.listeners(config, self._opened(fold))
        listen = "events" in reads
        self.listening: bool = listen or claim is not None or bool(self._sinks)
        self._journal: writer.Journal | None = None
        """Numbers the events, stores them if there is a thread, and passes them to the sinks; None if nothing
        listens."""
        self._commits: thread_commits.ThreadCommits | None = None  # commits waiting to be stored; None without a thread
        self._show: LiveShow | None = None  # shows the run to followers; None if it cannot have any
        # Places of letters seen so far: each poll returns all letters not yet taken.
        self._seen: frozenset[int] = frozenset()
        if self.listening:
            self._open_journal(fold, listen=listen)
            if self._journal is not None:
                self._journal.given_at = at

    def _open_journal(self, fold: Fold | None, *, listen: bool) -> None:
        """Create the journal and connect the engine and services to it.

        Without a thread, the journal stores nothing.
        """
        config, engine, services, claim = self.config, self.engine, self.services, self.claim
        run_id = services.run_id
        # graphrt's own sinks only read entries and declare this with `__graphrt_reads__`. All other sinks get copies
        # (0042).
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
            # Whether a journal is hash-chained is decided when its thread is created. The meta (data of the whole
            # thread) keeps the id that the chain began with, including the tenant.
            if fold is None and config.chains(store):
                from graphrt._journal.thread_fold import chain_of  # imported late: it loads OpenSSL

                meta["chained"] = begins = shared_id(store, claim.thread)
                chain = chain_of(begins, None, config.keys)
            commits = self._commits = thread_commits.ThreadCommits(store, claim)
            commits.recorder = config.recorder(store, claim.thread, chain)  # an audit log: its file and anchors
            commits.watcher = services.watcher
            # A seeded run always uses the same salts for its hashes; with a seed of None the salts are random.
            if fold is not None:
                journal.go_on(commits, fold, salts_seed=config.seed)
            else:
                journal.keep(commits, engine, chain=chain, meta=meta, salts_seed=config.seed)
            services.stage = journal.stage  # stores outcomes and effects of the open superstep
            services.blocking = store.blocking or commits.recorder is not None  # a log is a file, with any store
            # R9: an outcome is stored as soon as its task ends.
            services.eager = True
            # Plain supersteps are written without event objects if only the store and read-only sinks need them. Only
            # events name the fields that a reducer of the whole state changed.
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
                # Queued tasks are left to Workers, which find them through an index.
                self.control.queues = "labels" in store.offers
        self._journal = journal

    def _pass_over_cancels(self, stored: Sequence[MailMessage]) -> None:
        """Ignore the parent's cancel requests, since they concern earlier runs; the last commit deletes them."""
        assert self.claim is not None  # noqa: S101 - only threads get mail
        for letter in stored:
            mail = letters.read(self.engine.plan.codec, letter, self.claim.thread)
            if mail.what == "cancel" and mail.content["epoch"] is None:
                self._seen |= {letter.place}  # so that `_deliver` does not cancel this run because of it
                self.control.settled = (*self.control.settled, letter.place)

    def _deliver(self, stored: Sequence[MailMessage]) -> None:
        """Process mail that waits for the thread. Called by the `mail_watch` worker thread and by an agent.

        A cancel request names the epoch (number) of the claim that it targets. A request from a parent has None and
        targets any run.
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
                if mail.content["epoch"] in (claim.epoch, None):  # else it concerned an earlier run, which has ended
                    control.cancel(reason_of(mail))
            elif mail.what in ("signal", "answers"):
                control.letters.append(mail)  # the flow takes them when the run would pause
            elif mail.what == "input" and mail.content["abandon"]:  # other letters make the thread due after this run
                # Hand over first, so that the next driver starts a run with this letter; a cancel alone would end the
                # run for good.
                control.hand_over("a new input abandons the run")
                control.cancel("a new input abandons the run")

    def to_be_read(self) -> None:
        """Show items as if there were a reader: a worker drives the run, and a follower may arrive at any time.

        `drive_due` calls this.
        """
        if self._show is not None:
            self._show.to_be_read()

    def _opened(self, fold: Fold | None) -> listeners.OpenedRun:
        """Return the description of this run that watching sinks receive before its first entry."""
        config, claim = self.config, self.claim
        thread = claim.thread if claim is not None else None
        return listeners.OpenedRun(
            graph=self.engine.plan.name,
            thread=self.services.known_as,
            run=self.services.run_id,
            seq=fold.seq if fold is not None else 0,
            # The claim was free and the thread "running", but it was not handed over (`left`), so the owner of that run
            # died.
            taken_over=fold is not None and claim is not None and claim.head.status == "running" and not fold.left,
            entries=partial(_entries, config, thread),
        )

    @property
    def seq(self) -> int:
        """Number of the last entry of the thread; 0 before the first."""
        return self._journal.standing.seq if self._journal is not None else 0

    def hand_over(self, *, taken: Sequence[int] = ()) -> None:
        """Store the events noted so far and release the thread in one commit, so that it is due for any Worker (R20).

        Args:
            taken: Places of letters to delete with the commit.

        Raises:
            StoreError: Nothing was stored. The run is closed.
        """
        assert self._journal is not None  # noqa: S101 - only runs on a thread are handed over
        try:
            emit_events.stopped(self.engine, "left to others", None)  # None: the run was not cancelled
            self._journal.write(emit_events.take(self.engine), release=True, taken=taken)
            self.close()
        except BaseException as error:
            self.broke(error)
            raise

    def flow(self) -> Flow:
        """Return the run as a generator of effects for a driver to perform.

        The generator returns the status for `ended`.
        """
        return run(self.engine, self.control)

    def ended(self, status: Any) -> RunResult[Any]:
        """Close a run that did not fail, and return its result.

        Args:
            status: `completed`, `interrupted`, `cancelled`, or HANDED_OVER if the run leaves its thread due; see
                `flow`.

        Raises:
            StoreError: The thread could not be released.
            ScriptError: A scripted tool has unused results, in a run that `CompiledGraph.run` or a similar method
                began.
        """
        services = self.services
        doubles = services.doubles
        if doubles is not None and doubles.saw_start and status == "completed":  # else an agent may run after a resume
            services.warnings += doubles.unmet()  # unused names in models= and tools=
        if status == "completed":
            services.warnings += never_fired(self.engine)  # joins that waited for nodes that no router started
        elif status == HANDED_OVER:
            status = "cancelled"
            services.warnings.append(
                f"The run was handed over ({self.control.handing_over}): its thread is due, and any worker may continue."
            )
        if self.engine.unstorable:
            self._warn_of_values()
        if self.claim is not None and status == "completed":
            self.config.secrets.forget(self.claim.thread)
        else:  # no store has the state's secrets: this runtime keeps them for the run that continues the thread
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
        """Warn of values that no store takes (R7), if the state check (`check_state`) found any.

        On a thread, only a reducer can have made them, and `fork` and `prune` fail.
        """
        for name, error in self.engine.unstorable.items():
            text = (
                f"Field {name!r} of graph {self.engine.plan.name!r} has a value that no store takes"
                f"{f', at {error.path}' if error.path else ''}: it {error.why}. {error.fix}."
            )
            self.services.warnings.append(text)  # for `RunResult.warnings`
            warnings.warn(text, UserWarning, stacklevel=2)

    def broke(self, error: BaseException) -> None:
        """Close the run after *error*, which the caller of this method then raises.

        `prepare` adds the run id and entry number.
        """
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
        """Report the end of the run, and any *error* that its caller gets, to the watching sink."""
        if self.services.watcher is not None:
            self.services.watcher.ended(error)

    def close(self) -> None:
        """Release what the run holds, and report its usage to the agent that uses the graph as a tool, if there is one.

        Raises:
            StoreError: The thread could not be released.
        """
        above = surroundings().above
        if above is not None and (usage := used(self.engine)) is not None:
            above.took.append(usage)  # the agent adds it to its own usage
        if self.control.halt is None:
            self.control.halt = "it has ended"  # code that its nodes left running must no longer have any effect (R9)
        try:
            self.services.close()
            if self.items is not None and self.items.chain is not None:
                self.items.chain.end()  # steps are computed from the last values, and another run may change those
        finally:  # a failure above must not keep the thread claimed
            self._give_back()

    def _give_back(self) -> None:
        """End the journal, which also releases any claim. First stop everything that uses the claim."""
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
    """Read the entries of *thread* after a given number; none without a thread."""
    return entries.entries(config, thread, after=after) if thread is not None else iter(())
