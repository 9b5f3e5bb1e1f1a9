"""The explorers have no findings in graphrt's examples, nor in the rewritten ones of LangGraph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import pytest
from examples.audit import policy
from examples.audit.graph import GRAPH as AUDIT
from examples.audit.offline import OfflineReader
from examples.research_map_reduce import graph as research
from examples.research_map_reduce import offline as research_models
from examples.support_triage import graph as triage
from examples.support_triage import offline as triage_models
from examples.ticket_router import graph as router
from tests.testing.langgraph_examples import EXAMPLES, Example

from examples import approval, chat_agent, durable, map_reduce, quickstart, sse
from graphrt.graph import CompiledGraph
from graphrt.harness import AgentReply, AgentRequest, FunctionModel, Prompt, RunOptions, Usage
from graphrt.testing import explore_crashes, explore_forks, explore_schedules

pytestmark = pytest.mark.slow
SEEDS = 60 if os.environ.get("GRAPHRT_FULL") == "1" else 10
"""Orders of a graph; `test_schedules.py` shows that a planted bug is found within a few."""


class Echo:
    """A harness that answers the same call with the same text each time."""

    name = "echo"

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        text = AgentRequest.build(prompt, options).text
        return AgentReply(text=text, usage=Usage(input_tokens=1, output_tokens=1, calls=1), model=self.name)


class Shop:
    """The outside world of the ticket router."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, float]] = []

    def amount_of(self, order: str) -> float | None:
        return 20.0 if order else None

    def pay_back(self, order: str, amount: float) -> str:
        self.paid.append((order, amount))
        return f"receipt of {order}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """An example of graphrt, and the way to run it."""

    graph: CompiledGraph[Any, Any]
    input: Any
    options: Callable[[], Mapping[str, Any]] = dict
    answers: Sequence[Any] = ()
    once: Callable[[Any], Iterable[Any]] | None = None


def folder(place: Path) -> str:
    """An environment with two distributions, one of them without a licence in its metadata."""
    for name, licence in (("clear", "License-Expression: MIT\n"), ("doubtful", "")):
        info = place / f"{name}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{licence}")
        (info / "RECORD").write_text("")
    return str(place)


CASES: dict[str, Case] = {
    "quickstart": Case(
        graph=quickstart.graph, input={"question": "why the sky is blue"}, options=lambda: {"harness": Echo()}
    ),
    "map_reduce": Case(graph=map_reduce.graph, input={"book": map_reduce.BOOK}),
    "approval": Case(
        graph=approval.graph,
        input={"topic": "graphs"},
        answers=[{"approved": False, "remark": "shorter"}, {"approved": True, "remark": "fine"}],
    ),
    "durable": Case(graph=durable.graph, input={}, options=lambda: {"deps": "second"}),
    "sse": Case(graph=sse.graph, input={"topic": "tea"}, answers=[True]),
    "chat_agent": Case(
        graph=chat_agent.graph,
        input=chat_agent.said("Order 2 teapots, please."),
        options=lambda: {"deps": chat_agent.Shop(), "models": {"clerk": FunctionModel(chat_agent.offline)}},
        answers=[True],
        once=lambda shop: shop.orders,
    ),
    "support_triage": Case(
        graph=triage.graph,
        input={"number": 7, "customer": "ann@example.org", "ticket": "You charged me twice!"},
        options=lambda: {"deps": triage.Desk(), "models": triage_models.offline()},
        answers=[{"do": "rewrite", "text": "shorter"}, {"do": "send"}],
        once=lambda desk: desk.sent,
    ),
    "research_map_reduce": Case(
        graph=research.graph,
        input={"topic": "tea and coffee"},
        options=lambda: {"models": research_models.offline()},
    ),
    "ticket_router": Case(
        graph=router.graph,
        input={"text": "I want a refund.", "order": "17"},
        options=lambda: {"deps": Shop()},
        once=lambda shop: shop.paid,
    ),
    "audit": Case(
        graph=AUDIT,
        input={"sites": [], "policy": policy.PRESETS["permissive"], "reviewer": "person"},
        options=lambda: {"harness": OfflineReader()},
        answers=lambda _: {"accept": True, "reason": "known"},  # type: ignore[arg-type]
    ),
}


@pytest.fixture
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    case = CASES[request.param]
    if request.param == "audit":
        case.input["sites"] = [folder(tmp_path)]
    return case


@pytest.mark.parametrize("given", CASES, indirect=True)
def test_no_order_changes_the_result_of_an_example(given: Case) -> None:
    made = explore_schedules(given.graph, given.input, options=given.options, answers=given.answers, seeds=SEEDS)
    assert made.check().tried >= 2


LONG = {"audit", "support_triage", "research_map_reduce", "approval"}
"""Examples of dozens of cases, each of which runs many nodes: their crashes and forks are explored in full runs."""


@pytest.mark.parametrize(
    "given", [pytest.param(one, marks=pytest.mark.full if one in LONG else ()) for one in CASES], indirect=True
)
def test_no_disturbance_changes_the_result_of_an_example(given: Case) -> None:
    made = explore_crashes(given.graph, given.input, options=given.options, answers=given.answers, once=given.once)
    assert made.check().tried > 10
    explore_forks(given.graph, given.input, options=given.options, answers=given.answers).check()


@pytest.mark.parametrize("given", ["map_reduce", pytest.param("chat_agent", marks=pytest.mark.full)], indirect=True)
def test_no_torn_write_changes_the_result_of_an_example(given: Case) -> None:
    made = explore_crashes(
        given.graph, given.input, options=given.options, answers=given.answers, once=given.once, store="sqlite:"
    )
    assert made.check().left_out == ()


SAMPLE = {"branching", "map-reduce", "react"}
"""Examples that are explored in each run of the tests, for edges, Sends and tools; a search in full takes all."""


@pytest.mark.parametrize(
    "example",
    [pytest.param(one, id=str(one), marks=() if str(one) in SAMPLE else pytest.mark.full) for one in EXAMPLES],
)
def test_examples_of_langgraph_have_no_findings(example: Example) -> None:
    given: dict[str, Any] = {"options": example.options, "answers": list(example.answers)}
    explore_schedules(example.graph, example.input, **given, seeds=SEEDS).check()
    explore_crashes(example.graph(), example.input, **given).check()
    explore_forks(example.graph(), example.input, **given).check()
