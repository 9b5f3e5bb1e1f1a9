"""The configuration of a runtime: what its runs and its verbs need, checked and frozen.

`Runtime` builds one and passes it to every function of this package, none of which knows `Runtime` itself. The two
values that change, the runs that are active and the threads that runs share, are objects with methods of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, final

from graphrt._forks import Emptied
from graphrt._runs.check_state_option import checks_state

if TYPE_CHECKING:
    from graphrt import events
    from graphrt._drivers.shared_threads import SharedThreads
    from graphrt._flows.effects import Control
    from graphrt._journal.durability import Durability
    from graphrt.graph import CompiledGraph
    from graphrt.harness.agent._model_overrides import NamedModels
    from graphrt.harness.budget._budget import Budget
    from graphrt.limits import Limits
    from graphrt.migrations import Migration
    from graphrt.stores.protocol import Store


@final
class ActiveRuns:
    """The runs of one runtime that drive a thread right now, by the id of the thread."""

    __slots__ = ("_controls", "_forks")

    def __init__(self) -> None:
        self._controls: dict[str, Control] = {}
        self._forks: Emptied | None = None

    def add(self, thread: str, control: Control) -> None:
        """Note that a run drives *thread*."""
        if self._forks is None:
            # The child of os.fork() does not drive the runs of its parent.
            self._forks = Emptied(self._controls)
        self._controls[thread] = control

    def remove(self, thread: str, control: Control) -> None:
        """Note that the run of *control* has ended.

        Its last commit may have released the thread already, and a newer run may have its place.
        """
        if self._controls.get(thread) is control:
            del self._controls[thread]

    def cancel(self, thread: str, reason: str) -> bool:
        """Cancel the run that drives *thread*; return False if there is none."""
        control = self._controls.get(thread)
        if control is None:
            return False
        control.cancel(reason)
        return True

    def cancel_all(self, reason: str) -> None:
        """Cancel every run."""
        for control in list(self._controls.values()):
            control.cancel(reason)

    def __contains__(self, thread: str) -> bool:
        return thread in self._controls

    def __len__(self) -> int:
        return len(self._controls)


class RunConfig(NamedTuple):  # a frozen dataclass of so many fields takes 2 us longer to make
    """The checked arguments of a `Runtime`, which documents them. It is not used as a tuple."""

    graph: CompiledGraph[Any, Any]
    limits: Limits
    """Limits of a run: those of the graph, overridden by those of the runtime."""
    store: Store | None
    durability: Durability
    chain: bool | None
    lease_s: float
    migrations: tuple[Migration, ...]
    harness: Any
    deps: Any
    budget: Budget | None
    sinks: tuple[Callable[[events.Entry], Any], ...]
    clock: Callable[[], float]
    """Returns seconds since the epoch."""
    sleep: Callable[[float], Any] | None
    """Waits a number of seconds, sync or async; None waits in real time."""
    ids: Callable[[], str]
    seed: int | None
    models: NamedModels | None
    """Models that replace those of agents, by the agents' names."""
    check_state: bool | None
    active: ActiveRuns
    threads: SharedThreads

    @property
    def checks_state(self) -> bool:
        """Whether a run that begins now compares the state before and after each superstep."""
        return checks_state(given=self.check_state, harness=self.harness)
