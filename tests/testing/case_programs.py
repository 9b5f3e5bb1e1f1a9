"""Programs whose runs the tests of `case_of` record: each a module in a correct and a broken version."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from graphrt.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = '''
from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import typing_extensions as te
from pydantic import BaseModel

from graphrt import END, START, Budget, Command, Context, GraphBuilder, RetryPolicy, Send
from graphrt.errors import BudgetExceededError
from graphrt.harness import Agent, FunctionModel, ModelResponse, ScriptedModel, ToolCall, tool
from graphrt.reducers import add, append

outside = []


class State(te.TypedDict, total=False):
    topic: str
    notes: Annotated[list[str], append]
    total: Annotated[int, add]


def pay(what: str) -> str:
    outside.append(what)
    return f"receipt {len(outside)}"


@tool
def look(what: str) -> str:
    """Look up a price."""
    return pay(what)


def line(*nodes: Any, state: Any = State, name: str = "program", **policies: Any) -> Any:
    builder: Any = GraphBuilder(state, name=name)
    names = []
    for node in nodes:
        names.append(node[0] if isinstance(node, tuple) else node.__name__)
        builder.add_node(*(node if isinstance(node, tuple) else (node.__name__, node)), **policies.get(names[-1], {}))
    for left, right in zip([START, *names], [*names, END]):
        builder.add_edge(left, right)
    return builder.compile()
'''


@dataclass(frozen=True)
class Program:
    """A module, the change that breaks it, and the way to run its thread."""

    source: str
    whole: str
    broken: str
    run: Callable[[Any], Any]
    failed: bool = False
    """Whether the broken version is the one that ran in production, and failed."""
    before: str | None = None
    """The node whose step starts the case; None selects the last step."""
    options: str = ""
    """The additions of a person to `replay_case(graph, CASE)`."""
    says: str = ""
    """The expected texts of the file."""

    def text(self, version: str) -> str:
        assert self.source.count(self.whole) == 1
        return HEAD + dedent(self.source).replace(self.whole, version)


def to_the_end(runtime: Any, **values: Any) -> None:
    result = runtime.run({"topic": "tea", **values}, thread="order-17")
    while result.interrupts:
        result = runtime.resume("order-17", answer="yes")


def until_it_fails(runtime: Any) -> None:
    with pytest.raises(NodeError):
        to_the_end(runtime)


def asked(runtime: Any) -> None:
    assert runtime.run({"topic": "tea"}, thread="order-17").interrupts


def forked(runtime: Any) -> None:
    runtime.run({"topic": "tea"}, thread="first")
    runtime.fork("first", at=runtime.history("first")[-1].seq, to="order-17")
    runtime.update("order-17", {"topic": "milk"})
    runtime.retry("order-17")


def retried(runtime: Any) -> None:
    sys.modules[runtime.graph.name].fails.append(True)
    until_it_fails(runtime)
    sys.modules[runtime.graph.name].fails.clear()
    runtime.retry("order-17")


PROGRAMS = {
    "router": Program(
        """
        def count(state: State) -> Any:
            return {"total": len(state["topic"])}

        def route(state: State) -> str:
            return "more" if state["total"] < 6 else "enough"

        builder: Any = GraphBuilder(State, name="program")
        builder.add_node("count", count, max_visits=9)
        builder.add_edge(START, "count")
        builder.add_conditional_edges("count", route, {"more": "count", "enough": END})
        graph = builder.compile()
        """,
        whole='state["total"] < 6',
        broken='state["total"] < 7',
        run=to_the_end,
        says="assert step.next == ()",
    ),
    "agent with a tool": Program(
        """
        model = ScriptedModel([ToolCall(id="1", name="look", arguments={"what": "tea"}), "Tea costs 3."])
        agent = Agent(model, tools=[look], name="buyer")

        async def ask(state: State, ctx: Context) -> Any:
            reply = await agent.run(f"What does {state['topic']} cost?")
            return {"notes": [reply.text.upper()], "total": reply.usage.calls}

        graph = line(ask)
        """,
        whole="reply.text.upper()",
        broken="reply.text.lower()",
        run=to_the_end,
        says="tool look: receipt 1",
    ),
    "nested graphs with a question": Program(
        """
        def buy(state: State, ctx: Context) -> Any:
            paid = ctx.effect("pay", pay, state["topic"], kind="once")
            return {"notes": [paid, ctx.interrupt("and more?"), ctx.effect("pay", pay, "milk")]}

        async def plan(state: State, ctx: Context) -> Any:
            return {"notes": [(await Agent(FunctionModel(lambda asked: pay("model")), name="a").run("Plan.")).text]}

        def close(state: State) -> Any:
            return {"notes": [f"{len(state['notes'])} notes"]}

        inner = line(plan, ("shop", line(buy, close, name="shop")), name="team")
        graph = line(("team", inner))
        """,
        whole="{len(state['notes'])} notes",
        broken="{len(state['notes'])} lines",
        run=to_the_end,
        says="2.0:shop/1.0:buy, answer: yes",
    ),
    "fork": Program(
        """
        def write(state: State, ctx: Context) -> Any:
            return {"notes": [f"{state['topic']}: {ctx.effect('pay', pay, 'ink')}, {ctx.random.random()}"]}

        graph = line(write)
        """,
        whole="{state['topic']}: ",
        broken="{state['topic']}; ",
        run=forked,
        says="milk: receipt 2",
    ),
    "failure": Program(
        """
        def price(state: State, ctx: Context) -> Any:
            prices = {"milk": 2}
            ctx.effect("pay", pay, "a look at the list")
            return {"total": prices.get(state["topic"], 0)}

        graph = line(price)
        """,
        whole='prices.get(state["topic"], 0)',
        broken='prices[state["topic"]]',
        run=until_it_fails,
        failed=True,
        says="NodeError: Node 'price' failed: KeyError: 'tea'",
    ),
    "failure after a model's reply, in a nested graph": Program(
        """
        async def ask(state: State, ctx: Context) -> Any:
            text = (await Agent(ScriptedModel(["three"]), name="a").run("How much?")).text
            return {"total": {"three": 3}.get(text, 0) if text else 0}

        graph = line(("team", line(ask, name="team")))
        """,
        whole='{"three": 3}.get(text, 0)',
        broken="int(text)",
        run=until_it_fails,
        failed=True,
        says="1.0:team/1.0:ask, model: three",
    ),
    "large state": Program(
        """
        def load(state: State) -> Any:
            return {"notes": [f"{i} " + "x" * 400 for i in range(1_000)]}

        def count(state: State) -> Any:
            return {"total": sum(len(note) for note in state["notes"]), "notes": [state["notes"][-1]]}

        graph = line(load, count)
        """,
        whole='sum(len(note) for note in state["notes"])',
        broken='len(state["notes"])',
        run=to_the_end,
        says="characters)",
    ),
    "large update": Program(
        """
        def load(state: State) -> Any:
            return {"notes": [f"{i} " + state["topic"] * 20 for i in range(100)]}

        graph = line(load)
        """,
        whole='state["topic"] * 20',
        broken='state["topic"] * 19',
        run=to_the_end,
        says="LOAD_WROTE = {",
    ),
    "fan-out and Command": Program(
        """
        def split(state: State) -> Any:
            return Command(goto=[Send("work", "a"), Send("work", "b"), "rest"])

        def work(state: State, ctx: Context) -> Any:
            return {"notes": [ctx.arg + ctx.effect("pay", pay, ctx.arg)]}

        def rest(state: State) -> Any:
            return Command(update={"total": 1}, goto=END)

        builder: Any = GraphBuilder(State, name="program")
        builder.add_node("split", split, goto=["work", "rest"])
        builder.add_node("work", work)
        builder.add_node("rest", rest, goto=[END])
        builder.add_edge(START, "split")
        builder.add_edge("work", END)
        graph = builder.compile()
        """,
        whole='{"notes": [ctx.arg + ',
        broken='{"notes": ["?" + ',
        run=to_the_end,
        before="work",
        says="assert step['2.0:rest'].goto == ('END',)",
    ),
    "question": Program(
        """
        def ask(state: State, ctx: Context) -> Any:
            paid = ctx.effect("pay", pay, "draft")
            return {"notes": [ctx.interrupt({"draft": f"{state['topic']}, {paid}"})]}

        graph = line(ask)
        """,
        whole="{state['topic']}, {paid}",
        broken="{paid}",
        run=asked,
        says="assert step.asked == ({'draft': 'tea, receipt 1'},)",
    ),
    "models, dates and other types": Program(
        """
        class Line(BaseModel):
            what: str
            due: date

        @dataclass
        class Box:
            size: float

        class Order(BaseModel):
            topic: str
            lines: Annotated[list[Line], append] = []
            boxes: tuple[Box, ...] = ()
            tags: set[str] = set()

        def pack(state: Order) -> Any:
            day = date(2026, 1, len(state.topic))
            return {"lines": [Line(what=state.topic, due=day)], "boxes": (Box(1.5),), "tags": {"b", "a"}}

        graph = line(pack, state=Order)
        """,
        whole="date(2026, 1, len(state.topic))",
        broken="date(2026, 2, len(state.topic))",
        run=to_the_end,
        says="'due': '2026-01-03'",
    ),
    "failure that a handler took": Program(
        """
        def risky(state: State, ctx: Context) -> Any:
            ctx.effect("pay", pay, "risk")
            raise ValueError("no " + state["topic"])

        def rescue(state: State, ctx: Context) -> Any:
            return {"notes": [str(ctx.error)]}

        builder: Any = GraphBuilder(State, name="program")
        builder.add_node("risky", risky, on_error="rescue")
        builder.add_node("rescue", rescue)
        builder.add_edge(START, "risky")
        builder.add_edge("risky", END)
        builder.add_edge("rescue", END)
        graph = builder.compile()
        """,
        whole='"no " + state["topic"]',
        broken='"no idea"',
        run=to_the_end,
        before="risky",
        says="assert step['1.0:risky'].failed == 'ValueError: no tea'",
    ),
    "failure that a retry mended": Program(
        """
        fails = []

        async def ask(state: State, ctx: Context) -> Any:
            said = len(outside)
            text = (await Agent(FunctionModel(lambda asked: pay("model")), name="a").run("Hello?")).text
            if fails:
                raise ValueError("broken")
            return {"notes": [f"said {text}"]}

        graph = line(ask, name=__name__)
        """,
        whole="said {text}",
        broken="heard {text}",
        run=retried,
        says="model: receipt 2",
    ),
    "a value of 400 KB": Program(
        """
        def load(state: State) -> Any:
            return {"notes": ["".join(f"{i:06} " for i in range(60_000))]}

        def last(state: State) -> Any:
            return {"notes": [state["notes"][0].split()[-1]], "total": len(state["notes"][0])}

        graph = line(load, last)
        """,
        whole=".split()[-1]",
        broken=".split()[-2]",
        run=to_the_end,
        says="'notes': ['059999'], 'total': 420000",
    ),
    "retries of a policy": Program(
        """
        tries = []

        def fetch(state: State, ctx: Context) -> Any:
            paid = ctx.effect("pay", pay, "a look", kind="once")
            tries.append(ctx.attempt)
            if ctx.attempt < 3:
                raise ConnectionError("lost")
            return {"notes": [f"{paid}, attempt {ctx.attempt}"]}

        quick = RetryPolicy(attempts=3, wait_initial_s=0.0, jitter=False)
        graph = line(fetch, fetch={"retry": quick})
        """,
        whole="attempt {ctx.attempt}",
        broken="try {ctx.attempt}",
        run=to_the_end,
        says="receipt 1, attempt 3",
    ),
    "budget that is short": Program(
        """
        agent = Agent(ScriptedModel(["Tea costs 3.", "Milk costs 2."]), name="a")

        async def ask(state: State, ctx: Context) -> Any:
            said = []
            try:
                for what in (state["topic"], "milk"):
                    said.append((await ctx.bind(agent).run(what)).text)
            except BudgetExceededError as error:
                said.append("no more: " + ", ".join(said))
            return {"notes": said}

        graph = line(ask, ask={"budget": Budget(calls=1)})
        """,
        whole='"no more: " + ',
        broken='"nothing: " + ',
        run=to_the_end,
        says="no more: Tea costs 3.",
    ),
}
