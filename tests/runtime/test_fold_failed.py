"""Reading a thread whose reducer has changed names the change, and leaves the thread unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel

from graphrt import START, CompiledGraph, GraphBuilder, ReplayDivergedError, Runtime

limits = {"longest": 9}


def short(current: str, incoming: str) -> str:
    if len(incoming) > limits["longest"]:
        raise ValueError("too long")
    return incoming


class State(BaseModel):
    text: Annotated[str, short] = ""


@pytest.fixture
def graph() -> CompiledGraph[State, object]:
    g: GraphBuilder[State, object] = GraphBuilder(State, name="titles")
    g.add_node("work", lambda state: {"text": "a title"})
    g.add_edge(START, "work")
    return g.compile()


@pytest.mark.parametrize("url", ["memory:", pytest.param("sqlite:///runs.db", marks=pytest.mark.full)])
def test_state_names_the_entry_that_a_changed_reducer_refuses(
    graph: CompiledGraph[State, object], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Runtime(graph, store=url) as runtime:
        runtime.run({}, thread="t")
        with monkeypatch.context() as changed:
            changed.setitem(limits, "longest", 3)
            with pytest.raises(ReplayDivergedError) as caught:
                runtime.state("t")

        assert caught.value.code == "fold-failed"
        assert caught.value.thread == "t"
        assert runtime.state("t").values.text == "a title"
