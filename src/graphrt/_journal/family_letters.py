"""Letters between a parent and its child threads, which the commit posts that ends a run of one of them (R24).

A child tells its parent that its run has ended; the parent reads how. A parent whose run is cancelled or given up asks
its children to cancel theirs. Both are in the transaction of the entry that says so: no process can die between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphrt import events
from graphrt._journal.letters import written
from graphrt.stores.ids import bare_id, beside

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.engine import Engine
    from graphrt.stores.protocol import Store

_ENDS = (events.RunCompleted, events.RunFailed, events.RunCancelled)


def family_letters(
    engine: Engine, store: Store, thread: str, logged: Sequence[Logged], seq: int
) -> list[tuple[str, str, Any]]:
    """Return the letters to parent and children of a thread that go with a commit.

    Args:
        engine: The thread, folded up to the commit.
        store: Where the letters are kept.
        thread: Id of the thread in *store*.
        logged: The events of the commit.
        seq: Number of its last entry, which makes the ids of the letters.
    """
    posts: list[tuple[str, str, Any]] = []
    mine = bare_id(thread)
    for path, event in logged:
        if path:
            continue
        if isinstance(event, events.RunCancelled | events.SuperstepAbandoned) and event.threads:
            posts += [cancel_letter(engine, store, thread, child, str(seq)) for child in event.threads]
        if isinstance(event, _ENDS) and engine.parent is not None:
            body = written(store, engine.plan.codec, "ended", {"thread": mine})
            posts.append((beside(thread, engine.parent), f"ended:{_short(mine)}:{seq}", body))
    return posts


def cancel_letter(engine: Engine, store: Store, thread: str, child: str, once: str) -> tuple[str, str, Any]:
    """Return the letter by which *thread* cancels its child *child*; *once* makes its id one of its own."""
    body = written(store, engine.plan.codec, "cancel", {"epoch": None, "parent": bare_id(thread)})
    return beside(thread, child), f"cancel:{_short(bare_id(thread))}:{once}", body


def _short(thread: str) -> str:
    """Return a digest in place of an id of a thread, which may be as long as an id of a letter."""
    import hashlib  # imported here: it loads OpenSSL, and hardly any run has a parent or children

    return hashlib.sha256(thread.encode()).hexdigest()[:32]
