"""The syntax of the regular expressions that a model may write, and what is refused."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

__all__ = ["Node", "PatternError", "parsed"]

_LONGEST_PATTERN: Final = 200
_DEEPEST: Final = 20
_CLASSES: Final = {"d": r"\d", "w": r"\w", "s": r"[^\S\n]", "D": r"[^\d\n]", "W": r"[^\w\n]", "S": r"\S"}
_REPEATS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LITERALS: Final = {"t": "\t", "r": "\r", "f": "\f", "v": "\v"}

Node: TypeAlias = tuple[Any, ...]
"""A part of a pattern: ("set", source), ("break",), ("cat", parts), ("alt", parts) or ("repeat", part, least, most)."""


class PatternError(ValueError):
    """The pattern is not valid, or uses something that is not supported; its text is written for a model."""


def parsed(source: str) -> Node:
    """Return the parts of a pattern.

    Raises:
        PatternError: It is not valid, too long, or matches an empty text.
    """
    if len(source) > _LONGEST_PATTERN:
        raise PatternError(f"the pattern has more than {_LONGEST_PATTERN} characters")
    tree = _Parser(source).parse()
    if _may_be_empty(tree):
        raise PatternError("the pattern matches an empty text")
    return tree


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def parse(self) -> Node:
        tree = self._either(0)
        if self._at < len(self._source):
            raise PatternError(f"')' without '(' at position {self._at}")
        return tree

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise PatternError("the pattern ends too early")
        self._at += 1
        return char

    def _either(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise PatternError(f"groups are nested more than {_DEEPEST} deep")
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else ("alt", branches)

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom(depth)))
        return ("cat", parts)

    def _atom(self, depth: int) -> Node:
        char = self._take()
        match char:
            case "(":
                if self._peek() == "?":
                    if self._source[self._at : self._at + 2] != "?:":
                        raise PatternError("of the groups with (? only (?:...) is supported")
                    self._at += 2
                inside = self._either(depth + 1)
                if self._peek() != ")":
                    raise PatternError("'(' without ')'")
                self._at += 1
                return inside
            case "[":
                return self._class()
            case ".":
                return ("set", ".")
            case "^":
                return ("break",)
            case "$":
                return ("cat", [("repeat", ("set", r"\r"), 0, 1), ("break",)])
            case "\\":
                return ("set", self._escaped())
            case "*" | "+" | "?":
                raise PatternError(f"{char!r} at position {self._at - 1} repeats nothing")
            case "\n":
                raise PatternError("a match stays in one line, so the pattern has no line break")
            case _:
                return ("set", re.escape(char))

    def _escaped(self) -> str:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _LITERALS:
            return re.escape(_LITERALS[char])
        if char.isalnum() or char == "\n":
            raise PatternError(f"\\{char} is not supported")
        return re.escape(char)

    def _class(self) -> Node:
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        body = ""
        while not (self._peek() == "]" and body):
            char = self._take()
            if char == "\\":
                follows = self._take()
                if follows.isalnum() and follows not in "dwsDWStrfvn":
                    raise PatternError(f"\\{follows} is not supported in a class")
                body += f"\\{follows}"
            else:
                body += f"\\{char}" if char in "[&~|^]" else char
        self._at += 1
        source = f"[^{body}\n]" if negated else f"[{body}]"
        try:
            re.compile(source)
        except re.error as error:
            raise PatternError(f"the class [{body}] is not valid: {error}") from None
        return ("set", source)

    def _repeated(self, atom: Node) -> Node:
        while (char := self._peek()) and char in "*+?{":
            bounds: tuple[int, int | None] = _REPEATS.get(char) or self._counts()
            if char != "{":
                self._at += 1
            if self._peek() == "?":  # lazy: the reported match is the longest one all the same
                self._at += 1
            atom = ("repeat", atom, *bounds)
        return atom

    def _counts(self) -> tuple[int, int | None]:
        found = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}").match(self._source, self._at)
        if found is None:
            raise PatternError(f"'{{' at position {self._at} begins no count; write \\{{ for the character")
        self._at = found.end()
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if most is not None and (most < least or most == 0):
            raise PatternError(f"{found[0]} is not a count")
        return least, most


def _may_be_empty(node: Node) -> bool:
    match node:
        case ("cat", parts):
            return all(map(_may_be_empty, parts))
        case ("alt", parts):
            return any(map(_may_be_empty, parts))
        case ("repeat", part, least, _):
            return least == 0 or _may_be_empty(part)
        case _:
            return False
