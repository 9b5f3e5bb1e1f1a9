"""Turns of a chat that are given up: the next turn knows which tools were called, and what people answered and sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import START, Command, Context, GraphBuilder, Runtime
from graphrt.errors import NodeError
from graphrt.harness import (
    Agent,
    AgentReply,
    AssistantMessage,
    FunctionModel,
    Handoff,
    Message,
    ModelProfile,
    TextDelta,
    ToolCall,
    UserMessage,
    tool,
)
from graphrt.harness.agent.events import ToolEnded
from graphrt.harness.messages import ToolMessage, check_conversation
from graphrt.reducers import append, messages

ASK = UserMessage(text="Pay Ann 5.")
NEXT = UserMessage(text="And?")


class State(BaseModel):
    chat: Annotated[list[Message], messages] = []


class Log(BaseModel):
    chat: Annotated[list[Message], append] = []
    notes: Annotated[list[str], append] = []


class Bank:
    """Tools that pay and wait, and the payments."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.stop: Callable[[], Any] = lambda: None
        """Stops the run; `wait` calls it."""

    def tools(self, **pay: Any) -> list[Any]:
        def pay_(to: str, amount: int) -> str:
            self.paid.append(to)
            return f"paid {amount} to {to}"

        async def wait() -> str:
            self.stop()
            await asyncio.Event().wait()
            return ""

        return [tool(pay_, name="pay", **pay), tool(wait)]


def pay(id_: str = "a", to: str = "Ann", amount: int = 5) -> ToolCall:
    return ToolCall(id=id_, name="pay", arguments={"to": to, "amount": amount})


WAIT = ToolCall(id="w", name="wait")


def after_payments(number: int, stop: Callable[[], Any]) -> Callable[[Any], None]:
    """A sink that calls *stop* when *number* payments are recorded."""
    ended: list[str] = []

    def see(item: Any) -> None:
        if isinstance(item, ToolEnded) and item.call.name == "pay":
            ended.append(item.text)
            if len(ended) == number:
                stop()

    return see


def model(*replies: Any) -> tuple[FunctionModel, list[Any]]:
    """A model that gives *replies* in order, or calls them, and then answers; and the conversations that it was sent."""
    sent: list[Any] = []
    given = list(replies)

    def reply(request: Any) -> Any:
        sent.append(request.messages)
        item = given.pop(0) if given else "Done."
        return item(request) if callable(item) else item

    return FunctionModel(reply), sent


