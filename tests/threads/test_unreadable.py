"""Threads that cannot be read with the current graph: the verdict for each, and what their history shows."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pydantic
import pytest
import typing_extensions as te

from graphrt import START, GraphBuilder, Runtime
from graphrt.errors import InputError, StoreError
from graphrt.migrations import Migration
from graphrt.stores import EncryptedStore, SqliteStore

from .forging import execute
from .support import ask, line, note, refused

ONE, TWO = {"one": bytes(range(32))}, {"two": bytes(range(1, 33))}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Fewer(Enum):
    RED = "red"


Fewer.__name__ = Fewer.__qualname__ = "Colour"


def painted(colours: Any) -> Any:
    """Return a graph in which only the class of updates refers to the enum: no fingerprint has it."""
    update: Any = te.TypedDict("Update", {"colour": colours}, total=False)
    graph: Any = GraphBuilder(pydantic.create_model("Painted", colour=(Any, None)), update, name="painted")
    graph.add_node("paint", lambda state: {"colour": list(colours)[-1]})
    graph.add_node("q", lambda state, ctx: ctx.interrupt("?"))
    return graph.add_sequence([START, "paint", "q"]).compile()


def asking(name: str) -> Any:
    return line(("a", note("a")), ("q", ask("q")), name=name)


def test_value_that_is_no_longer_readable_gives_a_verdict(durable):
    durable.runtime(painted(Colour)).run({}, thread="t")
    before = durable.runtime(painted(Colour)).check_threads()
    runtime = durable.runtime(painted(Fewer))
    (found,) = runtime.check_threads()

    assert [(verdict.kind, verdict.ok) for verdict in before] == [("identical", True)]
    assert (found.thread, found.status, found.kind, found.ok) == ("t", "interrupted", "unreadable", False)
    error = refused("damaged-value", lambda: runtime.resume("t", "yes"), "code of the class changed", error=StoreError)
    assert found.reasons[0] == error.what
    assert "backup" not in str(error)
    assert error.thread == "t"


@pytest.mark.needs("cryptography")
def test_thread_under_another_key_hides_no_other_thread(folder):
    path = folder / "runs.db"
    for keys, thread in ((ONE, "t1"), (TWO, "t2")):
        with EncryptedStore(SqliteStore(path), keys) as store:
            Runtime(asking("g"), store=store).run({"notes": []}, thread=thread)
    with EncryptedStore(SqliteStore(path), TWO) as store:
        found = Runtime(asking("g"), store=store).check_threads()

    assert [(verdict.thread, verdict.kind) for verdict in found] == [("t1", "unreadable"), ("t2", "identical")]
    assert "key" in found[0].reasons[0]


def test_damage_gives_a_verdict_and_a_failing_store_raises(lite):
    runtime = lite.runtime(asking("g"))
    for thread in ("t1", "t2"):
        runtime.run({"notes": []}, thread=thread)
    lite.store.close()
    execute(lite.path, "DELETE FROM record WHERE key = (SELECT max(key) FROM record)")
    with SqliteStore(lite.path) as store:
        found = Runtime(asking("g"), store=store).check_threads()
    assert [(verdict.thread, verdict.kind) for verdict in found] == [("t1", "identical"), ("t2", "unreadable")]
    with pytest.raises(StoreError, match="closed"):
        runtime.check_threads()


# -- the past of a thread that was migrated to another graph -----------------------------------------------------------


class Old(pydantic.BaseModel):
    notes: list[str] = []
    price: int = 5


class New(pydantic.BaseModel):
    subject: str
    notes: list[str] = []


def migrated(world: Any) -> Any:
    """A thread whose migration is in its journal, and a runtime of the new graph without it."""
    old = line(
        ("a", lambda s: {"notes": [*s.notes, "a"]}), ("q", lambda s, ctx: {"notes": [ctx.interrupt("?")]}), state=Old
    )
    world.runtime(old).run({}, thread="t")
    new = line(("a", lambda s: {"notes": ["a"]}), ("q", lambda s, ctx: {"notes": [ctx.interrupt("?")]}), state=New)
    went = Migration(source=old.fingerprint, values=lambda v: {"subject": "tea", "notes": v["notes"]})
    world.runtime(new, migrations=[went]).resume("t", "yes")
    return world.runtime(new)


def test_entries_before_a_migration_show_their_original_values(world):
    runtime = migrated(world)
    history = runtime.history("t")
    older = [snapshot for snapshot in history if isinstance(snapshot.values, dict)]

    assert runtime.state("t").values == New(subject="tea", notes=["yes"])
    assert history[0].values == New(subject="tea", notes=["yes"])
    assert older[-1].values == {"notes": [], "price": 5}
    assert older[0].values == {"notes": ["a"], "price": 5}
    assert all(
        isinstance(snapshot.values, New) and snapshot.values.subject == "tea"
        for snapshot in history
        if snapshot not in older
    )
    assert runtime.state("t", at=older[0].seq).values == {"notes": ["a"], "price": 5}
    assert runtime.replay("t").values == New(subject="tea", notes=["yes"])


def test_entry_before_a_migration_cannot_be_forked_with_the_new_graph(world):
    runtime = migrated(world)
    older = [snapshot.seq for snapshot in runtime.history("t") if isinstance(snapshot.values, dict)]
    for seq in older:
        refused("graph-changed", lambda seq=seq: runtime.fork("t", at=seq), f"Entry {seq}", "'price'", error=InputError)
    later = runtime.fork("t", at=runtime.history("t")[0].seq)
    assert runtime.state(later).values == New(subject="tea", notes=["yes"])


def test_history_of_a_thread_that_is_not_yet_migrated_shows_the_migrated_values(world):
    old = line(("a", note("a")), ("q", ask("q")), name="g")
    world.runtime(old).run({"notes": []}, thread="t")
    went = Migration(source=old.fingerprint, values=lambda v: {"subject": "tea", "notes": v["notes"]})
    new = line(("a", lambda s: None), ("q", lambda s, ctx: {"notes": [ctx.interrupt("?")]}), state=New)
    runtime = world.runtime(new, migrations=[went])
    assert runtime.state("t", at=1).values == New(subject="tea", notes=[])
