"""A copy of an encrypted thread that is interrupted by the store: no partial copy is visible, and leftovers are
reported.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import START, Context, GraphBuilder, Runtime
from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.reducers import append
from graphrt.stores import EncryptedStore, MemoryStore

from .faulty import FaultyStore

pytestmark = pytest.mark.needs("cryptography")
AT = 1_700_000_000.0
KEYS = {"k": bytes(range(32))}
LARGE = 70_000
"""Values of more than 64 KiB are blobs."""


class State(te.TypedDict):
    log: Annotated[list[str], append]
    page: str
    scratch: str


def graph() -> Any:
    """Each run writes a page and stages a large value next to a question; its end drops the value."""
    g: GraphBuilder[Any, Any, Any] = GraphBuilder(State, name="pages")
    g.add_node("first", lambda state: {"page": f"{len(state['log'])}" * 30_000})
    g.add_node("second", lambda state: {"scratch": f"{len(state['log'])}" * LARGE})

    def ask(_state: Any, ctx: Context) -> Any:
        return {"log": [ctx.interrupt("ok?")]}

    g.add_node("ask", ask)
    g.add_node("last", lambda _: {"scratch": ""})
    return (
        g.add_edge(START, "first")
        .add_edge("first", "second")
        .add_edge("first", "ask")
        .add_join(["second", "ask"], "last")
        .compile()
    )


def prepared(inner: Any, *, pruned: bool) -> Any:
    """A runtime whose thread has snapshots, large values, a staged outcome and an open question; perhaps pruned."""
    runtime: Any = Runtime(graph(), store=EncryptedStore(inner, KEYS), clock=lambda: AT, seed=7, chain=True)
    cut, given = 0, {"log": [], "page": "", "scratch": ""}
    for run in range(6):
        runtime.run(given, thread="t")
        cut = runtime.state("t").seq if run == 1 else cut
        runtime.resume("t", "yes")
    runtime.run(given, thread="t")
    if pruned:
        runtime.prune("t", before=cut)
    return runtime


def seen(runtime: Any, thread: str) -> Any:
    """All readable data of the thread, without its id and the entry that names it; and its snapshots."""
    status = runtime.state(thread)
    entries = [(e.seq, e.event) for e in runtime.entries(thread) if e.event.__class__.__name__ != "ThreadCopied"]
    store = runtime.store
    end = entries[-1][0]
    loaded = store.load(thread)
    asked = [(one.payload, one.id.partition("/")[2]) for one in status.interrupts]
    snapshots = {store.load(thread, upto=seq).snapshot for seq in range(1, end + 1)}
    return (status.values, status.status, asked, entries, dict(loaded.staged)), snapshots


KINDS = [
    pytest.param(
        pruned,
        after,
        lasting,
        id=f"{'lasting' if lasting else 'once'}-{'after' if after else 'before'}-{'pruned' if pruned else 'whole'}",
        marks=pytest.mark.full if lasting ^ after ^ pruned else (),
    )
    for pruned, after, lasting in itertools.product([False, True], repeat=3)
]
"""Any two of the three with one another, and all three in full runs."""


@pytest.mark.parametrize(("pruned", "after", "lasting"), KINDS)
def test_partial_copy_is_never_visible_wherever_the_store_fails(pruned: bool, after: bool, lasting: bool) -> None:
    broken = []
    with MemoryStore() as inner:
        faulty = FaultyStore(inner, after=after, lasting=lasting)
        runtime = prepared(faulty, pruned=pruned)
        wanted = seen(runtime, "t")
        assert len(wanted[1]) > 2
        for at in range(1, 60):
            faulty.calls.clear()
            faulty.at, faulty.works, faulty.failed = at, False, ""
            notes = None
            try:
                runtime.copy_thread("t", "u")
            except StoreError as error:
                broken.append(faulty.failed)
                notes = "\n".join(getattr(error, "__notes__", ()))
            faulty.works = True
            if notes is None:
                assert seen(runtime, "u") == wanted
                if not faulty.failed:
                    break
            assert seen(runtime, "t") == wanted
            if "u" in [info.thread for info in runtime.threads()]:
                assert notes is None or "delete_thread('u')" in notes
                left = seen(runtime, "u")[0] if runtime.store.head("u").first == runtime.store.head("t").first else None
                assert left == wanted[0] or (pruned and runtime.state("u").values == wanted[0][0])
                runtime.delete_thread("u")
            runtime.copy_thread("t", "u")
            assert seen(runtime, "u") == wanted
            runtime.delete_thread("u")
        else:
            pytest.fail("more calls than expected")

    assert {"load", "claim", "blobs", "commit"} <= set(broken)


class Moving(FaultyStore):
    """Calls `meanwhile` once, before a call of the method `when`."""

    when = ""
    meanwhile: Callable[[], object]

    def call(self, method: Any, /, *arguments: Any, **options: Any) -> Any:
        if method.__name__ == self.when:
            self.when = ""
            self.meanwhile()
        return super().call(method, *arguments, **options)


@pytest.mark.parametrize("when", ["records", "blobs"])
@pytest.mark.parametrize("how", ["prune", "delete_thread"])
def test_copy_of_a_thread_that_is_pruned_or_deleted_meanwhile_is_refused(when: str, how: str) -> None:
    with MemoryStore() as inner:
        moving = Moving(inner)
        runtime = prepared(moving, pruned=False)
        moving.meanwhile = lambda: getattr(runtime, how)("t")
        moving.when = when
        with pytest.raises((ConflictError, InputError)) as caught:
            runtime.copy_thread("t", "u")

        assert caught.value.code in {"conflict", "unknown-thread"}
        assert "u" not in [info.thread for info in runtime.threads()]


def test_copy_of_a_thread_that_continues_has_the_state_that_was_read() -> None:
    with MemoryStore() as inner:
        moving = Moving(inner)
        runtime = prepared(moving, pruned=False)
        wanted = seen(runtime, "t")
        moving.meanwhile = lambda: runtime.resume("t", "yes")
        moving.when = "blobs"
        runtime.copy_thread("t", "u")

        assert runtime.state("t").status == "completed"
        assert seen(runtime, "u") == wanted
