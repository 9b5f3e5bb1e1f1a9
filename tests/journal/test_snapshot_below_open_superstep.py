"""A snapshot covers whole supersteps; entries of an open superstep after it come from the journal and the staged rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.journal.second_chain import thread_in, verify
from tests.laws.keeping import standing
from typing_extensions import TypedDict

from graphrt import END, START, GraphBuilder, Interrupt, Limits, Runtime
from graphrt._journal import writer
from graphrt._runs import loading
from graphrt.reducers import add, append
from graphrt.stores import open_store
from graphrt.stores.values import StoredThread

ROUNDS = 40
KB = "x" * 1024


class Inner(TypedDict, total=False):
    notes: Annotated[list[str], append]


class State(TypedDict, total=False):
    notes: Annotated[list[str], append]
    count: Annotated[int, add]
    last: str


def inner() -> Any:
    g = GraphBuilder(Inner, name="inner")
    g.add_node("look", lambda _: {"notes": ["looked"]})
    g.add_node("ask", lambda _, ctx: {"notes": [ctx.interrupt("inside?", answer_type=str)]})
    g.add_edge(START, "look").add_edge("look", "ask").add_edge("ask", END)
    return g.compile()


def gate(_: State, ctx: Any) -> Any:
    return Interrupt("outside?", answer_type=str) if ctx.answer is None else {"notes": [ctx.answer]}


def graph() -> Any:
    """Supersteps that fill the journal; then one with a finished task, a question, and a nested question."""
    g = GraphBuilder(State, name="layers")
    g.add_node("fill", lambda state: {"last": f"{KB}{state['count']}", "count": 1})
    g.add_node("split", lambda _: None)
    g.add_node("work", lambda _, ctx: {"notes": [ctx.effect("work", lambda: "worked", kind="once")]})
    g.add_node("gate", gate)
    g.add_node("nest", inner())
    g.add_node("meet", lambda _: {"notes": ["met"], "count": 1})
    g.add_edge(START, "fill")
    g.add_conditional_edges("fill", lambda state: state["count"] < ROUNDS, {True: "fill", False: "split"})
    for name in ("work", "gate", "nest"):
        g.add_edge("split", name)
    g.add_join(["work", "gate", "nest"], "meet").add_edge("meet", END)
    return g.compile(limits=Limits(max_visits=None))


def opened(path: Path, **options: Any) -> Runtime[Any, Any]:
    return Runtime(graph(), store=f"sqlite:///{path}", **options)


def go_on(runtime: Runtime[Any, Any], *, times: int) -> None:
    """Answer that many of the open questions, one in each run."""
    for _ in range(times):
        question = runtime.state("t").interrupts[0]
        runtime.resume("t", answers={question.id: f"answer to {question.payload}"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with opened(tmp_path / "runs.db") as runtime:
        assert runtime.run({"count": 0}, thread="t").interrupts
    return tmp_path / "runs.db"


def loaded(path: Path) -> StoredThread:
    with open_store(f"sqlite:///{path}") as store:
        return store.load("t")


def test_thread_is_loaded_from_a_snapshot_and_an_open_superstep(path: Path) -> None:
    found = loaded(path)

    assert found.snapshot is not None
    assert 0 < found.snapshot.seq < found.records[0].seq <= found.head.seq
    assert {key.partition(":")[2].partition("/")[0] for key, _ in found.staged} >= {"work"}


@pytest.mark.parametrize("answered", [0, 1])
def test_fold_from_the_snapshot_equals_the_fold_from_the_first_entry(path: Path, answered: int) -> None:
    with opened(path) as runtime:
        go_on(runtime, times=answered)
        store = runtime.store
        assert store is not None
        found = store.load("t")
        whole = found._replace(snapshot=None, records=list(store.records("t")))
        short, long = (standing(loading.folded(runtime._config, one)) for one in (found, whole))

        assert found.snapshot is not None
        assert len(found.records) < len(whole.records)
        assert short["tasks"]
        assert short == long


def test_chain_that_starts_with_the_snapshot_continues_over_the_open_superstep(path: Path) -> None:
    """Runs that know the earlier entries only from the snapshot write verifiable headers."""
    for _ in range(2):
        with opened(path) as runtime:
            go_on(runtime, times=1)
    with opened(path) as runtime:
        state = runtime.state("t")
        assert state.status == "completed"
        assert sorted(state.values["notes"]) == sorted(
            ["worked", "answer to outside?", "looked", "answer to inside?", "met"]
        )
        assert runtime.replay("t").values == state.values
    found = thread_in(path, "t")

    assert verify(found) == len(found.rows) > ROUNDS


def test_no_snapshot_is_taken_while_a_superstep_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    snapshot = writer.Journal._snapshot

    def eager(journal: Any, after: Any, blobs: dict[str, bytes]) -> Any:
        journal._tail, journal._measured = 1 << 30, 0
        made = snapshot(journal, after, blobs)
        assert (made is None) == bool(journal._engine.tasks)
        taken.append(after.seq)
        return made

    monkeypatch.setattr(writer.Journal, "_snapshot", eager)
    with opened(tmp_path / "runs.db") as runtime:
        runtime.run({"count": ROUNDS - 3}, thread="t")
        open_at = loaded(tmp_path / "runs.db")
        assert open_at.snapshot is not None
        assert open_at.snapshot.seq == taken[-1] < open_at.head.seq
        go_on(runtime, times=1)
        assert loaded(tmp_path / "runs.db").snapshot == open_at.snapshot
        go_on(runtime, times=1)

        assert runtime.state("t").status == "completed"
        assert runtime.replay("t").values == runtime.state("t").values


def test_thread_pruned_up_to_its_open_superstep_continues(path: Path) -> None:
    with opened(path) as runtime:
        assert runtime.prune("t") > ROUNDS
        go_on(runtime, times=2)
        assert runtime.state("t").status == "completed"
    found = thread_in(path, "t")

    assert found.pruned > ROUNDS
    assert verify(found) == len(found.rows)
