"""Values of more than 64 KiB, which are stored separately: no verb loses them, and prune removes unreferenced ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import DELETE, END, START, Context, GraphBuilder, Limits, Runtime
from graphrt._journal import batch_format
from graphrt._runs import pruning
from graphrt.errors import StoreError
from graphrt.reducers import append
from graphrt.stores import EncryptedStore, MemoryStore, SqliteStore
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.wrapper import StoreWrapper

from .support import builder, line, refused

HALF = 40_000
"""Two of them are more than 64 KiB."""
KEYS = {"k": bytes(range(32))}


class Large(te.TypedDict, total=False):
    log: Annotated[list[Any], append]
    page: str
    n: int


def grows(state: Any) -> dict[str, Any]:
    """A value that only the reducer makes large."""
    return {"log": ["L" * HALF, "M" * HALF]}


def writes(state: Any) -> dict[str, Any]:
    """A value that is already large in the update of the node."""
    return {"page": "P" * 2 * HALF}


def asks(state: Any, ctx: Context) -> dict[str, Any]:
    return {"log": [ctx.interrupt("ok?")]}


def document(*nodes: Any) -> Any:
    return line(*nodes, ("ask", asks), ("end", lambda state: {"log": ["end"]}), state=Large)


MADE_BY = {
    "a reducer": (document(("grow", grows)), {"log": []}),
    "a node": (document(("write", writes)), {"log": []}),
    "both": (document(("grow", grows), ("write", writes)), {"log": []}),
    "the input": (document(("note", lambda state: {"n": 1})), {"log": [], "page": "I" * 2 * HALF}),
    "small steps": (document(*((f"n{n}", lambda state: {"log": ["x" * 30_000]}) for n in range(4))), {"log": []}),
}


@pytest.fixture(params=list(MADE_BY))
def made(request: pytest.FixtureRequest) -> Any:
    return MADE_BY[request.param]


@pytest.mark.parametrize("chain", [None, False], ids=["chained", "plain"])
def test_every_edit_keeps_large_values(world, made, chain):
    graph, given = made
    runtime = world.runtime(graph, chain=chain)
    runtime.run(given, thread="t")
    runtime.update("t", {"log": ["U" * HALF] * 2})
    paused = runtime.state("t").values
    runtime.fork("t", to="fork")
    runtime.fork("t", at=runtime.history("t")[1].seq, to="older")
    runtime.copy_thread("t", "copy")
    for thread in ("t", "fork", "copy"):
        runtime.prune(thread)
        assert runtime.state(thread).values == paused
        assert runtime.prune(thread) == 0
    again = world.runtime(graph, chain=chain)
    for thread in ("t", "fork", "copy"):
        assert again.resume(thread, "yes").state["log"] == [*paused["log"], "yes", "end"]
        assert again.replay(thread).values == again.state(thread).values
        assert again.prune(thread) > 0
        assert again.run({"log": ["more"]}, thread=thread).status == "interrupted"


def test_thread_whose_long_list_was_pruned_continues(lite):
    g = builder(state=Large)
    g.add_node("a", lambda state: {"log": ["x" * 50], "n": state.get("n", 0) + 1})
    g.add_edge(START, "a").add_conditional_edges("a", lambda s: s["n"] < 1_300, {True: "a", False: END})
    runtime = lite.runtime(g.compile(), limits=Limits(max_steps=2_000, max_visits=None))
    runtime.run({"log": []}, thread="t")
    assert runtime.prune("t") > 2_600
    assert len(runtime.state("t").values["log"]) == 1_300


# -- prune removes nothing before it has read back the snapshot --------------------------------------------------------


def test_prune_removes_nothing_if_its_snapshot_lacks_a_value(durable, monkeypatch):
    """The values of the snapshot are looked up before it is stored: it would hide an older snapshot."""
    graph, given = MADE_BY["small steps"]
    runtime = durable.runtime(graph)
    runtime.run(given, thread="t")
    before = runtime.state("t")
    encode_state = pruning.encode_state

    def forgetful(body, state):
        payload = encode_state(body, state)
        body.blobs.clear()
        return payload

    monkeypatch.setattr(pruning, "encode_state", forgetful)
    refused("store-damaged", lambda: runtime.prune("t"), "'t'", "no entry was removed", error=StoreError)
    monkeypatch.undo()

    assert durable.store.head("t").first == 1
    assert runtime.state("t").values == before.values
    assert len(runtime.history("t")) > 1
    assert runtime.prune("t") > 0


class Forgets(StoreWrapper):
    """A store that drops the large values of a commit without entries."""

    def __init__(self, inner: Any, lost: str) -> None:
        super().__init__(inner)
        self.inner = inner
        self.lost = lost

    def commit(self, claim: Any, commit: Any) -> None:
        if not commit.records:
            commit = commit._replace(**{self.lost: {} if self.lost == "blobs" else None})
        self.inner.commit(claim, commit)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("lost", ["blobs", "snapshot"])
def test_prune_removes_nothing_if_the_store_lost_the_snapshot_values(lite, lost):
    graph, given = MADE_BY["small steps"]
    lite.runtime(graph).run(given, thread="t")
    store: Any = Forgets(lite.store, lost)
    refused("store-damaged", lambda: lite.runtime(graph, store=store).prune("t"), "'t'", error=StoreError)

    assert lite.store.head("t").first == 1


# -- large values without a reference are removed ----------------------------------------------------------------------


class Spy(StoreWrapper):
    """A store that records the names of committed large values."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.inner = inner
        self.names: set[str] = set()

    def commit(self, claim: Any, commit: Any) -> None:
        self.names |= set(commit.blobs)
        self.inner.commit(claim, commit)

    def there(self, thread: str) -> set[str]:
        return set(self.inner.blobs(thread, self.names))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def pages() -> Any:
    """Each run replaces a large page by another one."""
    return line(
        ("a", lambda state: {"n": state.get("n", 0) + 1, "page": f"{state.get('n', 0)}" * 100_000}), state=Large
    )


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("encrypted", marks=pytest.mark.needs("cryptography")),
        pytest.param("postgres", marks=pytest.mark.needs("psycopg")),
    ]
)
def spy(request: pytest.FixtureRequest, folder: Path) -> Any:
    if request.param == "postgres":
        store = request.getfixturevalue("postgres")
        yield Spy(store)
        for head in store.query(ThreadFilter()):
            store.delete(head.thread)
        return
    inner = {
        "memory": MemoryStore,
        "sqlite": lambda: SqliteStore(folder / "runs.db"),
        "encrypted": lambda: EncryptedStore(SqliteStore(folder / "runs.db"), KEYS),
    }[request.param]()
    with inner:
        yield Spy(inner)


