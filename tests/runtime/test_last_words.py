"""The error of the caller when a run is interrupted and the store cannot be updated."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.reducers import append
from graphrt.stores import MemoryStore
from graphrt.stores.wrapper import StoreWrapper


class State(TypedDict, total=False):
    notes: Annotated[list[str], append]


class Struck(StoreWrapper):
    """A store whose third commit succeeds, and is interrupted right after it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self._commits = 0

    def commit(self, claim: Any, commit: Any) -> None:
        super().commit(claim, commit)
        self._commits += 1
        if self._commits == 3:
            raise KeyboardInterrupt


def test_interrupt_right_after_a_commit_is_raised_to_the_caller() -> None:
    g = GraphBuilder(State, name="g")
    g.add_node("a", lambda s, ctx: {"notes": [ctx.effect("x", str)]}).add_edge(START, "a")
    g.add_node("b", lambda s: None).add_edge("a", "b").add_edge("b", END)
    store: Any = Struck()
    runtime = Runtime(g.compile(), store=store)

    with pytest.raises(KeyboardInterrupt) as caught:
        runtime.run({}, thread="t")

    assert ["could not be stored" in note for note in caught.value.__notes__] == [True]
    assert runtime.retry("t").state == {"notes": [""]}
