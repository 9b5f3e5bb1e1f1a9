"""The provider's id of a request, over real HTTP: it is in each error after the headers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.harness.wires import KEY, WAYS, WIRES, ask, model_for, request

from graphrt.errors import HarnessError
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]


def failure_of(wire: str, way: str, answer: ChatAnswer) -> HarnessError:
    timeout_s = 1 if answer.gap_s else 60  # the other answers are fast, but the machine may be slow
    with FakeChatServer([answer]) as server, pytest.raises(HarnessError) as caught:
        asyncio.run(ask(model_for(wire, server, timeout_s=timeout_s), way, request()))
    return caught.value


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["x-request-id", "Request-Id"])
@pytest.mark.parametrize(
    "answer",
    [
        ChatAnswer.failure(500, "so it is"),
        ChatAnswer.failure(429),
        ChatAnswer.html(),
        ChatAnswer.malformed(),
        ChatAnswer(finish_reason="content_filter"),
        ChatAnswer(raw=b"{" * 1000, gap_s=0.1, pieces=1000),
        ChatAnswer(status=307, raw=b"", headers={"Location": "http://canary.invalid"}),
    ],
    ids=["500", "429", "html", "malformed", "refusal", "timeout", "redirect"],
)
def test_id_of_the_request_is_in_the_error(wire: str, way: str, answer: ChatAnswer, name: str) -> None:
    named = replace(answer, headers={**answer.headers, name: "req_0123"})

    error = failure_of(wire, way, named)

    assert error.request_id == "req_0123"
    assert "request 'req_0123'" in error.where
    assert error.billed is (answer.status == 200)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("way", WAYS)
def test_request_without_an_id_has_none(wire: str, way: str) -> None:
    assert failure_of(wire, way, ChatAnswer.failure(500)).request_id is None


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("way", WAYS)
def test_credential_in_a_request_id_is_redacted(wire: str, way: str) -> None:
    answer = replace(ChatAnswer.failure(500), headers={"x-request-id": f"r {KEY}"})

    error = failure_of(wire, way, answer)

    assert KEY not in f"{error} {error.request_id}"
