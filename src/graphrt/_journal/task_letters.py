"""What a worker of a queue reports of a task, as letters to the thread (decision 0159).

A task of a node with a queue is not run by the process that drives the thread. It waits with a question until a worker
has run it. Each time that it waits, its question has the next version, from 1. A letter is mail that a store keeps for
a thread until the thread's driver takes it.

A letter holds what the driver of the thread would have staged at that moment (outcome, effects and questions of the
task, as bodies by key), in the same bytes and under the same keys. Its id has the version, and the number of the letter
among those about this version. The store keeps one letter of each id. So of two workers that run the same task, the
slower one finds its number taken, and stops: nothing that it does is mixed with what the other one reports.

What was taken is staged under those keys. The number of the last letter is part of one more key, with an empty body:

    2.0:draw#queue:1:4    of version 1, four letters were taken

The code that folds a thread, to drive it or to run another of its tasks, calls `merged` before it restores the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphrt._engine.open_interrupt import TASK
from graphrt._journal.body import Body, Names
from graphrt._journal.letters import read, written
from graphrt._journal.staging import encode_staged
from graphrt.stores.values import MailMessage as Stored

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.run_state import RunState
    from graphrt._journal.reader import Reader

_LONGEST: Final = 160
"""Longest id of a task, in characters, that the id of a letter repeats; for a longer one it has a digest. The id of a
letter may have 200."""


class Report(NamedTuple):
    """A letter about a task, with its bodies as they are staged."""

    place: int
    """Place of the letter in the store's order; a commit deletes letters by it."""
    id: str
    """Id of the letter."""
    task: str
    """Id of the task, with the path of its graph."""
    version: int
    """Version of the question with which the task waits."""
    number: int
    """From 1, among the letters about this version."""
    rows: Mapping[str, bytes]
    """Staged bodies by key, in order."""
    blobs: Mapping[str, bytes]
    """Large values of these bodies."""
    failed: bytes | None
    """The body of the failure with which the task ended for good; None if it did not."""
    raise_as_is: bool
    """Whether that failure reaches the caller as it is, and not as the cause of a NodeError."""


class Reported:
    """What the letters of a thread come to: bodies to stage, letters to delete, failures to take."""

    __slots__ = ("dropped", "failures", "places", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, Sequence[Logged]] = {}
        """Events to stage, by key: pairs of path and event."""
        self.places: list[int] = []
        """Places of all letters, dropped ones included: the commit that stages the rows deletes them."""
        self.dropped: list[Report] = []
        """Letters about tasks that no longer wait for them."""
        self.failures: dict[str, tuple[Any, bool]] = {}
        """Task id to the event `TaskFailed`, and whether its error is raised as it is."""


def letter_id(task: str, version: int, number: int) -> str:
    """Return the id of a letter about *task*; for *version* and *number* see `Report`."""
    if len(task) > _LONGEST:
        from hashlib import blake2b

        task = blake2b(task.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"task:{version}:{number}:{task}"


def packed(
    engine: RunState,
    meta: Mapping[str, Any],
    about: tuple[str, int, int],
    staged: Sequence[tuple[str, Sequence[Logged]]],
    *,
    failed: tuple[Any, bool] | None = None,
) -> Any:
    """Return the body of a letter; called by the worker that runs the task.

    Args:
        engine: The engine of the thread, not of a nested graph.
        meta: Meta of the thread: staged bodies are bound to its hash chain.
        about: Id of the task, version and number, as in `Report`.
        staged: Pairs of a key and its events.
        failed: The failure with which the task ended, as in `Reported.failures`.

    Raises:
        NotStorable: A value cannot be stored exactly.
    """
    codec, (task, version, number) = engine.plan.codec, about
    blobs: dict[str, bytes] = {}

    def encoded(key: str, logged: Sequence[Logged]) -> bytes:
        """Encode events as they are staged under *key*; large values join `blobs`, which the letter brings along."""
        body = Body(codec, Names(), engine.plan.state.untracked)
        made = encode_staged(body, meta, key, logged)
        blobs.update(body.blobs)
        return made

    rows = {key: encoded(key, logged) for key, logged in staged}
    content = {
        "task": task,
        "version": version,
        "number": number,
        "rows": rows,
        "failed": None if failed is None else encoded(failed_key(task), [("", failed[0])]),
        "raise_as_is": failed is not None and failed[1],
        "blobs": blobs,
    }
    return written(codec, "task", content)


def reports(codec: Codec, letters: Iterable[Stored], thread: str) -> list[Report]:
    """Return those of *letters* to *thread* that are about tasks, decoded, in order."""
    found: list[Report] = []
    for stored in letters:
        letter = read(codec, stored, thread)
        if letter.what == "task":
            content = letter.told  # the keys that `packed` writes are the fields of `Report` after place and id
            found.append(Report(letter.place, letter.id, **{name: content[name] for name in Report._fields[2:]}))
    return found


def failed_key(task: str) -> str:
    """Return the key to which the body of a failure is bound.

    Nothing is staged under it, because the failure is not staged: the run that takes the letter fails with it.
    """
    return f"{task}#failed"


def counter(task: str, version: int) -> str:
    """Return the beginning of the keys that say how many letters about *version* of *task* were taken."""
    return f"{task}#queue:{version}:"


def taken(keys: Iterable[str], task: str, version: int) -> int:
    """Return how many letters about *version* of *task* were taken, by the *keys* of what is staged."""
    before = counter(task, version)
    return max((int(key.removeprefix(before)) for key in keys if key.startswith(before)), default=0)


def merged(engine: RunState, reader: Reader, known: dict[str, Sequence[Logged]], letters: Iterable[Report]) -> Reported:
    """Put what *letters* report into *known*, the staged events by key, and return what that comes to.

    Args:
        engine: The engine of the thread, folded up to the newest entry.
        reader: Decodes the bodies.
        known: Changed: gets the reported events, and keys that count the letters.
        letters: Letters about tasks of the thread, in the order of their arrival.

    Raises:
        StoreError: A body is damaged.
    """
    result = Reported()
    # (task, version) of the tasks that wait for a queue according to the journal. A question of the kind TASK takes no
    # answer. It is withdrawn when a worker has reported that the task ended, or by an edit.
    asked = engine.questions.values()
    waiting = {(one.task_id, one.version) for one in asked if one.kind == TASK and one.open}
    counts: dict[tuple[str, int], int] = {}
    for letter in letters:
        about = letter.task, letter.version
        result.places.append(letter.place)
        if about not in counts:
            counts[about] = taken(known, *about)  # letters that were taken before, by the keys of what is staged
        # The task does not wait for it, or a letter before it is missing.
        if about not in waiting or letter.number > counts[about] + 1:
            result.dropped.append(letter)
            continue
        if letter.number <= counts[about]:  # read before the thread was, and taken in between: it is staged already
            continue
        counts[about] = letter.number
        reader.know(letter.blobs)
        for key, body in letter.rows.items():
            result.rows[key] = known[key] = reader.staged(key, body)
        counted = f"{counter(*about)}{letter.number}"  # a key without events, which records that this one was taken
        result.rows[counted] = known[counted] = ()
        if letter.failed is not None:
            # One pair of path and event, a `TaskFailed`.
            _, event = reader.staged(failed_key(letter.task), letter.failed)[0]
            result.failures[letter.task] = event, letter.raise_as_is
    return result
