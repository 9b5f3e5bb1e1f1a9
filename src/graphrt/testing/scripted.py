"""Running a graph by hand: replies from a table, tasks that end in a chosen order, no event loop and no worker thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from graphrt._drivers.scripted import ScriptedDriver
from graphrt._flows.run import Watch
from graphrt._runs import open_run
from graphrt.graph import CompiledGraph
from graphrt.runtime import RunResult, Runtime, Step

S = TypeVar("S")


def run_scripted(
    graph: CompiledGraph[S, Any],
    input: S | Mapping[str, Any],
    *,
    replies: Mapping[str, Sequence[Any]] | None = None,
    choose: Callable[[Sequence[Any]], int] | None = None,
    times: int = 1,
    steps: list[Step[S]] | None = None,
    thread: str | None = None,
    check_state: bool = True,
    **options: Any,
) -> RunResult[S]:
    """Run *graph* to its end without an event loop or a worker thread.

    Args:
        graph: What to run.
        input: As for `Runtime.run`.
        replies: Node name to what its tasks return, one after another; other nodes, and those whose replies are used
            up, are called.
        choose: Which of the open tasks of a superstep ends next, as an index into them.
        times: How often each outcome is delivered; more than once must change nothing.
        steps: Filled with the steps of the run.
        thread: As for `Runtime.run`.
        check_state: Find nodes that change the state in place.
        options: Of the Runtime.

    Raises:
        GraphrtError: The run failed.
    """
    runtime: Runtime[S] = Runtime(graph, check_state=check_state, **options)
    watch = Watch(steps=True) if steps is not None else None
    run = open_run.begin(runtime, input, thread, listen=False, watch=watch)
    driver = ScriptedDriver(run.services, replies=replies, choose=choose, times=times)
    try:
        status = driver.drive(run.flow())
    except BaseException as error:
        run.broke(error)
        raise
    finally:
        if steps is not None:
            steps += [item for item in driver.published if isinstance(item, Step)]
    return run.ended(status)
