"""The graph of the claims desk: its state, tools, agents, nodes and edges."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, Field

from graphrt import END, START, Command, Context, GraphBuilder
from graphrt.harness import (
    Agent,
    AssistantMessage,
    Compaction,
    Document,
    Handoff,
    Message,
    Retry,
    ToolContext,
    tool,
)
from graphrt.memory import memory_tools
from graphrt.reducers import append

MODEL = "openai/gpt-4o-mini"
LIMIT = 500
"""Amounts up to this one, in euros, are paid without asking a person."""


class State(BaseModel):
    """One conversation with a customer. A thread keeps it, and each run is one more turn."""

    customer: str
    messages: Annotated[list[Message], append] = []
    damage: str = ""
    amount: int = 0
    """Euros of the undecided claim; 0 if there is none."""


class Update(TypedDict, total=False):
    """The fields that nodes and tools write, and the input of a further turn."""

    customer: str
    messages: list[Message]
    damage: str
    amount: int


class Desk:
    """The outside world: the files of the customers, and the bank. A payment is irreversible."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.paid: list[tuple[str, int]] = []

    def pay(self, customer: str, amount: int) -> str:
        """Pay *amount* euros; returns the receipt."""
        self.paid.append((customer, amount))
        return f"receipt {len(self.paid)}"


Call = ToolContext[Desk, State]


def place(context: Call) -> str:
    """The namespace of the memory for the customer of a tool call."""
    return f"customers/{context.state.customer}"


@tool(effect="pure")
def open_file(name: str, context: Call) -> Document:
    """Open a file that the customer has sent, such as an invoice."""
    return Document.from_bytes(context.deps.files[name], name=name)


@tool(writes=["damage", "amount"])
def assess(damage: str, amount: Annotated[int, Field(gt=0)]) -> Command[Any]:
    """Write down what is damaged, and how many euros its repair costs."""
    return Command(update={"damage": damage, "amount": amount}, result=f"Assessed: {damage}, {amount} euros.")


@tool(reads=["amount"], goto=["approve", "pay"])
def settle(context: Call) -> Command[Any]:
    """Settle the claim as it was assessed."""
    if not context.state.amount:
        raise Retry("Assess the claim before you settle it.")
    return Command(goto="approve" if context.state.amount > LIMIT else "pay")


def promises_nothing(answer: str) -> None:
    """Refuse an answer that promises money: only the node that pays may do that."""
    if re.search(r"\b(pay|paid|refund)", answer, re.IGNORECASE):
        raise Retry("Do not promise a payment. Settle the claim, or say what is missing.")


# Both agents send only the end of a long conversation; the state and the journal keep all of it.
short = Compaction(tokens=16_000, keep=20, summarise=MODEL)

assessor = Agent(
    MODEL,
    name="assessor",
    system="Compare the photo with the invoice. Assess the damage, then settle the claim.",
    tools=[open_file, assess, settle],
    check=promises_nothing,
    compaction=short,
)
reception = Agent(
    MODEL,
    name="reception",
    system="Answer questions. Look up what is known of the customer. Hand claims over to the assessor.",
    tools=memory_tools(place, reads=["customer"]),
    handoffs=[Handoff(assessor, description="For a claim: a photo of the damage, and an invoice.")],
    compaction=short,
)

g = GraphBuilder(State, Update, name="claims")
g.add_node("talk", reception)  # continues the conversation in `messages`


@g.node(goto=["pay", END])
def approve(state: State, ctx: Context[Desk]) -> Command[Update]:
    """Ask a person about a large amount."""
    question = {"customer": state.customer, "damage": state.damage, "amount": state.amount}
    if ctx.interrupt(question, key="approve", answer_type=bool):
        return Command(goto="pay")
    return Command(update={"amount": 0, "messages": says("We cannot pay for this.")}, goto=END)


@g.node
def pay(state: State, ctx: Context[Desk]) -> Update:
    """Pay once despite failures, and remember it."""
    receipt = ctx.effect("pay", ctx.deps.pay, state.customer, state.amount, kind="once")
    fact = f"{state.amount} euros for: {state.damage}"
    ctx.memory.put(f"customers/{state.customer}", f"claim {receipt}", fact)
    return {"amount": 0, "messages": says(f"We have paid {fact} ({receipt}).")}


def says(text: str) -> list[Message]:
    """A message of the desk, as an update of the conversation."""
    return [AssistantMessage(text=text)]


g.add_edge(START, "talk")
g.add_edge("talk", END)  # unless a tool of the assessor routes elsewhere
g.add_edge(pay, END)
graph = g.compile()
