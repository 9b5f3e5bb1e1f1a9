"""Runs that stay in the middle of a node until they are released: in each kind of place where an owner may be stopped.

The graphs, and the notes of their nodes. Imported by the tests and by the processes that they start.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder
from graphrt.reducers import append

KINDS = ("step", "async step", "busy step", "effect", "fan", "async fan", "nested")
INPUT: dict[str, Any] = {"notes": []}


class State(te.TypedDict):
    notes: Annotated[list[str], append]


class Deps(NamedTuple):
    """The dependencies of the nodes."""

    ledger: Path
    """A file with a line for each node that ran: its thread, its name, its process."""
    arrived: Any = None
    """Called with the thread when its node reaches the point where it stays; None stays nowhere."""
    go: threading.Event | None = None
    """Set when it may continue."""


def _write(ctx: Context[Deps], name: str) -> dict[str, Any]:
    with ctx.deps.ledger.open("a") as ledger:
        ledger.write(f"{ctx.thread} {name} {os.getpid()}\n")
    return {"notes": [name]}


def _stay(ctx: Context[Deps]) -> None:
    if ctx.deps.go is not None:
        ctx.deps.arrived(ctx.thread)
        ctx.deps.go.wait()


def _noted(name: str) -> Any:
    return lambda state, ctx: _write(ctx, name)


def _step(state: Any, ctx: Context[Deps]) -> Any:
    _stay(ctx)
    return _write(ctx, "stay")


async def _async_step(state: Any, ctx: Context[Deps]) -> Any:
    if ctx.deps.go is not None:
        await asyncio.to_thread(_stay, ctx)
    return _write(ctx, "stay")


def _busy_step(state: Any, ctx: Context[Deps]) -> Any:
    if ctx.deps.go is not None:
        ctx.deps.arrived(ctx.thread)
        while not ctx.deps.go.is_set():
            sum(range(1_000))
    return _write(ctx, "stay")


def _effect(state: Any, ctx: Context[Deps]) -> Any:
    ctx.effect("stay", _step, state, ctx, kind="once")
    return {"notes": ["stay"]}


def graph(kind: str) -> Any:
    """START, `first`, the node that stays, `last`, END."""
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name=kind)
    g.add_node("first", _noted("first"))
    g.add_node("last", _noted("last"))
    g.add_edge(START, "first").add_edge("last", END)
    nodes = {"busy step": _busy_step, "effect": _effect, "async step": _async_step, "async fan": _async_step}
    if kind == "nested":
        child: GraphBuilder[Any, Any] = GraphBuilder(State, name="child")
        for name, node in (("one", _noted("one")), ("stay", _step), ("two", _noted("two"))):
            child.add_node(name, node)
        child.add_sequence([START, "one", "stay", "two", END])
        g.add_node("stay", child.compile())
    else:
        g.add_node("stay", nodes.get(kind, _step))
    g.add_edge("first", "stay")
    if kind.endswith("fan"):
        g.add_node("quick", _noted("quick"))
        g.add_edge("first", "quick").add_join(["stay", "quick"], "last")
    else:
        g.add_edge("stay", "last")
    return g.compile()


def notes(kind: str) -> list[str]:
    """The expected notes in the final state."""
    middle = {"nested": ["one", "stay", "two"], "fan": ["stay", "quick"], "async fan": ["stay", "quick"]}
    return ["first", *middle.get(kind, ["stay"]), "last"]
