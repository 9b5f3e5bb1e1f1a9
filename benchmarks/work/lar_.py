"""Lár: `GraphExecutor` over nodes that name their successor, `RouterNode` for choices, `BatchNode` for fan-out.

Sync only. It writes a file and prints a line at the end of each run; both are discarded, so that the engine is measured
instead of the disk. Its state is one dictionary, so there is no pydantic workload.
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any

from lar import AuditLogger, BaseNode, BatchNode, FunctionalNode, GraphExecutor, GraphState, RouterNode

from benchmarks.catalogue import fan_rounds
from benchmarks.work.common import SLEEP_S, Run, message


class Unsaved(AuditLogger):
    """Keeps the history of a run, as Lár does, and saves nothing."""

    def __init__(self) -> None:
        self.pii_redactor = None
        self.history = []

    def save_to_file(self, run_id: str, user_id: str | None = None, summary: dict[str, Any] | None = None) -> None:
        pass


class Step(BaseNode):
    """A node that changes the state and continues."""

    def __init__(self, change: Callable[[GraphState], None], next_node: BaseNode | None = None) -> None:
        self.change, self.next_node = change, next_node

    def execute(self, state: GraphState) -> BaseNode | None:
        self.change(state)
        return self.next_node


def steps(first: BaseNode, state: dict[str, Any], n: int) -> Any:
    executor = GraphExecutor(logger=Unsaved(), max_node_fatigue=2 * n + 10)
    return executor.run_step_by_step(first, state, max_steps=2 * n + 10)


def run(first: BaseNode, state: dict[str, Any], n: int) -> dict[str, Any]:
    for _ in steps(first, state, n):
        pass
    return state


def note(name: str) -> Callable[[GraphState], None]:
    def change(state: GraphState) -> None:
        state["count"] = state["count"] + 1
        state["last"] = name

    return change


def speak(state: GraphState) -> None:
    state["messages"] = [*state["messages"], message(state["count"])]
    state["count"] = state["count"] + 1


def without(state: dict[str, Any], *wanted: str) -> dict[str, Any]:
    return {key: state[key] for key in wanted}


# chain


def chain(n: int) -> BaseNode:
    node: BaseNode | None = None
    for i in reversed(range(n)):
        node = Step(note(f"n{i}"), node)
    assert node is not None
    return node


def chain_sync(n: int) -> Run:
    first = chain(n)
    return lambda: without(run(first, {"goal": "chain", "count": 0, "last": ""}, n), "goal", "count", "last")


def build(n: int) -> Run:
    """Nodes are linked when they are created; nothing is compiled or checked."""

    def once() -> dict[str, int]:
        chain(n)
        return {"nodes": n}

    return once


# loop


def loop(n: int, first: Callable[[GraphState], None], second: Callable[[GraphState], None]) -> BaseNode:
    ping, end = Step(first), Step(lambda state: None)
    router = RouterNode(lambda state: "more" if state["count"] < n else "done", {"more": ping, "done": end})
    ping.next_node = Step(second, router)
    return ping


def loop_dict_sync(n: int) -> Run:
    first = loop(n, note("ping"), note("pong"))
    return lambda: without(run(first, {"goal": "loop", "count": 0, "last": ""}, n), "goal", "count", "last")


memory = loop_dict_sync


def grow(n: int) -> Run:
    first = loop(n, speak, speak)
    return lambda: run(first, {"count": 0, "messages": []}, n)


def read(first: BaseNode, state: dict[str, Any], n: int) -> dict[str, int | None]:
    """Its diffs also contain the engine's own keys, so only the steps are compared."""
    count = changes = 0
    for entry in steps(first, state, n):
        count += bool(entry["node"] == "Step" and entry["state_diff"]["updated"].get("count"))
        changes += len(entry["state_diff"]["updated"])
    return {"steps": count, "changes": None}


def stream_flat(n: int) -> Run:
    first = loop(n, note("ping"), note("pong"))
    return lambda: read(first, {"goal": "loop", "count": 0, "last": ""}, n)


def stream_grow(n: int) -> Run:
    first = loop(n, speak, speak)
    return lambda: read(first, {"count": 0, "messages": []}, n)


# fan-out


def square(item: int) -> Callable[[GraphState], int]:
    return lambda state: item * item


def doze(item: int) -> Callable[[GraphState], int]:
    def node(state: GraphState) -> int:
        sleep(SLEEP_S)
        return item

    return node


def fan(n: int, rounds: int, node: Callable[[int], Callable[[GraphState], int]]) -> Run:
    keys = [f"r{i}" for i in range(n)]

    def collect(state: GraphState) -> None:
        state["results"] = [*state["results"], *[state[key] for key in keys]]
        state["rounds"] = state["rounds"] + 1

    batch = BatchNode([FunctionalNode(node(i), output_key=key) for i, key in enumerate(keys)])
    end = Step(lambda state: None)
    router = RouterNode(lambda state: "more" if state["rounds"] < rounds else "done", {"more": batch, "done": end})
    batch.next_node = Step(collect, router)
    return lambda: run(batch, {"rounds": 0, "results": []}, 3 * rounds)


def fan_sync(n: int) -> Run:
    return fan(n, fan_rounds(n), square)


def sleeps_sync(n: int) -> Run:
    return fan(n, 1, doze)
