"""The scripted driver: performs the effects of a flow without worker threads, waiting or an event loop.

For tests and simulation. The caller chooses the order in which tasks of a superstep end, and replies may come from a
table instead of the nodes. The journal must be the one that the other drivers write (the law of parity). For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, final

from graphrt._ambient import WithoutContext, inside
from graphrt._drivers.context import Context
from graphrt._drivers.failures import outcome, swallowed
from graphrt._drivers.run_services import RunServices
from graphrt._engine.committed import Committed, Uncommitted
from graphrt._engine.task import Task
from graphrt._flows.child import nested
from graphrt._flows.effects import Await, Collect, Flow, Now, Record, Sleep, Stage, Start, Stop, Tell, Time
from graphrt._flows.live import Live

Choose = Callable[[Sequence[Task]], int]
"""Receives the started tasks and returns the index of the one that ends next."""


@final
class ScriptedDriver:
    """Drives one run step by step in the caller.

    Args:
        services: Services shared by the tasks of the run.
        replies: Replies of tasks by node name, in order. A node without a reply left is called.
        choose: Chooses the task that ends next; by default the first.
        times: How often the outcome of each of several tasks is delivered. Repetitions must not change anything (the
            law of duplicates).
    """

    __slots__ = ("_choose", "_now", "_open", "_times", "replies", "services")

    def __init__(
        self,
        services: RunServices,
        *,
        replies: Mapping[str, Sequence[Any]] | None = None,
        choose: Choose | None = None,
        times: int = 1,
    ) -> None:
        self.services = services
        self.replies = {node: list(items) for node, items in (replies or {}).items()}
        """Replies that are not used yet."""
        self._choose: Choose = choose if choose is not None else _first
        self._times = times
        self._open: list[Task] = []
        """Tasks that were started and have not ended."""
        self._now = 0.0
        """Monotonic time in seconds: the sum of all sleeps."""

    def drive(self, flow: Flow) -> Any:
        """Perform the effects of *flow* until it ends; return its result.

        Raises:
            BaseException: What the flow raises.
        """
        try:
            effect = flow.send(None)
            while True:
                try:
                    reply = self._perform(effect)
                except BaseException as error:  # noqa: BLE001 - the flow records it and raises it again
                    effect = flow.throw(error)
                else:
                    effect = flow.send(reply)
        except StopIteration as stop:
            return stop.value

    def _perform(self, effect: Any) -> Any:  # noqa: C901 - one case for each effect
        """Perform one effect, and return the answer for the flow."""
        match effect:
            case Task():
                return self._call(effect)
            case Start():
                self._open += effect.tasks
            case Collect():  # ends one task, whose node is called only now
                task = self._open.pop(self._choose(self._open))
                execution = task.execution
                return [(task, execution, self._call(task))] * self._times  # a single call, whose reply is repeated
            case Stop():  # tasks that have not ended were never called
                self._open.clear()
                return []
            case Record():
                self.services.written(effect)
            case Tell():
                self.services.tell()
            case Stage():
                self.services.keep(effect.staged)
            case Committed() | Uncommitted():  # only yielded if there is a reader
                self.services.reader.show(effect)  # type: ignore[union-attr]
            case Live():
                self.services.show_live(effect)
            case Sleep():
                self._now += effect.seconds
            case Time():
                return self.services.clock()
            case Now():
                return self._now
            case Await():
                return by_hand(effect.coroutine)
            case _:
                raise AssertionError(effect)
        return None

    def _call(self, task: Task) -> Any:
        """Return the reply of *task*: from the table, from its nested graph, or by calling its node."""
        node = task.node
        # As `invoke` does for the other drivers, but without timeouts, cache, measurement, watchers, cleanup of model
        # calls, and groups of pauses.
        scripted = self.replies.get(node.name)
        if scripted:
            return scripted.pop(0)
        if node.child is not None:
            return ScriptedDriver(self.services, choose=self._choose, times=self._times).drive(
                nested(task, self.services.control)
            )
        context = Context(self.services, task) if node.wants_context else None
        try:
            with inside(node=WithoutContext(self.services, task) if context is None else context):
                reply = node.fn(task.state) if context is None else node.fn(task.state, context)
                if inspect.iscoroutine(reply):
                    reply = by_hand(reply)
        except BaseException as error:
            reply = outcome(task, error, self.services.control, context=context)
            if isinstance(reply, BaseException):
                raise
            return reply
        if context is not None and context._suspended:  # the node caught the pause of its own question
            return swallowed(task)
        # `_charged` marks replies whose model calls count against a token budget in the state.
        return reply if context is None or context._kept is None else context._charged(reply)


def by_hand(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine without an event loop, and return its result; for async nodes under the scripted driver.

    The coroutine may only await bare yields, such as `asyncio.sleep(0)`.

    Raises:
        RuntimeError: The coroutine awaits something that needs an event loop.
    """
    try:
        while True:
            waits_for = coroutine.send(None)
            if waits_for is not None:
                coroutine.close()
                raise RuntimeError(f"without an event loop nothing can bring {waits_for!r}")
    except StopIteration as stop:
        return stop.value


def _first(_tasks: Sequence[Task]) -> int:
    """End the task that was started first; the default `Choose`."""
    return 0