def test_prune_removes_large_values_without_a_reference(spy):
    runtime: Any = Runtime(pages(), store=spy, chain=True)
    for _ in range(20):
        runtime.run({}, thread="t")
    end = runtime.state("t").values
    assert len(spy.there("t")) == 20

    runtime.prune("t")
    assert len(spy.there("t")) == 1
    assert runtime.state("t").values == end
    assert runtime.run({}, thread="t").state["n"] == 21
    runtime.copy_thread("t", "copy")
    assert runtime.state("copy").values == runtime.state("t").values


def test_prune_keeps_large_values_of_later_entries_and_snapshots(spy):
    runtime: Any = Runtime(pages(), store=spy, chain=True)
    for _ in range(6):
        runtime.run({}, thread="t")
    cut = [snapshot.seq for snapshot in runtime.history("t")][4]
    wanted = {snapshot.seq: snapshot.values for snapshot in runtime.history("t") if snapshot.seq >= cut}
    runtime.prune("t", before=cut)

    assert {seq: runtime.state("t", at=seq).values for seq in wanted} == wanted
    assert runtime.replay("t").values == wanted[max(wanted)]
    assert 2 < len(spy.there("t")) < 6


def test_prune_keeps_large_values_of_staged_outcomes(spy):
    """The outcome of a task that waits for its siblings is stored beside the journal."""
    g: GraphBuilder[Any, Any] = GraphBuilder(Large, name="staged")
    g.add_node("first", lambda state: {"page": "F" * 100_000})
    g.add_node("large", lambda state: {"log": ["S" * 100_000]})
    g.add_node("ask", asks)
    g.add_edge(START, "first").add_edge("first", "large").add_edge("first", "ask")
    runtime: Any = Runtime(g.compile(), store=spy, chain=True)
    runtime.run({"log": [], "page": "0" * 100_000}, thread="t")
    assert len(spy.there("t")) == 3

    assert runtime.prune("t") > 0
    assert len(spy.there("t")) == 2
    end = runtime.resume("t", "yes").state
    assert sorted(map(len, end["log"])) == [3, 100_000]
    assert len(end["page"]) == 100_000


def test_text_that_looks_like_a_reference_is_not_a_reference(lite):
    name = "a" * 64
    fake = f'{{"$t":"blob","v":"{name}"}}'
    runtime = lite.runtime(line(("a", lambda state: {"page": fake, "log": [{"$t": "blob", "v": name}]}), state=Large))
    runtime.run({"log": []}, thread="t")
    bodies = [record.body for record in lite.store.records("t")]

    assert any(b"blob" in body for body in bodies)
    assert not any(batch_format.blob_names(body) for body in bodies)
    assert runtime.state("t").values["page"] == fake


def test_deleted_value_is_removed_by_the_next_prune(spy):
    runtime: Any = Runtime(line(("a", lambda state: {"n": 1}), state=Large), store=spy, chain=True)
    runtime.run({"page": "secret" * 20_000}, thread="t")
    runtime.update("t", {"page": DELETE})
    runtime.run({}, thread="t")
    runtime.prune("t")

    assert spy.there("t") == set()
    assert "page" not in runtime.state("t").values
