"""Graphs and stores with one bug each about crashes, pauses or edits, and the expected kind of finding."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typing_extensions as te
from pydantic import BaseModel

from graphrt import END, START, Command, Context, GraphBuilder, MockHarness
from graphrt.reducers import untracked
from graphrt.stores import MemoryStore, StoreWrapper
from graphrt.stores.values import Claim, Commit
from graphrt.testing import Exploration, explore_crashes


def joined(current: list[str], incoming: list[str]) -> list[str]:
    return [*current, *incoming]


class State(te.TypedDict, total=False):
    notes: Annotated[list[str], joined]


class World:
    def __init__(self) -> None:
        self.sent: list[str] = []
        self.executions = 0

    def send(self, text: str) -> str:
        self.sent.append(text)
        return text


def chain(*nodes: Any, state: Any = State) -> Any:
    g = GraphBuilder(state, name="planted")
    for place, node in enumerate(nodes):
        g.add_node(f"n{place}", node)
    g.add_sequence([START, *(f"n{place}" for place in range(len(nodes))), END])
    return g.compile()


def counts_attempts(_: Any, ctx: Context[World]) -> Any:
    ctx.deps.executions += 1
    ctx.memory.put("desk", "attempts", ctx.deps.executions)


def quiet(_: Any) -> Any:
    return {"notes": ["quiet"]}


def explored(graph: Any, **more: Any) -> Exploration:
    return explore_crashes(
        graph, {"notes": []}, options=lambda: {"deps": World()}, once=lambda world: world.sent, **more
    )


def bare_send(_: Any, ctx: Context[World]) -> Any:
    return {"notes": [ctx.deps.send("mail")]}


def idempotent_send(_: Any, ctx: Context[World]) -> Any:
    return {"notes": [ctx.effect("send", ctx.deps.send, "mail")]}


def fresh_name(_: Any, ctx: Context[World]) -> Any:
    return {"notes": [ctx.effect(f"send {len(ctx.deps.sent)}", ctx.deps.send, "mail", kind="once")]}


def sent_once(_: Any, ctx: Context[World]) -> Any:
    return {"notes": [ctx.effect("send", ctx.deps.send, "mail", kind="once")]}


def sent_before_asking(_: Any, ctx: Context[World]) -> Any:
    ctx.deps.send("please answer")
    return {"notes": [ctx.interrupt("?")]}


def rewording(_: Any, ctx: Context[World]) -> Any:
    """Each execution words its question differently: no answer matches."""
    ctx.deps.executions += 1
    return {"notes": [ctx.interrupt(f"question {ctx.deps.executions}")]}


def counted(_: Any, ctx: Context[World]) -> Any:
    """The result depends on the number of its calls in this world."""
    ctx.deps.executions += 1
    return {"notes": [f"execution {ctx.deps.executions}"]}


def giving_up(_: Any, ctx: Context[World]) -> Any:
    """Fails if it runs a second time."""
    ctx.deps.executions += 1
    if ctx.deps.executions > 1:
        raise ValueError("the lock file exists")


def turning(_: Any, ctx: Context[World]) -> Any:
    ctx.deps.executions += 1
    return {"notes": ["a", "b"] if ctx.deps.executions == 1 else ["b", "a"]}


def asking_in_turn(_: Any, ctx: Context[World]) -> Any:
    """Words its question differently from the third execution on, which only a crash causes."""
    ctx.deps.executions += 1
    return {"notes": [ctx.interrupt(f"question {(ctx.deps.executions - 1) // 2}")]}


async def calls_again(_: Any, ctx: Context[World]) -> Any:
    """Makes more model calls if it runs a second time."""
    ctx.deps.executions += 1
    for number in range(ctx.deps.executions):
        await ctx.harness.run(f"call {number}")
    return {"notes": ["called"]}


async def speaks_again(_: Any, ctx: Context[World]) -> Any:
    """Sends a different request to the model if it runs a second time, and does not return its answer."""
    ctx.deps.executions += 1
    await ctx.harness.run(f"call {ctx.deps.executions}")


def untracked_notes() -> Any:
    """The value that a superstep leaves in an untracked field is gone after a pause."""

    class Kept(BaseModel):
        notes: Annotated[list[str], joined] = []
        draft: Annotated[str, untracked] = ""

    return chain(lambda _: {"draft": "a letter"}, lambda state: {"notes": [state.draft or "nothing"]}, state=Kept)


def join_by_attempt() -> Any:
    """Goes to both sources of a join in its first execution, and to one later."""
    g = GraphBuilder(State, name="planted")

    def plan(_: Any, ctx: Context[World]) -> Any:
        ctx.deps.executions += 1
        return Command(goto=["a", "b"] if ctx.deps.executions == 1 else ["a"])

    g.add_node("plan", plan, goto=["a", "b"])
    for name in "ab":
        g.add_node(name, quiet)
    g.add_node("meet", quiet)
    g.add_edge(START, "plan")
    g.add_join(["a", "b"], "meet")
    return g.compile(allow=("starving-join",))


def loop_by_attempt() -> Any:
    """Ends after its first execution, or never."""
    g = GraphBuilder(State, name="planted")

    def again(_: Any, ctx: Context[World]) -> Any:
        ctx.deps.executions += 1
        return {"notes": ["once"] if ctx.deps.executions == 1 else []}

    g.add_node("again", again)
    g.add_edge(START, "again")
    g.add_conditional_edges("again", lambda state: bool(state["notes"]), {True: END, False: "again"})
    return g.compile()


class LogStore(StoreWrapper):
    """A store in a file of pickles that loses everything if the last pickle is torn."""

    def __init__(self, folder: Path, *, careful: bool) -> None:
        super().__init__(MemoryStore())
        self.durable = True
        self.path = folder / "log"
        self.held: list[Claim] = []
        self.path.touch()
        with self.path.open("rb") as file:
            good = 0
            while True:
                try:
                    verb, given = pickle.load(file)
                except EOFError:
                    break
                except pickle.UnpicklingError:
                    if not careful:
                        self.store = MemoryStore()
                    break
                good = file.tell()
                self._do(verb, given)
        if careful:
            os.truncate(self.path, good)
        self.crash()

    def _do(self, verb: str, given: Any) -> None:
        if verb == "claim":
            self.crash()
            self.held = [self.store.claim(given[0], create=True, lease_s=1_000.0, at=given[1])]
        elif verb == "commit":
            self.store.commit(self.held[-1], given)

    def _log(self, verb: str, given: Any) -> None:
        with self.path.open("ab") as file:
            file.write(pickle.dumps((verb, given)))

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        claim: Claim = self.store.claim(thread, create=create, lease_s=lease_s, at=at)
        self._log("claim", (thread, at))
        self.held.append(claim)
        return claim

    def commit(self, claim: Claim, commit: Commit) -> None:
        self.store.commit(claim, commit)
        self._log("commit", commit)

    def crash(self) -> None:
        for claim in self.held:
            self.store.release(claim)


class LossyStore(StoreWrapper):
    """A store with a bug, in front of a `MemoryStore`."""

    def __init__(self, bug: str) -> None:
        super().__init__(MemoryStore())
        self.bug = bug
        self.waiting: list[Callable[[], None]] = []
        self.held: list[Claim] = []

    def claim(self, thread: str, *, create: bool, lease_s: float, at: float) -> Claim:
        if self.bug == "two owners":
            for old in self.held:
                self.store.release(old)
        claim: Claim = self.store.claim(thread, create=create, lease_s=lease_s, at=at)
        self.held.append(claim)
        return claim

    def commit(self, claim: Claim, commit: Commit) -> None:
        if self.bug == "late":
            self.flush()
            if commit.records and not commit.release:
                self.waiting.append(lambda: self.store.commit(claim, commit))
                return
        edits = commit.records and commit.release and not commit.stage and not commit.unstage
        if self.bug == "edits" and edits and len(self.held) > 1:
            commit = commit._replace(records=(), snapshot=None)
        if self.bug == "unstaged":
            commit = commit._replace(stage=())
        self.store.commit(claim, commit)

    def load(self, thread: str, *, upto: int | None = None, after: int = 0) -> Any:
        self.flush()
        return self.store.load(thread, upto=upto, after=after)

    def flush(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def crash(self) -> None:
        """Unwritten data is lost with the process."""
        self.waiting.clear()
        for claim in self.held:
            self.store.release(claim)


def lossy(bug: str) -> Callable[[Path], Any]:
    return lambda _: LossyStore(bug)


PLANTED: dict[str, tuple[Callable[[], Exploration], str]] = {
    "an effect outside ctx.effect": (lambda: explored(chain(bare_send, quiet)), "double-effect"),
    "an effect that is not marked once": (lambda: explored(chain(idempotent_send, quiet)), "double-effect"),
    "a once effect with a new name each time": (lambda: explored(chain(fresh_name, quiet)), "double-effect"),
    "a mail before a question": (lambda: explored(chain(sent_before_asking), answers=["yes"]), "double-effect"),
    "a question that is reworded": (
        lambda: explored(chain(rewording), answers=lambda q: "yes", max_cases=8),
        "not-resumable",
    ),
    "a result that depends on the attempt": (lambda: explored(chain(counted, quiet)), "state-differs"),
    "an order that depends on the attempt": (lambda: explored(chain(turning, quiet)), "order-changed"),
    "a node that cannot run again": (lambda: explored(chain(giving_up, quiet)), "not-resumable"),
    "a store that acknowledges before it writes": (
        lambda: explored(chain(quiet, quiet), store=lossy("late")),
        "lost-write",
    ),
    "a store that loses staged bodies": (
        lambda: explored(chain(sent_once, quiet), store=lossy("unstaged")),
        "lost-write",
    ),
    "a question in other words after a crash": (
        lambda: explored(chain(asking_in_turn), answers=lambda _: "yes"),
        "interrupt-answered-twice",
    ),
    "model calls that depend on the attempt": (
        lambda: explore_crashes(
            chain(calls_again, quiet),
            {"notes": []},
            options=lambda: {"deps": World(), "harness": MockHarness({re.compile("call"): "ok"})},
        ),
        "budget-differs",
    ),
    "an answer to a reader that depends on the attempt": (
        lambda: explore_crashes(
            chain(speaks_again, quiet),
            {"notes": []},
            options=lambda: {"deps": World(), "harness": MockHarness({"call 1": "first", "call 2": "second"})},
        ),
        "wire-differs",
    ),
    "a memory that depends on the attempt": (lambda: explored(chain(counts_attempts)), "memory-differs"),
    "a join that starves after a crash": (lambda: explored(join_by_attempt()), "not-resumable"),
    "a loop without an end after a crash": (lambda: explored(loop_by_attempt()), "not-resumable"),
    "a store that forgets all if a write is torn": (
        lambda: explored(chain(quiet, quiet), store=lambda folder: LogStore(folder, careful=False)),
        "lost-write",
    ),
    "a field that no journal has": (lambda: explored(untracked_notes(), at="interrupt 2"), "state-differs"),
    "a mail before a question that is reworded": (
        lambda: explored(chain(sent_before_asking), answers=["yes"], at="reworded 1"),
        "double-effect",
    ),
    "a store with two owners": (lambda: explored(chain(quiet), store=lossy("two owners")), "second-writer"),
}
