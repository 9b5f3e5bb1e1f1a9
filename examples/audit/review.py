"""The person's part: shows the open questions, and reads the answers from the terminal. No graph, no policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from graphrt.console import Screen

SAYS = {"y": True, "yes": True, "accept": True, "n": False, "no": False, "reject": False, "p": None, "policy": None}


class Question(Protocol):
    """An open interrupt: an item of `RunResult.interrupts`."""

    id: str
    payload: Any


def answers(questions: Sequence[Question], screen: Screen) -> dict[str, dict[str, Any]]:
    """An answer for each question, by its id. At the end of input the policy decides the remaining ones.

    Args:
        questions: 1..n questions; a payload is a finding's fields.
        screen: Where they are shown and answered.
    """
    screen.busy(None)
    screen.line()
    screen.line(("your review", "title"), f"  {len(questions)} findings")
    screen.line(("y accepts, n rejects, p or Enter leaves it to the policy; a reason may follow.", "faint"))
    screen.line(("Y, N and P answer this one and all that follow.", "faint"))
    given: dict[str, dict[str, Any]] = {}
    rest: dict[str, Any] | None = None
    for question in questions:
        finding = question.payload
        if rest is None:
            screen.line()
            screen.line((f"{finding['id']} ", "accent"), (f"{finding['package']} {finding['version']}", "name"))
            screen.line(f"   {finding['severity']}: {finding['text']}")
            answer, for_all = _ask(screen)
            rest = answer if for_all else None
            given[question.id] = answer
        else:
            given[question.id] = rest
    screen.line()
    return given


def read(line: str) -> tuple[dict[str, Any], bool] | None:
    """The answer in a line, and whether it applies to all later ones; None if it is invalid."""
    word, _, reason = line.strip().partition(" ")
    if not word:
        return {"accept": None}, False
    if word.lower() not in SAYS:
        return None
    return {"accept": SAYS[word.lower()], "reason": reason.strip()}, len(word) == 1 and word.isupper()


def _ask(screen: Screen) -> tuple[dict[str, Any], bool]:
    while True:
        line = screen.ask("   accept? [y/n/p]")
        if line is None:
            return {"accept": None}, True
        found = read(line)
        if found is not None:
            return found
        screen.line(("   y, n or p, please; a reason may follow.", "warn"))
