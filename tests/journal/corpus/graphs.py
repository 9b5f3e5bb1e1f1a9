"""The graphs of the corpus. They are as frozen as its files: changed graphs could not continue its threads."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, PARENT, START, Command, Context, GraphBuilder, Interrupt, RetryPolicy, Send
from graphrt.audit import Secret
from graphrt.errors import BadResponseError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import (
    Agent,
    AgentReply,
    AssistantMessage,
    FunctionModel,
    Image,
    Message,
    ModelProfile,
    ModelRequest,
    TextDelta,
    ToolCall,
    tool,
)
from graphrt.reducers import add, append, merge, messages, union

LARGE = "large " * 11_000
"""More than 64 KiB: stored as a blob."""
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
MENDED = "mended"
"""The `deps` of a caller with which failed nodes succeed."""


KEY_NOTE = "Canary-Anna-7731"
"""The erased value."""


class Colour(enum.Enum):
    RED = "red"


class Stop(BaseModel):
    """A stop of the voyage."""

    name: str
    at: dt.datetime
    fee: Decimal


class State(BaseModel):
    notes: Annotated[list[Any], append] = []
    count: Annotated[int, add] = 0
    table: Annotated[dict[str, Any], merge] = {}
    tags: Annotated[set[str], union] = set()
    last: Stop | None = None


def line(*nodes: Callable[..., Any], name: str = "line", state: Any = State, **policies: Any) -> Any:
    """A graph of *nodes*, one after another; *policies* are those of each node."""
    g: GraphBuilder[Any, Any] = GraphBuilder(state, name=name)
    for node in nodes:
        g.add_node(node.__name__, node, **policies)
    g.add_sequence([START, *(node.__name__ for node in nodes), END])
    return g.compile()


# A graph with most of the features of a superstep
# ------------------------------------------------------------------------


class Inner(BaseModel):
    notes: Annotated[list[Any], append] = []


def _nested() -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(Inner, name="inner")
    g.add_node("look", lambda _: {"notes": ["looked"]})
    g.add_node("ask", lambda _, ctx: {"notes": [ctx.interrupt("Which way?", answer_type=str)]})
    g.add_sequence([START, "look", "ask", END])
    return g.compile()


def _begin(_: State) -> dict[str, Any]:
    stop = Stop(name="Oslo", at=dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), fee=Decimal("1.50"))
    return {"count": 1, "last": stop, "tags": {"north", "sea"}}


def _visit(_: State, ctx: Context) -> dict[str, Any]:
    seen = ctx.effect("visit", lambda number: f"visited {number}", ctx.arg, kind="once")
    return {"notes": [seen, ctx.effect("draw", lambda: "drawn")], "count": 1}


def _shaky(_: State, ctx: Context) -> dict[str, Any]:
    if ctx.attempt == 1:
        raise ConnectionError("not yet")
    return {"notes": ["steady"]}


def _gate(state: State, ctx: Context) -> Any:
    if ctx.answer is None:
        return Interrupt({"seen": len(state.notes)}, answer_type=bool)
    return Command(update={"notes": [f"gate {ctx.answer}"]}, goto="close")


def _close(state: State, ctx: Context) -> dict[str, Any]:
    if "break" in state.table and ctx.deps != MENDED:
        raise ValueError("broken on purpose")
    return {"notes": ["closed"]}


def tour() -> Any:
    """Sends, a join, retries, effects, a nested graph, two questions."""
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="tour")
    g.add_node("begin", _begin)
    g.add_node("visit", _visit)
    g.add_node("shaky", _shaky, retry=RetryPolicy(2, wait_initial_s=0))
    g.add_node("nest", _nested())
    g.add_node("meet", lambda _: {"notes": ["met"]})
    g.add_node("gate", _gate, goto=["close"])
    g.add_node("close", _close)
    g.add_conditional_edges(START, lambda _: "begin", ["begin"])
    g.add_conditional_edges("begin", lambda _: [Send("visit", n) for n in range(2)], ["visit"])
    g.add_edge("visit", "shaky").add_edge("visit", "nest")
    g.add_join(["shaky", "nest"], "meet")
    g.add_edge("meet", "gate").add_edge("close", END)
    return g.compile()


# Questions --------------------------------------------------------------------------------------------------------------


def draft(state: State) -> dict[str, Any]:
    return {"table": {"draft": f"draft {state.count}"}}


def approve(state: State, ctx: Context) -> dict[str, Any]:
    """Ask about the draft, unless the caller passes `"silent"` as `deps`."""
    if ctx.deps == "silent":
        return {"notes": ["not asked"]}
    return {"notes": [ctx.interrupt({"draft": state.table["draft"]}, key="approve")]}


def expiring(_: State, ctx: Context) -> dict[str, Any]:
    return {"notes": [ctx.interrupt("Still there?", expires_s=60, answer_type=str)]}


def defaulting(_: State, ctx: Context) -> dict[str, Any]:
    return {"notes": [ctx.interrupt("Still there?", expires_s=60, default="no answer")]}


def held() -> Any:
    """A pause before a node, and one after the fold of another node."""
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="held")
    g.add_node("plan", lambda _: {"notes": ["planned"]}, interrupt_after=True)
    g.add_node("act", lambda _: {"notes": ["acted"]}, interrupt_before=True)
    g.add_sequence([START, "plan", "act", END])
    return g.compile()


# Failures ---------------------------------------------------------------------------------------------------------------


def _fails(_: State, ctx: Context) -> None:
    raise KeyError("lost", ctx.arg)


def _handles(_: State, ctx: Context) -> dict[str, Any]:
    errors = ctx.error.exceptions if isinstance(ctx.error, ExceptionGroup) else [ctx.error]
    return {"notes": [f"handled {len(errors)}", ctx.interrupt("What now?")]}


def handled() -> Any:
    """Two tasks fail, and another node handles both, after a question."""
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="handled")
    g.add_node("fails", _fails, on_error="handles")
    g.add_node("handles", _handles)
    g.add_conditional_edges(START, lambda _: [Send("fails", n) for n in range(2)], ["fails"])
    return g.compile()


def fatigued() -> Any:
    """A loop that exits by itself."""
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="fatigued")
    g.add_node("turn", lambda _: {"count": 1}, max_visits=2, on_fatigue="rest")
    g.add_node("rest", lambda _: {"notes": ["rested"]})
    g.add_edge(START, "turn").add_edge("turn", "turn").add_edge("rest", END)
    return g.compile()


def late() -> Any:
    """The first attempt of a node ends after its timeout, while another node runs."""
    stop, left = threading.Event(), threading.Event()

    def slow(_: State, ctx: Context) -> dict[str, Any]:
        if ctx.attempt > 1:
            return {"notes": ["second"]}
        stop.wait(60)
        left.set()
        return {"notes": ["late"]}

    def after(_: State) -> dict[str, Any]:
        stop.set()
        left.wait(60)
        return {"notes": ["after"]}

    async def end(_: State) -> dict[str, Any]:
        await asyncio.sleep(0.2)  # the end of the late attempt is observed during this sleep
        return {"notes": ["end"]}

    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="late")
    g.add_node("slow", slow, timeout_s=0.2, retry=RetryPolicy(2, wait_initial_s=0))
    g.add_node("after", after)
    g.add_node("end", end)
    g.add_sequence([START, "slow", "after", "end", END])
    return g.compile()


def crashing() -> Any:
    """One task has ended, and the other one is inside an effect when `deps` kills the process."""

    def done(_: State, ctx: Context) -> dict[str, Any]:
        return {"notes": [ctx.effect("look", lambda: "looked")]}

    def pays(_: State, ctx: Context) -> dict[str, Any]:
        def pay() -> str:
            ctx.deps()
            return "paid"

        return {"notes": [ctx.interrupt("Pay?"), ctx.effect("pay", pay, kind="once")]}

    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="crashing")
    g.add_node("done", done)
    g.add_node("pays", pays)
    g.add_edge(START, "done").add_edge(START, "pays")
    return g.compile()


# Models -----------------------------------------------------------------------------------------------------------------

_COUNTED = ModelProfile(name="counted", count_tokens=lambda _: 10)
_USED = Usage(input_tokens=10, output_tokens=40, calls=1)


def _agent(*answers: Any, **options: Any) -> Agent:
    left = list(answers)

    def answer(_: ModelRequest) -> AgentReply:
        item = left.pop(0) if left else AgentReply(text="ok", usage=_USED)
        if isinstance(item, Exception):
            raise item
        reply: AgentReply = item
        return reply

    model = FunctionModel(answer, usage=None, profile=_COUNTED)
    return Agent(model, max_tokens=80, retry=RetryPolicy(attempts=1), **options)


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def modelling() -> Any:
    """Calls that fail, are billed, use a tool, and succeed; an attempt that fails after a reply; a budget."""
    busy, billed = TransientModelError("busy"), BadResponseError("unreadable", billed=True)
    call = AgentReply(tool_calls=(ToolCall(id="c1", name="double", arguments={"number": 21}),), usage=_USED)
    moody = _agent(busy, billed, AgentReply(text="at last", usage=_USED))
    helped = _agent(call, AgentReply(text="It is 42.", usage=_USED), tools=[double])

    async def ask(_: State, ctx: Context) -> dict[str, Any]:
        reply = await ctx.bind(moody).run("Well?")
        if ctx.attempt == 3:
            raise ConnectionError("after a reply")
        return {"notes": [reply.text]}

    async def help_(_: State, ctx: Context) -> dict[str, Any]:
        reply = await ctx.bind(helped).run("What is twice 21?")
        more = await ctx.bind(_agent()).run("And then?")
        return {"notes": [reply.text, more.text]}

    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="modelling")
    g.add_node("ask", ask, retry=RetryPolicy(attempts=5, wait_initial_s=0, retry_on=Exception))
    g.add_node("help", help_)
    g.add_sequence([START, "ask", "help", END])
    return g.compile()


def asking() -> Any:
    """A call that failed and was not billed, and a call that `deps` interrupts."""
    calls: list[ModelRequest] = []

    async def ask(_: State, ctx: Context) -> dict[str, Any]:
        def answer(request: ModelRequest) -> AgentReply:
            calls.append(request)
            if len(calls) == 1:
                raise TransientModelError("busy")
            ctx.deps()
            return AgentReply(text="ok", usage=_USED)

        model = FunctionModel(answer, usage=None, profile=_COUNTED)
        agent = Agent(model, max_tokens=80, retry=RetryPolicy(attempts=1))
        for question in ("One?", "Two?"):
            with suppress(TransientModelError):
                await ctx.bind(agent).run(question)
        return {"notes": ["asked"]}

    return line(ask, name="asking")


class Chat(BaseModel):
    chat: Annotated[list[Message], messages] = []


class Speaker:
    """A model that emits some words, and then waits until its run is cancelled; later it emits the whole text."""

    profile = ModelProfile(name="speaker")

    async def invoke(self, request: Any) -> AgentReply:
        return AgentReply(text="Well.")

    async def stream(self, request: Any, **options: Any) -> AsyncIterator[Any]:
        yield TextDelta(text="Once upon a time")
        await asyncio.Event().wait()


def chat() -> Any:
    async def answer(state: Chat, ctx: Context) -> dict[str, Any]:
        reply = await ctx.bind(Agent(Speaker())).run(list(state.chat))
        return {"chat": [AssistantMessage(text=reply.text, id=f"answer-{len(state.chat)}")]}

    return line(answer, name="chat", state=Chat)


def picture() -> Image:
    return Image.from_bytes(PNG)


def album() -> Any:
    """Messages with pictures, from a person and from a node."""

    def show(state: Chat) -> dict[str, Any]:
        return {"chat": [AssistantMessage(text=f"{len(state.chat)} so far", id=f"shown-{len(state.chat)}")]}

    return line(show, name="album", state=Chat)


# The memory, mail, time, child threads ----------------------------------------------------------------------------------


def remember(_: State, ctx: Context) -> dict[str, Any]:
    ctx.memory.put("customers/1", "drink", {"likes": "black tea"})
    ctx.memory.put("customers/1", "soon", "gone in an hour", expires_s=3_600)
    ctx.memory.put("customers/2", "drink", {"likes": "milk"})
    ctx.memory.delete("customers/2", "drink")
    ctx.effect("note", lambda: ctx.memory.put("customers/1", "noted", ("by", "an effect")))
    return {"notes": [ctx.memory.get("customers/1", "drink").value]}  # type: ignore[union-attr]  # just put


def wait_paid(_: State, ctx: Context) -> dict[str, Any]:
    return {"notes": [ctx.receive("paid"), ctx.receive("sent")]}


def nap(_: State, ctx: Context) -> dict[str, Any]:
    ctx.sleep(hours=1)
    return {"notes": ["awake"]}


class Work(BaseModel):
    number: int = 0
    out: int = 0


def doubled() -> Any:
    def work(state: Work) -> dict[str, Any]:
        return {"out": 2 * state.number}

    return line(work, name="child", state=Work)


def parent() -> Any:
    """Start two child threads, one of them detached, and wait for the other."""
    child = doubled()

    def delegate(_: State, ctx: Context) -> dict[str, Any]:
        ctx.start(child, {"number": 5}, detached=True)
        return {"notes": [ctx.wait(ctx.start(child, {"number": 21})).out]}

    return line(delegate, name="parent")


# Other kinds of graphs and states ---------------------------------------------------------------------------------------


class Total(BaseModel):
    sum: int = 0
    seen: tuple[int, ...] = ()


def _apply(state: Total, update: int) -> Total:
    return Total(sum=state.sum + update, seen=(*state.seen, update))


def counting() -> Any:
    """A reducer of the whole state over updates that are numbers."""
    g: GraphBuilder[Any, Any] = GraphBuilder(Total, int, reducer=_apply, name="counting")
    g.add_node("one", lambda _: 1)
    g.add_node("two", lambda _: 2)
    g.add_edge(START, "one").add_edge(START, "two")
    return g.compile()


def desk() -> Any:
    """A nested graph that routes to a node of its parent."""
    inner: GraphBuilder[Any, Any] = GraphBuilder(Inner, name="support", hands_over_to=["billing"])
    inner.add_node("look", lambda _: Command(update={"notes": ["looked"]}, goto="billing", graph=PARENT))
    inner.add_edge(START, "look")
    g: GraphBuilder[Any, Any] = GraphBuilder(Inner, name="desk")
    g.add_node("support", inner.compile())
    g.add_node("billing", lambda _: {"notes": ["billed"]})
    g.add_node("end", lambda _: {"notes": ["never"]})
    g.add_sequence([START, "support", "end"])
    return g.compile()


class Gathered(BaseModel):
    notes: Annotated[list[str], append] = []
    inner: Inner | None = None


def gathering() -> Any:
    """Sends to a node that pauses after it, a router that is called for each, a deferred node, and a stateful nested
    graph.
    """
    inner: GraphBuilder[Any, Any] = GraphBuilder(Inner, name="inner")
    inner.add_node("note", lambda state: [{"notes": ["inner"]}, {"notes": ["again"]}]).add_edge(START, "note")
    g: GraphBuilder[Any, Any] = GraphBuilder(Gathered, name="gathering")
    g.add_node("read", lambda _, ctx: {"notes": [f"read {ctx.arg}"]}, interrupt_after=True)
    g.add_node("cite", lambda _, ctx: {"notes": [f"cite {ctx.arg}"]})
    g.add_node("inner", inner.compile(), stateful="inner", output={})
    g.add_node("report", lambda _: {"notes": ["report"]}, defer=True)
    g.set_conditional_entry(lambda _: [Send("read", number) for number in range(3)] + ["report"], ["read", "report"])
    g.add_conditional_edges("read", lambda _, ctx: [Send("cite", ctx.arg)] if ctx.arg else ["inner"], ["cite", "inner"])
    return g.compile()


def grown() -> Any:
    """The graph of drafts with an additional node."""

    def sign(_: State) -> dict[str, Any]:
        return {"notes": ["signed"]}

    return line(draft, approve, sign, name="letter")


class Held(BaseModel):
    """A value of each kind that a state may contain."""

    anything: Any = None
    secret: Secret | None = None
    stop: Stop | None = None
    colour: Colour = Colour.RED
    where: PurePosixPath = PurePosixPath("/")
    id: uuid.UUID = uuid.UUID(int=0)
    took: dt.timedelta = dt.timedelta()
    day: dt.date = dt.date(2026, 1, 1)
    frozen: frozenset[int] = frozenset()


VALUES: dict[str, Any] = {
    "secret": Secret("a password"),
    "anything": [
        None,
        True,
        1 << 80,
        -0.5,
        1e300,
        float("inf"),
        "größe \U0001f600 \x00 \n",
        (1, (2,), []),
        b"\x00\xff",
        {1, 2},
        {"$t": "looks like a tag"},
        {(1, 2): "pair", 3: "number"},
        Decimal("1.50"),
        dt.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.time(1, 2, 3),
        complex(1, -2),
        range(3),
        dt.datetime(2026, 1, 2),  # noqa: DTZ001 - without a time zone
    ],
    "stop": Stop(name="Oslo", at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC), fee=Decimal(0)),
    "where": PurePosixPath("/a/b"),
    "id": uuid.UUID(int=7),
    "took": dt.timedelta(days=1, microseconds=3),
    "day": dt.date(2026, 2, 3),
    "frozen": frozenset({3, 4}),
}


def holding() -> Any:
    def keep(state: Held, ctx: Context) -> dict[str, Any]:
        return {"anything": [*state.anything, ctx.interrupt(state.id, answer_type=uuid.UUID)]}

    return line(keep, name="holding", state=Held)
