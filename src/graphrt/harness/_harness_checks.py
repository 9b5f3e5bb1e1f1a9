"""Whether what somebody passes can be asked anything, and what a model says that it used can be counted."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from graphrt.errors import InputError, a_type
from graphrt.events import Usage

_COUNTS: Final = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "calls")


def usable(value: Any, method: str) -> bool:
    """Whether *value* is an instance that has *method*."""
    return not isinstance(value, type) and callable(getattr(value, method, None))


def kind(value: Any) -> str:
    """What *value* is, for a message."""
    if isinstance(value, str):
        return repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else a_type(value)


def lack(value: Any, method: str) -> str:
    """Why *value* cannot be used, for a message."""
    if isinstance(value, type):
        return "a class cannot be asked: its instances can"
    other = "invoke" if method == "run" else "run"
    return f"it has {other}() and no {method}()" if usable(value, other) else f"it has no {method}()"


def check_harness(harness: Any, *, taker: str, of_model: str, otherwise: str, **data: Any) -> None:
    """Refuse what is no harness.

    Args:
        taker: Who takes one, the beginning of a sentence.
        of_model: What to do with a model.
        otherwise: What to do with anything else.

    Raises:
        InputError: It has no `run`, or is a class.
    """
    if not usable(harness, "run"):
        raise InputError(
            f"{taker}, not {kind(harness)}.",
            known=lack(harness, "run"),
            fix=of_model if usable(harness, "invoke") else otherwise,
            code="bad-harness",
            value=harness,
            **data,
        )


def check_real(asked: Any) -> None:
    """Let the model or harness *asked* refuse a real request, before its profile is read or a budget counts with it.

    Raises:
        ModelRequestForbiddenError: This process forbids real requests.
    """
    check = getattr(asked, "__graphrt_check_real__", None)
    if check is not None:
        check()


def usage_problem(usage: Any) -> str | None:
    """What is wrong with a usage that a harness or a model of the user's tells; None if it can be counted."""
    if usage is None:
        return None
    if not isinstance(usage, Usage):
        return f"a usage of type {type(usage).__name__}"
    for name in _COUNTS:
        count: Any = getattr(usage, name)
        if type(count) is not int or count < 0:
            return f"a usage with {name}={count!r}, which is not a count"
    cost: Any = usage.cost_usd
    if cost is not None and (type(cost) not in (int, float) or not isfinite(cost) or cost < 0):
        return f"a usage with cost_usd={cost!r}, which is not a price"
    return None
