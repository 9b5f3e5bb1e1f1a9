"""An open superstep after another runtime continues it: nothing is lost, reported twice, or done twice."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Annotated

import pytest
import typing_extensions as te

from graphrt import END, START, Command, GraphBuilder, Runtime
from graphrt.errors import NodeError, StoreError
from graphrt.reducers import append
from graphrt.stores import SqliteStore
from graphrt.stores.wrapper import StoreWrapper

from .watched import described


class State(te.TypedDict, total=False):
    log: Annotated[list[str], append]


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/t.db"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.db"


class Cut(StoreWrapper):
    """A store that fails permanently once *commits* of the kind *after* were written, *only* those without other
    content.
    """

    def __init__(self, path, after, commits=1, *, only=False):
        super().__init__(SqliteStore(path))
        self._after, self._left, self._only = after, commits, only
        self.wrote = threading.Event()
        self.told = threading.Event()

    def commit(self, claim, commit):
        if self._left == 0:
            self.wrote.set()
            raise StoreError("The disk is gone.", code="store-unavailable")
        self.store.commit(claim, commit)
        kind = described(commit)
        self._left -= kind == self._after if self._only else self._after in kind
        self.wrote.set()
        if self._left == 0:
            self.told.set()

    def release(self, claim):
        raise StoreError("The disk is gone.", code="store-unavailable")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.store.close()


def noted(name):
    return lambda _state: {"log": [name]}


def chain(*nodes, name):
    g = GraphBuilder(State, name=name)
    for node, fn in nodes:
        g.add_node(node, fn)
    g.add_sequence([START, *(node for node, _ in nodes), END])
    return g.compile()


def side_by_side(**nodes):
    g = GraphBuilder(State, name="wide")
    for name, fn in nodes.items():
        g.add_node(name, fn).add_edge(START, name).add_edge(name, END)
    return g.compile()


def kinds(runtime):
    """How often each task ended, and how."""
    found = (entry.to_dict() for entry in runtime.entries("t"))
    return Counter((one["event"], one["task"]) for one in found if one["event"] in ("task-succeeded", "task-failed"))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_effects_of_a_nested_graph_before_its_failure_are_journalled_once(store, depth):
    left = [2]

    def fails(_state):
        if left[0]:
            left[0] -= 1
            raise OSError("again")
        return {"log": ["b"]}

    graph = chain(("a", noted("a")), ("b", fails), ("c", noted("c")), name="inner")
    for at in range(depth):
        graph = chain(("x", noted("x")), ("nest", graph), name=f"outer{at}")
    with Runtime(graph, store=store) as runtime:
        with pytest.raises(NodeError):
            runtime.run({"log": []}, thread="t")
        with pytest.raises(NodeError):
            runtime.retry("t")
        runtime.retry("t")

        ended = kinds(runtime)
        assert {count for (kind, _), count in ended.items() if kind == "task-succeeded"} == {1}
        assert {count for (kind, _), count in ended.items() if kind == "task-failed"} == {2}
        assert sum(kind == "task-succeeded" for kind, _ in ended) == 3 + 2 * depth


@pytest.mark.parametrize("depth", [1, 2])
def test_ended_nested_graph_is_journalled_while_its_sibling_waits(store, depth):
    def asks(_state, ctx):
        return {"log": [ctx.interrupt("go on?")]}

    nested = chain(("a", noted("a")), ("b", noted("b")), name="inner")
    for at in range(1, depth):
        nested = chain(("nest", nested), name=f"outer{at}")
    with Runtime(side_by_side(nest=nested, asks=asks), store=store) as runtime:
        whole = [type(entry.event).__name__ for entry in _straight(nested)]
        runtime.run({"log": []}, thread="t")
        result = runtime.resume("t", answer="yes")

        found = [entry for entry in runtime.entries("t") if entry.path]
        assert [type(entry.event).__name__ for entry in found] == whole
        assert result.state["log"] == ["a", "b", "yes"]


def _straight(nested):
    """The entries of the nested graph without interruptions."""
    with Runtime(side_by_side(nest=nested, other=noted("other")), store="memory:") as runtime:
        runtime.run({"log": []}, thread="t")
        return [entry for entry in runtime.entries("t") if entry.path]


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_nested_question_is_journalled_where_it_was_asked_for_any_interruption_of_its_run(path, commits):
    def graph(slow):
        inner = side_by_side(asks=lambda _state, ctx: {"log": [ctx.interrupt("go on?")]}, slow=slow)
        return chain(("nest", inner), name="outer")

    def waits(_state):
        store.wrote.clear()
        if not store.told.is_set():
            store.wrote.wait(20)
        return {"log": ["slow"]}

    def told(runtime):
        found = [entry for entry in runtime.entries("t") if type(entry.event).__name__ != "RunResumed"]
        return [(entry.path, type(entry.event).__name__) for entry in found]

    with Cut(path, "stage", commits) as store, pytest.raises(StoreError):
        Runtime(graph(waits), store=store).run({"log": []}, thread="t")
    with Runtime(graph(noted("slow")), store=f"sqlite:///{path}") as runtime:
        runtime.retry("t")
        runtime.resume("t", answer="yes")
        found = told(runtime)

    with Runtime(graph(noted("slow")), store="memory:") as runtime:
        runtime.run({"log": []}, thread="t")
        runtime.resume("t", answer="yes")
        assert found == told(runtime)


def entry(g):
    g.add_edge(START, "quick").add_edge(START, "slow")


def entry_router(g):
    g.add_conditional_edges(START, lambda _state: ["quick", "slow"], ["quick", "slow"])


def starved_join(g):
    g.add_node("lost", noted("lost")).add_node("first", noted("first")).add_edge(START, "first")
    g.add_conditional_edges("first", lambda _state: [], ["lost"])
    g.add_join(["first", "lost"], "quick", starved="run").add_join(["first", "lost"], "slow", starved="run")


def fatigue(g):
    g.add_node("loop", noted("loop"), max_visits=1, on_fatigue="fork").add_edge(START, "loop")
    g.add_conditional_edges("loop", lambda _state: "loop", ["loop"])
    g.add_node("fork", lambda _state: Command(goto=["quick", "slow"]), goto=["quick", "slow"])


@pytest.mark.parametrize("route", [entry, entry_router, starved_join, fatigue])
def test_staged_outcome_is_not_lost_although_its_superstep_was_chosen_without_a_commit(path, route):
    """START's router, a starved join, or a node's fatigue chose the due tasks: no commit has recorded that yet."""
    ran = Counter()

    def graph(slow):
        def quick(_state):
            ran["quick"] += 1
            return {"log": ["quick"]}

        g = GraphBuilder(State, name="routes")
        g.add_node("quick", quick).add_node("slow", slow)
        route(g)
        return g.compile(allow=("starving-join", "no-way-out"))

    def waits(_state):
        store.told.wait(20)
        return {"log": ["slow"]}

    with Cut(path, "stage", only=True) as store, pytest.raises(StoreError):
        Runtime(graph(waits), store=store).run({"log": []}, thread="t")
    with Runtime(graph(noted("slow")), store=f"sqlite:///{path}") as runtime:
        result = runtime.retry("t")

    assert result.state["log"][-2:] == ["quick", "slow"]
    assert ran["quick"] == 1


@pytest.mark.parametrize("depth", [0, 1])
def test_effect_of_the_first_superstep_is_not_repeated_if_a_router_chose_it(path, depth):
    ran = []

    def charge(_state, ctx):
        ctx.effect("charge", lambda: ran.append(1), kind="once")
        return {"log": ["charged"]}

    g = GraphBuilder(State, name="routed")
    g.add_node("charge", charge)
    g.add_conditional_edges(START, lambda _state: "charge", ["charge"]).add_edge("charge", END)
    graph = g.compile()
    for at in range(depth):
        graph = chain(("nest", graph), name=f"outer{at}")
    with Cut(path, "stage", 1 + depth) as store, pytest.raises((StoreError, NodeError)):
        Runtime(graph, store=store).run({"log": []}, thread="t")
    with Runtime(graph, store=f"sqlite:///{path}") as runtime:
        result = runtime.retry("t")

    assert result.status == "interrupted"
    assert len(ran) == 1


@pytest.mark.parametrize("verb", ["resume", "retry"])
def test_thread_whose_owner_died_continues_without_an_answer_although_a_question_is_open(path, verb):
    def asks(_state, ctx):
        return {"log": [ctx.interrupt("go on?")]}

    def waits(_state):
        store.told.wait(20)

    with Cut(path, "stage", only=True) as store, pytest.raises(StoreError):
        Runtime(side_by_side(asks=asks, slow=waits), store=store).run({"log": []}, thread="t")
    with Runtime(side_by_side(asks=asks, slow=noted("slow")), store=f"sqlite:///{path}") as runtime:
        before = runtime.state("t")
        result = getattr(runtime, verb)("t")

        assert (before.status, len(before.interrupts)) == ("running", 1)
        assert result.status == "interrupted"
        assert runtime.resume("t", answer="yes").state["log"] == ["yes", "slow"]


def test_effects_are_journalled_in_call_order_although_one_was_known_before(path):
    def node(_state, ctx):
        ctx.effect("first", lambda: 1, kind="pure")
        ctx.effect("second", lambda: 2)
        return {"log": ["done"]}

    graph = chain(("node", node), name="effects")
    with Cut(path, "stage") as store, pytest.raises(StoreError):
        Runtime(graph, store=store).run({"log": []}, thread="t")
    with Runtime(graph, store=f"sqlite:///{path}") as runtime:
        runtime.retry("t")

        keys = [entry.event.key for entry in runtime.entries("t") if hasattr(entry.event, "key")]
        assert keys == ["first#0", "second#0"]


def test_permission_to_run_an_effect_again_is_for_one_run(store):
    """The answer "run" was about the outcome that was unknown then, not about the next one."""
    ran = []

    def node(_state, ctx):
        ctx.effect("charge", lambda: ran.append(1) or 1 / 0, kind="once")

    with Runtime(chain(("node", node), name="once"), store=store) as runtime:
        with pytest.raises(NodeError):
            runtime.run({"log": []}, thread="t")
        asked = runtime.retry("t").interrupts
        with pytest.raises(NodeError):
            runtime.resume("t", answer="run")
        result = runtime.retry("t")

        assert len(ran) == 2
        assert result.status == "interrupted"
        assert result.interrupts[0].payload["problem"] == "outcome unknown"
        assert result.interrupts[0].id != asked[0].id


def test_answer_to_a_nested_question_survives_an_edit_of_the_open_superstep(path):
    def asks(_state, ctx):
        return {"log": [ctx.interrupt("go on?")]}

    graph = chain(("nest", chain(("asks", asks), name="inner")), name="outer")
    with Runtime(graph, store=f"sqlite:///{path}") as runtime:
        runtime.run({"log": []}, thread="t")
    with Cut(path, "record") as store, pytest.raises(StoreError):
        Runtime(graph, store=store).resume("t", answer="yes")
    with Runtime(graph, store=f"sqlite:///{path}") as runtime:
        runtime.update("t", {"log": ["edited"]})
        result = runtime.retry("t")

        assert result.status == "completed"
        assert result.state["log"] == ["edited", "yes"]
