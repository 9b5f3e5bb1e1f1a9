"""A worker whose model says 19 words, one each 0.05 seconds; `process_support` starts it. No test."""

from __future__ import annotations

import asyncio
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
    with Runtime(speaking(), store=url, lease_s=lease_s, harness=Talker()) as runtime:
        worker = Worker(runtime, concurrency=4, poll_s=0.05)
        print("working", flush=True)  # noqa: T201 - the test waits for it
        worker.serve(grace_s=2.0)
