"""Embeddings: the user's function that turns texts into vectors, by which the memory is searched for meaning.

A call of it may be paid, so a task makes it as an effect: what was embedded is recorded with the task, and an execution
that runs again is given the record (decision 0259). The record has the text beside its vector, as
`{"text": ..., "vector": bytes}`: a vector gives its text away, so whatever erases the text finds the vector with it.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from graphrt.commands import ERASED
from graphrt.errors._codes.memory import BAD_VECTORS
from graphrt.stores._vectors import packed

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]]
"""An embedding, sync or async: takes 1 to 100 texts and returns a vector for each, in their order.

A vector has 1 to 4,096 finite numbers, and all vectors have the same number of them.
"""


def is_async(embed: Embed) -> bool:
    """Return whether *embed* is an async function, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(embed) or inspect.iscoroutinefunction(getattr(embed, "__call__", None))  # noqa: B004


def embedded(texts: list[str], returned: Any) -> list[dict[str, Any]]:
    """Return the records of *texts* with the vectors that an embedding *returned* for them.

    Raises:
        InputError: It returned something else (`bad-memory`).
    """
    try:
        rows = list(returned)
    except TypeError:
        raise BAD_VECTORS(texts=len(texts), given=f"a {type(returned).__name__}") from None
    if len(rows) != len(texts):
        raise BAD_VECTORS(texts=len(texts), given=f"{len(rows)} vectors")
    found: list[dict[str, Any]] = []
    for text, row in zip(texts, rows, strict=True):
        vector = packed(row)
        if vector is None:
            raise BAD_VECTORS(texts=len(texts), given=f"{row!r:.80}, which is not a vector")
        found.append({"text": text, "vector": vector})
    return found


async def aembedded(embed: Embed, texts: list[str]) -> list[dict[str, Any]]:
    """Call *embed*, which is async, and return the records of *texts*; see `embedded`."""
    returned: Any = embed(texts)
    return embedded(texts, await returned)


def vector_of(record: Any) -> bytes | None:
    """Return the vector of a record; None without one, or if it was erased."""
    vector: bytes | None = None if record is None or record is ERASED else record["vector"]
    return vector
