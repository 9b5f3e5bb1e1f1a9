"""A fan-out with a model: the request of each task, the joined results, and the effect of one failure on the others.

It has detected two bugs: sources that are collected with `append`, which names a document twice, and a join without
`starved="run"`, after which a plan without questions ends without a report.
"""

from __future__ import annotations

import pytest

from graphrt import END, START, Send
from graphrt.harness import Budget, FunctionModel, ToolCall
from graphrt.testing import assert_run, record

from .graph import LIBRARY, graph
from .offline import offline, researched

TEA = "What is tea? All tea is made of the leaves of one plant."
COFFEE = "What is coffee? Coffee and tea are drunk in the morning."


def question_of(request):
    """The question of an agent, in any turn."""
    return next(message.text for message in request.messages if message.role == "user")


@pytest.mark.routes(
    graph,
    {
        START: [({"topic": "tea"}, "plan")],
        "plan": [
            ({"topic": "tea", "questions": ["a", "b"]}, [Send("research", "a"), Send("research", "b")]),
            ({"topic": "tea", "questions": []}, END),
        ],
    },
)
def test_routing():
    """One test for each row."""


def test_each_question_has_a_task_and_the_report_joins_them():
    run = record(graph, {"topic": "tea and coffee"}, models=offline())

    assert_run(run).completed().visited("plan", "research", "research", "write").routed("plan", "research")
    assert_run(run).state("report", f"{TEA}\n{COFFEE}").state("words", 18).usage(calls=6).without_warnings()


def test_document_is_named_once_although_two_tasks_found_it():
    run = record(graph, {"topic": "tea and coffee"}, models=offline())

    assert_run(run).state("sources", ["plants", "breakfast", "beans"])


def test_findings_are_in_the_order_of_the_plan(graphrt_model):
    plan = graphrt_model([["What is coffee?", "What is tea?"]])
    run = record(graph, {"topic": "drinks"}, models={**offline(), "planner": plan})

    assert_run(run).state("findings", [COFFEE, TEA])


def test_each_task_searches_once_and_reads_its_results(graphrt_model):
    search = ToolCall(id="1", name="search", arguments={"words": "cherry"})
    researcher = graphrt_model([search, {"text": "A seed.", "sources": ["beans"]}])
    run = record(graph, {"topic": "beans"}, models={**offline(), "researcher": researcher})

    assert_run(run).state("findings", ["What is beans? A seed."]).state("sources", ["beans"])
    assert LIBRARY["beans"] in researcher.calls[1].text


def test_plan_without_questions_has_an_empty_report():
    run = record(graph, {"topic": "and"}, models=offline())

    assert_run(run).completed().visited("plan", "write").never_visited("research").state("report", "")


def test_one_lost_connection_is_retried(graphrt_clock):
    lost = []

    def moody(request):
        if "coffee" in question_of(request) and not lost:
            lost.append(request)
            raise ConnectionError("no line")
        return researched(request)

    models = {**offline(), "researcher": FunctionModel(moody)}
    run = record(graph, {"topic": "tea and coffee"}, models=models, sleep=graphrt_clock.sleep)

    assert_run(run).completed().retried("research", times=1).state("findings", [TEA, COFFEE])


def test_model_that_stays_down_fails_the_run_and_a_retry_does_not_plan_again(graphrt_clock, graphrt_model):
    down = [True]

    def moody(request):
        if down[0]:
            raise ConnectionError("no line")
        return researched(request)

    plan = graphrt_model([["What is coffee?"]])  # one reply: the planner must not be called twice
    models = {**offline(), "planner": plan, "researcher": FunctionModel(moody)}
    run = record(graph, {"topic": "coffee"}, models=models, sleep=graphrt_clock.sleep)
    assert_run(run).failed(ConnectionError, match="no line", node="research").retried("research", times=1)

    down[0] = False
    assert_run(run.retry()).completed().state("findings", [COFFEE])


def test_budget_bounds_the_whole_fan_out():
    run = record(graph, {"topic": "tea and coffee and cocoa"}, models=offline(), budget=Budget(calls=3))

    assert_run(run).failed(match="budget").never_visited("write")
