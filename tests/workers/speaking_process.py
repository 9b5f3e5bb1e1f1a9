"""A worker whose model speaks 19 words, one every 0.05 seconds; `process_support` starts it. No test.

With QUEUE in its environment, the node that speaks has this queue, and the worker serves it. With HOLDS_AFTER, it
stops speaking after so many words, until the test kills it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from graphrt import Runtime
from graphrt.harness import AgentReply, Prompt, TextDelta
from graphrt.workers import Worker

from .speaking import speaking, words

PAUSE_S = 0.05


class Talker:
    """Speaks the words at its own pace, or so many of them only."""

    def __init__(self, holds_after: int | None) -> None:
        self.holds_after = holds_after

    async def run(self, prompt: Prompt, /, **options: Any) -> AgentReply:
        await asyncio.sleep(PAUSE_S * 19)
        return AgentReply(text="".join(words()))

    async def stream(self, prompt: Prompt, /, **options: Any) -> AsyncIterator[Any]:
        for number, word in enumerate(words()):
            await asyncio.sleep(600 if number == self.holds_after else PAUSE_S)
            yield TextDelta(text=word)
        yield AgentReply(text="".join(words()))


def main(url: str, lease_s: float) -> None:
    queue, holds_after = os.environ.get("QUEUE") or None, os.environ.get("HOLDS_AFTER")
    talker = Talker(int(holds_after) if holds_after else None)
    with Runtime(speaking(queue=queue), store=url, lease_s=lease_s, harness=talker) as runtime:
        worker = Worker(runtime, concurrency=4, poll_s=0.05, queues=[queue] if queue else [])
        print("working", flush=True)  # noqa: T201 - the test waits for it
        worker.serve(grace_s=2.0)
