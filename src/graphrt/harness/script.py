"""The vocabulary of scripts for test doubles: replies, functions that make replies, and patterns that select calls.

It includes how errors show the items of a script. `_doubles` defines how a script is followed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias

from graphrt._arguments import not_awaitable
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness.messages import ToolCall
from graphrt.harness.protocol import AgentReply
from graphrt.harness.request import ModelRequest

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Answer", "Expectation", "Pattern", "Reply", "Value", "expect"]

REPLIES: Final = (
    "a reply is a text, a ToolCall, an AgentReply, an exception, a value of the type that the call's output= asks for, "
    "or a function that makes one of these"
)
"""Types that count as a reply, for errors."""


class _Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Pattern: TypeAlias = str | re.Pattern[str] | Callable[[ModelRequest], bool]
"""Selects calls: a part of the last message's text, a regular expression to find in it, or a test of the request."""

Value: TypeAlias = "BaseModel | _Dataclass | Mapping[str, Any] | Sequence[Any] | bool | int | float"
"""The value of an answer with `output=`: an instance of a class, or data. It is written as a model would write it."""

Reply: TypeAlias = "str | ToolCall | AgentReply | BaseException | type[BaseException] | Value"
"""The reply to a call: a text, one tool call, a whole reply, an exception to raise, or the value of its `output=`."""

Answer: TypeAlias = "Reply | Callable[[ModelRequest], Reply | Awaitable[Reply]]"
"""A reply, or a pure function, sync or async, that makes it from the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A script item with a condition; `expect` makes it."""

    pattern: Pattern
    reply: Answer


def expect(pattern: Pattern, *, reply: Answer) -> Expectation:
    """Make a script item: the call must match *pattern*, and gets *reply*.

    Raises:
        InputError: *pattern* is neither a text, a regular expression nor a function.
    """
    return Expectation(pattern=checked_pattern(pattern), reply=reply)


def checked_pattern(pattern: Any) -> Pattern:
    """Return *pattern* if it is one.

    Raises:
        InputError: It is neither a text, a regular expression nor a function.
    """
    checked: Pattern = pattern
    unknown: object = pattern
    if isinstance(unknown, str | re.Pattern) or callable(unknown):
        return checked
    raise INVALID_ARGUMENT(
        argument="A pattern of a script",
        value=pattern,
        wanted="a part of the last message, a regular expression, or a function of the request",
    )


def matches(pattern: Pattern, request: Any) -> bool:
    """Return whether *pattern* selects *request*."""
    if isinstance(pattern, str):
        return pattern in request.text
    if isinstance(pattern, re.Pattern):
        return pattern.search(request.text) is not None
    return bool(not_awaitable(f"The pattern {show_pattern(pattern)}", pattern(request)))


def show_pattern(pattern: Pattern) -> str:
    """Show *pattern* in an error."""
    if isinstance(pattern, str):
        return repr(clip(pattern, 80))
    if isinstance(pattern, re.Pattern):
        return f"/{pattern.pattern}/"
    return f"{getattr(pattern, '__qualname__', pattern)}(request)"


def show_item(item: Any) -> str:
    """Show a script item in an error."""
    if isinstance(item, Expectation):
        return f"expect {show_pattern(item.pattern)}"
    return f"reply {clip(item if isinstance(item, str) else repr(item), 80)!r}"


def kind_of(value: object) -> str:
    """Describe *value* in an error."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}, where an instance belongs"
    return f"a value of type {type(value).__name__}"


def clip(text: str, max_chars: int) -> str:
    """Return *text*, cut to *max_chars* characters if it is longer, with `...` at the end then."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 3]}..."
