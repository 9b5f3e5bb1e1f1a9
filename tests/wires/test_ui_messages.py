"""The UI message stream: a pure function of the journal, and live items end as the same message."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypedDict

import pytest

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt.events import Entry, RunStarted
from graphrt.harness import Agent, FunctionModel, Message, ModelRequest, ScriptedModel, ToolCall, UserMessage, tool
from graphrt.harness.agent.events import ModelEnded, ModelFailed, ToolStarted
from graphrt.harness.protocol import AgentReply, TextDelta, ThinkingDelta
from graphrt.reducers import append
from graphrt.runtime import MessageItem
from graphrt.stores import MemoryStore
from graphrt.testing.exploring._crash_store import CrashError, CrashStore
from graphrt.wires.conversation import inputs
from graphrt.wires.ui_messages import DONE, UiMessages, line, wire

NEEDED = {
    "start": {"messageId"}, "finish": {"finishReason"}, "abort": {"reason"}, "error": {"errorText"},
    "start-step": set(), "finish-step": set(),
    "text-start": {"id"}, "text-delta": {"id", "delta"}, "text-end": {"id"},
    "reasoning-start": {"id"}, "reasoning-delta": {"id", "delta"}, "reasoning-end": {"id"},
    "tool-input-available": {"toolCallId", "toolName", "input"},
    "tool-output-available": {"toolCallId", "output"}, "tool-output-error": {"toolCallId", "errorText"},
    "tool-approval-request": {"approvalId", "toolCallId"}, "tool-approval-response": {"approvalId", "approved"},
    "tool-output-denied": {"toolCallId"}, "data-question": {"id", "data"}, "data-custom": {"data"},
}  # fmt: skip
"""Kinds of chunks, and the fields that the AI SDK requires in each."""


class Chat(TypedDict):
    messages: Annotated[list[Message], append]


@tool(effect="pure")
def stock(item: str) -> str:
    """The number in stock."""
    return f"3 of {item}"


@tool(approval=True, effect="once")
def order(item: str, count: int) -> str:
    """Order some."""
    return f"ordered {count} of {item}"


@tool(approval=True, effect="idempotent")
def book(item: str) -> str:
    """Put something aside: repeatable, and a crash raises no question about its outcome."""
    return f"{item} is put aside"


def chat(*, retry: RetryPolicy | None = None, fails: list[BaseException] | None = None):
    """A chat with a clerk; a node fails after its reply with the content of *fails*."""
    clerk = Agent("none", name="clerk", tools=[stock, order, book])
    g = GraphBuilder(Chat, name="chat")

    @g.node(retry=retry)
    async def talk(state: Chat, ctx: Context) -> Chat:
        ctx.emit({"at": "the desk"})
        reply = await ctx.bind(clerk).run(state["messages"])
        if fails:
            raise fails.pop()
        return {"messages": list(reply.new_messages)}

    return g.add_sequence([START, talk, END]).compile()


def asks(number: int, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{number}", name=name, arguments=arguments)


def runtime(*script: Any, **options: Any) -> Runtime:
    return Runtime(chat(**options), store="memory:", models={"clerk": ScriptedModel(script, check_calls=False)})


def said(text: str) -> Chat:
    return {"messages": [UserMessage(text=text)]}


def chunks_of(entries: Any) -> list[dict[str, Any]]:
    return [json.loads(one.removeprefix("data: ")) for one in wire(entries).split("\n\n") if one]


def message(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Assemble chunks like the AI SDK does: the parts of the last message, without the data of `ctx.emit`."""
    parts: list[dict[str, Any]] = []
    for one in chunks:
        kind = one["type"]
        assert NEEDED[kind] <= one.keys(), one
        if kind == "start":
            id_, parts = one["messageId"], parts if parts and parts[0]["id"] == one["messageId"] else []
            parts = parts or [{"id": id_}]
        elif kind in ("text-start", "reasoning-start"):
            parts.append({"type": kind.removesuffix("-start"), "part": one["id"], "text": ""})
        elif kind.endswith("-delta"):
            next(part for part in parts if part.get("part") == one["id"])["text"] += one["delta"]
        elif kind == "tool-input-available":
            parts.append({"tool": one["toolCallId"], "name": one["toolName"], "input": one["input"]})
        elif kind.startswith("tool-"):
            names = {one.get("toolCallId"), one.get("approvalId")} - {None}
            found = [part for part in parts if names & {part.get("tool"), part.get("asked")}]
            assert len(found) == 1, one
            found[0].update(
                {"asked": one["approvalId"]} if "approvalId" in one else {"output": one.get("output", kind)}
            )
    return parts


