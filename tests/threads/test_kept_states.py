"""A runtime caches the states of long threads: a turn costs what it adds. The journal stays authoritative."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, InputError, Runtime
from graphrt._journal.writer import Journal
from graphrt.reducers import append
from graphrt.stores.memory import MemoryStore
from graphrt.stores.values import StoredThread

TURN = "x" * 400


class Chat(BaseModel):
    said: Annotated[list[str], append] = []
    notes: Annotated[list[str], append] = ["first"]


def chat(harm: list[bool] | None = None) -> Any:
    g = GraphBuilder(Chat, name="chat")

    def reply(state: Chat) -> dict[str, Any]:
        if harm:
            harm.clear()
            state.notes[0] = "in place"
        return {"said": [f"{TURN} {len(state.said)}"]}

    g.add_node("reply", reply)
    g.add_edge(START, "reply")
    g.add_edge("reply", END)
    return g.compile()


def turns(runtime: Any, count: int, text: str = "hello", thread: str = "t") -> Any:
    for _ in range(count):
        result = runtime.run({"said": [text]}, thread=thread)
    return result


def test_turn_reads_only_the_entries_since_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = MemoryStore.load

    def load(store: MemoryStore, thread: str, **options: Any) -> StoredThread:
        loaded = real(store, thread, **options)
        read.append(len(loaded.records) + 100 * (loaded.snapshot is not None))
        return loaded

    with Runtime(chat(), store="memory:") as runtime:
        turns(runtime, 100)
        monkeypatch.setattr(MemoryStore, "load", load)
        turns(runtime, 10)
        assert max(read) <= 4
        assert len(runtime.state("t").values.said) == 220
        assert runtime.replay("t").values.said == runtime.state("t").values.said


def test_snapshots_are_measured_at_geometric_sizes_over_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    real = Journal._state

    def state(journal: Journal, after: Any) -> Any:
        measured.append(after.seq)
        return real(journal, after)

    monkeypatch.setattr(Journal, "_state", state)
    with Runtime(chat(), store="memory:") as runtime:
        turns(runtime, 200)
    assert len(measured) <= 12


def test_entries_of_another_runtime_are_seen() -> None:
    store = MemoryStore()
    with Runtime(chat(), store=store) as one, Runtime(chat(), store=store) as other:
        turns(one, 30)
        turns(other, 3, "from elsewhere")
        assert [said for said in turns(one, 1).state.said if said == "from elsewhere"] == ["from elsewhere"] * 3


def test_thread_that_another_runtime_recreated_is_reread() -> None:
    store = MemoryStore()
    with Runtime(chat(), store=store) as one, Runtime(chat(), store=store) as other:
        turns(one, 30, "first life")
        other.delete_thread("t")
        turns(other, 30, "second life")
        assert "first life" not in turns(one, 1).state.said


def test_value_that_another_runtime_erased_is_gone() -> None:
    store = MemoryStore()
    with Runtime(chat(), store=store) as one, Runtime(chat(), store=store) as other:
        turns(one, 1, "Anna")
        turns(one, 30)
        other.erase("Anna")
        with pytest.raises(InputError, match="erased"):
            turns(one, 1)


def test_in_place_change_of_the_state_by_a_node_is_not_cached() -> None:
    harm: list[bool] = []
    with Runtime(chat(harm), store="memory:", check_state=False) as runtime:
        turns(runtime, 30)
        harm.append(True)
        assert turns(runtime, 1).state.notes == ["in place"]  # in-place changes are not checked (R15)
        assert turns(runtime, 1).state.notes == ["first"]
