"""Checks of single arguments (a number, text, mapping, list or type), with the same error texts everywhere.

All packages may use these checks, and the type guards and `is_async` at the end. A check that only one package needs, or whose error
text describes what that package does with the argument, belongs in that package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from math import inf
from types import FunctionType
from typing import Any, Literal, TypeGuard, TypeVar, final, overload

import typing_extensions as te

from graphrt.errors import a, a_type
from graphrt.errors._codes.arguments import (
    ARGUMENT_OUT_OF_BOUNDS,
    INVALID_ARGUMENT,
    WRONG_RETURN_VALUE,
)
from graphrt.errors._codes.stores import BAD_PATH

T = TypeVar("T")


@overload
def is_number(value: object, *, whole: Literal[True]) -> te.TypeGuard[int]: ...
@overload
def is_number(value: object, *, whole: bool = False) -> te.TypeGuard[float]: ...
def is_number(value: object, *, whole: bool = False) -> bool:
    """Return whether *value* is an int or, unless *whole* is true, a float.

    Although bool is a subclass of int, a bool does not count.
    """
    return isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)


def a_kind(value: Any) -> str:
    """Describe *value* by its type for an error message: `an int`, or `the class Agent` for a class."""
    return f"the class {value.__name__}" if isinstance(value, type) else a_type(value)


def mistake(text: str) -> str:
    """Return the text of a mistake that pydantic found, without the name of a private class at its end."""
    return text.partition(" or instance of ")[0]


def number_problem(
    name: str, value: Any, *, optional: bool, seconds: bool = False, factor: bool = False, least: float = 0
) -> str | None:
    """Return a sentence that says why *value* is not such a number, or None if it is.

    Args:
        name: Name of the argument, for the sentence.
        value: Value to check, of any type.
        optional: None is allowed.
        seconds: Fractions are allowed, and the sentence names seconds.
        factor: Fractions are allowed.
        least: Smallest allowed value.
    """
    if value is None:
        return None if optional else f"{name} must be a number, not None"
    kind = "a number of seconds" if seconds else "a number" if factor else "a whole number"
    if not is_number(value, whole=not (seconds or factor)):
        return f"{name} must be {kind}, not {value!r}"
    if not value >= least:  # written this way to reject NaN as well
        return f"{name} must be at least {least:g}, not {value!r}"
    if value == inf:
        return f"{name} must be finite, not {value!r}" + ("; None switches it off" if optional else "")
    return None


def check_whole(name: str, value: Any, *, least: float) -> None:
    """Check that *value* is None or a whole number of at least *least*.

    Raises:
        InputError: It is not.
    """
    _refuse(number_problem(name, value, optional=True, least=least), value)


def check_count(name: str, value: Any) -> None:
    """Check that *value* is a whole number of 1 or more.

    Raises:
        InputError: It is not.
    """
    problem = number_problem(name, value, optional=False, least=1)
    if problem is not None:
        raise ARGUMENT_OUT_OF_BOUNDS(problem=problem, wanted="a whole number, 1 or more", value=value)


def check_amount(name: str, value: Any, *, above: bool = False, most: float | None = None) -> None:
    """Check that *value* is None or a finite number of 0 or more.

    Args:
        above: Whether 0 is refused as well.
        most: Largest allowed value; None sets no upper bound.

    Raises:
        InputError: It is not.
    """
    problem = number_problem(name, value, optional=True, factor=True)
    if problem is None and value is not None:
        if above and not value > 0:
            problem = f"{name} must be more than 0, not {value!r}"
        elif most is not None and value > most:
            problem = f"{name} must be at most {most:g}, not {value!r}"
    _refuse(problem, value)


def check_text(name: str, value: Any) -> None:
    """Check that *value* is None or a non-empty string.

    Raises:
        InputError: It is not.
    """
    if value is not None and (not isinstance(value, str) or not value):
        raise INVALID_ARGUMENT(argument=name, value=value, wanted="a text")


def check_mapping(name: str, value: Any) -> None:
    """Check that *value* is None or a mapping.

    Raises:
        InputError: It is not.
    """
    if value is not None and not isinstance(value, Mapping):
        raise INVALID_ARGUMENT(  # only its type is shown: options hold credentials
            argument=name,
            value=type(value),
            wanted=f'a mapping from names to values, for instance {name}={{"user": "u-1"}}',
        )


def each(name: str, value: Any) -> tuple[Any, ...]:
    """Return the items of *value* as a tuple.

    Raises:
        InputError: It is not iterable, or it is a string, which would be read letter by letter.
    """
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise INVALID_ARGUMENT(argument=name, value=value, wanted=f"a list: {name}=[...]")
    return tuple(value)


def checked_type(name: str, value: Any, kind: type[T], fix: str) -> T | None:
    """Return *value* if it is None or of *kind*.

    Raises:
        InputError: It is something else.
    """
    if value is not None and not isinstance(value, kind):
        raise INVALID_ARGUMENT(argument=name, value=value, wanted=a(kind.__name__), fix=fix)
    return value


def checked_function(name: str, value: Any, fix: str) -> Any:
    """Return *value* if it is None or callable.

    Raises:
        InputError: It is something else.
    """
    if value is not None and not callable(value):
        raise INVALID_ARGUMENT(argument=name, value=value, wanted="a function", fix=fix)
    return value


def _refuse(problem: str | None, value: Any) -> None:
    if problem is not None:
        raise ARGUMENT_OUT_OF_BOUNDS(problem=problem, wanted="such a number, or None to leave it out", value=value)


def checked_path(path: Any) -> str:
    """Return *path* as a str.

    Raises:
        InputError: It is not the path of a file, or it names a store (`bad-path`).
    """
    text: Any = path if isinstance(path, str) else getattr(path, "__fspath__", lambda: path)()  # as os.fspath()
    if not isinstance(text, str) or not text or "\0" in text:
        what = f"{len(text):,} bytes" if isinstance(text, bytes) else repr(text)[:100]
        raise BAD_PATH(given=what)
    if text == ":memory:" or "://" in text:
        raise BAD_PATH(given=f"the name of a store, {text!r}")
    return text


def is_async(fn: Any) -> TypeGuard[Callable[..., Coroutine[Any, Any, Any]]]:
    """Return whether *fn* is an async function, an object with an async `__call__`, or a partial of one of these.

    Plain functions are tested by their flags: `inspect` took a tenth of a cheap effect.
    """
    if fn.__class__ is FunctionType and not fn.__dict__:  # neither a wrapper nor a function that may be marked
        return bool(fn.__code__.co_flags & inspect.CO_COROUTINE)
    while fn.__class__ is partial:
        fn = fn.func
    call = getattr(fn.__class__, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(call)


def not_awaitable(function: str, returned: T) -> T:
    """Return *returned*, the result of the user's *function*, whose truth is to be tested.

    Raises:
        InputError: It is a coroutine or another awaitable, which is true whatever it would return.
    """
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()  # so that Python does not warn that it was never awaited
        raise WRONG_RETURN_VALUE(
            function=function, returned=a_kind(returned), wanted="a plain value: it cannot be async"
        )
    return returned


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Return True if *value* is a mapping. Type checkers see a mapping with keys and values of any type."""
    return isinstance(value, Mapping)


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Return True if *value* can be iterated over."""
    return isinstance(value, Iterable)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return True if *value* is a list or a tuple, which stored data does not distinguish."""
    return isinstance(value, (list, tuple))


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """Return whether *value* is a tuple."""
    return isinstance(value, tuple)


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether *value* is a list or a tuple."""
    return isinstance(value, (list, tuple))


@final
class MappingError(Exception):
    """A mapping function of graphrt's own failed because of an argument of the user's, which the error shall name.

    Args:
        mapping: The argument, such as `context= of recursive()`.
        cause: What it raised.
    """

    def __init__(self, mapping: str, cause: BaseException) -> None:
        super().__init__(mapping, cause)
        self.mapping = mapping
        self.cause = cause