def live_chunks(stream: Any) -> list[dict[str, Any]]:
    """The chunks of a run that is watched live."""
    projection, found = UiMessages(), []
    for mode, item in stream:
        found += projection.entry(item) if mode == "events" else projection.live(mode, item)
    return found


MODES = ("events", "messages", "live", "custom")


def test_turn_with_a_tool_is_one_message() -> None:
    with runtime(asks(1, "stock", item="teapot"), "There are 3.") as shop:
        shop.run(said("How many?"), thread="t")

        assert wire(shop.entries("t")) == (
            'data: {"type":"start","messageId":"t:1","messageMetadata":{"thread":"t"}}\n\n'
            'data: {"type":"start-step"}\n\n'
            'data: {"type":"tool-input-available","toolCallId":"1.0:talk/call-1","toolName":"stock",'
            '"input":{"item":"teapot"},"dynamic":true}\n\n'
            'data: {"type":"tool-output-available","toolCallId":"1.0:talk/call-1","output":"3 of teapot","dynamic":true}\n\n'
            'data: {"type":"finish-step"}\n\n'
            'data: {"type":"start-step"}\n\n'
            'data: {"type":"text-start","id":"1.0:talk/1/text"}\n\n'
            'data: {"type":"text-delta","id":"1.0:talk/1/text","delta":"There are 3."}\n\n'
            'data: {"type":"text-end","id":"1.0:talk/1/text"}\n\n'
            'data: {"type":"finish-step"}\n\n'
            'data: {"type":"finish","finishReason":"stop"}\n\n'
        )


def test_a_result_belongs_to_its_call_if_the_node_returns_no_messages() -> None:
    """A call that was not made, because its arguments did not fit, takes no result of another one."""
    g = GraphBuilder(Chat, name="chat")

    @g.node
    async def talk(state: Chat, ctx: Context) -> None:
        await ctx.bind(Agent("none", name="clerk", tools=[stock])).run(state["messages"])

    both = AgentReply(tool_calls=(asks(1, "stock", count="x"), asks(2, "stock", item="teapot")))
    model = ScriptedModel([both, "There are 3."], check_calls=False)
    with Runtime(g.add_sequence([START, talk, END]).compile(), store="memory:", models={"clerk": model}) as shop:
        shop.run(said("How many?"), thread="t")
        outputs = {one["toolCallId"]: one.get("output") for one in chunks_of(shop.entries("t")) if "dynamic" in one}

    assert outputs == {"1.0:talk/call-1": None, "1.0:talk/call-2": "3 of teapot"}


@pytest.mark.parametrize(("answer", "output"), [(True, "ordered 2 of kettle"), (False, "tool-output-denied")])
def test_approval_pauses_the_message_and_its_answer_continues_it(answer: bool, output: str) -> None:
    with runtime(asks(1, "order", item="kettle", count=2), "Done.") as shop:
        shop.run(said("Two kettles"), thread="t")
        paused = message(chunks_of(shop.entries("t")))
        shop.resume("t", answer=answer)
        whole = message(chunks_of(shop.entries("t")))

    assert [part.get("name") or part.get("text") or part["id"] for part in whole] == ["t:1", "order", "Done."]
    assert paused[1]["asked"] == whole[1]["asked"]
    assert (paused[1]["input"], whole[1]["output"]) == ({"item": "kettle", "count": 2}, output)


