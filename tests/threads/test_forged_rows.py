"""Which readings find which change of stored rows, made by who knows their form but not the whole chain.

The table "What is and is not detected" of `docs/reference/journal.md` sums this up, with one row for each combination.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, Runtime
from graphrt.errors import GraphrtError, StoreError
from graphrt.harness import TokenTracker
from graphrt.reducers import append
from graphrt.stores import SqliteStore, Verification

from .forging import SPAN, change_meta, execute, opened, replace_bound, replace_in_body
from .support import builder

Change = Callable[[Path], None]
DAMAGE = {"store-damaged", "damaged-value", "unknown-type", "journal-misfit", "replay-diverged"}


class State(te.TypedDict, total=False):
    log: Annotated[list[Any], append]
    n: int
    x: str


def graph() -> Any:
    """Eleven rounds with a snapshot among them, then a task that ends next to one that pays and asks."""

    def ask(state: Any, ctx: Context) -> Any:
        paid = ctx.effect("pay", lambda: "paid")
        return {"log": [paid, ctx.interrupt("ok?")]}

    g = builder(state=State)
    g.add_node("grow", lambda state: {"log": [f"l{state.get('n', 0)}"], "x": "X" * 9_000, "n": state.get("n", 0) + 1})
    g.add_node("split", lambda state: {"x": "", "log": ["split"]})
    g.add_node("ask", ask)
    g.add_node("beside", lambda state: {"log": ["beside"]})
    g.add_node("last", lambda state: {"log": ["last"]})
    g.add_edge(START, "grow")
    g.add_conditional_edges("grow", lambda s: "again" if s["n"] < 11 else "done", {"again": "grow", "done": "split"})
    g.add_edge("split", "beside").add_edge("split", "ask").add_join(["beside", "ask"], "last").add_edge("last", END)
    return g.compile()


GRAPH = graph()


def resume(runtime: Any) -> Any:
    asks = runtime.store.head("t").status == "interrupted"
    return runtime.resume("t", *(["yes"] if asks else [])).state


READERS: dict[str, Callable[[Any], Any]] = {
    "state": lambda runtime: runtime.state("t").values,
    "history": lambda runtime: [snapshot.values for snapshot in runtime.history("t")],
    "entries": lambda runtime: list(runtime.entries("t")),
    "replay": lambda runtime: runtime.replay("t").values,
    "resume": resume,
    "verify": lambda runtime: whole(runtime.store.verify()),
}


def whole(found: Verification) -> None:
    """Raise the findings of `verify` for the thread "t"."""
    for one in found.findings:
        if one.thread == "t":
            raise StoreError(one.what, code="store-damaged", thread=one.thread)
    assert found.ok


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the paused thread "t", the thread "u" with other values, and "c", a copy of "t"."""
    path = tmp_path_factory.mktemp("forged") / "runs.db"
    clocked: Any = {"clock": lambda: 1_700_000_000.0, "ids": lambda: "run"}
    with SqliteStore(path) as store, Runtime(GRAPH, store=store, **clocked) as runtime:
        assert runtime.run({"log": []}, thread="t").status == "interrupted"
        assert runtime.run({"log": ["other"]}, thread="u").status == "interrupted"
        runtime.copy_thread("t", "c")
        assert runtime.store is not None
        snapshot = runtime.store.load("t").snapshot
        assert snapshot is not None
        assert 1 < snapshot.seq < runtime.state("t").seq - 4
    return path


@pytest.fixture
def path(pristine: Path, folder: Path) -> Path:
    shutil.copy(pristine, folder / "runs.db")
    return folder / "runs.db"


def findings(path: Path, pristine: Path) -> dict[str, str]:
    """The readers that detect damage: "yes", "no", or "same" where the values read equal the values written."""
    return {name: finding(name, path, pristine) for name in READERS}


def finding(name: str, path: Path, pristine: Path) -> str:
    try:
        found = reading(name, path)
    except GraphrtError as error:
        return "yes" if (error.code in DAMAGE and error.thread == "t") else repr(error)
    return "same" if name != "verify" and found == reading(name, pristine) else "no"


def reading(name: str, path: Path) -> Any:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = shutil.copy(path, folder)
        with SqliteStore(copy) as store, Runtime(GRAPH, store=store, ids=lambda: "run") as runtime:
            return READERS[name](runtime)


