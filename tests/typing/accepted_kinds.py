"""Every kind of state and of update. Both checkers accept every line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict, assert_type

from pydantic import BaseModel

from graphrt import END, START, UNSET, ChildThread, Command, Context, GraphBuilder, RouterContext, Send
from graphrt.reducers import add, append, merge, reduced, union

# --- A TypedDict, and no update type: nodes return any mapping of its fields


class Counter(TypedDict):
    count: Annotated[int, add]
    seen: NotRequired[Annotated[list[str], append]]


class Seen(TypedDict):
    seen: list[str]


loose = GraphBuilder(Counter, name="loose")


@loose.node
def count(state: Counter) -> dict[str, Any]:
    return {"count": state["count"] + 1}


@loose.node
async def narrow(state: Counter) -> dict[str, int]:
    return {"count": 1}


@loose.node
def see(state: Counter) -> Seen:
    return {"seen": [str(state["count"])]}


@loose.node(retry=2)
def command(state: Counter, ctx: Context) -> Command:
    return Command(update={"count": 1}, goto=[count, Send("see", ctx.arg)])


@loose.node
def several(state: Counter) -> list[Seen] | None:
    return [{"seen": ["a"]}, {"seen": ["b"]}]


@loose.node
def several_and_route(state: Counter) -> Command[Seen]:
    return Command(update=[{"seen": ["a"]}, {"seen": ["b"]}], goto=see)


def keep(state: Counter) -> Mapping[str, object]:
    return {**state}


assert_type(loose, GraphBuilder[Counter, Mapping[str, Any], Counter])
assert_type(count({"count": 1}), dict[str, Any])
assert_type(see({"count": 1}), Seen)
loose.add_node("two", lambda state: Command(update=[{"seen": ["a"]}, {"count": 1}], goto="see"))
loose.add_node("keep", keep).add_node("lambda", lambda state: {"count": state["count"]})
loose.add_edge(START, count).add_edge(see, END)
assert_type(loose.compile().run({"count": 0}).state, Counter)


# --- Routers with a context


class Deps:
    limit: int = 3


def above(state: Counter, ctx: RouterContext[Deps]) -> Literal["see", "__end__"]:
    assert_type(ctx.deps.limit, int)
    return "see" if state["count"] > ctx.deps.limit else "__end__"


def resend(state: Counter, ctx: RouterContext) -> list[Send]:
    return [Send("see", ctx.arg)]


loose.add_conditional_edges("count", above)
loose.add_conditional_edges("count", above, [("see", "see"), ("__end__", END)])
loose.add_conditional_edges("count", resend, ["see"])
loose.add_conditional_edges("count", lambda state, ctx: "see" if state["count"] else Send("see", ctx.arg), ["see"])
loose.set_conditional_entry(lambda state, ctx: "see" if state["count"] and ctx.thread else "count", ["see", "count"])
loose.branch("count", above).to({"see": "see", "__end__": END})
loose.compile().route("count", {"count": 1}, arg=3, deps=Deps(), thread="t")
assert_type(RouterContext(node="count", deps=Deps()).deps, Deps)


# --- A state that nodes return whole


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0
    trail: list[int] = field(default_factory=list[int])


whole = GraphBuilder.overwrite(Point, name="whole")


@whole.node
def right(point: Point) -> Point:
    return Point(point.x + 1, point.y)


@whole.node
async def up(point: Point, ctx: Context) -> Point | None:
    return None if ctx.arg else Point(point.x, point.y + 1)


assert_type(whole, GraphBuilder[Point, Point])
assert_type(right(Point(1)), Point)
whole.add_node("left", lambda point: Point(point.x - 1))
assert_type(whole.compile().run(Point(1)).state.x, int)


# --- A pydantic model as update


class Chat(BaseModel, frozen=True):
    text: str = ""
    counts: Annotated[dict[str, int], merge] = {}
    words: list[str] = reduced(union, default_factory=list)


class ChatUpdate(BaseModel):
    text: str = ""
    counts: dict[str, int] = {}


chat = GraphBuilder(Chat, ChatUpdate)


@chat.node
def speak(state: Chat) -> ChatUpdate:
    return ChatUpdate(text=state.text.upper())


@chat.node
def turn(state: Chat) -> ChatUpdate | Command[ChatUpdate]:
    return Command(update=ChatUpdate(text="?"), goto=speak) if state.text else ChatUpdate(counts={"empty": 1})


chat.add_node("hush", lambda state: ChatUpdate(text=""))
assert_type(speak(Chat()), ChatUpdate)
assert_type(chat.compile().run(Chat(text="hello")).state.counts, dict[str, int])


#  A dataclass as update: fields that are not UNSET are written


@dataclass
class Move:
    x: int = UNSET
    y: int = UNSET


walk = GraphBuilder(Point, Move)


@walk.node
async def step(point: Point) -> Move:
    return Move(x=point.x + 1)


walk.add_node("stand", lambda point: Move()).add_node("jump", lambda point: Command(update=Move(y=1), goto=END))
assert_type(walk.compile().run({"x": 1}).state, Point)


# --- Child threads: the awaited result has the state of their graph


async def family(ctx: Context) -> int:
    graph = walk.compile()
    child = ctx.start(graph, {"x": 1}, name="walk", detached=True, title="A walk", tags={"kid"})
    assert_type(child, ChildThread[Point])
    assert_type(await ctx.astart(graph, Point(x=1)), ChildThread[Point])
    assert_type(ctx.wait(ChildThread(graph, child.thread)), Point)
    return (await ctx.await_(child)).x


# --- A reducer of the whole state: updates of any type


class Tally(BaseModel):
    n: int = 0


class Raised(BaseModel):
    by: int


class Cleared(BaseModel):
    pass


def count_up(state: Tally, update: int) -> Tally:
    return Tally(n=state.n + update)


def change(state: Tally, update: Raised | Cleared) -> Tally:
    return Tally(n=state.n + update.by) if isinstance(update, Raised) else Tally()


tally = GraphBuilder(Tally, int, reducer=count_up)


@tally.node
def two(state: Tally) -> int:
    return 2


@tally.node
def three(state: Tally) -> Command[int]:
    return Command(update=3, goto=END)


async def maybe(state: Tally, ctx: Context) -> int | None:
    return None


tally.add_node("maybe", maybe)
assert_type(tally.compile().run(Tally()).state, Tally)

changes = GraphBuilder(Tally, Raised | Cleared, reducer=change, name="changes")


@changes.node
def clear(state: Tally) -> Raised | Cleared:
    return Cleared()


changes.add_node("tally", tally.compile(), update_of=lambda number: Raised(by=number))


def leads(state: Tally) -> Literal["two", "__end__"]:
    return "two" if state.n else "__end__"


tally.add_conditional_edges(three, leads).set_conditional_entry(leads)
tally.add_conditional_edges(three, leads, [("two", "two"), ("__end__", END)])
