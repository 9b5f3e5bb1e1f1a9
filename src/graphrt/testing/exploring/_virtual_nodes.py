"""A graph whose nodes all run on a `VirtualLoop`, including sync ones, each in one piece.

The copy has the names, edges and policies of the graph except its queues, and so its fingerprint. Before a node runs it waits for its
turn, so that the loop can choose which of several tasks begins.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from functools import wraps
from types import SimpleNamespace, coroutine
from typing import Any, Final

from graphrt._ambient import SURROUNDINGS, entered
from graphrt._drivers.context import Context
from graphrt.graph import ChosenGraph, CompiledGraph, chosen_graph
from graphrt.harness.tools import _invoke
from graphrt.testing.exploring._virtual_loop import TURN, VirtualLoop, no_loop

Hook = Callable[[Any, int], Any]
"""Takes the Context of an execution, and the nesting depth of its graph. Returns the Context that the node sees."""


def virtual(
    graph: CompiledGraph[Any, Any, Any], hook: Hook | None = None, *, depth: int = 0
) -> CompiledGraph[Any, Any, Any]:
    """Return a copy of *graph* for a `VirtualLoop`.

    Args:
        graph: The graph.
        hook: Called at the beginning of each execution of a node.
        depth: Its nesting depth.
    """
    graph = graph.without_queues()  # there are no workers here
    plan: Any = graph.__graphrt_plan__
    copies: dict[str, Any] = {name: virtual(child, hook, depth=depth + 1) for name, child in graph.nested.items()}
    copies |= {node.name: _copy(node, hook, depth) for node in plan.nodes if node.name not in copies}
    return graph.with_nodes(copies)


def _copy(node: Any, hook: Hook | None, depth: int) -> Any:
    fn = node.fn
    if not isinstance(fn, ChosenGraph):
        return _in_turns(node, hook, depth)
    choose = fn.choose
    return chosen_graph(lambda arg: virtual(choose(arg), hook, depth=depth + 1), states=fn.states)


def _in_turns(node: Any, hook: Hook | None, depth: int) -> Callable[..., Any]:
    name, fn = node.name, node.fn
    sync = not (node.is_async or node.policy.inline)

    async def call(state: Any, context: Any) -> Any:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):  # `ctx.call` and `asyncio.run` run on real loops
            raise TypeError(f"node {name!r} was run outside the explorer's event loop")
        turn = loop.begins(name, context.task_id if context is not None else name, state)
        token = TURN.set(turn)
        try:
            await _my_turn()
            if hook is not None and context is not None:
                context = hook(context, depth)
            if sync and context is not None:
                context = StandIn(context)
            arguments = (state, context) if node.wants_context else (state,)
            result = _in_a_thread(fn, arguments, context) if sync else fn(*arguments)
            result = await result if inspect.isawaitable(result) else result
            return getattr(context, "explored_result", _as_it_is)(result)
        finally:
            loop.ends(turn)
            TURN.reset(token)

    if node.wants_context:

        async def with_context(state: Any, context: Any) -> Any:
            return await call(state, context)

        return wraps(fn, updated=())(with_context)
    if hook is not None:  # the hook needs a context, which the function does not take

        async def beside_context(state: Any, context: Any) -> Any:
            return await call(state, context)

        return beside_context

    async def without_context(state: Any) -> Any:
        return await call(state, None)

    return wraps(fn, updated=())(without_context)


def _as_it_is(result: Any) -> Any:
    return result


@coroutine
def _my_turn() -> Generator[None, None, None]:
    yield


def _in_a_thread(fn: Callable[..., Any], arguments: tuple[Any, ...], context: Any) -> Any:
    """Call a sync node as on a worker thread: without a running loop, and with a Context for its agents."""
    token = entered(context)
    try:
        with no_loop():
            return fn(*arguments)
    finally:
        SURROUNDINGS.reset(token)


class StandIn:
    """A Context that wraps another Context.

    A sync node runs inside an async one here, whose Context refuses `call`. This one allows it.

    Args:
        real: The Context.
        changed: Attributes that differ from those of *real*.
    """

    def __init__(self, real: Any, **changed: Any) -> None:
        self._real = real
        self.__dict__.update(changed)

    __class__ = Context  # type: ignore[assignment]  # isinstance() must say what it says of the real one

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __repr__(self) -> str:
        return repr(self._real)

    @property
    def _task(self) -> Any:
        """The current task for `run_sync`: a task whose node is not async."""
        task = self._real._task
        return SimpleNamespace(node=SimpleNamespace(is_async=False), engine=task.engine)

    def call(self, fn: Any, *args: Any, **options: Any) -> Any:
        """Run an async function while the node waits, on a separate loop."""
        if inspect.iscoroutine(fn) or not callable(fn):
            return self._real.call(fn, *args, **options)  # which describes the problem
        return self._real._drive(lambda: fn(*args, **options))


_TOOLS: Final[Any] = _invoke
_REAL: Final = _TOOLS.in_a_worker_thread


def _tool(work: Callable[[], None]) -> None:
    """Run the work of a sync tool on the loop, if it is an explorer's, so that it ends at a chosen moment."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        _REAL(work)
        return

    def unlooped() -> None:
        with no_loop():
            work()

    loop.call_soon(unlooped)


def catch_tools() -> None:
    """Make sync tools of agents run on the explorer's loop; elsewhere they keep their worker threads."""
    _TOOLS.in_a_worker_thread = _tool
