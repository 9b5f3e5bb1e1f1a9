"""Readers of an answered thread whose tasks run again: texts from before the question stay before it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt.events import RunResumed
from graphrt.graph import CompiledGraph
from graphrt.harness import AgentReply, FunctionModel, ModelRequest
from graphrt.harness.agent.events import ToolEnded
from graphrt.runtime import LiveItem, MessageItem
from graphrt.wires.ag_ui import AgUi
from graphrt.wires.ui_history import messages
from graphrt.wires.ui_messages import UiMessages

from .asking import GIVEN, MODELS, WORDS, Chat, alone, baker, beside, call, clerk, look, order, says
from .mail_support import Open, soon
from .speaking import PATIENT_S
from .test_readers_of_waiting_threads import approve, shown

LOOK, ORDER, MILK, DONE = WORDS
SAID = [LOOK, "calls look", "there is tea", ORDER, "calls look", "there is milk"]
BESIDE = ["I watch.", "Welcome.", "A cake, too? "]
ASKS = ["1.0:clerk asks", "1.2:nest asks"]


class Answered:
    """A thread that paused and was answered. Its models wait before they say certain texts."""

    def __init__(self, open_: Open, graph: CompiledGraph[Any, Any, Any], *held: str, **models: Any) -> None:
        self._gate = threading.Event()
        self._held = held
        rules = {"clerk": clerk, "baker": baker, **models}
        gated = {name: FunctionModel(self._waits(one)) for name, one in rules.items()}
        self.runtime = open_(graph)
        self.driver: Runtime[Any] = open_(graph, models={**MODELS, **gated})
        self._worker: threading.Thread | None = None
        assert self.driver.run(GIVEN, thread="t").status == "interrupted"

    def _waits(self, answer: Any) -> Any:
        def reply(request: ModelRequest) -> Any:
            said = answer(request)
            assert said.text not in self._held or self._gate.wait(PATIENT_S)
            return said

        return reply

    def answer(self, *tasks: str) -> None:
        """Approve the questions of these tasks, in another worker thread."""
        last = self.runtime.state("t").seq
        self._worker = threading.Thread(target=approve, args=(self.driver, *tasks))
        self._worker.start()
        soon(lambda: any(isinstance(one.event, RunResumed) for one in self.runtime.entries("t", after=last)))

    def drive(self) -> None:
        """Drive the thread by another runtime, with models that no longer wait."""
        self.driver.drive("t")

    def reads(self, after: int | str = 0) -> Iterator[Any]:
        return self.runtime.follow("t", after=after, live=True)

    def end(self) -> None:
        self._gate.set()
        if self._worker is not None:
            self._worker.join(PATIENT_S)


def until(items: Iterator[Any], *results: str) -> list[Any]:
    """Read until the tools returned *results*."""
    found: list[Any] = []
    left = {*results}
    while left:
        found.append(next(items))
        if isinstance(found[-1], LiveItem) and isinstance(found[-1].item, MessageItem):
            inner = found[-1].item.item
            left.discard(inner.text if isinstance(inner, ToolEnded) else "")
    return found


def whats(items: Iterable[Any], task: str) -> list[str]:
    """What the items of the mode `live` say about a task."""
    return [one.item.what for one in items if isinstance(one, LiveItem) and one.mode == "live" and one.task_id == task]


def test_a_reader_that_begins_while_the_answered_task_runs_has_its_words_before_the_question(open_: Open) -> None:
    made = Answered(open_, beside(), MILK)
    made.answer("1.0:clerk")
    reader = made.reads()
    before = until(reader, "ordered tea")
    made.end()
    rest = [*reader]

    assert shown(before) == [*SAID, *BESIDE, *ASKS, "goes on", "calls order", "ordered tea"]
    assert shown(rest) == [MILK, "1.0:clerk asks"]
    assert "withdrawn" not in whats([*before, *rest], "1.0:clerk")


def test_a_reader_that_was_there_for_the_question_is_told_nothing_twice(open_: Open) -> None:
    made = Answered(open_, beside(), MILK)
    reader = made.reads()
    before = [next(reader) for _ in range(len([*made.reads()]))]
    made.answer("1.0:clerk", "baker")
    before += until(reader, "ordered tea", "ordered cake")
    made.end()
    rest = [*reader]

    assert shown(before)[: len(SAID) + 6] == [*SAID, *BESIDE, *ASKS, "goes on"]
    assert sorted(shown([*before, *rest])[len(SAID) + 6 :]) == sorted([
        *["calls order", "ordered tea", "calls order", "ordered cake", MILK, "A cake comes.", "1.0:clerk asks"]
    ])  # fmt: skip
    assert "withdrawn" not in whats([*before, *rest], "1.0:clerk")


def page(*parts: Iterable[Any]) -> list[Any]:
    """The message of a page that took these items, and none that was withdrawn."""
    return messages(one for part in parts for one in part if not _is_withdrawn(one))[-1]["parts"]


def _is_withdrawn(item: Any) -> bool:
    return isinstance(item, LiveItem) and item.mode == "live" and item.item.what == "withdrawn"


def test_a_page_has_each_part_once_and_in_order_from_every_position_while_the_tasks_run(open_: Open) -> None:
    """A reader that disconnects after any item and comes back ends with the same content as one that stayed."""
    results = {"ordered tea", "ordered cake"}
    made = Answered(open_, beside(), MILK, "A cake comes.")
    made.answer("1.0:clerk", "baker")
    items = until(made.reads(), *results)

    whole = page(items)
    for number, one in enumerate(items[:-1], 1):
        position = one.position if isinstance(one, LiveItem) else one.seq
        rest = until(made.reads(position), *results.difference(shown(items[:number])))
        assert page(items[:number], rest) == whole, position
    made.end()


def sent(chat: Any, items: Iterable[Any]) -> list[Any]:
    """The chunks or events of a protocol for these items."""
    return [
        event
        for one in items
        for event in (chat.live(one.mode, one.item, one.missed) if isinstance(one, LiveItem) else chat.entry(one))
    ]


@pytest.mark.parametrize("protocol", [UiMessages, AgUi])
def test_a_page_that_reconnects_has_the_order_of_one_that_stayed(open_: Open, protocol: Any) -> None:
    made = Answered(open_, beside(), MILK)
    stays = made.reads()
    stayed = [next(stays) for _ in range(len([*made.reads()]))]
    made.answer("1.0:clerk")
    comes = made.reads()
    came = until(comes, "ordered tea")
    made.end()
    stayed += stays
    came += comes

    assert sent(protocol(), came) == sent(protocol(), stayed)


def test_an_agent_that_goes_on_after_an_answer_has_begun_a_step(open_: Open) -> None:
    made = Answered(open_, alone(), MILK)
    made.answer("1.0:clerk")
    events = [one["type"] for one in sent(AgUi(), until(made.reads(), "ordered tea"))]
    made.end()

    again = [number for number, one in enumerate(events) if one == "RUN_STARTED"][-1]
    assert events[again + 1 :] == ["STEP_STARTED", "TOOL_CALL_RESULT"]


def test_messages_that_are_loaded_while_the_answered_task_runs_have_its_words_before_the_question(open_: Open) -> None:
    made = Answered(open_, beside(), MILK)
    before = messages(made.runtime.entries("t", live=True))[-1]["parts"]
    made.answer("1.0:clerk")
    until(made.reads(), "ordered tea")
    loaded = messages(made.runtime.entries("t", live=True))[-1]["parts"]
    made.end()
    after = messages(made.runtime.entries("t", live=True))[-1]["parts"]

    assert [_named(one) for one in loaded] == [_named(one) for one in before]
    assert [_named(one) for one in after][: len(before)] == [_named(one) for one in before]


def _named(part: Any) -> str:
    return str(part.get("id") or part.get("toolCallId") or part["type"])


def test_words_between_two_questions_stay_between_them_while_the_second_answer_is_used(open_: Open) -> None:
    made = Answered(open_, alone(), DONE)
    approve(made.driver, "1.0:clerk")
    made.answer("1.0:clerk")
    reader = made.reads()
    found = until(reader, "ordered milk")
    made.end()

    assert shown([*found, *reader]) == [
        *[*SAID, "1.0:clerk asks", "goes on", "calls order", "ordered tea", MILK, "1.0:clerk asks", "goes on"],
        *["calls order", "ordered milk", DONE],
    ]


def test_words_of_an_attempt_that_failed_after_the_answer_are_not_before_the_question(open_: Open) -> None:
    g = GraphBuilder(Chat, name="failing")

    @g.node(retry=RetryPolicy(attempts=2, wait_initial_s=0.001))
    async def talk(state: Chat, ctx: Context) -> Chat:
        said = await says("clerk", order, look)(state, ctx)
        if ctx.attempt == 1:
            raise ConnectionError
        return said  # type: ignore[no-any-return]

    g.add_sequence([START, talk, END])
    calls: list[ModelRequest] = []

    def counts(request: ModelRequest) -> AgentReply:
        calls.append(request)
        done = request.messages[-1].role == "tool"
        text = f"Call {len(calls)}."
        return AgentReply(text=text, tool_calls=() if done else (call("1", "order", "tea"),))

    made = Answered(open_, g.compile(), "Call 4.", clerk=counts)
    reader = made.reads()
    stayed = [next(reader) for _ in range(len([*made.reads()]))]
    made.answer("1.0:talk")
    soon(lambda: len(calls) == 4)
    late = until(made.reads(), "ordered tea")
    made.end()
    stayed += reader

    assert shown(late)[:2] == ["1.0:talk asks", "goes on"]
    assert "withdrawn" in whats(stayed, "1.0:talk")


def test_an_answered_task_of_a_queue_has_its_words_before_its_question(open_: Open) -> None:
    made = Answered(open_, alone("desk"), MILK)
    made.driver.run_task("t", "1.0:clerk")
    made.driver.drive("t")
    approve(made.driver, "1.0:clerk")
    worker = threading.Thread(target=made.driver.run_task, args=("t", "1.0:clerk"))
    worker.start()
    found = until(made.reads(), "ordered tea")
    made.end()
    worker.join(PATIENT_S)

    assert shown(found) == [
        *["1.0:clerk asks", "goes on", *SAID, "1.0:clerk asks", "goes on", "1.0:clerk asks"],
        *["calls order", "ordered tea"],
    ]


def test_a_task_that_began_after_the_answer_has_its_words_after_it(open_: Open) -> None:
    inner = GraphBuilder(Chat, name="inner")
    inner.add_node("baker", says("baker", order)).add_node("clerk", says("clerk", order, look))
    inner.add_sequence([START, "baker", "clerk", END])
    g = GraphBuilder(Chat, name="nesting")
    g.add_node("nest", inner.compile())
    g.add_sequence([START, "nest", END])
    made = Answered(open_, g.compile(), clerk=lambda _: AgentReply(text="I come later."))
    approve(made.driver, "baker")

    assert shown(made.runtime.entries("t", live=True)) == ["A cake, too? ", "1.0:nest asks", "goes on"]


def test_a_reader_that_comes_when_another_run_has_taken_over_has_the_words_where_they_were(open_: Open) -> None:
    made = Answered(open_, alone(), MILK)
    reader = made.reads()
    stayed = [next(reader) for _ in range(len([*made.reads()]))]
    made.answer("1.0:clerk")
    stayed += until(reader, "ordered tea")
    made.driver.hand_over("a release", grace_s=0)
    made.end()
    made.drive()
    stayed += reader
    came = [*made.reads()]

    assert shown(came)[: len(SAID) + 2] == [*SAID, "1.0:clerk asks", "goes on"]
    assert page(came) == page(made.runtime.entries("t", live=True))
    at = max(number for number, one in enumerate(stayed) if _is_withdrawn(one))
    words = shown(stayed[at:])
    assert [words.count(one) for one in (LOOK, ORDER, "ordered tea", MILK)] == [1] * 4
