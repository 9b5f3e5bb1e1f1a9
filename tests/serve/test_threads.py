"""The verbs over HTTP: each has the effect of the verb of `Runtime`, and answers with its document."""

from __future__ import annotations

import pytest
from tests.patience import eventually

from graphrt import Runtime

from .conftest import SECRET, papers


def test_run_is_started_waited_for_answered_and_completes(served):
    begun = served("POST", "/threads", {"input": {"topic": "tea"}, "thread": "t", "title": "Tea", "tags": ["a"]})
    asked = served("GET", "/threads/t/result?wait_s=10").json()
    ended = served("POST", "/threads/t/answers?wait_s=10", {"answer": True}).json()

    assert (begun.status_code, begun.headers["location"]) == (202, "/graphs/papers/threads/t")
    assert begun.json()["status"] == "running"
    assert (asked["status"], asked["interrupts"][0]["payload"]) == ("interrupted", {"notes": 1})
    assert asked["interrupts"][0]["answer_schema"] == {"type": "boolean"}
    assert (ended["status"], ended["state"]["approved"], ended["title"]) == ("completed", True, "Tea")


def test_waiting_request_is_answered_at_its_timeout(serve):
    served = serve(drives=False)

    answer = served("POST", "/threads?wait_s=0.05", {"input": {"topic": "tea"}})

    assert (answer.status_code, answer.json()["status"]) == (202, "running")


def test_threads_are_listed_by_labels_and_pages(served):
    for name in ("one", "two", "three"):
        served.paused(thread=name, tags=["tea", name], title=f"Paper {name}")
    served("PATCH", "/threads/one", {"title": "Best", "add_tags": ["x"], "remove_tags": ["tea"]})

    def listed(query: str) -> list[str]:
        return [one["thread"] for one in served("GET", f"/threads?{query}").json()["threads"]]

    assert listed("tag=tea") == ["two", "three"]
    assert listed("tag=tea&tag=two") == ["two"]
    assert listed("title=best") == ["one"]
    assert listed("limit=1&after=one") == ["two"]
    assert listed("status=completed") == []
    assert listed("newest_first=true&limit=1") == ["three"]


def test_thread_shows_its_state_past_steps_and_entries(served):
    thread = served.paused()

    state = served("GET", f"/threads/{thread}").json()
    history = served("GET", f"/threads/{thread}/history?limit=2").json()["history"]
    steps = served("GET", f"/threads/{thread}/steps").json()["steps"]
    entries = served("GET", f"/threads/{thread}/entries?after=1&limit=2").json()["entries"]

    assert (state["state"]["notes"], state["next"]) == (["on tea"], ["approve"])
    assert served("GET", f"/threads/{thread}?at={history[-1]['seq']}").json()["state"] == history[-1]["state"]
    assert [one["node"] for one in steps] == ["search", "approve"]
    assert [one["seq"] for one in entries] == [2, 3]


def test_thread_is_edited_forked_cancelled_retried_and_deleted(served):
    thread = served.paused()

    served("POST", f"/threads/{thread}/update", {"values": {"notes": ["mine"]}})
    forked = served("POST", f"/threads/{thread}/fork", {"to": "copy"})
    cancelled = served("POST", "/threads/copy/cancel").json()
    again = served("POST", "/threads/copy/retry?wait_s=10").json()
    deleted = served("DELETE", "/threads/copy")

    assert (forked.status_code, forked.json()["thread"]) == (201, "copy")
    assert served("GET", f"/threads/{thread}").json()["state"]["notes"] == ["on tea", "mine"]
    assert (cancelled["cancelled"], cancelled["status"]) == (True, "cancelled")
    assert (again["status"], again["state"]["notes"]) == ("interrupted", ["on tea", "mine"])
    assert deleted.status_code == 200
    assert served("GET", "/threads/copy").status_code == 404


def test_edit_may_set_the_next_nodes_of_the_thread(served):
    thread = served.paused()

    served(
        "POST", f"/threads/{thread}/update", {"values": {"approved": False}, "as_node": "approve", "goto": "__end__"}
    )

    assert served("GET", f"/threads/{thread}/result?wait_s=20").json()["status"] == "completed"


def test_input_is_queued_while_the_thread_waits(served):
    thread = served.paused()

    refused = served("POST", f"/threads/{thread}/runs", {"input": {"topic": "milk"}})
    queued = served("POST", f"/threads/{thread}/runs", {"input": {"topic": "milk"}, "while_running": "queue"})
    served("POST", f"/threads/{thread}/answers", {"answer": True})

    def notes() -> list[str]:
        """Those of the second run, once it waits too."""
        found = served("GET", f"/threads/{thread}/result?wait_s=5").json()
        is_second = found["status"] == "interrupted" and len(found["state"]["notes"]) == 2
        return found["state"]["notes"] if is_second else []

    assert (refused.status_code, refused.json()["code"]) == (409, "wrong-verb")
    assert queued.status_code == 202
    assert eventually(notes) == ["on tea", "on milk"]


def test_signal_reaches_a_waiting_node_once_for_each_id(served):
    served("POST", "/threads?wait_s=0.3", {"input": {"topic": "far"}, "thread": "t"})

    first = served("POST", "/threads/t/signals", {"name": "go", "value": 7, "id": "s"}).json()
    second = served("POST", "/threads/t/signals", {"name": "go", "value": 7, "id": "s"}).json()
    other = served("POST", "/threads/t/signals", {"name": "go", "value": 8, "id": "s"}).json()
    found = served("GET", "/threads/t/result?wait_s=10").json()

    assert (first["kept"], second["kept"], other["code"]) == (True, False, "key-reused")
    assert found["state"]["notes"] == ["7"]


