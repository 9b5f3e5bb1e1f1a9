"""What a docstring tells a model: a description, and one for each parameter.

The only file that touches griffe (extra `graphrt[tools]`); without it the first paragraph is all that is read.
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
"""The types stand in the signature, so that their absence is nothing to warn of."""

_PARAMETERS: Final = re.compile(
    r"^(?:(?:Args|Arguments|Params|Parameters|Other Parameters):?[ ]*$|:param\b)", re.MULTILINE
)
"""Where a description of parameters begins, in any of the styles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was read."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    unread: bool = False
    """Whether it seems to describe parameters, and nothing is installed that could read it."""


def read_docstring(text: str | None) -> Told:
    """Read a docstring in Google's, numpy's or Sphinx's style."""
    clean = inspect.cleandoc(text or "")
    if not clean:
        return Told()
    try:
        griffe: Any = import_module("griffe")
    except ImportError:
        unread = _PARAMETERS.search(clean) is not None
        return Told(description=_one_line(clean.split("\n\n", 1)[0]), unread=unread)
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
