"""Questions of a `human` node at a terminal: one line for each part of the answer, repeated until it is valid."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from graphrt.nodes._decision import Rules

ReadLine = Callable[[str], str]
"""Shows a prompt and returns a line, as `input` does; raises EOFError at the end of input."""


def line_reader(*, terminal: bool | ReadLine) -> ReadLine | None:
    """Return the function that asks at the terminal; None without a terminal, or if *terminal* is False."""
    if callable(terminal):
        return terminal
    return input if terminal and sys.stdin is not None and sys.stdin.isatty() else None


def ask_at_terminal(
    read_line: ReadLine, payload: Mapping[str, Any], rules: Rules, answer: type[BaseModel]
) -> dict[str, Any] | None:
    """Ask until the answer is valid, and return it as plain data; None if the input has ended."""
    shown = "".join(f"  {name}: {value}\n" for name, value in payload["context"].items())
    head = f"{payload['question']}\n{shown}"
    while True:
        try:
            response = _lines(read_line, head, rules)
        except EOFError:
            return None
        try:
            return answer.model_validate(response).model_dump()
        except ValidationError as error:
            head = "".join(f"Not valid: {problem['msg']}\n" for problem in error.errors())


def _lines(read_line: ReadLine, head: str, rules: Rules) -> dict[str, Any]:
    response: dict[str, Any] = {
        "choice": read_line(f"{head}{' / '.join(rules.choices)}? ").strip(),
        "by": read_line("Your name: ").strip(),
    }
    if rules.roles:
        response["role"] = read_line(f"Your role ({', '.join(rules.known_roles)}): ").strip() or None
    response["rationale"] = read_line(f"Why{'' if rules.rationale else ' (may be empty)'}: ").strip()
    if rules.edit and response["choice"] == "edit":
        new = {field: read_line(f"New {field} (empty keeps it): ") for field in rules.edit}
        response["edits"] = {field: _value(text) for field, text in new.items() if text}
    return response


def _value(text: str) -> Any:
    """Parse a line as JSON if possible, so that numbers and lists can be typed; otherwise return it unchanged."""
    try:
        return json.loads(text)
    except ValueError:
        return text
