"""A model that speaks a text word by word at the pace of the test, and a client that stores what it receives. No tests."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, RetryPolicy
from graphrt.events import Entry, SuperstepCommitted
from graphrt.graph import CompiledGraph
from graphrt.harness import AgentReply, Prompt, TextDelta
from graphrt.runtime import Live, LiveItem, MessageItem

PATIENT_S = 20.0


class Said(BaseModel):
    text: str = ""


def words(most: int = 19) -> list[str]:
    return [f"w{n} " for n in range(most)]


class Speaker:
    """Speaks *texts*, one for each call, and waits after each word until the test releases the next."""

    def __init__(self, *texts: Iterable[str]) -> None:
        self.texts = [[*text] for text in texts]
        self.calls = 0
        self.streamed = 0
        self.said = 0
        self.may_say = 0
        self.fails_after: dict[int, int] = {}
        """Maps the number of a call, from 1, to the number of words after which it fails."""

    async def run(self, prompt: Prompt, /, **options: Any) -> AgentReply:
        self.calls += 1
        return AgentReply(text="".join(self.texts[self.calls - 1]))

    async def stream(self, prompt: Prompt, /, **options: Any) -> AsyncIterator[Any]:
        self.calls += 1
        self.streamed += 1
        call, text = self.calls, self.texts[self.calls - 1]
        for number, word in enumerate(text):
            while self.may_say <= self.said:  # noqa: ASYNC110 - set from another thread
                await asyncio.sleep(0.001)
            if self.fails_after.get(call) == number:
                raise ConnectionError
            self.said += 1
            yield TextDelta(text=word)
        yield AgentReply(text="".join(text))

    def until(self, number: int) -> None:
        """Release *number* words in all, and wait until they were spoken."""
        self.may_say = number
        until = time.monotonic() + PATIENT_S
        while self.said < number:
            assert time.monotonic() < until
            time.sleep(0.001)


def speaking(
    attempts: int = 1, nodes: Iterable[str] = ("speak",), queue: str | None = None
) -> CompiledGraph[Said, Any]:
    g = GraphBuilder(Said, name="speaking")

    async def speak(state: Said, ctx: Context) -> dict[str, Any]:
        ctx.emit({"progress": 1})
        reply = await ctx.harness.run("Speak.")
        return {"text": reply.text}

    names = [*nodes]
    for name in names:
        g.add_node(name, speak, retry=RetryPolicy(attempts=attempts, wait_initial_s=0.01), queue=queue)
    g.add_sequence([START, *names, END])
    return g.compile()


class Client:
    """The state of a page: the text of the open tasks, and the items that it received for each."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        """All words that it ever received."""
        self.texts: dict[str, str] = {}
        self.progress: list[Any] = []
        self.tasks: list[tuple[str, str]] = []
        self.missed = 0
        self.entries: list[int] = []
        self.position: int | str = 0
        self.final: dict[str, str] = {}
        """Text of each committed task, at the time of its commit."""

    def take(self, one: Any) -> None:
        if isinstance(one, Entry):
            self.entries.append(one.seq)
            self.position = one.seq
            if isinstance(one.event, SuperstepCommitted):
                self.final |= self.texts
                self.texts = {}
            return
        assert isinstance(one, LiveItem)
        self.position = one.position
        self.missed += one.missed
        if isinstance(one.item, MessageItem) and isinstance(one.item.item, TextDelta):
            assert one.task_id == one.item.task_id
            self.tokens += re.findall(r"\S+\s*", one.item.item.text)  # pieces that come together are one
            self.texts[one.task_id] = self.texts.get(one.task_id, "") + one.item.item.text
        elif isinstance(one.item, Live):
            self.tasks.append((one.item.node, one.item.what))
            if one.item.what == "withdrawn":
                self.texts.pop(one.item.task_id, None)
                self.progress = [shown for shown in self.progress if shown[0] != one.item.task_id]
        elif one.mode == "custom":
            self.progress.append((one.task_id, one.item))
