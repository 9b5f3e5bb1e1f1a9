"""Input: JSON documents from files and standard input, and options of the form `name=value`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from graphrt.errors._codes.command_line import BAD_DOCUMENT

_NUMBERS: Final = "Write NAME=NUMBER, as in max_steps=10,deadline_s=60, or a JSON object."
A_TEXT: Final = "Write JSON. A text is in double quotes, and the shell needs single ones around them: '\"yes\"'."
"""Advice about an argument that is not JSON; usually it is a bare word."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def read_json(place: str) -> Any:
    """Return the JSON document of a file; of standard input for "-".

    Raises:
        InputError: It cannot be read, or is not JSON.
    """
    source = "standard input" if place == "-" else repr(place)
    try:
        data = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
        return parsed(data.decode("utf-8-sig"), source)
    except UnicodeDecodeError as error:
        raise BAD_DOCUMENT(source=source, form="JSON", problem=f"byte {error.start} is not UTF-8") from error
    except OSError as error:
        raise BAD_DOCUMENT(source=source, form="JSON", problem=error.strerror or str(error)) from error


def parsed(text: str, source: str, fix: str | None = None) -> Any:
    """Return the value of a JSON text.

    Raises:
        InputError: It is not JSON, or it is ambiguous: it has NaN, or an object with a duplicate key.
    """
    extra: dict[str, Any] = {} if fix is None else {"fix": fix}
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except RecursionError as error:
        raise BAD_DOCUMENT(source=source, form="JSON", problem="it is nested too deeply", **extra) from error
    except ValueError as error:
        raise BAD_DOCUMENT(source=source, form="JSON", problem=str(error)[:200], **extra) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):  # json would silently keep the last value
        raise ValueError(f"an object has the key {duplicated([name for name, _ in pairs])!r} twice")
    return result


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def assignments(given: Sequence[str], option: str) -> dict[str, Any]:
    """Parse `name=value,name=value`, or a JSON object.

    Raises:
        InputError: A part is not of that form.
        UsageError: A name has two values.
    """
    pairs: list[tuple[str, Any]] = []
    for text in given:
        if text.lstrip().startswith("{"):
            parsed_object: Any = parsed(text, option, _NUMBERS)
            pairs += parsed_object.items()  # it begins with a brace, so it is an object
            continue
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise BAD_DOCUMENT(source=option, form="name=value", problem=f"{part!r} has no '='", fix=_NUMBERS)  # fmt: skip
            none = value.strip() in ("none", "None")
            pairs.append((name.strip(), None if none else parsed(value, f"{option} {name}", _NUMBERS)))
    return without_duplicates(pairs, option)


def without_duplicates(pairs: Sequence[tuple[str, Any]], option: str) -> dict[str, Any]:
    """Return *pairs* of names and values as a dict.

    Raises:
        UsageError: A name has two values, of which the dict would silently keep the last.
    """
    duplicate = duplicated([name for name, _ in pairs])
    if duplicate is not None:
        raise click.UsageError(f"{option} has two values for {duplicate!r}. Give one of them.")
    return dict(pairs)


def duplicated(names: Sequence[str]) -> str | None:
    """Return the first name that occurs more than once; None without one."""
    return next((name for name in names if names.count(name) > 1), None)


def seconds(text: str, option: str) -> float:
    """Return the seconds in a duration such as `90s`, `15m`, `12h` or `30d`, the value of *option*.

    Raises:
        InputError: *text* is no duration, or has no unit. A plain 30 could mean seconds or days, and what is older is
            deleted.
    """
    try:
        duration_s = float(text[:-1]) * _UNITS[text[-1:]]
        if not 0 <= duration_s < float("inf"):
            raise ValueError(duration_s)
    except (ValueError, KeyError) as error:
        raise BAD_DOCUMENT(
            source=option, form="a time", problem=repr(text), fix="Write 90s, 15m, 12h or 30d, with the unit."
        ) from error
    return duration_s


def key_in(path: str) -> bytes:
    """Return the key in a file, without the newline that an editor may have added.

    Raises:
        InputError: The file cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        fix = "Name the file that `graphrt audit keygen` wrote."
        raise BAD_DOCUMENT(source=repr(path), form="a key", problem=error.strerror or str(error), fix=fix) from error
    return data[:-1] if len(data) == 33 and data.endswith(b"\n") else data
