"""A chat over days on SQLite: memory, approvals, new input while a question is open, a stop button, and clients that
leave."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from examples.chat_agent import Chat, Shop, clerk, graph, offline, order, said, stock

from examples import sse
from graphrt import Context, InputError, Runtime
from graphrt.events import SuperstepAbandoned
from graphrt.harness import Agent, FunctionModel, ModelRequest, ToolCall, ToolContext, tool
from graphrt.testing import assert_run, record


def runtime_on(folder: Path, shop: Shop, model: Callable[[ModelRequest], Any] = offline) -> Runtime[Chat]:
    return Runtime(graph, store=f"sqlite:///{folder / 'chats.db'}", deps=shop, models={"clerk": FunctionModel(model)})


def told(chat: Chat) -> list[str]:
    return [f"{message.role}: {message.text}" for message in chat["messages"]]


def test_each_turn_remembers_earlier_ones_in_another_process(tmp_path: Path) -> None:
    for text in ("Hello!", "Do you have a kettle?", "How many of them?"):
        with runtime_on(tmp_path, Shop()) as runtime:
            chat = runtime.run(said(text), thread="ann").state

    assert told(chat) == [
        "user: Hello!",
        "assistant: What would you like to know of our teapots and kettles?",
        "user: Do you have a kettle?",
        "assistant: ",
        "tool: In stock: 1.",
        "assistant: In stock: 1.",
        "user: How many of them?",
        "assistant: ",
        "tool: In stock: 1.",
        "assistant: In stock: 1.",
    ]


def test_threads_are_separate_conversations(tmp_path: Path) -> None:
    with runtime_on(tmp_path, Shop()) as runtime:
        runtime.run(said("Do you have a kettle?"), thread="ann")
        other = runtime.run(said("How many of them?"), thread="bob")

    assert told(other.state)[-1] == "assistant: What would you like to know of our teapots and kettles?"


CHANGED = 'A person changed the arguments of this call of \'order\' to {"item": "teapot", "count": 1}. The result is:\n'


@pytest.mark.parametrize(
    ("answer", "orders", "last"),
    [
        (True, [("teapot", 2)], "Ordered: 2 of teapot."),
        (
            {"approve": True, "arguments": {"item": "teapot", "count": 1}},
            [("teapot", 1)],
            f"{CHANGED}Ordered: 1 of teapot.",
        ),
    ],
)
def test_approved_order_is_made_once(tmp_path: Path, answer: Any, orders: list[Any], last: str) -> None:
    shop = Shop()
    with runtime_on(tmp_path, shop) as runtime:
        asked = runtime.run(said("Order 2 teapots"), thread="ann")
        assert (asked.interrupts[0].kind, shop.orders) == ("approval", [])
    with runtime_on(tmp_path, shop) as runtime:
        done = runtime.resume("ann", answer=answer)

    assert (shop.orders, done.state["messages"][-1].text) == (orders, last)


def test_refused_order_is_not_made_and_the_model_gets_the_reason(tmp_path: Path) -> None:
    shop = Shop()
    with runtime_on(tmp_path, shop) as runtime:
        runtime.run(said("Order 2 teapots"), thread="ann")
        done = runtime.resume("ann", answer={"approve": False, "reason": "too dear"})

    assert shop.orders == []
    assert "too dear" in done.state["messages"][-2].text


def test_approval_does_not_cover_an_order_after_an_edit(tmp_path: Path) -> None:
    """The customer's words were corrected while the approval was open: its answer orders nothing else."""
    shop = Shop()
    with runtime_on(tmp_path, shop) as runtime:
        teapots = runtime.run(said("Order 2 teapots"), thread="ann").interrupts[0]
        runtime.update("ann", said("Sorry: order 1 kettle"))
    with runtime_on(tmp_path, shop) as runtime:
        kettle = runtime.resume("ann", {teapots.id: True}).interrupts[0]
        assert (kettle.payload["arguments"], shop.orders) == ({"item": "kettle", "count": 1}, [])
        assert runtime.resume("ann", True).status == "completed"

    assert shop.orders == [("kettle", 1)]


@tool(name="order", effect="once")
def unasked(item: str, count: int, context: ToolContext) -> str:
    """Order at once."""
    context.deps.orders.append((item, count))
    return "Ordered at once."


