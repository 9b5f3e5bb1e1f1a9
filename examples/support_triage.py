"""A support desk: a ticket is classified, answered from a knowledge base, read by a person where it matters, sent once.

Run it with `python -m examples.support_triage`; models of this file answer, or a real one:
`python -m examples.support_triage --model openai/gpt-4o-mini` (needs `graphrt[litellm]` and a key).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.harness import Agent, ChatModel, FunctionModel, ModelRequest

ARTICLES = {
    "billing": "A charge that was made twice is paid back within five days.",
    "technical": "Sign in again after a change of the password; old sessions end.",
}


class Triage(BaseModel):
    """What the classifier makes of it."""

    topic: Literal["billing", "technical", "other"]
    angry: bool = False


class Verdict(BaseModel):
    """What a person says of a draft; `text` is a better one, or the remark that the writer is given."""

    do: Literal["send", "rewrite", "drop"]
    text: str = ""


class State(BaseModel):
    """A ticket on its way through the desk."""

    number: int
    customer: str
    ticket: str
    triage: Triage | None = None
    article: str = ""
    draft: str = ""
    verdict: Verdict | None = None
    receipt: str = ""


class Update(TypedDict, total=False):
    """What nodes write."""

    triage: Triage
    article: str
    draft: str
    verdict: Verdict
    receipt: str


class Desk:
    """The world outside: what is done here cannot be taken back."""

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
    """Ask a person, and do what they say in the same task: an answer that was acted upon cannot be replaced."""
    question = {"ticket": state.ticket, "draft": state.draft}
    verdict = ctx.interrupt(question, key="approve", answer_type=Verdict)
    if verdict.do != "send":
        return {"verdict": verdict}
    return {"verdict": verdict, "receipt": deliver(state, ctx, verdict.text or state.draft)}


@g.node
def send(state: State, ctx: Context[Desk]) -> Update:
    return {"receipt": deliver(state, ctx, state.draft)}


def deliver(state: State, ctx: Context[Desk], text: str) -> str:
    """Send *text* once, whatever happens before and after; to close a ticket twice does no harm."""
    if not text.strip():
        raise ValueError("an empty answer is not sent")
    receipt = ctx.effect("send", ctx.deps.send, state.customer, text, kind="once")
    ctx.effect("close", ctx.deps.close, state.number)
    return receipt


def risk(state: State) -> Literal["ask", "send"]:
    """What speaks of money, answers anger or has no article is read by a person."""
    harmless = state.article and state.triage and not state.triage.angry and "paid back" not in state.draft
    return "send" if harmless else "ask"


def decided(state: State) -> Literal["again", "done"]:
    return "again" if state.verdict and state.verdict.do == "rewrite" else "done"


g.add_sequence([START, classify, look_up, write])
g.add_conditional_edges(write, risk, {"ask": approve, "send": send})
g.add_conditional_edges(approve, decided, {"again": write, "done": END})
g.add_edge(send, END)
graph = g.compile()


def read(request: ModelRequest) -> dict[str, Any]:
    """Stands for a model that classifies."""
    text = request.text.lower()
    topic = "billing" if "charge" in text else "technical" if "sign in" in text else "other"
    return {"topic": topic, "angry": "!" in text}


def answer(request: ModelRequest) -> str:
    """Stands for a model that writes."""
    lines = dict(line.split(": ", 1) for line in request.text.splitlines())
    thanks = "We are sorry." if "Remark" in lines else "Thank you for asking."
    return f"{thanks} {lines['Article']}"


def offline() -> dict[str, ChatModel]:
    return {"classifier": FunctionModel(read), "writer": FunctionModel(answer)}


def main() -> None:
    """Two tickets: one is answered at once, about the other a person is asked twice."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="a model of litellm, such as openai/gpt-4o-mini")
    asked = parser.parse_args()
    models: Mapping[str, ChatModel | str] = offline()
    if asked.model:
        models = {name: str(asked.model) for name in models}
    verdicts = iter([Verdict(do="rewrite", text="say sorry"), Verdict(do="send")])
    desk = Desk()
    with Runtime(graph, store="memory:", deps=desk, models=models) as runtime:
        for number, text in enumerate(["I cannot sign in.", "You charged me twice!"], 1):
            thread = f"ticket-{number}"
            ticket = {"number": number, "customer": f"c{number}@example.org", "ticket": text}
            result = runtime.run(ticket, thread=thread)
            while result.interrupts:
                print("asked:", result.interrupts[0].payload["draft"])
                result = runtime.resume(thread, next(verdicts, Verdict(do="send")))
    for customer, text in desk.sent:
        print(f"sent to {customer}: {text}")


if __name__ == "__main__":
    main()
