"""An event loop without a selector, with virtual time and an externally chosen order of parallel tasks.

Each callback belongs to a `Turn`, the execution of a node that scheduled it, or has no owner. Callbacks without an
owner, those of graphrt, run first and in order. Then the loop picks one of the turns that can continue, and runs its
oldest callback. If there is no callback, time jumps to the next timer.

A sleep may end late, but neither early nor after a pending timeout. So `pick` may also choose a sleeping turn, if its
sleep ends before the next timeout. Then time jumps, and the ready turns are delayed.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NoReturn, TypeVar, final

T = TypeVar("T")
_MOST_TURNS: Final = 20_000
"""Maximum number of callbacks of nodes in one run, which stops a node that polls forever."""
_MOST_JUMPS: Final = 10_000
"""Maximum number of time jumps between two callbacks of nodes; after them, only graphrt's own timers are left."""
_FROM_THREADS_S: Final = 1.0
"""Seconds that the loop waits in real time for a callback from another thread, if there is no other callback."""
_SLEEP: Final[Any] = vars(asyncio.futures)["_set_result_unless_cancelled"]
"""A callback that `asyncio.sleep` schedules. Timeouts schedule other functions."""


@final
class Turn:
    """One execution of a node."""

    __slots__ = ("name", "node", "number", "state")

    def __init__(self, node: str, name: str, number: int, state: Any) -> None:
        self.node = node
        self.name = name
        """Id of its task, or the node's name."""
        self.number = number
        """Number of executions that began before it."""
        self.state = state
        """The arguments of the node."""


TURN: Final[ContextVar[Turn | None]] = ContextVar("graphrt_turn", default=None)
"""The execution to which a callback belongs. asyncio tasks that a node starts inherit it."""
Pick = Callable[[int, Sequence[str]], int]
"""Takes the number of the choice and the names of the turns that can continue; returns the index of one."""
Watch = Callable[[Turn], AbstractContextManager[object]]


class HangError(Exception):
    """A run can never end: its tasks wait for something that never happens, or poll forever."""

    def __init__(self, node: str, what: str) -> None:
        super().__init__(f"node {node!r} {what}")
        self.node = node


