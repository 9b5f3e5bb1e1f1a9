"""What stands beside the journal of an open superstep: what each body is bound to, and what records vouch for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt._engine.task import DONE
from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import Body, encode

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.engine import Engine

_TOLD: Final = 32
"""Digits of a body's end that are told: 128 bits."""


def binding(chained: str, key: str) -> bytes:
    """What the body that is staged under *key* is bound to.

    Args:
        chained: The id that the thread's chain began with; empty without a chain.
    """
    return b"graphrt/staged/v1\x00%b\x00%b\x00" % (chained.encode(), key.encode("utf-8", "surrogatepass"))


def encode_staged(body: Body, meta: Mapping[str, Any], key: str, logged: Sequence[Logged]) -> bytes:
    """What is staged under *key* as bytes, bound to it if the thread's *meta* says so.

    Raises:
        NotStorable: A value cannot be stored exactly.
    """
    bound = binding(str(meta.get("chained") or ""), key) if meta.get("bound") else b""
    return encode(body, Batch(0.0, "", 0, logged), binding=bound)


def outcomes(staged: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """How the bodies end that are staged of tasks of the graph at the top: which those are depends on no timing."""
    return {key: _end(payload) for key, payload in staged if "/" not in key and "#" not in key}


def settled(engine: Engine | None, beside: Mapping[str, str], *, last: bool) -> Mapping[str, str]:
    """What a record vouches for of *beside*, what `outcomes` found.

    Of a task that may come to something else before the next record, no more than that something stands there.

    Args:
        last: The thread is given back with the record: whoever goes on with it writes a record before anything else.
    """
    if not beside or engine is None:
        return {}
    if last:
        return {key: beside[key] for key in sorted(beside)}
    done = {task.id for task in engine.tasks if task.status == DONE and not (task.extra and task.extra.interrupts)}
    return {key: beside[key] if key in done else "" for key in sorted(beside)}


def _end(payload: Any) -> str:
    return payload[payload.rfind(b"\n") + 1 :][:_TOLD].decode("ascii", "replace") if payload.__class__ is bytes else ""
