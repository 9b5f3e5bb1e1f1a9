"""`run_scripted`: a deterministic run without an event loop or worker threads.

Replies come from a table, and the test determines the order in which tasks end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from graphrt._drivers.scripted import ScriptedDriver
from graphrt._runs import open_run
from graphrt._runs.stream_items import NOTHING, STEPS
from graphrt.graph import CompiledGraph
from graphrt.runtime import RunResult, Runtime, Step

S = TypeVar("S")


def run_scripted(
    graph: CompiledGraph[S, Any, Any],
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
        graph: The graph to run.
        input: As for `Runtime.run`.
        replies: Node name to the results of its tasks, used one after another. A node without replies, or whose replies
            are used up, is called.
        choose: Takes the open tasks of a superstep and returns the index of the one that ends next; by default the
            first.
        times: How often each outcome is delivered; repetitions must change nothing.
        steps: A list to which the steps of the run are appended, even if it fails.
        thread: As for `Runtime.run`.
        check_state: Find nodes that change the state in place.
        options: Further options of `Runtime`.

    Raises:
        GraphrtError: The run failed.
    """
    runtime: Runtime[S] = Runtime(graph, check_state=check_state, **options)
    reads = NOTHING if steps is None else STEPS
    run = open_run.begin(runtime._config, input, thread, reads=reads)
    driver = ScriptedDriver(run.services, replies=replies, choose=choose, times=times)
    try:
        status = driver.drive(run.flow())
    except BaseException as error:
        run.broke(error)
        raise
    finally:
        if steps is not None and run.items is not None:
            steps += run.items.queue
    return run.ended(status)
