"""The graph of the router: topics, refunds by amount, a search that is widened, and the routes to a person."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Command, Context, GraphBuilder, RetryPolicy
from graphrt.reducers import append

ARTICLES = {
    "change password": "Sign in again after a change of the password; old sessions end.",
    "export": "Choose File, then Export.",
}
LIMIT = 50.0
"""Refunds up to this amount, in euros, are paid without a person."""


class State(BaseModel):
    """A ticket, and the known facts about it."""

    text: str
    customer: Literal["free", "pro"] = "free"
    order: str = ""
    topic: str = ""
    amount: float | None = None
    query: list[str] = []
    article: str = ""
    replies: Annotated[list[str], append] = []
    queue: str = ""


class Update(TypedDict, total=False):
    """The fields that nodes write."""

    topic: str
    amount: float | None
    query: list[str]
    article: str
    replies: list[str]
    queue: str


class Shop(Protocol):
    """The outside world."""

    def amount_of(self, order: str) -> float | None:
        """The amount paid for an order, in euros; None if it does not exist."""
        ...

    def pay_back(self, order: str, amount: float) -> str:
        """Pay *amount* back; returns a receipt."""
        ...


g = GraphBuilder(State, Update, name="ticket-router")


@g.node
def label(state: State) -> Update:
    words = state.text.lower()
    topic = next((topic for topic in ("refund", "outage", "how do i", "unsubscribe") if topic in words), "other")
    return {"topic": topic}


@g.node(retry=RetryPolicy(attempts=3, wait_initial_s=2, jitter=False), on_error="hand_over")
def find_order(state: State, ctx: Context[Shop]) -> Update:
    return {"amount": ctx.deps.amount_of(state.order)}


@g.node
def ask_for_order(_state: State) -> Update:
    return {"replies": ["Which order is it about?"]}


@g.node
def refund(state: State, ctx: Context[Shop]) -> Update:
    receipt = ctx.effect("pay back", ctx.deps.pay_back, state.order, state.amount or 0.0, kind="once")
    return {"replies": [f"Your money is on its way: {receipt}."]}


@g.node(max_visits=3, on_fatigue="hand_over")
def search(state: State) -> Update:
    """Search for the longest of all queries first; `widen` makes it shorter."""
    query = state.query or state.text.lower().removeprefix("how do i").strip(" ?").split()
    return {"query": query, "article": ARTICLES.get(" ".join(query), "")}


@g.node
def widen(state: State) -> Update:
    return {"query": state.query[:-1]}


@g.node
def reply(state: State) -> Update:
    return {"replies": [state.article]}


@g.node(goto=["page_engineer", "hand_over"])
def check_plan(state: State) -> Command[Update]:
    """Wake an engineer for an outage of a paying customer."""
    if state.customer == "pro":
        return Command(update={"replies": ["An engineer is looking into it."]}, goto="page_engineer")
    return Command(goto="hand_over")


@g.node
def page_engineer(_state: State) -> Update:
    return {"queue": "on-call"}


@g.node
def hand_over(state: State, ctx: Context[Shop]) -> Update:
    return {"queue": "order-system-down" if ctx.error else f"people, {state.topic}"}


def by_topic(state: State) -> str:
    if state.topic == "refund" and not state.order:
        return "which order"
    return state.topic


def by_amount(state: State) -> Literal["unknown", "small", "large"]:
    if state.amount is None:
        return "unknown"
    return "small" if state.amount <= LIMIT else "large"


def by_article(state: State) -> Literal["found", "wider", "nothing"]:
    if state.article:
        return "found"
    return "wider" if len(state.query) > 1 else "nothing"


g.add_edge(START, label)
g.add_conditional_edges(
    label,
    by_topic,
    {
        "refund": find_order,
        "which order": ask_for_order,
        "outage": check_plan,
        "how do i": search,
        "unsubscribe": END,
    },
    default=hand_over,
)
g.add_conditional_edges(find_order, by_amount, {"unknown": ask_for_order, "small": refund, "large": hand_over})
g.add_conditional_edges(search, by_article, {"found": reply, "wider": widen, "nothing": hand_over})
g.add_edge(widen, search)
for last in (ask_for_order, refund, reply, page_engineer, hand_over):
    g.add_edge(last, END)
graph = g.compile()
