"""The memory writes of a commit: the changes by the successful tasks of its superstep.

A task records its writes, and the superstep's commit applies them to the store, in the transaction that appends the
entries. So a crash leaves both or none, and the memory matches the entries (decision 0250). A fork, a copy or an import
of a thread repeats entries and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from graphrt import events
from graphrt._codec.refusal import TAG
from graphrt._engine.emit_events import Logged
from graphrt.stores._memory_items import words_of
from graphrt.stores.ids import beside
from graphrt.stores.values import MemoryWrite

if TYPE_CHECKING:
    from graphrt._codec import Codec

_HIDDEN: Final = frozenset({"bytes", "bytearray", "secret"})
"""Tags of encoded values whose text is not worth searching."""


def memory_writes(logged: Sequence[Logged], codec: Codec, thread: str, at: float) -> list[MemoryWrite]:
    """Return the memory writes of the commit of the events *logged* to *thread*, made at *at*.

    Only the commit of a superstep of the outermost graph writes, and only for tasks that succeeded, in nested graphs
    that succeeded. An edit that marks a task as finished drops its writes.
    """
    writes = [(path, event) for path, event in logged if isinstance(event, events.MemoryWritten)]
    if not any(isinstance(event, events.SuperstepCommitted) for path, event in logged if not path):
        return []
    succeeded = {event.task for _, event in logged if isinstance(event, events.TaskSucceeded) and not event.edited}
    return [
        _write(event, codec, thread, at)
        for path, event in writes
        if succeeded.issuperset((event.task, *_enclosing(path)))
    ]


def _write(event: events.MemoryWritten, codec: Codec, thread: str, at: float) -> MemoryWrite:
    """Return the change that *event* describes, in the memory of the tenant of *thread*."""
    namespace = beside(thread, event.namespace)
    if event.deleted:
        return MemoryWrite(namespace, event.key, None)
    body = codec.dump(event.value)
    expires_at = event.expires_at if event.expires_s is None else at + event.expires_s
    vector = event.embedded["vector"] if event.embedded is not None else None
    return MemoryWrite(namespace, event.key, body, words_in(event.key, body), expires_at, vector)


def words_in(key: str, body: bytes) -> tuple[str, ...]:
    """Return the words under which the item with this *key* and encoded value is found."""
    return words_of(key, *_texts(from_json(body)))


def text_in(key: str, body: bytes) -> str:
    """Return the text to embed for the item with this *key* and encoded value: the text of its words."""
    return "\n".join((key, *_texts(from_json(body))))


def _enclosing(path: str) -> Iterator[str]:
    """Yield the ids of the tasks whose nested graphs enclose *path*, such as `2.0:a` and `2.0:a/1.0:b`."""
    parts = path.rstrip("/").split("/") if path else []
    yield from ("/".join(parts[:number]) for number in range(1, len(parts) + 1))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts and whole numbers in an encoded value, in their order; neither its keys nor names of classes."""
    if isinstance(value, str):
        yield value
    elif value.__class__ is int:
        yield str(value)
    elif isinstance(value, list):
        for part in value:  # pyright: ignore[reportUnknownVariableType]  # JSON
            yield from _texts(part)
    elif isinstance(value, dict) and value.get(TAG) not in _HIDDEN:  # pyright: ignore[reportUnknownMemberType]
        for name, part in value.items():  # pyright: ignore[reportUnknownVariableType]
            if name != TAG:
                yield from _texts(part)
