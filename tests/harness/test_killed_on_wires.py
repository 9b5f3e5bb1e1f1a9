"""An agent on each wire whose process is killed within a tool: the next life requests the rest, in the API's form."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.harness.providers import TEXT, THOUGHT
from tests.harness.wire_lives import KILLED
from tests.testing.warm_python import warm_python

from graphrt.events import Usage
from graphrt.harness import ToolCall
from graphrt.testing import ChatAnswer, ChatRequest, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.slow, pytest.mark.xdist_group("litellm")]

IMPORTED = ("tests.harness.warm_litellm", "tests.harness.providers", "graphrt.runtime", "graphrt.stores.sqlite")
"""The imports that each life would make first."""
SPENT = Usage(input_tokens=40, output_tokens=12)
LOOK = ToolCall(id="call_look", name="look", arguments={"at": "the sky"})


def has_result(asked: ChatRequest) -> bool:
    return "the sky is grey" in json.dumps(asked.body)


def test_killed_agent_requests_only_the_rest_on_every_wire(tmp_path: Path) -> None:
    calls = ChatAnswer(thinking=THOUGHT, tool_calls=(LOOK,), usage=SPENT)
    rules = {has_result: ChatAnswer(text=TEXT, usage=SPENT), (lambda asked: not has_result(asked)): calls}
    with FakeChatServer(rules) as server:

        def live(which: str) -> Any:
            command = [str(Path(__file__).with_name("wire_lives.py")), str(tmp_path), server.anthropic_url, which]
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            return warm_python(*IMPORTED).run(command, env=env)

        first = live("first")
        assert first.returncode == -signal.SIGKILL, first.stderr
        before = server.requests
        second = live("second")
        assert second.returncode == 0, second.stderr
        after = server.requests[len(before) :]

    assert json.loads(second.stdout) == {one.model: {"said": TEXT, "calls": 2, "input_tokens": 80} for one in KILLED}
    assert (len(before), len(after)) == (len(KILLED), len(KILLED))
    for provider in KILLED:
        (asked,) = [one for one in after if path_of(provider.api) in one.path]
        assert has_result(asked)
        if provider.returned is not None:
            assert provider.returned(asked)


def path_of(api: str) -> str:
    return {"chat completions": "/chat/completions", "Responses": "/responses", "messages": "/messages"}.get(
        api, ":generate"
    )