def chat(harness: Any, state: type[Any] = State, *, store: str = "memory:", body: Any = None) -> Runtime[Any]:
    g: GraphBuilder[Any, Any] = GraphBuilder(state, name="chat")

    @g.node
    async def answer(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        return await body(state, ctx) if body else {"chat": (await ctx.harness.run(state.chat)).new_messages}

    g.add_edge(START, answer)
    return Runtime(g.compile(), harness=harness, store=store)


def said(runtime: Runtime[Any]) -> list[str]:
    return [_line(message) for message in runtime.state("t").values.chat]


def _line(message: Any) -> str:
    calls = "".join(f" [{call.id}: {call.name}]" for call in getattr(message, "tool_calls", ()))
    of = f" {message.tool_call_id}" if isinstance(message, ToolMessage) else ""
    return f"{message.role}{of}: {message.text}{calls}"


UNKNOWN = "This call has no result: the turn was stopped. It is not known whether the call was carried out."
NOT_APPROVED = "This call was not carried out: the turn was stopped before a person had approved it."


@pytest.mark.parametrize("state", [State, Log])
@pytest.mark.parametrize("store", ["memory:", "sqlite"])
def test_next_turn_has_the_finished_tool_calls_of_a_stopped_one(store: str, state: type[Any], tmp_path: Any) -> None:
    url = store if store == "memory:" else f"sqlite:///{tmp_path}/runs.db"
    bank = Bank()
    double, sent = model(AgentReply(text="One moment.", tool_calls=(pay(),)), WAIT)
    runtime = chat(Agent(double, tools=bank.tools()), state, store=url)
    bank.stop = lambda: runtime.cancel("t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    assert (runtime.state("t").status, said(runtime)) == ("cancelled", ["user: Pay Ann 5."])
    if store != "memory:":  # another process
        runtime.close()
        runtime = chat(Agent(double, tools=bank.tools()), state, store=url)
    runtime.run({"chat": [NEXT]}, thread="t")

    assert said(runtime) == [
        "user: Pay Ann 5.",
        "assistant: One moment. [a: pay]",
        "tool a: paid 5 to Ann",
        "assistant:  [w: wait]",
        f"tool w: {UNKNOWN}",
        "user: And?",
        "assistant: Done.",
    ]
    check_conversation(sent[-1])
    runtime.replay("t")
    assert runtime.reexecute("t").same
    assert bank.paid == ["Ann"]
    runtime.close()


def test_calls_beside_a_stopped_one_keep_their_results() -> None:
    bank = Bank()
    double, sent = model(AgentReply(tool_calls=(pay(), WAIT, pay("b", "Bob"))))
    runtime = chat(Agent(double, tools=bank.tools(), sinks=[after_payments(2, lambda: runtime.cancel("t"))]))
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    assert said(runtime)[1:5] == [
        "assistant:  [a: pay] [w: wait] [b: pay]",
        "tool a: paid 5 to Ann",
        f"tool w: {UNKNOWN}",
        "tool b: paid 5 to Bob",
    ]
    check_conversation(sent[-1])


def test_retry_repeats_nothing_and_adds_no_messages() -> None:
    bank = Bank()
    double, _ = model(pay(), WAIT)
    runtime = chat(Agent(double, tools=bank.tools()))
    bank.stop = lambda: runtime.cancel("t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))

    async def wait() -> str:
        return "waited"

    retried = chat(Agent(double, tools=[*bank.tools()[:1], tool(wait)]), store=runtime.store)  # type: ignore[arg-type]
    retried.retry("t")

    assert said(retried)[1:] == [
        "assistant:  [a: pay]",
        "tool a: paid 5 to Ann",
        "assistant:  [w: wait]",
        "tool w: waited",
        "assistant: Done.",
    ]
    assert bank.paid == ["Ann"]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (None, NOT_APPROVED),
        (False, "A person refused this call of 'pay'."),
        ({"approve": False, "reason": "Too much."}, "A person refused this call of 'pay': Too much."),
        (
            {"approve": True, "arguments": {"to": "Ann", "amount": 4}},
            (
                "A person changed the arguments of this call of 'pay' to "
                '{"to": "Ann", "amount": 4}. The result is:\npaid 4 to Ann'
            ),
        ),
    ],
)
def test_decisions_of_people_are_in_the_next_turn(answer: Any, result: str) -> None:
    bank = Bank()
    look = tool(lambda: "rich", name="look")
    double, sent = model(AgentReply(tool_calls=(ToolCall(id="l", name="look"), pay())), WAIT)
    runtime = chat(Agent(double, tools=[look, *bank.tools(approval=True)]))
    bank.stop = lambda: runtime.cancel("t")
    runtime.run({"chat": [ASK]}, thread="t")
    if answer is not None:
        asyncio.run(runtime.aresume("t", answer=answer))
    runtime.run({"chat": [NEXT]}, thread="t", if_exists="abandon")

    assert said(runtime)[1:4] == ["assistant:  [l: look] [a: pay]", "tool l: rich", f"tool a: {result}"]
    check_conversation(sent[-1])


def test_question_about_the_only_call_leaves_no_messages() -> None:
    bank = Bank()
    double, _ = model(pay())
    runtime = chat(Agent(double, tools=bank.tools(approval=True)))
    runtime.run({"chat": [ASK]}, thread="t")
    runtime.run({"chat": [NEXT]}, thread="t", if_exists="abandon")

    assert said(runtime) == ["user: Pay Ann 5.", "user: And?", "assistant: Done."]


def test_message_that_a_stopped_agent_had_taken_before_its_first_reply_is_kept() -> None:
    async def hang(request: Any) -> Any:
        runtime.cancel("t")
        await asyncio.Event().wait()

    double, _ = model(hang)
    runtime = chat(Agent(double, signal="chat"))
    runtime.update("t", {"chat": []})
    runtime.signal("t", "chat", "In euros.")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    assert said(runtime) == ["user: Pay Ann 5.", "user: In euros.", "user: And?", "assistant: Done."]


def test_erased_signals_are_left_out_and_erased_results_are_named() -> None:
    bank = Bank()
    double, sent = model(pay(), WAIT)
    runtime = chat(Agent(double, tools=bank.tools(), signal="chat"))
    bank.stop = lambda: runtime.cancel("t")
    runtime.update("t", {"chat": []})
    runtime.signal("t", "chat", "I am Zoe.")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.erase("Zoe", reason="asked")
    runtime.erase("paid 5", reason="asked")
    runtime.run({"chat": [NEXT]}, thread="t")

    erased = "This call was carried out, and its result was erased."
    assert said(runtime)[1:3] == ["assistant:  [a: pay]", f"tool a: {erased}"]
    check_conversation(sent[-1])


def test_changes_of_the_state_that_a_tool_made_are_given_up() -> None:
    @tool(writes=["notes"])
    def note(text: str) -> Command[Any]:
        return Command(update={"notes": [text]}, result="noted")

    bank = Bank()
    double, _ = model(ToolCall(id="n", name="note", arguments={"text": "tea"}), WAIT)
    runtime = chat(Agent(double, tools=[note, *bank.tools()]), Log)
    bank.stop = lambda: runtime.cancel("t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    assert said(runtime)[2].startswith("tool n: noted\nThe turn was stopped: what this call had changed")
    assert runtime.state("t").values.notes == []


@pytest.mark.parametrize("repeats", [False, True])
def test_payment_of_an_earlier_attempt_is_kept_once(repeats: bool) -> None:
    bank = Bank()
    double, _ = model(pay(), "Paid.", "What do you want?", *([pay("b"), WAIT] if repeats else []))
    left = [OSError("full"), OSError("full")]

    async def book(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        reply = await ctx.harness.run(state.chat)
        if left:
            raise left.pop()
        return {"chat": reply.new_messages}

    runtime = chat(Agent(double, tools=bank.tools()), body=book)
    bank.stop = lambda: runtime.cancel("t")
    with pytest.raises(NodeError):
        runtime.run({"chat": [ASK]}, thread="t")
    with pytest.raises(NodeError):  # this attempt does not pay
        runtime.retry("t")
    if repeats:  # this one finds the result of the call, and is stopped
        asyncio.run(runtime.aretry("t"))
    runtime.run({"chat": [NEXT]}, thread="t", if_exists="abandon")

    assert said(runtime)[1:3] == ["assistant:  [a: pay]", "tool a: paid 5 to Ann"]
    assert said(runtime)[3] == ("assistant:  [w: wait]" if repeats else "assistant: What do you want?")
    assert bank.paid == ["Ann"]


def test_result_of_the_same_agent_with_another_prompt_is_not_taken() -> None:
    left = [100]

    def balance() -> str:
        left[0] -= 1
        return f"balance {left[0]}"

    async def twice(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        await ctx.harness.run("Warm up.")
        return {"chat": (await ctx.harness.run(state.chat)).new_messages}

    bank = Bank()
    double, _ = model(ToolCall(id="a", name="balance"), "ok", ToolCall(id="b", name="balance"), WAIT)
    runtime = chat(Agent(double, tools=[tool(balance), *bank.tools()]), body=twice)
    bank.stop = lambda: runtime.cancel("t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    assert said(runtime)[1:3] == ["assistant:  [b: balance]", "tool b: balance 98"]


class Narrow(BaseModel):
    chat: Annotated[list[UserMessage | AssistantMessage], append] = []


def test_field_without_tool_messages_gets_the_partial_text() -> None:
    class Talker:
        profile = ModelProfile(name="talker")
        calls = 0

        async def invoke(self, request: Any) -> AgentReply:
            return AgentReply(text="Done.")

        async def stream(self, request: Any) -> Any:
            self.calls += 1
            if self.calls == 1:
                yield AgentReply(tool_calls=(pay(),))
                return
            yield TextDelta(text="I have paid")
            await asyncio.Event().wait()

    async def say(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        return {"chat": [AssistantMessage(text=(await ctx.harness.run(state.chat)).text)]}

    runtime = chat(Agent(Talker(), tools=Bank().tools()), Narrow, body=say)

    async def read() -> None:
        async for item in runtime.astream({"chat": [ASK]}, thread="t", modes=("messages",)):
            if isinstance(item.item, TextDelta):
                runtime.cancel("t")

    asyncio.run(read())
    runtime.run({"chat": [NEXT]}, thread="t")

    assert said(runtime)[1] == "assistant: I have paid"


def test_messages_to_a_working_agent_are_in_the_next_turn() -> None:
    bank = Bank()

    def first(request: Any) -> Any:
        runtime.signal("t", "chat", "In euros.")
        return pay()

    double, _ = model(first, WAIT)
    runtime = chat(Agent(double, tools=bank.tools(), signal="chat"))
    bank.stop = lambda: runtime.cancel("t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    assert said(runtime)[1:4] == ["assistant:  [a: pay]", "tool a: paid 5 to Ann", "user: In euros."]
    assert said(runtime)[4:7] == ["assistant:  [w: wait]", f"tool w: {UNKNOWN}", "user: And?"]


@pytest.mark.parametrize("id_", ["", "call_0"])
def test_ids_that_a_provider_repeats_stay_unique(id_: str) -> None:
    bank = Bank()
    again = ToolCall(id=id_, name="wait")
    double, sent = model(pay(id_), "Paid.", AgentReply(tool_calls=(pay(id_, "Bob"), again, again)))
    runtime = chat(Agent(double, tools=bank.tools(), sinks=[after_payments(2, lambda: runtime.cancel("t"))]))
    runtime.run({"chat": [ASK]}, thread="t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    ids = [message.tool_call_id for message in runtime.state("t").values.chat if isinstance(message, ToolMessage)]
    assert len(set(ids)) == 4
    assert bank.paid == ["Ann", "Bob"]
    check_conversation(sent[-1])


def test_agent_that_took_over_and_agents_as_tools() -> None:
    bank = Bank()
    inner, _ = model(pay("i", "Ida"))
    helper = Agent(inner, name="helper", tools=bank.tools()[:1])
    second, _ = model(ToolCall(id="h", name="helper", arguments={"question": "Ida?"}), WAIT)
    desk = Agent(second, name="desk", tools=[helper.as_tool(description="Asks."), *bank.tools()[1:]])
    first, _ = model(pay(), ToolCall(id="t", name="transfer_to_desk"))
    runtime = chat(Agent(first, name="front", tools=bank.tools()[:1], handoffs=[Handoff(desk, description="Goes on.")]))
    bank.stop = lambda: runtime.cancel("t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    lines = said(runtime)
    assert lines[1:3] == ["assistant:  [a: pay]", "tool a: paid 5 to Ann"]
    assert lines[3] == "assistant:  [t: transfer_to_desk]"
    assert lines[5:8] == ["assistant:  [h: helper]", "tool h: Done.", "assistant:  [w: wait]"]
    assert bank.paid == ["Ann", "Ida"]


def test_agent_with_another_prompt_adds_no_messages() -> None:
    bank = Bank()
    double, _ = model(pay(), WAIT)

    async def research(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        return {"notes": [(await ctx.harness.run("Look it up.")).text]}

    runtime = chat(Agent(double, tools=bank.tools()), Log, body=research)
    bank.stop = lambda: runtime.cancel("t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    assert said(runtime) == ["user: Pay Ann 5.", "user: And?"]


def test_answer_of_a_node_that_failed_afterwards_is_in_the_next_turn() -> None:
    bank = Bank()
    double, _ = model(pay())
    fails = [True, False]

    async def book(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        reply = await ctx.harness.run(state.chat)
        if fails.pop(0):
            raise OSError("no space")
        return {"chat": reply.new_messages}

    runtime = chat(Agent(double, tools=bank.tools()), body=book)
    with pytest.raises(Exception, match="no space"):
        runtime.run({"chat": [ASK]}, thread="t")
    runtime.run({"chat": [NEXT]}, thread="t", if_exists="abandon")

    assert said(runtime)[1:4] == ["assistant:  [a: pay]", "tool a: paid 5 to Ann", "assistant: Done."]


def test_long_results_are_cut_as_for_models() -> None:
    read = tool(lambda: "x" * 50_000, name="read")
    bank = Bank()
    double, _ = model(ToolCall(id="r", name="read"), WAIT)
    runtime = chat(Agent(double, tools=[read, *bank.tools()]))
    bank.stop = lambda: runtime.cancel("t")
    asyncio.run(runtime.arun({"chat": [ASK]}, thread="t"))
    runtime.run({"chat": [NEXT]}, thread="t")

    result, _ = [message for message in runtime.state("t").values.chat if isinstance(message, ToolMessage)]
    assert result.text.endswith("x\n[cut: 10000 of 50000 characters are not shown]")
    assert isinstance(runtime.state("t").values.chat[1], AssistantMessage)