def scripts() -> list[tuple[Any, ...]]:
    both = AgentReply(text="I look.", tool_calls=(asks(1, "stock", item="a"), asks(2, "stock", item="b")))
    return [
        ("Hello there, what can I do?",),
        (asks(1, "stock", item="teapot"), "There are 3."),
        (both, AgentReply(text="Six.", thinking="three and three")),
        (asks(1, "order", item="kettle", count=2), "Done."),
        (asks(1, "nothing", item="x"), asks(2, "stock", count="x"), "That did not work."),
    ]


@pytest.mark.parametrize("script", scripts())
def test_wire_of_a_prefix_is_a_prefix_and_equals_the_rest_from_any_position(script: Any) -> None:
    with runtime(*script) as shop:
        result = shop.run(said("Hi"), thread="t")
        if result.interrupts:
            shop.resume("t", answer=True)
        entries = list(shop.entries("t"))
        whole = wire(entries)

        for at in range(len(entries) + 1):
            projection = UiMessages()
            known = "".join(line(chunk) for one in entries[:at] for chunk in projection.entry(one))
            rest = "".join(line(chunk) for one in entries[at:] for chunk in projection.entry(one))
            assert known == wire(entries[:at])
            assert whole == known + rest
    assert message(chunks_of(entries))


@pytest.mark.parametrize("script", scripts())
def test_watched_run_ends_with_the_message_of_its_journal(script: Any) -> None:
    with runtime(*script) as shop:
        shown = live_chunks(shop.stream(said("Hi"), thread="t", modes=MODES))
        if shop.state("t").interrupts:
            before = message(shown)
            projection = UiMessages()
            for entry in shop.entries("t"):
                projection.entry(entry)
            for mode, item in shop.stream(thread="t", answer=True, modes=MODES):
                shown += projection.entry(item) if mode == "events" else projection.live(mode, item)
            assert message(shown)[: len(before)][0] == before[0]
        committed = message(chunks_of(shop.entries("t")))

    assert message(shown) == committed
    assert {"type": "data-custom", "data": {"at": "the desk"}, "transient": True} in shown
    assert [one for one in shown if one["type"] == "abort"] == []


def test_live_text_arrives_in_deltas() -> None:
    with runtime("Hello there, what can I do?") as shop:
        shown = live_chunks(shop.stream(said("Hi"), thread="t", modes=MODES))

    deltas = [one["delta"] for one in shown if one["type"] == "text-delta"]
    assert len(deltas) > 3
    assert "".join(deltas) == "Hello there, what can I do?"
    assert shown.index({"type": "finish", "finishReason": "stop"}) == len(shown) - 1


def test_abandoned_attempt_ends_the_stream_and_the_next_connection_gets_the_message_again() -> None:
    policy = RetryPolicy(2, wait_initial_s=0)
    with runtime("First words.", "Second words.", retry=policy, fails=[TimeoutError()]) as shop:
        projection, shown, over = UiMessages(), [], False
        for mode, item in shop.stream(said("Hi"), thread="t", modes=MODES):
            if not over:
                shown += projection.entry(item) if mode == "events" else projection.live(mode, item)
                over = projection.over
        anew = message(chunks_of(shop.entries("t")))

    assert over
    assert shown[-1] == {"type": "abort", "reason": "withdrawn"}
    assert message(shown)[0] == anew[0]
    assert [part["text"] for part in anew[1:]] == ["Second words."]


def test_whole_reply_replaces_lost_live_items() -> None:
    with runtime("Hello there, what can I do?") as shop:
        projection, shown = UiMessages(), []
        for number, (mode, item) in enumerate(shop.stream(said("Hi"), thread="t", modes=MODES), 1):
            if mode == "events":
                shown += projection.entry(item)
            elif number not in (6, 7):
                shown += projection.live(mode, item, 2 if number == 8 else 0)

        assert message(shown) == message(chunks_of(shop.entries("t")))


