"""A request that comes twice runs once: `run(..., thread=, only_if_new=True)`."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated

import pytest
from pydantic import BaseModel
from tests.stores.support import end, line, other_process

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import ConflictError, InputError, NodeError
from graphrt.reducers import append
from graphrt.stores import open_store


class State(BaseModel):
    topic: str = ""
    log: Annotated[list[str], append] = []


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def store(request, tmp_path):
    with open_store("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db") as opened:
        yield opened


def runtime_of(store, *nodes, **options):
    g = GraphBuilder(State, name="orders")
    for number, node in enumerate(nodes):
        g.add_node(f"n{number}", node)
    g.add_sequence([START, *(f"n{number}" for number in range(len(nodes))), END])
    return Runtime(g.compile(), store=store, **options)


def works(state):
    return {"log": [f"worked on {state.topic}"]}


def asks(state, ctx: Context):
    return {"log": [ctx.interrupt("Really?")]}


def test_second_call_runs_nothing_and_has_the_result_of_the_first(store):
    runtime = runtime_of(store, works)
    first = runtime.run({"topic": "tea"}, thread="order-1", only_if_new=True)
    entries = len(tuple(runtime.entries("order-1")))

    again = runtime.run({"topic": "milk"}, thread="order-1", only_if_new=True)

    assert again.state == first.state
    assert again.state.log == ["worked on tea"]
    assert (again.status, again.steps, again.thread, again.run_id) == ("completed", 1, "order-1", first.run_id)
    assert again.usage == first.usage
    assert len(tuple(runtime.entries("order-1"))) == entries
    assert not store.head("order-1").owned


def test_input_of_the_second_call_is_not_looked_at(store):
    runtime = runtime_of(store, works)
    runtime.run({"topic": "tea"}, thread="order-1", only_if_new=True)

    assert runtime.run({"no such field": 1}, thread="order-1", only_if_new=True).state.topic == "tea"
    with pytest.raises(InputError):
        runtime.run({"no such field": 1}, thread="order-2", only_if_new=True)
    assert runtime.run({}, thread="order-2", only_if_new=True).status == "completed"


def test_without_it_the_thread_takes_another_input(store):
    runtime = runtime_of(store, works)
    runtime.run({"topic": "tea"}, thread="order-1", only_if_new=True)

    assert len(runtime.run({}, thread="order-1").state.log) == 2


def test_question_of_the_first_call_is_the_result_of_the_second(store):
    runtime = runtime_of(store, works, asks)
    first = runtime.run({}, thread="order-1", only_if_new=True)

    again = runtime.run({}, thread="order-1", only_if_new=True)

    assert again.status == "interrupted"
    assert [one.id for one in again.interrupts] == [one.id for one in first.interrupts]
    assert again.interrupts[0].payload == "Really?"
    done = runtime.resume("order-1", {again.interrupts[0].id: "yes"})
    assert runtime.run({}, thread="order-1", only_if_new=True).state == done.state


def test_run_that_failed_has_no_result_and_names_the_way_on(store):
    broken = [True]

    def fails(state):
        if broken:
            raise ValueError("no")
        return {"log": ["done"]}

    runtime = runtime_of(store, fails)
    with pytest.raises(NodeError):
        runtime.run({}, thread="order-1", only_if_new=True)

    with pytest.raises(InputError, match="is failed") as caught:
        runtime.run({}, thread="order-1", only_if_new=True)

    assert caught.value.code == "wrong-verb"
    assert "retry('order-1')" in caught.value.fix
    broken.clear()
    runtime.retry("order-1")
    assert runtime.run({}, thread="order-1", only_if_new=True).state.log == ["done"]


def test_run_that_was_cancelled_has_a_result(store):
    runtime = runtime_of(store, lambda state: None, works)

    def halts(state):
        runtime_of_halts.cancel("order-1")
        return {}

    runtime_of_halts = runtime_of(store, halts, works)
    assert runtime_of_halts.run({}, thread="order-1", only_if_new=True).status == "cancelled"

    assert runtime.run({}, thread="order-1", only_if_new=True).status == "cancelled"


def test_thread_that_is_driven_is_a_conflict_and_its_result_comes_later(store):
    inside, go_on = threading.Event(), threading.Event()

    def slow(state):
        inside.set()
        go_on.wait()
        return {"log": ["slow"]}

    runtime = runtime_of(store, slow)
    first = threading.Thread(target=lambda: runtime.run({}, thread="order-1", only_if_new=True))
    first.start()
    inside.wait()
    try:
        with pytest.raises(ConflictError):
            runtime.run({}, thread="order-1", only_if_new=True)
    finally:
        go_on.set()
        first.join()

    assert runtime.run({}, thread="order-1", only_if_new=True).state.log == ["slow"]


def test_asyncio_twin_does_the_same(store):
    runtime = runtime_of(store, works)

    async def main():
        first = await runtime.arun({"topic": "tea"}, thread="order-1", only_if_new=True)
        again = await runtime.arun({"topic": "milk"}, thread="order-1", only_if_new=True)
        return first.state, again.state

    first, again = asyncio.run(main())
    assert first == again
    assert first.log == ["worked on tea"]


def test_result_is_that_of_a_thread_with_sinks_and_the_sinks_are_told_nothing(store):
    told = []
    runtime = runtime_of(store, works, sinks=[told.append])
    runtime.run({}, thread="order-1", only_if_new=True)
    known = len(told)

    runtime.run({}, thread="order-1", only_if_new=True)

    assert len(told) == known


def test_thread_has_to_be_named(store):
    with pytest.raises(InputError) as caught:
        runtime_of(store, works).run({}, only_if_new=True)
    assert caught.value.code == "only-if-new-without-thread"

    with pytest.raises(InputError) as caught:
        runtime_of(None, works).run({}, thread="order-1", only_if_new=True)
    assert caught.value.code == "thread-without-store"


RACER = """
    import sys
    from typing import TypedDict
    from graphrt import START, GraphBuilder, Runtime

    class State(TypedDict, total=False):
        by: str

    def node(state):
        print("running", flush=True)
        sys.stdin.readline()
        return {"by": sys.argv[2]}

    g = GraphBuilder(State, name="orders")
    g.add_node("n", node).add_edge(START, "n")
    runtime = Runtime(g.compile(), store=f"sqlite:///{sys.argv[1]}")
    while sys.stdin.readline():
        try:
            print(runtime.run({}, thread="order-1", only_if_new=True).state["by"], flush=True)
        except ConflictError as error:
            print(error.code, flush=True)
"""


@pytest.mark.slow
def test_of_two_processes_that_race_one_runs_and_the_other_gets_its_result(tmp_path):
    """As two workers of a server do that were sent the same request."""
    racers = {name: other_process(RACER, tmp_path / "runs.db", name) for name in ("a", "b")}

    def tell(name):
        racers[name].stdin.write("\n")
        racers[name].stdin.flush()

    try:
        for name in racers:
            tell(name)
        said = {name: line(racers[name]) for name in racers}
        assert sorted(said.values()) == ["conflict", "running"]
        winner = next(name for name, word in said.items() if word == "running")
        loser = next(name for name in racers if name != winner)

        tell(loser)
        assert line(racers[loser]) == "conflict"
        tell(winner)
        assert line(racers[winner]) == winner
        for name, racer in racers.items():
            tell(name)
            assert line(racer) == winner
    finally:
        for process in racers.values():
            end(process)
