"""Changing the objects that leave a run has no effect on the run, on other consumers, or on the journal (R15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pydantic
import pytest
import typing_extensions as te

from graphrt import DELETE, END, START, Context, Runtime
from graphrt.reducers import append

from .support import builder

STORES = ["nothing", "memory", "sqlite"]


class Item(pydantic.BaseModel):
    tags: list[str] = []


class State(te.TypedDict, total=False):
    log: Annotated[list[Any], append]
    page: dict[str, Any]
    item: Item
    gone: list[Any]


def spoil(value: Any) -> None:
    """Change the length and the items of every reachable container."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            spoil(inner)
        value["spoilt"] = "spoilt"
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        if value:
            value[0] = "spoilt"
        value.append("spoilt")
    elif isinstance(value, tuple):
        for inner in value:
            spoil(inner)
    elif isinstance(value, pydantic.BaseModel):
        spoil(value.__dict__)


def graph() -> Any:
    def first(state: Any) -> dict[str, Any]:
        return {"log": ["a", {"deep": [1]}], "page": {"lines": ["one"]}, "item": Item(tags=["x"]), "gone": [1]}

    def second(state: Any, ctx: Context) -> dict[str, Any]:
        return {"log": ["b"], "gone": DELETE, "page": {**state["page"], "more": ["two"]}}

    g = builder(state=State)
    g.add_node("first", first)
    g.add_node("second", second)
    g.add_node("left", lambda state: {"log": [{"left": [1]}]})
    g.add_node("right", lambda state: {"log": [{"right": [1]}], "item": state["item"]})
    g.add_edge(START, "first").add_edge("first", "second").add_edge("second", "left").add_edge("second", "right")
    g.add_edge("left", END)
    return g.compile()


GIVEN = {"log": [{"given": [0]}]}
WANTED = {
    "log": [{"given": [0]}, "a", {"deep": [1]}, "b", {"left": [1]}, {"right": [1]}],
    "page": {"lines": ["one"], "more": ["two"]},
    "item": Item(tags=["x"]),
}


def spoil_step(step: Any) -> None:
    for value in (step.update, step.before, step.after, step.diff.updated, step.diff.added, step.diff.removed):
        spoil(value)
    spoil(step.diff.to_dict())
    spoil(step.to_dict())


def spoil_event(entry: Any) -> None:
    for name in entry.event.__dataclass_fields__:
        spoil(getattr(entry.event, name))


WATCHED: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "steps": lambda runtime, where: [spoil_step(step) for step in runtime.steps(GIVEN, **where)],
    "held steps": lambda runtime, where: [spoil_step(step) for step in list(runtime.steps(GIVEN, **where))],
    **{
        mode: lambda runtime, where, mode=mode: [spoil(item) for item in runtime.stream(GIVEN, modes=mode, **where)]
        for mode in ("updates", "values")
    },
    "events": lambda runtime, where: [spoil_event(item) for item in runtime.stream(GIVEN, modes="events", **where)],
    "all": lambda runtime, where: [
        spoil(item) for _, item in runtime.stream(GIVEN, modes=("updates", "values"), **where)
    ],
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("how", WATCHED)
def test_consumer_that_changes_its_items_changes_no_run(how, kind, lite):
    store: Any = {"nothing": None, "memory": "memory:", "sqlite": lite.store}[kind]
    runtime: Any = Runtime(graph(), store=store)
    ends: list[Any] = []
    where = {} if store is None else {"thread": "t"}
    WATCHED[how](runtime, where)
    if store is None:
        ends.append(list(runtime.stream(GIVEN, modes="values"))[-1])
    else:
        ends += [runtime.state("t").values, runtime.replay("t").values]
    assert ends == [WANTED] * len(ends)


@pytest.mark.parametrize("kind", STORES)
def test_retained_steps_agree_after_one_of_them_was_changed(kind, lite):
    store: Any = {"nothing": None, "memory": "memory:", "sqlite": lite.store}[kind]
    runtime: Any = Runtime(graph(), store=store)
    steps = list(runtime.steps(GIVEN, **({} if store is None else {"thread": "t"})))
    wanted = [step.to_dict() for step in steps]
    for step in steps:
        spoil_step(step)
    assert [step.to_dict() for step in steps] == wanted


@pytest.mark.parametrize("kind", STORES)
def test_sink_that_changes_its_entries_changes_no_run(kind, lite):
    store: Any = {"nothing": None, "memory": "memory:", "sqlite": lite.store}[kind]
    seen: list[Any] = []
    runtime: Any = Runtime(graph(), store=store, sinks=[spoil_event, seen.append])
    result = runtime.run(GIVEN, **({} if store is None else {"thread": "t"}))
    assert result.state == WANTED
    assert seen
    if store is not None:
        assert runtime.replay("t").values == WANTED


LOOKS: dict[str, Callable[[Any], Any]] = {
    "entries": lambda runtime: [spoil_event(entry) for entry in runtime.entries("t")],
    "state": lambda runtime: spoil(runtime.state("t").values),
    "state at": lambda runtime: spoil(runtime.state("t", at=3).values),
    "history": lambda runtime: [spoil(snapshot.values) for snapshot in runtime.history("t")],
    "replay": lambda runtime: spoil(runtime.replay("t").values),
    "interrupts": lambda runtime: [spoil((q.payload, q.answer_type)) for q in runtime.state("t").interrupts],
}


@pytest.mark.parametrize("look", LOOKS)
def test_reader_that_changes_a_snapshot_changes_no_journal(look):
    def ask(state: Any, ctx: Context) -> dict[str, Any]:
        return {"log": [ctx.interrupt({"q": ["why?"]}, answer_type=dict[str, list[str]])]}

    g = builder(state=State)
    g.add_node("a", lambda state: {"log": ["a", {"deep": [1]}], "page": {"lines": ["one"]}})
    g.add_node("ask", ask)
    g.add_edge(START, "a").add_edge("a", "ask").add_edge("ask", END)
    runtime: Any = Runtime(g.compile(), store="memory:")
    runtime.run(GIVEN, thread="t")
    before = runtime.state("t").values
    entries = [entry.to_dict() for entry in runtime.entries("t")]
    for _ in range(2):
        LOOKS[look](runtime)
    assert runtime.state("t").values == runtime.replay("t").values == before
    assert [entry.to_dict() for entry in runtime.entries("t")] == entries
    assert runtime.state("t").interrupts[0].payload == {"q": ["why?"]}
    end = runtime.resume("t", {runtime.state("t").interrupts[0].id: {"because": ["so"]}}).state
    assert end["log"] == [*before["log"], {"because": ["so"]}]
