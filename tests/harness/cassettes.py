"""Shared parts of the tests of cassettes: requests, a counting model, and recorded cassettes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphrt.errors import ScriptError
from graphrt.harness import FunctionModel, StreamItem, UserMessage
from graphrt.harness.cassette import Cassette
from graphrt.harness.protocol import ChatModel
from graphrt.harness.request import ModelRequest


def req(text: str, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(text=text),), **fields)


def counting() -> FunctionModel:
    """Answers with the number of its calls."""
    model: FunctionModel = FunctionModel(lambda request: f"{request.text} {len(model.calls)}")
    return model


def ask(model: ChatModel, *requests: str | ModelRequest) -> list[str]:
    async def go() -> list[str]:
        return [(await model.invoke(req(r) if isinstance(r, str) else r)).text for r in requests]

    return asyncio.run(go())


async def read(stream: Any) -> list[StreamItem]:
    return [item async for item in stream]


def refused(action: Callable[[], Any]) -> ScriptError:
    with pytest.raises(ScriptError) as caught:
        action()
    return caught.value


def record(path: Path, *requests: str | ModelRequest) -> FunctionModel:
    model = counting()
    with Cassette(path, mode="record") as cassette:
        ask(cassette.model(model), *requests)
    return model
