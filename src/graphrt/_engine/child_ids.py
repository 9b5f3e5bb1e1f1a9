"""Ids of child threads (R24): made of the ids of their parent and of the task that starts them, and known by that.

The id of a child thread is

    <id of the parent>.<label>-<digest>        order-7.mail-0123456789abcdef

The label is readable, and the digest identifies the task and the call. So a repeated execution of the node finds the
child that it started, and the id alone says whose child a thread is. A copy or fork of a thread has another id, so it
is not the parent of the children of its source.

In a store that tenants share, ids begin with the tenant and `~`. Parent and child have the same tenant, which is left
out of the ids here. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 120
"""Length up to which a parent's id is repeated in full in the ids of its children. Ids may have 200 characters: a
dot, a label of 40, `-` and a digest of 16 follow. Of a longer id, the first 80, `_` and a digest of 32 are used."""


def child_id(parent: str, task: str, key: str) -> str:
    """Return the id, without a tenant, of the child that a task starts: always the same for the same arguments.

    Args:
        parent: Id of the parent thread, with or without a tenant.
        task: Id of the task, such as `2.0:draft`.
        key: The call of `ctx.start` in the task: `name=` and the name it was given, else its ordinal from 0.
    """
    import hashlib  # imported here: it loads OpenSSL, and hardly any run has children

    label = re.sub(r"[^A-Za-z0-9_-]", "_", key.removeprefix("name="))[:40]  # no dot, which separates the generations
    return f"{_before(parent)}{label}-{hashlib.sha256(f'{task}#{key}'.encode()).hexdigest()[:16]}"


def is_child(parent: str | None, thread: str | None) -> bool:
    """Return whether *thread* is a child of the thread *parent* itself: not a grandchild, nor a child of its source."""
    if parent is None or thread is None:
        return False
    before, thread = _before(parent), _bare(thread)
    return thread.startswith(before) and "." not in thread[len(before) :]


def _before(parent: str) -> str:
    """Return what the ids of all children of *parent* begin with: its id and a dot. A long id is cut and hashed."""
    parent = _bare(parent)
    if len(parent) > _LONGEST:
        import hashlib

        parent = f"{parent[: _LONGEST - 40]}_{hashlib.sha256(parent.encode()).hexdigest()[:32]}"
    return f"{parent}."


def _bare(thread: str) -> str:
    """Return the id *thread* without its tenant; the same as `stores.ids.bare_id`, which this floor may not import."""
    return thread.rpartition("~")[2]
