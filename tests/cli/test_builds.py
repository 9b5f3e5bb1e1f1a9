"""`builds`: the builds that unfinished threads belong to, and the withdrawal of a release."""

from __future__ import annotations

from pathlib import Path

FIRST = """
from typing import TypedDict
from graphrt import GraphBuilder


class State(TypedDict, total=False):
    answer: str


def build(*names):
    g = GraphBuilder(State, name="flow")
    g.add_node("ask", lambda state, ctx: {"answer": ctx.interrupt("go?")}).set_entry("ask")
    for before, name in zip(("ask", *names), names):
        g.add_node(name, lambda state: None).add_edge(before, name)
    return g.compile()


first, second = build(), build("check")
"""


def test_threads_of_a_withdrawn_release_are_listed_and_allowed(call, folder: Path) -> None:
    (folder / "builds.py").write_text(FIRST)
    for thread in ("a", "b"):
        assert call("run", "builds.py:second", "--store", "runs.db", "--thread", thread).code == 4

    refused = call("resume", "builds.py:first", "a", "--store", "runs.db", "--answer", '"yes"')
    listed = call("builds", "list", "builds.py:first", "--store", "runs.db").result["builds"]
    checked = call("check", "builds.py:first", "--store", "runs.db")
    doctor = call("doctor", "--store", "runs.db", "--replay", "builds.py:first")
    allowed = call("builds", "allow", "builds.py:first", "a", "--store", "runs.db").result["allowed"]
    rest = call("builds", "allow", "builds.py:first", "--store", "runs.db").result["allowed"]

    assert refused.document["error"]["code"] == "older-build"
    assert [(one["threads"], sorted(one["waiting"]), one["is_this"]) for one in listed] == [(2, ["a", "b"], False)]
    assert "'check'" in listed[0]["waits_for"]
    assert doctor.result["database"]["builds"] == listed
    assert (checked.code, checked.result["targets"][0]["threads"][0]["ok"]) == (1, False)
    assert (allowed, rest) == (["a"], ["b"])
    assert call("resume", "builds.py:first", "a", "--store", "runs.db", "--answer", '"yes"').code == 0
