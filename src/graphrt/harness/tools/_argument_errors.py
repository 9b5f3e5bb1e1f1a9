"""Error messages for a model whose tool arguments are invalid.

Each finding has the path of the value, the value and the expected form. Only values that the model itself sent are
quoted, shortened: the text must not leak the program's own data. The validation itself lives in `_arguments` and in
`mcp._tool`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graphrt.errors import ToolArgumentsError, closest
from graphrt.errors._codes.tools import TOOL_ARGUMENTS

_MOST: Final = 8
"""Maximum number of findings in one message; more do not help a model."""
_CLIP: Final = 60
"""Maximum number of characters that are quoted of a value."""
_OBJECTS: Final = {"model_type", "dataclass_type", "model_attributes_type", "dict_type", "mapping_type"}
"""Pydantic error types whose message names Python classes or dictionaries, which mean nothing to a model."""
_NONE: Final = "no arguments"


def misfit(tool: str, findings: Sequence[str]) -> ToolArgumentsError:
    """Return the error for 1..n findings; its `what` is the text that the model reads."""
    lines = [f"- {finding}" for finding in findings[:_MOST]]
    if len(findings) > _MOST:
        lines.append(f"- and {len(findings) - _MOST} more")
    text = "\n".join([f"The arguments do not fit {tool}:", *lines, "Correct them and call it again."])
    return TOOL_ARGUMENTS(text=text, values=tuple(findings), tool=tool)


def from_pydantic(errors: Iterable[Mapping[str, Any]], arguments: Any, known: Sequence[str]) -> list[str]:
    """Turn pydantic's errors into findings: one text for each path, in pydantic's order."""
    places: dict[str, list[str]] = {}
    for error in errors:
        kind = error["type"]
        place, parent = _place(error["loc"], arguments, missing=kind == "missing")
        if kind == "missing":
            problem = "is missing"
        elif kind in {"extra_forbidden", "unexpected_keyword_argument"}:
            name = str(error["loc"][-1])
            problem = unknown(name, known) if parent is arguments else "is not a known key"
        else:
            problem = _said(error)
        problems = places.setdefault(place, [])
        if problem not in problems:
            problems.append(problem)
    return [
        f"{place}: {'; or '.join(problems)}" if place else "; or ".join(problems) for place, problems in places.items()
    ]


def unknown(name: str, known: Sequence[str]) -> str:
    """Return the finding for an argument that the tool does not have."""
    guess = closest(name, known)
    hint = f"did you mean {guess}? It" if guess else "it"
    return f"unknown argument; {hint} takes {', '.join(known) or _NONE}"


def clip(value: Any) -> str:
    """Return a value that the model sent as JSON, cut to `_CLIP` characters."""
    import pydantic_core

    try:
        text = pydantic_core.to_json(value, fallback=lambda other: f"<{type(other).__name__}>").decode()
    except Exception:  # noqa: BLE001 - a value without a JSON form is shown as its type
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _CLIP else f"{text[: _CLIP - 3]}..."


def path(parts: Iterable[str | int]) -> str:
    """Return the path of a value inside the arguments, such as `filters[0].name`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _said(error: Mapping[str, Any]) -> str:
    text = str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if error["type"] in _OBJECTS:
        text = "should be an object"
    value_text = clip(error.get("input"))
    return f"{text} (given: {value_text})"


def _place(loc: Sequence[str | int], arguments: Any, *, missing: bool) -> tuple[str, Any]:
    """Return the path of a finding, and the container that the value is in.

    pydantic's `loc` also has labels of union branches, such as `str` or `list[int]`. They lead nowhere in the arguments
    and are left out.
    """
    parts: list[str | int] = []
    current: Any = arguments
    parent: Any = None
    for at, part in enumerate(loc):
        if _leads_on(current, part):
            parent, current = current, current[part]
        elif not (missing and at == len(loc) - 1):
            continue
        parts.append(part)
    return path(parts), parent


def _leads_on(current: Any, part: str | int) -> bool:
    holder: Any = current
    if isinstance(current, Mapping):
        return part in holder
    return isinstance(current, list) and isinstance(part, int) and part < len(holder)
