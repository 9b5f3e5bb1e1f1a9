"""A chat with the clerk of a shop, who has tools, remembers the conversation, and orders only with approval.

Run it with `python -m examples.chat_agent`; a model of this file answers, or a real one:
`python -m examples.chat_agent --model openai/gpt-4o-mini` (needs `graphrt[litellm]` and a key).
"""

from __future__ import annotations

import argparse
import re
from typing import Annotated, TypedDict

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.harness import Agent, FunctionModel, Message, ModelRequest, ToolCall, ToolContext, UserMessage, tool
from graphrt.reducers import append


class Shop:
    """The outside world: the stock, and the orders."""

    def __init__(self) -> None:
        self.shelves = {"teapot": 3, "kettle": 1}
        self.orders: list[tuple[str, int]] = []


@tool(effect="pure")
def stock(item: str, context: ToolContext) -> str:
    """How many of an item there are."""
    shop: Shop = context.deps
    return f"In stock: {shop.shelves.get(item, 0)}."


@tool(approval=True, effect="once")
def order(item: str, count: int, context: ToolContext) -> str:
    """Order so many of an item. The customer is asked before."""
    shop: Shop = context.deps
    shop.orders.append((item, count))
    return f"Ordered: {count} of {item}."


class Chat(TypedDict):
    """One conversation; a thread keeps it, and each run is one more turn."""

    messages: Annotated[list[Message], append]


clerk = Agent("openai/gpt-4o-mini", name="clerk", system="You are the clerk of a shop.", tools=[stock, order])

g = GraphBuilder(Chat, name="chat")


@g.node
async def talk(state: Chat, ctx: Context[Shop]) -> Chat:
    reply = await ctx.bind(clerk).run(state["messages"])
    return {"messages": list(reply.new_messages)}


graph = g.add_sequence([START, talk, END]).compile()


def said(text: str) -> Chat:
    """The message of a user, as the input of a run."""
    return {"messages": [UserMessage(text=text)]}


def offline(request: ModelRequest) -> str | ToolCall:
    """Stands for a model: it takes a missing item from the conversation."""
    last = request.messages[-1]
    if last.role != "user":
        return last.text
    number = f"call-{len(request.messages)}"
    items = re.findall(r"teapot|kettle", " ".join(each.text for each in request.messages if each.role == "user"))
    if not items:
        return "What would you like to know of our teapots and kettles?"
    if count := re.search(r"[Oo]rder (\d+)", last.text):
        return ToolCall(id=number, name="order", arguments={"item": items[-1], "count": int(count[1])})
    return ToolCall(id=number, name="stock", arguments={"item": items[-1]})


def main() -> None:
    """Three turns of one conversation; the order of the last one is approved."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="a model of litellm, such as openai/gpt-4o-mini")
    model = parser.parse_args().model or FunctionModel(offline)
    shop = Shop()
    with Runtime(graph, store="memory:", deps=shop, models={"clerk": model}) as runtime:
        for text in ("Hello!", "How many teapots do you have?", "Order 2 of them, please."):
            print("user: ", text)
            result = runtime.run(said(text), thread="ann")
            while result.interrupts:
                call = result.interrupts[0].payload
                print("asked:", call["tool"], call["arguments"])
                result = runtime.resume("ann", True)
            print("clerk:", result.state["messages"][-1].text)
    print(f"[{len(result.state['messages'])} messages, orders: {shop.orders}]")


if __name__ == "__main__":
    main()
