"""A process that reads a long book is killed in the middle, and the next one goes on: no finished call is paid again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from graphrt.harness import AssistantMessage, Message, ModelRequest, SystemMessage, ToolMessage, UserMessage
from graphrt.nodes._recursive.limits import size_of_prompt
from graphrt.testing import ChatRequest, FakeChatServer

from .reading_process import LIMITS
from .support import book, clerk, librarian

ROOT = Path(__file__).parents[3]
FULL = os.environ.get("GRAPHRT_FULL") == "1"
SIZE = 10_500_000 if FULL else 1_400_000
KILLS = (120, 300) if FULL else (30,)
"""Numbers of the requests at which the process is killed; each life takes seconds to import litellm."""


class World:
    """The provider: answers by rules, counts requests, and kills the process that asks at some of them."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.largest = 0
        self.process: subprocess.Popen[str] | None = None

    def answer(self, request: ChatRequest) -> Any:
        asked = ModelRequest(messages=tuple(message_of(one) for one in request.body["messages"]))
        self.requests.append(f"{request.model} {to_json(request.body['messages']).decode()}")
        if len(self.requests) in KILLS and self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
        if request.model == "piece":
            return clerk(asked)
        self.largest = max(self.largest, size_of_prompt(asked.messages))
        return librarian(asked)


def message_of(given: Any) -> Message:
    text = given.get("content") or ""
    match given["role"]:
        case "system":
            return SystemMessage(text=text)
        case "tool":
            return ToolMessage(tool_call_id=given["tool_call_id"], text=text)
        case "assistant":
            return AssistantMessage(text=text)
        case _:
            return UserMessage(text=text)


@pytest.mark.needs("litellm")
def test_a_killed_reading_goes_on_without_paying_twice(tmp_path: Path) -> None:
    world = World()
    with FakeChatServer({lambda _: True: world.answer}, strict=False) as server:
        command = [sys.executable, "-m", "tests.nodes.recursive.reading_process"]
        command += [str(tmp_path / "runs.db"), server.url, str(SIZE)]
        codes: list[int] = []
        while not codes or codes[-1] == -signal.SIGKILL:
            world.process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            out, errors = world.process.communicate(timeout=240)
            codes.append(world.process.returncode)

    assert codes == [-signal.SIGKILL] * len(KILLS) + [0], errors
    assert out.strip() == book(SIZE).answer
    assert world.largest <= LIMITS.prompt_chars
    again = {request: number for request, number in Counter(world.requests).items() if number > 1}
    assert all(number == 2 for number in again.values())
    assert len(again) <= LIMITS.concurrency * len(KILLS), "only calls that were under way are made again"
    for request in again:  # none that was answered long before the kill
        first = world.requests.index(request) + 1
        assert any(kill - 2 * LIMITS.concurrency < first <= kill + LIMITS.concurrency for kill in KILLS)
    assert len(world.requests) > (400 if FULL else 50)
