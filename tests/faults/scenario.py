"""One run with every feature: fan-out, a join, a retry, interrupts, effects, sends and a nested graph.

The graph, the outside world that its effects change, and a patient caller that drives it to its end despite failures.
It has no faults itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cache
from typing import Annotated, Any

import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, InputError, Runtime, Send
from graphrt.errors import ConflictError, GraphrtError, StoreError
from graphrt.events import SuperstepCommitted
from graphrt.limits import RetryPolicy
from graphrt.reducers import add, append

THREAD = "t"


def noted(name: str) -> str:
    """A long note: one is more than 64 KiB, and so are the others together; both are stored apart."""
    return f"{name} ".ljust(70_000 if name == "plan" else 9_000, name[0])


INPUT = {"notes": [noted("start")], "total": 1}
ANSWERS = {"inner?": 20, "outer?": 300}


class State(te.TypedDict):
    notes: Annotated[list[str], append]
    total: Annotated[int, add]
    asked: te.NotRequired[int]
    seen: te.NotRequired[int]


class World:
    """The state that effects change, and the nodes that ran. Passed to nodes as `ctx.deps`."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        """Effects by the idempotency key of their task and their name."""
        self.ran: Counter[str] = Counter()
        """Executions by task id."""

    def change(self, key: str, value: int) -> int:
        self.done[key] += 1
        return value

    def kept(self, key: str) -> None:
        """The result of an effect was stored."""


def _paid(name: str, value: int, kind: str) -> Any:
    """A node with an effect, as an async function or not."""

    def node(state: Any, ctx: Context[World]) -> Any:
        ctx.deps.ran[ctx.task_id] += 1
        key = f"{ctx.idempotency_key}/{name}"
        got = ctx.effect(name, ctx.deps.change, key, value, kind=kind)
        ctx.deps.kept(key)
        return {"notes": [noted(name)], "total": got}

    return node


def _noted(name: str, value: int = 0) -> Any:
    def node(state: Any, ctx: Context[World]) -> Any:
        ctx.deps.ran[ctx.task_id] += 1
        return {"notes": [noted(name)], "total": value}

    return node


def _flaky(state: Any, ctx: Context[World]) -> Any:
    ctx.deps.ran[ctx.task_id] += 1
    if ctx.attempt == 1:
        raise ConnectionError("the first attempt fails")
    return {"notes": [noted("flaky")], "total": 1_000}


def _inner(state: Any, ctx: Context[World]) -> Any:
    ctx.deps.ran[ctx.task_id] += 1
    key = f"{ctx.idempotency_key}/before"
    got = ctx.effect("before", ctx.deps.change, key, 7)
    ctx.deps.kept(key)
    return {"notes": [noted("inner")], "total": got + ctx.interrupt("inner?")}


def _ask(state: Any, ctx: Context[World]) -> Any:
    ctx.deps.ran[ctx.task_id] += 1
    return {"notes": [noted("ask")], "asked": ctx.interrupt("outer?", answer_type=int)}


def _item(state: Any, ctx: Context[World]) -> Any:
    ctx.deps.ran[ctx.task_id] += 1
    return {"notes": [noted(f"item {ctx.arg}")], "total": ctx.arg}


def _last(state: Any, ctx: Context[World]) -> Any:
    ctx.deps.ran[ctx.task_id] += 1
    return {"notes": [noted("last")], "seen": state["total"]}


def _async(fn: Any) -> Any:
    async def node(state: Any, ctx: Context[World]) -> Any:
        await asyncio.sleep(0)
        return fn(state, ctx)

    return node


@cache
def graph(kind: str = "sync") -> Any:
    """The graph; *kind* selects its nodes: sync, async or mixed."""
    made: Any = {"sync": lambda fn: fn, "async": _async}.get(kind, lambda fn: fn)
    other: Any = _async if kind != "sync" else made
    child: GraphBuilder[Any, Any] = GraphBuilder(State, name="child")
    child.add_node("one", made(_noted("one", 2)))
    child.add_node("inner", other(_inner))
    child.add_node("three", made(_noted("three", 3)))
    child.add_edge(START, "one").add_edge("one", "inner").add_edge("inner", "three").add_edge("three", END)

    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="everything")
    g.add_node("plan", made(_noted("plan")))
    g.add_node("pay", other(_paid("pay", 40, "once")))
    g.add_node("flaky", made(_flaky), retry=RetryPolicy(attempts=3, wait_initial_s=0.0))
    g.add_node("nested", child.compile())
    g.add_node("ask", other(_ask))
    g.add_node("item", made(_item))
    g.add_node("book", made(_paid("book", 5_000, "idempotent")))
    g.add_node("last", made(_last))
    g.add_edge(START, "plan")
    for name in ("pay", "flaky", "nested"):
        g.add_edge("plan", name)
    g.add_join(["pay", "flaky", "nested"], "ask")
    g.add_conditional_edges("ask", lambda s: [Send("item", n * 10_000) for n in (1, 2, 3)], ["item"])
    g.add_edge("item", "book").add_edge("book", "last").add_edge("last", END)
    return g.compile()


class Caller:
    """Continues the thread.

    Args:
        face: By the sync verbs or their async twins.
        watch: How the run is started: "run"; "steps", or "custom" items of a stream, which comes from a worker thread.
        nodes: The kind of the nodes.
    """

    def __init__(
        self,
        store: Any,
        world: World,
        *,
        face: str = "sync",
        watch: str = "run",
        nodes: str = "sync",
        **options: Any,
    ) -> None:
        self.world = world
        self.face = face
        self.watch = watch
        self.graph = graph(nodes)
        self.options = {"clock": lambda: 1_700_000_000.0, "seed": 7, "ids": lambda: "run", **options}
        self.runtime = self.over(store)

    def over(self, store: Any) -> Runtime[Any]:
        return Runtime(self.graph, store=store, deps=self.world, **self.options)

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        if self.face == "sync":
            return getattr(self.runtime, verb)(*arguments, **options)
        return asyncio.run(_alone(getattr(self.runtime, f"a{verb}")(*arguments, **options)))

    def go_on(self, status: str | None) -> Any:
        """Call the verb that a thread of this status requires; None if there is none."""
        if status in (None, "new"):
            return self.start()
        if status == "interrupted":
            questions = self.call("state", THREAD).interrupts
            return self.call("resume", THREAD, {q.id: self.answer(q) for q in questions})
        return self.call("retry", THREAD)

    def start(self) -> Any:
        """Run the thread from its beginning."""
        if self.watch == "run":
            return self.call("run", INPUT, thread=THREAD)
        options = {"modes": ("custom", "updates")} if self.watch == "custom" else {}
        verb = "stream" if options else self.watch
        if self.face == "sync":
            assert list(getattr(self.runtime, verb)(INPUT, thread=THREAD, **options))
        else:
            items = getattr(self.runtime, f"a{verb}")(INPUT, thread=THREAD, **options)
            assert asyncio.run(_alone(_listed(items)))
        return self.call("state", THREAD)

    def answer(self, question: Any) -> Any:
        """The answer of a person who can check the world."""
        if isinstance(question.payload, str):
            return ANSWERS[question.payload]
        key = f"{question.payload['idempotency_key']}/{question.payload['effect']}"
        return {"result": 40} if self.world.done[key] else "run"

    def status(self) -> str | None:
        """The status of the thread, or None if it does not exist."""
        try:
            return self.call("state", THREAD).status
        except InputError as error:
            if error.code != "unknown-thread":
                raise
            return None

    def finish(self) -> Any:
        """Drive the thread to its end, and return its state."""
        for _ in range(12):
            status = self.status()
            if status == "completed":
                return self.call("state", THREAD)
            self.go_on(status)
        raise AssertionError(f"the thread does not end: {self.call('state', THREAD)}")


def session(caller: Caller) -> None:
    """A run with its interrupts, to the end or to the first error."""
    status = None
    while status != "completed":
        status = caller.go_on(status).status


async def _listed(items: Any) -> list[Any]:
    return [item async for item in items]


async def _alone(verb: Any) -> Any:
    """The result of *verb*, which leaves no asyncio task behind."""
    before = asyncio.all_tasks()
    try:
        return await verb
    finally:
        left = asyncio.all_tasks() - before
        assert not left, f"left behind: {left}"


def reference() -> Any:
    """The end state of every run: that of an undisturbed one."""
    from graphrt.stores import MemoryStore

    with MemoryStore() as store:
        return Caller(store, World()).finish().values


def check_end(caller: Caller, expected: Any, *, again: bool = False, others: int = 0) -> None:
    """Check that the thread has reached the reference end, in one line of supersteps, with each effect in the world
    once.

    Args:
        again: Idempotent effects may have run again (under the same key): their result could not be stored.
        others: Effects of other threads.
    """
    snapshot = caller.call("state", THREAD)
    entries = list(caller.runtime.entries(THREAD))

    assert snapshot.status == "completed"
    assert snapshot.values == expected
    assert [entry.seq for entry in entries] == list(range(1, snapshot.seq + 1))
    steps = [
        entry.event.superstep for entry in entries if isinstance(entry.event, SuperstepCommitted) and not entry.path
    ]
    assert steps == list(range(1, len(steps) + 1))
    assert caller.runtime.replay(THREAD).values == expected
    assert len(caller.world.done) == 3 + others
    repeated = {key.rpartition("/")[2] for key, count in caller.world.done.items() if count > 1}
    assert repeated <= ({"before", "book"} if again else set())


def is_of_the_store(error: BaseException) -> bool:
    """Whether *error* reports a failure of the store: directly, or through a node that used it for an effect."""
    if isinstance(error, ConflictError):
        return False
    if isinstance(error, StoreError):
        return True
    return isinstance(error, GraphrtError) and isinstance(error.__cause__, StoreError)
