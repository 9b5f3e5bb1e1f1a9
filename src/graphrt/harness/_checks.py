"""Whether what somebody passes can be asked anything: the same words wherever a harness or a model is wanted."""

from __future__ import annotations

from typing import Any

from graphrt.errors import InputError


def usable(value: Any, method: str) -> bool:
    """Whether *value* is an instance that has *method*."""
    return not isinstance(value, type) and callable(getattr(value, method, None))


def kind(value: Any) -> str:
    """What *value* is, for a message."""
    if isinstance(value, str):
        return repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


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
