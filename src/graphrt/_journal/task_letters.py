"""What a worker of a queue reports of a task, as letters to the thread (decision 0159).

A letter holds what the driver of the thread would have staged at that moment, in the same bytes and under the same
keys. Its id has the number of the letter among those about one waiting of the task. The store keeps one letter of each
id, so of two workers that run the same task, the slower one finds its number taken, and stops: nothing that it does is
mixed with what the other one reports.

What was taken is staged under those keys, and the number of the last letter under a key that says nothing else:

    2.0:draw#queue:1:4    of the first waiting of this task, four letters were taken
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphrt._journal.body import Body
from graphrt._journal.letters import read, written
from graphrt._journal.name_table import Names
from graphrt._journal.staging import encode_staged
from graphrt.stores.mail import Letter as Stored
from graphrt.stores.protocol import Store

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.run_state import RunState

_LONGEST: Final = 160
"""Most characters of a task's id that the id of a letter repeats; of a longer one it has a digest."""


class Report(NamedTuple):
    """A letter about a task, with its bodies as they are staged."""

    place: int
    id: str
    task: str
    version: int
    """Which waiting of the task it is about: the version of its question."""
    number: int
    """From 1, among the letters about that waiting."""
    rows: Mapping[str, bytes]
    """Staged bodies by key, in order."""
    blobs: Mapping[str, bytes]
    """Large values of these bodies."""
    failed: bytes | None
    """The body of the failure with which the task ended for good; None if it did not."""
    raise_as_is: bool
    """As in `Extra`, of that failure."""


class Reported:
    """What the letters of a thread come to: bodies to stage, letters to delete, failures to take."""

    __slots__ = ("dropped", "failures", "places", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, Sequence[Logged]] = {}
        self.places: list[int] = []
        """Places of all letters, also of those that were dropped."""
        self.dropped: list[Report] = []
        """Letters about tasks that no longer wait for them."""
        self.failures: dict[str, tuple[Any, bool]] = {}
        """Task id to the event `TaskFailed`, and whether its error is raised as it is."""


def letter_id(task: str, version: int, number: int) -> str:
    """Return the id of a letter about *task*."""
    if len(task) > _LONGEST:
        from hashlib import blake2b

        task = blake2b(task.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"task:{version}:{number}:{task}"


def packed(
    store: Store,
    engine: RunState,
    meta: Mapping[str, Any],
    about: tuple[str, int, int],
    staged: Sequence[tuple[str, Sequence[Logged]]],
    *,
    failed: tuple[Any, bool] | None = None,
) -> Any:
    """Return the body of a letter.

    Args:
        engine: The engine of the thread, not of a nested graph.
        meta: Meta of the thread: bodies are bound to its chain.
        about: Task, version and number.
        staged: Pairs of a key and its events.
        failed: The failure with which the task ended, as in `Reported.failures`.

    Raises:
        NotStorable: A value cannot be stored exactly.
    """
    codec, (task, version, number) = engine.plan.codec, about
    blobs: dict[str, bytes] = {}

    def encoded(key: str, logged: Sequence[Logged]) -> bytes:
        body = Body(codec, Names(), engine.plan.state.untracked)
        made = encode_staged(body, meta, key, logged)
        blobs.update(body.blobs)
        return made

    rows = {key: encoded(key, logged) for key, logged in staged}
    told = {
        "task": task,
        "version": version,
        "number": number,
        "rows": rows,
        "failed": None if failed is None else encoded(failed_key(task), [("", failed[0])]),
        "raise_as_is": failed is not None and failed[1],
        "blobs": blobs,
    }
    return written(store, codec, "task", told)


def reports(codec: Codec, letters: Iterable[Stored]) -> list[Report]:
    """Return those of *letters* that are about tasks, decoded, in order."""
    found: list[Report] = []
    for stored in letters:
        letter = read(codec, stored)
        if letter.what == "task":
            told = letter.told
            found.append(Report(letter.place, letter.id, **{name: told[name] for name in Report._fields[2:]}))
    return found


def failed_key(task: str) -> str:
    """Return the key to which the body of a failure is bound. Nothing is staged under it."""
    return f"{task}#failed"


def counter(task: str, version: int) -> str:
    """Return how the keys begin that say how many letters about a waiting of *task* were taken."""
    return f"{task}#queue:{version}:"


def taken(keys: Iterable[str], task: str, version: int) -> int:
    """Return how many letters about a waiting of *task* were taken, by the *keys* of what is staged."""
    before = counter(task, version)
    return max((int(key.removeprefix(before)) for key in keys if key.startswith(before)), default=0)
