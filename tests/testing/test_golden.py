"""`golden_trace`: equal runs give equal texts, without varying and secret parts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field
from tests.testing.support import State, asking, mapped, report, reported, research

from graphrt import END, START, Context, GraphBuilder, MockHarness, RetryPolicy
from graphrt.errors import InputError
from graphrt.events import Entry
from graphrt.harness import ScriptedModel, ToolCall, UserMessage
from graphrt.testing import arecord, golden_trace, record, run_scripted
from graphrt.testing.golden._values import plain

# -- the text ----------------------------------------------------------------------------------------------------


def test_trace_has_one_event_on_each_line_by_superstep() -> None:
    assert golden_trace(record(research(), {})) == (
        "{\n"
        '"format": "graphrt golden trace",\n'
        '"version": 1,\n'
        '"graph": "research",\n'
        '"trace": [\n'
        '  {"superstep": 0, "events": [\n'
        '    {"event": "run-started", "input": {"question": "tea", "notes": [], "calls": 0, "answer": null}}\n'
        "  ]},\n"
        '  {"superstep": 1, "events": [\n'
        '    {"event": "task-succeeded", "task": "1.0:search", "update": {"notes": ["on tea"], "calls": 1}},\n'
        '    {"event": "superstep-committed", "superstep": 1, "next": ["search"]}\n'
        "  ]},\n"
        '  {"superstep": 2, "events": [\n'
        '    {"event": "task-succeeded", "task": "2.0:search", "update": {"notes": ["on tea"], "calls": 1}},\n'
        '    {"event": "superstep-committed", "superstep": 2, "next": ["answer"]}\n'
        "  ]},\n"
        '  {"superstep": 3, "events": [\n'
        '    {"event": "task-succeeded", "task": "3.0:answer", "update": {"answer": "on tea and on tea"}},\n'
        '    {"event": "superstep-committed", "superstep": 3, "next": []},\n'
        '    {"event": "run-completed", "steps": 3}\n'
        "  ]}\n"
        "]\n"
        "}\n"
    )


def test_round_of_a_conversation_has_only_its_new_messages() -> None:
    requests = json.loads(reported(report()))["requests"]["writer"]
    assert requests[0]["tools"][0]["name"] == "price"
    assert [message["role"] for message in requests[0]["messages"]] == ["system", "user"]
    assert requests[1] == {
        "request": 2,
        "continues": 1,
        "messages": [
            {"role": "assistant", "tool_calls": [{"id": "c1", "name": "price", "arguments": {"of": "tea"}}]},
            {"role": "tool", "tool_call_id": "c1", "text": "3"},
        ],
    }


def test_trace_has_no_ids_digests_or_times() -> None:
    run = record(asking(), {}, thread="my-thread", clock=lambda: 1234.5, ids=lambda: "my-run", seed=987654)
    model = ScriptedModel([ToolCall(id="c1", name="price", arguments={"of": "tea"}), "A leaf."])
    agents = record(report(), {}, models={"writer": model}, seed=987654)
    text = golden_trace(run.resume("yes")) + golden_trace(agents)
    for varying in ("my-thread", "my-run", "1234.5", "987654", "fingerprint", run.entries[0].event.fingerprint):  # type: ignore[union-attr]
        assert varying not in text
    assert '"id": "2.0:review#key=review"' in text
    assert '"key": "tool/price#1"' in text


def test_secrets_and_irrelevant_parts_of_requests_are_left_out() -> None:
    g = GraphBuilder(State, name="secret")

    async def ask(state: State, ctx: Context) -> None:
        prompt = [UserMessage(text="hi", id="m-1")]
        await ctx.harness.run(prompt, options={"api_key": "sk-1"}, timeout_s=3.0)

    g.add_node("ask", ask)
    g.add_sequence([START, "ask", END])
    run = record(g.compile(), {}, harness=(mock := MockHarness(["hello"])))
    text = golden_trace(run, requests=mock.calls)
    assert "sk-1" not in text
    assert '"options": ["api_key"]' in text
    assert "timeout_s" not in text
    assert "m-1" not in text


# -- equal runs give equal texts ---------------------------------------------------------------------------------


def busy() -> Any:
    """Four parallel tasks: one is retried, one has a nested graph, one asks a person, one has an effect."""
    inner = GraphBuilder(State, name="inner")
    inner.add_node("leaf", lambda state: {"notes": ["leaf"]})
    inner.add_sequence([START, "leaf", END])
    g = GraphBuilder(State, name="busy")

    async def retried(state: State, ctx: Context) -> dict[str, Any]:
        reply = await ctx.harness.run("retried")
        if ctx.attempt == 1:
            raise ConnectionError("no line")
        return {"notes": [reply.text]}

    async def pays(state: State, ctx: Context) -> dict[str, Any]:
        reply = await ctx.harness.run("pays")
        paid = ctx.effect("pay", lambda: {"tea", "milk", "honey"})
        return {"notes": [str(len(paid)), reply.text]}

    def asks(state: State, ctx: Context) -> dict[str, Any]:
        return {"answer": ctx.interrupt({"why": "?"})}

    g.add_node("retried", retried, retry=RetryPolicy(attempts=2, wait_initial_s=0.001))
    g.add_node("sub", inner.compile())
    g.add_node("pays", pays)
    g.add_node("asks", asks)
    for name in ("retried", "sub", "pays", "asks"):
        g.add_edge(START, name)
        g.add_edge(name, END)
    return g.compile()


def of_busy(**options: Any) -> str:
    mock = MockHarness({"retried": "r", "pays": "p"})
    return golden_trace(record(busy(), {}, harness=mock, **options).resume("yes"), requests=mock.calls)


async def of_busy_async(**options: Any) -> str:
    mock = MockHarness({"retried": "r", "pays": "p"})
    run = await arecord(busy(), {}, harness=mock, **options)
    return golden_trace(await run.aresume("yes"), requests=mock.calls)


def test_trace_is_the_same_on_every_store_and_under_asyncio(tmp_path: Path) -> None:
    text = of_busy()
    assert text == of_busy(store=f"sqlite:///{tmp_path / 'one.db'}", thread="other")
    assert text == asyncio.run(of_busy_async())
    assert text == asyncio.run(of_busy_async(store=f"sqlite:///{tmp_path / 'two.db'}", seed=3))
    assert '"requests_in_any_order": true' in text
    assert "harness/failed" not in text
    assert '"key": "pay#0"' in text


def test_uncounted_requests_have_no_order_if_tasks_were_parallel() -> None:
    def of(*, parallel: bool) -> str:
        mock = MockHarness({"hi": "hello"})

        async def ask(state: State) -> None:
            await mock.run("hi")

        g = GraphBuilder(State, name="past")
        g.add_node("a", ask)
        g.add_node("b", ask)
        g.add_edge(START, "a")
        g.add_edge(START if parallel else "a", "b")
        return golden_trace(record(g.compile(), {}), requests=mock.calls)

    assert '"requests_in_any_order": true' in of(parallel=True)
    assert "requests_in_any_order" not in of(parallel=False)


@pytest.mark.parametrize("seed", range(8))
def test_trace_does_not_depend_on_the_order_in_which_tasks_end(seed: int) -> None:
    def of(choose: Any) -> str:
        entries: list[Entry] = []
        run_scripted(mapped(), {"question": "a b c d"}, choose=choose, sinks=[entries.append])
        return golden_trace(entries)

    assert of(lambda tasks: random.Random(seed).randrange(len(tasks))) == of(None)


@pytest.mark.slow
def test_trace_is_the_same_in_every_process() -> None:
    program = (
        "from tests.testing.test_golden import of_busy; import hashlib;"
        "print(hashlib.sha256(of_busy().encode()).hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    assert other.strip() == hashlib.sha256(of_busy().encode()).hexdigest()


class _Odd:
    pass


class _Account(BaseModel):
    name: str = "tea"
    password: str = Field(default="secret", exclude=True)


@dataclass
class _Point:
    x: float
    tags: frozenset[str]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ({1: {2.5, None}, (1, 2): b"ab"}, {"1": [2.5, None], "[1, 2]": "base64:YWI="}),
        (_Point(x=float("nan"), tags=frozenset("ba")), {"x": "<float nan>", "tags": ["a", "b"]}),
        (State(notes=["a"]), {"question": "tea", "notes": ["a"], "calls": 0, "answer": None}),
        (_Account(), {"name": "tea"}),
        (_Odd(), "<tests.testing.test_golden._Odd object at 0x...>"),
        ("\ud800 at 0x7f0123456789", "\\ud800 at 0x..."),
        (Path("a"), "a"),
    ],
)
def test_values_become_data_without_varying_parts(value: Any, data: Any) -> None:
    assert plain(value) == data


def test_long_values_are_stored_as_their_beginning_and_a_digest() -> None:
    text = plain("x" * 5_000)
    assert text.startswith("x" * 200 + "... <5,000 characters, sha256 ")
    assert plain("x" * 4_999 + "y") != text
    assert plain(["x" * 100] * 10_000).startswith('["xxx')
    assert len(plain([["x" * 100] * 15] * 10)) == 10, "short enough to be kept"
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    assert "<nested too deeply>" in json.dumps(plain(deep))


@pytest.mark.parametrize("run", [[], [3], 3, "text"])
def test_value_that_is_not_a_run_is_refused(run: Any) -> None:
    with pytest.raises(InputError, match="The run of a golden trace cannot be"):
        golden_trace(run)


@pytest.mark.parametrize("requests", ["text", 3, ["text"], {"writer": "text"}])
def test_value_that_is_not_a_request_is_refused(requests: Any) -> None:
    with pytest.raises(InputError, match="A model request in requests= cannot be"):
        golden_trace(record(research(), {}), requests=requests)
