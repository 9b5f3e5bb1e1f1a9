"""Descriptions for the model, read from a docstring: one for the tool, and one for each parameter.

The only file that imports griffe (extra `graphrt[tools]`). Without it only the first paragraph is read.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

_QUIET: dict[str, dict[str, Any]] = {
    "google": {"warnings": False},
    "numpy": {"warnings": False},
    "sphinx": {"warnings": False},
}
"""Parser options by style. griffe warns about parameters without a type, but the types are in the signature."""

_PARAMETERS: Final = re.compile(
    r"^(?:(?:Args|Arguments|Params|Parameters|Other Parameters):?[ ]*$|:param\b)", re.MULTILINE
)
"""Start of a section that describes parameters, in Google, numpy or Sphinx style."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Descriptions that were found in a docstring."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    unread: bool = False
    """Whether the docstring seems to describe parameters, but griffe, which would read them, is not installed."""


def read_docstring(text: str | None) -> Told:
    """Read the descriptions out of a docstring in Google, numpy or Sphinx style; None counts as an empty one."""
    clean = inspect.cleandoc(text or "")
    if not clean:
        return Told()
    try:
        griffe: Any = import_module("griffe")
    except ImportError:
        is_unread = _PARAMETERS.search(clean) is not None
        return Told(description=_one_line(clean.split("\n\n", 1)[0]), unread=is_unread)
    texts: list[str] = []
    parameters: dict[str, str] = {}
    for section in griffe.Docstring(clean).parse("auto", method="max_sections", per_style_options=_QUIET):
        if section.kind.value == "text":
            texts.append(section.value.strip())
        elif section.kind.value == "admonition":  # `Note:`, `Warning:`
            texts.append(f"{section.title}: {_one_line(section.value.description)}")
        elif section.kind.value in {"parameters", "other parameters"}:
            for item in section.value:
                parameters[item.name.lstrip("*")] = _one_line(item.description)
    return Told(description="\n\n".join(texts), parameters=parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())
