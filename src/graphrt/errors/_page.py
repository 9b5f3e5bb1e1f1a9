"""The sections of the page about error codes, which is installed with the package. Reading it is all that lives here."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

_PAGE: Final = "errors.md"


def sections() -> dict[str, str]:
    """Code to its section, in the page's order.

    Raises:
        FileNotFoundError: Neither an installed copy of the page nor a checkout's is there.
    """
    found: dict[str, str] = {}
    for part in re.split(r"^## (?=[a-z0-9-]+\s*$)", page(), flags=re.MULTILINE)[1:]:
        code, _, text = part.partition("\n")
        found[code.strip()] = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
    return found


def page() -> str:
    """The whole page: the copy inside an installed package, in a checkout the page of its documentation."""
    here = files("graphrt.errors") / _PAGE
    if here.is_file():
        return here.read_text(encoding="utf-8")
    with open(f"{files('graphrt')}/../../docs/{_PAGE}", encoding="utf-8") as checkout:  # noqa: PTH123 - no path objects in this room
        return checkout.read()
