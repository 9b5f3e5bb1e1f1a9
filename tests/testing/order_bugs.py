"""Graphs with one ordering bug each, and the expected kind of finding."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.reducers import append


def extend(current: list[str], incoming: list[str]) -> list[str]:
    current.extend(incoming)
    return [*current]


class State(BaseModel):
    notes: Annotated[list[str], append] = []
    extended: Annotated[list[str], extend] = []


Node = Callable[[State], Any]


def graph(*nodes: Node) -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="planted")
    for number, node in enumerate(nodes):
        g.add_node(f"n{number}", node)
        g.add_edge(START, f"n{number}")
        g.add_edge(f"n{number}", END)
    return g.compile()


def note(text: str) -> Node:
    return lambda _state: {"notes": [text]}


def counted() -> CompiledGraph[State, Any]:
    seen: list[int] = []

    def node(_state: State) -> Any:
        seen.append(1)
        return {"notes": [str(len(seen))]}

    return graph(node, node, node)


def first_wins() -> CompiledGraph[State, Any]:
    lock: list[int] = []

    def node(name: str) -> Node:
        def take(_state: State) -> Any:
            lock.append(1)
            return {"notes": [name]} if len(lock) == 1 else {}

        return take

    return graph(node("a"), node("b"))


def needs_other() -> CompiledGraph[State, Any]:
    ready: dict[str, str] = {}

    def give(_state: State) -> Any:
        ready["key"] = "here"
        return {}

    return graph(give, lambda _state: {"notes": [ready["key"]]})


def changes_state() -> CompiledGraph[State, Any]:
    def node(state: State) -> Any:
        state.notes.append("x")
        return {}

    return graph(note("a"), node)


def takes_turns() -> CompiledGraph[State, Any]:
    last: list[str] = []

    def node(name: str) -> Node:
        def write(_state: State) -> Any:
            last[:] = [*last[-1:], name]
            return {"notes": ["after " + last[0]]}

        return write

    return graph(node("a"), node("b"))


def mutates_current() -> CompiledGraph[State, Any]:
    return graph(lambda _state: {"extended": ["a"]}, note("b"))


def routes_by_order() -> CompiledGraph[State, Any]:
    ended: list[str] = []
    g = GraphBuilder(State, name="planted")
    for name in ("a", "b"):
        g.add_node(name, lambda _state, name=name: ended.append(name) or {})
        g.add_edge(START, name)
    g.add_node("c", note("c"))
    g.add_conditional_edges("a", lambda _state: ended[0], {"a": END, "b": "c"})
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


NUMBERS = itertools.count()


def deposit(account: dict[str, int]) -> Node:
    """Reads, awaits, and writes the stale value."""

    async def node(_state: State) -> Any:
        read = account["euros"]
        await asyncio.sleep(1)
        account["euros"] = read + 10
        return {"notes": [str(account["euros"])]}

    return node


def loses_a_write() -> CompiledGraph[State, Any]:
    account = {"euros": 0}
    return graph(deposit(account), deposit(account))


def sends_twice() -> CompiledGraph[State, Any]:
    """Each task checks whether the mail was sent, and it is sent while the other task checks."""
    sent: list[str] = []

    async def node(_state: State) -> Any:
        if sent:
            return {}
        await asyncio.sleep(0)
        sent.append("mail")
        return {"notes": [f"sent {len(sent)}"]}

    return graph(node, node)


def spends_too_much() -> CompiledGraph[State, Any]:
    """Check, then act, on a budget of one call."""
    spent: list[int] = []

    async def node(_state: State) -> Any:
        if len(spent) >= 1:
            return {"notes": ["no budget"]}
        await asyncio.to_thread(spent.append, 1)
        return {"notes": ["called"]}

    return graph(node, node)


def locks_itself() -> CompiledGraph[State, Any]:
    """Two locks, taken in opposite orders."""
    locks = (asyncio.Lock(), asyncio.Lock())

    def node(first: int) -> Node:
        async def take(_state: State) -> Any:
            async with locks[first]:
                await asyncio.sleep(0)
                async with locks[1 - first]:
                    return {"notes": [f"has both, {first} first"]}

        return take

    return graph(node(0), node(1))


def shares_an_argument() -> CompiledGraph[State, Any]:
    def make(name: str, seen: list[str]) -> Node:
        async def node(_state: State, seen: list[str] = seen) -> Any:
            await asyncio.sleep(0)
            seen.append(name)
            return {"notes": ["-".join(seen)]}

        return node

    seen: list[str] = []
    return graph(make("a", seen), make("b", seen))


def starves_a_join() -> CompiledGraph[State, Any]:
    first: list[str] = []
    g = GraphBuilder(State, name="planted")
    for name in "abcd":
        g.add_node(name, lambda _state, name=name: first.append(name) or {})
    g.add_edge(START, "a")
    g.add_edge(START, "b")
    g.add_conditional_edges("a", lambda _state: first[0], {"a": "c", "b": END})
    g.add_edge("b", "d")
    g.add_node("meet", note("met"))
    g.add_join(["c", "d"], "meet")
    return g.compile(allow=("starving-join",))


def loops_for_ever() -> CompiledGraph[State, Any]:
    first: list[str] = []
    g = GraphBuilder(State, name="planted")
    for name in "ab":
        g.add_node(name, lambda _state, name=name: first.append(name) or {})
        g.add_edge(START, name)
    g.add_conditional_edges("a", lambda _state: first[0], {"a": END, "b": "a"})
    g.add_edge("b", END)
    return g.compile()


def asks_by_order() -> CompiledGraph[State, Any]:
    first: list[str] = []

    def node(name: str) -> Any:
        def ask(_state: State, ctx: Context) -> Any:
            first.append(name)
            return {"notes": [ctx.interrupt(f"{first[0]} was first. Right?")]}

        return ask

    return graph(node("a"), node("b"))


def draws() -> CompiledGraph[State, Any]:
    return graph(note("a"), lambda _state: {"notes": [str(next(NUMBERS))]})


PLANTED = {
    counted: "order-dependent-result",
    first_wins: "order-dependent-result",
    needs_other: "fails-in-some-order",
    changes_state: "mutated-state",
    takes_turns: "order-dependent-result",
    mutates_current: "mutating-reducer",
    routes_by_order: "order-dependent-result",
    draws: "not-deterministic",
    loses_a_write: "order-dependent-result",
    sends_twice: "order-dependent-result",
    spends_too_much: "order-dependent-result",
    locks_itself: "hangs-in-some-order",
    shares_an_argument: "order-dependent-result",
    starves_a_join: "fails-in-some-order",
    loops_for_ever: "fails-in-some-order",
    asks_by_order: "order-dependent-result",
}
