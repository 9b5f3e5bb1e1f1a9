"""A process that constantly writes, checkpoints, forks, closes and opens a SQLite file, until it is killed.

It appends stored data to a file of acknowledgements: lines of a thread and its counter, and `unguarded` for each
checkpoint that ran without a guard, which is every one of a *bare* worker. Several may run on one database.
"""

from __future__ import annotations

import os
import random
from contextlib import suppress
from typing import Annotated, Any

import typing_extensions as te
from tests.stores.guarded import Guards, bare_copy

from graphrt import END, START, CompiledGraph, GraphBuilder, GraphrtError, Limits, Runtime
from graphrt.reducers import add, append
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite import _log as log

STEPS = 12


class State(te.TypedDict):
    n: Annotated[int, add]
    said: Annotated[list[str], append]


class Patch:
    """Sets attributes, for the life of the process."""

    setattr = staticmethod(setattr)


class Acknowledged:
    """The data on which others may rely: written before any other action, and durable when this process is killed."""

    def __init__(self, path: str) -> None:
        self.handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def tell(self, *what: object) -> None:
        os.write(self.handle, (" ".join(map(str, what)) + "\n").encode())


def graph(acknowledged: Acknowledged) -> Any:
    def step(state: State, ctx: Any) -> Any:
        acknowledged.tell(ctx.thread, state["n"])  # the argument of a node is stored
        return {"n": 1, "said": ["x" * random.choice((20, 500, 500, 30_000))]}

    builder: Any = GraphBuilder(State, name="writes")
    builder.add_node("step", step, max_visits=None)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda s: s["n"] < STEPS, {True: "step", False: END})
    return builder.compile(limits=Limits(max_steps=1_000))


def work(path: str, acknowledged: Acknowledged, slot: str, guards: Guards) -> None:
    made = graph(acknowledged)
    number, told = 0, 0
    while True:
        with suppress(GraphrtError), SqliteStore(path) as store, Runtime(made, store=store, chain=False) as runtime:
            for _ in range(random.randrange(1, 12)):
                number += 1
                thread = f"{slot}-{os.getpid()}-{number}"
                result = runtime.run({"n": 0, "said": []}, thread=thread)
                acknowledged.tell(thread, result.state["n"])
                if random.random() < 0.05:
                    acknowledged.tell(thread, "deleted")
                    runtime.delete_thread(thread)
                if random.random() < 0.05:
                    forked(made, path)
        for _ in range(guards.unguarded + guards.by_themselves - told):
            acknowledged.tell("unguarded")
        told = guards.unguarded + guards.by_themselves
        acknowledged.tell("copied", guards.copies)


def forked(made: CompiledGraph[Any, Any], path: str) -> None:
    """Fork a child that writes into the same file with its own store, and ends."""
    child = os.fork()
    if not child:
        try:
            own = Runtime(made, store=SqliteStore(path), chain=False)
            own.run({"n": 0, "said": []}, thread=f"child-{os.getpid()}-{random.random()}")
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def main(path: str, acknowledged: str, slot: str, bare: bool) -> None:
    random.seed(os.getpid())
    log.PAGES = 60
    if bare:
        log.copy = bare_copy
    guards = Guards()
    guards.watch(Patch)
    work(path, Acknowledged(acknowledged), slot, guards)
