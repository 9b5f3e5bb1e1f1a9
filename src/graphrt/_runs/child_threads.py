"""The child threads of a run in its store: created once, read, and cancelled with their parent (R24).

A child's id is derived from the task, so a node that runs again finds the child it created. This module creates and
reads the child's thread; any worker drives it. Nodes, journals and letters name threads without the tenant (`bare_id`).
In the store, a child's id has the tenant of its parent (`beside`), whichever store the process has opened. So an id
that a node finds in its state never reaches a thread of another tenant.

`_drivers.context` decides the result of `ctx.wait` and when it pauses the run. `_journal.letters` defines the letters
that a thread posts to its parent or children when it ends. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, Final, TypeAlias, final

from pydantic_core import from_json, to_json

from graphrt._drivers.child_threads import ENDS_RUN, Ended
from graphrt._engine.engine import Engine
from graphrt._engine.storability import tracked, with_untracked
from graphrt._journal.leases import release_now
from graphrt._journal.letters import cancel_letter
from graphrt._journal.reader import WORLD
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.if_exists import Present
from graphrt._runs.labels import new_labels
from graphrt._runs.loading import exists, folded, the_store
from graphrt._runs.run_config import RunConfig
from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.errors._codes.threads import UNKNOWN_THREAD
from graphrt.stores.ids import bare_id, beside
from graphrt.stores.protocol import Store
from graphrt.stores.values import Labels

_ENDED: Final = ("completed", "failed", "cancelled")
"""Statuses of a thread whose last run has ended."""
_LOOK_S: Final = 0.05
"""Seconds between checks for whether the process that holds a child's id has created the child."""
_LONGEST_LOOK_S: Final = 1.0
"""Maximum number of seconds that one check counts towards that wait. A longer check was waiting for the store."""


Begin: TypeAlias = Callable[..., ActiveRun]
"""`open_run.begin`, which opens a run on an input. It is passed in, because `open_run` imports this module."""


def give_children(opened: ActiveRun, begin: Begin) -> None:
    """Allow the nodes of an opened run to start child threads, if its thread is in a store that supports mail.

    `open_run` and `reopen_run` call this. Without mail, a child could not report its end to its parent.
    """
    store = opened.config.store
    if opened.claim is not None and store is not None and "mail" in store.offers:
        opened.services.children = ThreadsOfRun(opened.config, opened.claim.thread, begin)


@contextmanager
def _ending_run() -> Generator[None, None, None]:
    """Mark an error raised in the block as one that ends the run rather than failing the node.

    Errors are marked if another process is writing the child or the store cannot be reached. A damaged child is damaged
    for every reader, so there the node fails.
    """
    try:
        yield
    except StoreError as error:
        if isinstance(error, ConflictError) or error.code in WORLD:
            error.__dict__[ENDS_RUN] = True
        raise


