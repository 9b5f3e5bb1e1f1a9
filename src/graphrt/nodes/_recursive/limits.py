"""`RecursiveLimits`, the bounds of one reading of a long text, and `CostBound`, its maximum cost.

All sizes are measured here, as the bytes of a text in JSON. For ASCII that is its characters and escapes. A byte-level
tokenizer never makes more tokens, so a bound on sizes is a bound on tokens (decision 0113).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from pydantic_core import to_json

from graphrt.errors._codes.arguments import BAD_LIMITS
from graphrt.harness import Budget, Message, ToolSpec

__all__ = ["CostBound", "RecursiveLimits", "clipped", "size_of", "size_of_prompt"]

PIECE_WORDS: Final = 2_000
"""Maximum size of the instructions and the frame of a sub-call."""
_AROUND: Final = 16
"""Maximum number of tokens that a provider adds around a message or a tool."""
_TRIES: Final = 3
"""Number of calls that fit the budget of a sub-call. After a crash, a call stays counted although it is repeated."""
_LEAST: Final = {"depth": 0, "calls": 2, "reader_calls": 2, "result_chars": 500}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBound:
    """The maximum cost of one reading, computed before it begins."""

    calls: int
    """Model calls of all models together."""
    tokens: int
    """Input and output tokens of all calls together."""
    prompt_tokens: int
    """Input tokens of one call of a reader."""
    piece_tokens: int
    """Input tokens of one sub-call."""
    depth: int
    """Levels of readers below the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecursiveLimits:
    """Bounds of one reading of a long text.

    Sizes are in characters. A character outside ASCII counts as its bytes in UTF-8, and one that JSON escapes as its
    escape, so that every bound on a size is also a bound on tokens.

    Raises:
        InputError: A limit is not a whole number, or too small (`bad-limit`).
    """

    depth: int = 1
    """Levels of readers below the first one; 0: sub-calls see single pieces only."""
    turns: int = 20
    """Model calls of one reader. The last one cannot call tools."""
    calls: int = 1_000
    """Total model calls of readers and sub-calls, at every depth."""
    reader_calls: int = 50
    """Model calls of a reader below the first, including everything below it."""
    tokens: int | None = None
    """Total tokens; None allows as many as *calls* calls can use."""
    concurrency: int = 8
    """Concurrent sub-calls of one reader."""
    tool_calls: int = 8
    """Tool calls in one turn."""
    prompt_chars: int = 40_000
    """Size of a reader's prompt, with instructions and tools."""
    result_chars: int = 6_000
    """Size of the result of one tool call in a prompt."""
    piece_chars: int = 24_000
    """Size of the text that one sub-call sees."""
    question_chars: int = 2_000
    """Size of a question."""
    notes_chars: int = 4_000
    """Size of all notes of a reader."""
    finding_chars: int = 2_000
    """Size of the kept part of one sub-call's answer."""
    answer_tokens: int = 2_000
    """`max_tokens` of a reader's calls."""
    finding_tokens: int = 500
    """`max_tokens` of a sub-call."""

    def __post_init__(self) -> None:
        problems = [problem for field in fields(self) if (problem := _problem(field.name, getattr(self, field.name)))]
        if problems:
            raise BAD_LIMITS(
                limits="RecursiveLimits", problems="; ".join(problems), example="RecursiveLimits(prompt_chars=30_000)"
            )

    def bound(self) -> CostBound:
        """Return the maximum cost of a reading with these limits, without retries of failed calls.

        It counts one token per byte, several times as many as most tokenizers make.
        """
        tokens = self._tokens_of(self.calls)
        return CostBound(
            calls=self.calls,
            tokens=tokens if self.tokens is None else min(tokens, self.tokens),
            prompt_tokens=self.prompt_chars,
            piece_tokens=self._piece,
            depth=self.depth,
        )

    @property
    def budget(self) -> Budget:
        """The budget of the whole reading."""
        bound = self.bound()
        return Budget(calls=bound.calls, tokens=bound.tokens)

    @property
    def reader_budget(self) -> Budget:
        """The slice of a reader below the first, with room for the calls that one crash leaves counted."""
        calls = self.reader_calls + self.concurrency
        return Budget(calls=calls, tokens=self._tokens_of(calls))

    @property
    def piece_budget(self) -> Budget:
        """The slice of one sub-call."""
        return Budget(calls=_TRIES, tokens=_TRIES * (self._piece + self.finding_tokens))

    @property
    def _piece(self) -> int:
        return self.piece_chars + self.question_chars + PIECE_WORDS

    def _tokens_of(self, calls: int) -> int:
        reader, piece = self.prompt_chars + self.answer_tokens, self._piece + self.finding_tokens
        if self.depth:
            return calls * max(reader, piece)
        own = min(calls, self.turns)
        return own * reader + (calls - own) * piece


def _problem(name: str, value: Any) -> str:
    """Return the problem with a limit; an empty text if there is none."""
    if value is None and name == "tokens":
        return ""
    minimum = _LEAST.get(name, 1)
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
    return "" if fits else f"{name} must be a whole number of at least {minimum}, not {value!r}"


def size_of(text: str) -> int:
    """Return the size of *text*: its bytes as JSON, without the quotes."""
    return len(to_json(text)) - 2


def size_of_prompt(messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
    """Return the size of a prompt with its tools."""
    spoken: Any = [*messages, *tools]
    return len(to_json(spoken, fallback=repr)) + _AROUND * len(spoken)


def clipped(text: str, room: int, *, with_note: bool = True) -> str:
    """Return *text* truncated to the size *room*; if *with_note*, with a note about the cut if there is room for it."""
    if len(text) <= room and size_of(text) <= room:
        return text
    note = f"\n[cut: {len(text):,} characters in all]"
    wide = len(note) + 1  # the line break is escaped
    if wide > room or not with_note:
        note, wide = "", 0
    beginning = text[: room - wide]
    while (size := size_of(beginning)) > room - wide:
        # Proportional, so that a text full of escapes is cut in a few steps, by at least one character each.
        beginning = beginning[: min(len(beginning) - 1, len(beginning) * (room - wide) // size)]
    return beginning + note