def test_task_whose_first_items_were_lost_is_shown_by_whole_replies() -> None:
    """A late reader may get a task whose first deltas are already gone."""
    with runtime("Hello there, what can I do?") as shop:
        items = list(shop.stream(said("Hi"), thread="t", modes=MODES))
    projection = UiMessages()
    begun = next(item for mode, item in items if mode == "events")
    pieces = [(mode, item) for mode, item in items if mode == "messages"]
    shown = projection.entry(begun)

    shown += projection.live(*pieces[1], missed=1)
    assert [one["type"] for one in shown] == ["start"]
    for piece in pieces[2:]:
        shown += projection.live(*piece)

    assert [one["delta"] for one in shown if one["type"] == "text-delta"] == ["Hello there, what can I do?"]
    assert not projection.over


@pytest.mark.parametrize("lost", [(AgentReply,), (AgentReply, ModelEnded), (AgentReply, ModelEnded, ToolStarted)])
def test_reply_missing_from_the_live_items_does_not_shift_later_ones(lost: tuple[type, ...]) -> None:
    """A writer drops items that are too large, and the oldest ones that it keeps for late readers."""
    with runtime("First.", asks(1, "stock", item="tea"), "There are three.") as shop:
        shop.run(said("Hi"), thread="t")
        projection, shown, missed, left = UiMessages(), [], 0, [*lost]
        for mode, item in shop.stream(said("Tea?"), thread="t", modes=MODES):
            if mode == "events":
                shown += projection.entry(item)
            elif left and mode == "messages" and isinstance(item.item, left[0]):
                missed += 1
                del left[0]
            else:
                shown += projection.live(mode, item, missed)
                missed = 0
        turns = [entry.seq for entry in shop.entries("t") if isinstance(entry.event, RunStarted)]
        whole = chunks_of(shop.entries("t", after=turns[1] - 1))

    deltas = [one["id"] for one in shown if one["type"] == "text-delta"]
    assert not left
    assert sorted(map(str, message(shown))) == sorted(map(str, message(whole)))  # lost items come with the commit
    assert (len(deltas) > 1, set(deltas)) == (True, {"2.0:talk/1/text"})


def test_withdrawn_items_are_the_last_of_a_message() -> None:
    """The final reasoning differs from the live one, and its additional text is not sent any more."""
    projection = UiMessages()

    def live(item: Any) -> list[str]:
        return [
            one["type"] for one in projection.live("messages", MessageItem(node="talk", task_id="1.0:talk", item=item))
        ]

    live(ThinkingDelta(text="Something else"))
    live(TextDelta(text="Hello"))

    assert live(AgentReply(text="Hello there.", thinking="Hm.")) == ["abort"]


def test_text_of_a_failed_model_call_is_withdrawn_when_the_next_attempt_shows_another() -> None:
    projection = UiMessages()

    def live(item: Any) -> list[str]:
        return [
            one["type"] for one in projection.live("messages", MessageItem(node="talk", task_id="1.0:talk", item=item))
        ]

    live(TextDelta(text="Hello"))

    assert live(ModelFailed(call=1, model="m", error="TransientModelError", delay_s=0.0)) == []
    assert live(TextDelta(text="Good")) == ["abort"]


def test_failed_run_reports_the_error_without_the_state() -> None:
    with runtime("Words.", fails=[ValueError("sesame")]) as shop:
        with pytest.raises(Exception, match="sesame"):
            shop.run(said("Hi"), thread="t")
        found = wire(shop.entries("t"))

    assert '"errorText":"The run failed with ' in found
    assert found.endswith('data: {"type":"finish","finishReason":"error"}\n\n')
    assert "sesame" not in found


def test_question_is_a_data_part_until_it_is_answered() -> None:
    g = GraphBuilder(Chat, name="chat")

    @g.node
    def ask(state: Chat, ctx: Context) -> None:
        ctx.interrupt({"which": "colour?"}, key="colour")

    g.add_sequence([START, ask, END])
    with Runtime(g.compile(), store="memory:") as asking:
        asking.run(said("Hi"), thread="t")
        asking.resume("t", answer="red")
        data = [one for one in chunks_of(asking.entries("t")) if one["type"] == "data-question"]

    assert [(one["id"], one["data"]["open"]) for one in data] == [
        ("t/1.0:ask#key=colour", True),
        ("t/1.0:ask#key=colour", False),
    ]
    assert data[0]["data"]["payload"] == {"which": "colour?"}


