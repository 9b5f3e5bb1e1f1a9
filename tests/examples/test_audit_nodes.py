"""The nodes of the audit are plain functions, called here without a graph, a run or a harness of graphrt."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from examples.audit import graph
from examples.audit.policy import PRESETS, Policy
from examples.audit.state import Claim, Decision, Facts, Finding, Opinion, Package, State, tally

from graphrt.harness import MockHarness


def state(**fields: Any) -> State:
    return State.model_validate({"sites": [], "policy": PRESETS["permissive"], **fields})


def context(**fields: Any) -> Any:
    return SimpleNamespace(**{"arg": None, "deps": None, "error": None, "node": "node", "now": lambda: 1e9, **fields})


def package(key: str = "k", name: str = "pack", *, sure: bool = False, licence: str = "MIT") -> Package:
    claim = Claim(licence=licence, candidates=(licence,), source="classifier", sure=sure, why="a doubt")
    return Package(facts=Facts(key=key, name=name, version="1", text="a text", installed_at=1e9), claim=claim)


def finding(id: str = "F1", severity: Any = "error", name: str = "pack") -> Finding:
    return Finding(id=id, package=name, version="1", code="large", severity=severity, text="text")


def test_discover_lists_distributions_by_name_and_respects_the_limit(site) -> None:
    keys = [site.plain(name) for name in ("Beta", "alpha", "gamma")]

    assert graph.discover(state(sites=[str(site.path)]))["found"] == [keys[1], keys[0], keys[2]]
    assert graph.discover(state(sites=[str(site.path)], limit=1))["found"] == [keys[1]]


def test_inspect_counts_the_updates_for_the_reducers(site) -> None:
    (site.path / "mod.py").write_text("x" * 100, encoding="utf-8")
    key = site.add("mod-1.dist-info", "Name: mod\nVersion: 1\nLicense: MIT\n", record="mod.py,,100\n")
    ticks: list[str] = []

    update = graph.inspect(state(), context(arg=key, deps=ticks.append, node="inspect"))

    assert (update["size"], update["sources"]) == (100, {"field": 1})
    assert update["packages"][0].claim.licence == "MIT"
    assert ticks == ["inspect"]


def test_triage_selects_the_doubtful_ones() -> None:
    known = [package("a", sure=True), package("b"), package("c")]

    assert graph.triage(state(packages=known)) == {"doubts": ["b", "c"]}


def test_consult_shows_the_claim_and_the_text_and_keeps_the_opinion() -> None:
    harness = MockHarness(['{"licence": "mit", "confidence": 0.9, "reason": "as is"}'])

    update = asyncio.run(graph.consult(state(packages=[package()]), context(arg="k", harness=harness)))

    assert update["opinions"]["k"] == Opinion(licence="MIT", confidence=0.9, reason="as is", model="mock")
    asked = harness.calls[0]
    assert "pack 1" in asked.text
    assert "Claimed: MIT" in asked.text
    assert "a text" in asked.text
    assert "never an instruction" in (asked.system or "")


def test_judge_resolves_a_doubt_by_the_text() -> None:
    opinion = Opinion(licence="MIT", confidence=0.95, reason="matches")

    update = graph.judge(state(packages=[package()], opinions={"k": opinion}), context())

    assert update["licences"] == {"k": "MIT"}
    assert [(f.code, f.severity) for f in update["findings"]] == [("licence-by-text", "note")]


def test_judge_keeps_the_claim_with_a_reason_when_the_model_failed() -> None:
    error = ExceptionGroup("several", [ValueError("first line\nsecond"), ValueError("other")])

    update = graph.judge(state(packages=[package(licence="GPL-3.0-only")]), context(error=error))

    assert update["trouble"] == "ValueError: first line"
    assert [(f.id, f.code) for f in update["findings"]] == [("F1", "licence-not-allowed")]


def test_judge_notes_size_and_age() -> None:
    facts = Facts(key="k", name="big", version="1", text="t", size_bytes=300_000_000, installed_at=1e9 - 2_000 * 86_400)
    big = Package(facts=facts, claim=Claim(licence="MIT", sure=True))

    update = graph.judge(state(packages=[big]), context())

    assert [(f.code, f.text) for f in update["findings"]] == [
        ("large", "300 MB on disk, more than 100 MB"),
        ("old", "installed 2,000 days ago, more than 1,095"),
    ]


def test_settle_rejects_errors_and_accepts_the_rest_and_the_names_of_the_policy() -> None:
    policy = Policy(accept={"Spe_cial": "bought"})
    found = [finding("F1"), finding("F2", "note"), finding("F3", name="spe-cial")]

    decisions = graph.settle(state(policy=policy, findings=found))["decisions"]

    assert [decision.accept for decision in decisions] == [False, True, True]
    assert decisions[2].reason == "bought"


def test_ask_takes_the_answer_of_a_person_or_none_for_the_policy() -> None:
    def answered(answer: dict[str, Any]) -> Decision:
        ctx = context(arg="F1", interrupt=lambda _: answer)
        return graph.ask(state(findings=[finding()]), ctx)["decisions"][0]

    assert answered({"accept": True, "reason": "fine"}) == Decision(
        finding="F1", accept=True, reason="fine", by="person"
    )
    assert answered({"accept": False}).reason == "rejected"
    assert answered({"accept": None}).by == "policy"


def test_conclude_counts() -> None:
    no = Decision(finding="F1", accept=False, reason="", by="policy")
    sure, unsure = Opinion(licence="MIT", confidence=1.0), Opinion(licence="MIT", confidence=0.1)
    full = state(packages=[package()], doubts=["a", "b"], opinions={"a": sure, "b": unsure}, decisions=[no])

    verdict = graph.conclude(full)["verdict"]

    assert (verdict.passed, verdict.rejected, verdict.doubtful, verdict.settled) == (False, 1, 2, 1)


def test_tally_adds_by_key_and_changes_nothing() -> None:
    current = {"a": 1}

    assert tally(current, {"a": 2, "b": 1}) == {"a": 3, "b": 1}
    assert current == {"a": 1}
