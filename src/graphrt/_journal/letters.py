"""Letters between processes as bytes: what each says, and how it is encoded.

A letter is mail that a process posts to a thread that another one may own (R22). The store keeps it until the owner
takes it. Its body is a mapping: `what`, the kind of the letter, and the data of that kind:

    cancel    epoch of the claim that drove the thread when the letter was posted; None from a parent, for any claim
    signal    name, value and sender
    answers   answers by interrupt id
    input     a checked update, labels, and whether it abandons the run that goes on
    ended     id of a child thread whose run has ended
    task      what a worker of a queue reports of a task; see `task_letters`

Who posts and who takes letters is decided in `_runs.mail`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphrt._engine.mail import Letter, What
from graphrt.errors._codes.stores import STORE_DAMAGED

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt.stores.values import MailMessage as Stored

_BEFORE: Final = "signal:"
"""What the stored id of a signal begins with. Its sender may choose any id; graphrt chooses those of other letters."""
_DATA: Final = {
    "cancel": {"epoch"},
    "signal": {"name", "value"},
    "answers": {"answers"},
    "input": {"input", "abandon"},
    "ended": {"thread"},
    "task": {"task", "version", "number", "rows", "failed", "raise_as_is", "blobs"},
}
"""What a letter of each kind must have, so that a damaged one is refused here."""


def signal_id(id: str) -> str:
    """Return the id under which the store keeps the signal *id*."""
    return f"{_BEFORE}{id}"


def written(codec: Codec, what: What, told: dict[str, Any]) -> bytes:
    """Return the body of a letter.

    Args:
        codec: Encodes the values.
        what: The kind of the letter.
        told: The data of that kind, by name; see the list above.

    Raises:
        NotStorable: A value in it cannot be stored.
    """
    return codec.dump({"what": what, **told})


def read(codec: Codec, stored: Stored, thread: str) -> Letter:
    """Return a letter, decoded. Its id is the one that its sender chose.

    Its `place` is its number in the store, by which a commit deletes it.

    Raises:
        StoreError: Its body is damaged, or has a class that *codec* does not know.
    """
    told: Any = codec.load(stored.body)
    what: Any = told.get("what") if told.__class__ is dict else None
    expected = _DATA.get(what) if what.__class__ is str else None
    if expected is None or not told.keys() >= expected:
        raise STORE_DAMAGED(
            problem=f"The letter {stored.id!r} to thread {thread!r} is not what was written.", thread=thread, seq=None
        )
    return Letter(stored.place, stored.id.removeprefix(_BEFORE), what, told)
