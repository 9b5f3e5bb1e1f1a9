"""Readers of a waiting thread get the texts of its open tasks from before the questions, whichever process ran them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt._flows.live import Live
from graphrt._runs.live_items import Again, Heading, batch, line, texts
from graphrt.events import Entry, InterruptRaised, RunInterrupted, RunResumed, ThreadLabelled
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, AgentReply, FunctionModel, ModelRequest, TextDelta, ToolCall
from graphrt.harness.agent.events import ToolEnded, ToolStarted
from graphrt.runtime import LiveItem, MessageItem
from graphrt.stores.values import NewBatch
from graphrt.wires.ui_history import messages

from .asking import GIVEN, MODELS, WORDS, Chat, alone, beside, call, look, order, says
from .mail_support import Open, soon
from .speaking import PATIENT_S, Client

LOOK, ORDER, MILK, _ = WORDS


def paused(open_: Open, graph: CompiledGraph[Any, Any, Any], **options: Any) -> Runtime[Any]:
    """A runtime of the thread `t`, which paused before it had a follower."""
    runtime = open_(graph, models=options.pop("models", MODELS), **options)
    assert runtime.run(GIVEN, thread="t").status == "interrupted"
    return runtime


def approve(runtime: Runtime[Any], *tasks: str) -> str:
    """Approve the questions of these tasks, and return the status of the thread."""
    asked = [one.id for one in runtime.state("t").interrupts]
    return runtime.resume("t", {id_: True for id_ in asked if any(f"{one}#" in id_ for one in tasks)}).status


def shown(items: Iterable[Any]) -> list[str]:
    """The items shown to a reader, in order: texts, tool calls, results, questions, and where the run continues."""
    found: list[str] = []
    for one in items:
        what = one.event if isinstance(one, Entry) else one.item.item if isinstance(one.item, MessageItem) else one.item
        match what:
            case AgentReply(text=text):
                found.append(text)
            case ToolStarted(call=call):
                found.append(f"calls {call.name}")
            case ToolEnded(text=text):
                found.append(text)
            case InterruptRaised(task=task) if not one.path:
                found.append(f"{task} asks")
            case RunResumed() if not one.path:
                found.append("goes on")
            case _:
                pass
    return found


def test_what_was_said_before_a_question_is_shown_before_it(open_: Open) -> None:
    runtime = paused(open_, alone())
    client = Client()
    items = [*runtime.follow("t", live=True)]
    for one in items:
        client.take(one)

    assert shown(items) == [LOOK, "calls look", "there is tea", ORDER, "calls look", "there is milk", "1.0:clerk asks"]
    assert client.texts == {"1.0:clerk": LOOK + ORDER}
    assert client.missed == 0


def test_the_journal_alone_says_nothing_of_it(open_: Open) -> None:
    runtime = paused(open_, alone())

    assert shown(runtime.entries("t")) == shown(runtime.follow("t")) == ["1.0:clerk asks"]
    assert [*runtime.entries("t", live=True)] == [*runtime.follow("t", live=True)]


def test_words_of_parallel_tasks_and_nested_graphs_come_before_all_questions(open_: Open) -> None:
    runtime = paused(open_, beside())

    assert shown(runtime.follow("t", live=True)) == [
        *[LOOK, "calls look", "there is tea", ORDER, "calls look", "there is milk"],
        *["I watch.", "Welcome.", "A cake, too? ", "1.0:clerk asks", "1.2:nest asks"],
    ]


def test_words_between_two_questions_of_a_task_come_between_them(open_: Open) -> None:
    runtime = paused(open_, beside())
    assert approve(runtime, "1.0:clerk") == "interrupted"

    assert shown(runtime.follow("t", live=True)) == [
        *[LOOK, "calls look", "there is tea", ORDER, "calls look", "there is milk"],
        *["I watch.", "Welcome.", "A cake, too? ", "1.0:clerk asks", "1.2:nest asks", "goes on"],
        *["calls order", "ordered tea", MILK, "1.0:clerk asks"],
    ]


def test_a_page_has_each_part_once_and_in_order_from_every_position(open_: Open) -> None:
    """A reader that disconnects after any item and comes back ends with the same content as one that stayed."""
    runtime = paused(open_, beside())
    approve(runtime, "1.0:clerk")
    items = [*runtime.follow("t", live=True)]

    def page(*parts: Iterable[Any]) -> list[Any]:
        return messages(item for part in parts for item in part if not _is_withdrawn(item))

    whole = page(items)
    for number, one in enumerate(items, 1):
        position = one.position if isinstance(one, LiveItem) else one.seq
        rest = [*runtime.follow("t", after=position, live=True)]
        assert page(items[:number], rest) == whole, position
        assert [one for one in rest if isinstance(one, LiveItem) and one.mode == "messages"] == [
            one for one in items[number:] if isinstance(one, LiveItem) and one.mode == "messages"
        ] or isinstance(one, Entry)


def _is_withdrawn(item: Any) -> bool:
    return isinstance(item, LiveItem) and item.mode == "live" and item.item.what == "withdrawn"


def test_a_reader_that_has_the_questions_is_given_nothing_before_them(open_: Open) -> None:
    runtime = paused(open_, alone())

    assert [type(one) for one in runtime.follow("t", after=2, live=True)] == [Entry]
    assert [*runtime.follow("t", after=3, live=True)] == []


def test_a_reader_that_goes_on_after_the_answer_misses_nothing(open_: Open) -> None:
    runtime = paused(open_, alone())
    client = Client()
    for one in runtime.follow("t", live=True):
        client.take(one)
    reader = runtime.follow("t", after=client.position, live=True)
    for _ in range(2):
        status = approve(runtime, "1.0:clerk")
    for one in reader:
        client.take(one)

    assert status == "completed"
    assert client.entries == [one.seq for one in runtime.entries("t")]


def test_a_reader_of_the_run_is_not_given_its_words_twice(open_: Open) -> None:
    runtime = open_(beside(), models=MODELS)
    runtime.start(GIVEN, thread="t")
    reader = runtime.follow("t", live=True)
    open_(beside(), models=MODELS).drive("t")

    words = shown(reader)
    assert [words.count(one) for one in (LOOK, ORDER, "I watch.", "Welcome.", "A cake, too? ")] == [1] * 5


@pytest.mark.parametrize("arrives", ["before", "later", "behind the question"])
def test_words_that_a_run_hands_over_after_its_question_are_not_repeated(open_: Open, arrives: str) -> None:
    """A run may notice its first follower just after its last commit, and then repeats the items of its open tasks."""
    runtime = paused(open_, alone())
    reader = runtime.follow("t", live=True)
    if arrives == "before":
        shown(next(reader) for _ in range(2))
    *_, asked = runtime.entries("t")
    assert isinstance(asked.event, RunInterrupted)
    started = Live(path="", node="clerk", task_id="1.0:clerk", what="started", value=1)
    word = MessageItem(node="clerk", task_id="1.0:clerk", item=TextDelta(text=LOOK))
    late = [line(runtime._config.plan.codec, 1, asked.seq, "live", started, "1.0:clerk"), texts(asked.seq, [(2, word)])]
    heading = Heading(asked.run, again=Again(2, asked.seq, 0), begins=True)
    runtime.store.relay([NewBatch("t", "late", batch(heading, late))])
    if arrives == "behind the question":
        assert [*runtime.follow("t", after=asked.seq, live=True)] == []
    else:
        *_, last = reader
        assert last == asked


def test_a_label_of_a_thread_that_sleeps_repeats_nothing(open_: Open) -> None:
    async def talk(state: Chat, ctx: Context) -> Chat:
        said = await says("waiter")(state, ctx)
        ctx.sleep(60)
        return said  # type: ignore[no-any-return]

    g = GraphBuilder(Chat, name="sleeping")
    g.add_node("talk", talk)
    g.add_sequence([START, "talk", END])
    runtime = paused(open_, g.compile())
    reader = runtime.follow("t", live=True)
    before = [next(reader)]
    while not (isinstance(before[-1], Entry) and isinstance(before[-1].event, RunInterrupted)):
        before.append(next(reader))
    runtime.label("t", title="Tea")
    after = next(reader)

    assert shown(before) == ["Welcome.", "1.0:talk asks"]
    assert isinstance(after, Entry), after
    assert isinstance(after.event, ThreadLabelled)


def test_the_result_of_a_call_is_not_given_to_another_one_that_was_not_made(open_: Open) -> None:
    def clerk(request: ModelRequest) -> AgentReply:
        if request.messages[-1].role == "tool":
            return AgentReply(text="Done.")
        wrong = ToolCall(id="1", name="look", arguments={"itm": "tea"})
        return AgentReply(text=LOOK, tool_calls=(wrong, call("2", "look", "milk"), call("3", "order", "tea")))

    runtime = paused(open_, alone(), models={"clerk": FunctionModel(clerk)})
    ended = [
        (one.item.item.call.id, one.item.item.text)
        for one in runtime.follow("t", live=True)
        if isinstance(one, LiveItem) and isinstance(one.item, MessageItem) and isinstance(one.item.item, ToolEnded)
    ]

    assert ended == [("2", "there is milk")]


def test_the_call_of_an_agent_that_asks_as_a_tool_comes_before_its_question(open_: Open) -> None:
    def baker(request: ModelRequest) -> AgentReply:
        if request.messages[-1].role == "tool":
            return AgentReply(text="Baked.")
        return AgentReply(text="Yes?", tool_calls=(call("1", "order", "cake"),))

    def clerk(request: ModelRequest) -> AgentReply:
        if request.messages[-1].role == "tool":
            return AgentReply(text="Done.")
        return AgentReply(text=ORDER, tool_calls=(ToolCall(id="1", name="baker", arguments={"question": "A cake?"}),))

    asks = Agent("none", name="baker", tools=[order]).as_tool(description="Bakes.")
    g = GraphBuilder(Chat, name="asking")
    g.add_node("clerk", says("clerk", asks))
    g.add_sequence([START, "clerk", END])
    runtime = paused(open_, g.compile(), models={"clerk": FunctionModel(clerk), "baker": FunctionModel(baker)})

    waits = shown(runtime.follow("t", live=True))
    status = approve(runtime, "1.0:clerk")

    assert waits == [ORDER, "calls baker", "1.0:clerk asks"]
    assert (status, shown(runtime.follow("t", live=True))) == ("completed", [*waits, "goes on"])


def test_pauses_around_nodes_come_before_what_is_said_after_them(open_: Open) -> None:
    g = GraphBuilder(Chat, name="pausing")
    g.add_node("guest", says("guest"), interrupt_after=True)
    g.add_node("clerk", says("clerk", order, look), interrupt_before=True)
    g.add_sequence([START, "guest", "clerk", END])
    runtime = paused(open_, g.compile())
    while runtime.state("t").interrupts[0].kind != "approval":
        runtime.resume("t", answer=True)
    waits = shown(runtime.follow("t", live=True))
    while runtime.state("t").status != "completed":
        runtime.resume("t", answer=True)

    assert waits == [
        *["1.0:guest asks", "goes on", "2.0:clerk asks", "goes on"],
        *[ORDER, "calls look", "there is milk", "2.0:clerk asks"],
    ]
    assert shown(runtime.entries("t", live=True))[: len(waits)] == waits


def test_words_of_an_attempt_that_failed_are_not_shown(open_: Open) -> None:
    calls: list[int] = []

    def says_anew(_: Any) -> str:
        calls.append(1)
        return f"Attempt {len(calls)}."

    g = GraphBuilder(Chat, name="retried")

    @g.node(retry=RetryPolicy(attempts=2, wait_initial_s=0.001))
    async def talk(state: Chat, ctx: Context) -> Chat:
        await says("talker")(state, ctx)
        if ctx.attempt == 1:
            raise ConnectionError
        return ctx.interrupt("Go on?")  # type: ignore[no-any-return]

    g.add_sequence([START, talk, END])
    runtime = paused(open_, g.compile(), models={"talker": FunctionModel(says_anew)})

    assert shown(runtime.follow("t", live=True)) == ["Attempt 2.", "1.0:talk asks"]


@pytest.mark.parametrize("ends", ["fails", "cancelled"])
def test_words_of_a_run_that_failed_or_was_cancelled_are_those_of_tasks_that_ended_or_wait(
    open_: Open, ends: str
) -> None:
    async def waiter(state: Chat, ctx: Context) -> Chat:
        said = await says("waiter")(state, ctx)
        await asyncio.to_thread(soon, lambda: runtime.state("t").next == ("waiter",))  # the guest has ended
        if ends == "fails":
            raise ValueError
        await asyncio.to_thread(runtime.cancel, "t")
        await asyncio.sleep(PATIENT_S)
        return said  # type: ignore[no-any-return]

    g = GraphBuilder(Chat, name="failing")
    g.add_node("guest", says("guest")).add_node("waiter", waiter)
    for name in ("guest", "waiter"):
        g.add_edge(START, name).add_edge(name, END)
    runtime = open_(g.compile(), models=MODELS)
    if ends == "fails":
        with pytest.raises(Exception, match="waiter"):
            runtime.run(GIVEN, thread="t")
    else:
        runtime.run(GIVEN, thread="t")

    assert runtime.state("t").status == ("failed" if ends == "fails" else "cancelled")
    assert shown(runtime.follow("t", live=True)) == ["I watch."]


def test_words_that_were_erased_are_not_shown(open_: Open) -> None:
    runtime = paused(open_, alone())
    runtime.erase(ORDER.strip(), force=True)

    assert shown(runtime.follow("t", live=True)) == ["1.0:clerk asks"]


def test_an_agent_of_a_queue_that_asks_has_its_words_before_the_question(open_: Open) -> None:
    runtime = open_(alone("desk"), models=MODELS)
    runtime.start(GIVEN, thread="t")
    runtime.drive("t")
    runtime.run_task("t", "1.0:clerk")
    runtime.drive("t")

    assert shown(runtime.follow("t", live=True)) == [
        *["goes on", "1.0:clerk asks", "goes on"],  # it waits for its queue
        *[LOOK, "calls look", "there is tea", ORDER, "calls look", "there is milk", "1.0:clerk asks"],
    ]


def test_a_page_that_is_loaded_after_the_answers_has_the_words_where_they_were(open_: Open) -> None:
    runtime = paused(open_, beside())
    pages = [messages(runtime.entries("t", live=True))[-1]["parts"]]
    for tasks in (["1.0:clerk"], ["1.0:clerk", "baker"]):
        status = approve(runtime, *tasks)
        pages.append(messages(runtime.entries("t", live=True))[-1]["parts"])

    def names(parts: list[Any]) -> list[str]:
        return [one.get("id") or one.get("toolCallId") or one["type"] for one in parts]

    first, second, whole = map(names, pages)
    assert status == "completed"
    assert (second[: len(first)], whole[: len(second)]) == (first, second)
    rest = messages(runtime.entries("t"))[-1]["parts"]
    assert sorted(one["text"] for one in pages[-1] if "text" in one) == sorted(
        one["text"] for one in rest if "text" in one
    )
    assert [one["state"] for one in pages[-1] if "toolCallId" in one] == ["output-available"] * 5
    assert [*runtime.follow("t", live=True)] == [*runtime.entries("t", live=True)]


@pytest.mark.parametrize("answers", [1, 2])
def test_a_reader_that_left_before_the_answers_comes_back_after_them_to_what_it_lacks(
    open_: Open, answers: int
) -> None:
    runtime = paused(open_, beside())
    if answers == 1:
        approve(runtime, "1.0:clerk")
    items = [*runtime.follow("t", live=True)]
    if answers == 2:
        approve(runtime, "1.0:clerk")
    approve(runtime, "1.0:clerk", "baker")

    def page(*parts: Iterable[Any]) -> list[str]:
        found = messages(item for part in parts for item in part if not _is_withdrawn(item))[-1]["parts"]
        return sorted(str(one) for one in found)

    whole = page(runtime.entries("t", live=True))
    for number, one in enumerate(items, 1):
        position = one.position if isinstance(one, LiveItem) else one.seq
        assert page(items[:number], runtime.follow("t", after=position, live=True)) == whole, position


def test_the_questions_of_a_copy_are_answered_under_its_own_id(open_: Open) -> None:
    """Its entries are those of the thread that was copied, whose ids of questions name that thread."""
    runtime = paused(open_, beside())
    runtime.copy_thread("t", "copy")
    paused_parts = messages(runtime.entries("copy", live=True))[-1]["parts"]
    runtime.resume("copy", {one["approval"]["id"]: True for one in paused_parts if "approval" in one})
    runtime.resume("copy", answer=True)
    parts = messages(runtime.entries("copy", live=True))[-1]["parts"]

    calls = [one["toolCallId"] for one in paused_parts if "toolCallId" in one]
    assert [one["toolCallId"] for one in parts if "toolCallId" in one][: len(calls)] == calls
    assert [one["state"] for one in parts if "toolCallId" in one] == ["output-available"] * 5


@pytest.mark.parametrize("is_committed", [False, True])
def test_entries_after_a_position_have_what_was_said_after_it(open_: Open, is_committed: bool) -> None:
    runtime = paused(open_, alone())
    for _ in range(1 + is_committed):
        approve(runtime, "1.0:clerk")
    whole = [*runtime.entries("t", live=True)]

    for after in range(whole[-1].seq + 1):
        rest = [one for one in whole if (one.seq >= after if isinstance(one, LiveItem) else one.seq > after)]
        assert [*runtime.entries("t", after=after, live=True)] == rest, after


def test_another_process_answers_and_readers_go_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"

    def process(*approved: str) -> None:
        subprocess.run([sys.executable, "-m", "tests.workers.asking", url, "t", *approved], check=True)

    process()
    with Runtime(beside(), store=url) as runtime:
        first = [*runtime.entries("t", live=True)]
        process(next(one.id for one in runtime.state("t").interrupts if "clerk" in one.id))
        second = [*runtime.entries("t", live=True)]
        process(*(one.id for one in runtime.state("t").interrupts))
        before = messages(first)[-1]["parts"]
        after = messages(second)[-1]["parts"]
        end = messages(runtime.entries("t"))[-1]

    texts = [one["text"] for one in before if one["type"] == "text"]
    assert texts == [LOOK, ORDER, "I watch.", "Welcome.", "A cake, too? "]
    assert [one["text"] for one in after if one["type"] == "text"] == [*texts, MILK]
    assert sorted(one["text"] for one in end["parts"] if one["type"] == "text") == sorted(
        [*texts, MILK, "Done.", "A cake comes."]
    )
    assert end["id"] == "t:1"
