"""Upcasters: old forms of the journal, converted to the present form. One function for each past version.

The rest of graphrt reads the present form only. Old forms are converted in memory when they are read; what is stored
stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from graphrt._journal.body import VERSION, Body
from graphrt.errors import StoreError

UPCASTERS: Final[Mapping[int, Callable[[Any, Body], Any]]] = {}
"""Version to the function that converts its structure to the next version. Empty: version 1 is the first."""


def upcast(structure: Any, body: Body, upcasters: Mapping[int, Callable[[Any, Body], Any]] = UPCASTERS) -> Any:
    """Convert *structure* to the present form.

    Raises:
        StoreError: Its version is newer than this graphrt, or unknown.
    """
    version = structure[0]
    while version != VERSION:
        step = upcasters.get(version) if isinstance(version, int) else None
        if step is None:
            raise StoreError(
                f"A part of the journal has the form {str(version)[:20]}, which this version of graphrt does not read.",
                code="store-newer",
                known=f"forms 1 to {VERSION}",
                fix="Upgrade graphrt where the journal is read.",
            )
        structure = step(structure, body)
        version = structure[0]
    return structure
