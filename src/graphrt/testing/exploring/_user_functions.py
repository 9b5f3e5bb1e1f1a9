"""Calls of user functions during a search, what a paused run waits for, and the answers to questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, final

from graphrt._arguments import is_async, is_mapping
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.runtime import InterruptInfo

T = TypeVar("T")
_OPTIONS: Final = "a function that returns options of Runtime for one run, such as lambda: {'deps': Desk()}"
_ANSWERS: Final = "a list of answers, as in answers=['yes'], or a sync function of the question"


class FunctionError(Exception):
    """A user function passed to the search raised; the cause is its error."""


class NoAnswerError(Exception):
    """A question has no answer, so that the run cannot continue."""


def called(name: str, fn: Callable[..., T], *args: Any) -> T:
    """Call the user's function *fn*, passed as *name*.

    Raises:
        FunctionError: It raised.
    """
    try:
        return fn(*args)
    except Exception as error:
        raise FunctionError(f"{name} raised {type(error).__name__}: {error}") from error


def options_of(argument: Any) -> Callable[[], dict[str, Any]]:
    """Return a function that makes the options of `Runtime` for one run: the argument `options=` of a search, checked.

    The returned function raises FunctionError if *argument* raises.

    Raises:
        InputError: *argument* is neither None nor a function, or (from the returned function) returns no mapping.
    """
    if argument is not None and not callable(argument):
        raise INVALID_ARGUMENT(argument="options=", value=argument, wanted=_OPTIONS)

    def made() -> dict[str, Any]:
        options: Any = called("options=", argument) if argument is not None else {}
        if not is_mapping(options):
            raise INVALID_ARGUMENT(argument="What options= returned", value=options, wanted=_OPTIONS)
        return {**options}

    return made


def check_answers(name: str, answers: Any, *, wanted: str = _ANSWERS, function: bool = True) -> None:
    """Check that *answers*, passed as *name*, is a list or, if *function* is true, a sync function.

    Raises:
        InputError: It is something else, such as a text, which would be read letter by letter, or a mapping.
    """
    if function and callable(answers) and not is_async(answers):
        return
    if isinstance(answers, str | bytes | Mapping) or not isinstance(answers, Sequence):
        raise INVALID_ARGUMENT(argument=name, value=answers, wanted=wanted)


class Pause(NamedTuple):
    """What a paused run waits for."""

    asked: list[InterruptInfo]
    """Its open questions."""
    waits_for: str
    """What never arrives here, with the node that waits for it; empty if the run can continue."""
    until: float
    """The time of its first timer, in seconds since the epoch, if there is no question."""


def pause(interrupts: Iterable[InterruptInfo]) -> Pause:
    """Return what a run with the open *interrupts* waits for: answers, or else time, unless it can never arrive."""
    questions = list(interrupts)
    asked = [question for question in questions if question.answerable]
    other = next((question for question in questions if not question.answerable and question.kind != "timer"), None)
    if asked or other is None:
        return Pause(asked, "", 0.0 if asked else min(question.expires_at or 0.0 for question in questions))
    awaited = "a child thread" if other.kind == "thread" else "a signal"
    return Pause([], f"{awaited}, which an exploration does not bring: node {other.node!r}", 0.0)


@final
class Answers:
    """Answers questions, always giving the same question the same answer.

    Args:
        answers: Answers in the order of the questions of the first run, or a function of the question.

    Raises:
        InputError: *answers* is neither a list nor a sync function.
    """

    def __init__(self, answers: Callable[[InterruptInfo], Any] | Sequence[Any]) -> None:
        check_answers("answers=", answers)
        self._given = answers
        self._known: dict[tuple[str, str], Any] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return callable(self._given) or bool(self._given)

    def of(self, question: InterruptInfo, payload: Any) -> Any:
        """Return the answer to *question*, as if its payload were *payload*.

        Raises:
            NoAnswerError: The answers are used up.
            FunctionError: The user's function raised.
        """
        known = (question.task_id, repr(payload))
        if known not in self._known:
            if callable(self._given):
                self._known[known] = called("answers=", self._given, question)
            elif len(self._known) < len(self._given):
                self._known[known] = self._given[len(self._known)]
            else:
                raise NoAnswerError(f"Node {question.node!r} asks {payload!r}, and answers= has no answer.")
        return self._known[known]
