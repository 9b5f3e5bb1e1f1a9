"""The work of racing processes: one graph that pays once, for threads that are new, interrupted, failed or abandoned.

Imported by the tests and by the processes that they start; it does not handle processes itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, NodeError, Runtime
from graphrt.reducers import add, append


class State(te.TypedDict):
    notes: Annotated[list[str], append]
    paid: Annotated[int, add]
    ask: te.NotRequired[bool]
    """Whether the thread asks before it pays."""
    ask_after: te.NotRequired[bool]
    """Whether it asks after it has paid, and does not complete."""


class Deps(NamedTuple):
    """The dependencies of the nodes."""

    ledger: Path
    """A file with a line for each payment: the thread and the process that paid."""
    fail: bool = False
    """Whether the thread fails before it pays."""
    hold: Callable[[], object] | None = None
    """Called in the middle of a payment: returns when the others have reported."""


def prepare(state: Any) -> Any:
    return {"notes": ["prepared"]}


def ask(state: Any, ctx: Context[Deps]) -> Any:
    if ctx.deps.fail:
        raise RuntimeError("planted")
    return {"notes": [str(ctx.interrupt("go?")) if state.get("ask") else "not asked"]}


def pay(state: Any, ctx: Context[Deps]) -> Any:
    def paying() -> int:
        with ctx.deps.ledger.open("a") as ledger:
            ledger.write(f"{ctx.thread} {os.getpid()}\n")
        if ctx.deps.hold is not None:
            ctx.deps.hold()
        return 10

    return {"notes": ["paid"], "paid": ctx.effect("pay", paying, kind="once")}


def left(state: Any) -> Any:
    return {"notes": ["left"]}


def right(state: Any, ctx: Context[Deps]) -> Any:
    if state.get("ask_after"):
        ctx.interrupt("and now?")
    return {"notes": ["right"]}


def graph() -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="paying")
    for node in (prepare, ask, pay, left, right):
        g.add_node(node.__name__, node)
    g.add_sequence([START, "prepare", "ask", "pay"])
    g.add_edge("pay", "left").add_edge("pay", "right").add_edge("left", END).add_edge("right", END)
    return g.compile()


NEW = {"notes": ["started"], "paid": 0}
ASKED = {**NEW, "ask": True}
ASKS_AFTER = {**NEW, "ask_after": True}
END_NOTES = {
    "resume": ["started", "prepared", "yes", "paid", "left", "right"],
    "retry": ["started", "prepared", "not asked", "paid", "left", "right"],
    "orphan": ["started", "prepared", "not asked", "paid", "left", "right"],
}


def make_ready(runtime: Runtime[Any], failing: Runtime[Any], verb: str, thread: str) -> None:
    """Bring *thread* into the status that *verb* requires; *failing* is a runtime whose nodes fail before they pay."""
    if verb == "resume":
        assert runtime.run(ASKED, thread=thread).status == "interrupted"
    elif verb == "retry":
        with contextlib.suppress(NodeError):
            failing.run(NEW, thread=thread)
        assert runtime.state(thread).status == "failed"
    elif verb == "orphan":
        # As if its owner had died in the middle of the run.
        source = f"{thread}.source"
        runtime.run(NEW, thread=source)
        runtime.fork(source, at=runtime.history(source)[-2].seq, to=thread)
        assert runtime.state(thread).status == "running"


def call(runtime: Runtime[Any], verb: str, thread: str) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The method of the runtime for *verb*, and its arguments."""
    if verb == "resume":
        return "resume", (thread, "yes"), {}
    if verb in {"retry", "orphan"}:
        return "retry", (thread,), {}
    return "run", (ASKS_AFTER if verb == "start" else NEW,), {"thread": thread}  # "start held" completes
