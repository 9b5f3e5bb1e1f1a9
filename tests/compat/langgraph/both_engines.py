"""A pytest plugin for LangGraph's own suites: each graph of a test runs once on LangGraph and once on graphrt.

`nox -s langgraph` loads it. A test first runs once to count its graphs: compiled `StateGraph`s whose outermost run it
starts. Then it is run twice for each of them, up to the beginning of that run: once the run is made by LangGraph, once
by the converted graph, and the test ends there. Therefore no run sees counters, fake models or stores that another one
has used.

The comparison covers the values of the output channels and the payloads of the questions, or else the exception. For
tests with parameters only the first set runs. The end of the session lists every different graph by kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import re
import signal
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from langchain_core.messages import BaseMessage
from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command

from graphrt import Limits, Runtime
from graphrt.compat.langgraph import RunContext, convert
from graphrt.compat.langgraph._results import outcome_of
from graphrt.errors import GraphrtError

SECONDS = 60
"""Time limit of one run."""
_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|0x[0-9a-f]+")


@dataclass
class Session:
    """The state and the findings of the plugin."""

    engine: str = ""
    """"langgraph" or "graphrt" while a run is compared; otherwise empty."""
    wanted: int = -1
    """Number of the graph whose run is compared, in the order in which the test starts them."""
    graphs: list[Any] = field(default_factory=list)
    """Graphs that the test has run so far."""
    inside: bool = False
    """Whether a run is active."""
    outcome: Any = None
    stored: bool = False
    """Whether runs on graphrt are stored although the graph has no checkpointer, because it asks a question."""
    results: list[dict[str, Any]] = field(default_factory=list)


SESSION = Session()


class Compared(pytest.skip.Exception):
    """Ends a test once the compared run has been made."""


def _number(graph: Any, config: Any) -> int | None:
    """Return the number of the run's graph if this is its first outermost run, and None otherwise."""
    configurable = (config or {}).get("configurable") or {}
    if not isinstance(graph, CompiledStateGraph) or SESSION.inside or "__pregel_task_id" in configurable:
        return None
    if any(one is graph for one in SESSION.graphs):
        return None
    SESSION.graphs.append(graph)
    return len(SESSION.graphs) - 1


