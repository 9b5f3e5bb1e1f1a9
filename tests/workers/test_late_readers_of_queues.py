"""Readers of tasks that workers of queues run: they may connect late or reconnect, and tasks are shown in parallel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Send
from graphrt.graph import CompiledGraph

from .mail_support import Open, soon
from .speaking import PATIENT_S, Client, Said, Speaker, words


def fan(number: int, attempts: int = 1) -> CompiledGraph[Said, Any]:
    """Starts *number* tasks of the queue `gpu`, each of which emits the words of one call."""
    g = GraphBuilder(Said, name="fan")

    async def speak(state: Said, ctx: Context) -> None:
        ctx.emit(f"p{ctx.arg}")
        await ctx.harness.run("Speak.")

    g.add_node("plan", lambda state: None)
    g.add_node("speak", speak, queue="gpu", retry=RetryPolicy(attempts=attempts, wait_initial_s=0.01))
    g.set_entry("plan")
    g.add_conditional_edges("plan", lambda state: [Send("speak", n) for n in range(number)], ["speak"])
    return g.compile()


class Floor:
    """A thread whose tasks wait for their queue, and workers that run one each, with their own speaker."""

    def __init__(self, open_: Open, graph: CompiledGraph[Any, Any]) -> None:
        self.open, self.graph = open_, graph
        self.server = open_(graph)
        self.thread = self.server.start({})
        self.running: list[threading.Thread] = []

    def drive(self) -> None:
        self.open(self.graph, harness=Speaker()).drive(self.thread)

    def works(self, task: str, speaker: Speaker) -> Speaker:
        runtime = self.open(self.graph, harness=speaker)
        self.running.append(threading.Thread(target=runtime.run_task, args=(self.thread, task)))
        self.running[-1].start()
        return speaker

    def ended(self) -> None:
        for one in self.running:
            one.join(PATIENT_S)
        self.drive()

    def reads(self, after: int | str = 0) -> Iterator[Any]:
        return self.server.follow(self.thread, after=after, live=True)


def read(client: Client, items: Iterator[Any], until: Callable[[], bool] = lambda: False) -> Client:
    for one in items:
        client.take(one)
        if until():
            break
    return client


@pytest.mark.parametrize("late", [0, 7, 18])
def test_reader_of_a_queued_task_gets_all_words_once_regardless_of_when_it_connects(open_: Open, late: int) -> None:
    floor = Floor(open_, fan(1))
    floor.drive()
    speaker = floor.works("2.0:speak", Speaker(words()))
    speaker.until(late)
    client, items = Client(), floor.reads()
    if late:
        read(client, items, lambda: len(client.tokens) == late)
    speaker.may_say = 19
    soon(lambda: speaker.said == 19)
    floor.ended()
    read(client, items)

    assert client.tokens == words()
    assert client.final == {"2.0:speak": "".join(words())}
    assert client.progress == [("2.0:speak", "p0")]
    assert [what for node, what in client.tasks if node == "speak"] == ["started", "ended", "step"]
    assert client.missed == 0
    assert client.entries == [entry.seq for entry in floor.server.entries(floor.thread)]


def test_reader_that_reconnects_gets_the_rest_of_one_task_and_the_others_from_the_start(open_: Open) -> None:
    floor = Floor(open_, fan(3))
    floor.drive()
    speakers = [floor.works(f"2.{n}:speak", Speaker([f"{n}{word}" for word in words()])) for n in range(3)]
    for speaker in speakers:
        speaker.until(5)
    client, items = Client(), floor.reads()
    read(client, items, lambda: len(client.tokens) == 15)
    assert client.texts == {f"2.{n}:speak": "".join(speakers[n].texts[0][:5]) for n in range(3)}
    for speaker in speakers:
        speaker.until(9)
    items = floor.reads(client.position)
    read(client, items, lambda: sum(len(text.split()) for text in client.texts.values()) == 27)
    speakers[0].may_say = 19
    soon(lambda: not floor.running[0].is_alive())
    floor.drive()  # takes the report of the first one, while the others go on
    late, late_items = Client(), floor.reads()
    for speaker in speakers:
        speaker.may_say = 19
    floor.ended()
    for one, rest in ((client, items), (late, late_items)):
        read(one, rest)
        assert {**one.final} == {f"2.{n}:speak": "".join(speakers[n].texts[0]) for n in range(3)}
        assert one.missed == 0

    assert client.tasks.count(("speak", "withdrawn")) == 2
    assert ("speak", "withdrawn") not in late.tasks


def test_partial_text_is_withdrawn_if_the_rest_is_lost_because_the_task_has_ended(open_: Open) -> None:
    floor = Floor(open_, fan(2))
    floor.drive()
    steady, other = (floor.works(f"2.{n}:speak", Speaker(words())) for n in range(2))
    for speaker in (steady, other):
        speaker.until(5)
    client, items = Client(), floor.reads()
    read(client, items, lambda: len(client.tokens) == 10)
    other.may_say = 19
    floor.running[1].join(PATIENT_S)
    steady.until(6)
    read(client, items, lambda: len(client.texts["2.0:speak"].split()) == 6)
    position = client.position
    client.texts["2.1:speak"] = "".join(words(5))  # as if it had left before the rest came
    store: Any = floor.server.store
    store.forget_live([floor.thread])
    items = floor.reads(position)
    steady.may_say = 19
    floor.ended()
    read(client, items)

    assert client.final == {"2.0:speak": "".join(words())}


def test_text_of_a_worker_that_was_replaced_is_withdrawn(open_: Open) -> None:
    floor = Floor(open_, fan(1))
    floor.drive()
    first = Speaker(words())
    runtime = open_(floor.graph, harness=first)
    worker = threading.Thread(target=runtime.run_task, args=(floor.thread, "2.0:speak"))
    worker.start()
    first.until(5)
    client, items = Client(), floor.reads()
    read(client, items, lambda: len(client.tokens) == 5)
    runtime.hand_over("a release", grace_s=0)
    worker.join(PATIENT_S)
    second = floor.works("2.0:speak", Speaker(words()))
    second.until(7)
    late, late_items = Client(), floor.reads()
    read(late, late_items, lambda: late.texts.get("2.0:speak") == "".join(words(7)))
    second.may_say = 19
    floor.ended()
    read(client, items)
    read(late, late_items)

    assert client.tokens == words(5) + words()
    assert ("speak", "withdrawn") in client.tasks
    assert client.final == late.final == {"2.0:speak": "".join(words())}


def test_words_of_a_queued_task_are_not_resent_after_its_superstep(open_: Open) -> None:
    g = GraphBuilder(Said, name="two")

    async def speak(state: Said, ctx: Context) -> None:
        await ctx.harness.run("Speak.")

    g.add_node("first", speak, queue="gpu").add_node("second", speak, queue="gpu")
    g.add_sequence([START, "first", "second", END])
    floor = Floor(open_, g.compile())
    floor.drive()
    early = Client()
    items = floor.reads()
    speaker = floor.works("1.0:first", Speaker(words()))
    speaker.may_say = 19
    floor.ended()
    speaker = floor.works("2.0:second", Speaker(words()))
    speaker.until(4)
    read(early, items, lambda: len(early.tokens) == 23)
    late = Client()
    items = floor.reads()
    read(late, items, lambda: len(late.tokens) == 4)
    speaker.may_say = 19
    floor.ended()
    read(late, items)

    assert late.tokens == words()


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("how", ["cancel", "abandon"])
def test_text_of_a_queued_task_is_withdrawn_when_its_run_is_abandoned(open_: Open, how: str, comes_back: bool) -> None:
    floor = Floor(open_, fan(1))
    floor.drive()
    speaker = floor.works("2.0:speak", Speaker(words()))
    speaker.until(5)
    client, items = Client(), floor.reads()
    read(client, items, lambda: len(client.tokens) == 5)
    if comes_back:
        items = floor.reads(client.position)
    if how == "cancel":
        floor.server.cancel(floor.thread)
    else:
        floor.server.start({"text": "new"}, thread=floor.thread, while_running="abandon")
        floor.drive()
    read(client, items, lambda: not client.texts)
    floor.running[0].join(PATIENT_S)

    assert ("speak", "withdrawn") in client.tasks
    assert client.tokens == words(5)


def test_plain_node_of_a_queue_emits_that_it_starts_and_ends(open_: Open) -> None:
    g = GraphBuilder(Said, name="plain")
    g.add_node("work", lambda state: {"text": "done"}, queue="gpu")
    g.add_sequence([START, "work", END])
    floor = Floor(open_, g.compile())
    items = floor.reads()
    floor.drive()
    floor.works("1.0:work", Speaker())
    floor.ended()

    assert read(Client(), items).tasks == [("work", "started"), ("work", "ended"), ("work", "step")]
