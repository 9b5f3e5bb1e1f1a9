"""Problems of a manifest: from errors of pydantic and of factories, each with its path in the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from graphrt._arguments import is_list, is_mapping, mistake
from graphrt.errors import DefinitionError, GraphrtError, Problem, closest
from graphrt.errors._codes.specs import BAD_SPEC
from graphrt.specs.plain_data import joined


def problems_of_error(error: GraphrtError, path: str, node: str | None) -> list[Problem]:
    """Return the message of *error* about the entry at *path*, which describes *node*."""
    if isinstance(error, DefinitionError):
        return [*error.problems]
    return [Problem(code=error.code, message=error.what, node=node, hint=error.fix, where=path)]


def problems_of_validation(error: ValidationError, data: Any, path: str, form: type[BaseModel]) -> list[Problem]:
    """Return the problems that pydantic found, one for each path."""
    texts_by_path: dict[str, list[str]] = {}
    hints: dict[str, str] = {}
    ours: set[str] = set()
    for details in error.errors(include_url=False, include_context=False, include_input=False):
        is_ours = details["type"] == "value_error"  # from a validator of a form, and more specific than "not a string"
        where = _path(details["loc"], data, path, is_missing=details["type"] == "missing")
        text = mistake(details["msg"]).removeprefix("Value error, ").rstrip(".")
        if details["type"] == "extra_forbidden":
            name = str(details["loc"][-1])
            text = f"There is no field {name!r} here"
            guess = closest(name, _field_names(form)) if len(details["loc"]) == 1 else ""
            hints[where] = f"Did you mean {guess!r}?" if guess else "Remove it."
        if is_ours and where not in ours:
            texts_by_path[where] = []
            ours.add(where)
        elif where in ours and not is_ours:
            continue
        texts = texts_by_path.setdefault(where, [])
        if text not in texts:
            texts.append(text)
    return [
        BAD_SPEC(problem=", or: ".join(texts), where=where, fix=hints.get(where, "Correct it."))
        for where, texts in texts_by_path.items()
        # For a union, pydantic also reports branches that do not match at all; the nested problem is more precise.
        if not any(other.startswith((f"{where}.", f"{where}[")) for other in texts_by_path)
    ]


def _field_names(form: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in form.model_fields.items()]


def _path(loc: Sequence[str | int], data: Any, path: str, *, is_missing: bool) -> str:
    """Return pydantic's location as a path in *data*, without the branches of unions that pydantic names too."""
    at: Any = data
    for n, part in enumerate(loc):
        is_last = n == len(loc) - 1
        if isinstance(part, int) and is_list(at):
            path, at = f"{path}[{part}]", at[part] if part < len(at) else None
        elif isinstance(part, str) and is_mapping(at) and (part in at or (is_last and is_missing)):
            path, at = joined(path, part), at.get(part)
    return path
