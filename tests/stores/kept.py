"""Threads of every kind in a store, for the tests of whole stores: long, pruned, paused, with large values."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.reducers import append
from graphrt.stores import EncryptedStore, MemoryStore, SqliteStore, Store

KEYS = {"k": bytes(range(32))}
THREADS = ("done", "paused", "pruned", "large", "failed")
LARGE = "large " * 20_000


class State(BaseModel):
    topic: str = ""
    log: Annotated[list[str], append] = []


def write(state: State) -> dict[str, list[str]]:
    return {"log": [LARGE if state.topic == "large" else f"wrote {len(state.log)}", LARGE[:200]]}


def review(state: State, ctx: Context) -> dict[str, list[str]]:
    if state.topic == "failed":
        raise ValueError("no")
    seen = ctx.effect("look", lambda: "x" * 70_000 if state.topic == "paused" else "seen")
    if state.topic == "paused":
        return {"log": [seen, ctx.interrupt("Publish?", answer_type=str)]}
    return {"log": [seen]}


g = GraphBuilder(State, name="kept")
g.add_node("write", write)
g.add_node("review", review)
g.add_sequence([START, "write", "review", END])
graph = g.compile()


def runtime(store: Store, **options: Any) -> Runtime[Any]:
    return Runtime(graph, store=store, **options)


def fill(store: Store, **options: Any) -> Runtime[Any]:
    """One thread of each kind."""
    made = runtime(store, **options)
    for name in THREADS:
        try:
            made.run({"topic": name}, thread=name)
        except Exception as error:
            if name != "failed":
                raise AssertionError from error
    for _ in range(3):
        made.run({}, thread="done")
        made.run({}, thread="pruned")
    made.prune("pruned", before=made.state("pruned").seq - 8)
    made.run({}, thread="pruned")
    return made


def opened(kind: str, path: Any) -> Store:
    if kind == "memory":
        return MemoryStore()
    if kind == "encrypted":
        return EncryptedStore(SqliteStore(path), KEYS)
    return SqliteStore(path)
