"""Checks of single arguments (a number, text, mapping or list), with the same error texts everywhere.

Requests, models, profiles and agents share them. Structured arguments (messages, tools, output types) are checked in
`request`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphrt.errors import InputError, a_type
from graphrt.limits import limit_problem


def check_whole(name: str, value: Any, *, least: float) -> None:
    """Check that *value* is None or a whole number of at least *least*.

    Raises:
        InputError: It is not.
    """
    _refuse(limit_problem(name, value, optional=True, least=least), value)


def check_amount(name: str, value: Any, *, above: bool = False, most: float | None = None) -> None:
    """Check that *value* is None or a finite number of 0 or more.

    Args:
        above: Whether 0 is refused as well.
        most: Largest allowed value; None sets no upper bound.

    Raises:
        InputError: It is not.
    """
    problem = limit_problem(name, value, optional=True, factor=True)
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
        raise InputError(f"{name} must be a text, not {value!r}.", value=value)


def check_mapping(name: str, value: Any) -> None:
    """Check that *value* is None or a mapping.

    Raises:
        InputError: It is not.
    """
    if value is not None and not isinstance(value, Mapping):
        raise InputError(
            f"{name} must be a mapping from names to values, not {a_type(value)}.",
            fix=f'Give for instance {name}={{"user": "u-1"}}.',
            value=value,
        )


def each(name: str, value: Any) -> tuple[Any, ...]:
    """Return the items of *value* as a tuple.

    Raises:
        InputError: It is not iterable, or it is a string, which would be read letter by letter.
    """
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise InputError(
            f"{name} must be a list, not {value!r}.",
            fix=f"Put it into a list: {name}=[...].",
            value=value,
        )
    return tuple(value)


def _refuse(problem: str | None, value: Any) -> None:
    if problem is not None:
        raise InputError(f"{problem}.", fix="Give such a number, or None where it is not to be said.", value=value)
