"""Graphs whose threads test the viewer: an agent with tools, a fan-out, a nested graph, questions, failures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Limits, Send, reducers
from graphrt.harness import Agent, Image, ScriptedModel, ToolCall, UserMessage, tool
from graphrt.reducers import add, append

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cfc0f01f0005000"
    "1ff9c3b3e5e0000000049454e44ae426082"
)
"""A picture of one pixel."""
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "javascript:document.title='owned'",
    "left \u202egnp.exe\u202c right\u200b\u2066isolate\u2069",
    "\x1b[31mred\x1b[0m \x07 \x00 \x7f \x9b31m",
    "\ud800 alone \udfff",
    "<!-- --!> ]]> ${x} {{x}} &lt;b&gt; \u2028\u2029",
)
"""Texts that a careless page or terminal would interpret."""
STORED = tuple(text for text in HOSTILE if "\ud800" not in text)
"""Those that can be stored: a lone surrogate cannot."""


class Verdict(BaseModel):
    """A decision on a letter."""

    do: Literal["send", "drop", "rewrite"]
    remark: str = ""
    copies: int = 1


class Search(BaseModel):
    question: str = ""
    notes: Annotated[list[str], append] = []
    calls: Annotated[int, add] = 0


inner = GraphBuilder(Search, name="look up")


@inner.node
def web(state: Search) -> dict[str, Any]:
    return {"notes": [f"web on {state.question}"], "calls": 1}


@inner.node
def books(state: Search) -> dict[str, Any]:
    return {"notes": [f"books on {state.question}"], "calls": 1}


inner.add_sequence([START, web, books, END])


class Desk(BaseModel):
    question: str = ""
    messages: Annotated[list[Any], reducers.messages] = []
    notes: Annotated[list[str], append] = []
    pages: Annotated[list[dict[str, Any]], append] = []
    calls: Annotated[int, add] = 0
    verdict: Verdict | None = None
    broken: bool = False
    answer: str = ""


def weather(city: str) -> dict[str, Any]:
    """The weather in a city.

    Args:
        city: Its name.
    """
    return {"city": city, "sky": "clear", "celsius": 21.5}


@tool(approval=True)
def send(to: str, text: str) -> str:
    """Send a letter."""
    return f"sent to {to}: {len(text)} characters"


def writer() -> Agent:
    """An agent that looks up the weather, and asks before it sends a letter."""
    return Agent(
        ScriptedModel(
            [
                ToolCall(id="w1", name="weather", arguments={"city": "Ulm"}),
                ToolCall(id="s1", name="send", arguments={"to": "ann", "text": "It is clear in Ulm."}),
                "The letter is on its way.",
            ]
        ),
        name="writer",
        tools=[weather, send],
        system="You write letters about the weather.",
        max_tokens=200,
    )


desk = GraphBuilder(Desk, name="desk")


@desk.node
def plan(state: Desk) -> dict[str, Any]:
    return {"notes": [f"plan for {state.question}"]}


@desk.node
def read(state: Desk, ctx: Context) -> dict[str, Any]:
    return {"pages": [{"page": ctx.arg, "words": 10 * ctx.arg}], "calls": 1}


desk.add_node("look_up", inner.compile())


@desk.node
async def write(state: Desk, ctx: Context) -> dict[str, Any]:
    said = UserMessage(content=[f"Write about {state.question}", Image.from_bytes(PIXEL)])
    reply = await ctx.harness.run([said])
    return {"messages": list(reply.messages), "answer": reply.text}


@desk.node
def approve(state: Desk, ctx: Context) -> dict[str, Any]:
    asked = {"draft": state.answer, "pages": len(state.pages)}
    return {"verdict": ctx.interrupt(asked, key="approve", answer_type=Verdict)}


@desk.node
def file(state: Desk) -> dict[str, Any]:
    if state.broken:
        raise ValueError(f"no shelf for {state.question!r}")
    return {"notes": ["filed"]}


def judged(state: Desk) -> Literal["again", "done"]:
    return "again" if state.verdict is not None and state.verdict.do == "rewrite" else "done"


desk.add_edge(START, plan)
desk.add_conditional_edges(plan, lambda _: [Send(read, n) for n in (1, 2, 3)], [read])
desk.add_sequence([read, "look_up", write, approve])
desk.add_conditional_edges(approve, judged, {"again": plan, "done": file})
desk.add_edge(file, END)
letters = desk.compile()


class Long(BaseModel):
    items: Annotated[list[Any], append] = []
    table: dict[str, Any] = {}
    n: Annotated[int, add] = 0


def ring(nodes: int, steps: int) -> Any:
    """Return a graph of *nodes* nodes in a ring, and whose runs take *steps* steps."""
    g = GraphBuilder(Long, name="ring")

    def work(state: Long, ctx: Context) -> dict[str, Any]:
        n = state.n
        return {"items": [{"n": n, "text": f"item {n}"}], "table": {**state.table, f"k{n % 20}": n}, "n": 1}

    names = [f"node {at}" for at in range(nodes)]
    for name in names:
        g.add_node(name, work)
    g.add_edge(START, names[0])
    for at, name in enumerate(names):
        after = names[(at + 1) % nodes]
        g.add_conditional_edges(name, lambda state: "on" if state.n < steps else "out", {"on": after, "out": END})
    return g.compile(limits=Limits(max_steps=steps + 1, max_visits=steps + 1))


class Loose(BaseModel):
    """A state with arbitrary values."""

    text: Any = ""
    texts: Annotated[list[Any], append] = []
    table: dict[str, Any] = {}


def deep(levels: int) -> Any:
    """Return nested lists, *levels* deep."""
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


hostile_builder = GraphBuilder(Loose, name="<b onclick=alert(1)>hostile</b>")


@hostile_builder.node
def spoil(state: Loose, ctx: Context) -> dict[str, Any]:
    ctx.effect("</script><script>", lambda: list(STORED))
    return {
        "texts": list(STORED),
        "table": {
            **{text: text for text in STORED},
            "__proto__": {"polluted": True},
            "$cut": {"kind": "text", "size": 1, "ref": None},
            "constructor": 1,
            "big": 2**70,
            "nan": float("nan"),
            "bytes": b"\x00\xff" * 10,
        },
    }


@hostile_builder.node
def weigh(state: Loose) -> dict[str, Any]:
    return {"text": "<b>long</b> " * 900_000, "texts": [deep(90)]}


@hostile_builder.node
def ask(state: Loose, ctx: Context) -> dict[str, Any]:
    return {"text": ctx.interrupt({"question": HOSTILE[0], "more": HOSTILE[2]}, key="<i>")}


@hostile_builder.node
def fail(state: Loose) -> dict[str, Any]:
    raise ValueError(HOSTILE[0])


hostile_builder.add_sequence([START, spoil, weigh, ask, fail, END])
hostile = hostile_builder.compile()