@pytest.mark.parametrize("end", ["abandoned", "stale"])
def test_question_that_accepts_no_answer_any_more_is_closed(end: str) -> None:
    g = GraphBuilder(Chat, name="chat")

    @g.node
    def ask(state: Chat, ctx: Context) -> None:
        ctx.interrupt({"which": len(state["messages"])})

    g.add_sequence([START, ask, END])
    with Runtime(g.compile(), store="memory:") as asking:
        asking.run(said("Hi"), thread="t")
        if end == "abandoned":
            asking.run(said("Never mind"), thread="t", if_exists="abandon")
        else:
            asking.update("t", said("Never mind"))
            asking.retry("t")
        data = [one for one in chunks_of(asking.entries("t")) if one["type"] == "data-question"]
        (question,) = asking.state("t").interrupts

    assert [(one["id"] == question.id, one["data"]["open"]) for one in data] == [
        (False, True),
        (False, False),
        (True, True),
    ]


def test_each_turn_is_a_separate_message_and_is_found_by_its_input() -> None:
    with runtime("One.", "Two.") as shop:
        shop.run(said("a"), thread="t")
        first = list(shop.entries("t"))
        shop.run(said("b"), thread="t")
        entries = list(shop.entries("t"))
        begin = inputs(entries)[-1]
        assert begin is not None

        assert begin == first[-1].seq + 1
        assert message(chunks_of(entries[begin - 1 :])) == message(chunks_of(entries))
        assert message(chunks_of(entries))[0]["id"] == f"t:{begin}"
        assert DONE == "data: [DONE]\n\n"


def rules(request: ModelRequest) -> str | ToolCall:
    """A model that answers according to the conversation, which makes repeated calls possible."""
    last = request.messages[-1]
    return asks(1, "book", item="kettle") if last.role == "user" else f"Done: {last.text}"


def test_message_is_the_same_after_a_kill_at_each_write() -> None:
    """The process dies before or after each write; another one continues, and answers."""

    def ended(store: MemoryStore, first: Runtime | None = None) -> tuple[list[dict[str, Any]], list[Entry]]:
        with Runtime(chat(), store=store, models={"clerk": FunctionModel(rules)}) as shop:
            if (first or shop).run(said("Two kettles"), thread="t", if_exists="continue").status == "interrupted":
                (first or shop).resume("t", answer=True)
            entries = list(shop.entries("t"))
        return message(chunks_of(entries)), entries

    twin, _ = ended(MemoryStore())
    at, died = 0, True
    while died:
        at += 1
        store = MemoryStore()
        dying = CrashStore(store, at)
        try:
            ended(store, Runtime(chat(), store=dying, models={"clerk": FunctionModel(rules)}))
        except CrashError:
            dying.bury()
        died = bool(dying.died)
        before = list(Runtime(chat(), store=store).entries("t")) if list(store.threads()) else []
        found, entries = ended(store)

        assert found == twin, dying.died
        assert wire(entries).startswith(wire(before)), dying.died
    assert at > 12


def test_what_a_nested_graph_has_said_is_shown_once():
    """Its messages are in the update of the task that runs it, too."""

    async def talk(state: Chat, ctx: Context) -> Chat:
        reply = await ctx.bind(Agent("none", name="clerk")).run(state["messages"])
        return {"messages": list(reply.new_messages)}

    inner = GraphBuilder(Chat, name="inner")
    inner.add_node("talk", talk).add_sequence([START, "talk", END])
    g = GraphBuilder(Chat, name="outer")
    g.add_node("nest", inner.compile()).add_sequence([START, "nest", END])
    runtime = Runtime(g.compile(), store="memory:", models={"clerk": ScriptedModel(["We are open."])})
    runtime.run({"messages": [UserMessage(text="Hi")]}, thread="t")

    projection = UiMessages()
    found = [one for entry in runtime.entries("t") for one in projection.entry(entry)]
    assert [one["delta"] for one in found if one["type"] == "text-delta"] == ["We are open."]
