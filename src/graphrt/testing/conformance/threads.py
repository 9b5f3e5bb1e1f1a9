"""Clauses on threads that a `Runtime` drives: large values survive every operation, and copies are complete.

The other modules check one rule at a time. These run a graph on the store, which needs all rules together.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typing_extensions as te

from graphrt.reducers import append
from graphrt.stores.filters import MailFilter
from graphrt.testing.conformance._world import AT, World, holds, same

_HALF: Final = 40_000
"""Length of a text in characters. Two such texts exceed 64 KiB, and so are stored as a blob."""


class _Large(te.TypedDict):
    log: Annotated[list[str], append]
    page: te.NotRequired[str]


def large_values_come_back_from_every_edit(w: World) -> None:
    """Large values of inputs, nodes, reducers and updates survive fork, copy, prune, reopening and resume."""
    values = {"log": ["I" * _HALF], "page": "J" * 2 * _HALF}
    runtime = _runtime(w)
    runtime.run(values, thread="t")
    runtime.update("t", {"log": ["U" * _HALF] * 2})
    paused = runtime.state("t").values
    older = runtime.history("t")[-1]
    same(older.values, values, "state after the input")
    runtime.fork("t", to="f")
    runtime.fork("t", at=older.seq, to="o")
    runtime.copy_thread("t", "c")
    for thread in ("t", "f", "c"):
        runtime.prune(thread)
        same(runtime.state(thread).values, paused, f"state of {thread} after prune")
    if w.store.durable:
        w.reopen()
    runtime = _runtime(w)
    for thread in ("t", "f", "c"):
        same(runtime.state(thread).values, paused, f"state of {thread}, opened again")
        end = runtime.resume(thread, "yes").state
        same(end, {"log": [*paused["log"], "yes", "E" * _HALF], "page": "P" * 2 * _HALF}, f"end of {thread}")
        runtime.prune(thread)
        same(runtime.replay(thread).values, end, f"replay of {thread}")
    same(runtime.state("o").values, values, "state of the fork from an earlier entry")


def staged_large_values_come_back(w: World) -> None:
    """A large value of a task whose sibling waits for an answer is there after the resume, pruned or not."""
    for thread in ("t", "u"):
        runtime = _runtime(w)
        runtime.run({"log": []}, thread=thread)
        if thread == "u":
            runtime.prune(thread)
        if w.store.durable:
            w.reopen()
        end = _runtime(w).resume(thread, "yes").state
        same(end["page"], "P" * 2 * _HALF, f"page of {thread}")


def a_copy_has_everything_and_is_apart(w: World) -> None:
    """A copy of a pruned, paused thread has its state, entries, questions, labels and priority, and outlives it."""
    runtime = _runtime(w)
    runtime.run({"log": [], "page": "J"}, thread="t")
    runtime.resume("t", "yes")
    runtime.run({"log": []}, thread="t")
    runtime.prune("t", before=runtime.history("t")[1].seq)
    if "labels" in w.store.offers:
        runtime.label("t", title="Pages", add_tags=["x"], priority=3)
    if "mail" in w.store.offers:
        runtime.signal("t", "news", 1)
    wanted = _seen(runtime, "t")
    runtime.copy_thread("t", "a")
    runtime.copy_thread("t", "b")
    same((_seen(runtime, "a"), _seen(runtime, "t")), (wanted, wanted), "the copy, and the thread after it was copied")
    same([info.thread for info in runtime.threads()], ["t", "a", "b"], "order of the listed threads")
    if "mail" in w.store.offers:
        same(
            (len(w.store.query(MailFilter(thread="t"))), w.store.query(MailFilter(thread="a"))),
            (1, []),
            "letters, which are not copied",
        )
    end = runtime.resume("a", "no").state
    same((_seen(runtime, "b"), _seen(runtime, "t")), (wanted, wanted), "the others after the copy continued")
    runtime.delete_thread("t")
    if w.store.durable:
        w.reopen()
    runtime = _runtime(w)
    same((_seen(runtime, "b"), runtime.state("a").values), (wanted, end), "the copies without the thread")
    holds(runtime.resume("b", "no").state == end, "both copies end alike")
    holds(runtime.verify().ok, "the store verifies")


def prune_frees_large_values(w: World) -> None:
    """After `prune`, large values that nothing refers to are gone, and the others are there."""
    from graphrt._journal.batch_format import blob_names  # only the journal knows which blobs a body names

    runtime = _runtime(w)
    runtime.run({"log": [], "page": "J" * 2 * _HALF}, thread="t")
    runtime.resume("t", "yes")
    named = set[str]().union(*(blob_names(record.body) for record in w.store.records("t")))
    holds(len(w.store.blobs("t", named)) == len(named) > 1, "large values before prune")
    runtime.prune("t")
    loaded = w.load()
    needed = blob_names(loaded.snapshot.body if loaded.snapshot else b"")
    present = set(w.store.blobs("t", named | needed))
    same((present, bool(needed)), (needed, True), "large values after prune")


def _seen(runtime: Any, thread: str) -> tuple[Any, ...]:
    """Return what a user sees of *thread*, except what differs in a copy: its id, and the last entry, which has it."""
    from graphrt.events import ThreadCopied

    status = runtime.state(thread)
    (info,) = [candidate for candidate in runtime.threads() if candidate.thread == thread]
    entries = [(e.seq, e.event) for e in runtime.entries(thread) if not isinstance(e.event, ThreadCopied)]
    asked = [(interrupt.payload, interrupt.id.partition("/")[2]) for interrupt in status.interrupts]
    listed = (
        [item.interrupt.payload for item in runtime.inbox() if item.thread == thread]
        if "labels" in runtime.store.offers
        else []
    )
    states = [(past.seq, past.values) for past in runtime.history(thread) if past.seq <= entries[-1][0]]
    return status.values, status.status, asked, listed, entries, states, info.title, info.tags, info.priority


def _runtime(w: World) -> Any:
    """Return a runtime on the current store. Its graph runs `grow`, then `page` and `ask` in parallel, then `end`."""
    from graphrt._drivers.context import Context
    from graphrt.commands import START
    from graphrt.graph import GraphBuilder
    from graphrt.runtime import Runtime

    def ask(_state: Any, ctx: Context) -> Any:
        return {"log": [ctx.interrupt("ok?")]}

    g: GraphBuilder[Any, Any, Any] = GraphBuilder(_Large, name="large")
    g.add_node("grow", lambda _state: {"log": ["L" * _HALF, "M" * _HALF]})
    g.add_node("page", lambda _state: {"page": "P" * 2 * _HALF})
    g.add_node("ask", ask)
    g.add_node("end", lambda _state: {"log": ["E" * _HALF]})
    g.add_edge(START, "grow").add_edge("grow", "page").add_edge("grow", "ask").add_join(["page", "ask"], "end")
    return Runtime(g.compile(), store=w.store, clock=lambda: AT, seed=1, chain=True)
