"""Supersteps that are folded straight from their bytes come to what folding their events comes to."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from graphrt import END, START, GraphBuilder, Limits, Runtime, Send
from graphrt._engine.snapshot_data import saved
from graphrt._journal import refold as module
from graphrt._runs import loading
from graphrt.errors import GraphrtError, StoreError
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite._schema import SPAN

from .test_brief import UPDATES, State, graph


def varied() -> Any:
    """Plain supersteps, a fan-out, and plain ones again."""
    builder = GraphBuilder(State, name="varied")
    builder.add_node("plan", lambda state: {"count": 1})
    builder.add_node("work", lambda state, ctx: {"log": [ctx.arg]})
    builder.add_node("talk", lambda state: {"log": [f"n{state.count}"], "last": 'he said: "$"\n', "count": 1})
    builder.add_node("rest", lambda state: None)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges(
        "plan", lambda state: [Send("work", n) for n in range(3)] if state.count % 4 else "talk", ["work", "talk"]
    )
    builder.add_edge("work", "talk")
    builder.add_edge("talk", "rest")
    builder.add_conditional_edges("rest", lambda state: state.count < 25, {True: "plan", False: END})
    return builder.compile(limits=Limits(max_visits=None))


def written(path: Path, made: Any, *, runs: int, chain: bool) -> None:
    with Runtime(made, store=SqliteStore(path), chain=chain, seed=5) as runtime:
        for run in range(runs):
            runtime.run(State() if run == 0 else {"last": "again", "count": 0}, thread="t")


def folded(runtime: Any, upto: int | None, *, straight: bool) -> Any:
    """What loading comes to, as plain data."""
    loaded = runtime.store.load("t", upto=upto)
    fold, _ = loading.begun(runtime, loaded)
    if loaded.snapshot is not None:
        loading.start_from(fold, loaded.snapshot)
    if straight:
        loading.fold_all(fold, loaded.records, upto)
    else:
        for record in loaded.records:
            fold.add(record, upto)
    engine, chain = fold.engine, fold.chain
    return (
        saved(engine),
        (engine.sizes, engine.visits, [task.id for task in engine.tasks], engine.entering),
        (fold.seq, fold.cause, fold.run, fold.status, fold.tail, fold.steps_at, fold.seed, fold.fingerprint),
        (chain.digests, chain.leaf) if chain is not None else None,
    )


SMALL = [update for update in UPDATES if not update or update.get("last", "")[:2] != "yy"]
"""No snapshot stands between the beginning and the end."""
MADE = {
    "every update": (lambda: graph(SMALL * 4, context=False), 1),
    "varied": (varied, 3),
}


@pytest.mark.parametrize("chain", [False, True], ids=["bare", "chained"])
@pytest.mark.parametrize("name", MADE)
def test_folding_comes_to_the_same(tmp_path: Path, name: str, chain: bool) -> None:
    make, runs = MADE[name]
    made = make()
    written(tmp_path / "runs.db", made, runs=runs, chain=chain)
    with Runtime(made, store=SqliteStore(tmp_path / "runs.db")) as runtime:
        last = runtime.store.head("t").seq
        assert last > 60
        for upto in [*range(1, last + 1, 7), None]:
            assert folded(runtime, upto, straight=True) == folded(runtime, upto, straight=False)


def test_most_records_are_folded_straight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first and the last, where no reducer of the user's is in the way."""
    made = graph([update for update in SMALL * 4 if not update or "table" not in update], context=False)
    written(tmp_path / "runs.db", made, runs=1, chain=True)
    general: list[Any] = []
    add = loading.Fold.add
    monkeypatch.setattr(
        loading.Fold, "add", lambda fold, record, upto: (general.append(record), add(fold, record, upto))
    )
    with Runtime(made, store=SqliteStore(tmp_path / "runs.db")) as runtime:
        runtime.state("t")
        there = runtime.store.load("t").records

    assert len(there) >= 50
    assert general == [there[0], there[-1]]


