"""Embeddings: a user function that converts texts to vectors, for semantic search in the memory.

A call may cost money, so a task makes it as an effect: the vectors are recorded with the task, and repeated executions
use the record (decision 0259). The record contains the text next to its vector, as `{"text": ..., "vector": bytes}`. A
vector reveals its text, so an erasure that finds the text must find the vector too. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from graphrt.commands import ERASED
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import WRONG_RETURN_VALUE
from graphrt.stores._vectors import packed

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]]
"""An embedding function, sync or async: takes 1 to 100 texts and returns one vector per text, in order.

A vector has 1 to 4,096 finite numbers. All vectors have the same length.
"""


def embedded(texts: list[str], returned: Any) -> list[dict[str, Any]]:
    """Return the records of *texts* with the vectors that an embedding *returned*.

    Raises:
        InputError: The returned value does not have the required form (`input`).
    """
    try:
        rows = list(returned)
    except TypeError:
        raise _refused(texts, f"a {type(returned).__name__}") from None
    if len(rows) != len(texts):
        raise _refused(texts, f"{len(rows)} vectors")
    records: list[dict[str, Any]] = []
    for text, row in zip(texts, rows, strict=True):
        vector = packed(row)
        if vector is None:
            raise _refused(texts, f"{row!r:.80}, which is not a vector,")
        records.append({"text": text, "vector": vector})
    return records


def _refused(texts: list[str], returned: str) -> InputError:
    return WRONG_RETURN_VALUE(
        function="embed=",
        returned=f"{returned} for {len(texts)} texts",
        wanted="a list with a vector for each text, in their order: 1 to 4,096 finite numbers each",
        boundary=True,
    )


async def aembedded(embed: Embed, texts: list[str]) -> list[dict[str, Any]]:
    """Call the async function *embed* and return the records of *texts*; see `embedded`."""
    returned: Any = embed(texts)
    return embedded(texts, await returned)


def vector_of(record: Any) -> bytes | None:
    """Return the vector of a record; None if it has none or it was erased."""
    vector: bytes | None = None if record is None or record is ERASED else record["vector"]
    return vector
