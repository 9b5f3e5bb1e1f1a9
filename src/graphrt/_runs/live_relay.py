"""The driver's side of live items: collected while a reader follows the run, and handed to the store in batches.

A reader in another process gets the items through the store, as batches of lines, one line for each item (decision
0160). `ActiveRun` makes a `LiveRelay` when the first reader follows its run.

Nothing here may end a run or hold it up: what cannot be encoded or handed over is dropped, and so is what comes faster
than a batch may grow. Each item has a number in its run, so a reader sees from a gap how many it missed. For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._codec import NotStorable
from graphrt._runs.live_items import batch, line
from graphrt.stores.protocol import Store
from graphrt.stores.values import KEPT_S

if TYPE_CHECKING:
    from graphrt._codec import Codec

MOST_ITEMS: Final = 1_000
MOST_BYTES: Final = 2**20
"""Most items, and bytes of them, that wait to be handed over. Beyond that the oldest are dropped."""
BATCH_BYTES: Final = 2**18
"""Bytes of items after which a batch ends and another one begins, so that a reader need not read much at once."""
KEPT_BYTES: Final = 8 * 2**20
"""Most bytes of a run that the store keeps for slow followers."""


@final
class LiveRelay:
    """Live items of one run, on their way to the store.

    Args:
        store: The store.
        thread: The thread.
        run: Id of the run.
        codec: Encodes values of the graph.
        seq: Returns the number of the thread's last entry, after which an item comes.
    """

    def __init__(self, store: Store, thread: str, run: str, codec: Codec, seq: Callable[[], int]) -> None:
        self._store = store
        self._thread = thread
        self._run = run
        self._codec = codec
        self._seq = seq
        self._waiting: deque[bytes] = deque()
        """Encoded items that were not handed over yet, oldest first."""
        self._size = 0
        """Bytes of what waits."""
        self._number = self._batches = 0
        """Numbers of the last item and of the last batch."""
        self._kept: deque[tuple[int, int, float]] = deque()
        """Place, bytes and monotonic time of the batches that the store keeps, oldest first."""
        self._kept_size = 0
        """Bytes of these batches."""
        self._lock = Lock()
        """Guards what waits."""
        self._sending = Lock()
        """Held while a batch is handed over, so that batches are in order. It also guards `_kept` and `_batches`."""

    def put(self, mode: str, item: Any) -> None:
        """Take an item, from any worker thread. It is encoded now, since its node may change the value later.

        Args:
            mode: The stream mode that shows it: `custom`, `messages` or `live`.
            item: The item, as that mode gives it.
        """
        with self._lock:
            self._number += 1
            try:
                made = line(self._codec, self._number, self._seq(), mode, item)
            except NotStorable:
                return  # its number stays used: followers see the gap
            self._waiting.append(made)
            self._size += len(made)
            while self._size > MOST_BYTES or len(self._waiting) > MOST_ITEMS:
                self._size -= len(self._waiting.popleft())

    def flush(self) -> None:
        """Hand over what waits.

        Called before each commit, so that followers get items before the entries after them, and besides every 0.05
        seconds by the worker thread that looks for followers.
        """
        # Without the lock, which each commit would have to take. An item that comes just now waits for the next call.
        if not self._waiting:
            return
        with self._sending:
            with self._lock:
                lines, self._size = [*self._waiting], 0
                self._waiting.clear()
            with suppress(Exception):  # the numbers of the next items show followers the gap
                for some in _parts(lines):
                    self._send(batch(self._run, some))

    def _send(self, body: bytes) -> None:
        """Give one batch to the store, and let it delete the batches that need not be kept any more.

        The caller holds `_sending`. The id of a batch is `run-number`, since the store needs a new one for each.
        """
        self._batches += 1
        place = self._store.relay(self._thread, f"{self._run}-{self._batches}", body, forget=self._forgotten())
        self._kept.append((place, len(body), monotonic()))
        self._kept_size += len(body)

    def _forgotten(self) -> int:
        """Return the place of the last batch that the store need not keep any more; 0 if there is none.

        These batches are older than `KEPT_S` seconds, or the run has more than `KEPT_BYTES` in the store.
        """
        place, old = 0, monotonic() - KEPT_S
        while self._kept and (self._kept_size > KEPT_BYTES or self._kept[0][2] < old):
            place, size, _ = self._kept.popleft()  # the time was looked at
            self._kept_size -= size
        return place


def _parts(lines: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield *lines* in order, in groups that end once they have more than `BATCH_BYTES`."""
    some: list[bytes] = []
    size = 0
    for one in lines:
        some.append(one)
        size += len(one)
        if size > BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