DAMAGE = {
    "superstep": (b"[[8,0,[2,", b"[[8,0,[7,"),
    "other superstep": (b"[12,0,2", b"[12,0,7"),
    "version": (b"[1,", b"[9,"),
    "time": (b"[1,1", b"[1,x1"),
    "time of nothing": (b"[1,", b"[1,,"),
    "time that a header cannot hold": (b"[1,", b"[1,99999999"),
    "time that no float can hold": (b"[1,", b"[1,%b" % (b"9" * 400)),
    "time without end": (b"[1,", b"[1,1e400,"),
    "run": (b',"', b',7"'),
    "cause": (b",3,[],", b",5,[],"),
    "node": (b",0,[2,0,", b",0,[2,0,4"),
    "number of a name": (b"[[0,1", b"[[99,1"),
    "number of a line": (b"[[0,1", b"[[0,8"),
    "a value": (b"]\n1", b"]\n{"),
    "a value of another kind": (b"]\n1", b']\n"1"'),
    "a tag": (b"]\n1", b']\n{"$t":"what","v":1}'),
    "one line more": (b"]\n1", b"]\n1\n1"),
    "one line less": (b"]\n1", b"]"),
    "no structure": (b"[1,", b"{1,"),
}


def outcome_of(runtime: Any, *, straight: bool) -> Any:
    try:
        return folded(runtime, None, straight=straight)
    except GraphrtError as error:
        return type(error), error.code


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("chain", [False, True], ids=["bare", "chained"])
def test_damage_is_met_as_the_general_way_meets_it(tmp_path: Path, what: str, chain: bool) -> None:
    """With a checksum that fits: somebody changed the row who knows the format."""
    path = tmp_path / "runs.db"
    made = graph([{"count": 1}, {"log": ["a"], "count": 1}] * 4, context=False)
    written(path, made, runs=1, chain=chain)
    old, new = DAMAGE[what]
    db = sqlite3.connect(path)
    with db:
        rows = db.execute("SELECT key, body FROM record ORDER BY key").fetchall()
        key, body = next(row for row in rows if b"[[8,0,[2," in row[1])
        text = body[:-9].replace(old, new, 1)
        assert text != body[:-9]
        db.execute("UPDATE record SET body = ? WHERE key = ?", (b"%b\n%08x" % (text, crc32(text)), key))
    db.close()
    with Runtime(made, store=SqliteStore(path)) as runtime:
        found = outcome_of(runtime, straight=True)
        assert found == outcome_of(runtime, straight=False)
        if chain:
            assert found[0] is StoreError


def test_forms_that_the_module_foresees_are_those_that_are_written() -> None:
    """A change of the stored form must not go unnoticed here: everything would be folded the slow way."""
    assert module._STRUCTURE.fullmatch(b'[1,2.5,"r",3,[],[[8,0,[4,0,6],[[1,1,0,2]]],[12,0,4,[0,1],[5]]]]')
    assert module._STRUCTURE.fullmatch(b'[1,2.5,"r",3,[],[[8,0,[4,0,6]],[12,0,4]]]')
    assert not module._STRUCTURE.fullmatch(b'[1,2.5,"r",3,["new"],[[8,0,[4,0,6]],[12,0,4]]]')
    assert not module._STRUCTURE.fullmatch(b'[1,2.5,"r",3,[],[[8,0,[4,0,6]],[12,0,5]]]')


def changed_time(text: bytes) -> bytes:
    return text.replace(b"[1,1", b"[1,2", 1)


def changed_value(text: bytes) -> bytes:
    return text.replace(b'["n21"]', b'["n22"]', 1)


def changed_names(text: bytes) -> bytes:
    """As if fewer fields had been written: nothing is folded otherwise."""
    return re.sub(rb"(\[12,0,\d+,\[\d+),[\d,]+\]", rb"\1]", text)


@pytest.mark.parametrize(("change", "at_once"), [(changed_time, True), (changed_value, True), (changed_names, False)])
def test_changed_values_and_times_are_found_by_looking_and_names_by_replay(
    tmp_path: Path, change: Callable[[bytes], bytes], at_once: bool
) -> None:
    """What is folded, and when, is checked at every load; the rest when everything is read again."""
    made, path = varied(), tmp_path / "runs.db"
    written(path, made, runs=1, chain=True)
    db = sqlite3.connect(path)
    with db:
        rows = db.execute("SELECT key, body FROM record ORDER BY key").fetchall()
        key, body = [row for row in rows if row[1].count(b"\n") == 4 and change(row[1]) != row[1]][-1]
        text = change(body[:-9])
        db.execute("UPDATE record SET body = ? WHERE key = ?", (b"%b\n%08x" % (text, crc32(text)), key))
    db.close()
    told = f"Entry {key % SPAN} of the journal is not what was written: its seal does not fit"
    with Runtime(made, store=SqliteStore(path)) as runtime:
        if at_once:
            with pytest.raises(StoreError, match=told):
                runtime.state("t")
        else:
            assert runtime.state("t").values.count == 26
        with pytest.raises(StoreError, match=told):
            runtime.replay("t")
