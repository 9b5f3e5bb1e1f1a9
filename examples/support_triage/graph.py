"""The graph of the support desk: its state, agents, nodes, routers and edges."""

from __future__ import annotations

from typing import Literal, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder
from graphrt.harness import Agent

ARTICLES = {
    "billing": "A charge that was made twice is paid back within five days.",
    "technical": "Sign in again after a change of the password; old sessions end.",
}


class Triage(BaseModel):
    """The classification of a ticket."""

    topic: Literal["billing", "technical", "other"]
    angry: bool = False


class Verdict(BaseModel):
    """The verdict of a person on a draft; `text` is a better one, or a remark for the writer."""

    do: Literal["send", "rewrite", "drop"]
    text: str = ""


class State(BaseModel):
    """A ticket in progress."""

    number: int
    customer: str
    ticket: str
    triage: Triage | None = None
    article: str = ""
    draft: str = ""
    verdict: Verdict | None = None
    receipt: str = ""


class Update(TypedDict, total=False):
    """The fields that nodes write."""

    triage: Triage
    article: str
    draft: str
    verdict: Verdict
    receipt: str


class Desk:
    """The outside world, whose effects are irreversible."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.closed: list[int] = []

    def send(self, customer: str, text: str) -> str:
        """Send a mail; returns its receipt."""
        self.sent.append((customer, text))
        return f"mail {len(self.sent)}"

    def close(self, number: int) -> None:
        """Close the ticket in the tracker."""
        self.closed.append(number)


classifier = Agent("openai/gpt-4o-mini", name="classifier", system="You classify support tickets.", output=Triage)
writer = Agent("openai/gpt-4o-mini", name="writer", system="You answer in two sentences, from the article alone.")

g = GraphBuilder(State, Update, name="support")


@g.node
async def classify(state: State, ctx: Context[Desk]) -> Update:
    return {"triage": (await ctx.bind(classifier).run(state.ticket)).output}


@g.node
def look_up(state: State) -> Update:
    return {"article": ARTICLES.get(state.triage.topic, "") if state.triage else ""}


@g.node
async def write(state: State, ctx: Context[Desk]) -> Update:
    remark = f"\nRemark: {state.verdict.text}" if state.verdict else ""
    reply = await ctx.bind(writer).run(f"Ticket: {state.ticket}\nArticle: {state.article}{remark}")
    return {"draft": reply.text}


@g.node
def approve(state: State, ctx: Context[Desk]) -> Update:
    """Ask a person, and act on the answer in the same task: an answer that an effect depends on cannot be replaced."""
    question = {"ticket": state.ticket, "draft": state.draft}
    verdict = ctx.interrupt(question, key="approve", answer_type=Verdict)
    if verdict.do != "send":
        return {"verdict": verdict}
    return {"verdict": verdict, "receipt": deliver(state, ctx, verdict.text or state.draft)}


@g.node
def send(state: State, ctx: Context[Desk]) -> Update:
    return {"receipt": deliver(state, ctx, state.draft)}


def deliver(state: State, ctx: Context[Desk], text: str) -> str:
    """Send *text* once despite failures; closing a ticket twice is harmless."""
    if not text.strip():
        raise ValueError("an empty answer is not sent")
    receipt = ctx.effect("send", ctx.deps.send, state.customer, text, kind="once")
    ctx.effect("close", ctx.deps.close, state.number)
    return receipt


def risk(state: State) -> Literal["ask", "send"]:
    """A person reads answers about money, answers to anger, and answers without an article."""
    harmless = state.article and state.triage and not state.triage.angry and "paid back" not in state.draft
    return "send" if harmless else "ask"


def decided(state: State) -> Literal["again", "done"]:
    return "again" if state.verdict and state.verdict.do == "rewrite" else "done"


g.add_sequence([START, classify, look_up, write])
g.add_conditional_edges(write, risk, {"ask": approve, "send": send})
g.add_conditional_edges(approve, decided, {"again": write, "done": END})
g.add_edge(send, END)
graph = g.compile()
