"""Values that `erase` does not touch, and threads that can or cannot continue after values were erased."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from tests.threads.erasable import OTHER, PERSON, State, files_with, filled, graph, told

from graphrt import START, Erased, GraphBuilder, Overwrite, Runtime
from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.reducers import append
from graphrt.stores import Commit, MemoryStore, SqliteStore
from graphrt.testing import Fault, FlakyStore

LEFT_OUTSIDE = ["outside"]


def test_invalid_selections_are_refused_without_a_change() -> None:
    with Runtime(graph(), store="memory:", chain=True) as runtime:
        filled(runtime, fork=False)
        before = told(runtime, "t")
        for wrong in (
            "",
            "\ud800",
            7,
            ("t", 1),
            ("t", "nmae"),
            ("t", "name", "x"),
            ["t"],
            lambda *_: 1,
            lambda *_: 1 / 0,
            lambda: True,
        ):
            with pytest.raises(InputError) as caught:
                runtime.erase(wrong)  # type: ignore[arg-type]
            assert caught.value.code == "bad-erasure"
        with pytest.raises(InputError) as caught:
            runtime.erase(PERSON, threads=["nobody"])
        assert caught.value.code == "unknown-thread"
        with pytest.raises(InputError, match="threads= of erase"):
            runtime.erase(PERSON, threads="t")
        with pytest.raises(InputError):
            runtime.erase(("nobody", "name"))

        assert told(runtime, "t") == before


def test_thread_of_a_live_run_is_not_erased(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(graph(), store=url) as runtime, SqliteStore(tmp_path / "runs.db") as other:
        filled(runtime, fork=False)
        claim = other.claim("t", create=False, lease_s=60.0, at=0.0)
        other.commit(claim, Commit(claim.head.seq, claim.head.updated_at))
        with pytest.raises(ConflictError):
            runtime.erase(PERSON, threads=["t"])
        assert [one.what for one in runtime.erase(PERSON, dry_run=True).left] == ["running", "outside"]
        assert [one.what for one in runtime.erase(PERSON).left] == ["running", "outside"]
        other.release(claim)
        report = runtime.erase(PERSON)

        assert report.threads == ("t",)
        # The other store object keeps the write-ahead log open; the remains in it are reported.
        assert [one.what for one in report.left] == ["store", "outside"]
    with Runtime(graph(), store=url) as runtime:
        assert [one.what for one in runtime.erase(PERSON).left] == LEFT_OUTSIDE
    assert files_with(tmp_path) == []


@pytest.mark.parametrize("url", ["sqlite", "memory:"])
def test_waiting_thread_keeps_the_values_that_it_needs_unless_forced(tmp_path: Path, url: str) -> None:
    place = f"sqlite:///{tmp_path}/runs.db" if url == "sqlite" else url
    with Runtime(graph(ask=True), store=place) as runtime:
        assert runtime.run({"name": PERSON}, thread="t").status == "interrupted"
        with pytest.raises(InputError) as caught:
            runtime.erase(PERSON, threads=["t"])
        assert caught.value.code == "erasure-needed"
        assert "field 'name'" in str(caught.value)
        assert runtime.erase(PERSON).left[0].what == "needed"
        assert runtime.state("t").values.name == PERSON

        assert runtime.erase(PERSON, force=True).threads == ("t",)
        assert files_with(tmp_path) == []
        snapshot = runtime.state("t")
        assert snapshot.values.name == Erased()
        assert snapshot.status == "interrupted"
        assert runtime.verify(replay=True).findings == ()
        with pytest.raises(InputError) as caught:
            runtime.resume("t", answer="yes")
        assert caught.value.code == "erased-value"
        assert "fields 'name', 'large', 'notes', 'tags', 'mine' hold" in str(caught.value)
        new = {name: Overwrite([]) for name in ("notes", "mine")}
        runtime.update("t", {"name": OTHER, "large": "", "tags": Overwrite(set()), **new})
        with pytest.raises(InputError) as caught:  # the question about the person is still open
            runtime.resume("t", answer="yes")
        assert "question" in str(caught.value)
        runtime.update("t", {"answer": "yes"}, as_node="last")
        assert runtime.retry("t").state.answer == "yes"


def test_thread_that_needs_other_values_loses_only_unneeded_ones() -> None:
    """Overwritten values are no longer needed, though the thread waits."""

    def rename(_: State) -> Any:
        return {"name": OTHER}

    g: Any = GraphBuilder(State, name="renaming")
    g.add_node("rename", rename)
    g.add_node("ask", lambda _, ctx: {"answer": ctx.interrupt("?")})
    g.add_edge(START, "rename").add_edge("rename", "ask")
    with Runtime(g.compile(), store="memory:", chain=True) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        assert runtime.erase(PERSON).lines == 1
        assert runtime.resume("t", answer="yes").state.answer == "yes"
        assert runtime.state("t", at=1).values.name == Erased()


def test_finished_thread_continues_if_the_new_input_writes_the_field() -> None:
    class One(BaseModel):
        name: str = ""

    g: Any = GraphBuilder(One, name="one")
    g.add_node("same", lambda state: {"name": state.name})
    g.add_edge(START, "same")
    with Runtime(g.compile(), store="memory:", chain=True) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        runtime.erase(PERSON)
        with pytest.raises(InputError) as caught:
            runtime.run({}, thread="t")
        assert caught.value.code == "erased-value"
        assert runtime.run({"name": OTHER}, thread="t").state.name == OTHER


def test_thread_continues_if_its_type_allows_erased_values(tmp_path: Path) -> None:
    """User reducers are not called with them."""

    def longer(current: Any, incoming: Any) -> Any:
        assert (current.__class__, incoming.__class__) == (str, str)
        return current + incoming

    class Open(BaseModel):
        name: str | Erased = ""
        text: Annotated[str | Erased, longer] = ""
        notes: Annotated[list[str | Erased], append] = Field(default_factory=list)

    def step(state: Open) -> Any:
        return {"text": "x", "notes": [f"{state.name}"]}

    g: Any = GraphBuilder(Open, name="open")
    g.add_node("first", step).add_node("second", step).add_edge(START, "first").add_edge("first", "second")
    for place in (f"sqlite:///{tmp_path}/runs.db", "memory:"):
        with Runtime(g.compile(), store=place) as runtime:
            runtime.run({"name": PERSON, "text": PERSON}, thread="t")
            runtime.erase(PERSON)
            state = runtime.run({}, thread="t").state

            assert (state.name, state.text) == (Erased(), Erased())
            assert state.notes == [Erased(), Erased(), "Erased()", "Erased()"]
            assert runtime.run({"text": Overwrite("new")}, thread="t").state.text == "newxx"
            assert runtime.verify(replay=True).findings == ()


def test_selected_text_that_is_not_a_value_is_reported() -> None:
    with Runtime(graph(), store="memory:", chain=True) as runtime:
        runtime.run({"name": PERSON}, thread=f"of-{PERSON}")
        report = runtime.erase(PERSON)

        assert [one.what for one in report.left] == ["text", "outside"]


def test_damaged_thread_is_reported_and_the_others_are_erased(tmp_path: Path) -> None:
    import sqlite3

    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        filled(runtime)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        db.execute("UPDATE record SET body = replace(body, 'part', 'tarp') WHERE key = (SELECT min(key) FROM record)+6")
        db.execute("UPDATE record SET seal = zeroblob(90) WHERE key = (SELECT min(key) FROM record)")
    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        report = runtime.erase(PERSON)

        assert report.threads == ("forked", "copied")
        assert report.left[0][:2] == ("t", "damaged")
        with pytest.raises(StoreError):
            runtime.erase(PERSON, threads=["t"])


def test_failing_store_leaves_each_thread_consistent() -> None:
    store = FlakyStore(MemoryStore(), [Fault("erase", nth=2)])
    with Runtime(graph(), store=store, chain=True) as runtime:
        filled(runtime)
        with pytest.raises(StoreError):
            runtime.erase(PERSON)
        assert [PERSON in str(told(runtime, one)) for one in ("t", "forked", "copied")] == [False, True, True]
        assert runtime.erase(PERSON).threads == ("forked", "copied")
        assert runtime.verify(replay=True).findings == ()
