"""One run in a chosen order, as plain values that can be compared with those of another order.

This module only records; `_order_bugs` finds the bugs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

from graphrt._arguments import a_kind
from graphrt.errors._codes.arguments import WRONG_RETURN_VALUE
from graphrt.graph import CompiledGraph
from graphrt.runtime import RunResult, Runtime, Step
from graphrt.testing.exploring._shared_objects import SharedObjects
from graphrt.testing.exploring._user_functions import Answers, called, pause
from graphrt.testing.exploring._values import differs, fields_of
from graphrt.testing.exploring._virtual_loop import Pick, Turn, VirtualLoop
from graphrt.testing.exploring._virtual_nodes import catch_tools, virtual
from graphrt.testing.exploring._watch import watching

START_S: Final = 1_700_000_000.0
"""Time at which each run begins, in seconds since the epoch."""
_THREAD: Final = "explored"
_MOST_PAUSES: Final = 50
"""Maximum number of pauses in one run, which stops a graph that asks forever."""


@dataclass(slots=True, kw_only=True)
class Scheduled:
    """The effects of a run in one order."""

    path: tuple[int, ...] = ()
    """At each choice, the index of the task that continued among those that could."""
    sizes: tuple[int, ...] = ()
    """At each choice, the number of tasks that could continue, always 2 or more."""
    went: tuple[str, ...] = ()
    """Names of the tasks in the order in which they continued, once per await."""
    stages: tuple[Mapping[str, int], ...] = ()
    """For each stretch of parallel tasks, maps names to how often the task continued."""
    result: RunResult[Any] | None = None
    error: Exception | None = None
    input_changed: bool = False
    steps: list[Step[Any]] = field(default_factory=list[Step[Any]])
    noted: tuple[tuple[str, str], ...] = ()
    """Pairs of a node and an action that cannot be ordered or repeated: 0..n."""
    mutated: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    """Pairs (node, field) of in-place changes of the state by nodes."""
    shared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Objects outside the state that changed: 0..n names with the nodes that reach them."""
    graph: str = "graph"
    """Name of the graph."""
    refused: bool = False
    """Whether I/O of a node was refused."""

    @property
    def outcome(self) -> dict[str, Any]:
        """Names and values of everything that must not depend on the order."""
        if self.result is None:
            return {"error": (type(self.error).__name__, getattr(self.error, "node", None))}
        asked = [(question.node, question.payload) for question in self.result.interrupts]
        fields = {f"field {name!r}": value for name, value in fields_of(self.result.state).items()}
        return {**fields, "status": self.result.status, "interrupts": asked, "visited": self.result.visited}

    @property
    def notes(self) -> dict[str, None]:
        """Actions of nodes that cannot be ordered or repeated, and data that they keep outside the state, as texts."""
        return dict.fromkeys(
            [
                *(f"node {node!r} {action}" for node, action in self.noted),
                *(_kept_outside(name, nodes) for name, nodes in self.shared),
            ]
        )

    @property
    def swaps(self) -> int:
        """Distance of the order from the order of the tasks."""
        return sum(self.path)

    @property
    def sites(self) -> list[tuple[None, int]]:
        """At each choice, the number of tasks that could continue."""
        return [(None, size) for size in self.sizes]

    @property
    def depths(self) -> range:
        """The number of each choice."""
        return range(len(self.path))


def _kept_outside(name: str, nodes: Sequence[str]) -> str:
    subject = f"nodes {', '.join(map(repr, nodes))} share" if len(nodes) > 1 else f"node {nodes[0]!r} keeps"
    return f"{subject} {name!r} outside the state, and it changed: no journal has it"


def virtual_options(loop: VirtualLoop, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of `Runtime` for a deterministic run with the time of *loop*; *options* overrides them."""

    async def sleep(seconds: float) -> None:
        if asyncio.get_running_loop() is loop:  # on other loops, those of `ctx.call`, waits take no time
            await asyncio.sleep(seconds)

    numbers = count(1)
    defaults: dict[str, Any] = {"seed": 0, "check_state": True, "ids": lambda: f"explored-{next(numbers)}"}
    return {**defaults, "clock": lambda: START_S + loop.time(), "sleep": sleep, **options}


def scheduled(
    graph: CompiledGraph[Any, Any, Any] | Callable[[], CompiledGraph[Any, Any, Any]],
    input: Any,
    pick: Pick,
    options: Callable[[], Mapping[str, Any]],
    answers: Answers,
    *,
    watched: bool = False,
) -> Scheduled:
    """Run *graph* once.

    Args:
        graph: The graph, or a function that makes it.
        input: The input; the run gets a copy.
        pick: Chooses which task continues.
        options: Returns the options of `Runtime`.
        answers: Answers to questions. Without any, the run ends at the first question.
        watched: Record actions of nodes that cannot be ordered or repeated.
    """
    loop = VirtualLoop(pick)
    run_input = deepcopy(input)
    run = Scheduled()
    if watched:
        loop.watch_with(_watch(loop, run))
    catch_tools()

    async def main() -> None:
        compiled: Any = graph
        if not isinstance(graph, CompiledGraph):
            compiled = called("the function that makes the graph", graph)
            if not issubclass(type(compiled), CompiledGraph):
                raise WRONG_RETURN_VALUE(
                    function="The function that makes the graph",
                    returned="None" if compiled is None else a_kind(compiled),
                    wanted="what compile() returned",
                )
        run.graph = compiled.name
        outside = SharedObjects(compiled) if watched else None
        with Runtime(virtual(compiled), **virtual_options(loop, options())) as runtime:
            try:
                await drive(runtime)
            finally:
                run.shared = outside.changed() if outside is not None else ()

    async def drive(runtime: Runtime[Any, Any]) -> None:
        stream = runtime.asteps(run_input)
        for _ in range(_MOST_PAUSES):
            async for step in stream:
                run.steps.append(step)
            result = stream.result
            if result is None or not result.interrupts or result.thread is None:
                break
            asked, waits_for, until = pause(result.interrupts)
            if waits_for or (asked and not answers):
                break
            if not asked:  # the thread only sleeps, which takes no time on this loop
                await asyncio.sleep(max(0.0, until - runtime.clock()))
            given_answers = {question.id: answers.of(question, question.payload) for question in asked}
            stream = runtime.asteps(thread=result.thread, answers=given_answers)
        run.result = stream.result

    try:
        loop.run(main())
    except Exception as error:  # noqa: BLE001 - how a run fails is one of the things to compare
        run.error = error
    run.path, run.sizes, run.went = tuple(loop.order), tuple(loop.sizes), tuple(loop.went)
    run.stages, run.noted, run.refused = tuple(loop.stages), tuple(loop.noted), loop.refused
    run.input_changed = differs(run_input, input)
    return run


def _watch(loop: VirtualLoop, run: Scheduled) -> Callable[[Turn], AbstractContextManager[object]]:
    """Return a watch that records calls of nodes, and state fields that they change in place."""

    @contextmanager
    def watch(turn: Turn) -> Generator[None]:
        try:
            before = deepcopy(fields_of(turn.state))
        except Exception:  # noqa: BLE001 - it cannot be copied, and so not be compared
            before = {}
        with watching(partial(loop.note, turn)):
            yield
        after = fields_of(turn.state) if before else {}
        run.mutated |= {(turn.node, name): None for name in before if differs(before[name], after.get(name))}

    return watch