@final
class VirtualLoop(asyncio.BaseEventLoop):
    """Runs coroutines deterministically. It has no selector, so it refuses and records I/O.

    Args:
        pick: Chooses among the turns that can continue; not called if there is only one.
    """

    _ready: deque[Any]
    _scheduled: list[Any]
    # The two queues of `BaseEventLoop`: callbacks, and a heap of timers. Type stubs do not know the first.

    def __init__(self, pick: Pick) -> None:
        super().__init__()
        self._pick = pick
        self._watch: Watch | None = None
        self._now = 0.0
        self._begun = 0
        self._running: dict[Turn, None] = {}
        """Executions that have not ended, in the order in which they began."""
        self._mine: deque[asyncio.Handle] = deque()
        self._theirs: dict[Turn, deque[asyncio.Handle]] = {}
        self._jumps = 0
        self._woken: Turn | None = None
        """A turn that was chosen while sleeping, which continues next."""
        self._called = threading.Event()
        self.order: list[int] = []
        """At each choice, the index of the turn that continued."""
        self.sizes: list[int] = []
        """At each choice, the number of turns that could continue: 2 or more."""
        self.went: list[str] = []
        """For each callback, the name of the turn that continued."""
        self.stages: list[dict[str, int]] = [{}]
        """For each stretch between two moments without an open turn, maps names to numbers of callbacks."""
        self.noted: dict[tuple[str, str], None] = {}
        """Pairs of a node and an action beyond the loop's control, in order of occurrence."""
        self.stuck: HangError | None = None
        self.refused = False
        """Whether I/O of a node was refused, so that it could not continue."""
        self._thread_id: int | None = None
        self.set_exception_handler(lambda _loop, _context: None)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def begins(self, node: str, name: str, state: Any) -> Turn:
        """Return a turn for an execution of *node* that begins."""
        turn = Turn(node, name, self._begun, state)
        self._begun += 1
        self._running[turn] = None
        return turn

    def ends(self, turn: Turn) -> None:
        """Forget *turn*, whose execution has ended."""
        self._running.pop(turn, None)
        if not self._running and self.stages[-1]:
            self.stages.append({})

    def watch_with(self, watch: Watch) -> None:
        """From now on, run each callback of a node in a context of *watch*."""
        self._watch = watch

    def note(self, turn: Turn | None, what: str) -> None:
        """Record that the node of *turn* did something that the loop cannot order."""
        if turn is not None:
            self.noted[turn.node, what] = None

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, main: Awaitable[T]) -> T:
        """Run *main* to its end, even under another running loop, and close the loop.

        Raises:
            HangError: It can never end.
            BaseException: What *main* raises.
        """
        with no_loop():
            try:
                self._task = asyncio.ensure_future(main, loop=self)
                try:
                    return self.run_until_complete(self._task)
                except asyncio.CancelledError:
                    if self.stuck is not None:
                        raise self.stuck from None
                    raise
            finally:
                self._leave()

    def _leave(self) -> None:
        """Cancel the remaining work of nodes, and close the loop."""
        self._watch = None
        remaining = asyncio.all_tasks(self)
        for task in remaining:
            task.cancel()
        self._jumps = 0
        try:
            if remaining and self.stuck is None:
                self.run_until_complete(asyncio.wait(remaining))
            self.run_until_complete(self.shutdown_asyncgens())
        except (HangError, RuntimeError):
            pass  # a task that cannot be cancelled is left to the garbage collection
        self.close()

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def _run_once(self) -> None:
        while self._ready:
            handle = self._ready.popleft()
            turn = handle._context.get(TURN)
            if turn is None:
                self._mine.append(handle)
            else:
                self._theirs.setdefault(turn, deque()).append(handle)
        if self._mine:
            self._call(self._mine.popleft(), None)
        elif self._theirs:
            self._go_on()
        elif not self._jump():
            self._wait_for_threads()

    def _go_on(self) -> None:
        """Run a callback of a ready turn, or advance time for a sleeping one while others are delayed."""
        ready = sorted(self._theirs, key=lambda turn: turn.number)
        chosen = self._woken
        self._woken = None
        if chosen is None or chosen not in self._theirs:
            sleeps = {turn: when for turn, when in self._sleeping().items() if turn not in self._theirs}
            turns = [*ready, *sleeps]
            chosen = turns[self._choose([turn.name for turn in turns])]
            if chosen in sleeps:
                self._woken = chosen
                self._pass_time(sleeps[chosen])
                return
        handles = self._theirs[chosen]
        handle = handles.popleft()
        if not handles:
            del self._theirs[chosen]
        if handle._cancelled:
            return
        self._jumps = 0
        self.went.append(chosen.name)
        if chosen in self._running:
            self.stages[-1][chosen.name] = self.stages[-1].get(chosen.name, 0) + 1
        if len(self.went) % _MOST_TURNS == 0:
            self._stick(f"went on {_MOST_TURNS:,} times and did not end", chosen)
        self._call(handle, chosen)

    def _choose(self, names: Sequence[str]) -> int:
        if len(names) == 1:
            return 0
        index = min(self._pick(len(self.order), names), len(names) - 1)
        self.order.append(index)
        self.sizes.append(len(names))
        return index

    def _call(self, handle: asyncio.Handle, turn: Turn | None) -> None:
        if not handle._cancelled:
            with self._watch(turn) if turn is not None and self._watch is not None else nullcontext():
                handle._run()

    def _sleeping(self) -> dict[Turn, float]:
        """Return the turns whose next sleep ends before the next timeout, with the end times, in that order."""
        sleeps: dict[Turn, float] = {}
        for timer in sorted(timer for timer in self._scheduled if not timer._cancelled):
            turn = timer._context.get(TURN)
            if turn is None or timer._callback is not _SLEEP:
                break
            sleeps.setdefault(turn, timer._when)
        return sleeps

    def _jump(self) -> bool:
        """Advance time to the end of a sleep, or else to the next timer; return False if there is none."""
        timers = [timer for timer in self._scheduled if not timer._cancelled]
        if not timers:
            return False
        self._jumps += 1
        if self._jumps > _MOST_JUMPS:
            self._stick("waits for something that nobody brings")
            self._jumps = 0
            return True
        sleeps = self._sleeping()
        if sleeps:
            self._woken = list(sleeps)[self._choose([turn.name for turn in sleeps])]
            self._pass_time(sleeps[self._woken])
        else:
            self._pass_time(min(timers)._when)
        return True

    def _pass_time(self, until: float) -> None:
        self._now = max(self._now, until)
        timers = sorted(timer for timer in self._scheduled if not timer._cancelled)
        for timer in timers:
            if timer._when <= self._now:
                timer._scheduled = False
                self._mine.append(timer)  # the woken turn is chosen later; the timer itself makes no choice
        self._scheduled = [timer for timer in timers if timer._when > self._now]
        heapq.heapify(self._scheduled)

    def _wait_for_threads(self) -> None:
        self._called.clear()
        if self._ready or (threading.active_count() > 1 and self._called.wait(_FROM_THREADS_S)):
            return
        self._stick("waits for something that nobody brings")

    def _stick(self, problem: str, turn: Turn | None = None) -> None:
        if self.stuck is not None:
            raise self.stuck
        waiting = [turn] if turn is not None else list(self._running)
        self.stuck = HangError(waiting[0].node if waiting else "?", problem)
        self._task.cancel()

    # -- outside -------------------------------------------------------------------------------------------------

    def _write_to_self(self) -> None:
        """Register a callback that may be scheduled from any thread."""
        if threading.get_ident() != self._thread_id:
            for turn in tuple(self._running):
                self.note(turn, "waits for a thread: when that answers is not the explorer's choice")
        self._called.set()

    def run_in_executor(  # type: ignore[override]  # its types vary by version, and nobody calls it through this class
        self,
        executor: Any,  # noqa: ARG002 - there is one thread
        func: Callable[..., Any],
        *args: Any,
    ) -> Any:
        """Run *func* on this thread, in one piece, at a moment chosen like that of an await."""
        future = self.create_future()
        if not _own(func):
            self.note(TURN.get(), "uses a worker thread: what it does there was run in one piece")

        def work() -> None:
            if future.cancelled():
                return
            try:
                with no_loop():
                    result = func(*args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(work)
        return future


def _own(func: Any) -> bool:
    """Return whether *func* belongs to graphrt, as calls of a store do."""
    while isinstance(func, partial):
        func = func.func
    owner = getattr(func, "__module__", None) or type(getattr(func, "__self__", None)).__module__
    return str(owner).startswith("graphrt.")


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(self: VirtualLoop, *_args: object, **_options: object) -> NoReturn:
        turn = TURN.get()
        self.refused = True
        problem = f"does I/O or starts a process ({name})"
        self.note(turn, problem)
        raise RuntimeError(f"{f'node {turn.node!r}' if turn is not None else 'the run'} {problem}")

    return refuse


for _name in (
    *("add_reader", "add_writer", "connect_read_pipe", "connect_write_pipe", "create_connection", "getaddrinfo"),
    *("create_datagram_endpoint", "create_server", "create_unix_connection", "create_unix_server", "getnameinfo"),
    *("sock_accept", "sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_sendall", "sock_sendto"),
    *("start_tls", "sendfile", "sock_sendfile", "subprocess_exec", "subprocess_shell", "add_signal_handler"),
):
    setattr(VirtualLoop, _name, _refused(_name))


@contextmanager
def no_loop() -> Generator[None]:
    """Hide the running event loop, as if the code inside ran in a worker thread."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio._enter_task(loop, task)
