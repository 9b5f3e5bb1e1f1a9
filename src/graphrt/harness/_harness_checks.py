"""Checks of the harnesses and models that users pass in, and of the replies and usage that these give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphrt._arguments import a_kind, is_mapping
from graphrt._usage.usage import COUNTS
from graphrt.errors import brief
from graphrt.errors._codes.requests import BAD_HARNESS
from graphrt.events import Usage
from graphrt.harness.media import Audio, Document, Image
from graphrt.harness.messages import ProviderPart, ThinkingBlock, ToolCall
from graphrt.harness.protocol import AgentReply

_TUPLES: Final[Mapping[str, tuple[type[Any], ...]]] = {
    "tool_calls": (ToolCall,),
    "thinking_blocks": (ThinkingBlock,),
    "provider_parts": (ProviderPart,),
    "media": (Image, Audio, Document),
}
"""Fields of a reply that are tuples, with the classes of their items."""


def usable(value: Any, method: str) -> bool:
    """Return whether *value* is an instance, not a class, with a callable *method*."""
    return not isinstance(value, type) and callable(getattr(value, method, None))


def kind(value: Any) -> str:
    """Describe *value* for an error message."""
    return repr(value) if isinstance(value, str) else a_kind(value)


def lack(value: Any, method: str) -> str:
    """Explain why *value* cannot be used where *method* is needed, for an error message."""
    if isinstance(value, type):
        return "a class cannot be asked: its instances can"
    other = "invoke" if method == "run" else "run"
    return f"it has {other}() and no {method}()" if usable(value, other) else f"it has no {method}()"


def check_harness(harness: Any, *, taker: str, of_model: str, otherwise: str, **data: Any) -> None:
    """Check that *harness* is an instance with a `run` method.

    Args:
        taker: Beginning of the error's sentence, such as "harness= takes a harness".
        of_model: The error's fix if a model was passed.
        otherwise: The error's fix for anything else.
        data: Further attributes of the error.

    Raises:
        InputError: It has no `run`, or is a class (`bad-harness`).
    """
    if not usable(harness, "run"):
        raise BAD_HARNESS(
            taker=taker,
            given=kind(harness),
            value=harness,
            known=lack(harness, "run"),
            fix=of_model if usable(harness, "invoke") else otherwise,
            **data,
        )


def check_real(target: Any) -> None:
    """Give the model or harness *target* a chance to refuse a real request, through its hook `__graphrt_check_real__`.

    Call this before reading its profile or reserving a budget, which may import litellm (decision 0041).

    Raises:
        ModelRequestForbiddenError: This process forbids real requests, and *target* would make one.
    """
    check = getattr(target, "__graphrt_check_real__", None)
    if check is not None:
        check()


def reply_problem(reply: AgentReply) -> str | None:
    """Return the problem with a reply that a user's code made, without its usage; None if there is none.

    Replies check nothing when they are made.
    """
    for name in ("text", "thinking"):
        if not isinstance(getattr(reply, name), str):
            return f"a {name} of type {type(getattr(reply, name)).__name__}"
    for name, kinds in _TUPLES.items():
        items = getattr(reply, name)
        if not issubclass(type(items), tuple) or any(type(item) not in kinds for item in items):
            expected = " and ".join(f"{kind.__name__}s" for kind in kinds)
            return f"{name.replace('_', ' ')} that are not a tuple of {expected}"
    for call in reply.tool_calls:
        for name in ("id", "name", "arguments_text"):
            if not isinstance(getattr(call, name), str):
                return f"a tool call with {name}= of type {type(getattr(call, name)).__name__}"
        if not is_mapping(call.arguments):
            return f"a tool call with arguments= of type {type(call.arguments).__name__}"
    return None


_MOST: Final = 2**63 - 1
"""The largest count and the highest price. A journal with a sum of more than 4,300 digits could not be read."""


def usage_problem(usage: Any) -> str | None:
    """Return the problem with the usage that a harness or model reported; None if it can be counted.

    The harness or model may be written by a user. A negative count would make a budget grow, and no journal could hold
    a number of thousands of digits.
    """
    if usage is None:
        return None
    if not isinstance(usage, Usage):
        return f"a usage of type {type(usage).__name__}"
    for name in COUNTS:
        count: Any = getattr(usage, name)
        if type(count) is not int or not 0 <= count <= _MOST:
            return f"a usage with {name}={brief(count)}, which is not a count"
    cost: Any = usage.cost_usd
    if cost is not None and (type(cost) not in (int, float) or not 0 <= cost <= _MOST):  # a NaN is in no range
        return f"a usage with cost_usd={brief(cost)}, which is not a price"
    return None