@tool(name="order", effect="once", approval=True)
def renamed(item: str, number: int, context: ToolContext) -> str:
    """Order so many."""
    context.deps.orders.append((item, number))
    return "Ordered."


@pytest.mark.parametrize(
    ("tools", "orders", "last"),
    [
        ([stock], [], "There is no tool 'order'."),
        ([stock, unasked], [("teapot", 2)], "Ordered at once."),
        ([stock, renamed], [], "The arguments do not fit order:"),
        ([stock, order], [("teapot", 2)], "Ordered: 2 of teapot."),
    ],
    ids=["removed", "without approval", "other parameters", "as it was"],
)
def test_release_may_change_a_tool_while_an_approval_is_open(
    tmp_path: Path, tools: list[Any], orders: list[Any], last: str
) -> None:
    shop = Shop()
    with runtime_on(tmp_path, shop) as runtime:
        runtime.run(said("Order 2 teapots"), thread="ann")

    new = Agent(FunctionModel(offline), name="clerk", system="You are the clerk of a shop.", tools=tools)

    async def talk(state: Chat, ctx: Context[Shop]) -> Chat:
        return {"messages": list((await ctx.bind(new).run(state["messages"])).new_messages)}

    with Runtime(graph.with_nodes({"talk": talk}), store=f"sqlite:///{tmp_path / 'chats.db'}", deps=shop) as runtime:
        done = runtime.resume("ann", True)

    assert (done.status, shop.orders) == ("completed", orders)
    assert done.state["messages"][-1].text.startswith(last)


# ----------------------------------------------------------------------------------- new input while a question is open


def test_new_input_abandons_the_open_question_and_the_conversation_continues(tmp_path: Path) -> None:
    shop = Shop()
    with runtime_on(tmp_path, shop) as runtime:
        question = runtime.run(said("Order 2 teapots"), thread="ann").interrupts[0]
    with runtime_on(tmp_path, shop) as runtime:
        with pytest.raises(InputError) as refused:
            runtime.run(said("How many teapots do you have?"), thread="ann")
        assert (refused.value.code, 'if_exists="abandon"' in str(refused.value)) == ("wrong-verb", True)
        done = runtime.run(said("Wait, how many do you have?"), thread="ann", if_exists="abandon")

        (given_up,) = [e.event for e in runtime.entries("ann") if isinstance(e.event, SuperstepAbandoned)]
        assert given_up.interrupts == (question.id,)
        with pytest.raises(InputError) as late:
            runtime.resume("ann", {question.id: True})
        assert late.value.code == "wrong-verb"
        more = runtime.run(said("Thank you, order 1 of them"), thread="ann")
        bought = runtime.resume("ann", True)
        assert runtime.replay("ann").values == bought.state

    assert told(done.state) == [
        "user: Order 2 teapots",
        "user: Wait, how many do you have?",
        "assistant: ",
        "tool: In stock: 3.",
        "assistant: In stock: 3.",
    ]
    assert more.interrupts[0].id != question.id
    assert (more.interrupts[0].payload["arguments"]["count"], shop.orders) == (1, [("teapot", 1)])


# -------------------------------------------------------------------------------------------------------- stop button


