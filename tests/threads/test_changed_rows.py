"""Forged rows, changed with knowledge of the format: the result of loading them, with and without a chain."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from graphrt import END, START, GraphBuilder, Limits, Runtime, Send
from graphrt.errors import GraphrtError, StoreError
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite._schema import SPAN

from .test_brief import State, graph


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


DAMAGE = {
    "superstep": (b"[[8,0,[2,", b"[[8,0,[7,"),
    "other superstep": (b"[12,0,2", b"[12,0,7"),
    "version": (b"[4,", b"[9,"),
    "time": (b"[4,1", b"[4,x1"),
    "time of nothing": (b"[4,", b"[4,,"),
    "time that a header cannot hold": (b"[4,", b"[4,99999999"),
    "time that no float can hold": (b"[4,", b"[4,%b" % (b"9" * 400)),
    "time without end": (b"[4,", b"[4,1e400,"),
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
    "no structure": (b"[4,", b"{4,"),
}


SOUND = {"superstep", "other superstep", "time that a header cannot hold", "cause", "one line more"}
"""Changes that leave a record which another run could have written."""


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("chain", [False, True], ids=["bare", "chained"])
def test_changed_row_is_refused(tmp_path: Path, what: str, chain: bool) -> None:
    """With a matching checksum. Without the chain, a change that leaves a valid record cannot be detected."""
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
        if not chain and what in SOUND:
            assert runtime.state("t").status == "completed"
        else:
            with pytest.raises(StoreError if chain else GraphrtError):
                runtime.state("t")


def changed_time(text: bytes) -> bytes:
    return text.replace(b"[4,1", b"[4,2", 1)


def changed_value(text: bytes) -> bytes:
    return text.replace(b'["n21"]', b'["n22"]', 1)


def changed_names(text: bytes) -> bytes:
    """Forge the names as if fewer fields had been written: the fold does not change otherwise."""
    return re.sub(rb"(\[12,0,\d+,\[\d+),[\d,]+\]", rb"\1]", text)


@pytest.mark.parametrize("change", [changed_time, changed_value, changed_names])
def test_changed_values_times_and_names_are_detected_on_read(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    made, path = varied(), tmp_path / "runs.db"
    written(path, made, runs=1, chain=True)
    db = sqlite3.connect(path)
    with db:
        rows = db.execute("SELECT key, body FROM record ORDER BY key").fetchall()
        key, body = [row for row in rows if row[1].count(b"\n") == 4 and change(row[1]) != row[1]][-1]
        text = change(body[:-9])
        db.execute("UPDATE record SET body = ? WHERE key = ?", (b"%b\n%08x" % (text, crc32(text)), key))
    db.close()
    told = f"Entry {key % SPAN} of the journal is not what was written: its seal does not match"
    with Runtime(made, store=SqliteStore(path)) as runtime, pytest.raises(StoreError, match=told):
        runtime.state("t")
