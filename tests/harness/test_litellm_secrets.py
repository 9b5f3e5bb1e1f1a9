"""Credentials in any part of a call do not appear in any output of LiteLLMModel."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import pickle
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from tests.harness.wires import WAYS, WIRES, address, ask, request

from graphrt.errors import HarnessError
from graphrt.harness import LiteLLMHarness, LiteLLMModel, StreamItem
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

KEY = "plain-key-without-a-form-0001"
IN_QUERY = "query-key-secret-0002"
HEADER = "header-secret-0003"
BEARER = "bearer-secret-0004"
OPTION = "option-secret-0005"
NESTED = "nested-secret-0006"
PER_CALL = "per-call-secret-0007"
PER_CALL_HEADER = "per-call-header-0008"
ENVIRONMENT = "environment-secret-0009"
SHAPED = "sk-shaped-secret-0010"
QUOTED = 'quoted"secret\\0011'
PASSWORD = "password-secret-0012"
SECRETS = (
    KEY, IN_QUERY, HEADER, BEARER, OPTION, NESTED, PER_CALL, PER_CALL_HEADER, ENVIRONMENT, SHAPED, QUOTED, PASSWORD
)  # fmt: skip
OPTIONS = {
    "extra_headers": {"X-Gate": HEADER, "Proxy-Authorization": f"Bearer {BEARER}", "X-Quoted-Key": QUOTED},
    "aws_secret_access_key": OPTION,
    "metadata": {"inner": [{"token": NESTED}]},
}
ASKED = request(options={"client_secret": PER_CALL, "headers": {"X-Call": PER_CALL_HEADER}})
ECHO = f"you sent {json.dumps(SECRETS)} and {' '.join(SECRETS)}, http://user:{PASSWORD}@host/?key={IN_QUERY}"
ANSWERS = {
    "auth": ChatAnswer.failure(401, ECHO),
    "bad request": ChatAnswer.failure(400, ECHO, code="content_filter"),
    "rate": ChatAnswer.failure(429, ECHO),
    "server": ChatAnswer.failure(500, ECHO),
    "names": ChatAnswer(
        status=400, raw=json.dumps({"error": {"code": KEY, "type": PASSWORD, "status": ECHO}}).encode()
    ),
    "text": ChatAnswer(raw=ECHO.encode()),
    "edge": ChatAnswer(raw=b"<" + b"x" * 188 + ECHO.encode()),
    "no answer": ChatAnswer(raw=json.dumps({"model": ECHO, "choices": []}).encode()),
    "stream": ChatAnswer(raw=b"data: " + json.dumps({"error": {"message": ECHO, "code": 500}}).encode() + b"\n\n"),
    "drop": ChatAnswer.drop(after=2),
    "late": ChatAnswer(text="late", delay_s=30),
    "fine": ChatAnswer(text="fine"),
}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The records of all loggers, at DEBUG."""
    text, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(text), root.level
    handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.setLevel(level)
    root.removeHandler(handler)


def model_at(address: str, wire: str) -> LiteLLMModel:
    """A model with an address in its options that contains a key; as its own address, it would not reach the server."""
    options = {**OPTIONS, "callback_url": f"http://host/?key={IN_QUERY}"}
    return LiteLLMModel(f"{wire}/fake", api_key=KEY, api_base=address, timeout_s=0.5, options=options)


def hits(*sinks: object) -> list[str]:
    shown = "\n".join(str(sink) for sink in sinks)
    forms = {form for secret in SECRETS for form in (secret, json.dumps(secret)[1:-1])}
    return sorted(form for form in forms if form in shown)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_no_sink_shows_a_credential(
    wire: str, way: str, kind: str, log: io.StringIO, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_OTHER_API_KEY", ENVIRONMENT)
    monkeypatch.setenv("SOME_SERVICE_URL", f"https://user:{PASSWORD}@host/x")
    items: list[StreamItem] = []
    sinks: list[Any] = []
    with FakeChatServer([ANSWERS[kind]], strict=False) as server:
        model = model_at(address(wire, server), wire)
        try:
            items.append(asyncio.run(ask(model, way, ASKED, items)))
        except HarnessError as error:
            sinks += [error, repr(error), error.__dict__, *traceback.format_exception(error), repr(error.__context__)]
            sinks += [pickle.loads(pickle.dumps(error))]
    sinks += [model, repr(model), repr(model.profile), items, log.getvalue(), *capfd.readouterr()]

    for line in "\n".join(map(str, sinks)).splitlines():
        assert hits(line) == [], line[:2000]
    assert kind == "fine" or sinks[0] is not model, "the answer was to fail"


@pytest.mark.graphrt_real_requests
def test_credentials_in_an_address_are_not_shown_when_it_is_refused(log: io.StringIO, wire: str) -> None:
    base = f"http://user:{PASSWORD}@127.0.0.1:9"
    model = LiteLLMModel(f"{wire}/fake", api_key=KEY, api_base=base, timeout_s=5)

    with pytest.raises(HarnessError) as caught:
        asyncio.run(model.invoke(request()))

    assert hits(*traceback.format_exception(caught.value), repr(model), log.getvalue()) == []


def test_background_loop_does_not_log_the_text_of_an_exception(log: io.StringIO) -> None:
    from graphrt.harness._background_loop import _note

    loop = asyncio.new_event_loop()
    _note(loop, {"message": "Task exception was never retrieved", "exception": ValueError(KEY)})
    loop.close()

    assert "ValueError" in log.getvalue()
    assert hits(log.getvalue()) == []


def test_repr_of_harness_and_model_hides_their_arguments() -> None:
    base = f"http://user:{PASSWORD}@host/?key={IN_QUERY}"
    shown = [
        repr(made("openai/fake", api_key=KEY, api_base=base, options=OPTIONS))
        for made in (LiteLLMModel, LiteLLMHarness)
    ]

    assert hits(*shown) == []