def test_turn_is_stopped_from_another_thread_and_continued(tmp_path: Path) -> None:
    shop, waits = Shop(), threading.Event()

    async def slow(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            waits.set()
            await asyncio.Event().wait()
        return offline(request)

    with ThreadPoolExecutor(1) as pool, runtime_on(tmp_path, shop, slow) as runtime:
        asked = runtime.run(said("Order 2 teapots"), thread="ann")
        run = pool.submit(runtime.resume, "ann", True)
        assert waits.wait(30)
        assert runtime.cancel("ann") is True
        assert run.result(30).status == "cancelled"

    with runtime_on(tmp_path, shop) as runtime:
        done = runtime.retry("ann")
    assert (asked.status, done.status, told(done.state)[-1]) == (
        "interrupted",
        "completed",
        "assistant: Ordered: 2 of teapot.",
    )
    assert shop.orders == [("teapot", 2)]  # the order had been made, and is not repeated


def test_stop_during_an_order_raises_a_question_about_its_outcome(tmp_path: Path) -> None:
    """The function itself cannot be stopped: it ends later, and its result is dropped."""
    inside, go_on, made = threading.Event(), threading.Event(), threading.Event()

    class Slow(list[tuple[str, int]]):
        def append(self, made_order: tuple[str, int]) -> None:
            inside.set()
            go_on.wait(30)
            super().append(made_order)
            made.set()

    shop = Shop()
    shop.orders = Slow()
    with ThreadPoolExecutor(1) as pool, runtime_on(tmp_path, shop) as runtime:
        runtime.run(said("Order 2 teapots"), thread="ann")
        run = pool.submit(runtime.resume, "ann", True)
        assert inside.wait(30)
        assert runtime.cancel("ann") is True
        assert run.result(30).status == "cancelled"
        go_on.set()
        assert made.wait(30)

    with runtime_on(tmp_path, shop) as runtime:
        asked = runtime.retry("ann").interrupts[0]
        assert (asked.kind, asked.payload["problem"]) == ("effect", "outcome unknown")
        done = runtime.resume("ann", answer={"result": "Ordered: 2 of teapot."})
    assert (told(done.state)[-1], shop.orders) == ("assistant: Ordered: 2 of teapot.", [("teapot", 2)])


def test_open_approval_is_stopped_and_asked_again(tmp_path: Path) -> None:
    shop = Shop()
    with runtime_on(tmp_path, shop) as runtime:
        first = runtime.run(said("Order 2 teapots"), thread="ann").interrupts[0]
        assert runtime.cancel("ann") is True
        assert runtime.state("ann").status == "cancelled"
    with runtime_on(tmp_path, shop) as runtime:
        again = runtime.retry("ann").interrupts[0]
        assert again.payload == first.payload
        done = runtime.resume("ann", {again.id: True})

    assert (done.status, shop.orders, done.usage.calls) == ("completed", [("teapot", 2)], 2)


# -------------------------------------------------------------------------------------------------- clients that leave


def posted(port: int, text: str, leave_after: int | None = None) -> list[Any]:
    """The response of the endpoint to the message *text*."""
    asked = {"messages": [{"role": "user", "text": text}]} if text else {}
    status, lines = sse.post(port, "ann", leave_after, **asked)
    assert status == 200, lines
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_client_that_leaves_during_a_reply_can_return_to_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over real HTTP: it leaves while the model works, its turn ends as cancelled, and another request continues it."""
    monkeypatch.setattr(sse, "MODES", ("messages", "result"))
    patient = [False]

    async def slow(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool" and not patient[0]:
            await asyncio.Event().wait()
        return offline(request)

    async def main(runtime: Runtime[Chat]) -> None:
        async with sse.serving(runtime) as (port, answering):
            greeted = await asyncio.to_thread(posted, port, "Hello!")
            assert "".join(item.get("text", "") for item in greeted) == told(runtime.state("ann").values)[-1][11:]
            left = await asyncio.to_thread(posted, port, "How many teapots?", 8)
            assert [item["what"] for item in left][-2:] == ["ToolEnded", "ModelStarted"]
            await asyncio.wait(answering)
            assert [task.exception() for task in answering] == [None, None]
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert runtime.state("ann").status == "cancelled"
            patient[0] = True
            back = await asyncio.to_thread(posted, port, "")
            assert "".join(item.get("text", "") for item in back).endswith("In stock: 3.")
            asked = await asyncio.to_thread(posted, port, "Order 2 of them")
            assert asked[-1]["status"] == "interrupted"
            assert asked[-1]["questions"][0]["arguments"] == {"item": "teapot", "count": 2}
            await asyncio.wait(answering)

    with runtime_on(tmp_path, Shop(), slow) as runtime:
        asyncio.run(main(runtime))
        assert told(runtime.state("ann").values)[:3] == [
            "user: Hello!",
            "assistant: What would you like to know of our teapots and kettles?",
            "user: How many teapots?",
        ]


def test_requests_to_the_model(graphrt_model) -> None:
    model = graphrt_model([ToolCall(id="1", name="stock", arguments={"item": "kettle"}), "One is left."])
    with clerk.override(model=model):
        run = record(graph, said("Do you have kettles?"), deps=Shop())

    assert_run(run).completed().usage(calls=2).without_warnings()
    assert told(run.state)[-2:] == ["tool: In stock: 1.", "assistant: One is left."]
    assert [message.role for message in model.calls[0].messages] == ["system", "user"]
