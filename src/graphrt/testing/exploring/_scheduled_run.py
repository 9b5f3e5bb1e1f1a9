"""One run in a chosen order, as plain values that can be compared with those of another order.

Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, cast

from graphrt.graph import CompiledGraph
from graphrt.runtime import RunResult, Step
from graphrt.testing.scripted_run import run_scripted
from graphrt.testing.virtual_clock import VirtualClock

NEEDS_A_LOOP: Final = ("without an event loop nothing can bring", "no running event loop")
"""Parts of the messages of errors of nodes that wait for a real event loop: of `run_scripted` and of asyncio."""


@dataclass(slots=True, kw_only=True)
class Scheduled:
    """What a run did in one order."""

    order: tuple[int, ...]
    """At each choice, the index of the task that ended next among those still open."""
    sizes: tuple[int, ...]
    """At each choice, how many tasks were open: always 2 or more."""
    ended: tuple[str, ...]
    """Ids of the tasks at the choices, in the order in which they ended."""
    result: RunResult[Any] | None = None
    error: Exception | None = None
    input_changed: bool = False
    steps: list[Step[Any]] = field(default_factory=list[Step[Any]])

    @property
    def outcome(self) -> dict[str, Any]:
        """Name to value of everything that must not depend on the order."""
        if self.result is None:
            return {"error": (type(self.error).__name__, getattr(self.error, "node", None))}
        asked = [(question.node, question.payload) for question in self.result.interrupts]
        fields = {f"field {name!r}": value for name, value in plain(self.result.state).items()}
        return {**fields, "status": self.result.status, "interrupts": asked, "visited": self.result.visited}

    @property
    def swaps(self) -> int:
        """How far the order is from the order of the tasks."""
        return sum(self.order)


def plain(state: Any) -> dict[str, Any]:
    """Return the fields of a state of any supported form."""
    if isinstance(state, Mapping):
        return dict(cast("Mapping[str, Any]", state))
    return {name: getattr(state, name) for name in _names(state)}


def _names(state: Any) -> list[str]:
    kind: Any = state.__class__
    for name in ("model_fields", "__dataclass_fields__"):
        fields: Any = getattr(kind, name, None)
        if fields:
            return [str(field) for field in fields]
    found: dict[str, Any] = state.__dict__
    return list(found)


def scheduled(
    graph: CompiledGraph[Any, Any] | Callable[[], CompiledGraph[Any, Any]],
    input: Any,
    pick: Callable[[int, int], int],
    options: Mapping[str, Any],
) -> Scheduled:
    """Run *graph* once; *pick* gets the number of the choice and how many tasks are open."""
    order: list[int] = []
    sizes: list[int] = []
    ended: list[str] = []

    def choose(tasks: Sequence[Any]) -> int:
        if len(tasks) == 1:
            return 0
        index = min(pick(len(order), len(tasks)), len(tasks) - 1)
        order.append(index)
        sizes.append(len(tasks))
        ended.append(tasks[index].id)
        return index

    clock = VirtualClock()
    all_options: dict[str, Any] = {"clock": clock, "sleep": clock.sleep, **options}
    given = deepcopy(input)
    made = Scheduled(order=(), sizes=(), ended=())
    compiled = graph if isinstance(graph, CompiledGraph) else graph()
    try:
        made.result = run_scripted(compiled, given, choose=choose, steps=made.steps, **all_options)
    except Exception as error:  # noqa: BLE001 - how a run fails is one of the things to compare
        made.error = error
    made.order, made.sizes, made.ended = tuple(order), tuple(sizes), tuple(ended)
    made.input_changed = differs(given, input)
    return made


def differs(one: Any, other: Any) -> bool:
    """Return whether two values differ. Objects that only compare by identity are the same if their fields are."""
    if one is other or type(one) is not type(other):
        return one is not other
    compare: object = type(one).__eq__
    by_identity = compare is object.__eq__
    if by_identity and hasattr(one, "__dict__"):
        return differs(vars(one), vars(other))
    kind: Any = one.__class__
    if issubclass(kind, Mapping):
        return one.keys() != other.keys() or any(differs(one[key], other[key]) for key in one)
    if issubclass(kind, list | tuple):
        return len(one) != len(other) or any(map(differs, one, other))
    return repr(one) != repr(other) if by_identity else bool(one != other)
