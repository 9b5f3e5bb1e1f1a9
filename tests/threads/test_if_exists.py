"""The behaviour of a verb with an input on a thread that exists: `if_exists`."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from itertools import count
from typing import Annotated

import pytest
from pydantic import BaseModel, Field
from tests.stores.support import end, line, other_process

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import ConflictError, InputError, NodeError
from graphrt.reducers import append, untracked
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


def test_second_call_runs_nothing_and_returns_the_result_of_the_first(store):
    runtime = runtime_of(store, works)
    first = runtime.run({"topic": "tea"}, thread="order-1", if_exists="return")
    entries = len(tuple(runtime.entries("order-1")))

    again = runtime.run({"topic": "milk"}, thread="order-1", if_exists="return")

    assert again.state == first.state
    assert again.state.log == ["worked on tea"]
    assert (again.status, again.steps, again.thread, again.run_id) == ("completed", 1, "order-1", first.run_id)
    assert again.usage == first.usage
    assert len(tuple(runtime.entries("order-1"))) == entries
    assert not store.head("order-1").owned


def test_input_of_the_second_call_is_ignored(store):
    runtime = runtime_of(store, works)
    runtime.run({"topic": "tea"}, thread="order-1", if_exists="return")

    assert runtime.run({"no such field": 1}, thread="order-1", if_exists="return").state.topic == "tea"
    with pytest.raises(InputError):
        runtime.run({"no such field": 1}, thread="order-2", if_exists="return")
    assert runtime.run({}, thread="order-2", if_exists="return").status == "completed"


def test_thread_takes_another_input_without_if_exists(store):
    runtime = runtime_of(store, works)
    runtime.run({"topic": "tea"}, thread="order-1", if_exists="return")

    assert len(runtime.run({}, thread="order-1").state.log) == 2


def test_second_call_returns_the_question_of_the_first(store):
    runtime = runtime_of(store, works, asks)
    first = runtime.run({}, thread="order-1", if_exists="return")

    again = runtime.run({}, thread="order-1", if_exists="return")

    assert again.status == "interrupted"
    assert [one.id for one in again.interrupts] == [one.id for one in first.interrupts]
    assert again.interrupts[0].payload == "Really?"
    done = runtime.resume("order-1", {again.interrupts[0].id: "yes"})
    assert runtime.run({}, thread="order-1", if_exists="return").state == done.state


def test_failed_run_has_no_result_and_names_the_next_verb(store):
    broken = [True]

    def fails(state):
        if broken:
            raise ValueError("no")
        return {"log": ["done"]}

    runtime = runtime_of(store, fails)
    with pytest.raises(NodeError):
        runtime.run({}, thread="order-1", if_exists="return")

    with pytest.raises(InputError, match="is failed") as caught:
        runtime.run({}, thread="order-1", if_exists="return")

    assert caught.value.code == "wrong-verb"
    assert "retry('order-1')" in caught.value.fix
    broken.clear()
    runtime.retry("order-1")
    assert runtime.run({}, thread="order-1", if_exists="return").state.log == ["done"]


def test_cancelled_run_has_a_result(store):
    runtime = runtime_of(store, lambda state: None, works)

    def halts(state):
        runtime_of_halts.cancel("order-1")
        return {}

    runtime_of_halts = runtime_of(store, halts, works)
    assert runtime_of_halts.run({}, thread="order-1", if_exists="return").status == "cancelled"

    assert runtime.run({}, thread="order-1", if_exists="return").status == "cancelled"


def test_driven_thread_is_a_conflict_and_its_result_comes_later(store):
    inside, go_on = threading.Event(), threading.Event()

    def slow(state):
        inside.set()
        go_on.wait()
        return {"log": ["slow"]}

    runtime = runtime_of(store, slow)
    first = threading.Thread(target=lambda: runtime.run({}, thread="order-1", if_exists="return"))
    first.start()
    inside.wait()
    try:
        with pytest.raises(ConflictError):
            runtime.run({}, thread="order-1", if_exists="return")
    finally:
        go_on.set()
        first.join()

    assert runtime.run({}, thread="order-1", if_exists="return").state.log == ["slow"]


def test_asyncio_twin_behaves_the_same(store):
    runtime = runtime_of(store, works)

    async def main():
        first = await runtime.arun({"topic": "tea"}, thread="order-1", if_exists="return")
        again = await runtime.arun({"topic": "milk"}, thread="order-1", if_exists="return")
        return first.state, again.state

    first, again = asyncio.run(main())
    assert first == again
    assert first.log == ["worked on tea"]


def test_result_is_that_of_a_thread_with_sinks_and_the_sinks_are_not_called(store):
    told = []
    runtime = runtime_of(store, works, sinks=[told.append])
    runtime.run({}, thread="order-1", if_exists="return")
    known = len(told)

    runtime.run({}, thread="order-1", if_exists="return")

    assert len(told) == known


def test_thread_has_to_be_named(store):
    with pytest.raises(InputError) as caught:
        runtime_of(store, works).run({}, if_exists="return")
    assert (caught.value.code, "thread=" in caught.value.what) == ("input", True)

    with pytest.raises(InputError) as caught:
        runtime_of(None, works).run({}, thread="order-1", if_exists="return")
    assert caught.value.code == "thread-without-store"


# -- every policy in every status --------------------------------------------------------------------------------------


class Job:
    """A graph whose runs end as configured, and the runtime that drives it."""

    def __init__(self, store):
        self.ends = ""
        g = GraphBuilder(State, name="jobs")
        g.add_node("first", self.first)
        g.add_node("last", self.last)
        g.add_sequence([START, "first", "last", END])
        self.runtime = Runtime(g.compile(), store=store)

    def first(self, state):
        if self.ends == "cancelled":
            self.runtime.cancel("t")
        return {"log": [f"first {state.topic}"]}

    def last(self, state, ctx: Context):
        if self.ends == "failed":
            raise ValueError("no")
        if self.ends == "interrupted":
            ctx.interrupt("Really?")
        return {"log": [f"last {state.topic}"]}

    def left(self, status):
        """Leave thread t in the status *status*."""
        self.ends = status
        with suppress(NodeError):
            (self.runtime.start if status == "running" else self.runtime.run)({"topic": "tea"}, thread="t")
        assert self.runtime.state("t").status == status
        self.ends = ""
        return self.runtime


FOLDED = ["first tea", "last tea", "first milk", "last milk"]
GIVEN_UP = ["first tea", "first milk", "last milk"]
GOES_ON = ["first tea", "last tea"]


@pytest.mark.parametrize(
    ("status", "if_exists", "topic", "expected"),
    [
        ("completed", "update", "milk", FOLDED),
        ("completed", "continue", "milk", GOES_ON),
        ("completed", "abandon", "milk", FOLDED),
        ("cancelled", "update", "milk", GIVEN_UP),
        ("cancelled", "continue", "tea", GOES_ON),
        ("cancelled", "continue", "milk", "other-input"),
        ("cancelled", "abandon", "milk", GIVEN_UP),
        ("failed", "update", "tea", "wrong-verb"),
        ("failed", "continue", "tea", GOES_ON),
        ("failed", "continue", "milk", "other-input"),
        ("failed", "return", "tea", "wrong-verb"),
        ("failed", "abandon", "milk", GIVEN_UP),
        ("interrupted", "update", "tea", "wrong-verb"),
        ("interrupted", "continue", "milk", ["first tea"]),
        ("interrupted", "return", "milk", ["first tea"]),
        ("interrupted", "abandon", "milk", GIVEN_UP),
        ("running", "update", "tea", "wrong-verb"),
        ("running", "continue", "tea", GOES_ON),
        ("running", "continue", "milk", "other-input"),
        ("running", "return", "milk", "wrong-verb"),
        ("running", "abandon", "milk", ["first milk", "last milk"]),
    ],
)
def test_policy_decides_about_an_input_for_an_existing_thread(status, if_exists, topic, expected):
    runtime = Job("memory:").left(status)
    if isinstance(expected, str):
        with pytest.raises(InputError) as caught:
            runtime.run({"topic": topic}, thread="t", if_exists=if_exists)
        assert caught.value.code == expected
        assert expected != "other-input" or "'topic'" in caught.value.what
        return
    result = runtime.run({"topic": topic}, thread="t", if_exists=if_exists)

    assert result.state.log == expected
    assert runtime.state("t").values.log == expected


@pytest.mark.parametrize("verb", ["steps", "stream", "start", "arun", "asteps", "astream", "astart"])
def test_every_verb_with_an_input_decides_alike(verb):
    """`start` returns an id instead of a result."""
    call, tea = VERBS[verb], {"topic": "tea"}
    runtime = Job("memory:").left("failed")
    with pytest.raises(InputError) as caught:
        call(runtime, {"topic": "milk"}, "continue")
    result = call(runtime, tea, "continue")
    again = call(runtime, {"topic": "milk"}, "return")

    assert caught.value.code == "other-input"
    assert runtime.state("t").values.log == GOES_ON
    if "start" not in verb:
        assert result.state == again.state
        assert again.run_id == result.run_id


def test_present_result_is_an_item_of_the_mode_result():
    runtime = Job("memory:").left("completed")

    def stream(*modes):
        return [*runtime.stream({}, thread="t", if_exists="return", modes=modes)]

    assert [item.status for item in stream("result")] == ["completed"]
    assert [mode for mode, _ in stream("updates", "result")] == ["result"]
    assert stream("updates", "values") == []


@pytest.mark.parametrize("if_exists", ["continue", "return", "abandon", "always"])
def test_policy_without_a_thread_is_refused(if_exists):
    runtime = Job("memory:").left("failed")
    for call in (
        lambda: runtime.run({}, if_exists=if_exists),
        lambda: runtime.start({}, if_exists=if_exists),
        lambda: runtime.stream(thread="t", if_exists=if_exists),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "input"


class Aliased(BaseModel):
    topic: str = Field(default="", alias="subject")
    made: str = Field(default_factory=lambda: next(NAMES))
    secret: Annotated[str, untracked] = ""


NAMES = map(str, count())


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"subject": "tea"}, True),
        ({"topic": "tea"}, True),
        (Aliased(subject="tea"), True),
        ({"topic": "tea", "secret": "x"}, True),
        ({"topic": "tea", "made": "0"}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("pruned", [False, True])
def test_inputs_are_compared_by_their_explicit_fields(given, same, pruned):
    """Defaults do not count, because a factory builds them for each input, and neither do untracked fields."""
    broken = [True]

    def works(state):
        if broken:
            raise ValueError("no")

    g = GraphBuilder(Aliased, name="aliased")
    g.add_node("warm", lambda state: None)
    g.add_node("works", works)
    g.add_sequence([START, "warm", "works", END])
    runtime = Runtime(g.compile(), store="memory:")
    with pytest.raises(NodeError):
        runtime.run({"subject": "tea"}, thread="t")
    if pruned:
        runtime.prune("t")
    broken.clear()
    if same:
        assert runtime.run(given, thread="t", if_exists="continue").status == "completed"
        return
    with pytest.raises(InputError) as caught:
        runtime.run(given, thread="t", if_exists="continue")
    assert caught.value.code == "other-input"


def test_digest_of_an_input_is_erased_with_it(tmp_path):
    """A digest without a salt would confirm a guess of an erased value."""
    runtime = Runtime(Job("memory:").runtime.graph, store=f"sqlite:///{tmp_path}/runs.db")
    with runtime:
        runtime.run({"topic": "pin 1234"}, thread="t")
        (digest,) = next(iter(runtime.entries("t"))).event.digests.values()
        runtime.erase("pin 1234")

        assert next(iter(runtime.entries("t"))).event.digests == {}
        assert digest.encode() not in (tmp_path / "runs.db").read_bytes()


def _drained(stream):
    list(stream)
    return stream.result


def _started(runtime, thread):
    if thread == "t" and runtime.state("t").status == "running":
        runtime.drive("t")


async def _adrained(stream):
    async for _ in stream:
        pass
    return stream.result


VERBS = {
    "steps": lambda runtime, given, if_exists: _drained(runtime.steps(given, thread="t", if_exists=if_exists)),
    "stream": lambda runtime, given, if_exists: _drained(runtime.stream(given, thread="t", if_exists=if_exists)),
    "start": lambda runtime, given, if_exists: _started(runtime, runtime.start(given, thread="t", if_exists=if_exists)),
    "arun": lambda runtime, given, if_exists: asyncio.run(runtime.arun(given, thread="t", if_exists=if_exists)),
    "asteps": lambda runtime, given, if_exists: asyncio.run(
        _adrained(runtime.asteps(given, thread="t", if_exists=if_exists))
    ),
    "astream": lambda runtime, given, if_exists: asyncio.run(
        _adrained(runtime.astream(given, thread="t", if_exists=if_exists))
    ),
    "astart": lambda runtime, given, if_exists: _started(
        runtime, asyncio.run(runtime.astart(given, thread="t", if_exists=if_exists))
    ),
}


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
            print(runtime.run({}, thread="order-1", if_exists="return").state["by"], flush=True)
        except ConflictError as error:
            print(error.code, flush=True)
"""


@pytest.mark.slow
def test_one_of_two_racing_processes_runs_and_the_other_gets_its_result(tmp_path):
    """Like two workers of a server that received the same request."""
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
