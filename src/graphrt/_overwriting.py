"""Check before a file is overwritten: a typing mistake must not destroy a database, a module or a key.

A report that is written again replaces the earlier one. How such a file begins shows that it is one; names and suffixes
do not.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from graphrt.errors._codes.stores import NOT_OVERWRITTEN

_LOOKED: Final = 4_096
"""Number of bytes that are read to recognise a file."""


def check_overwritable(path: str | os.PathLike[str], *, kind: str, begins: bytes) -> None:
    """Check that overwriting *path* destroys at most an earlier file of the same kind.

    A path without a file, a file without text, a device and a pipe may be written to as well.

    Args:
        path: The file that is about to be written.
        kind: What is written there, with its article, for the error.
        begins: Regular expression that matches the beginning of every file of this kind, and of no other file.

    Raises:
        InputError: There is a file of another kind (`path-exists`).
        OSError: The file there cannot be read.
    """
    place = Path(path)
    if not place.is_file():
        return
    with place.open("rb") as file:
        beginning = file.read(_LOOKED)
    if beginning.strip() and re.match(begins, beginning) is None:
        raise NOT_OVERWRITTEN(file=os.fspath(path), kind=kind)
