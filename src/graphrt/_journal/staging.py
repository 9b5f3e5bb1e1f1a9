"""Data staged next to the journal for an open superstep: the binding of bodies, and the digests in records.

A superstep is open until it commits. Until then, outcomes, effects and questions of its tasks are stored as rows of key
and body, so that a crash loses none of them. A record vouches for these rows: it repeats their keys, and the ends of
their bodies, so that a missing or changed row is detected.

A key describes the content of its body (decision 0020, docs/reference/journal.md):

    2.0:search          all that is known of a task: retries, effects, questions, outcome
    2.0:search#pay#0    an effect of a task that still runs
    2.0:sub/1.0:search  the same, for a task of a nested graph
    2.0:sub/+0          a commit of a nested graph whose task still runs
    2.0:search#kept     what a fork kept for a task: effects, questions and answers
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt._engine.task import DONE
from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import encode
from graphrt._journal.body import Body

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.engine import Engine

_DIGITS: Final = 32
"""Hexadecimal digits of a body's end that a record repeats: 128 bits of the SHA-256 that ends the body."""


def binding(chained: str, key: str) -> bytes:
    """Return the prefix that binds a body to its key: the SHA-256 that ends the body covers it.

    Args:
        chained: Id of the thread that the chain began with; empty without a chain.
    """
    return b"graphrt/staged/v1\x00%b\x00%b\x00" % (chained.encode(), key.encode("utf-8", "surrogatepass"))


def encode_staged(body: Body, meta: Mapping[str, Any], key: str, logged: Sequence[Logged]) -> bytes:
    """Encode the data staged under *key*, bound to the key and to the thread's chain.

    Args:
        body: A new container with separate names, so that the body can be read alone.
        meta: The thread's meta, which has the id of the chain.
        key: The key.
        logged: Pairs of path and event.

    Raises:
        NotStorable: A value cannot be stored exactly.
    """
    # Staged events have no time, run or cause yet.
    return encode(body, Batch(0.0, "", 0, logged), binding=binding(str(meta.get("chained") or ""), key))


def outcomes(staged: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    """Return key and end of the staged bodies of tasks of the top graph.

    Their keys have neither `/` nor `#`. The bodies of nested graphs and running effects depend on timing, on which the
    journal must not depend (R13: the same replies in any order give the same bytes).
    """
    return {key: _end(payload) for key, payload in staged if "/" not in key and "#" not in key}


def vouched_bodies(engine: Engine | None, beside: Mapping[str, str], *, last: bool) -> Mapping[str, str]:
    """Return the data that a record vouches for: all keys of *beside*, with the ends of those bodies that are final.

    A body that may be replaced before the next record gets an empty end: the record then vouches only for its
    existence.

    Args:
        engine: The thread; with None, the record vouches for no other data.
        beside: Keys and ends of the staged bodies when the record is written, as `outcomes` returns them.
        last: Whether the thread is released with the record. The next writer then starts with a record, so nothing can
            be replaced in between.
    """
    if not beside or engine is None:
        return {}
    if last:
        return {key: beside[key] for key in sorted(beside)}
    # DONE: the task has its outcome. `extra` has optional data of a task, such as its questions. A task that asked is
    # left out, because its body also contains the outcome of its questions, which may still change.
    done = {task.id for task in engine.tasks if task.status == DONE and not (task.extra and task.extra.interrupts)}
    return {key: beside[key] if key in done else "" for key in sorted(beside)}


def _end(payload: bytes) -> str:
    """Return the first digits of the hash on a staged body's last line."""
    return payload[payload.rfind(b"\n") + 1 :][:_DIGITS].decode("ascii", "replace")
