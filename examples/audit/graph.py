"""The graph of the audit: nodes, routers, edges. Nodes are plain functions; a test may call each of them.

It has no terminal, reads only the audited files, and does not choose a model: its caller provides them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from pydantic import BaseModel

from examples.audit import findings, metadata, questions, rules
from examples.audit.state import Decision, Package, State, Update, Verdict
from graphrt import END, START, Context, GraphBuilder, Limits, RetryPolicy, Send

Tick: TypeAlias = Callable[[str], None]
"""The `deps` of a run: called with a node's name whenever one of its tasks is done."""

g = GraphBuilder(State, Update, name="audit")


class Answer(BaseModel):
    """The answer of a person to a finding; None leaves the decision to the policy."""

    accept: bool | None = None
    reason: str = ""


# -- nodes, in the order in which they run -----------------------------------------------------------------------


@g.node
def discover(state: State) -> Update:
    """Find the metadata folders of the distributions."""
    return {"found": metadata.find(state.sites, most=state.limit)}


@g.node
def inspect(_state: State, ctx: Context[Tick | None]) -> Update:
    """Read one distribution, and classify its licence by rules. One task for each."""
    facts = metadata.read(ctx.arg)
    claim = rules.claim(facts)
    _tick(ctx)
    return {
        "packages": [Package(facts=facts, claim=claim)],
        "size": facts.size_bytes,
        "sources": {claim.source: 1},
    }


@g.node
def triage(state: State) -> Update:
    """Select the licences that the metadata does not settle."""
    return {"doubts": [package.facts.key for package in state.packages if not package.claim.sure]}


@g.node(retry=RetryPolicy(3), on_error="judge")
async def consult(state: State, ctx: Context[Tick | None]) -> Update:
    """Let the model read one doubtful licence. One task for each; a failure does not end the audit."""
    package = state.package(ctx.arg)
    reply = await ctx.harness.run(questions.question(package), system=questions.SYSTEM)
    _tick(ctx)
    return {"opinions": {package.facts.key: questions.opinion(reply)}}


@g.node
def judge(state: State, ctx: Context[Tick | None]) -> Update:
    """Settle the licences, and compare them and everything else with the policy."""
    licences = {p.facts.key: rules.settle(p.claim, state.opinions.get(p.facts.key)) for p in state.packages}
    found = findings.find(
        state.packages,
        licences=licences,
        opinions=state.opinions,
        policy=state.policy,
        now=ctx.now(),
        whole=state.limit is None,
    )
    update: Update = {"licences": licences, "findings": found}
    if ctx.error is not None:
        update["trouble"] = explain(ctx.error)
    return update


@g.node
def settle(state: State) -> Update:
    """Decide all findings by the policy."""
    return {"decisions": [findings.decide(finding, state.policy) for finding in state.findings]}


@g.node
def ask(state: State, ctx: Context[Tick | None]) -> Update:
    """Ask a person about one finding. The run pauses here, and continues with the answer."""
    finding = state.finding(ctx.arg)
    answer = Answer.model_validate(ctx.interrupt(finding.model_dump()))
    if answer.accept is None:
        return {"decisions": [findings.decide(finding, state.policy)]}
    reason = answer.reason or ("accepted" if answer.accept else "rejected")
    return {"decisions": [Decision(finding=finding.id, accept=answer.accept, reason=reason, by="person")]}


@g.node
def conclude(state: State) -> Update:
    """Summarise the audit in numbers."""
    rejected = sum(not decision.accept for decision in state.decisions)
    return {
        "verdict": Verdict(
            passed=rejected == 0,
            distributions=len(state.packages),
            files=sum(package.facts.files for package in state.packages),
            findings=len(state.findings),
            rejected=rejected,
            doubtful=len(state.doubts),
            settled=sum(rules.trusted(opinion) for opinion in state.opinions.values()),
        )
    }


# -- routers -----------------------------------------------------------------------------------------------------


def each_distribution(state: State) -> list[Send] | Literal["nothing"]:
    """One task for every distribution."""
    return [Send(inspect, key) for key in state.found] or "nothing"


def each_doubt(state: State) -> list[Send] | Literal["clear"]:
    """One task for every doubtful licence."""
    return [Send(consult, key) for key in state.doubts] or "clear"


def who_decides(state: State) -> list[Send] | Literal["clean", "policy"]:
    """The policy, or a person: then one task for every finding."""
    if not state.findings:
        return "clean"
    return [Send(ask, finding.id) for finding in state.findings] if state.reviewer == "person" else "policy"


# -- edges -------------------------------------------------------------------------------------------------------

g.add_edge(START, discover)
g.add_conditional_edges(discover, each_distribution, {"each distribution": inspect, "nothing": conclude})
g.add_edge(inspect, triage)
g.add_conditional_edges(triage, each_doubt, {"each doubt": consult, "clear": judge})
g.add_edge(consult, judge)
g.add_conditional_edges(judge, who_decides, {"policy": settle, "person": ask, "clean": conclude})
g.add_edge(settle, conclude)
g.add_edge(ask, conclude)
g.add_edge(conclude, END)
GRAPH = g.compile(limits=Limits(max_concurrency=8))


def explain(error: BaseException) -> str:
    """The first line of an error; for several failures, of the first one."""
    several: tuple[BaseException, ...] = getattr(error, "exceptions", ())  # of an exception group
    first = several[0] if several else error
    cause = first.__cause__ or first
    return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]}"


def _tick(ctx: Context[Tick | None]) -> None:
    if ctx.deps is not None:
        ctx.deps(ctx.node)
