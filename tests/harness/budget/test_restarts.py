"""A budget belongs to the run, in any process: it counts the spent usage and the reservations of interrupted calls."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

import pytest
from pydantic import BaseModel
from tests.forked import Forked

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt._usage.amounts import usage_of
from graphrt.errors import AuthenticationError, BadResponseError, BudgetExceededError, NodeError, TransientModelError
from graphrt.events import Amounts, Usage
from graphrt.harness import Agent, AgentReply, Budget, FunctionModel, ModelProfile, TokenTracker
from graphrt.reducers import append

PROFILE = ModelProfile(name="m", input_usd_per_token=1e-6, output_usd_per_token=1e-6, count_tokens=lambda _: 10)


class Plain(BaseModel):
    said: Annotated[list[str], append] = []


class WithField(Plain):
    token_budget: int = 1_000


def graph(state: type[Plain], steps: int = 3, calls: int = 2, **policy: Any) -> Any:
    """*steps* supersteps with *calls* calls each; the rest of the budget is noted before each step."""
    g = GraphBuilder(state, name="steps")

    async def work(state: Any, ctx: Context) -> dict[str, Any]:
        left = ctx.budget.remaining_tokens if ctx.budget is not None else None
        for number in range(calls):
            await ctx.harness.run(f"{ctx.step} {number}")
        return {"said": [str(left)]}

    names = [f"work{number}" for number in range(steps)]
    for name in names:
        g.add_node(name, work, **policy)
    g.add_edge(START, names[0])
    for before, after in pairwise(names):
        g.add_edge(before, after)
    g.add_edge(names[-1], END)
    return g.compile()


def runtime(path: str, model: Any, state: type[Plain] = Plain, **options: Any) -> Runtime[Any]:
    options.setdefault("budget", Budget(tokens=1_000))
    steps = options.pop("steps", 3)
    policy = options.pop("policy", {})
    return Runtime(
        graph(state, steps, **policy),
        store=f"sqlite:///{path}",
        harness=Agent(model, max_tokens=80),
        lease_s=1,
        **options,
    )


LOST: Final[Any] = {"unreported_calls": 1, "unpriced_calls": 1, "reserved_tokens": 90}
"""The usage of a call that a kill interrupted."""


def model(
    die_at: int | None = None,
    fail_at: int | None = None,
    usage: Usage | None = None,
    billed_at: int | None = None,
    reported: int | None = None,
) -> FunctionModel:
    made: list[int] = []

    def answer(_request: Any) -> AgentReply:
        made.append(1)
        if len(made) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(made) == fail_at:
            raise AuthenticationError("no key")
        if len(made) == billed_at:
            report = None if reported is None else Usage(input_tokens=10, output_tokens=reported, calls=1)
            raise BadResponseError("cut", retry_after_s=0.0, billed=True, usage=report)
        return AgentReply(text="ok", usage=usage or Usage(input_tokens=10, output_tokens=20, calls=1))

    return FunctionModel(answer, usage=None, profile=PROFILE)


def main(path: str, state: str, die_at: int, billed_at: int | None, reported: int | None, options: Any) -> None:
    """Be the process that is killed."""
    driver = runtime(path, model(die_at, billed_at=billed_at, reported=reported), globals()[state], **options)
    driver.run({}, thread="t")


def killed(
    path: str, state: str, die_at: int, billed_at: int | None = None, reported: int | None = None, **options: Any
) -> None:
    """Run in a separate process, which is killed inside call number *die_at*."""
    process = Forked(
        "tests.harness.budget.test_restarts", path, state, die_at, billed_at, reported, options, env=os.environ
    )
    out, _ = process.communicate(timeout=60)
    assert process.wait() == -signal.SIGKILL, out


def go_on(driver: Runtime[Any]) -> Any:
    status = driver.state("t").status
    return driver.retry("t") if status in ("failed", "running", "stale", "interrupted") else driver.resume("t")


def test_call_interrupted_by_a_kill_stays_counted(tmp_path: Path) -> None:
    """Two steps of 2 * 30 are committed, one call of the open superstep is recorded, and one of 90 was interrupted."""
    path = str(tmp_path / "t.db")
    killed(path, "Plain", die_at=6)
    with runtime(path, model()) as driver:
        result = go_on(driver)

    assert result.state.said == ["1000", "940", str(1000 - 5 * 30 - 90)]
    assert result.usage == Usage(input_tokens=60, output_tokens=120, calls=7, cost_usd=pytest.approx(0.00018), **LOST)


@pytest.mark.parametrize("die_at", [1, 2, 3, 6])
def test_interrupted_call_stays_counted_over_later_restarts_and_commits(tmp_path: Path, die_at: int) -> None:
    """Even after its superstep was committed."""
    path = str(tmp_path / "t.db")
    killed(path, "Plain", die_at=die_at, steps=4)
    with runtime(path, model(fail_at=9 - die_at), steps=4) as driver, pytest.raises(NodeError):
        go_on(driver)
    with runtime(path, model(), steps=4) as driver:
        result = go_on(driver)

    assert result.usage == Usage(input_tokens=80, output_tokens=160, calls=9, cost_usd=pytest.approx(0.00024), **LOST)


@pytest.mark.parametrize("reported", [Usage(input_tokens=10, output_tokens=5, calls=1), None])
def test_billed_failure_and_the_interrupted_call_after_it_count_once_each(
    tmp_path: Path, reported: Usage | None
) -> None:
    """Both belong to one request: the second call is the retry of the first."""
    path = str(tmp_path / "t.db")
    killed(path, "Plain", 2, billed_at=1, steps=1, reported=None if reported is None else reported.output_tokens)
    failed = reported or Usage(calls=1, unreported_calls=1, reserved_tokens=90)
    with runtime(path, model(), steps=1) as driver:
        result = go_on(driver)
        again = driver.state("t")

    assert again.usage == result.usage
    used = replace(result.usage, cost_usd=None, unpriced_calls=0)
    assert used == failed + usage_of(Amounts(90, 0, 1)) + Usage(input_tokens=20, output_tokens=40, calls=2)


def test_token_budget_field_is_charged_for_an_interrupted_call(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    killed(path, "WithField", die_at=4)
    with runtime(path, model(), WithField, budget=None) as driver:
        result = go_on(driver)
        again = driver.state("t").values

    assert result.state.token_budget == again.token_budget == 1_000 - 6 * 30 - 90


def test_budget_of_a_node_includes_an_interrupted_call(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    killed(path, "Plain", die_at=2)
    policy = {"budget": Budget(tokens=190)}
    with runtime(path, model(), policy=policy) as driver, pytest.raises(BudgetExceededError) as caught:
        go_on(driver)

    assert caught.value.node is not None
    assert "spent 120" in str(caught.value)


def test_resume_continues_with_the_rest_of_the_budget(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    with runtime(path, model(fail_at=4)) as driver, pytest.raises(NodeError):
        driver.run({}, thread="t")
    with runtime(path, model()) as driver:
        result = driver.retry("t")

    assert result.state.said == ["1000", str(1000 - 3 * 30), str(1000 - 4 * 30)]


def test_failed_call_is_also_refunded_for_the_next_process(tmp_path: Path) -> None:
    """The reservation that its process stored before the call no longer counts."""
    path = str(tmp_path / "t.db")
    with runtime(path, model(fail_at=3)) as driver, pytest.raises(NodeError):
        driver.run({}, thread="t")
    with runtime(path, model()) as driver:
        assert driver.state("t").usage.total_tokens == 60
        assert driver.retry("t").usage.total_tokens == 180


def test_dollars_are_known_to_the_next_process(tmp_path: Path) -> None:
    """The provider reports no cost, but the prices are known."""
    path = str(tmp_path / "t.db")
    budget = Budget(usd=0.0003)
    with runtime(path, model(fail_at=6), budget=budget) as driver, pytest.raises(NodeError):
        driver.run({}, thread="t")
    with runtime(path, model(), budget=Budget(usd=0.0003)) as driver:
        result = driver.retry("t")

    assert result.usage.cost_usd == pytest.approx(0.00018)


def test_unreported_usage_is_known_to_the_next_process(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    silent = Usage(calls=1)
    with runtime(path, model(fail_at=3, usage=silent)) as driver, pytest.raises(NodeError):
        driver.run({}, thread="t")
    with runtime(path, model(usage=silent), budget=Budget(tokens=6 * 90)) as driver:
        assert driver.retry("t").usage == Usage(calls=6, unreported_calls=6, reserved_tokens=6 * 90)


def test_trackers_of_each_process_and_the_rebuilt_one_agree(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    killed(path, "Plain", die_at=4)
    sink = TokenTracker()
    with runtime(path, model(fail_at=2), sinks=[sink]) as driver, pytest.raises(NodeError):
        go_on(driver)
    with runtime(path, model(), sinks=[sink]) as driver:
        result = driver.retry("t")
        rebuilt = TokenTracker().read(driver.entries("t"))

    assert rebuilt.total.total_tokens == result.usage.total_tokens == 6 * 30
    assert (rebuilt.total.unreported_calls, result.usage.unreported_calls) == (0, 1)
    assert sink.total.total_tokens == 4 * 30  # two were committed before it was created


def test_errors_of_the_provider_are_refunded(tmp_path: Path) -> None:
    made: list[int] = []

    def answer(_request: Any) -> AgentReply:
        made.append(1)
        if len(made) % 2:
            raise TransientModelError("busy", retry_after_s=0.0)
        return AgentReply(text="ok", usage=Usage(input_tokens=10, output_tokens=20, calls=1))

    with runtime(str(tmp_path / "t.db"), FunctionModel(answer, usage=None, profile=PROFILE)) as driver:
        result = driver.run({}, thread="t")

    assert result.state.said == ["1000", "940", "880"]
