"""The options that `@tool`, `tool_from_model` and `McpServer` share: their types, and the `ToolPolicy` made of them.

Only the checks live here; `protocol.ToolPolicy` documents what the options do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack, get_args

from graphrt._arguments import is_number
from graphrt.commands import EndType, NodeRef, node_name
from graphrt.errors import InputError, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness.tools.protocol import EffectClass, ToolPolicy

Approval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
OnError: TypeAlias = Literal["return", "raise"]


class SharedOptions(TypedDict, total=False):
    """Options of every kind of tool; `ToolPolicy` documents them."""

    timeout_s: float | None
    on_error: OnError
    approval: Approval
    max_result_chars: int | None


class PolicyOptions(SharedOptions, total=False):
    """Options of tools that the program defines; `ToolPolicy` documents them."""

    effect: EffectClass
    reads: str | Iterable[str]
    writes: str | Iterable[str]
    goto: NodeRef | EndType | Iterable[NodeRef | EndType]


NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that every provider accepts."""


def check_name(name: object, *, where: str) -> str:
    """Return *name* if every provider accepts it as the name of a tool.

    Raises:
        InputError: It is not such a name (`input`).
    """
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    raise INVALID_ARGUMENT(
        argument="The name of a tool",
        value=name,
        wanted="name=, up to 64 of A-Z a-z 0-9 _ -",
        where=where,
        fix="Give the tool a name: @tool(name=...)." if name == "<lambda>" else None,
    )


def make_policy(*, where: str, **options: Unpack[PolicyOptions]) -> ToolPolicy:
    """Validate a tool's options and return them as a policy.

    Raises:
        InputError: An option is wrong (`input`).
    """
    values: dict[str, Any] = dict(options)
    for option in ("reads", "writes", "goto"):
        if option in values:
            values[option] = _names(option, values[option], where)
    policy = ToolPolicy(**values)
    _one_of("effect", policy.effect, get_args(EffectClass), where)
    _one_of("on_error", policy.on_error, get_args(OnError), where)
    check_timeout("timeout_s", policy.timeout_s, where=where)
    if not (isinstance(policy.approval, bool) or callable(policy.approval)):
        raise _bad("approval", policy.approval, "True, False, or a function of the checked arguments", where)
    max_chars = policy.max_result_chars
    if max_chars is not None and not (is_number(max_chars, whole=True) and max_chars > 0):
        raise _bad("max_result_chars", max_chars, "a whole number above 0, or None", where)
    return policy


def _names(option: str, value: Any, where: str) -> tuple[Any, ...]:
    """Return the fields or targets that *option* gives, one or several, without repetition.

    Raises:
        InputError: One of them is not a name (`input`).
    """
    items: Any = value
    if isinstance(value, (str, EndType)) or hasattr(value, "__graphrt_node__") or not hasattr(value, "__iter__"):
        items = (value,)
    entries: tuple[Any, ...] = tuple(node_name(item) if option == "goto" else item for item in items)
    for name in entries:
        if not (isinstance(name, str) or (option == "goto" and isinstance(name, EndType))):
            expected = "nodes, by name or handle, or END" if option == "goto" else "names of fields of the state"
            raise _bad(option, name, expected, where)
    return tuple(dict.fromkeys(entries))


def check_description(description: object, *, where: str) -> None:
    """Check that *description* is a string or None.

    Raises:
        InputError: It is neither (`input`).
    """
    if description is not None and not isinstance(description, str):
        raise _bad("description", description, "a text", where)


def check_timeout(name: str, value: Any, *, where: str) -> None:
    """Check that *value*, the option *name*, is a positive number of seconds or None.

    Raises:
        InputError: It is neither (`input`).
    """
    if value is not None and not (is_number(value) and 0 < value < math.inf):
        raise _bad(name, value, "a number of seconds above 0, or None", where)


def _one_of(name: str, value: object, allowed: tuple[str, ...], where: str) -> None:
    if value not in allowed:
        raise _bad(name, value, f"one of {names(allowed)}", where)


def _bad(name: str, value: object, expected: str, where: str) -> InputError:
    return INVALID_ARGUMENT(argument=f"{name} of a tool", value=value, wanted=expected, where=where)
