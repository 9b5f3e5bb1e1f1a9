"""Letters between processes as bytes: their contents and encoding.

A letter is mail that a process posts to a thread that another process may own (R22). The store keeps it until the owner
takes it. Its body is a mapping: `what`, the kind of the letter, and the data of that kind:

    cancel    epoch of the claim that drove the thread when the letter was posted; None from a parent, for any claim
    signal    name, value and sender
    answers   answers by interrupt id
    input     a checked update, labels, and whether it abandons the run in progress
    ended     id of a child thread whose run has ended
    task      what a worker of a queue reports of a task; see `task_letters`

`_runs.mail` decides who posts and who processes letters, except for those between a parent and its child threads (R24).
A node starts a child thread with `ctx.start`; the thread of the node is its parent. A child reports to its parent that
its run has ended, and the parent reads the child to see how. A parent whose run is cancelled or abandoned asks its
children to cancel theirs. Both letters are posted in the transaction of the entry that causes them, so that a crash
cannot separate entry and letter. A letter to post is a tuple: the receiving thread, the id of the letter, and its body.
A store keeps one letter of each id, so that a repeated letter changes nothing.

A store that is shared by several tenants prefixes the id of a thread with the tenant. Letters have ids without it
(`bare_id`), which parent and child share. `beside` adds the tenant of a thread to the id of another thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt import events
from graphrt._engine.mail import Letter, What
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.stores.ids import bare_id, beside

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.engine import Engine
    from graphrt.stores.values import MailMessage as Stored

_BEFORE: Final = "signal:"
"""Prefix of the stored id of a signal, because its sender may choose any id. graphrt chooses the ids of other
letters."""
_DATA: Final = {
    "cancel": {"epoch"},
    "signal": {"name", "value"},
    "answers": {"answers"},
    "input": {"input", "abandon"},
    "ended": {"thread"},
    "task": {"task", "version", "number", "rows", "failed", "raise_as_is", "blobs"},
}
"""The required parts of a letter of each kind, to reject damaged ones."""


def signal_id(id: str) -> str:
    """Return the id under which the store keeps the signal *id*."""
    return f"{_BEFORE}{id}"


def written(codec: Codec, what: What, content: dict[str, Any]) -> bytes:
    """Return the body of a letter.

    Args:
        codec: Encodes the values.
        what: The kind of the letter.
        content: The data of that kind, by name; see the list above.

    Raises:
        NotStorable: A value in it cannot be stored.
    """
    return codec.dump({"what": what, **content})


def read(codec: Codec, stored: Stored, thread: str) -> Letter:
    """Return a letter, decoded. Its id is the one that its sender chose.

    Its `place` is its number in the store, by which a commit deletes it.

    Raises:
        StoreError: Its body is damaged, or has a class that *codec* does not know.
    """
    content: Any = codec.load(stored.body)
    what: Any = content.get("what") if content.__class__ is dict else None
    expected = _DATA.get(what) if what.__class__ is str else None
    if expected is None or not content.keys() >= expected:
        raise STORE_DAMAGED(
            problem=f"The letter {stored.id!r} to thread {thread!r} is not what was written.", thread=thread, seq=None
        )
    return Letter(stored.place, stored.id.removeprefix(_BEFORE), what, content)


_ENDS = (events.RunCompleted, events.RunFailed, events.RunCancelled)
"""Events that end a run for its parent. A pause is not an end."""


def family_letters(engine: Engine, thread: str, logged: Sequence[Logged], seq: int) -> list[tuple[str, str, bytes]]:
    """Return the letters to a thread's parent and children that belong to a commit.

    Args:
        engine: The thread, folded up to the commit.
        thread: Id of the thread in its store.
        logged: The events of the commit, each with its path.
        seq: Number of its last entry, which makes the ids of the letters unique.
    """
    posts: list[tuple[str, str, bytes]] = []
    own_id = bare_id(thread)
    for path, event in logged:
        if path:  # a nested graph, which has no thread of its own
            continue
        # `threads` are the children that end with the run, not those that were started to outlive it.
        if isinstance(event, events.RunCancelled | events.SuperstepAbandoned) and event.threads:
            posts += [cancel_letter(engine, thread, child, str(seq)) for child in event.threads]
        # `parent`: id of the thread whose node started this one, without the tenant.
        if isinstance(event, _ENDS) and engine.parent is not None:
            body = written(engine.plan.codec, "ended", {"thread": own_id})
            posts.append((beside(thread, engine.parent), f"ended:{_short(own_id)}:{seq}", body))
    return posts


def cancel_letter(engine: Engine, thread: str, child: str, suffix: str) -> tuple[str, str, bytes]:
    """Return the letter by which *thread* cancels its child *child*.

    Args:
        engine: Its codec encodes the letter.
        thread: Id of the parent in its store.
        child: Id of the child without the tenant.
        suffix: Distinguishes this letter's id from those of other letters between the two threads. It is the number of
            the entry that causes it, or `start` if the parent was cancelled before the child that it started existed.
    """
    # No epoch: the request applies to any claim on the child, which the parent does not know.
    body = written(engine.plan.codec, "cancel", {"epoch": None, "parent": bare_id(thread)})
    return beside(thread, child), f"cancel:{_short(bare_id(thread))}:{suffix}", body


def _short(thread: str) -> str:
    """Return a digest of a thread's id for use in a letter's id, because both may have 200 characters."""
    import hashlib  # imported here: it loads OpenSSL, and hardly any run has a parent or children

    return hashlib.sha256(thread.encode()).hexdigest()[:32]
