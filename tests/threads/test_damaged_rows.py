"""Values of any type in every column of every table: each verb works or raises a typed error that names the thread.

SQLite holds any type in any column, so a flipped bit in a row's header makes a number of a text.
"""

from __future__ import annotations

import io
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, Runtime
from graphrt.errors import GraphrtError, StoreError
from graphrt.reducers import append
from graphrt.stores import SqliteStore
from graphrt.stores.filters import DueFilter, MailFilter, ScheduleFilter
from graphrt.stores.values import StoredSchedule

from .forging import replace_in_body
from .support import builder

VALUES: dict[str, Any] = {
    "null": None,
    "text": "abc",
    "empty text": "",
    "digits": "7",
    "zero": 0,
    "number": 7,
    "negative": -3,
    "huge": 2**62,
    "fraction": 1.5,
    "infinite": float("inf"),
    "bytes": b"\xff\x00",
    "no bytes": b"",
    "json": b"[1,2]",
    "a list of nulls": b'{"names":null,"fingerprint":5,"chained":7,"topology":[]}',
    "a list of numbers": b'{"names":[1,null],"fingerprint":null,"chained":null,"topology":null}',
    "broken text": "CAST(x'ff41' AS TEXT)",
}
"""The values to write; the last one is an expression."""
TABLES = {
    "thread": (
        *("no", "id", "seq", "first", "epoch", "turn", "status", "graph", "created_at", "updated_at", "lease", "owner"),
        "rank",
    ),
    "record": ("key", "count", "body", "seal"),
    "part": ("no", "kind", "name", "place", "body"),
    "label": ("no", "tenant", "title", "folded", "tags"),
    "tag": ("name", "no"),
    "question": (
        *("no", "tenant", "place", "kind", "node", "graph", "asked_at", "expires_at", "stale", "body"),
    ),
    "schedule": ("name", "graph", "version", "due_at", "body"),
}  # fmt: skip
KINDS = ("meta", "snapshot", "staged", "blob", "letter")
ROWS = {table: {"all": ""} for table in TABLES} | {
    "record": {"first": " WHERE key % 68719476736 = (SELECT min(key % 68719476736) FROM record)", "all": ""},
    "part": {name: f" WHERE kind = {kind}" for kind, name in enumerate(KINDS)},
}


class State(te.TypedDict, total=False):
    log: Annotated[list[Any], append]
    n: int
    x: str


def graph() -> Any:
    """Large values, a snapshot, an effect, and a finished task next to one that asks."""

    def ask(state: Any, ctx: Context) -> Any:
        ctx.effect("pay", lambda: 7)
        return {"log": [ctx.interrupt("ok?")]}

    g = builder(state=State)
    g.add_node("grow", lambda state: {"log": ["l"], "x": "X" * 20_000, "n": state.get("n", 0) + 1})
    g.add_node("large", lambda state: {"log": ["P" * 70_000]})
    g.add_node("ask", ask)
    g.add_edge(START, "grow")
    g.add_conditional_edges("grow", lambda s: "again" if s["n"] < 8 else "done", {"again": "grow", "done": "large"})
    g.add_node("beside", lambda state: {"log": ["beside"]})
    g.add_edge("large", "beside").add_edge("large", "ask").add_edge("ask", END)
    return g.compile()


GRAPH = graph()

