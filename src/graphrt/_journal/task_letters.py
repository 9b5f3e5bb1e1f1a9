"""A queue worker's reports about a task, as letters to the thread (decision 0159).

A task of a node with a queue is not run by the process that drives the thread. It waits with a question until a worker
has run it. Each time it waits, its question gets the next version, from 1. A letter is mail that a store keeps for a
thread until the thread's driver processes it.

A letter contains the data that the driver of the thread would have staged at that time: outcome, effects and questions
of the task, as bodies by key, with the same bytes under the same keys. Its id contains the version, and the number of
the letter among those about this version. The store keeps one letter per id. So of two workers that run the same task,
the slower one finds its number taken and stops: its work is not mixed with the other's reports.

The contents of processed letters are staged under those keys. The number of the last letter is part of an additional
key, with an empty body:

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
"""Maximum length, in characters, of a task id that a letter's id contains in full; a longer one is replaced by a
digest. A letter's id may have 200 characters."""


class Report(NamedTuple):
    """A letter about a task, with its bodies as they are staged."""

    place: int
    """Position of the letter in the store's order, by which a commit deletes it."""
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
    """The body of the permanent failure of the task; None if it did not fail."""
    raise_as_is: bool
    """Whether that failure is raised to the caller unchanged, not as the cause of a NodeError."""


class Reported:
    """The contents of a thread's letters: bodies to stage, letters to delete, failures to process."""

    __slots__ = ("dropped", "failures", "places", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, Sequence[Logged]] = {}
        """Events to stage, by key: pairs of path and event."""
        self.places: list[int] = []
        """Positions of all letters, including dropped ones, which the commit that stages the rows deletes."""
        self.dropped: list[Report] = []
        """Letters about tasks that no longer wait for them."""
        self.failures: dict[str, tuple[Any, bool]] = {}
        """Maps a task id to the event `TaskFailed`, and whether its error is raised unchanged."""


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
        """Encode events as they are staged under *key*.

        Large values are added to `blobs`, which the letter includes.
        """
        body = Body(codec, Names(), engine.plan.state.untracked)
        payload = encode_staged(body, meta, key, logged)
        blobs.update(body.blobs)
        return payload

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
    decoded: list[Report] = []
    for stored in letters:
        letter = read(codec, stored, thread)
        if letter.what == "task":
            content = letter.content  # the keys that `packed` writes are the fields of `Report` after place and id
            decoded.append(Report(letter.place, letter.id, **{name: content[name] for name in Report._fields[2:]}))
    return decoded


def failed_key(task: str) -> str:
    """Return the key to which the body of a failure is bound.

    Nothing is staged under it, because the failure is not staged: the run that takes the letter fails with it.
    """
    return f"{task}#failed"


def counter(task: str, version: int) -> str:
    """Return the prefix of the keys that count the processed letters about *version* of *task*."""
    return f"{task}#queue:{version}:"


def taken(keys: Iterable[str], task: str, version: int) -> int:
    """Return the number of processed letters about *version* of *task*, from the *keys* of the staged bodies."""
    before = counter(task, version)
    return max((int(key.removeprefix(before)) for key in keys if key.startswith(before)), default=0)


def merged(engine: RunState, reader: Reader, known: dict[str, Sequence[Logged]], letters: Iterable[Report]) -> Reported:
    """Merge the reports in *letters* into *known*, the staged events by key, and return the result.

    Args:
        engine: The engine of the thread, folded up to the newest entry.
        reader: Decodes the bodies.
        known: Changed: gets the reported events, and keys that count the letters.
        letters: Letters about tasks of the thread, in the order of their arrival.

    Raises:
        StoreError: A body is damaged.
    """
    result = Reported()
    # (task, version) of the tasks that wait for a queue according to the journal. A question of the kind TASK accepts
    # no answer. It is withdrawn when a worker has reported the end of the task, or by an edit.
    questions = engine.questions.values()
    waiting = {
        (question.task_id, question.version) for question in questions if question.kind == TASK and question.open
    }
    counts: dict[tuple[str, int], int] = {}
    for letter in letters:
        target = letter.task, letter.version
        result.places.append(letter.place)
        if target not in counts:
            counts[target] = taken(known, *target)  # previously processed letters, from the keys of the staged bodies
        # The task does not wait for it, or a letter before it is missing.
        if target not in waiting or letter.number > counts[target] + 1:
            result.dropped.append(letter)
            continue
        if letter.number <= counts[target]:  # read before the thread and processed in between: it is already staged
            continue
        counts[target] = letter.number
        reader.know(letter.blobs)
        for key, body in letter.rows.items():
            result.rows[key] = known[key] = reader.staged(key, body)
        # A key without events, which records that this letter was processed.
        counted = f"{counter(*target)}{letter.number}"
        result.rows[counted] = known[counted] = ()
        if letter.failed is not None:
            # One pair of path and event, a `TaskFailed`.
            _, event = reader.staged(failed_key(letter.task), letter.failed)[0]
            result.failures[letter.task] = event, letter.raise_as_is
    return result
