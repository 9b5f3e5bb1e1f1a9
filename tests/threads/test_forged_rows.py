"""Which readings find which change of stored rows, made by who knows their form but not the whole chain.

The table "What is and is not detected" of `docs/reference/journal.md` says the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, Runtime
from graphrt.errors import GraphrtError, StoreError
from graphrt.harness import TokenTracker
from graphrt.reducers import append
from graphrt.stores import SqliteStore

from .forging import SPAN, change_meta, execute, opened, replace_in_body
from .support import builder

DAMAGE = {"store-damaged", "damaged-value", "unknown-type", "journal-misfit", "replay-diverged"}


class State(te.TypedDict, total=False):
    log: Annotated[list[Any], append]
    n: int
    x: str


def graph() -> Any:
    """Eleven rounds with a snapshot among them, then a task that ends beside one that pays and asks."""

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

READERS: dict[str, Callable[[Any], Any]] = {
    "state": lambda runtime: runtime.state("t").values,
    "history": lambda runtime: [snapshot.values for snapshot in runtime.history("t")],
    "entries": lambda runtime: list(runtime.entries("t")),
    "replay": lambda runtime: runtime.replay("t").values,
    "resume": lambda runtime: runtime.resume("t", "yes").state,
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the paused thread "t" and another one, "u", which has other values."""
    path = tmp_path_factory.mktemp("forged") / "runs.db"
    with Runtime(GRAPH, store=SqliteStore(path), clock=lambda: 1_700_000_000.0, ids=lambda: "run") as runtime:
        assert runtime.run({"log": []}, thread="t").status == "interrupted"
        assert runtime.run({"log": ["other"]}, thread="u").status == "interrupted"
        assert runtime.store is not None
        snapshot = runtime.store.load("t").snapshot
        assert snapshot is not None
        assert 1 < snapshot.seq < runtime.state("t").seq - 4
    return path


@pytest.fixture
def path(pristine: Path, folder: Path) -> Path:
    shutil.copy(pristine, folder / "runs.db")
    return folder / "runs.db"


def found_by(path: Path) -> set[str]:
    """The readings that find damage; all others read what was written, or do not read what was changed."""
    found: set[str] = set()
    for name, read in READERS.items():
        copy = path.with_name("copy.db")
        for old in path.parent.glob("copy.db*"):
            old.unlink()
        shutil.copy(path, copy)
        with Runtime(GRAPH, store=SqliteStore(copy)) as runtime:
            error = raised(lambda read=read, runtime=runtime: read(runtime))
        if error is not None:
            assert error.code in DAMAGE, f"{name}: {error!r}"
            assert error.thread == "t"
            found.add(name)
    return found


def raised(call: Callable[[], Any]) -> GraphrtError | None:
    try:
        call()
    except GraphrtError as error:
        return error
    return None


EVERY = set(READERS)
MID = f"key = {SPAN} + (SELECT name + 2 FROM part WHERE no = 1 AND kind = 1 ORDER BY name DESC LIMIT 1)"
"""A record after the newest snapshot."""
EARLY = f"key = {SPAN} + 5"
"""One before it."""
LAST = f"key = (SELECT max(key) FROM record WHERE key < 2 * {SPAN})"


STAGED_OF_T = "no = 1 AND kind = 2"
OPEN = EVERY - {"entries"}
"""All that bring in what is staged of the open superstep."""


def exchange(path: Path, table: str, column: str, one: str, other: str) -> None:
    """Exchange *column* of two rows."""
    with opened(path) as db:
        ((first,),) = db.execute(f"SELECT {column} FROM {table} WHERE {one}").fetchall()
        ((second,),) = db.execute(f"SELECT {column} FROM {table} WHERE {other}").fetchall()
        assert first != second
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {one}", (second,))
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {other}", (first,))


