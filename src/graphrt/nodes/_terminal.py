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
    read_line: ReadLine,
    payload: Mapping[str, Any],
    rules: Rules,
    answer: type[BaseModel],
    *,
    fields: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Ask until the answer is valid, and return it as plain data; None if the input has ended.

    Args:
        read_line: Shows a prompt and returns a line.
        payload: The question.
        rules: The required form of the answer.
        answer: The class of the answer.
        fields: The fields of the state, by name, each with its `annotation` and `check_whole`.
    """
    shown = "".join(f"  {name}: {value}\n" for name, value in payload["context"].items())
    head = f"{payload['question']}\n{shown}"
    while True:
        try:
            response = _lines(read_line, head, rules)
        except EOFError:
            return None
        try:
            valid = answer.model_validate(response).model_dump()
        except ValidationError as error:
            head = "".join(f"Not valid: {problem['msg']}\n" for problem in error.errors())
            continue
        problems: list[str] = []
        for name, text in valid.get("edits", {}).items():
            try:
                valid["edits"][name] = _value(text, fields[name])
            except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything
                found = error.errors() if isinstance(error, ValidationError) else [{"msg": str(error)}]
                problems += [f"Not valid: {name}: {problem['msg']}\n" for problem in found]
        if not problems:
            return valid
        head = "".join(problems)


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
        response["edits"] = {field: text for field, text in new.items() if text}
    return response


def _value(text: str, field: Any) -> Any:
    """Return the value that was typed for *field*.

    A field of texts gets the line unchanged. Any other gets it parsed as JSON, so that numbers and lists can be typed,
    or else the line.

    Raises:
        Exception: The value does not fit the field.
    """
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = text
    if getattr(field.annotation, "__origin__", field.annotation) is Any:  # also in Annotated
        return parsed
    try:
        takes_line, taken = True, field.check_whole(text)
    except Exception:  # noqa: BLE001 - a validator of the user's may raise anything
        takes_line, taken = False, None
    if takes_line and isinstance(taken, str):
        return text
    try:
        field.check_whole(parsed)
    except Exception:
        if takes_line:  # such as a date
            return text
        raise
    return parsed
