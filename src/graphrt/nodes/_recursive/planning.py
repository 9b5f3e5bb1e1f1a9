"""The outcome of one turn's tool calls: notes to keep, and sub-calls that are planned or refused.

Calls are processed in order, each against the remaining limits. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import BaseModel

from graphrt.harness import ToolCall, ToolMessage
from graphrt.nodes._recursive.desk import DEFERRED, Ask, Desk, MapPieces, Note, piece_size
from graphrt.nodes._recursive.limits import clipped, size_of
from graphrt.nodes._recursive.sub_calls import Plan, cut_into_pieces

__all__ = ["Outcome", "outcome_of"]

_LEAST: Final = 2
"""Minimum number of model calls with which a reader below is useful."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of one turn."""

    results: list[ToolMessage] = field(default_factory=list[ToolMessage])
    """A result for each call, in order; empty texts for those that wait for sub-calls."""
    notes: list[str]
    plans: dict[str, Plan] = field(default_factory=dict[str, Plan])
    """Plans by key, in the order of the calls."""
    allowed: dict[str, int] = field(default_factory=dict[str, int])
    """Model calls granted to each reader that a plan starts, by key of the plan."""


def outcome_of(
    calls: Sequence[ToolCall],
    results: Sequence[ToolMessage],
    *,
    desk: Desk,
    question: str,
    notes: Sequence[str],
    turn: int,
    known: int,
    left: int,
    reads_deeper: bool,
) -> Outcome:
    """Return the outcome of a turn's tool calls.

    Args:
        calls: The calls.
        results: Their results, as far as the tools returned them.
        desk: The data of the turn.
        question: The question that the reader answers.
        notes: Its notes so far.
        turn: Number of the turn, from 0.
        known: Plans made in earlier turns.
        left: Sub-calls that the reader may still make.
        reads_deeper: Whether there may be a reader below.
    """
    outcome = Outcome(notes=list(notes))
    results_by_call = {message.tool_call_id: message for message in results}
    for number, call in enumerate(calls):
        result = results_by_call.get(call.id) or ToolMessage(
            tool_call_id=call.id, text="This call was not made.", error=True
        )
        if not result.error and call.name == "note":
            result = _noted(Note.model_validate(call.arguments), result, outcome, desk.limits.notes_chars)
        elif not result.error and call.name in DEFERRED:
            try:
                plan, takes = _planned(
                    call,
                    desk,
                    question,
                    name=f"m{known + len(outcome.plans) + 1}",
                    left=left,
                    reads_deeper=reads_deeper,
                )
            except ValueError as error:
                result = replace(result, text=str(error), error=True)
            else:
                left -= takes
                key = f"{turn}.{number}"
                outcome.plans[key] = plan
                if plan["reader"]:
                    outcome.allowed[key] = takes
        outcome.results.append(replace(result, text=clipped(result.text, desk.limits.result_chars)))
    return outcome


def _noted(note: Note, result: ToolMessage, outcome: Outcome, limit: int) -> ToolMessage:
    notes = [*([] if note.replace else outcome.notes), f"- {note.text}"]
    size = sum(size_of(line) + 2 for line in notes)
    if size > limit:
        text = f"Not kept: the notes would have {size} characters, of at most {limit}. Replace them by shorter ones."
        return replace(result, text=text, error=True)
    outcome.notes = notes
    return replace(result, text="Kept.")


def _planned(
    call: ToolCall, desk: Desk, question: str, *, name: str, left: int, reads_deeper: bool
) -> tuple[Plan, int]:
    """Return the plan of a `map` or `ask`, and the number of model calls that it may use.

    Raises:
        ValueError: It is refused; the message is for the model.
    """
    request: BaseModel = (MapPieces if call.name == "map" else Ask).model_validate(call.arguments)
    assert isinstance(request, MapPieces | Ask)  # noqa: S101 - for type checkers
    limits = desk.limits
    text, start, end = desk.range_of(request.of, request.start, request.end)
    wide = size_of(request.question)
    if not request.question.strip() or wide > limits.question_chars:
        raise ValueError(f"A question has 1 to {limits.question_chars} characters, not {wide}.")
    if start == end:
        raise ValueError("The range is empty.")
    if left < 1:
        raise ValueError("No sub-calls are left. Answer from what you know.")
    if isinstance(request, MapPieces):
        size = piece_size(request.size, limits)
        bounds = cut_into_pieces(text, start, end, size=size, separator=request.separator, max_pieces=left)
        if bounds is None:
            raise ValueError(f"That needs more sub-calls than the {left} that are left. Search first, or map less.")
        plan = _plan(request, name, bounds, combine=request.combine, reader=False)
        return plan, len(bounds) - 1
    short = end - start <= limits.piece_chars and size_of(text.read(start, end)) <= limits.piece_chars
    if not short:
        if (
            _words(request.question) == _words(question)
            and request.of == "text"
            and (start, end) == (desk.start, desk.end)
        ):
            raise ValueError("This is the question that you are answering, about all of your text. Take it apart.")
        if not reads_deeper or request.of != "text":
            raise ValueError(
                f"Here ask takes at most {limits.piece_chars} characters. Use map, or a part of the range."
            )
        if left < _LEAST:
            raise ValueError(f"{left} sub-calls are left, too few to read a long range.")
    plan = _plan(request, name, [start, end], combine="answer", reader=not short)
    return plan, 1 if short else min(left, limits.reader_calls)


def _plan(request: MapPieces | Ask, name: str, bounds: list[int], *, combine: str, reader: bool) -> Plan:
    return Plan(name=name, question=request.question, of=request.of, combine=combine, bounds=bounds, reader=reader)


def _words(text: str) -> list[str]:
    return text.casefold().split()