@final
class ThreadsOfRun:
    """The child threads of one run. Implements the protocol `_drivers.child_threads.ChildThreads`, for `ctx.start`.

    *graph* is the child's compiled graph, which may differ from the parent's. All methods except `check` read or write
    the store.
    """

    __slots__ = ("_begin", "_config", "_thread")

    def __init__(self, config: RunConfig, thread: str, begin: Begin) -> None:
        self._config, self._thread, self._begin = config, thread, begin

    def check(self, graph: Any, given: Any, title: Any, tags: Any) -> Labels | None:
        """Check a child's input and labels before its parent records the start, and return the labels.

        Raises:
            InputError: The input does not fit the graph, a label is not valid, or the store does not support labels.
        """
        plan = graph.__graphrt_plan__
        # Only for its errors; `make` checks again.
        plan.state.initial(given, where=plan.place(), given_as=plan.spec.input_schema)
        labels = new_labels(title, tags)
        if labels is not None:
            the_store(self._config).require("labels")
        return labels

    def make(self, graph: Any, given: Any, thread: str, labels: Labels | None, *, detached: bool) -> None:
        """Create a child's thread and leave its run to workers, unless the thread exists.

        Args:
            given: The input of its run.
            thread: Id of the child, without its tenant.
            detached: Whether the child outlives a parent that is cancelled.

        Raises:
            ConflictError: Another process has held the id for two leases without creating the child.
            InputError: The input does not fit the graph, or cannot be stored.
            StoreError: The store failed.
        """
        config, thread = self._config.for_child(graph), beside(self._thread, thread)
        with _ending_run():
            self._make(config, the_store(config), given, thread, labels, detached=detached)

    def _make(
        self, config: RunConfig, store: Store, input_: Any, thread: str, labels: Labels | None, *, detached: bool
    ) -> None:
        """Like `make`; *thread* is the child's id in the store."""
        left_s = 2 * config.lease_s  # a claim of a process that died is free after one lease
        while not exists(store, thread):
            began = monotonic()
            try:
                self._start(config, input_, thread, labels)
            except Present:  # another execution was faster
                break
            except ConflictError:
                # Another execution of the task is creating it, in a process whose lease on the parent expired. If that
                # process dies, its claim expires soon. Or the store was unreachable until this process's claim expired;
                # that time counts only a little.
                left_s -= min(monotonic() - began, _LONGEST_LOOK_S) + _LOOK_S
                if left_s < 0:
                    raise
                sleep(_LOOK_S)
            except InputError:
                # Else another execution has created it meanwhile, and it cannot take an input.
                if not exists(store, thread):
                    raise
        if not detached and store.head(self._thread).status == "cancelled":
            # Another process cancelled the parent after the start was recorded and before the child had an entry. The
            # letter that cancels the child found no thread, so it is posted again.
            engine = Engine(config.plan, config.limits, thread=thread)  # only its codec is used, to encode the letter
            # "start" gives the letter a different id from the one that was posted too early: a repeated id is dropped.
            store.post(*cancel_letter(engine, self._thread, bare_id(thread), "start"))

    def _start(self, config: RunConfig, input_: Any, thread: str, labels: Labels | None) -> None:
        """Store the first commit of the child's run and release its thread in it, so that it is due for workers.

        Raises:
            Present: The thread exists already.
        """
        parent = bare_id(self._thread)
        opened = self._begin(config, input_, thread, if_exists="return", labels=labels, parent=parent)
        opened.hand_over()

    def ended(self, graph: Any, thread: str) -> Ended | None:
        """Return how the last run of a child ended, with its final state as plain data; None if it has not ended."""
        config, thread = self._config.for_child(graph), beside(self._thread, thread)
        with _ending_run():
            return self._ended(config, the_store(config), thread)

    def _ended(self, config: RunConfig, store: Store, thread: str) -> Ended | None:
        """Like `ended`; *thread* is the child's id in the store."""
        release_now(store, thread)  # a claim that this process failed to release would make the child look driven
        try:
            if store.head(thread).status not in _ENDED:  # the usual case, found without loading the thread
                return None
            loaded = store.load(thread)
        except InputError as error:
            if error.code != UNKNOWN_THREAD.code:
                raise
            return Ended("deleted")
        status = loaded.head.status
        if status not in _ENDED:  # another run began between the two calls
            return None
        fold = folded(config, loaded)
        if status != "completed":
            return Ended(status, error=fold.error or "")
        engine = fold.engine
        # Plain data: the parent records it as the result of an effect, and its codec may not know the classes.
        # `tracked` drops the untracked fields, which are never stored (R16).
        return Ended(status, from_json(engine.plan.codec.dump(dict(tracked(engine, engine.values)))))

    def has(self, graph: Any, thread: str) -> bool:
        """Return whether *thread* is a child of this run's thread. Only then does a letter report its end here.

        `ctx.wait` calls this for a child that its own task did not start.
        """
        config = self._config.for_child(graph)
        with _ending_run():
            loaded = the_store(config).load(beside(self._thread, thread))
            return folded(config, loaded).engine.parent == bare_id(self._thread)

    def state(self, graph: Any, data: Any) -> Any:
        """Return a child's final state as an instance of its state class, from the plain data of `ended`."""
        plan = graph.__graphrt_plan__
        values: dict[str, Any] = plan.codec.load(to_json(data))
        engine = Engine(plan, plan.limits)
        return engine.make_view(with_untracked(engine, values))  # untracked fields are never stored: their defaults
