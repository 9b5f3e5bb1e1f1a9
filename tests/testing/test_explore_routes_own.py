"""graphrt's own examples have no findings under `explore_routes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from examples.audit.graph import GRAPH as AUDIT
from examples.audit.policy import Policy
from examples.research_map_reduce.graph import graph as research
from examples.support_triage.graph import Desk
from examples.support_triage.graph import graph as support
from examples.ticket_router.graph import graph as tickets

from examples import approval, chat_agent, durable, map_reduce, quickstart, sse
from graphrt import START
from graphrt.harness import ModelRequest, ToolCall
from graphrt.testing import explore_routes

VERDICTS: Final = [{"do": "send"}, {"do": "rewrite", "text": "shorter"}, {"do": "drop"}]


class Shop:
    def amount_of(self, order: str) -> float | None:
        return {"small": 5.0, "large": 500.0}.get(order)

    def pay_back(self, order: str, amount: float) -> str:
        return f"{order} {amount}"


def calls(name: str, arguments: Mapping[str, Any]) -> Callable[[ModelRequest], Any]:
    """Reply with a tool call to the user's message, and with a text to the tool's result."""

    def reply(request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            return "Done."
        return ToolCall(id=f"c{len(request.messages)}", name=name, arguments=dict(arguments))

    return reply


def triage(topic: str, *, angry: bool = False) -> dict[str, Any]:
    return {"topic": topic, "angry": angry}


LETTERS = [{"approved": True, "remark": "fine"}, {"approved": False, "remark": "shorter"}]
TEXTS = ("Refund, please", "There is an outage", "How do I export?", "How do I fly so high?", "unsubscribe", "Hello")
TICKETS = [
    {"text": text, "customer": customer, "order": order}
    for text in TEXTS
    for customer in ("free", "pro")
    for order in ("", "small", "large", "none")
]
FINDINGS = [{"text": "A leaf.", "sources": ["plants"]}, {"text": "Nothing.", "sources": []}]
OPINIONS = ['{"licence": "MIT", "confidence": 0.9, "reason": "the text"}', "no idea"]

EXPLORED: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "approval": (approval.graph, {"input": {"topic": "tea"}, "alternatives": {}, "answers": LETTERS}),
    "chat": (
        chat_agent.graph,
        {
            "input": chat_agent.said("How many teapots?"),
            "replies": {
                "clerk": ["Hello.", calls("stock", {"item": "teapot"}), calls("order", {"item": "teapot", "count": 2})]
            },
            "answers": [True, False],
            "options": lambda: {"deps": chat_agent.Shop()},
        },
    ),
    "durable": (durable.graph, {"input": {}, "alternatives": {}, "options": lambda: {"deps": "second"}}),
    "map-reduce": (map_reduce.graph, {"alternatives": {START: [{"book": map_reduce.BOOK}, {"book": "A day"}]}}),
    "quickstart": (quickstart.graph, {"input": {"question": "why?"}, "harness": ["a note", ""]}),
    "sse": (sse.graph, {"input": {"topic": "tea"}, "alternatives": {}, "answers": [True, False]}),
    "research": (
        research,
        {
            "input": {"topic": "tea"},
            "replies": {"planner": [[], ["one?"], ["one?", "two?"]], "researcher": FINDINGS, "writer": ["A report."]},
        },
    ),
    "support": (
        support,
        {
            "input": {"number": 1, "customer": "ann", "ticket": "help"},
            "replies": {
                "classifier": [triage("billing"), triage("technical", angry=True), triage("other")],
                "writer": ["It is paid back.", "Sign in again."],
            },
            "answers": VERDICTS,
            "options": lambda: {"deps": Desk()},
        },
    ),
    "tickets": (tickets, {"alternatives": {START: TICKETS}, "options": lambda: {"deps": Shop()}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPLORED)
def test_own_example_has_no_finding(name: str) -> None:
    graph, given = EXPLORED[name]
    found = explore_routes(graph, given.get("input"), **{key: value for key, value in given.items() if key != "input"})

    found.check()
    assert not [note for note in found.noted if "clock" in note or "random" in note or "thread" in note]


@pytest.mark.slow
@pytest.mark.parametrize("reviewer", ["policy", "person"])
def test_audit_of_a_planted_environment_has_no_finding(tmp_path: Path, reviewer: str) -> None:
    for name, licence in (("plain", "MIT"), ("odd", "see the file")):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nLicense: {licence}\n"
        (folder / "METADATA").write_text(text, encoding="utf-8")
        (folder / "RECORD").write_text("", encoding="utf-8")
    given = {"sites": [str(tmp_path)], "policy": Policy(), "reviewer": reviewer}
    found = explore_routes(
        AUDIT, given, harness=OPINIONS, answers=[{"accept": True}, {"accept": False, "reason": "no"}, {}]
    )

    found.check()


@pytest.mark.parametrize(
    ("graph", "input"),
    [
        (approval.graph, {"topic": "tea"}),
        (map_reduce.graph, {"book": map_reduce.BOOK}),
        (quickstart.graph, {"question": "why?"}),
        (research, {"topic": "tea"}),
        (support, {"number": 1, "customer": "ann", "ticket": "help"}),
        (tickets, {"text": "Hello"}),
        (AUDIT, {"sites": [], "policy": Policy()}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_labels_alone_of_an_own_example_have_no_finding(graph: Any, input: Any) -> None:
    explore_routes(graph, input).check()
