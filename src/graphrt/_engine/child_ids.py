"""Ids of child threads (R24): made of the ids of their parent and of the task that starts them, and known by that.

Plain functions of texts. Tenants play no part: parent and child have the same one.
"""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 120
"""Characters of an id that are part of the ids of its children as they are; ids may have 200."""


def child_id(parent: str, task: str, key: str) -> str:
    """Return the id of the child that the task *task* of the thread *parent* starts as *key*: always the same.

    All but the tenant is that of any other thread. Children have `.` and a part without one behind the parent's id.
    """
    import hashlib  # imported here: it loads OpenSSL, and hardly any run has children

    label = re.sub(r"[^A-Za-z0-9_-]", "_", key.removeprefix("name="))[:40]
    return f"{_before(parent)}{label}-{hashlib.sha256(f'{task}#{key}'.encode()).hexdigest()[:16]}"


def is_child(parent: str | None, thread: str | None) -> bool:
    """Return whether *thread* is a child of the thread *parent*, and not of one that this is a copy or fork of."""
    if parent is None or thread is None:
        return False
    before, thread = _before(parent), _bare(thread)
    return thread.startswith(before) and "." not in thread[len(before) :]


def _before(parent: str) -> str:
    parent = _bare(parent)
    if len(parent) > _LONGEST:
        import hashlib

        parent = f"{parent[: _LONGEST - 40]}_{hashlib.sha256(parent.encode()).hexdigest()[:32]}"
    return f"{parent}."


def _bare(thread: str) -> str:
    return thread.rpartition("~")[2]  # as `stores.ids` has it, which stands above
