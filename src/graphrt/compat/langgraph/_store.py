"""The memory of graphrt as a LangGraph store: a node's `store`, if the graph was compiled without one.

As with `ctx.memory`, writes take effect when the superstep commits, and reads are recorded with the task.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, final

from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchItem, SearchOp

from graphrt._drivers.context import Context
from graphrt.errors._codes.memory import UNUSABLE_IN_NODE

_MOST = 1_000
"""Maximum number of items that one search of the memory returns."""


@final
class MemoryOfGraphrt(BaseStore):  # type: ignore[misc]  # LangGraph's types are not known everywhere
    """A store of LangGraph over `ctx.memory`. A namespace `("users", "42")` is `users/42` there."""

    __slots__ = ("_ctx",)

    supports_ttl = True

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform operations in their order."""
        return [self._performed(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform operations in their order, without blocking the event loop."""
        results: list[Result] = []
        memory = self._ctx.memory
        for op in ops:
            if isinstance(op, GetOp):
                results.append(_item(op.namespace, await memory.aget("/".join(op.namespace), op.key)))
            elif isinstance(op, SearchOp):
                query, limit = op.query or "", _wanted(op)
                results.append(_page(op, await memory.asearch("/".join(op.namespace_prefix), query, limit=limit)))
            elif isinstance(op, PutOp) and op.value is not None:
                await memory.aput("/".join(op.namespace), op.key, op.value, expires_s=_seconds(op))
                results.append(None)
            else:
                results.append(self._performed(op))
        return results

    def _performed(self, op: Op) -> Result:
        memory = self._ctx.memory
        if isinstance(op, GetOp):
            return _item(op.namespace, memory.get("/".join(op.namespace), op.key))
        if isinstance(op, SearchOp):
            return _page(op, memory.search("/".join(op.namespace_prefix), op.query or "", limit=_wanted(op)))
        if isinstance(op, ListNamespacesOp):
            raise UNUSABLE_IN_NODE(
                node=self._ctx.node,
                did="lists the namespaces of its store, which nodes cannot do",
                advice="Call runtime.memory.namespaces() outside of the run, or search the namespaces that the node knows.",
            )
        if op.value is None:
            memory.delete("/".join(op.namespace), op.key)
        else:
            memory.put("/".join(op.namespace), op.key, op.value, expires_s=_seconds(op))
        return None


def _seconds(op: PutOp) -> float | None:
    """Return the time to live of an item in seconds; LangGraph counts in minutes."""
    ttl: Any = getattr(op, "ttl", None)
    return ttl * 60.0 if isinstance(ttl, (int, float)) else None


def _wanted(op: SearchOp) -> int:
    """Return how many items to request: with a filter, all of them."""
    return _MOST if op.filter else min(_MOST, op.offset + op.limit)


def _when(seconds: float | None) -> datetime:
    """Return a time of an item. An item that the task itself has just written has no stored time yet."""
    return datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _item(namespace: tuple[str, ...], stored: Any) -> Item | None:
    if stored is None:
        return None
    return Item(
        value=stored.value,
        key=stored.key,
        namespace=namespace,
        created_at=_when(stored.created_at),
        updated_at=_when(stored.updated_at),
    )


def _page(op: SearchOp, items: list[Any]) -> list[SearchItem]:
    """Return the page of *items* that a search asks for, with its filter applied."""
    conditions = op.filter or {}
    fits = [item for item in items if all(item.value.get(key) == value for key, value in conditions.items())]
    return [
        SearchItem(
            namespace=tuple(item.namespace.split("/")),
            key=item.key,
            value=item.value,
            created_at=_when(item.created_at),
            updated_at=_when(item.updated_at),
            score=item.score if op.query else None,
        )
        for item in fits[op.offset : op.offset + op.limit]
    ]