MID = f"key = {SPAN} + (SELECT name + 2 FROM part WHERE no = 1 AND kind = 1 ORDER BY name DESC LIMIT 1)"
"""A record after the newest snapshot."""
EARLY = f"key = {SPAN} + 5"
"""A record before it."""
LAST = f"key = (SELECT max(key) FROM record WHERE key < 2 * {SPAN})"
SNAPSHOT = "no = 1 AND kind = 1 AND name = (SELECT max(name) FROM part WHERE no = 1 AND kind = 1)"
"""The newest record of the thread."""
BESIDE = "no = 1 AND kind = 2 AND name LIKE '%beside'"
"""The staged outcome of the finished task."""
ASK = "no = 1 AND kind = 2 AND name LIKE '%ask'"
"""The staged questions of the task that asks."""
EFFECT = "no = 1 AND kind = 2 AND name LIKE '%ask#%'"


def exchange(path: Path, table: str, column: str, one: str, other: str) -> None:
    """Exchange *column* of two rows."""
    with opened(path) as db:
        ((first,),) = db.execute(f"SELECT {column} FROM {table} WHERE {one}").fetchall()
        ((second,),) = db.execute(f"SELECT {column} FROM {table} WHERE {other}").fetchall()
        assert first != second
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {one}", (second,))
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {other}", (first,))


def swap_names(*names: str) -> Change:
    def change(meta: dict[str, Any]) -> None:
        known = meta["names"]
        one, other = (known.index(name) for name in names)
        known[one], known[other] = known[other], known[one]

    return lambda path: change_meta(path, change)


def sql(statement: str, *values: Any) -> Change:
    return lambda path: execute(path, statement, *values)


def swap_ids(one: str, other: str) -> Change:
    """Exchange the ids of two threads of the database."""
    steps = ((one, "x"), (other, one), ("x", other))
    return both(*(sql("UPDATE thread SET id = ? WHERE id = ?", new, old) for old, new in steps))


def bit(table: str, column: str, where: str) -> Change:
    """One bit of the middle byte."""

    def change(path: Path) -> None:
        with opened(path) as db:
            ((old,),) = db.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchall()
            at = len(old) // 2
            new = bytes([*old[:at], old[at] ^ 1, *old[at + 1 :]])
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (new,))

    return change


def value(table: str, where: str, old: bytes, new: bytes) -> Change:
    """Change a value, and fix the checksum where the row has one."""
    return lambda path: replace_in_body(path, table, where, old, new)


def bound(where: str, old: bytes, new: bytes) -> Change:
    return lambda path: replace_bound(path, where, old, new)


def both(*changes: Change) -> Change:
    def change(path: Path) -> None:
        for one in changes:
            one(path)

    return change


def of_another(table: str, columns: str, where: str, other: str) -> Change:
    """The same row of thread "u"."""
    return sql(f"UPDATE {table} SET ({columns}) = (SELECT {columns} FROM {table} AS other WHERE {other}) WHERE {where}")