READERS: dict[str, Callable[[Any], Any]] = {
    "state": lambda runtime: runtime.state("t").values,
    "state at": lambda runtime: runtime.state("t", at=9).values,
    "history": lambda runtime: [snapshot.values for snapshot in runtime.history("t")],
    "history limit": lambda runtime: [snapshot.values for snapshot in runtime.history("t", limit=3)],
    "entries": lambda runtime: list(runtime.entries("t")),
    "replay": lambda runtime: runtime.replay("t"),
    "threads": lambda runtime: runtime.threads(),
    "check_threads": lambda runtime: runtime.check_threads(),
    "diff": lambda runtime: runtime.diff("t", "t"),
    "inbox": lambda runtime: runtime.inbox(),
    "find": lambda runtime: runtime.threads(tags=["one"], title="about"),
    "old threads": lambda runtime: runtime.sweep(older_than_s=0, status="interrupted", dry_run=True),
    "mail": lambda runtime: runtime.store.query(MailFilter(thread="t")),
    "due": lambda runtime: runtime.store.query(DueFilter(now=2e9)),
    "schedules": lambda runtime: runtime.store.query(ScheduleFilter()),
    "verify": lambda runtime: runtime.verify(replay=True),
    "export": lambda runtime: runtime.export_thread("t", io.BytesIO()),
}
EDITS: dict[str, Callable[[Any], Any]] = {
    "fork": lambda runtime: runtime.fork("t", to="f"),
    "copy": lambda runtime: runtime.copy_thread("t", "c"),
    "update": lambda runtime: runtime.update("t", {"n": 1}),
    "resume": lambda runtime: runtime.resume("t", "yes"),
    "prune": lambda runtime: runtime.prune("t"),
    "delete": lambda runtime: runtime.delete_thread("t"),
    "run": lambda runtime: runtime.run({"log": [], "n": 7}, thread="new"),
    "abandon": lambda runtime: runtime.run({"log": [], "n": 7}, thread="t", if_exists="abandon"),
    "cancel": lambda runtime: runtime.cancel("t"),
    "label": lambda runtime: runtime.label("t", title="other", remove_tags=["one"], add_tags=["two"]),
    "signal": lambda runtime: runtime.signal("t", "stop"),
    "sweep": lambda runtime: runtime.sweep(older_than_s=0, status="interrupted"),
    "reindex": lambda runtime: runtime.reindex(),
}


CHAINS = {"chained": None, "plain": False}


@pytest.fixture(scope="module", params=CHAINS)
def pristine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("rows") / "runs.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))  # without STRICT tables, which refuse the damage
        with SqliteStore(path) as store, Runtime(GRAPH, store=store, chain=CHAINS[request.param]) as runtime:
            assert runtime.run({"log": []}, thread="t").status == "interrupted"
            runtime.label("t", title="about tea", add_tags=["one"])
            runtime.signal("t", "go", 1)
            store.put_schedule(StoredSchedule("daily", "g", "1", 0.0, b"{}"), replaces=None)
    return path.read_bytes()


@pytest.fixture
def damage(folder: Path, pristine: bytes) -> Callable[..., Path | None]:
    """A file with damaged rows, or None where SQLite itself refuses the damage."""

    def made(statement: str, *values: Any) -> Path | None:
        path = folder / "runs.db"
        for old in folder.iterdir():
            old.unlink()
        path.write_bytes(pristine)
        db = sqlite3.connect(path)
        try:
            changed = db.execute(statement, values).rowcount
            db.commit()
        except sqlite3.IntegrityError:
            return None
        finally:
            db.close()
        assert changed
        return path

    return made


