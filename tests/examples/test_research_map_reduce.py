"""Research over several questions at once on SQLite: a stop button in the middle, a failing question, an empty plan."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from examples.research_map_reduce import graph as research
from examples.research_map_reduce.graph import State, graph
from examples.research_map_reduce.offline import offline, researched

from graphrt import NodeError, RunResult, Runtime, Send
from graphrt.errors import BudgetExceededError
from graphrt.events import RunCancelled
from graphrt.harness import Budget, FunctionModel, ModelRequest

TOPIC = "tea and coffee and cocoa"
FINDINGS = [
    "What is tea? All tea is made of the leaves of one plant.",
    "What is coffee? Coffee and tea are drunk in the morning.",
    "What is cocoa? Nobody knows.",
]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The recorded searches, in order."""
    made: list[str] = []

    class Library(dict[str, str]):
        def items(self) -> Any:
            made.append("search")
            return super().items()

    monkeypatch.setattr(research, "LIBRARY", Library(research.LIBRARY))
    return made


def runtime_on(folder: Path, researcher: Callable[[ModelRequest], Any] = researched, **options: Any) -> Runtime[State]:
    models = {**offline(), "researcher": FunctionModel(researcher)}
    return Runtime(graph, store=f"sqlite:///{folder / 'research.db'}", models=models, **options)


def questions_of(requests: list[ModelRequest]) -> list[str]:
    return [request.messages[1].text for request in requests]


def test_findings_are_folded_in_the_order_of_the_plan(tmp_path: Path) -> None:
    done: list[str] = []
    last = asyncio.Event()

    async def backwards(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            if "cocoa" in request.messages[1].text:
                last.set()
            await last.wait()
            done.append(request.messages[1].text)
        return researched(request)

    with runtime_on(tmp_path, backwards) as runtime:
        result = runtime.run({"topic": TOPIC}, thread="t")
        assert runtime.replay("t").values == result.state

    assert done[0] == "What is cocoa?"
    assert result.state.findings == FINDINGS
    assert result.state.sources == ["plants", "breakfast", "beans"]
    assert (result.state.report, result.state.words) == ("\n".join(FINDINGS), 20)
    assert (result.usage.calls, result.warnings) == (8, ())


@pytest.mark.routes(
    graph, "plan", [({"topic": "x", "questions": ["a", "b"]}, [Send("research", "a"), Send("research", "b")])]
)
def test_each_question_is_sent_to_a_separate_task() -> None:
    """The row is checked before the test runs."""


def test_plan_without_questions_also_has_a_report(tmp_path: Path) -> None:
    with runtime_on(tmp_path) as runtime:
        result = runtime.run({"topic": "and"}, thread="t")

    assert (result.status, result.state.findings, result.usage.calls) == ("completed", [], 2)


def test_stop_button_keeps_finished_work_and_a_retry_does_the_rest(tmp_path: Path, searches: list[str]) -> None:
    """Pressed while one question is done, and two have searched and wait for their model."""
    waiting, one_is_done = threading.Semaphore(0), threading.Event()
    seen: list[ModelRequest] = []

    async def slow(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool" and "tea" not in request.messages[1].text:
            waiting.release()
            await asyncio.Event().wait()
        return researched(request)

    def again(request: ModelRequest) -> Any:
        seen.append(request)
        return researched(request)

    def watch(runtime: Runtime[State]) -> RunResult[State] | None:
        with runtime.stream({"topic": TOPIC}, thread="t", modes=("live", "result")) as stream:
            for mode, item in stream:
                if mode == "live" and (item.node, item.what) == ("research", "ended"):
                    one_is_done.set()
            return stream.result

    with ThreadPoolExecutor(1) as pool, runtime_on(tmp_path, slow) as runtime:
        run = pool.submit(watch, runtime)
        assert all(waiting.acquire(timeout=30) for _ in range(2))
        assert one_is_done.wait(30)
        assert runtime.cancel("t") is True
        result = run.result(30)

    assert result is not None
    assert (result.status, result.state.findings, len(searches)) == ("cancelled", [], 3)
    with runtime_on(tmp_path, again) as runtime:
        assert runtime.state("t").status == "cancelled"
        assert runtime.cancel("t") is False
        done = runtime.retry("t")
        assert sum(isinstance(entry.event, RunCancelled) for entry in runtime.entries("t")) == 1

    assert (done.status, done.state.findings, done.usage.calls) == ("completed", FINDINGS, 8)
    assert sorted(questions_of(seen)) == ["What is cocoa?", "What is coffee?"]
    assert len(searches) == 3  # their searches are recorded


def test_question_that_failed_twice_is_researched_by_a_retry(tmp_path: Path) -> None:
    """It fails twice (`retry=2`), which ends the run."""
    broken, seen = [True], list[ModelRequest]()

    waits: list[float] = []

    async def moody(request: ModelRequest) -> Any:
        seen.append(request)
        if "coffee" in request.messages[1].text and broken[0]:
            raise ConnectionError("no line")
        return researched(request)

    with runtime_on(tmp_path, moody, sleep=waits.append) as runtime:
        with pytest.raises(NodeError, match="no line"):
            runtime.run({"topic": "coffee"}, thread="t")
        assert questions_of(seen) == ["What is coffee?"] * 2
        assert len(waits) == 1
        assert runtime.state("t").status == "failed"
        broken[0] = False
        assert runtime.retry("t").state.findings == [FINDINGS[1]]


def test_a_budget_bounds_the_whole_fan_out(tmp_path: Path) -> None:
    with runtime_on(tmp_path, budget=Budget(calls=5)) as runtime:
        with pytest.raises(BudgetExceededError):
            runtime.run({"topic": TOPIC}, thread="t")
        assert runtime.state("t").status == "failed"
