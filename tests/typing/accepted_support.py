"""A support desk: dependencies, commands, sends, a join, an approval, a nested graph. Both checkers accept it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Protocol, TypedDict

from graphrt import DELETE, END, START, Command, Context, GraphBuilder, Limits, RetryPolicy, Runtime, Send
from graphrt.reducers import append, reduced


class Search(Protocol):
    def find(self, words: str, *, most: int) -> list[str]: ...


@dataclass
class Desk:
    search: Search
    signature: str


class Kind(Enum):
    QUESTION = "question"
    COMPLAINT = "complaint"


@dataclass(frozen=True)
class Ticket:
    text: str
    kind: Kind = Kind.QUESTION
    sources: list[str] = field(default_factory=list[str])
    findings: list[str] = reduced(append, default_factory=list[str])
    draft: str | None = None
    approved: bool = False


class Change(TypedDict, total=False):
    kind: Kind
    sources: list[str]
    findings: list[str]
    draft: str
    approved: bool


desk = GraphBuilder(Ticket, Change, name="desk")


@desk.node
def classify(ticket: Ticket) -> Change:
    return {"kind": Kind.COMPLAINT if "refund" in ticket.text else Kind.QUESTION}


@desk.node(retry=RetryPolicy(attempts=3), timeout_s=20, writes=["sources"])
def lookup(ticket: Ticket, ctx: Context[Desk]) -> Change:
    return {"sources": ctx.deps.search.find(ticket.text, most=3)}


@desk.node(name="read", on_error="apologise", max_visits=None)
async def read_source(ticket: Ticket, ctx: Context[Desk]) -> Change | None:
    return {"findings": [f"{ctx.arg}: {ticket.text}"]} if ctx.arg else None


def signed(text: str, *, by: str) -> str:
    return f"{text}\n-- {by}"


@desk.node
def write(ticket: Ticket, ctx: Context[Desk]) -> Change:
    sign = partial(signed, by=ctx.deps.signature)
    return {"draft": sign("\n".join(ticket.findings))}


@desk.node(goto=["write", END])
def approve(ticket: Ticket, ctx: Context) -> Command[Change]:
    answer = ctx.interrupt({"draft": ticket.draft})
    if answer == "yes":
        return Command(update={"approved": True}, goto=END)
    return Command(update={"draft": DELETE}, goto="write")


def each_source(ticket: Ticket) -> Sequence[Send]:
    return [Send(read_source, source) for source in ticket.sources]


def kind(ticket: Ticket) -> Kind:
    return ticket.kind


desk.add_node("apologise", lambda ticket: {"draft": f"Sorry about {ticket.text}"})
desk.add_edge(START, classify)
desk.branch(classify, kind).to({Kind.QUESTION: lookup, Kind.COMPLAINT: "apologise"})
desk.add_conditional_edges(lookup, each_source, [read_source])
desk.add_join([read_source], write, when="any").add_edge(write, approve).set_finish("apologise")
graph = desk.compile(limits=Limits(max_steps=50), allow=["unreachable-node"])


def drive(search: Search) -> None:
    with Runtime(graph, store="memory:", deps=Desk(search, "Ada"), seed=1) as runtime:
        result = runtime.run({"text": "Where is it?"}, thread="t1")
        while result.status == "interrupted":
            result = runtime.resume("t1", "yes")
        approved: bool = result.state.approved
        draft = runtime.state("t1").values.draft
        print(approved, draft.splitlines() if draft else result.interrupts)  # noqa: T201
