"""`run_scripted`: a deterministic run without an event loop or worker threads.

Replies come from a table, and the test determines the order in which tasks end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from graphrt._arguments import a_kind, check_count, is_async, is_mapping, is_number
from graphrt._drivers.scripted import ScriptedDriver
from graphrt._runs import open_run
from graphrt._runs.stream_items import NOTHING, STEPS
from graphrt.errors import closest
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_NODE_ASKED, WRONG_RETURN_VALUE
from graphrt.errors._codes.doubles import SCRIPT_LEFT_OVER
from graphrt.graph import CompiledGraph
from graphrt.harness.script import clip
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
            are used up, is called. Nodes of nested graphs are always called.
        choose: Takes the open tasks of a superstep and returns the index of the one that ends next; by default the
            first.
        times: How often each outcome is delivered; repetitions must change nothing.
        steps: A list to which the steps of the run are appended, even if it fails.
        thread: As for `Runtime.run`.
        check_state: Find nodes that change the state in place.
        options: Further options of `Runtime`.

    Raises:
        InputError: *replies* names an unknown node, *choose* returned something other than the index of a task, or an
            argument does not fit.
        ScriptError: The run ended, and replies are left over.
        GraphrtError: The run failed.
    """
    check_count("times= of run_scripted()", times)
    chooser: Any = choose
    if chooser is not None and (not callable(chooser) or is_async(chooser)):
        raise INVALID_ARGUMENT(
            argument="choose= of run_scripted()", value=choose, wanted="a sync function of the tasks"
        )
    runtime: Runtime[S] = Runtime(graph, check_state=check_state, **options)
    _check_replies(replies, graph)
    reads = NOTHING if steps is None else STEPS
    run = open_run.begin(runtime._config, input, thread, reads=reads)
    driver = ScriptedDriver(
        run.services, replies=replies, choose=None if choose is None else _checked(choose), times=times
    )
    try:
        status = driver.drive(run.flow())
    except BaseException as error:
        run.broke(error)
        raise
    finally:
        if steps is not None and run.items is not None:
            steps += run.items.queue
    result = run.ended(status)
    left = {node: items for node, items in driver.replies.items() if items}
    if left:
        number = sum(map(len, left.values()))
        raise SCRIPT_LEFT_OVER(
            double="run_scripted(replies=)",
            number=number,
            calls=sum(map(len, (replies or {}).values())) - number,
            items="; ".join(clip(f"{node!r}: {items!r}", 80) for node, items in left.items()),
            and_more="",
        )
    return result


def _check_replies(replies: Any, graph: CompiledGraph[Any, Any, Any]) -> None:
    """Check that *replies* names nodes of *graph*, because a renamed node would be called for real."""
    wanted = "a mapping from nodes to lists of their results"
    if replies is None:
        return
    if not is_mapping(replies):
        raise INVALID_ARGUMENT(argument="replies= of run_scripted()", value=replies, wanted=wanted)
    for name, items in replies.items():
        if name not in graph.nodes:
            raise UNKNOWN_NODE_ASKED(
                who="replies=", name=name, known_nodes=graph.nodes, or_end="", guess=closest(name, graph.nodes)
            )
        if isinstance(items, str | bytes) or not isinstance(items, Sequence):
            raise INVALID_ARGUMENT(argument=f"The replies of node {name!r}", value=items, wanted=wanted)


def _checked(choose: Callable[[Sequence[Any]], int]) -> Callable[[Sequence[Any]], int]:
    """Return *choose* with a check of the index that it returns."""

    def checked(tasks: Sequence[Any]) -> int:
        index: Any = choose(tasks)
        if not is_number(index, whole=True) or not -len(tasks) <= index < len(tasks):
            raise WRONG_RETURN_VALUE(
                function="choose=",
                returned=repr(index) if is_number(index) else a_kind(index),
                wanted=f"the index of one of the open tasks: 0 to {len(tasks) - 1}",
            )
        return index

    return checked
