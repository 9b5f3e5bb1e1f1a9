"""Reads the file for an image, audio or a document, checking what it is and its size before reading its bytes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from graphrt.errors import InputError, a_type

StrPath: TypeAlias = str | os.PathLike[str]


class Found(NamedTuple):
    """A file that was read."""

    data: bytes
    name: str
    path: str


def read(
    path: StrPath,
    *,
    root: StrPath | None,
    max_bytes: int,
    check_size: Callable[[int, str], None],
    wrong: Callable[[str, str, str], InputError],
) -> Found:
    """Read the file at *path*, a regular file of at most *max_bytes* bytes, inside the folder *root* if given.

    Args:
        path: The file.
        root: The folder; None for any.
        max_bytes: Maximum size in bytes.
        check_size: Raises the error for a size that is too large; also takes the path.
        wrong: Creates the error from a problem, a fix and a location.

    Raises:
        InputError: It is not such a file.
    """
    value: Any = path
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(f"cannot be read from {a_type(value)}", "Pass the path of a file.", "")
    file = Path(path) if root is None else Path(root, path)
    where = str(file)
    try:
        if root is not None and not file.resolve().is_relative_to(Path(root).resolve()):
            raise wrong(f"cannot be read from outside of {os.fspath(root)!r}", "Name a file in that folder.", where)
        with open(file, "rb", opener=_without_waiting) as opened:
            status = os.fstat(opened.fileno())  # of the open file, since the path may lead to another one by now
            if not stat.S_ISREG(status.st_mode):
                raise wrong("cannot be read from what is not a file", "Name a file.", where)
            check_size(status.st_size, where)
            return Found(opened.read(max_bytes + 1), file.name, where)  # at most: it may grow meanwhile
    except IsADirectoryError:
        raise wrong("cannot be read from a directory", "Name a file in it.", where) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise wrong(f"cannot be read: {reason}", "Check the path.", where) from error


def _without_waiting(path: str, flags: int) -> int:
    """Open *path*. Without the flag, opening a FIFO would wait for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
