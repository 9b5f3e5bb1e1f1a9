"""What a process that logs at DEBUG gets to see of calls of LiteLLMModel: prompts and answers only if it asks for them."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Iterator

import pytest
from tests.harness.wires import WAYS, WIRES, ask, model_for, request

from graphrt.errors import TransientModelError
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

SAID = ("prompt-of-a-person", "instructions-of-a-firm", "answer-of-a-model")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that any logger says, with the root logger at DEBUG."""
    text, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.setLevel(level)
    root.removeHandler(handler)


def call(wire: str, way: str) -> None:
    with FakeChatServer([SAID[2], ChatAnswer.failure(500)]) as server:
        model = model_for(wire, server)
        asked = request(SAID[0], system=SAID[1])

        async def go() -> None:
            await ask(model, way, asked)
            with pytest.raises(TransientModelError):
                await ask(model, way, asked)
            for _ in range(100):  # litellm writes some of its log afterwards
                await asyncio.sleep(0)

        asyncio.run(go())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("way", WAYS)
def test_prompts_are_not_logged_when_the_root_logger_is_at_debug(wire: str, way: str, logged: io.StringIO) -> None:
    call(wire, way)

    assert [said for said in SAID if said in logged.getvalue()] == []


@pytest.mark.parametrize("wire", WIRES)
def test_prompts_are_logged_when_a_library_is_asked_for_them(
    wire: str, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("LiteLLM"), "level", logging.DEBUG)
    logging.getLogger("LiteLLM").manager._clear_cache()  # type: ignore[attr-defined]  # as setLevel() does

    call(wire, "invoke")

    assert SAID[0] in logged.getvalue()


def test_lines_of_others_who_use_the_library_are_left_alone(logged: io.StringIO) -> None:
    call("openai", "invoke")
    logging.getLogger("LiteLLM").debug("a line of somebody else")

    assert "a line of somebody else" in logged.getvalue()
