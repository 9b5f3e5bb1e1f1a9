"""Requests that are refused before they have an effect, and server errors that are hidden from clients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.serve import Bounds, Caller

from .conftest import SECRET, Paper, Served

Serve = Callable[..., Served]


def test_requests_that_wait_for_the_end_of_a_run_are_bounded_and_refused_before_they_act(serve: Serve) -> None:
    served = serve(drives=False, bounds=Bounds(waits_per_caller=2))
    body = {"input": {"topic": "tea"}}
    waiting = [threading.Thread(target=lambda: served("POST", "/threads?wait_s=30", body)) for _ in range(2)]
    for one in waiting:
        one.start()
    while len(served("GET", "/threads").json()["threads"]) < 2:  # each waits now for a run without a driver
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
    assert served("POST", "/threads?wait_s=0.01", body).status_code == 202  # ended requests made room


def test_key_of_a_start_or_fork_with_another_request_is_refused(served: Served) -> None:
    def start(topic: str) -> dict[str, Any]:
        return served("POST", "/threads", {"input": {"topic": topic}}, idempotency_key="k").json()

    thread = start("tea")["thread"]

    def fork(**body: Any) -> dict[str, Any]:
        return served("POST", f"/threads/{thread}/fork", body, idempotency_key="k").json()

    assert (start("milk")["code"], start("tea")["thread"]) == ("key-reused", thread)
    copy = fork()["thread"]
    assert (fork(at=1)["code"], fork()["thread"]) == ("key-reused", copy)


def test_error_in_authorize_is_a_server_error_without_details(serve: Serve) -> None:
    """A bug in authorize= is not a mistake of the client, and its text may contain a secret."""

    def who(_request: Any) -> Caller:
        rights: Any = frozenset({SECRET})
        return Caller(rights=rights)

    answer = serve(drives=False, authorize=who)("GET", "/threads")

    assert (answer.status_code, answer.json()["code"]) == (500, "unexpected")
    assert SECRET not in answer.text


def test_repeated_answer_is_processed_once(served: Served) -> None:
    thread = served.paused()

    first, again = (served("POST", f"/threads/{thread}/answers", {"answer": True}) for _ in range(2))

    assert (first.status_code, again.status_code) == (202, 409)
    # A worker has the thread, has ended the run, or has taken the answer and not ended it.
    assert again.json()["code"] in ("conflict", "wrong-verb", "unknown-interrupt")
    served("GET", f"/threads/{thread}?wait_s=10")
    entries = served("GET", f"/threads/{thread}/entries?limit=100").json()["entries"]
    assert [one["event"] for one in entries].count("interrupt-answered") == 1


def test_answer_to_an_expired_question_is_refused(serve: Serve) -> None:
    now = 1_000.0
    g = GraphBuilder(Paper, name="papers")

    @g.node
    def ask(state: Paper, ctx: Context) -> dict[str, Any]:
        return {"approved": ctx.interrupt("?", key="q", answer_type=bool, expires_s=5)}

    g.add_sequence([START, ask, END])
    with Runtime(g.compile(), store="memory:", clock=lambda: now) as runtime:
        served = serve(runtime, drives=False)
        runtime.run({"topic": "tea"}, thread="t")
        now += 10

        late = served("POST", "/threads/t/answers", {"answer": True})

        assert (late.status_code, late.json()["code"]) == (409, "interrupt-expired")
        assert runtime.state("t").status == "interrupted"
