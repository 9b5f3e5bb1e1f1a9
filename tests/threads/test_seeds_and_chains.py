"""The same seed, ids and clock give the same bytes (rule R13); the hash chain, on and off, and its findings."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from contextlib import closing

import pytest
from tests.stores.support import loosen

from graphrt import Runtime
from graphrt.errors import StoreError
from graphrt.stores import MemoryStore, open_store

from .support import EVERYTHING, Clock, everything, finish, kinds, line, note, refused

TABLES = {
    "record": "SELECT key, count, body, seal FROM record ORDER BY key",
    "part": "SELECT no, kind, name, body FROM part ORDER BY no, kind, name",
    "thread": "SELECT no, id, seq, first, epoch, status, graph, created_at, updated_at FROM thread ORDER BY no",
}


def rows(path, table):
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(TABLES[table]).fetchall()


def told(path, *, face="sync", seed=7):
    """Two runs of one thread with a question in between, in their own file."""
    counter = itertools.count(1)
    options = {"clock": Clock(), "ids": lambda: f"id-{next(counter)}", "seed": seed}
    with Runtime(everything(), store=f"sqlite:///{path}", **options) as runtime:
        if face == "sync":
            runtime.run({"notes": []}, thread="t")
            finish(runtime, "t")
            runtime.run({"notes": ["again"]}, thread="t")
        else:

            async def go():
                paused = await runtime.arun({"notes": []}, thread="t")
                await runtime.aresume("t", {i.id: "yes" for i in paused.interrupts})
                await runtime.arun({"notes": ["again"]}, thread="t")

            asyncio.run(go())
        return runtime.state("t").values["notes"]


@pytest.mark.parametrize("table", TABLES)
def test_the_same_seed_ids_and_clock_give_the_same_rows(folder, table):
    assert told(folder / "a.db") == told(folder / "b.db")

    assert rows(folder / "a.db", table) == rows(folder / "b.db", table)
    assert rows(folder / "a.db", table)


def test_sync_and_async_write_the_same_records(folder):
    told(folder / "a.db")
    told(folder / "b.db", face="async")

    assert rows(folder / "a.db", "record") == rows(folder / "b.db", "record")


def test_different_seed_gives_different_salts(folder):
    told(folder / "a.db")
    told(folder / "b.db", seed=8)

    ones, others = rows(folder / "a.db", "record"), rows(folder / "b.db", "record")
    assert all(one[3] != other[3] for one, other in zip(ones, others, strict=True))


@pytest.mark.parametrize("chain", [None, True, False])
def test_chain_on_and_off(world, chain):
    runtime = world.runtime(everything(), chain=chain)
    runtime.run({"notes": []}, thread="t")
    finish(world.runtime(everything()), "t")
    sealed = [bool(record.seal) for record in world.store.records("t")]

    assert set(sealed) == {chain if chain is not None else world.kind != "memory"}
    assert runtime.state("t").values["notes"] == EVERYTHING
    assert runtime.replay("t").status == "completed"
    for at in (1, 5, 12):
        fork = runtime.fork("t", at=at)
        assert finish(runtime, fork)["notes"] == EVERYTHING
    runtime.prune("t")
    assert runtime.run({"notes": ["more"]}, thread="t").status == "interrupted"


@pytest.mark.parametrize("chain", [True, False])
def test_memory_store_refuses_unstorable_values_with_a_chain_and_without(chain):
    runtime = Runtime(line(("a", lambda state: {"x": object()})), store=MemoryStore(), chain=chain)

    refused("not-storable", lambda: runtime.run({"notes": []}, thread="t"), "object")


def written(folder):
    path = folder / "runs.db"
    with Runtime(line(("a", note("a")), ("b", note("b"))), store=f"sqlite:///{path}", seed=1) as runtime:
        runtime.run({"notes": []}, thread="t")
        runtime.run({"notes": []}, thread="intact")
    return path


CHANGES = {
    "a letter of a body": "UPDATE record SET body = CAST(replace(CAST(body AS TEXT), '\"a\"', '\"z\"') AS BLOB)",
    "a body cut short": "UPDATE record SET body = substr(body, 1, length(body) - 3)",
    "a body of nothing": "UPDATE record SET body = x''",
    "a body of noise": "UPDATE record SET body = x'ff00ff00'",
    "a body of another record": "UPDATE record SET body = (SELECT body FROM record ORDER BY key DESC LIMIT 1)",
    "the seal": "UPDATE record SET seal = zeroblob(length(seal))",
    "no seal": "UPDATE record SET seal = x''",
    "the count": "UPDATE record SET count = count + 1",
    "a record less": "DELETE FROM record WHERE key = (SELECT min(key) FROM record)",
    "the last record": "DELETE FROM record WHERE key = (SELECT max(key) FROM record WHERE key < {second})",
    "the number of the last entry": "UPDATE thread SET seq = seq + 3 WHERE id = 't'",
    "a smaller number": "UPDATE thread SET seq = seq - 1 WHERE id = 't'",
    "the meta": "UPDATE part SET body = x'7b' WHERE kind = 0",
    "no meta": "DELETE FROM part WHERE kind = 0",
    "a status that there is not": "UPDATE thread SET status = 'sleeping' WHERE id = 't'",
    "a time that is none": "UPDATE thread SET updated_at = 'yesterday' WHERE id = 't'",
    "a body that is text": "UPDATE record SET body = 'text'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_manually_altered_row_is_detected(folder, change):
    """The first reader raises a typed error, or does not use the row. The other thread stays readable."""
    path = written(folder)
    loosen(path)
    second = 2 * 2**36
    db = sqlite3.connect(path)
    statement = CHANGES[change].format(second=second)
    if " record " in statement and "{second}" not in CHANGES[change]:
        statement += (" AND" if "WHERE" in statement else " WHERE") + f" key < {second}"
    elif " part " in statement:
        statement += " AND no = 1"
    with db:
        assert db.execute(statement).rowcount > 0
    db.close()
    with open_store(f"sqlite:///{path}") as store:
        runtime = Runtime(line(("a", note("a")), ("b", note("b"))), store=store)

        def read_and_go_on():
            runtime.state("t")
            list(runtime.entries("t"))
            runtime.run({"notes": []}, thread="t")

        with pytest.raises(StoreError) as caught:
            read_and_go_on()

        assert caught.value.code in {"store-damaged", "journal-misfit"}, str(caught.value)
        assert "Fix:" in str(caught.value)
        assert runtime.state("intact").values["notes"] == ["a", "b"]
        assert runtime.run({"notes": []}, thread="intact").status == "completed"
        assert kinds(runtime.entries("intact"))[-1] == "run-completed"
