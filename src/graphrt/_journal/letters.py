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

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt.stores.mail import Letter as Stored

_BEFORE: Final = "signal:"
"""What the stored id of a signal begins with. Its sender may choose any id; graphrt chooses those of other letters."""


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


def read(codec: Codec, stored: Stored) -> Letter:
    """Return a letter, decoded. Its id is the one that its sender chose.

    Its `place` is its number in the store, by which a commit deletes it.

    Raises:
        StoreError: Its body is damaged, or has a class that *codec* does not know.
    """
    told: dict[str, Any] = codec.load(stored.body)
    return Letter(stored.place, stored.id.removeprefix(_BEFORE), told["what"], told)
