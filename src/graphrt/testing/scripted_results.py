"""`scripted` and `raises`: results in order, for a node in `graph.with_nodes` or a tool in `Runtime(tools=)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, final

from graphrt._arguments import a_kind
from graphrt._drivers.context import Context
from graphrt._forks import FreshLock
from graphrt.errors import ScriptError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, WRONG_RETURN_VALUE
from graphrt.errors._codes.doubles import SCRIPT_LEFT_OVER
from graphrt.errors._codes.testing_doubles import SCRIPT_USED_UP
from graphrt.harness._doubles.tool_doubles import called_by_name
from graphrt.harness._doubles.unused import note
from graphrt.harness.script import clip

_ERROR: Final = "an exception, its class, or a function that makes one"


@final
class ScriptedResults:
    """A node or a tool that returns the results of a list, one for each call; `scripted` makes it.

    It may be called by several tasks at once: each gets the next result.
    """

    def __init__(self, results: Iterable[Any]) -> None:
        self._results = list(results)
        self._lock = FreshLock()
        self._calls = 0
        self._failure: ScriptError | None = None
        self.states: list[Any] = []
        """For a node: the state of each call, in order."""
        self.args: list[Any] = []
        """For a node: `ctx.arg` of each call, in order."""
        self.arguments: list[dict[str, Any]] = []
        """For a tool: the validated arguments of each call, in order."""
        self._noted = note("scripted(...)", self._left)

    def __call__(self, state: Any, ctx: Context[Any]) -> Any:
        """Return the next result for a node, or raise it if it is an exception; a function is called with the state.

        Raises:
            ScriptError: The list is used up.
        """
        with self._lock:
            self.states.append(state)
            self.args.append(ctx.arg)
            result = self._next(f"node {ctx.node!r}")
        return result(state) if _is_function(result) else result

    def tool_result(self, tool: str, arguments: Mapping[str, Any], /) -> Any:
        """Return the next result for a tool, or raise it; a function is called with the arguments, by name.

        Raises:
            ScriptError: The list is used up, or the function does not take the arguments.
        """
        with self._lock:
            self.arguments.append(dict(arguments))
            result = self._next(f"tool {tool!r}")
        return called_by_name(result, tool, arguments) if _is_function(result) else result

    def _next(self, of: str) -> Any:
        """Return the next result, or raise it if it is an exception or its class. The caller holds the lock."""
        self._calls += 1
        if self._calls > len(self._results):
            self._failure = self._failure or SCRIPT_USED_UP(of=of, calls=self._calls, results=len(self._results))
            raise self._failure.with_traceback(None)
        result = self._results[self._calls - 1]
        if isinstance(result, BaseException):
            raise result.with_traceback(None)
        if issubclass(type(result), type) and issubclass(result, BaseException):
            raise result
        return result

    @property
    def remaining(self) -> int:
        """Number of unused results."""
        return max(0, len(self._results) - self._calls)

    def _left(self) -> list[str]:
        """Describe the unused results."""
        return [clip(repr(result), 80) for result in self._results[self._calls :]]

    def assert_done(self) -> None:
        """Check that every result was used, and that there were no more calls than results.

        Raises:
            ScriptError: Results are left over, or were missing.
        """
        if self._noted is not None:
            self._noted.checked = True
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self.remaining:
            raise SCRIPT_LEFT_OVER(
                double="scripted node or tool",
                number=self.remaining,
                calls=self._calls,
                items="; ".join(self._left()),
                and_more="",
            )


def scripted(*results: Any) -> ScriptedResults:
    """Return a node or a tool that returns *results*, one for each call.

    `graph.with_nodes({"search": scripted(...)})` replaces a node, and `Runtime(graph, tools={"charge": scripted(...)})`
    a tool of an agent.

    Args:
        results: Whatever a node may return (updates, None, Commands), or a tool (texts, data, a `ToolResult`). An
            exception, or its class, is raised instead. A function is called, with the state or with the tool's arguments by name.
    """
    return ScriptedResults(results)


def raises(error: BaseException | Callable[[], BaseException]) -> Callable[..., NoReturn]:
    """Return a function that raises *error*: an item of `scripted`, or a node or tool that always fails.

    Args:
        error: An exception; or its class, or a function, which makes a new one for each call.

    Raises:
        InputError: It is something else (`input`).
    """
    make = error_maker("The error of raises()", error)

    def fail(*_state: Any, **_arguments: Any) -> NoReturn:
        raise make().with_traceback(None)

    return fail


def error_maker(name: str, error: Any) -> Callable[[], BaseException]:
    """Return a function that makes the exception *error*, which is an exception, its class, or a function that makes it.

    Raises:
        InputError: *error*, passed as *name*, is something else, or (from the returned function) makes no exception.
    """
    if not callable(error) and not isinstance(error, BaseException):
        raise INVALID_ARGUMENT(argument=name, value=error, wanted=_ERROR)

    def make() -> BaseException:
        made: Any = error if isinstance(error, BaseException) else error()
        if not isinstance(made, BaseException):
            raise WRONG_RETURN_VALUE(function=name, returned=a_kind(made), wanted="an exception")
        return made

    return make


def _is_function(result: Any) -> bool:
    return callable(result) and not isinstance(result, type)
