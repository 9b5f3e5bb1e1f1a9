"""What a process that logs at DEBUG records of calls of LiteLLMModel: prompts and answers only on request."""

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
    """The records of all loggers, with the root logger at DEBUG."""
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
            for _ in range(100):  # litellm writes a part of its log afterwards
                await asyncio.sleep(0)

        asyncio.run(go())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("way", WAYS)
def test_prompts_are_not_logged_when_the_root_logger_is_at_debug(wire: str, way: str, logged: io.StringIO) -> None:
    call(wire, way)

    assert [said for said in SAID if said in logged.getvalue()] == []


@pytest.mark.parametrize("wire", WIRES)
def test_prompts_are_logged_if_a_library_is_configured_to(
    wire: str, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("LiteLLM"), "level", logging.DEBUG)
    logging.getLogger("LiteLLM").manager._clear_cache()  # type: ignore[attr-defined]  # like setLevel()

    call(wire, "invoke")

    assert SAID[0] in logged.getvalue()


def test_log_lines_of_other_users_of_the_library_are_unchanged(logged: io.StringIO) -> None:
    call("openai", "invoke")
    logging.getLogger("LiteLLM").debug("a line of somebody else")

    assert "a line of somebody else" in logged.getvalue()
