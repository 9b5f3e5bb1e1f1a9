"""The graph of the runbook: ready-made nodes, and one node whose graph is designed during the run.

```text
   gather (batch: metrics, logs, deploys) -> compress (reduce) -> assess (llm) -> by severity
        page ──> remedy (adaptive: a plan of allowed steps, which only prepares) -> decide (human)
                   └─ refused designs -> escalate                                    ├─ approve, edit ─> carry_out -> tell
        note ─────────────────────────────────────────────────────────────────────> tell
```
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, RetryPolicy
from graphrt.nodes import TopologyValidator, adaptive, batch, human, llm, record_error, reduce, registry, router
from graphrt.reducers import append


class Assessment(BaseModel):
    """The model's assessment of the evidence."""

    severity: Literal["page", "note"]
    cause: str


class State(BaseModel):
    """An incident in progress."""

    alert: str
    service: str
    metrics: str = ""
    logs: str = ""
    deploys: str = ""
    summary: str = ""
    assessment: Assessment | None = None
    steps: Annotated[list[str], append] = []
    plan: dict[str, Any] = {}
    choice: str = ""
    decision: dict[str, Any] = {}
    done: Annotated[list[str], append] = []
    report: str = ""
    error: dict[str, Any] | None = None


class Update(TypedDict, total=False):
    """The fields that nodes write."""

    metrics: str
    logs: str
    deploys: str
    summary: str
    assessment: Assessment
    steps: list[str]
    plan: dict[str, Any]
    choice: str
    decision: dict[str, Any]
    done: list[str]
    report: str
    error: dict[str, Any] | None


class Site:
    """The outside world. Steps that change it run once, after the approval of a person."""

    def __init__(self) -> None:
        self.changed: list[str] = []

    def metrics(self, service: str) -> str:
        """Read the metrics of a service."""
        return f"{service}: 41 % of requests fail since 10:02; memory is flat\n" + "cpu 12 %\n" * 40

    def logs(self, service: str) -> str:
        """Read the log of a service."""
        return f"{service}: 'connection pool exhausted' 900 times since 10:02\n" + "GET /health 200\n" * 40

    def deploys(self, service: str) -> str:
        """List the newest releases of a service."""
        return f"{service}: release 51 at 10:00 sets pool_size from 40 to 4\n" + "release 50 on Monday\n" * 10

    def change(self, step: str) -> str:
        """Perform a change."""
        self.changed.append(step)
        return f"done: {step}"


def metrics(state: State, ctx: Context[Site]) -> Update:
    return {"metrics": ctx.deps.metrics(state.service)}


def logs(state: State, ctx: Context[Site]) -> Update:
    return {"logs": ctx.deps.logs(state.service)}


def deploys(state: State, ctx: Context[Site]) -> Update:
    return {"deploys": ctx.deps.deploys(state.service)}


def roll_back(service: str) -> str:
    """Plan to put the last release of a service back."""
    return f"roll back {service}"


def restart(service: str) -> str:
    """Plan to restart a service."""
    return f"restart {service}"


def drop_database(service: str) -> str:
    """Plan to drop the database of a service. No plan may contain it."""
    return f"drop the database of {service}"


parts = registry(tools=[roll_back, restart, drop_database])
rules = TopologyValidator(
    kinds=["tool"],
    tools=["roll_back", "restart"],
    reads=["alert", "service"],
    writes=["steps"],
    max_nodes=4,
    max_steps=6,
)
"""The validator of plans: a few steps, each of which only describes its change."""

g = GraphBuilder(State, Update, name="runbook")
gather = batch(State, {"metrics": metrics, "logs": logs, "deploys": deploys}, retry=RetryPolicy(attempts=3))
g.add_node("gather", gather, writes=("metrics", "logs", "deploys"))
g.add_node(
    "compress",
    reduce(
        ["metrics", "logs", "deploys"],
        into="summary",
        prompt="In three sentences, what happened?\n{metrics}\n{logs}\n{deploys}",
        name="summarizer",
        model="openai/gpt-4o-mini",
    ),
)
g.add_node(
    "assess",
    llm(
        "Alert: {alert}\nEvidence: {summary}\nIs a person to be woken (page), and what is the cause?",
        into="assessment",
        output=Assessment,
        name="assessor",
        model="openai/gpt-4o-mini",
    ),
)
remedy = adaptive(
    State,
    "Plan the repair of {service}.",
    registry=parts,
    validator=rules,
    record="plan",
    name="planner",
    model="openai/gpt-4o-mini",
)
g.add_node("remedy", remedy, on_error="escalate")
g.add_node("escalate", record_error())
g.add_node(
    "decide",
    human(
        "{alert}: carry out {steps}?",
        into="choice",
        choices=("approve", "reject"),
        record="decision",
        show=["summary", "steps"],
        roles=["operator"],
        rationale=True,
    ),
)


@g.node
def carry_out(state: State, ctx: Context[Site]) -> Update:
    return {"done": [ctx.effect(step, ctx.deps.change, step, kind="once") for step in state.steps]}


@g.node
def tell(state: State) -> Update:
    cause = state.assessment.cause if state.assessment else "unknown"
    lines = [f"{state.service}: {state.alert}", f"cause: {cause}"]
    if state.decision:
        lines.append(f"{state.choice} by {state.decision['by']}: {state.decision['rationale']}")
    if state.error:
        lines.append("no plan was safe; a person has to look")
    return {"report": "\n".join([*lines, *state.done])}


def urgent(state: State) -> Literal["page", "note"]:
    return state.assessment.severity if state.assessment else "page"


g.add_sequence([START, "gather", "compress", "assess"])
g.add_conditional_edges("assess", *router(urgent, {"page": "remedy", "note": "tell"}))
g.add_edge("remedy", "decide")
g.add_conditional_edges("decide", *router("choice", {"approve": "carry_out", "reject": "tell"}))
g.add_edge("carry_out", "tell").add_edge("escalate", "tell").add_edge("tell", END)
graph = g.compile()
