"""Actions of the page: only with the right, only from the page itself, and continued by a worker or this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.serve import Caller

from .conftest import HERE, check

WAITING = {"graph": "desk", "thread": "waiting"}


def post(client: Any, verb: str, headers: dict[str, str] | None = None, **more: Any) -> Any:
    return client.post("/api/act", json={**WAITING, "verb": verb, **more}, headers=HERE if headers is None else headers)


def until(runtime: Runtime[Any, Any], status: str, thread: str = "waiting") -> None:
    end = time.monotonic() + 20
    while runtime.state(thread).status != status:
        assert time.monotonic() < end, runtime.state(thread)
        time.sleep(0.01)


def test_question_is_answered_with_edited_arguments_and_the_run_continues_here(
    letters: Runtime[Any, Any], viewer: Callable[..., Any]
) -> None:
    client = viewer(letters, Caller(user="ann"), acting="drive")
    assert client.get("/api/head").json()["acting"] == ["answer", "retry", "cancel"]
    [asked] = letters.state("waiting").interrupts
    edited = {"approve": True, "arguments": {"to": "bob", "text": "hello"}}

    check(post(client, "answer", answers={asked.id: edited}).json(), "Acted")
    until(letters, "interrupted")
    rows = client.get("/api/rows", params=WAITING).json()["rows"]
    [resumed] = [row for row in rows if row["kind"] == "resumed" and row["answers"]]
    assert (resumed["user"], resumed["answers"][0]["answer"]) == ("ann", edited)
    talk = client.get("/api/conversation", params=WAITING).json()["messages"]
    asked_of = [part for one in talk for part in one["parts"] if part["kind"] == "question"]
    assert [(one["answer"], one["by"]) for one in asked_of][:1] == [(edited, "ann")]
    [write] = [row for row in rows if row["node"] == "write" and row["outcome"] == "success"]
    assert write["tools"][1]["result"]["text"] == "sent to bob: 5 characters"


def test_answer_is_stored_for_a_worker(letters: Runtime[Any, Any], viewer: Callable[..., Any]) -> None:
    client = viewer(letters, acting="start")
    [asked] = letters.state("waiting").interrupts
    post(client, "answer", answers={asked.id: True})

    assert [one.thread for one in letters.due()] == ["waiting"]


def test_threads_are_cancelled_and_retried(letters: Runtime[Any, Any], viewer: Callable[..., Any]) -> None:
    client = viewer(letters, acting="drive")
    assert post(client, "cancel").json()["status"] == "cancelled"
    assert post(client, "retry").json()["status"] in ("running", "interrupted")
    until(letters, "interrupted")


@pytest.mark.parametrize(
    ("rights", "refused"),
    [
        ({"read"}, {"answer", "retry", "cancel"}),
        ({"read", "answer"}, {"retry", "cancel"}),
        ({"read", "run"}, {"answer"}),
    ],
)
def test_verb_requires_its_right(
    letters: Runtime[Any, Any], viewer: Callable[..., Any], rights: set[Any], refused: set[str]
) -> None:
    client = viewer(letters, Caller(rights=frozenset(rights)), acting="start")
    answered = {verb: post(client, verb, answers={}) for verb in ("answer", "retry", "cancel")}

    assert {verb for verb, answer in answered.items() if answer.status_code == 403} == refused
    assert set(client.get("/api/head").json()["acting"]) == {"answer", "retry", "cancel"} - refused


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**HERE, "origin": "http://evil.example"},
        {**HERE, "origin": "http://["},
        {**HERE, "sec-fetch-site": "cross-site"},
        {**HERE, "content-type": "text/plain"},
    ],
)
def test_request_of_another_page_changes_nothing(
    letters: Runtime[Any, Any], viewer: Callable[..., Any], headers: dict[str, str]
) -> None:
    client = viewer(letters, acting="drive")

    assert post(client, "cancel", headers).status_code in (400, 403)
    assert letters.state("waiting").status == "interrupted"


def test_read_only_viewer_offers_no_actions(letters: Runtime[Any, Any], viewer: Callable[..., Any]) -> None:
    client = viewer(letters)

    assert client.get("/api/head").json()["acting"] == []
    assert post(client, "cancel").status_code == 400
    assert client.get("/api/act").status_code == 405
    assert letters.state("waiting").status == "interrupted"


def test_thread_of_another_tenant_cannot_be_acted_on(letters: Runtime[Any, Any], viewer: Callable[..., Any]) -> None:
    client = viewer(letters, Caller(tenant="other"), acting="start")

    assert post(client, "cancel").status_code == 404
    assert letters.state("waiting").status == "interrupted"


@pytest.mark.parametrize("body", ["[1]", "{", '{"verb": "answer"}', '{"verb": ["cancel"]}', '{"verb": "delete"}'])
def test_body_that_is_not_an_action_is_refused(
    letters: Runtime[Any, Any], viewer: Callable[..., Any], body: str
) -> None:
    client = viewer(letters, acting="start")
    answer = client.post("/api/act", content=body, headers={**HERE, "content-type": "application/json"})

    assert answer.status_code == 400