UNCHAINED: Change = lambda path: change_meta(path, lambda meta: meta.update(chained=None))
CHANGES: dict[str, Change] = {
    "a bit in a record": bit("record", "body", MID),
    "a bit in a seal": bit("record", "seal", MID),
    "a bit in a record before the newest snapshot": bit("record", "body", EARLY),
    "a bit in the newest snapshot": bit("part", "body", SNAPSHOT),
    "a bit in a staged outcome": bit("part", "body", BESIDE),
    "a bit in a name in the meta": lambda path: change_meta(
        path, lambda meta: meta.update(names=["lof", *meta["names"][1:]])
    ),
    "the fingerprint in the meta": lambda path: change_meta(path, lambda meta: meta.update(fingerprint="0" * 64)),
    "the topology in the meta": lambda path: change_meta(path, lambda meta: meta["topology"].update(nodes=[])),
    "a bit in the name of a staged outcome": sql(
        f"UPDATE part SET name = replace(name, 'beside', 'besidf') WHERE {BESIDE}"
    ),
    "a bit in the place of a staged outcome": sql(f"UPDATE part SET name = replace(name, '.', '/') WHERE {BESIDE}"),
    "a bit in the name of an effect's row": sql(f"UPDATE part SET name = replace(name, 'pay', 'paz') WHERE {EFFECT}"),
    "a record's number": sql(f"UPDATE record SET key = key + 1 WHERE {LAST}"),
    "a record's count": sql(f"UPDATE record SET count = count + 1 WHERE {MID}"),
    "a column of another type": sql(f"UPDATE record SET body = 5 WHERE {MID}"),
    "a value in a record": value("record", MID, b'"l', b'"m'),
    "a value in a record before the newest snapshot": value("record", EARLY, b'"l', b'"m'),
    "a value in the newest snapshot": value("part", SNAPSHOT, b'"l0"', b'"m0"'),
    "a staged outcome": value("part", BESIDE, b"beside", b"forged"),
    "a staged outcome, and what binds it made again": bound(BESIDE, b"beside", b"forged"),
    "a staged question, and what binds it made again": bound(ASK, b"ok?", b"no?"),
    "the result of an effect": value("part", EFFECT, b"paid", b"owed"),
    "the result of an effect, and what binds it made again": bound(EFFECT, b"paid", b"owed"),
    "a record is removed": sql(f"DELETE FROM record WHERE {MID}"),
    "a record before the newest snapshot is removed": sql(f"DELETE FROM record WHERE {EARLY}"),
    "the last record is removed": sql(f"DELETE FROM record WHERE {LAST}"),
    "all records are removed": sql(f"DELETE FROM record WHERE key < 2 * {SPAN}"),
    "the newest snapshot is removed": sql(f"DELETE FROM part WHERE {SNAPSHOT}"),
    "a staged outcome is removed": sql(f"DELETE FROM part WHERE {BESIDE}"),
    "an effect's row is removed": sql(f"DELETE FROM part WHERE {EFFECT}"),
    "all that is staged is removed": sql("DELETE FROM part WHERE no = 1 AND kind = 2"),
    "the meta is removed": sql("DELETE FROM part WHERE no = 1 AND kind = 0"),
    "two records are exchanged": lambda path: exchange(path, "record", "body", MID, EARLY),
    "two staged outcomes are exchanged": lambda path: exchange(path, "part", "body", BESIDE, ASK),
    "a record of another thread": of_another("record", "body, seal", MID, f"other.key = record.key + {SPAN}"),
    "a staged outcome of another thread": of_another(
        "part", "body", BESIDE, "other.no = 2 AND other.kind = 2 AND other.name = part.name"
    ),
    "two threads exchange their names": swap_ids("t", "u"),
    "a thread and its copy exchange their names": swap_ids("t", "c"),
    "a thread and its copy exchange their names, and what the meta says of them": both(
        swap_ids("t", "c"),
        lambda path: change_meta(path, lambda meta: meta.update(name="c")),
        lambda path: change_meta(path, lambda meta: meta.update(name="t"), no=3),
    ),
    "two fields are exchanged in the meta": swap_names("log", "x"),
    "two nodes are exchanged in the meta": swap_names("grow", "beside"),
    "two nodes that come late are exchanged in the meta": swap_names("beside", "last"),
    "the chain is switched off in the meta": UNCHAINED,
    "the chain is switched off in the meta, and a value changed": both(UNCHAINED, value("record", MID, b'"l', b'"m')),
    "the tail is cut, and the head set back": both(
        sql(f"DELETE FROM record WHERE key >= {SPAN} + (SELECT seq - 3 FROM thread WHERE no = 1) AND key < 2 * {SPAN}"),
        sql("DELETE FROM part WHERE no = 1 AND kind = 2"),
        sql(
            f"UPDATE thread SET status = 'running', seq = (SELECT max(key) - {SPAN} FROM record WHERE key < 2 * {SPAN})"
            " WHERE no = 1"
        ),
    ),
    "graph and times in the head": sql(
        "UPDATE thread SET graph = 'other', created_at = 1, updated_at = 2 WHERE no = 1"
    ),
    "the epoch in the head": sql("UPDATE thread SET epoch = epoch + 1 WHERE no = 1"),
}


