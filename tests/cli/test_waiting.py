"""`inbox`, `signal`, `schedules` and the priority of `start`: their effect on the store, and refused arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphrt import END, START, Context, GraphBuilder, Runtime

RECEIVING = """
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder


class State(BaseModel):
    got: object = None


g = GraphBuilder(State, name="receiving")


@g.node
def take(state: State, ctx: Context) -> dict[str, object]:
    return {"got": ctx.receive("go")}


g.add_sequence([START, take, END])
graph = g.compile()
"""


def test_the_inbox_lists_questions_and_pages_them(call, stored: str) -> None:
    call("run", "flow.py:letters", "--set", "topic=dogs", "--store", stored, "--thread", "second")
    found = call("inbox", "--store", stored, "--limit", "1").result["questions"]
    rest = call("inbox", "--store", stored, "--after", found[0]["token"]).result["questions"]

    assert [one["thread"] for one in [*found, *rest]] == ["paused", "second"]
    assert rest[0]["payload"] == {"draft": "about dogs"}
    assert (rest[0]["kind"], rest[0]["node"], rest[0]["graph"]) == ("question", "approve", "letters")
    assert call("inbox", "--store", stored, "--kind", "approval").result["questions"] == []
    assert call("inbox", "--store", stored, "--node", "nobody").result["questions"] == []
    assert call("inbox", "--store", stored, "--after", "no token").document["error"]["code"] == "input"
    text = call("inbox", "--store", stored, "-otext").out
    assert "thread paused of letters" in text
    assert "2 questions" in text


@pytest.mark.parametrize(
    ("words", "value"), [(["5"], 5), (['{"a": [true]}'], {"a": [True]}), (['"text"'], "text"), ([], None)]
)
def test_signal_reaches_its_thread(call, folder: Path, words: list[str], value: object) -> None:
    (folder / "receiving.py").write_text(RECEIVING)
    call("run", "receiving.py:graph", "--thread", "t", "--store", "runs.db")
    sent = call("signal", "runs.db", "t", "go", *words, "--id", "one")
    again = call("signal", "runs.db", "t", "go", *words, "--id", "one")

    assert (sent.code, sent.result) == (0, {"thread": "t", "name": "go", "kept": True})
    assert (again.code, again.result["kept"]) == (1, False)

    with Runtime(receiving(), store="sqlite:///runs.db") as runtime:
        assert runtime.drive("t").state["got"] == value


def receiving():
    import typing_extensions as te

    class State(te.TypedDict, total=False):
        got: object

    def take(state: State, ctx: Context) -> dict[str, object]:
        return {"got": ctx.receive("go")}

    g = GraphBuilder(State, name="receiving")
    g.add_node("take", take)
    g.add_sequence([START, "take", END])
    return g.compile()


def test_signal_that_is_not_json_or_has_no_thread_is_refused(call, stored: str) -> None:
    refused = call("signal", stored, "paused", "go", "text")

    assert (refused.code, refused.document["error"]["code"]) == (2, "bad-document")
    unknown = call("signal", "flow.py:letters", "pause", "go", "--store", stored)
    assert (unknown.code, unknown.document["error"]["code"]) == (2, "unknown-thread")
    assert "paused" in unknown.document["error"]["known"]


def test_schedules_are_added_listed_and_removed(call, stored: str) -> None:
    words = ["schedules", "add", "flow.py:fan", "nightly", "0 3 * * *", "--set", "topic=cats", "--tag", "night"]
    made = call(*words, "--store", stored).result
    (listed,) = call("schedules", "list", "flow.py:fan", "--store", stored).result["schedules"]

    assert made == listed
    assert (listed["cron"], listed["input"]["topic"], listed["tags"]) == ("0 3 * * *", "cats", ["night"])
    assert "nightly" in call("schedules", "list", "flow.py:fan", "--store", stored, "-otext").out
    other = ["schedules", "add", "flow.py:fan", "nightly", "0 4 * * *", "--store", stored]
    assert call(*other).document["error"]["code"] == "schedule-exists"
    assert call(*other, "--replace").result["cron"] == "0 4 * * *"
    assert call("schedules", "remove", "flow.py:fan", "nightly", "--store", stored).result == {"name": "nightly"}
    gone = call("schedules", "remove", "flow.py:fan", "nightly", "--store", stored)
    assert gone.document["error"]["code"] == "unknown-schedule"


def test_a_run_is_started_with_a_priority(call, stored: str) -> None:
    call("start", "flow.py:fan", "--thread", "urgent", "--priority", "5", "--store", stored)

    listed = call("threads", "--store", stored, "--prefix", "urgent").result["threads"]
    assert [one["priority"] for one in listed] == [5]
