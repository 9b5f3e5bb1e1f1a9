"""Creating heads of logs, and keeping them outside the log. `offline` explains heads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from graphrt._arguments import checked_path
from graphrt._journal.log_keys import LogKeys
from graphrt._journal.merkle import Tree
from graphrt.audit._lines import line_of
from graphrt.audit.offline import BAD_DATA, TreeHead
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS

Anchor: TypeAlias = str | os.PathLike[str] | Callable[[TreeHead], Any]
"""Where heads are kept: a file to append them to, or a function to call with each."""

BEGINS: Final = rb'\{"head":'
"""Regular expression for the beginning of an anchor file."""


def head_of(log: str, thread: str, seq: int, at: float, tree: Tree, keys: LogKeys | None) -> TreeHead:
    """Return the head of a log that ends with entry *seq*, written at *at* seconds since the epoch."""
    micros = round(at * 1e6)
    head = TreeHead(log, thread, seq, tree.size, tree.root(), micros)
    if keys is None:
        return head
    return head._replace(kid=keys.kid.hex(), mac=keys.mac(keys.kid, head.signed()) or b"")


def anchored(head: TreeHead, anchor: Anchor) -> None:
    """Keep *head* in *anchor*.

    Raises:
        OSError: The file cannot be written.
    """
    if callable(anchor):
        anchor(head)
        return
    with open(anchor, "ab", opener=_private) as file:
        file.write(line_of({"head": head.to_dict()}))
        file.flush()
        os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # a new file is private: ids of threads may be personal data


def heads_in(path: str | os.PathLike[str]) -> list[TreeHead]:
    """Return the heads of an anchor file, in the order in which they were kept.

    Raises:
        InputError: A line is not a head.
        OSError: The file cannot be read.
    """
    heads: list[TreeHead] = []
    for number, line in enumerate(Path(checked_path(path)).read_bytes().splitlines(), 1):
        try:
            heads.append(TreeHead.from_dict(json.loads(line)["head"]))
        except BAD_DATA as error:
            raise ARGUMENT_OUT_OF_BOUNDS(
                problem=f"Line {number} of the anchor file {str(path)!r} is not a head",
                wanted="the file that anchor= of AuditLog names; a last line that a crash left unfinished may be removed",
            ) from error
    return heads
