"""Doubles of nodes, for `graph.with_nodes({...})`: they do nothing, follow a script, fail, wait, ask or fan out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

from graphrt._drivers.context import Context
from graphrt._forks import FreshLock
from graphrt.commands import Command, NodeRef, Send
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.testing_doubles import NODE_SCRIPT_LEFT_OVER, SCRIPT_USED_UP
from graphrt.testing.virtual_clock import VirtualClock


def noop(state: Any) -> None:
    """Do nothing: a node that writes nothing and follows its edges."""


@final
class ScriptedNode:
    """A node that returns the results of a list, one for each call; `scripted` makes it.

    It may be called by several tasks at once: each gets the next result.
    """

    def __init__(self, results: Iterable[Any]) -> None:
        self._results = list(results)
        self._lock = FreshLock()
        self.states: list[Any] = []
        """The state of each call, in order."""
        self.args: list[Any] = []
        """`ctx.arg` of each call, in order."""

    def __call__(self, state: Any, ctx: Context[Any]) -> Any:
        """Return the next result, or raise it if it is an exception; a function is called with the state.

        Raises:
            ScriptError: The list is used up.
        """
        with self._lock:
            at = len(self.states)
            self.states.append(state)
            self.args.append(ctx.arg)
        if at >= len(self._results):
            raise SCRIPT_USED_UP(node=ctx.node, calls=at + 1, results=len(self._results))
        result = self._results[at]
        if isinstance(result, BaseException):
            raise result
        return result(state) if callable(result) and not isinstance(result, type) else result

    @property
    def remaining(self) -> int:
        """How many results were not used yet."""
        return max(0, len(self._results) - len(self.states))

    def assert_done(self) -> None:
        """Check that every result was used.

        Raises:
            ScriptError: Results are left over.
        """
        if self.remaining:
            raise NODE_SCRIPT_LEFT_OVER(calls=len(self.states), left=self.remaining)


def scripted(*results: Any) -> ScriptedNode:
    """Return a node that returns *results*, one for each call.

    Args:
        results: Whatever a node may return: updates, None, Commands. An exception is raised instead, and a function is
            called with the state.
    """
    return ScriptedNode(results)


def failing(times: int = 1, then: Any = None, *, error: Callable[[], BaseException] | None = None) -> ScriptedNode:
    """Return a node that fails in its first calls, and then succeeds once.

    Args:
        times: How many calls fail.
        then: What the call after them returns.
        error: Makes each error, by class or function; by default a `ConnectionError`, which retry policies repeat.

    Raises:
        InputError: *times* is not a number of calls.
    """
    if type(times) is not int or times < 0:
        raise INVALID_ARGUMENT(
            argument="times= of failing()", value=times, wanted="how many calls fail: an int, 0 or more"
        )
    make = error if error is not None else lambda: ConnectionError("the test says so")
    return ScriptedNode([*(make() for _ in range(times)), then])


def slow(seconds: float, then: Any = None, *, clock: VirtualClock) -> Callable[[Any], Any]:
    """Return a node during which *seconds* pass on a virtual clock. It takes no real time.

    Args:
        seconds: How much time passes in each call.
        then: What it returns; a function is called with the state.
        clock: The clock that the runtime was given too.
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
        payload: What it asks.
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
        args: The arguments, which the tasks get as `ctx.arg`.
        update: What the node writes itself.
    """
    items = list(args)

    def node(state: Any) -> Command[Any]:  # noqa: ARG001 - the signature of a node
        return Command(update=update, goto=[Send(target, item) for item in items])

    return node
