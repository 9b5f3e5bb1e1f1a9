"""The writer's side of live items: keeps what a run shows while its tasks are open, and hands it over to followers.

A *follower* is a reader of the thread, usually in another process, which gets the items through the store (decision
0160). It may come late: the items that the open tasks have shown so far are kept here, in memory, and repeated when the
first follower comes (decision 0228). Later followers find that in the store, with all that came after it. It is
repeated from time to time while more is shown, because the old batches are deleted then.

A *writer* is a run, or one execution of a task by a worker of its queue (decision 0233): it does not have the thread, and
shows this task alone. `LiveShow` connects a relay with the services of its writer.

The items of a task are dropped when its superstep commits, since the journal has them then, and when its attempt is
given up. Without a follower nothing is handed over. Pieces of texts are kept as they are; other items are encoded when
they are shown, since their values may change later.

No error here may end a run or hold it up: items that cannot be encoded or handed over are dropped, and so are items
that come faster than a batch may grow. Each item of a writer has a number, so a reader sees from a gap how many it
missed. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast, final

from graphrt._codec import NotStorable
from graphrt._engine.task import DONE, DUE, HANDLED, RUNNING
from graphrt._flows.live import Live, ended, live
from graphrt._journal.mail_watch import Handover
from graphrt._runs.live_items import PIECE_BYTES, Again, Heading, batch, line, model_attempts, text_pieces, texts
from graphrt.stores.protocol import Store
from graphrt.stores.values import KEPT_S, NewBatch

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task
    from graphrt._flows.live import MessageItem

T = TypeVar("T")

MOST_ITEMS: Final = 1_000
MOST_BYTES: Final = 2**20
"""Maximum number, and total size in bytes, of items waiting to be delivered. Beyond that, the oldest are dropped."""
OPEN_BYTES: Final = 2**20
"""Maximum size, in bytes, of the kept items of an open top-level task and its nested graphs. Beyond that, the oldest
are dropped."""
BATCH_BYTES: Final = 2**18
"""Size of items, in bytes, at which a batch ends and the next one begins, so that a reader need not read much at
once."""
KEPT_BYTES: Final = 8 * 2**20
"""Maximum number of bytes of a run that the store keeps for slow followers."""
LIVELY_S: Final = 1.0
"""Seconds for which a writer is polled more often after it has shown something."""
AGAIN_S: Final = KEPT_S * 0.8
AGAIN_BYTES: Final = KEPT_BYTES // 2
"""Seconds, and bytes handed over, after which the items of the open tasks are repeated, if more were shown."""


class _Item(NamedTuple):
    """An item of an open task, kept for followers who come later."""

    number: int
    mode: str
    item: Any
    """The item; for a value that may change later, the line that it was encoded to."""
    task_id: str
    size: int
    """Its approximate size in bytes."""


def _nothing() -> None:
    """Default `check` of a relay, for a run: it holds the claim on its thread, so nothing else can show its tasks."""


@final
class LiveRelay:
    """The items that one writer shows, for followers.

    Args:
        store: The store.
        thread: The thread.
        writer: Id of the run, or of the execution of *task*. Each writer of a thread has its own.
        engine: The engine of the top graph.
        seq: Returns the number of the thread's last known entry, which precedes the next item.
        task: The task of a queue that is executed; None for a run, which shows all tasks.
        check: Raises if another process may have taken over the task; then nothing is handed over.
    """

    # fmt: off
    __slots__ = (
        "_again_at",
        "_again_last",
        "_attempts",
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
        "_put_at",
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
        self._put_at = 0.0
        """Monotonic time at which it came."""
        self._superstep = self._shown_at = -1
        """Superstep of the kept items, and number of the last entry when the newest item was shown."""
        self._begun: dict[str, tuple[int, _Item]] = {}
        """Maps an open task to its current execution and to the item that announced its start."""
        self._ended: set[str] = set()
        """Those tasks with an item that reports their end."""
        self._open: dict[str, deque[_Item]] = {}
        """Maps an open top-level task to its other items, nested graphs included, in order."""
        self._sizes: dict[str, int] = {}
        """Maps an open top-level task to the size of its kept items in bytes."""
        self._attempts: dict[str, int] = {}
        """Maps a task to the number of the item that began the last attempt of a model call."""
        self._lost = 0
        """Number of items of the open tasks that could not be kept."""
        self._waiting: deque[tuple[int, _Item]] = deque()
        """Items not yet handed over, oldest first, each with the number of the last entry before it."""
        self._waiting_size = 0
        self._wants_again = False
        """Whether followers need a repetition of the open tasks' items."""
        self._is_told = False
        """Whether the current followers can start from a repetition."""
        self._again_at = 0.0
        """Monotonic time of the last repetition."""
        self._again_last = 0
        """Number of the last item then."""
        self._sent = 0
        """Bytes handed over since then."""
        self._batches = 0
        """Number of the last batch."""
        self._kept: deque[tuple[int, int, float]] = deque()
        """Place, bytes and monotonic time of the batches that the store keeps, oldest first."""
        self._kept_size = 0
        """Bytes of these batches."""
        self._lock = Lock()
        """Guards the kept and the waiting items."""
        self._sending = Lock()
        """Held while a batch is handed over, to keep batches in order. It also guards the descriptions of batches."""

    @property
    def _codec(self) -> Codec:
        return self._engine.plan.codec

    @property
    def has_shown(self) -> bool:
        """Whether open tasks have shown something that a later follower would need."""
        return bool(self._begun)

    @property
    def shows_now(self) -> bool:
        """Whether something was shown within the last second, so that more items are likely."""
        return monotonic() - self._put_at < LIVELY_S

    def put(self, mode: str, item: Any, task: Task | None) -> None:
        """Accept an item from any worker thread.

        Args:
            mode: The stream mode that shows it: `custom`, `messages` or `live`.
            item: The item, as that mode gives it.
            task: The task that shows it; None if it is about the run.
        """
        with self._lock:
            self._put_at = monotonic()
            self._turn(self._engine.superstep, self._seq())
            if type(item) is Live and self._told(item, task):
                return
            if task is not None:
                self._show(mode, item, self._begin(task))
            else:
                self._show(mode, item, item.task_id if type(item) is Live else "")

    def _show(self, mode: str, item: Any, task_id: str) -> None:
        """Keep an item, and have it handed over."""
        if type(item) is Live and item.what == "ended":
            self._ended.add(task_id)
        self._number += 1
        if mode == "messages" and task_id:  # an item about the run is a BudgetWarning
            self._note_attempt(cast("MessageItem", item).item, task_id)
        shown = self._kept_as(mode, item, task_id)
        if shown is None:
            self._lost += 1  # its number stays used: followers see the gap
            return
        self._keep(shown)
        self._wait(shown)

    def _note_attempt(self, piece: object, task_id: str) -> None:
        """Note the beginning of an attempt of a model call, and drop the text of one that failed."""
        cls = type(piece)
        began, failed = model_attempts()
        if cls is began:
            self._attempts[task_id] = self._number
        elif cls is failed:  # the next attempt shows its reply from the beginning
            since = self._attempts.pop(task_id, 0)
            self._retain(
                task_id, lambda item: item.task_id != task_id or item.number < since or type(item.item) is bytes
            )
            self._wants_again = True  # else a follower arriving now would see that text

    def _told(self, item: Live, task: Task | None) -> bool:
        """Handle an item that starts a task or ends the kept items of one; return False for any other item."""
        if item.what == "started":
            if task is not None:
                self._begin(task)
            return True
        if item.what == "withdrawn":
            self._drop(item.task_id)
            self._wants_again = True  # else a follower arriving now would see it first
        elif item.what == "step" and not item.path:  # its superstep is committed, and the journal has it
            self._forget()
        else:
            return False
        self._number += 1
        shown = self._kept_as("live", item, item.task_id)
        if shown is not None:
            self._wait(shown)
        return True

    def _turn(self, superstep: int, seq: int) -> None:
        """Forget the items of an earlier superstep, now that a task of another superstep shows something."""
        if superstep != self._superstep:
            self._superstep = superstep
            self._forget()
        # Also for an entry in an open superstep: followers that start there need the items again.
        if seq != self._shown_at:
            self._shown_at = seq
            self._wants_again = True

    def _forget(self) -> None:
        self._begun.clear()
        self._ended.clear()
        self._open.clear()
        self._sizes.clear()
        self._attempts.clear()
        self._lost = 0

    def _begin(self, task: Task) -> str:
        """Record the start of the current execution of *task*, unless known, and drop the items of an earlier one.

        Returns:
            The id of the task, which takes time to make.
        """
        id_ = task.id
        known = self._begun.get(id_)
        if known is not None and known[0] == task.execution:
            return id_
        if known is not None:
            self._drop(id_, below=task.node.child is None)  # a nested graph continues from its last commit
        self._number += 1
        started = _Item(self._number, "live", live(task, "started", task.attempt), id_, 0)
        self._begun[id_] = task.execution, started
        self._wait(started)
        return id_

    def _kept_as(self, mode: str, item: Any, task_id: str) -> _Item | None:
        """Return the last item in the form in which it is kept; None if it cannot be stored."""
        if mode == "messages" and task_id and type(item.item) in text_pieces():  # kept as it is: it is immutable
            return _Item(self._number, mode, item, task_id, len(item.item.text) + PIECE_BYTES)
        encoded = self._encoded(_Item(self._number, mode, item, task_id, 0), self._shown_at)
        return None if encoded is None else _Item(self._number, mode, encoded, task_id, len(encoded))

    def _encoded(self, item: _Item, seq: int) -> bytes | None:
        """Return the line of an item that comes after the entry *seq*; None if a value in it cannot be stored."""
        if type(item.item) is bytes:
            return item.item
        with suppress(NotStorable):
            return line(self._codec, item.number, seq, item.mode, item.item, item.task_id)
        return None

    def _keep(self, item: _Item) -> None:
        """Keep an item for later followers; the oldest items of its task are dropped if there are too many."""
        if item.size > OPEN_BYTES:
            self._lost += 1
            return
        root = item.task_id.partition("/")[0]
        shown = self._open.get(root)
        if shown is None:
            shown = self._open[root] = deque()
        shown.append(item)
        size = self._sizes.get(root, 0) + item.size
        while size > OPEN_BYTES:
            size -= shown.popleft().size
            self._lost += 1
        self._sizes[root] = size

    def _drop(self, task_id: str, *, below: bool = True) -> None:
        """Drop the items of a task whose attempt was abandoned; with *below*, also those of its nested graph."""
        prefix = f"{task_id}/"
        dropped = [id_ for id_ in self._begun if id_ == task_id or (below and id_.startswith(prefix))]
        for id_ in dropped:
            del self._begun[id_]
        self._ended.difference_update(dropped)
        self._retain(task_id, lambda item: item.task_id not in dropped)

    def _retain(self, task_id: str, is_valid: Callable[[_Item], bool]) -> None:
        """Keep only the valid items of the top-level task that *task_id* belongs to."""
        root = task_id.partition("/")[0]
        rest = deque(item for item in self._open.get(root, ()) if is_valid(item))
        self._open[root] = rest
        self._sizes[root] = sum(item.size for item in rest)

    def _wait(self, item: _Item) -> None:
        """Queue an item for the next batch, if there is a follower."""
        if not self.is_followed or item.size > MOST_BYTES:
            return
        self._waiting.append((self._shown_at, item))
        self._waiting_size += item.size
        while self._waiting_size > MOST_BYTES or len(self._waiting) > MOST_ITEMS:
            self._waiting_size -= self._waiting.popleft()[1].size

    def follow(self, *, wanted: bool) -> None:
        """Start or stop handing over items, because the thread now has a follower or no longer has one."""
        engine = self._engine
        with self._lock:
            self.is_followed = wanted
            if not wanted:
                self._waiting.clear()
                self._waiting_size = 0
                return
            self._wants_again, self._is_told = True, False
            # Tasks that have shown nothing yet have still started. They are driven by another worker thread, so check
            # after reading them that the superstep is still the same.
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
        """Hand over the waiting items. Called before each commit, so that followers get items before the next entries.

        Args:
            again: As for `handing_over`.
        """
        with self.handing_over(again=again) as handover, suppress(Exception):
            handover.places.extend(self._store.relay(handover.batches) if handover.batches else ())

    @contextmanager
    def handing_over(self, *, again: bool) -> Generator[Handover]:
        """Yield the waiting items for the caller to store. Batches stay in order, since no others are made meanwhile.

        If they are not stored, the numbers of the next items show followers the gap.

        Args:
            again: Whether the open tasks' items may be repeated now. They always are for the first follower.
        """
        # Without the lock, since every commit would have to take it. An item that arrives now waits for the next call.
        again = again or not self._is_told
        if not self._waiting and not (again and self.is_followed):
            yield Handover((), [])
            return
        with self._sending:
            handover = Handover(self._made(again=again), [])
            yield handover
            now = monotonic()
            # Without places, the batches were not stored.
            for sent_batch, place in zip(handover.batches, handover.places, strict=False):
                self._kept.append((place, len(sent_batch.body), now))
                self._kept_size += len(sent_batch.body)
                self._sent += len(sent_batch.body)

    def _made(self, *, again: bool) -> list[NewBatch]:
        """Return the waiting items as batches, with *again* also the open tasks' items; none if encoding fails."""
        with self._lock:
            waiting = [*self._waiting]
            self._waiting.clear()
            self._waiting_size = 0
            repeat = self._again() if again and self._is_time() else None
        bodies: list[bytes] = []
        heading = Heading(self._writer, self._task.id if self._task is not None else "")
        with suppress(Exception):
            self._check()
            for part_items in _parts(waiting, lambda pair: pair[1].size) if waiting else ():
                lines = list[bytes]()
                for seq, pairs in groupby(part_items, key=itemgetter(0)):
                    lines += self._lines(seq, [item for _, item in pairs])[0]
                if lines:
                    bodies.append(batch(heading, lines))
            if repeat is not None:
                parts = enumerate(repeat[1])
                bodies += [
                    batch(heading._replace(again=repeat[0], begins=part == 0), encoded) for part, encoded in parts
                ]
        forget = self._forgotten()
        batches: list[NewBatch] = []
        for body in bodies:
            self._batches += 1  # the store needs a new id for each
            batches.append(NewBatch(self._thread, f"{self._writer}-{self._batches}", body, forget))
        return batches

    def _is_time(self) -> bool:
        """Return whether to repeat the open tasks' items, if there are any.

        While nothing more is shown, no batch is deleted, and the store keeps them for the thread's followers.
        """
        is_old = self._number > self._again_last and (
            monotonic() - self._again_at > AGAIN_S or self._sent > AGAIN_BYTES
        )
        return self.is_followed and self.has_shown and (self._wants_again or is_old)

    def _again(self) -> tuple[Again, list[list[bytes]]]:
        """Return the open tasks' items: the header and the lines of each batch.

        Numbers increase from batch to batch, so that a reader can skip what it already has.
        """
        self._wants_again, self._is_told = False, True
        self._again_at, self._again_last, self._sent = monotonic(), self._number, 0
        begun = [started for _, started in self._begun.values()]
        shown = sorted(begun + [item for items in self._open.values() for item in items])
        lost, parts = self._lost, list[list[bytes]]()
        for part in _parts(shown, lambda item: item.size):
            encoded, unstorable = self._lines(self._shown_at, part)
            parts.append(encoded)
            lost += unstorable
        return Again(self._number, self._shown_at, lost), parts

    def _lines(self, seq: int, shown: Sequence[_Item]) -> tuple[list[bytes], int]:
        """Return items as lines, and how many cannot be stored. The many short pieces of one text share a line.

        Args:
            seq: Number of the last entry before them.
            shown: The items.
        """
        lines, lost = list[bytes](), 0
        pieces: dict[tuple[str, str], list[tuple[int, MessageItem]]] = {}
        for item in shown:
            if item.mode == "messages" and type(item.item) is not bytes:
                pieces.setdefault((item.task_id, type(item.item.item).__name__), []).append((item.number, item.item))
            elif (encoded := self._encoded(item, seq)) is not None:
                lines.append(encoded)
            else:
                lost += 1
        for numbered in pieces.values():
            try:
                lines.append(texts(seq, numbered))
            except ValueError:
                lost += len(numbered)
        return lines, lost

    def _forgotten(self) -> int:
        """Return the place of the last batch that the store no longer has to keep; 0 if there is none.

        Such batches are older than `KEPT_S` seconds, or the writer has more than `KEPT_BYTES` in the store. Older
        batches of other writers are deleted with them; those writers repeat the open items every `AGAIN_S` seconds.
        """
        place, oldest_time = 0, monotonic() - KEPT_S
        while self._kept and (self._kept_size > KEPT_BYTES or self._kept[0][2] < oldest_time):
            place, size, _ = self._kept.popleft()  # the time was already checked
            self._kept_size -= size
        return place


def _parts(items: Sequence[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield *items* in order, in groups that end once they have more than `BATCH_BYTES`; one empty group without any."""
    part: list[T] = []
    total = 0
    for item in items:
        part.append(item)
        total += size(item)
        if total > BATCH_BYTES:
            yield part
            part, total = [], 0
    if part or not items:
        yield part