def _install() -> None:
    """Replace the verbs of LangGraph."""
    original = {name: getattr(Pregel, name) for name in ("invoke", "ainvoke", "stream", "astream")}

    def invoke(self: Any, input: Any, config: Any = None, **options: Any) -> Any:
        number = _number(self, config)
        if number is not None and number == SESSION.wanted:
            _compare(self, input, config, options, original["invoke"])
        with _running():
            return original["invoke"](self, input, config, **options)

    async def ainvoke(self: Any, input: Any, config: Any = None, **options: Any) -> Any:
        number = _number(self, config)
        if number is not None and number == SESSION.wanted:
            await _acompare(self, input, config, options, original["ainvoke"])
        with _running():
            return await original["ainvoke"](self, input, config, **options)

    def stream(self: Any, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        number = _number(self, config)
        if number is not None and number == SESSION.wanted:
            _compare(self, input, config, options, original["invoke"])
        yield from original["stream"](self, input, config, **options)

    async def astream(self: Any, input: Any, config: Any = None, **options: Any) -> Any:
        number = _number(self, config)
        if number is not None and number == SESSION.wanted:
            await _acompare(self, input, config, options, original["ainvoke"])
        async for item in original["astream"](self, input, config, **options):
            yield item

    for name, method in (("invoke", invoke), ("ainvoke", ainvoke), ("stream", stream), ("astream", astream)):
        setattr(Pregel, name, method)


@contextlib.contextmanager
def _running() -> Iterator[None]:
    before, SESSION.inside = SESSION.inside, True
    try:
        yield
    finally:
        SESSION.inside = before


_OPTIONS = ("context", "interrupt_before", "interrupt_after", "durability", "control")


def _compare(graph: Any, given: Any, config: Any, options: Mapping[str, Any], original: Any) -> None:
    options = {key: value for key, value in options.items() if key in _OPTIONS}
    with _running():
        try:
            if SESSION.engine == "langgraph":
                SESSION.outcome = ("value", _plain(original(graph, given, config, **options)))
            else:
                runtime, values, thread, outputs = _prepared(graph, given, config, options)
                with runtime:
                    SESSION.outcome = ("value", _result(runtime.run(values, thread=thread), outputs))
        except Exception as error:  # noqa: BLE001 - its error is compared
            SESSION.outcome = _failure(error)
    raise Compared(SESSION.engine)


async def _acompare(graph: Any, given: Any, config: Any, options: Mapping[str, Any], original: Any) -> None:
    options = {key: value for key, value in options.items() if key in _OPTIONS}
    with _running():
        try:
            async with asyncio.timeout(SECONDS):
                if SESSION.engine == "langgraph":
                    SESSION.outcome = ("value", _plain(await original(graph, given, config, **options)))
                else:
                    runtime, values, thread, outputs = _prepared(graph, given, config, options)
                    with runtime:
                        SESSION.outcome = ("value", _result(await runtime.arun(values, thread=thread), outputs))
        except Exception as error:  # noqa: BLE001 - its error is compared
            SESSION.outcome = _failure(error)
    raise Compared(SESSION.engine)


class NotComparableError(Exception):
    """The run starts with a feature for which graphrt has a different verb."""


def _prepared(graph: Any, given: Any, config: Any, options: Mapping[str, Any]) -> tuple[Runtime, Any, str | None, Any]:
    """Return a runtime for the converted graph, the input in the form of graphrt, a thread, and the output channels."""
    for name in ("interrupt_before", "interrupt_after"):
        if options.get(name):
            graph = copy.copy(graph)
            setattr(graph, f"{name}_nodes", options[name])
    if given is None or isinstance(given, Command):
        raise NotComparableError("it answers a question, or goes on after a pause")
    saved = graph.checkpointer not in (None, False, True) and "thread_id" in ((config or {}).get("configurable") or {})
    if saved and asyncio._get_running_loop() is None and graph.get_state(config).values:
        raise NotComparableError("it goes on with a thread that LangGraph has stored")
    converted, _ = convert(graph)
    builder = graph.builder
    inputs = builder.schemas[builder.input_schema]
    if "__root__" in inputs:
        values: Any = {"__root__": given}
    else:
        merged: dict[str, Any] = {}
        for update in outcome_of(given, _Keys(frozenset(inputs))).updates:  # type: ignore[arg-type]
            merged |= update
        values = merged
    saved = SESSION.stored or graph.checkpointer or graph.interrupt_before_nodes or graph.interrupt_after_nodes
    deps = RunContext(context=options.get("context"), config=config, control=options.get("control"))
    limits = Limits(max_steps=config["recursion_limit"]) if (config or {}).get("recursion_limit") else None
    runtime = Runtime(converted, store="memory:" if saved else None, deps=deps, limits=limits, check_state=False)
    outputs = [key for key, one in builder.schemas[builder.output_schema].items() if key in builder.channels]
    return runtime, values, "t" if saved else None, outputs


@dataclass
class _Keys:
    channels: frozenset[str]


def _result(result: Any, outputs: list[str]) -> Any:
    if result.status == "cancelled":  # only a drain ends the run so
        raise GraphDrained("drained")
    state = result.state
    value = state.get("__root__") if outputs == ["__root__"] else {key: state[key] for key in outputs if key in state}
    asked = [one.payload for one in result.interrupts if one.kind == "question"]
    if asked:
        value = {**value, "__interrupt__": asked} if isinstance(value, dict) else {"__interrupt__": asked}
    return _plain(value)


def _plain(value: Any) -> Any:
    """Return a value as text without ids and addresses, which are random."""
    if isinstance(value, BaseMessage):
        shown = value.model_dump()
        shown.pop("id", None)
        return {"message": type(value).__name__, **_plain(shown)}
    if isinstance(value, Mapping):
        found = {str(key): _plain(one) for key, one in value.items()}
        if "__interrupt__" in found:  # LangGraph lists them in the order in which their tasks ended
            found["__interrupt__"] = sorted(found["__interrupt__"], key=str)
        return found
    if isinstance(value, (list, tuple)):
        return [_plain(getattr(one, "value", one) if type(one).__name__ == "Interrupt" else one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    return _RANDOM.sub("ID", repr(value) if not isinstance(value, (str, int, float, type(None))) else str(value))


_FAMILIES = {
    "GraphRecursionError": "steps",
    "StepLimitError": "steps",
    "InvalidUpdateError": "update",
    "ConcurrentUpdateError": "update",
    "UpdateError": "update",
    "EmptyInputError": "input",
    "InputError": "input",
    "NodeTimeoutError": "timeout",
    "TimeoutError": "timeout",
}


def _failure(error: BaseException) -> tuple[str, Any, str]:
    """Return the class of an exception on which both engines should agree, and its origin."""
    cause: BaseException = error
    while isinstance(cause, GraphrtError) and isinstance(cause.__cause__, Exception):
        cause = cause.__cause__
    name = type(cause).__name__
    text = "".join(traceback.format_exception(error))[-6000:] if SESSION.engine == "graphrt" else str(error)
    return "error", _FAMILIES.get(name, name), f"{type(error).__name__}: {error}\n{text}"


def pytest_configure(config: pytest.Config) -> None:
    _install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the first set of parameters of each test: they vary savers and durability."""
    seen: set[str] = set()
    kept = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name not in seen:
            seen.add(name)
            kept.append(item)
    items[:] = kept


def _round(item: Any, engine: str, wanted: int) -> list[Any]:
    SESSION.engine, SESSION.wanted, SESSION.graphs, SESSION.outcome, SESSION.inside = engine, wanted, [], None, False
    item._initrequest()

    def late(*_: object) -> None:
        raise TimeoutError(f"{SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        return runtestprotocol(item, nextitem=None, log=False)  # None: all fixtures are created again
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def pytest_runtest_protocol(item: pytest.Item) -> bool:
    """Count the graphs of a test, then run it for each of them on both engines."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = _round(item, "", -1)
    passed = all(report.outcome != "failed" for report in reports)
    count = len(SESSION.graphs)
    for number in range(count):
        outcomes: dict[str, Any] = {}
        for engine in ("langgraph", "graphrt"):
            _round(item, engine, number)
            outcomes[engine] = SESSION.outcome
            if SESSION.outcome is not None and "this run has no thread" in str(SESSION.outcome[-1]):
                SESSION.stored = True
                _round(item, engine, number)
                SESSION.stored, outcomes[engine] = False, SESSION.outcome
        SESSION.results.append(_judged(item.nodeid, number, outcomes, passed=passed))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


_IN_THE_CALL = re.compile(r"Checkpointer requires one or more|Faulty a?(get_|put)")
"""Errors of the call or of a saver that the test breaks on purpose. They are unrelated to the graph."""


def _judged(test: str, number: int, outcomes: Mapping[str, Any], *, passed: bool) -> dict[str, Any]:
    theirs, ours = outcomes["langgraph"], outcomes["graphrt"]
    row = {"test": test, "graph": number, "passes": passed, "langgraph": theirs, "graphrt": ours}
    if theirs is None or ours is None:
        return {**row, "kind": "not reached"}
    if ours[1] == "NotComparableError":
        return {**row, "kind": "not comparable"}
    if theirs[0] == "error" and _IN_THE_CALL.search(str(theirs[2])):
        return {**row, "kind": "not comparable"}
    if theirs[:2] == ours[:2]:
        return {**row, "kind": "equal"}
    if ours[0] == "error":
        return {**row, "kind": f"error: {ours[2].splitlines()[0][:150]}"}
    return {**row, "kind": "raises there" if theirs[0] == "error" else "other values"}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what is different, by kind."""
    rows = SESSION.results
    compared = [row for row in rows if row["kind"] not in ("not reached", "not comparable")]
    equal = sum(row["kind"] == "equal" for row in compared)
    write = terminalreporter.write_line
    share = 100 * equal / len(compared) if compared else 0.0
    write(f"graphs: {len(compared)} compared, {equal} with equal first results ({share:.1f} %)")
    for kind, count in Counter(row["kind"] for row in rows if row["kind"] != "equal").most_common():
        write(f"{count:4}  {kind}")
        for row in rows:
            if row["kind"] == kind:
                write(f"      {row['test']} #{row['graph']}")
    target = os.environ.get("LANGGRAPH_RESULTS")
    if target:
        Path(target).write_text(json.dumps(rows, indent=1), encoding="utf-8")
