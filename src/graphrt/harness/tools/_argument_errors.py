"""Tell a model what is wrong with its arguments: where, what was given, what is expected, in few words.

Texts only; who checks, and with what, is told elsewhere. Nothing but the model's own values is quoted, and clipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graphrt.errors import ToolArgumentsError, closest

_MOST: Final = 8
"""Findings that are told; more would not help a model."""
_CLIP: Final = 60
_OBJECTS: Final = {"model_type", "dataclass_type", "model_attributes_type", "dict_type", "mapping_type"}
"""Kinds whose text names a class of the program, which no model knows."""
_NONE: Final = "no arguments"


def misfit(tool: str, findings: Sequence[str]) -> ToolArgumentsError:
    """The error for 1..n findings; its `what` is the text for the model."""
    shown = [f"- {finding}" for finding in findings[:_MOST]]
    if len(findings) > _MOST:
        shown.append(f"- and {len(findings) - _MOST} more")
    text = "\n".join([f"The arguments do not fit {tool}:", *shown, "Correct them and call it again."])
    return ToolArgumentsError(text, values=tuple(findings), tool=tool)


def from_pydantic(errors: Iterable[Mapping[str, Any]], arguments: Any, known: Sequence[str]) -> list[str]:
    """Findings from what pydantic lists, one for each place, in its order."""
    places: dict[str, list[str]] = {}
    for error in errors:
        kind = error["type"]
        place, parent = _place(error["loc"], arguments, missing=kind == "missing")
        if kind == "missing":
            said = "is missing"
        elif kind in {"extra_forbidden", "unexpected_keyword_argument"}:
            name = str(error["loc"][-1])
            said = unknown(name, known) if parent is arguments else "is not a known key"
        else:
            said = _said(error)
        told = places.setdefault(place, [])
        if said not in told:
            told.append(said)
    return [f"{place}: {'; or '.join(told)}" if place else "; or ".join(told) for place, told in places.items()]


def unknown(name: str, known: Sequence[str]) -> str:
    """What is said of an argument that the tool does not have."""
    guess = closest(name, known)
    meant = f"did you mean {guess}? It" if guess else "it"
    return f"unknown argument; {meant} takes {', '.join(known) or _NONE}"


def clip(value: Any) -> str:
    """A value of the model's, as JSON, in few characters."""
    import pydantic_core

    try:
        text = pydantic_core.to_json(value, fallback=lambda other: f"<{type(other).__name__}>").decode()
    except Exception:  # noqa: BLE001 - what cannot be shown is named by its type
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _CLIP else f"{text[: _CLIP - 3]}..."


def path(parts: Iterable[str | int]) -> str:
    """A place inside of the arguments: `filters[0].name`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _said(error: Mapping[str, Any]) -> str:
    text = str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if error["type"] in _OBJECTS:
        text = "should be an object"
    given = clip(error.get("input"))
    return f"{text} (given: {given})"


def _place(loc: Sequence[str | int], arguments: Any, *, missing: bool) -> tuple[str, Any]:
    """The path of a finding and what holds it; what is only a branch of a union in pydantic's eyes is left out."""
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
