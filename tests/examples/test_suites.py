"""The suites of the examples, copied to a new folder like a user does: they pass, and detect planted bugs.

One bug is planted for each suite, and GRAPHRT_FULL=1 plants all: a run of pytest takes a second.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.testing.warm_python import warm_python

import graphrt

EXAMPLES = Path(__file__).parents[2] / "examples"
FULL = os.environ.get("GRAPHRT_FULL") == "1"
SUITES = ("ticket_router", "support_triage", "research_map_reduce", "runbook", "long_context", "claims")

# Suite, original code in its graph.py, the bug in its place, the failing test (none: the graph is refused), and its
# message. The first bug of a suite is planted in every run.
PLANTED = [
    (
        "ticket_router",
        "if state.amount is None:",
        "if not state.amount:",
        "test_routing[find_order-refund-1]",
        "find_order leads to ask_for_order, not to refund.",
    ),
    (
        "ticket_router",
        '@g.node(max_visits=3, on_fatigue="hand_over")\ndef search',
        "@g.node\ndef search",
        "test_search_is_abandoned_after_three_attempts",
        "The run took the edge search -> widen 5 times, not 3 times.",
    ),
    (
        "support_triage",
        "deliver(state, ctx, verdict.text or state.draft)",
        "deliver(state, ctx, state.draft)",
        "test_person_may_write_their_own_text",
        "You have it back.",
    ),
    (
        "support_triage",
        'ctx.effect("send", ctx.deps.send, state.customer, text, kind="once")',
        "ctx.deps.send(state.customer, text)",
        "test_mail_is_sent_once_although_the_tracker_fails_after_it",
        "state.receipt is not as expected.",
    ),
    (
        "research_map_reduce",
        "sources: Annotated[list[str], union]",
        "sources: Annotated[list[str], append]",
        "test_document_is_named_once_although_two_tasks_found_it",
        "state.sources is not as expected.",
    ),
    (
        "runbook",
        'tools=["roll_back", "restart"],',
        'tools=["roll_back", "restart", "drop_database"],',
        "test_refused_plan_is_returned_and_the_next_one_waits_for_a_person",
        "assert 1 == 2",
    ),
    (
        "runbook",
        'ctx.effect(step, ctx.deps.change, step, kind="once")',
        "ctx.deps.change(step + '!')",
        "test_approved_plan_is_executed_once",
        "roll back checkout!",
    ),
    (
        "research_map_reduce",
        ', starved="run"',
        "",
        "test_plan_without_questions_has_an_empty_report",
        "visited is not as expected.",
    ),
    (
        "long_context",
        "RecursiveLimits(calls=600, depth=0)",
        "RecursiveLimits(calls=10, depth=0)",
        "test_release_is_found_and_every_failed_request_is_counted",
        "state.answer is not as expected.",
    ),
    (
        "long_context",
        'f"No answer to {state.question!r}: {ctx.error}"',
        "str(ctx.error)",
        "test_model_that_never_answers_is_abandoned",
        "AssertionError",
    ),
    (
        "claims",
        'ctx.memory.put(f"customers/{state.customer}", f"claim {receipt}", fact)',
        "pass",
        "test_customer_is_remembered_in_another_conversation_and_hidden_from_others",
        "town: lives in Bergen",
    ),
    (
        "claims",
        'f"customers/{context.state.customer}"',
        '"customers"',
        "test_customer_is_remembered_in_another_conversation_and_hidden_from_others",
        "Nothing was remembered about that.",
    ),
    (
        "claims",
        'update={"damage": damage, "amount": amount}, result=',
        'update={"amount": amount}, result=',
        "test_small_claim_is_paid_without_a_question",
        "state.damage is not as expected.",
    ),
    (
        "claims",
        "summarise=MODEL)",
        "using=lambda said: [*said[:1], said[-1]])",
        "test_models_get_the_end_of_a_long_conversation_and_calls_with_their_results",
        "which is not open there",
    ),
    (
        "claims",
        "handoffs=[Handoff(assessor,",
        "handoffs=lambda: [Handoff(reception,",
        "",
        "Agent 'reception' hands over to itself",
    ),
    (
        "claims",
        '"approve" if context.state.amount > LIMIT else "pay"',
        '"pay"',
        "test_person_is_asked_about_a_large_claim",
        "The run is completed, not interrupted.",
    ),
    (
        "claims",
        "context.state.amount > LIMIT",
        "context.state.amount >= LIMIT",
        "test_small_claim_is_paid_without_a_question",
        "The run is interrupted, not completed.",
    ),
    (
        "claims",
        "check=promises_nothing,",
        "",
        "test_answer_that_promises_money_is_rewritten",
        "We will pay what the invoice says.",
    ),
    (
        "claims",
        'ctx.effect("pay", ctx.deps.pay, state.customer, state.amount, kind="once")',
        "ctx.deps.pay(state.customer, state.amount)",
        "test_process_that_dies_anywhere_pays_once_and_ends_with_the_same_memory_and_usage",
        "double-effect",
    ),
]


def sampled() -> list[Any]:
    """The rows of PLANTED. All but the first of each suite run only in full runs."""
    first = {row[0]: row for row in reversed(PLANTED)}
    return [
        pytest.param(*row, id=f"{row[0]}-{row[3]}", marks=[] if row is first[row[0]] else pytest.mark.full)
        for row in PLANTED
    ]


def copied(example: str, folder: Path) -> Path:
    """A copy of *example* in *folder*; returns the file of its graph."""
    copy = folder / example
    shutil.copytree(EXAMPLES / example, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy / "graph.py"


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Run pytest in *folder* like a user does, with only the plugin of graphrt; return its exit code and its output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPHRT_", "PYTEST_"))}
    path = [str(Path(graphrt.__file__).parents[1])]
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(path), "COLUMNS": "200"}
    arguments = ["-m", "pytest", "-p", "pytest_graphrt", "-p", "no:cacheprovider", "-q", "-rf", *options]
    done = warm_python().run(arguments, cwd=folder, env=env)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["prepend", pytest.param("importlib", marks=pytest.mark.full)])
def test_copied_suites_pass_and_take_every_route(tmp_path: Path, mode: str) -> None:
    for example in SUITES:
        copied(example, tmp_path)

    options = [] if FULL else ["-k", "not dies_anywhere"]  # takes three seconds, and has no unique route
    code, text = run(tmp_path, f"--import-mode={mode}", "--graphrt-cov=.", "--graphrt-cov-fail-under=100", *options)

    assert code == 0, text
    assert all(
        graph in text for graph in ("ticket-router", "support", "research", "long-context", "claims", "TOTAL")
    ), text


@pytest.mark.parametrize(("example", "text", "bug", "test", "says"), sampled())
def test_suite_detects_a_planted_bug(tmp_path: Path, example: str, text: str, bug: str, test: str, says: str) -> None:
    graph = copied(example, tmp_path)
    source = graph.read_text(encoding="utf-8")
    assert source.count(text) == 1, "the bug has no place any more"
    graph.write_text(source.replace(text, bug), encoding="utf-8")

    code, told = run(tmp_path, f"{example}/test_{example}.py" + f"::{test}" * bool(test))

    assert code == (1 if test else 2), told
    assert f"::{test}" * bool(test) in told
    assert says in told
