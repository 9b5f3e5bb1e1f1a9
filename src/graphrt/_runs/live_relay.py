"""The writer's side of live items: what a run shows is kept while its tasks are open, and handed over to followers.

A *follower* is a reader of the thread, usually in another process, which gets the items through the store (decision
0160). It may come late: what the open tasks have shown so far is kept here, in memory, and told *again* when the first
follower comes (decision 0228). Later followers find that in the store, with all that came after it. It is told again
from time to time, because the store deletes old batches.

A *writer* is a run, or one execution of a task by a worker of its queue (decision 0233): it does not have the thread, and
shows this task alone. `LiveShow` connects a relay with the services of its writer.

What is kept of a task goes when its superstep commits, since the journal has it then, and when its attempt is given up.
Without a follower nothing is encoded or handed over.

Nothing here may end a run or hold it up: what cannot be encoded or handed over is dropped, and so is what comes faster
than a batch may grow. Each item of a writer has a number, so a reader sees from a gap how many it missed. For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, final

from graphrt._codec import NotStorable
from graphrt._engine.task import DONE, DUE, HANDLED, RUNNING
from graphrt._flows.live import Live, ended, live
from graphrt._runs.live_items import PIECE_BYTES, Again, Heading, batch, line, texts
from graphrt.stores.protocol import Store
from graphrt.stores.values import KEPT_S

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task

T = TypeVar("T")

MOST_ITEMS: Final = 1_000
MOST_BYTES: Final = 2**20
"""Most items, and bytes of them, that wait to be handed over. Beyond that the oldest are dropped."""
OPEN_BYTES: Final = 2**20
"""Bytes of what is kept of an open task at the top, its nested graphs included. Beyond that the oldest are dropped."""
BATCH_BYTES: Final = 2**18
"""Bytes of items after which a batch ends and another one begins, so that a reader need not read much at once."""
KEPT_BYTES: Final = 8 * 2**20
"""Most bytes of a run that the store keeps for slow followers."""
AGAIN_S: Final = KEPT_S / 2
AGAIN_BYTES: Final = KEPT_BYTES // 2
"""Seconds, and bytes handed over, after which what the open tasks have shown is told again."""


class _Item(NamedTuple):
    """An item of an open task, kept for followers who come later."""

    number: int
    mode: str
    item: Any
    """The item; for a value that may change later, the line that it was encoded to."""
    task_id: str
    size: int
    """About how many bytes it needs."""


def _nothing() -> None:
    """Default of the `check` of a relay: nothing but a run with the claim on its thread shows it."""


@final
class LiveRelay:
    """What one writer shows, for followers.

    Args:
        store: The store.
        thread: The thread.
        writer: Id of the run, or of the execution of *task*. Each writer of a thread has another one.
        engine: The engine of the top graph.
        seq: Returns the number of the thread's last entry that is known, after which an item comes.
        task: The task of a queue that is executed; None for a run, which shows all tasks.
        check: Raises if another process may have taken over what is shown: then nothing is handed over.
    """

    # fmt: off
    __slots__ = (
        "_again_at",
        "_batches",
        "_begun",
        "_check",
        "_ended",
        "_engine",
        "_is_told",
        "_kept",
        "_kept_size",
        "_lock",
        "_lost",
        "_number",
        "_open",
        "_sending",
        "_sent",
        "_seq",
        "_shown_at",
        "_sizes",
        "_store",
        "_superstep",
        "_task",
        "_thread",
        "_waiting",
        "_waiting_size",
        "_wants_again",
        "_writer",
        "is_followed",
    )
    # fmt: on

    def __init__(
        self,
        store: Store,
        thread: str,
        writer: str,
        engine: Engine,
        seq: Callable[[], int],
        *,
        task: Task | None = None,
        check: Callable[[], None] = _nothing,
    ) -> None:
        self._store = store
        self._thread = thread
        self._writer: str = writer
        self._engine = engine
        self._seq = seq
        self._task = task
        self._check = check
        self.is_followed: bool = False
        """Whether items are handed over, because the thread has a follower."""
        self._number = 0
        """Number of the last item."""
        self._superstep = self._shown_at = -1
        """Superstep of what is kept, and number of the last entry when the newest item was shown."""
        self._begun: dict[str, tuple[int, _Item]] = {}
        """Open task to its present execution, and to the item that says that it started."""
        self._ended: set[str] = set()
        """Those of these tasks of which an item says that they have ended."""
        self._open: dict[str, deque[_Item]] = {}
        """Open task at the top to what else it has shown, its nested graphs included, in order."""
        self._sizes: dict[str, int] = {}
        """Open task at the top to the bytes of what is kept of it."""
        self._lost = 0
        """How many items of the open tasks could not be kept."""
        self._waiting: deque[tuple[int, _Item]] = deque()
        """Items that were not handed over yet, oldest first, each with the number of the last entry before it."""
        self._waiting_size = 0
        self._wants_again = False
        """Whether followers need to be told again what the open tasks have shown."""
        self._is_told = False
        """Whether the followers of now can begin with something that was told again."""
        self._again_at = 0.0
        """Monotonic time at which that was last done."""
        self._sent = 0
        """Bytes handed over since then."""
        self._batches = 0
        """Number of the last batch."""
        self._kept: deque[tuple[int, int, float]] = deque()
        """Place, bytes and monotonic time of the batches that the store keeps, oldest first."""
        self._kept_size = 0
        """Bytes of these batches."""
        self._lock = Lock()
        """Guards what is kept and what waits."""
        self._sending = Lock()
        """Held while a batch is handed over, so that batches are in order. It also guards what describes batches."""

    @property
    def _codec(self) -> Codec:
        return self._engine.plan.codec

    @property
    def has_shown(self) -> bool:
        """Whether open tasks have shown something, for which a follower may come at any time."""
        return bool(self._begun)

    def put(self, mode: str, item: Any, task: Task | None) -> None:
        """Take an item, from any worker thread.

        Args:
            mode: The stream mode that shows it: `custom`, `messages` or `live`.
            item: The item, as that mode gives it.
            task: The task that shows it; None if it is about the run.
        """
        with self._lock:
            self._turn(self._engine.superstep, self._seq())
            if type(item) is Live and self._told(item, task):
                return
            if task is not None:
                self._begin(task)
            task_id = task.id if task is not None else item.task_id if type(item) is Live else ""
            self._show(mode, item, task_id)

    def _show(self, mode: str, item: Any, task_id: str) -> None:
        """Keep an item, and have it handed over."""
        if type(item) is Live and item.what == "ended":
            self._ended.add(task_id)
        self._number += 1
        one = self._kept_as(mode, item, task_id)
        if one is None:
            self._lost += 1  # its number stays used: followers see the gap
            return
        self._keep(one)
        self._wait(one)

    def _told(self, item: Live, task: Task | None) -> bool:
        """Take an item about a task that begins, or that ends what is kept of it; return False for any other."""
        if item.what == "started":
            if task is not None:
                self._begin(task)
            return True
        if item.what == "withdrawn":
            self._drop(item.task_id)
            self._wants_again = True  # else one who comes now would be shown it first
        elif item.what == "step" and not item.path:  # its superstep is committed, and the journal has it
            self._forget()
        else:
            return False
        self._number += 1
        one = self._kept_as("live", item, item.task_id)
        if one is not None:
            self._wait(one)
        return True

    def _turn(self, superstep: int, seq: int) -> None:
        """Forget what tasks of an earlier superstep have shown, now that a task of another one shows something."""
        if superstep != self._superstep:
            self._superstep = superstep
            self._forget()
        if seq != self._shown_at:  # also of an entry in an open superstep: followers who begin there need it again
            self._shown_at = seq
            self._wants_again = True

    def _forget(self) -> None:
        self._begun.clear()
        self._ended.clear()
        self._open.clear()
        self._sizes.clear()
        self._lost = 0

    def _begin(self, task: Task) -> None:
        """Note that the present execution of *task* started, unless that is known, and drop what an earlier one showed."""
        id_, known = task.id, self._begun.get(task.id)
        if known is not None and known[0] == task.execution:
            return
        if known is not None:
            self._drop(id_, below=task.node.child is None)  # a nested graph goes on from its last commit
        self._number += 1
        one = _Item(self._number, "live", live(task, "started", task.attempt), id_, 0)
        self._begun[id_] = task.execution, one
        self._wait(one)

    def _kept_as(self, mode: str, item: Any, task_id: str) -> _Item | None:
        """Return the item that was shown last, in the form in which it is kept; None if it cannot be stored."""
        if mode == "messages" and task_id:
            from graphrt.harness.protocol import TextDelta, ThinkingDelta  # loaded by now: an agent shows the item

            piece = item.item
            if type(piece) in (TextDelta, ThinkingDelta):  # kept as it is, since its class is immutable
                return _Item(self._number, mode, item, task_id, len(piece.text) + PIECE_BYTES)
        made = self._encoded(_Item(self._number, mode, item, task_id, 0), self._shown_at)
        return None if made is None else _Item(self._number, mode, made, task_id, len(made))

    def _encoded(self, one: _Item, seq: int) -> bytes | None:
        """Return the line of an item that comes after the entry *seq*; None if a value in it cannot be stored."""
        if type(one.item) is bytes:
            return one.item
        with suppress(NotStorable):
            return line(self._codec, one.number, seq, one.mode, one.item, one.task_id)
        return None

    def _keep(self, one: _Item) -> None:
        """Keep an item for followers who come later; the oldest of its task go if there is too much."""
        if one.size > OPEN_BYTES:
            self._lost += 1
            return
        root = one.task_id.partition("/")[0]
        shown = self._open.setdefault(root, deque())
        shown.append(one)
        size = self._sizes.get(root, 0) + one.size
        while size > OPEN_BYTES:
            size -= shown.popleft().size
            self._lost += 1
        self._sizes[root] = size

    def _drop(self, task_id: str, *, below: bool = True) -> None:
        """Drop what a task has shown, because its attempt was given up; with *below*, also tasks of its nested graph."""
        inside = f"{task_id}/"
        gone = [id_ for id_ in self._begun if id_ == task_id or (below and id_.startswith(inside))]
        for id_ in gone:
            del self._begun[id_]
        self._ended.difference_update(gone)
        root = task_id.partition("/")[0]
        kept = deque(one for one in self._open.get(root, ()) if one.task_id not in gone)
        self._open[root] = kept
        self._sizes[root] = sum(one.size for one in kept)

    def _wait(self, one: _Item) -> None:
        """Have an item handed over with the next batch, if somebody follows."""
        if not self.is_followed or one.size > MOST_BYTES:
            return
        self._waiting.append((self._shown_at, one))
        self._waiting_size += one.size
        while self._waiting_size > MOST_BYTES or len(self._waiting) > MOST_ITEMS:
            self._waiting_size -= self._waiting.popleft()[1].size

    def follow(self, *, wanted: bool) -> None:
        """Begin or end to hand items over: the thread has a follower now, or none any more."""
        engine = self._engine
        with self._lock:
            self.is_followed = wanted
            if not wanted:
                self._waiting.clear()
                self._waiting_size = 0
                return
            self._wants_again, self._is_told = True, False
            # Tasks that have shown nothing yet have started all the same. This thread is not the one that drives them:
            # it looks whether the superstep is still the same after it has read them.
            superstep, seq = engine.superstep, self._seq()
            tasks = (*engine.tasks,) if self._task is None else (self._task,)
            if not tasks or (superstep, seq) != (engine.superstep, self._seq()):
                return
            self._turn(superstep, seq)
            for task in tasks:
                if task.status == RUNNING or (task.status == DUE and task in (engine.lone, self._task)):
                    self._begin(task)
                elif task.status == HANDLED:
                    self._drop(task.id)
                elif task.id in self._begun and self._begun[task.id][0] != task.execution:  # it waits for a retry
                    self._drop(task.id, below=task.node.child is None)
                elif task.status == DONE and task.id in self._begun and task.id not in self._ended:
                    self._show("live", ended(task), task.id)

    def flush(self, *, again: bool = False) -> None:
        """Hand over what waits.

        Called before each commit, so that followers get items before the entries after them, and besides every 0.05
        seconds by the worker thread that looks for followers.

        Args:
            again: Whether what the open tasks have shown may be told again now. It is, in any case, to the first follower.
        """
        # Without the lock, which each commit would have to take. An item that comes just now waits for the next call.
        again = again or not self._is_told
        if not self._waiting and not (again and self.is_followed):
            return
        with self._sending:
            with self._lock:
                waiting = [*self._waiting]
                self._waiting.clear()
                self._waiting_size = 0
                told = self._again() if again and self._is_time() else None
            heading = Heading(self._writer, self._task.id if self._task is not None else "")
            with suppress(Exception):  # the numbers of the next items show followers the gap
                self._check()
                for some in _parts(waiting, lambda pair: pair[1].size) if waiting else ():
                    lines = list[bytes]()
                    for seq, pairs in groupby(some, key=itemgetter(0)):
                        lines += self._lines(seq, [one for _, one in pairs])[0]
                    if lines:
                        self._send(batch(heading, lines))
            if told is not None:
                with suppress(Exception):
                    self._check()
                    for part, shown in enumerate(told[1]):
                        self._send(batch(heading._replace(again=told[0], begins=part == 0), shown))

    def _is_time(self) -> bool:
        """Return whether to tell again what the open tasks have shown, if they have shown anything."""
        old = monotonic() - self._again_at > AGAIN_S or self._sent > AGAIN_BYTES
        return self.is_followed and self.has_shown and (self._wants_again or old)

    def _again(self) -> tuple[Again, list[list[bytes]]]:
        """Return what the open tasks have shown: what to say of it, and its lines, those of each batch.

        The numbers in a batch are greater than those in the one before: a reader skips what it has by them.
        """
        self._wants_again, self._is_told = False, True
        self._again_at, self._sent = monotonic(), 0
        begun = [one for _, one in self._begun.values()]
        shown = sorted(begun + [one for some in self._open.values() for one in some])
        lost, parts = self._lost, list[list[bytes]]()
        for some in _parts(shown, lambda one: one.size):
            made, unstorable = self._lines(self._shown_at, some)
            parts.append(made)
            lost += unstorable
        return Again(self._number, self._shown_at, lost), parts

    def _lines(self, seq: int, shown: Sequence[_Item]) -> tuple[list[bytes], int]:
        """Return items as lines, and how many cannot be stored. Pieces of one text share a line: they are many and short.

        Args:
            seq: Number of the last entry before them.
            shown: The items.
        """
        lines, lost = list[bytes](), 0
        for is_text, found in groupby(sorted(shown, key=_together), key=lambda one: _together(one)[0]):
            for one in [*found] if not is_text else ():
                made = self._encoded(one, seq)
                lost += made is None
                lines += () if made is None else (made,)
            for _, pieces in groupby(found, key=_together) if is_text else ():
                of_one = [(one.number, one.item) for one in pieces]
                try:
                    lines.append(texts(self._codec, seq, of_one))
                except NotStorable:
                    lost += len(of_one)
        return lines, lost

    def _send(self, body: bytes) -> None:
        """Give one batch to the store, and let it delete the batches that need not be kept any more.

        The caller holds `_sending`. The id of a batch is `writer-number`, since the store needs a new one for each.
        """
        self._batches += 1
        place = self._store.relay(self._thread, f"{self._writer}-{self._batches}", body, forget=self._forgotten())
        self._kept.append((place, len(body), monotonic()))
        self._kept_size += len(body)
        self._sent += len(body)

    def _forgotten(self) -> int:
        """Return the place of the last batch that the store need not keep any more; 0 if there is none.

        These batches are older than `KEPT_S` seconds, or the writer has more than `KEPT_BYTES` in the store. Older ones of
        other writers go with them; these tell again what is open every `AGAIN_S` seconds.
        """
        place, old = 0, monotonic() - KEPT_S
        while self._kept and (self._kept_size > KEPT_BYTES or self._kept[0][2] < old):
            place, size, _ = self._kept.popleft()  # the time was looked at
            self._kept_size -= size
        return place


def _together(one: _Item) -> tuple[bool, str, str, int]:
    """Return a key that pieces of one text share, and nothing else does; it sorts all other items by their numbers."""
    if one.mode == "messages" and type(one.item) is not bytes:
        return True, one.task_id, type(one.item.item).__name__, 0
    return False, "", "", one.number


def _parts(items: Sequence[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield *items* in order, in groups that end once they have more than `BATCH_BYTES`; one empty group without any."""
    some: list[T] = []
    total = 0
    for one in items:
        some.append(one)
        total += size(one)
        if total > BATCH_BYTES:
            yield some
            some, total = [], 0
    if some or not items:
        yield some
