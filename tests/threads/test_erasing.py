"""`erase`: all values of a person leave the store, and everything else stays unchanged (decisions 0128, 0129)."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.stores import postgres_server
from tests.threads.erasable import OTHER, PERSON, State, files_with, filled, graph, told

from graphrt import END, START, Command, Context, Erased, GraphBuilder, Runtime
from graphrt.events import RunStarted, ValuesErased
from graphrt.stores import EncryptedStore, MemoryStore, SqliteStore, TenantStore
from graphrt.stores.filters import ThreadFilter

LEFT_OUTSIDE = ["outside"]


def test_no_database_file_contains_the_person_afterwards(tmp_path: Path) -> None:
    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        filled(runtime)
        before = told(runtime, "u")
        assert files_with(tmp_path)
        report = runtime.erase(PERSON, by="office", reason="a request")

        assert files_with(tmp_path) == []
        assert report.threads == ("t", "forked", "copied")
        assert report.model_calls == 2  # the fork begins after the call
        assert report.blobs == 3
        assert [one.what for one in report.left] == LEFT_OUTSIDE
        assert runtime.verify(replay=True).findings == ()
        assert told(runtime, "u") == before
        *_, last = runtime.entries("t")
        assert isinstance(last.event, ValuesErased)
        assert (last.event.by, last.event.reason, last.event.records) == ("office", "a request", 3)
    assert files_with(tmp_path) == []


@pytest.mark.needs("cryptography")
def test_encrypted_bodies_do_not_contain_the_person_either(tmp_path: Path) -> None:
    keys = {"k": bytes(range(32))}
    with Runtime(graph(), store=EncryptedStore(SqliteStore(tmp_path / "runs.db"), keys)) as runtime:
        filled(runtime)
        assert len(runtime.store._other_blobs("t", ())) == 1  # type: ignore[union-attr]
        report = runtime.erase(PERSON)

        assert report.blobs == 3
        assert runtime.erase(PERSON).lines == 0
        assert runtime.verify().findings == ()
        assert runtime.store._other_blobs("t", ()) == []  # type: ignore[union-attr]
        assert PERSON not in str([told(runtime, thread) for thread in ("t", "forked", "copied")])


@pytest.mark.parametrize("chain", [None, True])
def test_memory_store_does_not_contain_the_person_afterwards(chain: bool | None) -> None:
    store = MemoryStore()
    with Runtime(graph(), store=store, chain=chain) as runtime:
        filled(runtime)
        kept = store._threads["u"].records[:]
        report = runtime.erase(PERSON)

        assert report.threads == ("t", "forked", "copied")
        assert store._threads["u"].records == kept
        gc.collect()
        for thread in ("t", "forked", "copied"):
            one = store._threads[thread]
            seen = [one.records, one.snapshots, one.staged, one.blobs, one.meta]
            texts = [str([told(runtime, thread), runtime.state(thread).values]), str(seen)]
            assert PERSON not in "".join(texts)
        assert runtime.verify(replay=True).findings == ()


@pytest.mark.needs("psycopg")
def test_rows_of_postgresql_do_not_contain_the_person_and_the_report_names_the_work_of_vacuum(request: Any) -> None:
    url = postgres_server.fresh_url(request.config)
    try:
        with Runtime(graph(), store=url) as runtime:
            filled(runtime)
            report = runtime.erase(PERSON)

            assert [one.what for one in report.left] == ["store", "outside"]
            assert "VACUUM FULL" in report.left[0].why
            assert runtime.verify(replay=True).findings == ()
            assert runtime.erase(PERSON).lines == 0
        schema = postgres_server.plain(url)[1]
        for table in ("record", "snapshot", "staged", "blob"):
            rows = postgres_server.run(url, f'SELECT body FROM "{schema}".{table}')
            assert not any(PERSON.encode() in bytes(row[0]) for row in rows)
    finally:
        postgres_server.drop(url)


def test_dry_run_changes_nothing(tmp_path: Path) -> None:
    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        filled(runtime)
        before = [told(runtime, thread) for thread in ("t", "forked", "copied")]
        heads = runtime.store.query(ThreadFilter())  # type: ignore[union-attr]
        would = runtime.erase(PERSON, dry_run=True)

        assert [told(runtime, thread) for thread in ("t", "forked", "copied")] == before
        assert runtime.store.query(ThreadFilter()) == heads  # type: ignore[union-attr]
        did = runtime.erase(PERSON)
        assert (would.threads, would.records, would.lines, would.blobs) == (
            did.threads,
            did.records,
            did.lines,
            did.blobs,
        )
        assert "would be erased" in str(would)
        assert "were erased" in str(did)


def test_repeated_erasure_is_a_no_op() -> None:
    with Runtime(graph(), store="memory:", chain=True) as runtime:
        filled(runtime)
        runtime.erase(PERSON)
        before = told(runtime, "t")
        again = runtime.erase(PERSON)

        assert (again.threads, again.lines) == ((), 0)
        assert told(runtime, "t") == before


def test_thread_that_lost_the_arguments_of_an_effect_can_lose_more() -> None:
    def node(state: State, ctx: Context) -> None:
        ctx.effect("call", lambda number: 1, PERSON)
        ctx.effect("call", lambda number: 1, OTHER)

    g = GraphBuilder(State, name="calls")
    g.add_node("node", node)
    g.add_sequence([START, "node", END])
    with Runtime(g.compile(), store="memory:") as runtime:
        runtime.run({}, thread="t")

        assert [runtime.erase(text).lines for text in (PERSON, OTHER, PERSON)] == [1, 1, 0]
        assert runtime.verify().ok


def test_field_of_a_thread_is_erased_with_its_forks_and_copies() -> None:
    with Runtime(graph(), store="memory:", chain=True) as runtime:
        filled(runtime)
        runtime.run({"name": PERSON}, thread="other")
        report = asyncio.run(runtime.aerase(("t", "name")))

        assert report.threads == ("t", "forked", "copied")
        assert runtime.state("t").values.name == Erased()
        assert runtime.state("t").values.notes == [f"hello {PERSON}", f"part of {PERSON}"]
        assert runtime.state("other", at=1).values.name == PERSON


@pytest.mark.parametrize("chain", [None, True])
def test_forks_and_copies_of_a_tenants_thread_are_recognised_with_and_without_a_chain(chain: bool | None) -> None:
    with Runtime(graph(), store=TenantStore(MemoryStore(), "acme"), chain=chain) as runtime:
        filled(runtime)
        runtime.copy_thread("copied", "copied-again")

        assert runtime.erase(("t", "name"), dry_run=True).threads == ("t", "forked", "copied", "copied-again")
        assert runtime.erase(("copied", "name")).threads == ("copied", "copied-again")


def test_field_of_a_thread_is_erased_from_the_named_forks_and_copies_only() -> None:
    with Runtime(graph(), store="memory:", chain=True) as runtime:
        filled(runtime)
        runtime.run({"name": PERSON}, thread="other")
        report = runtime.erase(("t", "name"), threads=["forked", "other"])

        assert report.threads == ("forked",)
        assert runtime.state("forked").values.name == Erased()
        assert runtime.state("t", at=1).values.name == PERSON


def test_function_selects_single_values() -> None:
    calls: list[Any] = []

    def choose(thread: str, seq: int, field: str | None, value: Any) -> bool:
        calls.append((thread, seq, field, value))
        return field == "notes" and value == [f"part of {PERSON}"]

    with Runtime(graph(), store="memory:", chain=True) as runtime:
        filled(runtime, fork=False)
        report = runtime.erase(choose, threads=["t"])

        assert (report.lines, report.records) == (1, 1)
        assert runtime.state("t").values.notes == [f"hello {PERSON}", Erased()]
        assert ("t", 1, "tags", set()) in calls
        assert ("t", 3, None, {"found": PERSON}) in calls
        assert {call[0] for call in calls} == {"t"}


def test_replay_does_not_call_routers_for_erased_values() -> None:
    def route(state: State) -> str:
        return "last" if state.name.startswith("Canary") else "other"

    g: Any = GraphBuilder(State, name="routed")
    g.add_node("last", lambda _: {"count": 1}).add_node("other", lambda _: {"count": 2})
    g.add_conditional_edges(START, route, ["last", "other"])
    with Runtime(g.compile(), store="memory:", chain=True) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        runtime.erase(PERSON)

        assert runtime.replay("t").values.count == 1


def test_why_and_history_mark_erased_values() -> None:
    with Runtime(graph(), store="memory:", chain=True) as runtime:
        filled(runtime, fork=False)
        runtime.erase(PERSON)

        assert [one.value for one in runtime.why("t", "notes").writes][-2:] == [Erased(), Erased()]
        assert "Erased()" in str(runtime.why("t", "notes"))
        newest, *_, oldest = runtime.history("t")
        assert (oldest.values.name, oldest.values.mine) == (Erased(), [])
        assert (newest.values.name, newest.values.mine, newest.values.tags) == (OTHER, Erased(), {Erased()})


@pytest.mark.parametrize("place", ["sqlite", "memory:"])
def test_pruned_thread_loses_values_of_its_first_snapshot(tmp_path: Path, place: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db" if place == "sqlite" else place
    with Runtime(graph(), store=url) as runtime:
        filled(runtime, fork=False)
        runtime.run({"count": 2}, thread="t")
        runtime.prune("t")
        first = runtime.store.head("t").first  # type: ignore[union-attr]
        assert first > 1
        report = runtime.erase(PERSON)

        assert report.threads == ("t",)
        assert files_with(tmp_path) == []
        assert runtime.verify(replay=True).findings == ()
        assert runtime.state("t").values.mine == Erased()
        assert runtime.erase(PERSON).lines == 0
        assert next(iter(runtime.entries("t"))).seq == first


def test_snapshots_after_the_value_are_rewritten(tmp_path: Path) -> None:
    class Talk(BaseModel):
        first: str = ""
        last: str = ""
        left: int = 40

    def say(state: Talk) -> Any:
        return Command(update={"last": "x" * 4_000, "left": state.left - 1}, goto="say" if state.left else END)

    g: Any = GraphBuilder(Talk, name="talk")
    g.add_node("say", say, goto=["say", END])
    g.add_edge(START, "say")
    with Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        runtime.run({"first": PERSON}, thread="t")
        store = runtime.store
        assert store is not None
        assert store.load("t").snapshot is not None
        runtime.erase(PERSON)

        assert store.load("t").snapshot is None
        assert runtime.state("t").values == Talk.model_construct(first=Erased(), last="x" * 4_000, left=-1)
        assert files_with(tmp_path) == []
        assert runtime.verify(replay=True).findings == ()


def test_sinks_see_the_erasure() -> None:
    seen: list[Any] = []
    with Runtime(graph(), store="memory:", sinks=[seen.append]) as runtime:
        runtime.run({"name": PERSON}, thread="t")
        runtime.erase(PERSON)

    assert isinstance(seen[0].event, RunStarted)
    assert isinstance(seen[-1].event, ValuesErased)
    assert seen[-1].seq == len(seen)
