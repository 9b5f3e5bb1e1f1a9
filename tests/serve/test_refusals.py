"""Requests that are refused before they have an effect, and mistakes of the server that a client is not shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from graphrt.serve import Bounds, Caller

from .conftest import SECRET, Served

Serve = Callable[..., Served]


def test_requests_that_wait_for_the_end_of_a_run_are_bounded_and_refused_before_they_act(serve: Serve) -> None:
    served = serve(drives=False, bounds=Bounds(waits_per_caller=2))
    body = {"input": {"topic": "tea"}}
    waiting = [threading.Thread(target=lambda: served("POST", "/threads?wait_s=30", body)) for _ in range(2)]
    for one in waiting:
        one.start()
    while len(served("GET", "/threads").json()["threads"]) < 2:  # each waits now for a run that nothing drives
        pass

    refused = served("POST", "/threads?wait_s=30", body)
    begun = served("POST", "/threads", body)

    threads = served("GET", "/threads").json()["threads"]
    for one in threads:
        served("POST", f"/threads/{one['thread']}/cancel")
    for one in waiting:
        one.join()
    assert (refused.status_code, refused.json()["code"], begun.status_code) == (429, "too-many-requests", 202)
    assert len(threads) == 3
    assert served("POST", "/threads?wait_s=0.01", body).status_code == 202  # those that ended made room


def test_a_key_of_a_start_or_a_fork_that_comes_with_another_request_is_refused(served: Served) -> None:
    def start(topic: str) -> dict[str, Any]:
        return served("POST", "/threads", {"input": {"topic": topic}}, idempotency_key="k").json()

    thread = start("tea")["thread"]

    def fork(**body: Any) -> dict[str, Any]:
        return served("POST", f"/threads/{thread}/fork", body, idempotency_key="k").json()

    assert (start("milk")["code"], start("tea")["thread"]) == ("key-reused", thread)
    copy = fork()["thread"]
    assert (fork(at=1)["code"], fork()["thread"]) == ("key-reused", copy)


def test_an_error_of_the_function_that_authorizes_is_the_servers_and_says_nothing(serve: Serve) -> None:
    """A wrong right in authorize= is no mistake of the client, and its text may have a secret."""

    def who(_request: Any) -> Caller:
        rights: Any = frozenset({SECRET})
        return Caller(rights=rights)

    answer = serve(drives=False, authorize=who)("GET", "/threads")

    assert (answer.status_code, answer.json()["code"]) == (500, "unexpected")
    assert SECRET not in answer.text
