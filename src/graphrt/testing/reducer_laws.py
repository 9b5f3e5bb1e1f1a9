"""`check_reducer`: tests the laws of a reducer on values from Hypothesis.

A reducer is called again when a run resumes, and for each of several updates of one superstep. So it must be pure; the
other laws are optional, and are checked only if claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from graphrt.errors._codes.arguments import INVALID_ARGUMENT, MISSING_PACKAGE

_NOT_GIVEN: Final[Any] = object()


def check_reducer(
    reducer: Callable[[Any, Any], Any],
    values: Any,
    *,
    current: Any = None,
    identity: Any = _NOT_GIVEN,
    associative: bool = False,
    commutative: bool = False,
    batch: Callable[[Any, Any], Any] | None = None,
    max_examples: int = 100,
) -> None:
    """Check the laws of *reducer*; a violated law is reported with the smallest example found.

    Purity is always checked: neither argument is changed, the result shares no container that a later call changes, and
    equal arguments give equal results.

    Args:
        reducer: A function of the current and the incoming value.
        values: A Hypothesis strategy for incoming values.
        current: A strategy for current values; by default the incoming values, and results of the reducer for two of
            them.
        identity: A value that leaves the other one unchanged: `reducer(identity, x) == x`.
        associative: Whether grouping does not matter: `r(r(a, b), c) == r(a, r(b, c))`.
        commutative: Whether the order of updates does not matter: `r(r(a, b), c) == r(r(a, c), b)`.
        batch: Merges two updates into one, which must have the same effect: `r(r(a, b), c) == r(a, batch(b, c))`.
        max_examples: How many examples each law is tried on.

    Raises:
        AssertionError: A law does not hold. The message has the arguments and results.
        MissingExtraError: Hypothesis is not installed.
        InputError: *values* or *current* is not a strategy.
    """
    __tracebackhide__ = True
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis.strategies import SearchStrategy, one_of, tuples
    except ImportError as error:
        raise MISSING_PACKAGE(
            user="check_reducer()", package="hypothesis", extra="testing", value="hypothesis"
        ) from error
    for name, strategy in (("values", values), ("current", current)):
        if not isinstance(strategy, SearchStrategy) and not (name == "current" and strategy is None):
            raise INVALID_ARGUMENT(
                argument=f"{name}= of check_reducer()",
                value=strategy,
                wanted="a Hypothesis strategy, for instance st.lists(st.integers())",
            )
    label = getattr(reducer, "__name__", repr(reducer))
    start: SearchStrategy[Any] = current if current is not None else one_of(values, _folded(reducer, values))

    def neutral(a: Any, _: Any) -> None:
        _holds(a, reducer(deepcopy(identity), deepcopy(a)), label, "identity", f"{label}({identity!r}, x) is not x", a)

    laws: list[tuple[Callable[..., None], SearchStrategy[Any]]] = [(_pure(reducer, label), tuples(start, values))]
    if identity is not _NOT_GIVEN:
        laws.append((neutral, tuples(values, values)))
    three = tuples(start, values, values)
    claims = _claims(reducer, label, associative=associative, commutative=commutative, batch=batch)
    laws.extend((law, three) for law in claims)
    for law, strategy in laws:
        given(strategy)(
            settings(
                max_examples=max_examples,
                database=None,
                deadline=None,
                derandomize=True,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
            )(_on(law))
        )()


def _pure(reducer: Callable[[Any, Any], Any], label: str) -> Callable[..., None]:
    def pure(a: Any, b: Any) -> None:
        first = reducer(*(arguments := (deepcopy(a), deepcopy(b))))
        for word, before, after in (("current", a, arguments[0]), ("incoming", b, arguments[1])):
            _holds(before, after, label, "purity", f"it changes its {word} value", a, b)
        snapshot = deepcopy(first)
        second = reducer(deepcopy(a), deepcopy(b))
        _holds(snapshot, second, label, "purity", "the same arguments give different results", a, b)
        reducer(first, deepcopy(b))
        _holds(snapshot, first, label, "purity", "it changes what an earlier call returned", a, b)

    return pure


def _claims(
    reducer: Callable[[Any, Any], Any],
    label: str,
    *,
    associative: bool,
    commutative: bool,
    batch: Callable[[Any, Any], Any] | None,
) -> list[Callable[..., None]]:
    """Return the claimed laws about two updates of one value."""

    def regrouped(a: Any, b: Any, c: Any) -> Any:
        return reducer(a, reducer(b, c))

    def reordered(a: Any, b: Any, c: Any) -> Any:
        return reducer(reducer(a, c), b)

    def merged(a: Any, b: Any, c: Any) -> Any:
        return reducer(a, (batch or reducer)(b, c))

    claims = (
        (associative, "associativity", regrouped),
        (commutative, "commutativity", reordered),
        (batch is not None, "batching", merged),
    )
    return [_ternary(reducer, other, label, name) for claimed, name, other in claims if claimed]


def _on(law: Callable[..., None]) -> Callable[[tuple[Any, ...]], None]:
    def one(example: tuple[Any, ...]) -> None:
        __tracebackhide__ = True
        law(*example)

    return one


def _folded(reducer: Callable[[Any, Any], Any], values: Any) -> Any:
    """Return a strategy for results of the reducer, the values that it gets in the middle of a run."""

    def fold(pair: tuple[Any, Any]) -> Any:
        return reducer(*deepcopy(pair))

    from hypothesis.strategies import tuples

    return tuples(values, values).map(fold)


def _ternary(
    reducer: Callable[[Any, Any], Any], other: Callable[[Any, Any, Any], Any], label: str, law: str
) -> Callable[..., None]:
    def check(a: Any, b: Any, c: Any) -> None:
        left = reducer(reducer(*deepcopy((a, b))), deepcopy(c))
        right = other(*deepcopy((a, b, c)))
        _holds(left, right, label, law, f"one way gives {left!r}, the other {right!r}", a, b, c)

    return check


def _holds(left: Any, right: Any, label: str, law: str, why: str, *arguments: Any) -> None:
    # Types are compared as well: True == 1, and a list that became a tuple differs once stored.
    if type(left) is not type(right) or left != right:
        shown = ", ".join(map(repr, arguments))
        raise AssertionError(f"{label} breaks the law of {law}: {why}.\n  arguments: {shown}")
