"""Old forms of the journal, brought up to the present one. One function for each version that was ever written.

A version is never read twice: what is read is upcast in memory, and what is stored stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from graphrt.errors import StoreError

if TYPE_CHECKING:
    from graphrt._journal.batch_format import Body

UPCASTERS: Final[Mapping[int, Callable[[Any, Body], Any]]] = {}
"""Version to what makes the structure of the next one of it. Version 1 is the first: nothing came before."""


def upcast(structure: Any, body: Body, upcasters: Mapping[int, Callable[[Any, Body], Any]] = UPCASTERS) -> Any:
    """*structure* in the present form.

    Raises:
        StoreError: It is of a newer version, or of none.
    """
    from graphrt._journal.batch_format import VERSION

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