def swap_names(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(meta: dict[str, Any]) -> None:
        known = meta["names"]
        one, other = (known.index(name) for name in names)
        known[one], known[other] = known[other], known[one]

    return change


CHANGES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "nothing": (lambda path: None, set()),
    "a value after the snapshot": (lambda path: replace_in_body(path, "record", MID, b'"l', b'"m'), EVERY),
    "a value before the snapshot": (
        lambda path: replace_in_body(path, "record", EARLY, b'"l', b'"m'),
        {"history", "entries", "replay"},
    ),
    "the last record is removed": (lambda path: execute(path, f"DELETE FROM record WHERE {LAST}"), EVERY),
    "all records are removed": (lambda path: execute(path, f"DELETE FROM record WHERE key < 2 * {SPAN}"), EVERY),
    "a record after the snapshot is removed": (lambda path: execute(path, f"DELETE FROM record WHERE {MID}"), EVERY),
    "a record before the snapshot is removed": (
        lambda path: execute(path, f"DELETE FROM record WHERE {EARLY}"),
        {"history", "entries", "replay"},
    ),
    "two records are exchanged": (
        lambda path: exchange(path, "record", "body", MID, EARLY),
        EVERY,
    ),
    "a record of another thread": (
        lambda path: execute(
            path,
            f"UPDATE record SET (body, seal) = (SELECT body, seal FROM record AS other WHERE other.key = record.key + {SPAN})"
            f" WHERE {MID}",
        ),
        EVERY,
    ),
    "two fields are exchanged in the meta": (
        lambda path: change_meta(path, swap_names("log", "x")),
        EVERY,
    ),
    "the chain is switched off in the meta": (
        lambda path: change_meta(path, lambda meta: meta.update(chained=None)),
        EVERY,
    ),
    "the chain is switched off, and a value changed": (
        lambda path: (
            change_meta(path, lambda meta: meta.update(chained=None)),
            replace_in_body(path, "record", MID, b'"l', b'"m'),
        ),
        EVERY,
    ),
    "a value in a snapshot": (
        lambda path: replace_in_body(
            path, "part", "no = 1 AND kind = 1 AND name = (SELECT max(name) FROM part WHERE no = 1 AND kind = 1)", b'"l0"', b'"m0"'
        ),
        {"replay"},
    ),
    "two nodes are exchanged in the meta": (lambda path: change_meta(path, swap_names("grow", "beside")), EVERY),
    "two nodes that come late are exchanged": (lambda path: change_meta(path, swap_names("beside", "last")), EVERY),
    "a bit in the name of a staged outcome": (
        lambda path: execute(path, f"UPDATE part SET name = replace(name, 'beside', 'besidf') WHERE {STAGED_OF_T}"),
        OPEN,
    ),
    "a bit in the place of a staged outcome": (
        lambda path: execute(path, f"UPDATE part SET name = replace(name, '.', '/') WHERE {STAGED_OF_T} AND name LIKE '%beside'"),
        OPEN,
    ),
    "a staged outcome": (lambda path: replace_in_body(path, "part", STAGED_OF_T, b"beside", b"forged"), OPEN),
    "the result of an effect": (lambda path: replace_in_body(path, "part", STAGED_OF_T, b"paid", b"owed"), OPEN),
    "a staged outcome of another thread": (
        lambda path: execute(
            path,
            "UPDATE part SET body = (SELECT body FROM part AS other WHERE other.no = 2 AND other.kind = 2"
            f" AND other.name = part.name) WHERE {STAGED_OF_T} AND name LIKE '%beside'",
        ),
        OPEN,
    ),
    "two staged outcomes are exchanged": (
        lambda path: exchange(path, "part", "body", f"{STAGED_OF_T} AND name LIKE '%beside'", f"{STAGED_OF_T} AND name LIKE '%ask'"),
        OPEN,
    ),
    "a staged outcome is removed": (lambda path: execute(path, f"DELETE FROM part WHERE {STAGED_OF_T} AND name LIKE '%beside'"), OPEN),
    "all that is staged is removed": (lambda path: execute(path, f"DELETE FROM part WHERE {STAGED_OF_T}"), OPEN),
    "what is staged is said to be bound to nothing": (
        lambda path: change_meta(path, lambda meta: meta.pop("bound")),
        {"history", "entries", "replay"},
    ),
    "two threads exchange their names": (
        lambda path: [
            execute(path, "UPDATE thread SET id = ? WHERE id = ?", new, old) for old, new in (("t", "x"), ("u", "t"), ("x", "u"))
        ],
        EVERY,
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_found_by_whom(path, change):
    forge, wanted = CHANGES[change]
    forge(path)
    assert found_by(path) == wanted


def test_entries_from_the_middle_follow_the_one_before(path):
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
