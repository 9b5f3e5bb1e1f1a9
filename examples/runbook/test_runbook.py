"""The suite of the runbook: refused plans, permissions, effects that run once, and the content of prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrt import InputError, Runtime
from graphrt.harness import FunctionModel, ModelRequest

from .graph import Site, State, graph
from .offline import assess, design, offline, plan, summarize

ALERT = {"alert": "checkout fails", "service": "checkout"}
YES = {"choice": "approve", "by": "Ann", "role": "operator", "rationale": "it is the release"}


class Quiet(Site):
    """A site without problems."""

    def deploys(self, service: str) -> str:
        return f"{service}: release 50 on Monday"


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def runtime(site: Site) -> Iterator[Runtime[State]]:
    with Runtime(graph, store="memory:", deps=site, models=offline()) as made:
        yield made


def test_refused_plan_is_returned_and_the_next_one_waits_for_a_person(runtime: Runtime[State], site: Site) -> None:
    result = runtime.run(ALERT, thread="t")

    assert result.status == "interrupted"
    assert result.state.plan["attempts"] == 2
    assert result.state.steps == ["roll back checkout", "restart checkout"]
    assert site.changed == []


def test_approved_plan_is_executed_once(runtime: Runtime[State], site: Site) -> None:
    runtime.run(ALERT, thread="t")
    result = runtime.resume("t", answer=YES)

    assert site.changed == ["roll back checkout", "restart checkout"]
    assert result.state.report.splitlines() == [
        "checkout: checkout fails",
        "cause: release 51 made the connection pool too small",
        "approve by Ann: it is the release",
        "done: roll back checkout",
        "done: restart checkout",
    ]


def test_rejected_plan_changes_nothing(runtime: Runtime[State], site: Site) -> None:
    runtime.run(ALERT, thread="t")
    result = runtime.resume("t", answer={**YES, "choice": "reject"})

    assert site.changed == []
    assert "reject by Ann" in result.state.report


@pytest.mark.parametrize("wrong", [{"by": ""}, {"role": "guest"}, {"rationale": ""}, {"choice": "maybe"}])
def test_decision_without_a_person_or_an_allowed_role_is_refused(runtime: Runtime[State], wrong: Any) -> None:
    runtime.run(ALERT, thread="t")
    with pytest.raises(InputError):
        runtime.resume("t", answer={**YES, **wrong})
    assert runtime.state("t").status == "interrupted"


@pytest.mark.parametrize(
    "design_of",
    [
        lambda: design(["drop_database"]),
        lambda: design(["roll_back"] * 9),
        lambda: "I would rather not.",
        lambda: json.dumps({"nodes": [], "edges": []}),
    ],
)
def test_planner_that_never_returns_a_safe_plan_is_escalated_to_a_person(
    site: Site, design_of: Callable[[], str]
) -> None:
    models = {**offline(), "planner": FunctionModel(lambda _: design_of())}
    with Runtime(graph, store="memory:", deps=site, models=models) as runtime:
        result = runtime.run(ALERT, thread="t")

    assert result.status == "completed"
    assert "no plan was safe" in result.state.report
    assert site.changed == []


class Shaky(Site):
    """A site whose sources each fail once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def first(self, what: str) -> None:
        if what not in self.asked:
            self.asked.add(what)
            raise ConnectionError(f"{what} cannot be reached")

    def metrics(self, service: str) -> str:
        self.first("metrics")
        return super().metrics(service)

    def logs(self, service: str) -> str:
        self.first("logs")
        return super().logs(service)

    def deploys(self, service: str) -> str:
        self.first("deploys")
        return super().deploys(service)


def test_source_that_fails_once_is_retried() -> None:
    with Runtime(graph, store="memory:", deps=Shaky(), models=offline(), sleep=lambda _: None) as runtime:
        assert runtime.run(ALERT, thread="t").status == "interrupted"


def test_harmless_incident_alerts_no_operator() -> None:
    with Runtime(graph, store="memory:", deps=Quiet(), models=offline()) as runtime:
        result = runtime.run(ALERT, thread="t")

    assert result.status == "completed"
    assert result.state.decision == {}


def test_prompts_downstream_have_the_summary_and_not_the_evidence(site: Site) -> None:
    asked: dict[str, list[ModelRequest]] = {}

    def noted(name: str, answer: Callable[[ModelRequest], Any]) -> FunctionModel:
        def model(request: ModelRequest) -> Any:
            asked.setdefault(name, []).append(request)
            return answer(request)

        return FunctionModel(model)

    models = {"summarizer": noted("sum", summarize), "assessor": noted("as", assess), "planner": noted("plan", plan)}
    with Runtime(graph, store="memory:", deps=site, models=models) as runtime:
        state = runtime.run(ALERT, thread="t").state

    assert len(asked["sum"][0].text) > 5 * len(asked["as"][0].text)
    assert (state.metrics, state.logs, state.deploys) == ("", "", "")


def test_restart_between_plan_and_decision_keeps_the_plan(tmp_path: Path, site: Site) -> None:
    calls: list[str] = []

    def once(request: ModelRequest) -> str:
        calls.append("plan")
        return plan(request)

    store = f"sqlite:///{tmp_path}/runs.db"
    models = {**offline(), "planner": FunctionModel(once)}
    with Runtime(graph, store=store, deps=site, models=models) as runtime:
        before = runtime.run(ALERT, thread="t").state.plan
    with Runtime(graph, store=store, deps=site, models=models) as runtime:
        after = runtime.resume("t", answer=YES).state

    assert after.plan == before
    assert calls == ["plan", "plan"]
    assert site.changed == ["roll back checkout", "restart checkout"]
