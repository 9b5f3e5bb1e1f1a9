"""Code of users, in every form. Both checkers accept every line."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, TypedDict, TypeVar, assert_type

from pydantic import BaseModel

from graphrt import (
    DELETE,
    END,
    START,
    Command,
    CompiledGraph,
    Context,
    GraphBuilder,
    Interrupt,
    Overwrite,
    RunResult,
    Runtime,
    Send,
    Snapshot,
    Step,
)
from graphrt.commands import EndType
from graphrt.events import Entry
from graphrt.limits import RetryPolicy
from graphrt.reducers import add, append, ephemeral, reduced, untracked
from graphrt.runtime import AsyncStream, Live, MessageItem, Stream


class State(BaseModel):
    question: str
    notes: Annotated[list[str], append] = []
    calls: Annotated[int, add] = 0
    answer: str | None = None
    tags: list[str] = reduced(append, default_factory=list)
    total: float = reduced(add, untracked, default=0.0)
    hints: Annotated[list[str], append, ephemeral] = []


class Update(TypedDict, total=False):
    notes: list[str]
    calls: int
    answer: str


class Tone(Enum):
    KIND = "kind"
    SHARP = "sharp"


g = GraphBuilder(State, Update, name="research")
assert_type(g, GraphBuilder[State, Update])


# - Nodes: sync and async, with and without a context, with every return type


@g.node
async def search(state: State, ctx: Context) -> Update:
    return {"notes": [f"{state.question} {ctx.arg}"], "calls": 1}


@g.node
def answer(state: State) -> Update:
    return {"answer": " ".join(state.notes)}


@g.node
def decide(state: State) -> Command[Update]:
    return Command(update={"calls": 1}, goto=END if state.calls else "search")


@g.node
def wave(state: State) -> Command:
    return Command(goto=["search", Send("answer", 1), END] if state.calls else search)


@g.node
def either(state: State) -> Update | Command[Update]:
    # A bare Command(update={...}) is beyond pyright here: it infers no dictionary through a union of two classes.
    return Command[Update](update={"calls": 1}, goto=END) if state.calls else {"calls": 1}


@g.node
def ask(state: State, ctx: Context[dict[str, str]]) -> Update | Interrupt | None:
    assert_type(ctx.deps, dict[str, str])
    return None if state.notes else Interrupt({"question": ctx.deps["prompt"]})


@g.node
def rest(state: State) -> None: ...


@g.node
def clear(state: State) -> Update:
    return {"answer": DELETE, "notes": Overwrite([])}


@g.node(name="twice", retry=3, timeout_s=1.5, on_error=answer, on_fatigue=END, max_visits=None, cache=True)
async def again(state: State, ctx: Context[int]) -> Update | None:
    return {"calls": ctx.deps + state.calls}


@g.node(key=lambda state: state.question, cache=64, writes=("calls",), goto=[answer, END], version="2")
def careful(state: State) -> Command[Update]:
    return Command(update={"calls": 1}, goto=answer)


@g.node(retry=RetryPolicy(5), goto="answer", interrupt_before=True, interrupt_after=False)
def positional(state: State, ctx: Context, /) -> Update:
    return {"calls": 1}


@g.node
def with_default(state: State, most: int = 3) -> Update:
    return {"calls": most}


# ----------- @g.node returns the unchanged function


async def unit_test(ctx: Context, deps: Context[dict[str, str]], number: Context[int]) -> None:
    state = State(question="why?")
    assert_type(answer(state), Update)
    assert_type(await search(state, ctx), Update)
    assert_type(decide(state), Command[Update])
    assert_type(wave(state), Command[Any])
    assert_type(either(state), Update | Command[Update])
    assert_type(ask(state, deps), Update | Interrupt | None)
    assert_type(await again(state, number), Update | None)
    assert_type(positional(state, ctx), Update)
    assert_type(with_default(state, most=4), Update)


# --- Other callables


R = TypeVar("R")


class Searcher:
    def look(self, state: State, ctx: Context) -> Update:
        return {"notes": [ctx.node]}

    async def __call__(self, state: State) -> Update:
        return {"notes": [state.question]}


def traced(fn: Callable[[State], R]) -> Callable[[State], R]:
    return fn


def counting(most: int) -> Callable[[State, Context], Coroutine[Any, Any, Update]]:
    async def count(state: State, ctx: Context) -> Update:
        return {"calls": most}

    return count


@g.node
@traced
def decorated(state: State) -> Update:
    return {"calls": 1}


look = g.node(Searcher().look)
seek = g.node(name="seek")(Searcher())
count = g.node(name="count")(counting(3))
some = g.node(name="some")(partial(with_default, most=2))
assert_type(decorated(State(question="")), Update)
assert_type(look(State(question=""), Context.__new__(Context)), Update)

g.add_node("lambda", lambda state: {"answer": state.question})
g.add_node("lambda with context", lambda state, ctx: {"answer": f"{ctx.node} {state.question}"}, retry=2)
g.add_node("async lambda", lambda state: Searcher()(state.model_copy()), timeout_s=3)
g.add_node("partial", partial(with_default, most=1), on_error="answer")
g.add_node("method", Searcher().look).add_node("object", Searcher()).add_node("factory", counting(1))
g.add_node("command", lambda state: Command(update={"calls": state.calls}, goto=END))
g.add_node("interrupt", lambda state: Interrupt(state.question))
g.add_node("nothing", lambda state: None)


# --- Edges and routers


def enough(state: State) -> Literal["more", "done"]:
    return "done" if state.calls >= 2 else "more"


def tones(state: State) -> list[Literal["kind", "sharp"]]:
    return ["kind", "sharp"] if state.calls else ["kind"]


def tone(state: State) -> Tone:
    return Tone.KIND if state.calls else Tone.SHARP


def ready(state: State) -> bool:
    return state.calls > 1


def spread(state: State) -> list[Send]:
    return [Send(search, note) for note in state.notes]


def both(state: State) -> Sequence[str | Send]:
    return ["answer", Send("search", 1)]


g.add_edge(START, search).add_edge(answer, END).add_edge("ask", decide).add_edge([search, "ask"], answer)
g.add_sequence([START, search, END]).add_sequence([START, "ask"]).add_sequence((search, answer, END))
g.add_sequence([search, "ask", answer]).set_entry(search).set_finish("ask")
g.add_join([search, "ask"], answer, when="any", starved="ignore").add_join(("a", "b"), END, when=2)
g.add_conditional_edges(search, enough, {"more": search, "done": answer})
g.add_conditional_edges("decide", spread, ["search"]).add_conditional_edges(START, both, [search, "answer", END])
g.add_conditional_edges(clear, lambda state: state.calls > 1, {True: END, False: "ask"}, default=END)
g.add_conditional_edges(clear, lambda state: [Send("search", note) for note in state.notes], [search])
g.set_conditional_entry(tone, {Tone.KIND: search, Tone.SHARP: END}, default="ask")
g.branch(search, enough).to({"more": "search", "done": END}).branch("a", tones).to({"kind": search, "sharp": END})
g.branch(START, tone).to({Tone.KIND: search, Tone.SHARP: END}, default=answer)
g.branch("a", ready).to({True: search, False: END})
g.branch("a", lambda state: state.question).to({"why?": search}, default=END)


# ---- Compiled graphs and their results

graph = g.compile(allow=["unreachable-node"])
assert_type(graph, CompiledGraph[State, Update])
assert_type(graph.run({"question": "why?"}), RunResult[State])
assert_type(graph.run(State(question="why?"), deps=3, seed=1, limits=None).state, State)
assert_type(graph.run({}).state.notes, list[str])
assert_type(graph.run({}).state.tags, list[str])
assert_type(graph.run({}).state.total, float)
assert_type(graph.run({}).status, Literal["completed", "interrupted", "cancelled"])
assert_type(graph.run({}).steps, int)
assert_type(graph.run({}).visited, dict[str, int])
assert_type(graph.route(START, {"question": "why?"}), tuple[str | Send | EndType, ...])
assert_type(graph.route(search, State(question="why?")), tuple[str | Send | EndType, ...])
assert_type(graph.with_nodes({"search": lambda state: {"notes": [state.question]}}), CompiledGraph[State, Update])
assert_type(graph.with_nodes({answer: answer, "ask": counting(2), "a": graph}), CompiledGraph[State, Update])
assert_type(graph.state_type, type[State])
assert_type(graph.steps({}), Stream[Step[State], State])
assert_type(graph.asteps({}), AsyncStream[Step[State], State])
assert_type(graph.stream({}, modes="values"), Stream[State, State])
assert_type(graph.astream({}, modes="values", seed=1), AsyncStream[State, State])
assert_type(graph.stream({}), Stream[dict[str, Any], State])
assert_type(graph.stream({}, modes=["updates", "values"]), Stream[tuple[str, Any], State])

runtime = Runtime(graph, store="memory:", deps={"prompt": "?"}, seed=3)
assert_type(runtime, Runtime[State])
assert_type(runtime.run({"question": "why?"}, thread="t"), RunResult[State])
assert_type(runtime.resume("t", "yes"), RunResult[State])
assert_type(runtime.retry("t").state.answer, str | None)
assert_type(runtime.state("t"), Snapshot[State])
assert_type(runtime.state("t").values, State)
assert_type(runtime.stream({}, modes="values"), Stream[State, State])
assert_type(runtime.astream({}, modes="values"), AsyncStream[State, State])
assert_type(runtime.stream({}, modes="events"), Stream[Entry, State])
assert_type(runtime.stream({}, modes="messages"), Stream[MessageItem, State])
assert_type(runtime.stream({}, modes="custom"), Stream[Any, State])
assert_type(runtime.stream({}, modes="live"), Stream[Live, State])
assert_type(runtime.stream({}, modes="result"), Stream[RunResult[State], State])
assert_type(runtime.astream({}, modes="live"), AsyncStream[Live, State])
assert_type(runtime.astream({}, modes=("live", "result")), AsyncStream[tuple[str, Any], State])
assert_type(runtime.stream({}, modes="live").result, RunResult[State] | None)
assert_type(runtime.stream(thread="t", modes="values"), Stream[State, State])
assert_type(runtime.stream(thread="t", answers={"id": 1}, modes="values"), Stream[State, State])
assert_type(runtime.stream(thread="t", answer=None), Stream[dict[str, Any], State])
assert_type(
    runtime.astream(thread="t", answers={"id": 1}, modes=["updates", "values"]), AsyncStream[tuple[str, Any], State]
)
assert_type(runtime.steps(thread="t", answer=True), Stream[Step[State], State])
assert_type(runtime.asteps(thread="t"), AsyncStream[Step[State], State])
for step in runtime.steps(State(question="why?")):
    assert_type(step.before, State)
    assert_type(step.after.calls, int)
    assert_type(step.outcome, Literal["success", "error", "interrupted"])


async def arun() -> State:
    async with runtime:
        async for step in graph.asteps({}):
            assert_type(step.before, State)
        assert_type(await runtime.arun({}), RunResult[State])
        assert_type(await runtime.astream({}, modes="live"), AsyncStream[Live, State])
        async with aclosing(runtime.astream({}, modes="values")) as closed, runtime.asteps({}) as opened:
            assert_type(await anext(closed), State)
            assert_type(await anext(opened), Step[State])
            assert_type(opened.result, RunResult[State] | None)
        assert_type(await runtime.astate("t"), Snapshot[State])
        return (await graph.arun({"question": "why?"})).state


# --- Nested graphs

outer = GraphBuilder(State)
outer.add_node("inner", graph).add_node("renamed", graph, input={"question": "answer"}, output={"answer": "notes"})
outer.add_node(
    "mapped", graph, input=lambda state: {"question": state.answer}, output=lambda inner: {"calls": inner.calls}
)
outer.add_node("made", graph, input=lambda state, arg: {"question": arg or state.answer}, stateful="answer")
outer.add_node("last", lambda state: {"calls": 1}, defer=True)
