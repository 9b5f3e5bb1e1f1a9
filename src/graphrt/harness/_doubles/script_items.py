"""Assignment of calls to script items: ordered items, rules, and the error for a call that fits none.

Doubles and the fake chat server share this module, so a call is any object with a `text`. They decide what an item
means and how it becomes an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, final

from graphrt.errors import ScriptError
from graphrt.errors._codes.doubles import SCRIPT_UNEXPECTED_CALL
from graphrt.harness.script import Expectation, checked_pattern, clip, matches, show_item, show_pattern

__all__ = ["Book"]


class Call(Protocol):
    """A call, as seen by a script."""

    @property
    def text(self) -> str:
        """The text of the last message."""
        ...


@final
class _Rule:
    """A pattern with its reply or replies, and how often it was used."""

    __slots__ = ("always", "pattern", "replies", "used")

    def __init__(self, pattern: Any, replies: Any) -> None:
        several: bool = issubclass(type(replies), Sequence) and not issubclass(type(replies), str)
        self.pattern: Final[Any] = checked_pattern(pattern)
        self.replies: Final[deque[Any] | None] = deque(replies) if several else None
        """The replies left, each of which answers one call; None if `always` answers any number of calls."""
        self.always: Final[Any] = None if several else replies
        self.used = 0
        """Calls that `always` has answered."""

    def __str__(self) -> str:
        remaining = "any number of calls" if self.replies is None else f"{len(self.replies)} replies left"
        return f"{show_pattern(self.pattern)} ({remaining})"


@final
class Book:
    """A script and the record of its use. It is not thread-safe: its owner guards it with a lock.

    Args:
        of: Name of the owner, for errors.
        script: The ordered items.
        rules: Patterns with their replies: one for any number of calls, or a list with one for each call.
    """

    __slots__ = ("_of", "_rules", "calls", "failures", "script", "served")

    def __init__(self, owner: str, script: Iterable[Any] = (), rules: Mapping[Any, Any] | None = None) -> None:
        self._of: Final = owner
        self._rules: Final = [_Rule(*item) for item in (rules or {}).items()]
        self.script: Final[deque[Any]] = deque(script)
        self.calls: Final[list[Any]] = []
        """All calls so far, in order of arrival; the owner appends them."""
        self.failures: Final[list[ScriptError]] = []
        """Mismatches so far; the owner appends them."""
        self.served = 0
        """Number of ordered items that were used."""

    def take(self, request: Call) -> Any:
        """Return the script's answer to *request*, or a ScriptError, not raised, if the script does not expect it.

        The first rule that matches decides; a call that matches no rule gets the next item. The owner has appended
        *request* to `calls` already.
        """
        for rule in self._rules:
            if matches(rule.pattern, request):
                if rule.replies is None:
                    rule.used += 1
                    return rule.always
                if not rule.replies:
                    return self._mismatch(request, f"no more calls that match {show_pattern(rule.pattern)}")
                return rule.replies.popleft()
        if not self.script:
            return self._mismatch(request, "no more calls" if self.served or not self._rules else "a call of a rule")
        item = self.script[0]
        if isinstance(item, Expectation):
            if not matches(item.pattern, request):
                return self._mismatch(request, f"a call that matches {show_pattern(item.pattern)}")
            item = item.reply
        self.script.popleft()
        self.served += 1
        return item

    def _mismatch(self, request: Call, expected: str) -> ScriptError:
        rules = f"; rules {', '.join(map(str, self._rules))}" if self._rules else ""
        return SCRIPT_UNEXPECTED_CALL(
            double=self._of,
            expected=expected,
            said=clip(request.text, 200),
            left=len(self.script),
            rules=rules,
            call=len(self.calls),
            served=self.served,
            got=request.text,
        )

    def left_over(self) -> list[str]:
        """Describe all that was not used: ordered items, rules that never matched, and replies of rules."""
        unused = [f"item {n}: {show_item(item)}" for n, item in enumerate(self.script, self.served + 1)]
        for rule in self._rules:
            if rule.replies is None and not rule.used:
                unused.append(f"rule {show_pattern(rule.pattern)}: never matched")
            unused += [f"rule {show_pattern(rule.pattern)}: {show_item(item)}" for item in rule.replies or ()]
        return unused
