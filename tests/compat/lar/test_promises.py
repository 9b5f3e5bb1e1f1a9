"""Promises of Lár's documents that Lár 2.1.0 breaks: each is kept here. The docstrings quote the promises."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.audit import AuditLog, generate_key, head
from graphrt.compat.lar import (
    AddValueNode,
    AuditLogger,
    BatchNode,
    ClearErrorNode,
    FunctionalNode,
    GraphExecutor,
    TokenTracker,
    ToolNode,
    apply_diff,
)
from graphrt.errors import GraphrtError
from graphrt.harness import FunctionModel

from .support import NOTHING, asking, broken, busy, echo, model, path, run, three_steps

# -- the records -----------------------------------------------------------------------------------------------------


def test_d01_log_does_not_contain_the_entire_state_at_every_step(tmp_path: Path) -> None:
    """ "does not log the entire state at every step ... it logs state diffs" """
    large = "x" * 100_000
    node: Any = None
    for n in range(15):
        node = AddValueNode(f"key{n}", n, node)

    run(node, {"document": large}, log_dir=tmp_path)

    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < 2 * len(large)


def test_d02_reader_of_records_cannot_change_the_log() -> None:
    """ "Immutability: every step is a discrete event" """
    executor = GraphExecutor()
    for record in executor.run_step_by_step(three_steps(), {"deep": {"list": [1]}}):
        record["node"] = "FORGED"
        record["state_after"]["deep"]["list"].append("forged")
        record["state_diff"]["added"]["b"] = "forged"
    executor.logger.get_history()[0]["outcome"] = "forged"

    assert executor.result is not None
    assert executor.result.state == {"deep": {"list": [1]}, "a": 2, "b": [1, 2]}
    assert "forged" not in json.dumps(executor.logger.get_history()).lower()


def test_d03_diff_has_only_the_change_of_its_node() -> None:
    """ "the exact state change that caused the new reality"; D19: "the exact boundaries of the function" """
    first, second, third = run(asking("Say it.", "said", three_steps().next_node), model=model()).records

    assert first["state_diff"] == {**NOTHING, "added": {"said": "TEXT"}}
    assert second["state_diff"] == {**NOTHING, "added": {"b": [1, 2]}}
    assert third["state_diff"] == {**NOTHING, "added": {"a": 2}}


def test_d04_replaying_the_diffs_gives_the_recorded_states_and_a_second_run_the_same_records() -> None:
    """ "Replaying these events with the same seed guarantees the same outcome" """

    def records() -> list[dict[str, Any]]:
        start = asking("a", "x", BatchNode([asking("b {x}", "y"), asking("c {x}", "z")], asking("d {y} {z}", "w")))
        return run(start, {"token_budget": 900}, model=echo(), seed=7).records

    first, second = records(), records()
    state: Any = {"token_budget": 900}
    for record in first:
        assert record["state_before"] == state
        state = apply_diff(state, record["state_diff"])
        assert record["state_after"] == state

    assert first == second


def test_d06_diff_has_updates_under_both_documented_names() -> None:
    """001 has "modified", 000 has "updated"."""
    *_, last = run(three_steps(), {"a": 0}).records

    assert last["state_diff"]["updated"] == last["state_diff"]["modified"] == {"a": 2}


def test_d07_error_of_a_busy_model_names_429_and_the_retries() -> None:
    """ "429 LLMNode failed after 3 retries." """
    waits: list[float] = []
    failing = FunctionModel(busy)

    outcome = run(asking("Say it.", "said"), model=failing, sleep=waits.append)

    assert outcome.records[0]["error"] == "429 LLMNode failed after 3 retries."
    assert len(failing.calls) == 4
    assert len(waits) == 3


def test_d08_executor_has_a_method_run() -> None:
    """ "executor.run(agent1, state1)" """
    outcome = GraphExecutor().run(three_steps(), {})

    assert outcome.outcome == "success"
    assert outcome.state == {"a": 2, "b": [1, 2]}
    assert outcome.raise_for_error() is outcome


def test_d09_shared_tracker_adds_up_the_runs_of_all_executors() -> None:
    """ "aggregated cost across both workflows" """
    tracker = TokenTracker()
    for _ in range(2):
        run(asking("Say it.", "said"), model=model(prompt_tokens=90, output_tokens=10), tracker=tracker)

    assert tracker.get_summary()["total_tokens"] == 200


def test_d10_and_d11_file_has_every_finished_step_when_the_reader_stops(tmp_path: Path) -> None:
    """ "When your agent fails, the glass box gives you a perfect record" """
    for _ in GraphExecutor(log_dir=tmp_path, clock=lambda: 0.0).run_step_by_step(three_steps(), {"odd": {1, 2}}):
        break

    (file,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["kind"] for line in lines] == ["run", "step", "end"]
    assert lines[-1]["outcome"] == "cancelled"
    assert {line["at"] for line in lines} == {"1970-01-01T00:00:00+00:00"}


def test_d12_and_d13_unsigned_log_does_not_claim_a_signature(tmp_path: Path) -> None:
    GraphExecutor(logger=AuditLogger(tmp_path)).run(three_steps(), {})

    (file,) = tmp_path.iterdir()
    text = file.read_text(encoding="utf-8")
    assert json.loads(text.splitlines()[0])["signed"] is False
    assert "signature" not in text
    assert "secret" not in text


def test_d12_audit_log_authenticates_the_journal_of_a_run(tmp_path: Path) -> None:
    url, key = f"sqlite:///{tmp_path / 'runs.db'}", generate_key()
    executor = GraphExecutor(audit=AuditLog(url, key=key, user="customer-123"))

    outcome = executor.run(three_steps(), {"a": 0})

    assert outcome.state == {"a": 2, "b": [1, 2]}
    assert head(url, outcome.run_id, key=key).size > 0
    with Runtime(executor.to_graph(three_steps()), store=url) as without_key, pytest.raises(GraphrtError) as caught:
        without_key.update(outcome.run_id, {"values": {"written": {"a": "forged"}, "deleted": []}})
    assert caught.value.code == "log-key-needed"


# -- flags that stay, and parallel runs --------------------------------------------------------------------------------


def test_handled_error_does_not_mark_later_steps() -> None:
    recovered = AddValueNode("a", 1, ClearErrorNode(AddValueNode("b", 2)))
    outcome = run(ToolNode(broken, [], "x", None, error_node=recovered))

    assert path(outcome) == [
        ("ToolNode", "error"),
        ("AddValueNode", "success"),
        ("ClearErrorNode", "success"),
        ("AddValueNode", "success"),
    ]
    assert outcome.outcome == "success"
    assert outcome.state == {"a": 1, "b": 2, "last_error": None}


def test_initial_state_of_the_caller_is_unchanged() -> None:
    initial = {"list": [1], "deep": {"a": [1]}}

    def change(state: Any) -> None:
        state.get("list").append(2)
        state.get("deep")["a"].append(2)

    outcome = run(FunctionalNode(change), initial)

    assert outcome.state == {"list": [1, 2], "deep": {"a": [1, 2]}}
    assert initial == {"list": [1], "deep": {"a": [1]}}


def test_executor_runs_several_graphs_at_the_same_time() -> None:
    executor = GraphExecutor(models={"m": echo()})
    outcomes: dict[int, Any] = {}

    def one(number: int) -> None:
        outcomes[number] = executor.run(asking("say {n}", "said"), {"n": number})

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {n: outcome.state["said"] for n, outcome in outcomes.items()} == {n: f"SAY {n}" for n in range(8)}
    assert executor.tracker.get_summary()["calls"] == 8