ROWS: dict[str, tuple[dict[str, str], list[str]]] = {
    "all": (
        dict.fromkeys(READERS, "yes"),
        [
            "a bit in a record",
            "a bit in a seal",
            "a bit in a name in the meta",
            "a record's number",
            "a record's count",
            "a column of another type",
            "a value in a record",
            "a record is removed",
            "the last record is removed",
            "all records are removed",
            "the meta is removed",
            "two records are exchanged",
            "a record of another thread",
            "two threads exchange their names",
            "a thread and its copy exchange their names",
            "a thread and its copy exchange their names, and what the meta says of them",
            "two fields are exchanged in the meta",
            "two nodes are exchanged in the meta",
            "two nodes that come late are exchanged in the meta",
            "the chain is switched off in the meta",
            "the chain is switched off in the meta, and a value changed",
        ],
    ),
    "all but `state`, `resume`": (
        dict.fromkeys(READERS, "yes") | {"state": "same", "resume": "same"},
        [
            "a bit in a record before the newest snapshot",
            "a value in a record before the newest snapshot",
            "a record before the newest snapshot is removed",
        ],
    ),
    "all but `entries`": (
        dict.fromkeys(READERS, "yes") | {"entries": "same"},
        [
            "a bit in the newest snapshot",
            "a bit in a staged outcome",
            "a bit in the name of a staged outcome",
            "a bit in the place of a staged outcome",
            "a bit in the name of an effect's row",
            "a value in the newest snapshot",
            "a staged outcome",
            "a staged outcome, and what binds it made again",
            "a staged question, and what binds it made again",
            "the result of an effect",
            "a staged outcome is removed",
            "all that is staged is removed",
            "two staged outcomes are exchanged",
            "a staged outcome of another thread",
        ],
    ),
    "none, without effect": (
        dict.fromkeys(READERS, "same") | {"verify": "no"},
        [
            "the fingerprint in the meta",
            "the topology in the meta",
            "the result of an effect, and what binds it made again",
            "the newest snapshot is removed",
            "an effect's row is removed",
            "the epoch in the head",
        ],
    ),
    "none": (
        dict.fromkeys(READERS, "no"),
        [
            "the tail is cut, and the head set back",
        ],
    ),
    "`verify`": (
        dict.fromkeys(READERS, "same") | {"verify": "yes"},
        [
            "graph and times in the head",
        ],
    ),
}
"""Each row of the documented table: the findings of the readers, and the changes that it summarises."""
FOUND = {change: verdicts for verdicts, changes in ROWS.values() for change in changes}


def test_the_table_has_a_row_for_each_change_that_is_tried():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "journal.md").read_text(encoding="utf-8")
    table = page.partition("## What is and is not detected")[2]

    assert sorted(FOUND) == sorted(CHANGES)
    assert re.findall(r"^\| (.+?) \| ", table, re.MULTILINE) == ["Found by", *ROWS]


def test_unchanged_file_is_valid(path, pristine):
    assert set(findings(path, pristine).values()) == {"same", "no"}


@pytest.mark.parametrize("change", CHANGES)
def test_readers_detect_the_changes_that_the_table_lists(path, pristine, change):
    CHANGES[change](path)
    assert findings(path, pristine) == FOUND[change]


def test_entries_from_the_middle_are_chained_to_the_one_before(path):
    execute(
        path,
        f"UPDATE record SET (body, seal) = (SELECT body, seal FROM record AS other WHERE other.key = record.key + {SPAN})"
        f" WHERE {MID}",
    )
    with Runtime(GRAPH, store=SqliteStore(path)) as runtime:
        assert runtime.store is not None
        snapshot = runtime.store.load("t").snapshot
        assert snapshot is not None
        with pytest.raises(StoreError):
            list(runtime.entries("t", after=snapshot.seq + 1))
        with pytest.raises(StoreError):
            TokenTracker().read(runtime.entries("t"))
        assert list(runtime.entries("t", after=runtime.store.head("t").seq)) == []


def test_first_snapshot_of_a_pruned_thread_is_verified(path):
    """No other record contains its values: the entries that led to it are gone."""
    with SqliteStore(path) as store, Runtime(GRAPH, store=store) as runtime:
        assert runtime.store is not None
        assert runtime.prune("t", before=runtime.state("t").seq - 2) > 0
        assert runtime.prune("u") > 0
        assert runtime.replay("t").values["log"][:2] == ["l0", "l1"]
        assert runtime.store.verify().ok
    whole = shutil.copy(path, path.with_name("whole.db"))
    replace_in_body(path, "part", "no = 1 AND kind = 1", b'"l0"', b'"m0"')

    # `entries` reads this snapshot too: the chain of the remaining entries continues from it.
    assert findings(path, Path(whole)) == FOUND["a value in the newest snapshot"] | {"entries": "yes"}
