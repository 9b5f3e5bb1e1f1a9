"""A worker whose model says 19 words, one each 0.05 seconds; `process_support` starts it. No test.

With QUEUE in its environment, the node that speaks has this queue, and the worker serves it.
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
    """Says the words at its own pace."""

    async def run(self, prompt: Prompt, /, **options: Any) -> AgentReply:
        await asyncio.sleep(PAUSE_S * 19)
        return AgentReply(text="".join(words()))

    async def stream(self, prompt: Prompt, /, **options: Any) -> AsyncIterator[Any]:
        for word in words():
            await asyncio.sleep(PAUSE_S)
            yield TextDelta(text=word)
        yield AgentReply(text="".join(words()))


def main(url: str, lease_s: float) -> None:
    queue = os.environ.get("QUEUE") or None
    with Runtime(speaking(queue=queue), store=url, lease_s=lease_s, harness=Talker()) as runtime:
        worker = Worker(runtime, concurrency=4, poll_s=0.05, queues=[queue] if queue else [])
        print("working", flush=True)  # noqa: T201 - the test waits for it
        worker.serve(grace_s=2.0)
