"""The page of error codes, which is installed with the package: reading it, and splitting it into sections."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

_PAGE: Final = "errors.md"


def sections() -> dict[str, str]:
    """Return code to section, in the page's order.

    Raises:
        FileNotFoundError: The page exists neither in the package nor in a checkout.
    """
    texts: dict[str, str] = {}
    for part in re.split(r"^## (?=[a-z0-9-]+\s*$)", page(), flags=re.MULTILINE)[1:]:
        code, _, text = part.partition("\n")
        texts[code.strip()] = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
    return texts


def page() -> str:
    """Return the whole page: the copy inside an installed package, or the documentation of a checkout."""
    packaged = files("graphrt.errors") / _PAGE
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    with open(f"{files('graphrt')}/../../docs/{_PAGE}", encoding="utf-8") as checkout:  # noqa: PTH123 - no path objects in this room
        return checkout.read()
