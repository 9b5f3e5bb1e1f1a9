"""Doubles of nodes, for `graph.with_nodes({...})`: they do nothing, fail, wait, ask or fan out.

Nodes that follow a script are in `scripted_results`, because tools follow such scripts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from graphrt._arguments import each
from graphrt._drivers.context import Context
from graphrt.commands import Command, NodeRef, Send
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.testing.scripted_results import ScriptedResults, error_maker
from graphrt.testing.virtual_clock import VirtualClock


def noop(state: Any) -> None:
    """Do nothing: a node that writes nothing and follows its edges."""


def failing(
    times: int = 1, then: Any = None, *, error: BaseException | Callable[[], BaseException] | None = None
) -> ScriptedResults:
    """Return a node that fails in its first calls, and then succeeds.

    Args:
        times: Number of calls that fail.
        then: Result of the call after them.
        error: An exception, or its class or a function, which makes each error; by default a `ConnectionError`, which retry policies retry.

    Raises:
        InputError: *times* is not a number of calls, or *error* makes no exception.
    """
    if type(times) is not int or times < 0:
        raise INVALID_ARGUMENT(
            argument="times= of failing()", value=times, wanted="how many calls fail: an int, 0 or more"
        )
    make = error_maker("error= of failing()", _refused if error is None else error)
    return ScriptedResults([*(make() for _ in range(times)), then])


def _refused() -> ConnectionError:
    return ConnectionError("the test says so")


def slow(seconds: float, then: Any = None, *, clock: VirtualClock) -> Callable[[Any], Any]:
    """Return a node that advances a virtual clock by *seconds*. It takes no real time.

    Args:
        seconds: Time to advance in each call.
        then: Its result; a function is called with the state.
        clock: The clock that the runtime also uses.
    """

    def node(state: Any) -> Any:
        clock.sleep(seconds)
        return then(state) if callable(then) else then

    return node


def interrupting(
    payload: Any, then: Callable[[Any], Any] | None = None, *, key: str | None = None
) -> Callable[[Any, Context[Any]], Any]:
    """Return a node that asks a question and pauses.

    Args:
        payload: Payload of the question.
        then: Makes its result from the answer; without it, the node writes nothing.
        key: Key of the question; see `Context.interrupt`.
    """

    def node(state: Any, ctx: Context[Any]) -> Any:  # noqa: ARG001 - the signature of a node
        answer = ctx.interrupt(payload, key=key)
        return None if then is None else then(answer)

    return node


def fan_out(
    target: NodeRef, args: Iterable[Any], update: Mapping[str, Any] | None = None
) -> Callable[[Any], Command[Any]]:
    """Return a node that starts one task of *target* for each of *args*.

    Args:
        target: The node to start.
        args: The arguments, available to the tasks as `ctx.arg`.
        update: The node's own update.

    Raises:
        InputError: *args* is not a list.
    """
    items = each("args", args)

    def node(state: Any) -> Command[Any]:  # noqa: ARG001 - the signature of a node
        return Command(update=update, goto=[Send(target, item) for item in items])

    return node
