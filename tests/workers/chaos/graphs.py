"""Random graphs built of blocks, and the expected end of a run. No tests.

A kind of block is one function in `BLOCKS`: it adds nodes to the builder and returns its first and its last one. What a
kind of block needs from outside while it runs (answers, signals), the storm does in `attend`, and `twin` does too.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Interrupt, Limits, Runtime, Send
from graphrt.errors import QuestionExpiredError
from graphrt.events import Entry, InterruptAnswered, SignalTaken
from graphrt.graph import CompiledGraph
from graphrt.reducers import add, append
from graphrt.stores import MemoryStore
from graphrt.testing import VirtualClock, drive_due

WIDTH = 4
"""Tasks of a fan-out: also the maximum that one superstep can repeat."""
NAP_S = 0.2
"""Seconds of the shortest timer. A worker polls every 0.05 s."""
DID = "did "
"""Prefix of the lines that effects write to the file and to the log."""


class State(BaseModel):
    thread: str = ""
    folder: str = ""
    pause_s: float = 0.0
    detached: bool = False
    log: Annotated[list[str], append] = []
    total: Annotated[int, add] = 0


AGAIN: dict[str, Any] = {"log": ["again"], "total": 1}
"""The input of a second run on a thread."""


def note(folder: str, line: str) -> str:
    """The side effect of an effect: append a line to a file."""
    if folder:
        with (Path(folder) / "outside.txt").open("a") as file:
            file.write(f"{line}\n")
    return line


def do(state: State, ctx: Context, what: str) -> str:
    """Perform an effect, and return its line of the log; the total differs in a second run."""
    done = ctx.effect("outside", note, state.folder, f"{state.thread} {DID}{what} {state.total}")
    time.sleep(state.pause_s)
    return done.partition(" ")[2]


Block = tuple[str, str]


@dataclass
class Site:
    """A graph that is being built at random.

    Attributes:
        g: The builder.
        chance: Decides what is built.
        signals: Names of the signals that one run receives, one for each signal, in the order of receiving by name.
    """

    g: GraphBuilder[State, Any]
    chance: random.Random
    signals: list[str] = field(default_factory=list)


def step(site: Site, name: str) -> Block:
    def work(state: State) -> dict[str, Any]:
        time.sleep(state.pause_s)
        return {"log": [name], "total": 1}

    site.g.add_node(name, work)
    return name, name


def effect(site: Site, name: str) -> Block:
    site.g.add_node(name, lambda state, ctx: {"log": [do(state, ctx, name)], "total": 1})
    return name, name


def fan(site: Site, name: str) -> Block:
    def one(state: State, ctx: Context) -> dict[str, Any]:
        return {"log": [do(state, ctx, f"{name}-part {ctx.arg}")], "total": ctx.arg}

    return spread(site, name, range(site.chance.randint(2, WIDTH)), one)


def spread(site: Site, name: str, args: Sequence[Any], one: Callable[[State, Context], Any]) -> Block:
    """Add a fan-out: a task of *one* for each of *args*, and a node that gathers them."""
    split, part, gather = f"{name}-split", f"{name}-part", f"{name}-gather"
    site.g.add_node(split, lambda state: {"log": [split]})
    site.g.add_node(part, one)
    site.g.add_node(gather, lambda state: {"log": [f"{gather} {state.total}"]})
    site.g.add_conditional_edges(split, lambda state: [Send(part, arg) for arg in args], [part])
    site.g.add_edge(part, gather)
    return split, gather


def join(site: Site, name: str) -> Block:
    first, last = f"{name}-first", f"{name}-join"
    site.g.add_node(first, lambda state: {"log": [first]})
    site.g.add_node(last, lambda state: {"log": [f"{last} {state.total}"]})
    ends: list[str] = []
    for branch in "ab":  # of different lengths, so that one arrives later
        before = first
        for number in range(site.chance.randint(1, 2)):
            here = f"{name}-{branch}{number}"
            step(site, here)
            site.g.add_edge(before, here)
            before = here
        ends.append(before)
    site.g.add_join(ends, last)
    return first, last


def ask(site: Site, name: str) -> Block:
    def work(state: State, ctx: Context) -> Any:
        return Interrupt(name) if ctx.answer is None else {"log": [ctx.answer], "total": 1}

    site.g.add_node(name, work)
    return name, name


def answer_to(payload: str) -> str:
    """The answer of a person to a question."""
    return f"answer to {payload}"


def nap(site: Site, name: str) -> Block:
    times = site.chance.randint(1, 2)

    def work(state: State, ctx: Context) -> dict[str, Any]:
        for _ in range(times):
            ctx.sleep(NAP_S)
        return {"log": [name], "total": 1}

    site.g.add_node(name, work)
    return name, name


def expire(site: Site, name: str) -> Block:
    """A question that stays unanswered: it has a default, or its node catches the error."""
    has_default = site.chance.random() < 0.5

    def work(state: State, ctx: Context) -> dict[str, Any]:
        if has_default:
            told = ctx.interrupt(name, expires_s=NAP_S, default="a default")
        else:
            try:
                told = ctx.interrupt(name, expires_s=NAP_S)
            except QuestionExpiredError:
                told = "nobody"
        return {"log": [f"{name} {told}"], "total": 1}

    site.g.add_node(name, work)
    return name, name


def receive(site: Site, name: str) -> Block:
    times = site.chance.randint(1, 3)
    site.signals += [name] * times

    def work(state: State, ctx: Context) -> dict[str, Any]:
        return {"log": [ctx.receive(name) for _ in range(times)], "total": 1}

    site.g.add_node(name, work)
    return name, name


def signal_value(name: str, number: int) -> str:
    """The value of the signal *number* of this name, from 0."""
    return f"{name} {number}"


def together(site: Site, name: str) -> Block:
    """A superstep in which one task sleeps, one waits for a person, one for a signal, and one works."""
    roles = ["sleep", "ask", "signal", "work"]
    site.chance.shuffle(roles)
    site.signals.append(name)

    def one(state: State, ctx: Context) -> dict[str, Any]:
        if ctx.arg == "sleep":
            ctx.sleep(2 * NAP_S)
            told = "slept"
        elif ctx.arg == "ask":
            told = ctx.interrupt(name)
        elif ctx.arg == "signal":
            told = ctx.receive(name)
        else:
            told = do(state, ctx, name)
        return {"log": [told], "total": 1}

    return spread(site, name, roles, one)


def nested(site: Site, name: str) -> Block:
    """A nested graph that contains some of the other blocks."""
    inner = Site(GraphBuilder(State, name=name), site.chance, site.signals)
    kinds = [nap, *site.chance.sample([effect, fan, join, ask, receive], 2)]
    site.chance.shuffle(kinds)
    chain(inner, kinds, f"{name}-")
    site.g.add_node(name, inner.g.compile(limits=Limits(max_visits=None)))
    return name, name


CHILD = -1
"""The seed that stands for the graph of child threads."""


def child(site: Site, name: str) -> Block:
    """A node that starts some child threads, and waits for some of them."""
    number = site.chance.randint(1, 3)
    awaited = site.chance.randint(1, number)

    def work(state: State, ctx: Context) -> dict[str, Any]:
        about = {"folder": state.folder, "pause_s": state.pause_s}
        children = [
            ctx.start(
                graph(CHILD), {"thread": f"{state.thread}/{name}.{n}.{state.total}", **about}, detached=state.detached
            )
            for n in range(number)
        ]
        ends = [ctx.wait(one) for one in children[:awaited]]
        return {"log": [f"{name} {[(end.total, len(end.log)) for end in ends]}"], "total": 1}

    site.g.add_node(name, work)
    return name, name


Kind = Callable[[Site, str], Block]
BLOCKS: tuple[Kind, ...] = (step, effect, fan, join, ask, nap, expire, receive, together, nested, child)


def chain(site: Site, kinds: Sequence[Kind], prefix: str = "") -> None:
    """Add blocks of *kinds* one after another, from START to END."""
    before: Any = START
    for number, kind in enumerate(kinds):
        first, last = kind(site, f"{prefix}{kind.__name__}{number}")
        site.g.add_edge(before, first)
        before = last
    site.g.add_edge(before, END)


class Made(NamedTuple):
    """A graph, and the names of the signals that one run receives."""

    graph: CompiledGraph[State, Any]
    signals: tuple[str, ...]


@cache
def made(seed: int) -> Made:
    """The graph of *seed*: one block of each kind and one more, in random order."""
    chance = random.Random(seed)
    kinds: list[Kind] = [effect, nap, fan] if seed == CHILD else [*BLOCKS, chance.choice(BLOCKS)]
    chance.shuffle(kinds)
    site = Site(GraphBuilder(State, name="chaos-child" if seed == CHILD else f"chaos-{seed}"), chance)
    chain(site, kinds)
    return Made(site.g.compile(limits=Limits(max_visits=None)), tuple(site.signals))


def graph(seed: int) -> CompiledGraph[State, Any]:
    """The graph of *seed*."""
    return made(seed).graph


def signals(seed: int, runs: int) -> list[tuple[str, str]]:
    """The signals that a thread receives in *runs* runs: names and values, ordered within each name."""
    numbers: Counter[str] = Counter()
    found: list[tuple[str, str]] = []
    for name in made(seed).signals * runs:
        found.append((name, signal_value(name, numbers[name])))
        numbers[name] += 1
    return found


class Twin(NamedTuple):
    """The end of an undisturbed thread."""

    log: list[str]
    total: int
    answered: Counter[tuple[str, str]]
    """Each question that no person answered, without its thread, and the source of its answer: how often."""
    children: int
    """Number of its child threads."""


@cache
def twin(seed: int, runs: int) -> Twin:
    """The end of an undisturbed thread after *runs* runs."""
    clock, store = VirtualClock(), MemoryStore()
    with (
        Runtime(graph(seed), store=store, clock=clock) as runtime,
        Runtime(graph(CHILD), store=store, clock=clock) as children,
    ):
        for number in range(runs):
            result: Any = runtime.run(AGAIN if number else {}, thread="twin")
            if number == 0:
                for name, value in signals(seed, runs):
                    runtime.signal("twin", name, value, id=value)
            while result.status == "interrupted":
                clock.advance(2 * NAP_S)
                result = drive_due(*([runtime, children] if seed != CHILD else [runtime])).get("twin", result)
                for question in result.interrupts:
                    if is_for_a_person(question):
                        result = runtime.resume("twin", {question.id: answer_to(question.payload)})
        started = len(runtime.threads()) - 1
        return Twin(result.state.log, result.state.total, answered(runtime.entries("twin")), started)


def is_for_a_person(question: Any) -> bool:
    """Whether the storm answers the question: questions that expire stay unanswered."""
    return question.kind == "question" and question.expires_at is None


TIMED = frozenset({"timer", "default", "expiry"})
"""The source of the answer to a question that expires."""


def answered(entries: Any) -> Counter[tuple[str, str]]:
    """The sources of the answers that no person gave, each without its thread."""
    found: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        assert isinstance(entry, Entry)
        event = entry.event
        if isinstance(event, SignalTaken):
            found[_place(event.interrupt), f"signal {event.id}"] += 1
        elif isinstance(event, InterruptAnswered) and event.by in TIMED and not entry.path:
            found[_place(event.id), event.by] += 1
    return found


def _place(question: str) -> str:
    return question.partition("/")[2]
