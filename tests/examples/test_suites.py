"""The suites of the examples, in a folder of their own as a user copies them: they pass, and find bugs that are planted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.testing.support import FOREIGN
from tests.testing.warm_python import warm_python

import graphrt

EXAMPLES = Path(__file__).parents[2] / "examples"
SUITES = ("ticket_router", "support_triage", "research_map_reduce", "runbook", "long_context", "claims")

# Suite, what stands in its graph.py, the bug in its place, the test that fails (none: the graph is refused), and what it
# says.
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
        "test_a_search_is_given_up_after_three_tries",
        "The run took the edge search -> widen 5 times, not 3 times.",
    ),
    (
        "support_triage",
        "deliver(state, ctx, verdict.text or state.draft)",
        "deliver(state, ctx, state.draft)",
        "test_the_person_may_write_a_text_of_their_own",
        "You have it back.",
    ),
    (
        "support_triage",
        'ctx.effect("send", ctx.deps.send, state.customer, text, kind="once")',
        "ctx.deps.send(state.customer, text)",
        "test_a_mail_goes_out_once_though_the_tracker_fails_after_it",
        "state.receipt is not as expected.",
    ),
    (
        "research_map_reduce",
        "sources: Annotated[list[str], union]",
        "sources: Annotated[list[str], append]",
        "test_a_document_is_named_once_though_two_tasks_found_it",
        "state.sources is not as expected.",
    ),
    (
        "runbook",
        'tools=["roll_back", "restart"],',
        'tools=["roll_back", "restart", "drop_database"],',
        "test_a_refused_plan_goes_back_and_the_next_one_waits_for_a_person",
        "assert 1 == 2",
    ),
    (
        "runbook",
        'ctx.effect(step, ctx.deps.change, step, kind="once")',
        "ctx.deps.change(step + '!')",
        "test_an_approved_plan_is_carried_out_once",
        "roll back checkout!",
    ),
    (
        "research_map_reduce",
        ', starved="run"',
        "",
        "test_a_plan_without_questions_has_an_empty_report",
        "visited is not as expected.",
    ),
    (
        "long_context",
        "RecursiveLimits(calls=600, depth=0)",
        "RecursiveLimits(calls=10, depth=0)",
        "test_the_release_is_found_and_every_failed_request_is_counted",
        "state.answer is not as expected.",
    ),
    (
        "long_context",
        'f"No answer to {state.question!r}: {ctx.error}"',
        "str(ctx.error)",
        "test_a_model_that_never_answers_is_given_up",
        "AssertionError",
    ),
    (
        "claims",
        'ctx.effect("pay", ctx.deps.pay, state.customer, state.amount, kind="once")',
        "ctx.deps.pay(state.customer, state.amount)",
        "test_a_process_that_dies_anywhere_pays_once_and_ends_with_the_same_memory_and_usage",
        "double-effect",
    ),
    (
        "claims",
        'ctx.memory.put(f"customers/{state.customer}", f"claim {receipt}", fact)',
        "pass",
        "test_a_customer_is_remembered_in_another_conversation_and_others_are_not_told",
        "town: lives in Bergen",
    ),
    (
        "claims",
        'f"customers/{context.state.customer}"',
        '"customers"',
        "test_a_customer_is_remembered_in_another_conversation_and_others_are_not_told",
        "Nothing was remembered about that.",
    ),
    (
        "claims",
        'update={"damage": damage, "amount": amount}, result=',
        'update={"amount": amount}, result=',
        "test_a_small_claim_is_paid_without_asking",
        "state.damage is not as expected.",
    ),
    (
        "claims",
        "summarise=MODEL)",
        "using=lambda said: [*said[:1], said[-1]])",
        "test_models_are_sent_the_end_of_a_long_conversation_and_calls_with_their_results",
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
        "test_a_person_is_asked_about_a_large_claim",
        "The run is completed, not interrupted.",
    ),
    (
        "claims",
        "context.state.amount > LIMIT",
        "context.state.amount >= LIMIT",
        "test_a_small_claim_is_paid_without_asking",
        "The run is interrupted, not completed.",
    ),
    (
        "claims",
        "check=promises_nothing,",
        "",
        "test_an_answer_that_promises_money_is_written_again",
        "We will pay what the invoice says.",
    ),
]


def copied(example: str, folder: Path) -> Path:
    """A copy of *example* in *folder*; returns the file of its graph."""
    copy = folder / example
    shutil.copytree(EXAMPLES / example, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy / "graph.py"


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Run pytest in *folder* as a user does, with the plugin of graphrt alone; return its exit code and its output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPHRT_", "PYTEST_"))}
    path = [str(Path(graphrt.__file__).parents[1])]
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(path), "COLUMNS": "200"}
    arguments = ["-m", "pytest", "-p", "pytest_graphrt", "-p", "no:cacheprovider", "-q", "-rf", *options]
    done = warm_python(*FOREIGN).run(arguments, cwd=folder, env=env, timeout_s=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_copied_suites_pass_and_take_every_route(tmp_path: Path, mode: str) -> None:
    for example in SUITES:
        copied(example, tmp_path)

    code, text = run(tmp_path, f"--import-mode={mode}", "--graphrt-cov=.", "--graphrt-cov-fail-under=100")

    assert code == 0, text
    assert all(
        graph in text for graph in ("ticket-router", "support", "research", "long-context", "claims", "TOTAL")
    ), text


@pytest.mark.parametrize(
    ("example", "text", "bug", "test", "says"), PLANTED, ids=[f"{row[0]}-{row[3]}" for row in PLANTED]
)
def test_suite_finds_a_planted_bug(tmp_path: Path, example: str, text: str, bug: str, test: str, says: str) -> None:
    graph = copied(example, tmp_path)
    source = graph.read_text(encoding="utf-8")
    assert source.count(text) == 1, "the bug has no place any more"
    graph.write_text(source.replace(text, bug), encoding="utf-8")

    code, told = run(tmp_path, f"{example}/test_{example}.py" + f"::{test}" * bool(test))

    assert code == (1 if test else 2), told
    assert f"::{test}" * bool(test) in told
    assert says in told
