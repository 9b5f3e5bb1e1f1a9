"""Idempotency keys: a write that is repeated with its key has its effect once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from graphrt import Runtime
from graphrt.serve import _keys
from graphrt.stores import MailFilter

from .conftest import papers


def test_repeated_start_creates_one_thread(served):
    body = {"input": {"topic": "tea"}}

    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda _: served("POST", "/threads", body, idempotency_key="k"), range(8))]

    assert {one.status_code for one in answers} == {202}
    assert len({one.json()["thread"] for one in answers}) == 1
    assert served("POST", "/threads", body, idempotency_key="other").json()["thread"] != answers[0].json()["thread"]
    assert len(served("GET", "/threads").json()["threads"]) == 2


def test_start_and_fork_with_client_ids_are_created_once(served):
    def start(thread):
        body = {"input": {"topic": "tea"}, "thread": thread}
        return served("POST", "/threads?wait_s=10", body, idempotency_key="k")

    def fork(key):
        return served("POST", "/threads/t/fork", {"to": "f"}, idempotency_key=key)

    assert start("t").json()["status"] == "interrupted"
    served("POST", "/threads/t/answers?wait_s=10", {"answer": True})

    assert start("t").json()["status"] == "completed"
    assert start("u").json()["code"] == "key-reused"
    assert [fork("one").json()["thread"] for _ in range(2)] == ["f", "f"]
    assert fork("two").json()["code"] == "thread-exists"


def test_fork_and_signal_are_created_once(served):
    thread = served.paused()

    forks = [served("POST", f"/threads/{thread}/fork", {}, idempotency_key="k").json()["thread"] for _ in range(2)]
    signals = [
        served("POST", f"/threads/{thread}/signals", {"name": "go"}, idempotency_key="k").json()["kept"]
        for _ in range(2)
    ]

    assert len(set(forks)) == 1
    assert signals == [True, False]


def test_edit_folds_once_although_two_replicas_get_it(serve):
    with Runtime(papers(), store="memory:") as one:
        first, second = serve(one), serve(Runtime(papers(), store=one.store), drives=False)
        thread = first.paused()
        body = {"values": {"notes": ["mine"]}}

        def edit(served):
            return served("POST", f"/threads/{thread}/update", body, idempotency_key="k")

        with ThreadPoolExecutor(8) as pool:
            answers = [*pool.map(edit, [first, second] * 4)]
        later = edit(second)

        assert {one.status_code for one in answers} <= {200, 409}
        assert {one.json().get("code") for one in answers} <= {None, "key-in-progress"}
        assert later.status_code == 200
        assert first("GET", f"/threads/{thread}").json()["state"]["notes"] == ["on tea", "mine"]


def test_input_and_answer_are_processed_once(served):
    thread = served.paused()

    def answer():
        return served("POST", f"/threads/{thread}/answers?wait_s=10", {"answer": True}, idempotency_key="a").json()

    def run():
        body = {"input": {"topic": "milk"}}
        return served("POST", f"/threads/{thread}/runs?wait_s=10", body, idempotency_key="r").json()

    assert [answer()["status"], answer()["status"]] == ["completed", "completed"]
    assert [run()["state"]["notes"], run()["state"]["notes"]] == [["on tea", "on milk"]] * 2


def test_key_with_another_request_is_refused(served):
    thread = served.paused()
    served("POST", f"/threads/{thread}/update", {"values": {"notes": ["a"]}}, idempotency_key="k")

    answer = served("POST", f"/threads/{thread}/update", {"values": {"notes": ["b"]}}, idempotency_key="k")

    assert (answer.status_code, answer.json()["code"]) == (422, "key-reused")
    assert served("GET", f"/threads/{thread}").json()["state"]["notes"] == ["on tea", "a"]


def test_refused_request_may_be_corrected_under_its_key(served):
    thread = served.paused()
    path = f"/threads/{thread}/answers?wait_s=10"

    refused = served("POST", path, {"answer": "perhaps"}, idempotency_key="k")
    mended = served("POST", path, {"answer": True}, idempotency_key="k")

    assert refused.status_code == 422
    assert (mended.status_code, mended.json()["status"]) == (200, "completed")


@pytest.mark.parametrize(
    ("age_s", "goes_on", "code", "notes"),
    [
        (1.0, False, "key-in-progress", []),
        (3_600.0, False, None, ["a"]),
        (3_600.0, True, "key-outcome-unknown", ["b"]),
    ],
)
def test_request_whose_process_died_is_repeated_only_if_nothing_was_written(serve, age_s, goes_on, code, notes):
    now = 1_000_000.0
    with Runtime(papers(), store="memory:", clock=lambda: now) as runtime:
        served = serve(runtime)
        thread = served.paused()
        keys = served.application._keys["papers"]
        begin = keys.begin

        def die(*request, **more) -> str:
            begin(*request, **more)
            raise KeyError("the process dies here")

        def edit():
            return served("POST", f"/threads/{thread}/update", {"values": {"notes": ["a"]}}, idempotency_key="k")

        keys.begin = die
        edit()
        keys.begin = begin
        now += age_s
        if goes_on:
            served("POST", f"/threads/{thread}/update", {"values": {"notes": ["b"]}})
        answers = [edit(), edit()]

        assert [one.json().get("code") for one in answers] == [code, code]
        assert served("GET", f"/threads/{thread}").json()["state"]["notes"] == ["on tea", *notes]


def test_input_that_a_dead_process_queued_is_not_queued_again(serve):
    now = 1_000_000.0
    with Runtime(papers(), store="memory:", clock=lambda: now) as runtime:
        served = serve(runtime, drives=False)
        served("POST", "/threads", {"input": {"topic": "tea"}, "thread": "t"})
        keys = served.application._keys["papers"]
        end = keys.end

        def die(record: str) -> None:
            raise KeyError(f"the process dies here, before {record} is ended")

        def queue():
            body = {"input": {"topic": "milk"}, "while_running": "queue"}
            return served("POST", "/threads/t/runs", body, idempotency_key="k")

        keys.end = die
        queue()
        keys.end = end
        now += 3_600.0
        again = queue()

        assert again.json().get("code") == "key-outcome-unknown"
        assert len(runtime.store.query(MailFilter(thread="t"))) == 1


def test_records_of_keys_are_not_listed_with_threads_and_expire_after_a_day(serve):
    now = 1_000_000.0
    with Runtime(papers(), store="memory:", clock=lambda: now) as runtime:
        served = serve(runtime)
        thread = served.paused()
        served("POST", f"/threads/{thread}/update", {"values": {"notes": ["a"]}}, idempotency_key="k")
        kept = runtime.threads(graph="graphrt.serve.keys")
        now += 2 * _keys.KEPT_S
        _keys.Keys(runtime).begin("key-other", "digest", 0, waits=lambda: False)

        assert [one["thread"] for one in served("GET", "/threads").json()["threads"]] == [thread]
        assert len(kept) == 1
        assert [one.thread for one in runtime.threads(graph="graphrt.serve.keys")] == ["key-other"]


def test_expired_records_beyond_the_limit_of_a_request_are_deleted_by_later_ones(monkeypatch):
    monkeypatch.setattr(_keys, "_SWEPT", 2)
    now = 1_000_000.0
    with Runtime(papers(), store="memory:", clock=lambda: now) as runtime:
        keys = _keys.Keys(runtime)
        for number in range(5):
            keys.begin(f"key-{number}", "digest", 0, waits=lambda: False)
        now += 2 * _keys.KEPT_S
        keys = _keys.Keys(runtime)
        for number in range(5, 8):
            keys.begin(f"key-{number}", "digest", 0, waits=lambda: False)

        assert [one.thread for one in runtime.threads()] == ["key-5", "key-6", "key-7"]


@pytest.mark.parametrize("verb", ["end", "forget"])
def test_outcome_is_recorded_although_a_repetition_has_just_claimed_the_record(monkeypatch, verb):
    with Runtime(papers(), store="memory:") as runtime:
        keys = _keys.Keys(runtime)
        keys.begin("key-1", "digest", 0, waits=lambda: False)
        claim = runtime.store.claim("key-1", create=False, lease_s=30, at=0.0)
        monkeypatch.setattr(_keys, "sleep", lambda _s: runtime.store.release(claim))

        getattr(keys, verb)("key-1")

        again = keys.begin("key-1", "digest", 0, waits=lambda: False)
        assert again == (None if verb == "end" else "key-1")


def test_repetition_waits_a_moment_for_the_first_request(monkeypatch):
    with Runtime(papers(), store="memory:") as runtime:
        keys = _keys.Keys(runtime)
        keys.begin("key-1", "digest", 0, waits=lambda: False)
        monkeypatch.setattr(_keys, "sleep", lambda _s: keys.end("key-1"))

        assert keys.begin("key-1", "digest", 0, waits=lambda: False) is None


@pytest.mark.parametrize("key", ["", "x" * 256, "\x01"])
def test_key_is_a_short_printable_string(served, key):
    assert served("POST", "/threads", {"input": {"topic": "tea"}}, idempotency_key=key).status_code == 400