def test_the_inbox_has_the_questions_of_the_graph(serve):
    store = "memory:"
    with Runtime(papers(), store=store) as one:
        served = serve(one, Runtime(papers("others"), store=one.store))
        thread = served.paused()
        served("POST", "/threads?wait_s=10", {"input": {"topic": "tea"}}, graph="others")

        questions = served("GET", "/inbox?node=approve").json()["questions"]

        assert [(one["thread"], one["answer_schema"]) for one in questions] == [(thread, {"type": "boolean"})]


@pytest.mark.needs("cronsim")
def test_schedules_are_put_listed_and_removed(served):
    body = {"cron": "0 9 * * MON-FRI", "input": {"topic": "tea"}, "tags": ["daily"]}

    put = served("PUT", "/schedules/daily", body)
    again = served("PUT", "/schedules/daily", body)
    other = served("PUT", "/schedules/daily", {**body, "cron": "0 8 * * *"})
    listed = served("GET", "/schedules").json()["schedules"]
    removed = served("DELETE", "/schedules/daily")

    assert (put.status_code, again.json()) == (200, put.json())
    assert (other.status_code, other.json()["code"]) == (409, "schedule-exists")
    assert [(one["name"], one["input"]) for one in listed] == [("daily", {"topic": "tea"})]
    assert removed.status_code == 200
    assert served("DELETE", "/schedules/daily").status_code == 404


def test_thread_of_another_graph_does_not_exist(serve):
    with Runtime(papers(), store="memory:") as one:
        served = serve(one, Runtime(papers("others"), store=one.store))
        thread = served.paused()

        for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/entries")):
            assert served(method, f"/threads/{thread}{path}", graph="others").status_code == 404
        assert served("POST", f"/threads/{thread}/runs", {"input": {"topic": "x"}}, graph="others").status_code == 409
        assert served("GET", f"/threads/{thread}").json()["status"] == "interrupted"


# -- problems ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/threads/none", None, 404, "unknown-thread"),
        ("GET", "/nowhere", None, 404, "unknown-path"),
        ("PUT", "/threads", None, 405, "unknown-path"),
        ("GET", "/threads?limit=many", None, 400, "bad-request-part"),
        ("GET", "/threads?colour=red", None, 400, "bad-request-part"),
        ("POST", "/threads", {"input": {"topic": 7, "colour": 1}}, 422, "unknown-key"),
        ("POST", "/threads", {"inputs": {}}, 400, "bad-request-part"),
        ("POST", "/threads", ["x"], 400, "bad-request-part"),
        ("POST", "/threads", {"input": {"topic": "x"}, "priority": True}, 400, "bad-request-part"),
        ("POST", "/threads/paused/runs", {"if_exists": "abandon", "priority": "5"}, 400, "bad-request-part"),
        ("POST", "/threads/paused/fork", {"at": True}, 400, "bad-request-part"),
        ("POST", "/threads/paused/fork", {"keep_effects": "yes"}, 400, "bad-request-part"),
        ("PUT", "/schedules/s", {"cron": "* * * * *", "replace": "no"}, 400, "bad-request-part"),
        ("POST", "/threads", {"input": {"topic": "x"}, "thread": "a b"}, 422, "bad-thread"),
        ("POST", "/threads/paused/answers", {"answer": "perhaps"}, 422, "bad-answer"),
        ("POST", "/threads/paused/answers", {"answers": {"other": True}}, 409, "unknown-interrupt"),
        ("POST", "/threads/paused/answers", {"answers": {}, "answer": 1}, 400, "bad-request-part"),
        ("POST", "/threads/paused/update", {"values": {"colour": 1}}, 422, "unknown-key"),
        ("POST", "/threads/paused/update", {"as_node": "approve", "goto": "nowhere"}, 400, "bad-request-part"),
        ("POST", "/threads/paused/fork", {"at": 999}, 404, "unknown-entry"),
    ],
)
def test_invalid_request_is_a_problem_with_code_and_fix_and_changes_nothing(served, method, path, body, status, code):
    thread = served.paused(thread="paused")
    before = served("GET", f"/threads/{thread}").json()

    answer = served(method, path, body)

    found = answer.json()
    assert (answer.status_code, found["code"], found["status"]) == (status, code, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert found["fix"]
    assert "instance of" not in answer.text, "a class that no client knows"
    assert served.http.get(found["type"]).text.startswith(f"# {code}\n")
    assert served("GET", f"/threads/{thread}").json() == before


def test_key_that_an_object_has_twice_is_refused(served):
    body = '{"input": {"topic": "x", "topic": "y"}}'

    answer = served.http.post("/graphs/papers/threads", content=body, headers={"content-type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request-part")
    assert "twice" in answer.json()["detail"]
    assert served("GET", "/threads").json()["threads"] == []


def test_refused_method_names_the_allowed_ones(served):
    assert set(served("DELETE", "/threads").headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_failed_run_is_a_document_and_no_problem_reveals_the_state(served):
    failed = served("POST", "/threads?wait_s=10", {"input": {"topic": "bad"}, "thread": "t"})
    refused = served("POST", "/threads/t/runs", {"input": {"topic": "tea"}})

    assert (failed.status_code, failed.json()["status"]) == (200, "failed")
    assert SECRET in failed.json()["error"]
    assert refused.status_code == 409
    assert SECRET not in refused.text


def test_text_of_a_store_error_is_only_logged(serve, caplog):
    runtime = Runtime(papers(), store="memory:")
    served = serve(runtime, drives=False)
    runtime.store.close()

    answer = served("GET", "/threads")

    assert answer.status_code in (422, 503)
    assert "Traceback" not in answer.text
    assert served.http.get("/ready").status_code == 503
    assert served.http.get("/health").status_code == 200
