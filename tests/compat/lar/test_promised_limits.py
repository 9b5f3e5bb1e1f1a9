"""Promises of Lár's documents about budgets, fatigue, batches and steps that Lár 2.1.0 breaks."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import Budget
from graphrt.compat.lar import (
    AddValueNode,
    BatchNode,
    EndlessLoopWarning,
    FunctionalNode,
    LLMNode,
    ReduceNode,
    RouterNode,
    TokenTracker,
    ToolNode,
)
from graphrt.errors import (
    BudgetExceededError,
    DeadlineError,
    InputError,
    NodeError,
    NodeFatigueError,
    StepLimitError,
)
from graphrt.events import Usage
from graphrt.harness import AgentReply, FunctionModel, ModelProfile

from .support import asking, broken, busy, model, path, run, three_steps


def loop() -> LLMNode:
    start = asking("Try.", "tried")
    start.next_node = RouterNode(lambda state: "again", {"again": start, "done": AddValueNode("done", True)})
    return start


def test_d14_node_may_run_fifty_times() -> None:
    """ "max_node_fatigue int 50" """
    outcome = run(loop(), model=model(), max_steps=1000)

    assert path(outcome).count(("LLMNode", "success")) == 50
    assert path(outcome)[-1] == ("LLMNode", "error")


def test_d15_more_than_max_steps_is_an_outcome() -> None:
    """ "outcome: 'success', 'error', 'max_steps_reached'" """
    outcome = run(loop(), model=model(), max_steps=7)

    assert outcome.outcome == "max_steps_reached"
    assert [record["outcome"] for record in outcome.records] == ["success"] * 7 + ["max_steps_reached"]
    with pytest.raises(StepLimitError):
        outcome.raise_for_error()


def test_d15_run_of_exactly_max_steps_succeeds() -> None:
    assert run(three_steps(), max_steps=3).outcome == "success"


def test_d16_tokens_of_every_branch_are_counted() -> None:
    """ "aggregate run_metadata from every single node" """
    tracker = TokenTracker()
    batch = BatchNode([asking("Say it.", f"said{n}") for n in range(3)])

    outcome = run(batch, model=model(prompt_tokens=90, output_tokens=10), tracker=tracker)

    assert outcome.records[0]["run_metadata"]["total_tokens"] == 300
    assert tracker.get_summary()["tokens_by_model"] == {"m": 300}


def test_d16_tokens_of_a_failed_step_are_counted() -> None:
    empty = FunctionModel(lambda request: AgentReply(text=" ", usage=Usage(input_tokens=5, output_tokens=1, calls=1)))
    tracker = TokenTracker()

    outcome = run(asking("Say it.", "said"), model=empty, tracker=tracker)

    assert outcome.records[0]["outcome"] == "error"
    assert outcome.records[0]["run_metadata"]["total_tokens"] == tracker.get_summary()["total_tokens"] == 6


def test_d17_objects_in_a_cycle_run_until_fatigue_trips() -> None:
    """ "the engine physically trips a circuit breaker and kills the run" """
    first = FunctionalNode(lambda state: state.set("n", state.get("n", 0) + 1))
    first.next_node = RouterNode(lambda state: "again", {"again": AddValueNode("a", 1, first)})

    with pytest.warns(EndlessLoopWarning, match="no conditional way out|neither END"):
        outcome = run(BatchNode([first]), max_node_fatigue=5)
    assert "5 visits" in outcome.records[0]["error"]
    with pytest.warns(EndlessLoopWarning):
        outcome = run(first, max_node_fatigue=5)
    assert outcome.records[-1]["error"].startswith("FATIGUE")
    assert outcome.state["n"] == 5


def spending(tokens: int, then: Any = None) -> FunctionalNode:
    return FunctionalNode(lambda state: state.set("token_budget", state["token_budget"] - tokens), next_node=then)


def setting(value: Any, then: Any = None) -> FunctionalNode:
    return FunctionalNode(lambda state: state.set("token_budget", value), next_node=then)


FREE = FunctionalNode(lambda state: state.delete("token_budget"))


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (spending(100, spending(250)), 650),
        (BatchNode([spending(100), spending(250)]), 650),
        (BatchNode([spending(100, spending(50)), BatchNode([spending(250), spending(1)], spending(9))]), 590),
        (BatchNode([spending(600), spending(600)]), 0),
        (BatchNode([setting(1500), spending(100)]), 1400),
        (BatchNode([AddValueNode("a", 1, FREE), AddValueNode("b", 2)]), None),
        (BatchNode([spending(100, asking("hello", "a")), asking("hello", "b"), spending(50)]), 828),
        (BatchNode([spending(100), ToolNode(broken, [], None)], error_node=AddValueNode("a", 1)), 1000),
        (setting(-3), 0),
        (spending(1003), 0),
        (setting(12.9), 12),
        (setting(0), 0),
        (setting(None), None),
    ],
)
def test_changes_of_the_budget_by_nodes_have_their_documented_effect(start: Any, left: int | None) -> None:
    """ "subtract it from the token_budget state variable" """
    outcome = run(start, {"token_budget": 1000}, model=model(prompt_tokens=10))

    assert outcome.outcome == "success"
    assert outcome.state.get("token_budget") == left
    assert outcome.records[-1]["state_after"].get("token_budget") == left


@pytest.mark.parametrize("value", ["2500", True, float("nan"), [1]])
def test_budget_that_is_not_a_number_is_an_error(value: Any) -> None:
    assert run(setting(value), {"token_budget": 10}).records[-1]["error_type"] == "InputError"
    with pytest.raises(InputError, match="token_budget"):
        run(setting(1), {"token_budget": value})


def test_d22_negative_budget_at_the_start_ends_in_a_record() -> None:
    """ "if the token_budget is 0 or negative, the engine will ... gracefully terminate" """
    silent = model()

    outcome = run(AddValueNode("a", 1, asking("Say it.", "said")), {"token_budget": -5}, model=silent)

    assert silent.calls == []
    assert path(outcome) == [("AddValueNode", "success"), ("LLMNode", "error")]
    assert outcome.records[-1]["error_type"] == "BudgetExceededError"
    assert outcome.records[0]["state_before"] == {"token_budget": 0}


# D18, offline_mode, is in test_offline.py.


def test_d20_run_has_a_limit_in_dollars() -> None:
    """ "mathematical dollar-amount ceilings" """
    usage = Usage(input_tokens=10, output_tokens=10, calls=1)
    priced = ModelProfile(
        name="priced", input_usd_per_token=0.01, output_usd_per_token=0.01, count_tokens=lambda request: 10
    )
    costly = FunctionModel(lambda request: AgentReply(text="ok", usage=usage), profile=priced)
    start = loop()
    start.generation_config["max_tokens"] = 10

    outcome = run(start, model=costly, budget=Budget(usd=0.50))

    assert len(costly.calls) == 2
    assert outcome.records[-1]["error_type"] == "BudgetExceededError"
    assert sum(record["run_metadata"].get("cost_usd", 0) for record in outcome.records) == pytest.approx(0.40)


@pytest.mark.parametrize("budget", [0, 1, 10, 42, 43, 50, 99, 100, 2500])
def test_d21_no_call_uses_more_than_the_budget(budget: int) -> None:
    """ "a strict max budget of 2500 tokens" """
    greedy = model("Chapter", prompt_tokens=42, output_tokens=None)

    outcome = run(asking("Write.", "one", asking("Write on.", "two")), {"token_budget": budget}, model=greedy)

    used = sum(record["run_metadata"].get("total_tokens", 0) for record in outcome.records)
    assert used <= budget
    assert outcome.state["token_budget"] == budget - used


def test_d21_branches_share_a_budget() -> None:
    greedy = model("Chapter", prompt_tokens=10, output_tokens=None)
    batch = BatchNode([asking("Write.", f"part{n}") for n in range(3)])

    outcome = run(batch, {"token_budget": 100}, model=greedy)

    assert outcome.outcome == "success"
    assert outcome.records[0]["run_metadata"]["total_tokens"] == 99
    assert outcome.state["token_budget"] == 1


def test_d21_branches_that_exceed_the_budget_are_not_started() -> None:
    greedy = model("Chapter", prompt_tokens=100, output_tokens=None)
    batch = BatchNode([asking("Write.", f"part{n}") for n in range(3)], AddValueNode("after", True))

    outcome = run(batch, {"token_budget": 50}, model=greedy)

    assert greedy.calls == []
    assert outcome.state == {"token_budget": 50}
    assert path(outcome) == [("BatchNode", "error")]


def test_d22_refused_call_ends_the_run_and_is_an_error_that_can_be_raised() -> None:
    """ "the engine will intercept the call, throw an error, and gracefully terminate the workflow" """
    silent = model()
    outcome = run(asking("Say it.", "said", AddValueNode("after", True)), {"token_budget": 0}, model=silent)

    assert silent.calls == []
    assert path(outcome) == [("LLMNode", "error")]
    assert "after" not in outcome.state
    with pytest.raises(BudgetExceededError):
        outcome.raise_for_error()


def test_d22_an_error_in_a_branch_is_the_error_of_the_batch() -> None:
    batch = BatchNode([AddValueNode("fine", 1), ToolNode(broken, [], "x")], AddValueNode("after", True))

    outcome = run(batch)

    assert path(outcome) == [("BatchNode", "error")]
    assert "ToolNode of branch 1: no route to host" in outcome.records[0]["error"]
    with pytest.raises(NodeError):
        outcome.raise_for_error()


def test_d23_unreported_usage_of_a_provider_counts_as_the_reservation() -> None:
    """ "read its exact token usage": without a report, a call still costs something."""
    mute = FunctionModel(lambda request: "ok", usage=None, profile=ModelProfile(name="mute", count_tokens=lambda r: 10))
    start = asking("Say it.", "said")
    start.generation_config["max_tokens"] = 30

    assert run(start, {"token_budget": 100}, model=mute).state["token_budget"] == 60


def test_d24_reduce_deletes_its_inputs_after_any_earlier_failure() -> None:
    """ "guarantees the state baton remains light" """
    reducer = ReduceNode("m", "Shorten {report}", ["report"], "short")
    start = ToolNode(broken, [], "x", None, error_node=reducer)

    outcome = run(start, {"report": "long"}, model=model())

    assert outcome.state == {"last_error": "no route to host", "short": "TEXT"}


def test_d24_reduce_keeps_its_inputs_if_the_call_fails() -> None:
    reducer = ReduceNode("m", "Shorten {report}", ["report"], "short", max_retries=0)

    assert run(reducer, {"report": "long"}, model=FunctionModel(busy)).state == {"report": "long"}


def test_d25_fatigue_counts_objects_and_not_classes() -> None:
    """ "If a single node is hit more times than the global max_node_fatigue limit" """
    node: Any = None
    for n in range(30):
        node = AddValueNode("n", n, node)

    assert run(node, max_node_fatigue=1).outcome == "success"


def test_d25_nodes_inside_a_branch_are_also_counted() -> None:
    outcome = run(BatchNode([loop()]), model=model(), max_node_fatigue=3)

    assert path(outcome) == [("BatchNode", "error")]
    assert "3 visits" in outcome.records[0]["error"]


def test_d26_fatigue_is_an_error_that_can_be_raised() -> None:
    """ "it will throw a FATIGUE Error" """
    outcome = run(loop(), model=model(), max_node_fatigue=5)

    assert outcome.records[-1]["error"].startswith("FATIGUE")
    assert outcome.records[-1]["error_type"] == "NodeFatigueError"
    with pytest.raises(NodeFatigueError):
        outcome.raise_for_error()


def test_d27_batch_writes_the_writes_and_deletions_of_all_branches() -> None:
    """ "dump all results back into the GraphState simultaneously" """
    batch = BatchNode(
        [
            AddValueNode("one", 1),
            FunctionalNode(lambda state: state.delete("old")),
            AddValueNode("two", 2, AddValueNode("three", 3)),
        ]
    )

    assert run(batch, {"old": 0, "kept": 0}).state == {"kept": 0, "one": 1, "two": 2, "three": 3}


def test_d27_branches_that_write_different_values_to_one_key_fail_and_lose_nothing() -> None:
    def more(number: int) -> FunctionalNode:
        return FunctionalNode(lambda state: state.get("list").append(number))

    outcome = run(BatchNode([more(1), more(2)]), {"list": [0]})

    assert outcome.outcome == "error"
    assert "FunctionalNode of branch 0 [0, 1], FunctionalNode of branch 1 [0, 2]" in outcome.records[0]["error"]
    assert outcome.state == {"list": [0]}


def test_d28_run_has_a_time_limit() -> None:
    """ "mathematically safe" """
    outcome = run(loop(), model=model(), deadline_s=0.05, max_node_fatigue=None, max_steps=10**9)

    assert outcome.outcome == "error"
    assert outcome.records[-1]["error_type"] == "DeadlineError"
    with pytest.raises(DeadlineError):
        outcome.raise_for_error()
