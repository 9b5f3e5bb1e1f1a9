"""Letters between a parent and its child threads. The commit that ends a run of one of them posts these letters (R24).

A node starts a child thread with `ctx.start`; the thread of the node is its parent. A letter is mail that a store keeps
for a thread until the thread's owner takes it. Here it is a tuple: the receiving thread, the id of the letter, and its
body. A store keeps one letter of each id, so that a repeated letter changes nothing.

A child reports to its parent that its run has ended, and the parent reads the child to see how. A parent whose run is
cancelled or given up asks its children to cancel theirs. Both letters are in the transaction of the entry that says so,
so that no crash can come between entry and letter.

A store that several tenants share puts the tenant before the id of a thread. Letters have ids without it (`bare_id`),
which parent and child share. `beside` adds the tenant of a thread to the id of another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphrt import events
from graphrt._journal.letters import written
from graphrt.stores.ids import bare_id, beside

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.engine import Engine

_ENDS = (events.RunCompleted, events.RunFailed, events.RunCancelled)
"""Events that end a run for its parent. A pause is not an end."""


def family_letters(engine: Engine, thread: str, logged: Sequence[Logged], seq: int) -> list[tuple[str, str, bytes]]:
    """Return the letters to parent and children of a thread that go with a commit.

    Args:
        engine: The thread, folded up to the commit.
        thread: Id of the thread in its store.
        logged: The events of the commit, each with its path.
        seq: Number of its last entry, which makes the ids of the letters new.
    """
    posts: list[tuple[str, str, bytes]] = []
    mine = bare_id(thread)
    for path, event in logged:
        if path:  # a nested graph, which has no thread of its own
            continue
        # `threads` are the children that go with the run: those that were started to outlive it are not among them.
        if isinstance(event, events.RunCancelled | events.SuperstepAbandoned) and event.threads:
            posts += [cancel_letter(engine, thread, child, str(seq)) for child in event.threads]
        # `parent`: id of the thread whose node started this one, without the tenant.
        if isinstance(event, _ENDS) and engine.parent is not None:
            body = written(engine.plan.codec, "ended", {"thread": mine})
            posts.append((beside(thread, engine.parent), f"ended:{_short(mine)}:{seq}", body))
    return posts


def cancel_letter(engine: Engine, thread: str, child: str, once: str) -> tuple[str, str, bytes]:
    """Return the letter by which *thread* cancels its child *child*.

    Args:
        engine: Its codec encodes the letter.
        thread: Id of the parent in its store.
        child: Id of the child without the tenant.
        once: Distinguishes this letter's id from those of other letters between the two threads: the number of the
            entry that causes it, or `start` if the parent was cancelled before the child that it started existed.
    """
    # No epoch: the request is for whichever claim drives the child, which the parent does not know.
    body = written(engine.plan.codec, "cancel", {"epoch": None, "parent": bare_id(thread)})
    return beside(thread, child), f"cancel:{_short(bare_id(thread))}:{once}", body


def _short(thread: str) -> str:
    """Return a digest in place of a thread's id: both it and a letter's id may have 200 characters."""
    import hashlib  # imported here: it loads OpenSSL, and hardly any run has a parent or children

    return hashlib.sha256(thread.encode()).hexdigest()[:32]
