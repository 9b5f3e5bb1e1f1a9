"""Which place of a script a call gets: ordered items, rules, and what is told where they do not fit.

The same for doubles of models and for the fake server: a call is whatever has a text. What an item means, and who makes
an answer of it, is theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, final

from graphrt.errors import ScriptError
from graphrt.harness.script import Expectation, clip, matches, show_item, show_pattern

__all__ = ["Book"]


class Asked(Protocol):
    """A call."""

    @property
    def text(self) -> str:
        """The text of its last message."""
        ...


@final
class _Rule:
    __slots__ = ("always", "pattern", "replies", "used")

    def __init__(self, pattern: Any, replies: Any) -> None:
        several: bool = issubclass(type(replies), Sequence) and not issubclass(type(replies), str)
        self.pattern: Final[Any] = pattern
        self.replies: Final[deque[Any] | None] = deque(replies) if several else None
        """What is left, each used once; None if `always` answers any number of calls."""
        self.always: Final[Any] = None if several else replies
        self.used = 0

    def __str__(self) -> str:
        left = "any number of calls" if self.replies is None else f"{len(self.replies)} replies left"
        return f"{show_pattern(self.pattern)} ({left})"


@final
class Book:
    """A script, and everything about it that changes; its owner guards it with a lock."""

    __slots__ = ("_of", "_rules", "calls", "failures", "script", "served")

    def __init__(self, of: str, script: Iterable[Any] = (), rules: Mapping[Any, Any] | None = None) -> None:
        self._of: Final = of
        self._rules: Final = [_Rule(*item) for item in (rules or {}).items()]
        self.script: Final[deque[Any]] = deque(script)
        self.calls: Final[list[Any]] = []
        self.failures: Final[list[ScriptError]] = []
        self.served = 0
        """Places of the script that were used."""

    def take(self, request: Asked) -> Any:
        """What the script has for *request*, which stands in `calls` already; a ScriptError if nothing.

        The first rule that matches decides; a call that matches none gets the next item.
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

    def _mismatch(self, request: Asked, expected: str) -> ScriptError:
        rules = f"; rules {', '.join(map(str, self._rules))}" if self._rules else ""
        return ScriptError(
            f"The {self._of} expected {expected}, but got a call with {clip(request.text, 200)!r}.",
            where=f"call {len(self.calls)}, after {self.served} items of the script",
            known=f"{len(self.script)} items of the script left{rules}",
            fix="add the reply to the script, or find out why the call was made",
            code="script-unexpected-call",
            expected=expected,
            got=request.text,
        )

    def left_over(self) -> list[str]:
        """What was not asked for, in words: items, rules that never matched, and replies of rules."""
        left = [f"item {n}: {show_item(item)}" for n, item in enumerate(self.script, self.served + 1)]
        for rule in self._rules:
            if rule.replies is None and not rule.used:
                left.append(f"rule {show_pattern(rule.pattern)}: never matched")
            left += [f"rule {show_pattern(rule.pattern)}: {show_item(item)}" for item in rule.replies or ()]
        return left