STEP = 1 if os.environ.get("GRAPHRT_FULL") == "1" else len(READERS) + len(EDITS)
"""Each value in a cell meets one verb: another than the next value does, and another than in the next cell."""
CELLS = [(table, column, which) for table, columns in TABLES.items() for column in columns for which in ROWS[table]]
VERBS = {**READERS, **EDITS}
DAMAGES = [
    pytest.param(chain, cell, id=f"{chain}-{'{}.{}-{}'.format(*cell)}", marks=() if ours else pytest.mark.full)
    for place, cell in enumerate(CELLS)
    for number, chain in enumerate(CHAINS)
    for ours in [(place + place // 2) % len(CHAINS) == number]
]
"""Every cell, alternately of a chained and a plain thread; of both in full runs."""


@pytest.mark.parametrize(("pristine", "cell"), DAMAGES, indirect=["pristine"])
def test_row_of_any_type_is_read_or_refused(request, damage, cell):
    """Every value in every cell, each under its own verb; under every verb with GRAPHRT_FULL=1."""
    raw: list[tuple[str, str, str]] = []
    table, column, which = cell
    where = ROWS[table][which]
    shift = CELLS.index(cell) + STEP // 2 * (request.node.callspec.params["pristine"] == "chained")
    for number, (kind, value) in enumerate(VALUES.items(), shift):
        broken = kind == "broken text"
        statement = f"UPDATE OR REPLACE {table} SET {column} = {value if broken else '?'}{where}"
        given = () if broken else (value,)
        path = damage(statement, *given)
        for name, call in list(VERBS.items())[number % STEP :: STEP]:
            if path is None:
                break
            if name in EDITS:
                path = damage(statement, *given)
            try:
                with Runtime(GRAPH, store=SqliteStore(path)) as runtime:
                    call(runtime)
            except GraphrtError:
                continue
            except Exception as error:  # noqa: BLE001 - reports any untyped error
                raw.append((kind, name, f"{type(error).__name__}: {error}"))

    assert raw == []


def test_error_names_the_damaged_part(damage):
    for statement, words in {
        "UPDATE thread SET seq = 'abc'": ("'t'", "seq", "'abc'", "str"),
        "UPDATE record SET count = 'x' WHERE key % 2 = 1": ("'t'", "record of entry", "count"),
        "UPDATE record SET body = 5 WHERE key % 2 = 1": ("'t'", "record of entry", "body", "int"),
        "UPDATE part SET body = 5 WHERE kind = 2": ("'t'", "staged", "5"),
        "UPDATE part SET place = 'x' WHERE kind = 2": ("'t'", "staged", "place"),
    }.items():
        path = damage(statement)
        with Runtime(GRAPH, store=SqliteStore(path)) as runtime, pytest.raises(StoreError) as caught:
            runtime.replay("t")
        assert caught.value.code == "store-damaged"
        assert caught.value.thread == "t"
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_thread_whose_row_is_damaged_can_be_deleted(damage):
    path = damage("UPDATE thread SET seq = 'abc', lease = 'x', owner = 5")
    with Runtime(GRAPH, store=SqliteStore(path)) as runtime:
        with pytest.raises(StoreError, match="or delete it"):
            runtime.threads()
        runtime.delete_thread("t")
        assert runtime.threads() == ()


@pytest.mark.parametrize("value", [b"true", b"7", b"null", b"1.5"])
def test_staged_value_that_its_reducer_refuses_is_refused(damage, pristine, value):
    path = damage("UPDATE part SET kind = kind")
    replace_in_body(path, "part", "kind = 2 AND name LIKE '%:beside'", b'["beside"]', value)
    for call in (lambda runtime: runtime.state("t"), lambda runtime: runtime.resume("t", "yes")):
        with Runtime(GRAPH, store=SqliteStore(path)) as runtime, pytest.raises(StoreError) as caught:
            call(runtime)
        assert caught.value.thread == "t"


@pytest.mark.parametrize("pristine", ["chained"], indirect=True)
@pytest.mark.parametrize("forged", [True, False], ids=["value", "body"])
def test_damage_of_the_first_entry_does_not_name_an_entry_before_it(damage, forged):
    first = "key = (SELECT min(key) FROM record)"
    path = damage("UPDATE part SET kind = kind" if forged else f"UPDATE record SET body = x'00' WHERE {first}")
    if forged:
        replace_in_body(path, "record", first, b"[]", b"[5]")
    with Runtime(GRAPH, store=SqliteStore(path)) as runtime, pytest.raises(StoreError) as caught:
        runtime.replay("t")
    told = str(caught.value)
    assert caught.value.thread == "t"
    assert "thread 't', entry 1" in told
    assert "before 1 " not in told
    assert "before it" not in told
