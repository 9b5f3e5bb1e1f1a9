"""A long text with needles and amounts, and models that decide by rules from their prompt."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from graphrt import START, CompiledGraph, GraphBuilder
from graphrt.harness import AgentReply, ChatModel, FunctionModel, ModelRequest, ToolCall
from graphrt.nodes import recursive

QUESTION = "What is the code word of each vault, and what do all refunds add up to?"
REFUNDS = "What do the amounts of the records of kind refund add up to?"
CODES = {"north": "heron", "south": "otter", "west": "lynx"}


class State(BaseModel):
    book: Any = ""
    answer: str = ""
    error: str = ""


@dataclass(frozen=True)
class Book:
    """Records, one on each line, and the needles in them."""

    text: str
    refunds: int

    @property
    def answer(self) -> str:
        return f"{', '.join(f'{vault}: {code}' for vault, code in CODES.items())}; refunds: {self.refunds}"


def book(size: int, seed: int = 1) -> Book:
    """Return at least *size* characters of records with three needles."""
    chance, lines, refunds, length = random.Random(seed), [], 0, 0
    while length < size:
        kind, amount = chance.choice(["refund", "sale", "fee"]), chance.randrange(1, 1_000)
        refunds += amount if kind == "refund" else 0
        lines.append(
            f"record {len(lines):07d} kind={kind} amount={amount} customer=c{chance.randrange(500)} - as agreed"
        )
        length += len(lines[-1]) + 1
    for share, (vault, code) in enumerate(CODES.items(), 1):
        lines.insert(len(lines) * share // 4, f"memo: the code word of the {vault} vault is {code}")
    return Book("\n".join(lines), refunds)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=name, name=name, arguments=arguments)


def calls(*several: ToolCall) -> AgentReply:
    return AgentReply(tool_calls=several)


def head_of(request: ModelRequest) -> str:
    """The question, the facts, the notes and the log of a reader's prompt."""
    return request.messages[1].text


def librarian(request: ModelRequest) -> Any:
    """A model that reads: search for the memos, note their content, add up the refunds, answer."""
    head, last = head_of(request), request.messages[-1]
    codes = dict(re.findall(r"- (\w+): (\w+)", head.partition("Notes:")[2]))
    if not codes:
        found = dict(re.findall(r"code word of the (\w+) vault is (\w+)", last.text))
        if not found:
            return call("search", query="memo: the code word of the * vault is", syntax="glob", around=80)
        return calls(*(call("note", text=f"{vault}: {code}") for vault, code in found.items()))
    total = re.search(r"sum = (\d+)", last.text)
    if total is None:
        return call("map", question=REFUNDS, combine="sum")
    told = ", ".join(f"{vault}: {codes[vault]}" for vault in CODES)
    return f"{told}; refunds: {total[1]}"


def clerk(request: ModelRequest) -> str:
    """A small model that reads one piece."""
    piece = request.text.partition("\n\n")[2]
    if REFUNDS not in request.text:
        return "NONE"
    return str(sum(int(amount) for amount in re.findall(r"kind=refund amount=(\d+)", piece)))


def graph_of(reader: Any, piece: Any = clerk, **options: Any) -> tuple[CompiledGraph[State, Any], Any, Any]:
    """A graph of one recursive node, the model of its readers, and that of its sub-calls: each a function or a model."""
    models = [one if isinstance(one, FunctionModel) else FunctionModel(one) for one in (reader, piece)]
    return graph_of_models(*models, **options), models[0], models[1]


def graph_of_models(
    reader: ChatModel, piece: ChatModel, *, question: Any = QUESTION, context: Any = "book", **options: Any
) -> CompiledGraph[State, Any]:
    """A graph of one recursive node that stores the code of an error in the field `error`."""
    node = recursive(State, question, context=context, into="answer", model=reader, piece_model=piece, **options)
    g: GraphBuilder[State, Any] = GraphBuilder(State, name="library")
    g.add_node("ask", node, on_error="failed")
    g.add_node("failed", lambda state, ctx: {"error": getattr(ctx.error, "code", type(ctx.error).__name__)})
    g.add_edge(START, "ask")
    return g.compile()
