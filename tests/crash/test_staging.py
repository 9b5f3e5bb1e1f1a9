"""An outcome is stored the moment its task ends, while other tasks of the superstep still run (rule R9)."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Annotated

import pytest
import typing_extensions as te

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.reducers import append
from graphrt.stores import SqliteStore
from graphrt.stores.wrapper import StoreWrapper

PATIENT_S = 20.0


class State(te.TypedDict, total=False):
    notes: Annotated[list[str], append]


class Telling(StoreWrapper):
    """A store that reports staged outcomes once they are stored."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self.staged: set[str] = set()
        self.told = threading.Condition()

    def commit(self, claim, commit):
        self.store.commit(claim, commit)
        with self.told:
            self.staged.update(key.partition(":")[2] for key, _ in commit.stage)
            self.told.notify_all()

    def waited_for(self, node: str) -> bool:
        with self.told:
            return self.told.wait_for(lambda: node in self.staged, PATIENT_S)


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "t.db") as inner:
        yield Telling(inner)


def fan_out(**nodes):
    g = GraphBuilder(State, name="staging")
    for name, fn in nodes.items():
        g.add_node(name, fn)
        g.add_edge(START, name)
        g.add_edge(name, END)
    return g.compile()


def noted(name, _state):
    return {"notes": [name]}


@pytest.mark.parametrize("quick", ["first", "second", "third"])
def test_sync_outcome_is_stored_while_siblings_run(store, quick):
    found = {}

    def node(name):
        def wait(_state):
            if name != quick:
                found[name] = store.waited_for(quick)
            return {"notes": [name]}

        return wait

    graph = fan_out(**{name: node(name) for name in ("first", "second", "third")})
    result = Runtime(graph, store=store).run({"notes": []}, thread="t")

    assert result.state["notes"] == ["first", "second", "third"]
    assert set(found.values()) == {True}


@pytest.mark.parametrize("quick", ["first", "second", "third"])
def test_async_outcome_is_stored_while_siblings_run(store, quick):
    found = {}

    def node(name):
        async def wait(_state):
            if name != quick:
                found[name] = await asyncio.to_thread(store.waited_for, quick)
            return {"notes": [name]}

        return wait

    graph = fan_out(**{name: node(name) for name in ("first", "second", "third")})
    result = asyncio.run(Runtime(graph, store=store).arun({"notes": []}, thread="t"))

    assert result.state["notes"] == ["first", "second", "third"]
    assert set(found.values()) == {True}


def test_outcomes_that_end_together_share_a_transaction(store):
    """Outcomes that arrive while another one is being stored wait for it, and are then stored together."""
    many = 40
    commits = []
    inner = store.commit
    ran, all_ran = [], threading.Event()

    def node(name, state):
        ran.append(name)
        if len(ran) == many:
            all_ran.set()
        return noted(name, state)

    def slow(claim, commit):
        commits.append(len(commit.stage))
        if commit.stage:
            assert all_ran.wait(PATIENT_S)  # a slow disk
        inner(claim, commit)

    store.commit = slow
    graph = fan_out(**{f"n{at}": partial(node, f"n{at}") for at in range(many)})
    result = Runtime(graph, store=store).run({"notes": []}, thread="t")

    assert len(result.state["notes"]) == many
    assert len(commits) < many // 2
