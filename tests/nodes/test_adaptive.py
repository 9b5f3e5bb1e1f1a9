"""Adaptive nodes: graphs are designed, validated, run, refused and resumed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from graphrt import START, GraphBuilder, MockHarness, NodeError, Runtime
from graphrt.errors import DefinitionError, InputError
from graphrt.events import EffectRecorded, TaskSucceeded
from graphrt.harness import Budget
from graphrt.nodes import DesignRequest, TopologyValidator, adaptive, registry_of
from graphrt.stores import MemoryStore
from graphrt.testing import explore_crashes

from .designs import DESIGN, PARTS, State, always, chain, graph, look, node, validator, write

BAD = chain(look(function="remove"), write(prompt="{topic.upper}"))


def asked(*script: Any) -> MockHarness:
    return MockHarness(list(script))


def test_function_designs_the_graph_that_runs() -> None:
    state = graph(always(DESIGN)).run({}).state

    assert (state.notes, state.answer, state.error) == (["about tea"], "cheap answer", None)


@pytest.mark.parametrize("form", [json.dumps(DESIGN), json.dumps(DESIGN).encode(), DESIGN])
def test_a_design_may_be_text_or_data(form: Any) -> None:
    assert graph(always(form)).run({}).state.answer == "cheap answer"


def test_a_designer_may_be_async() -> None:
    async def designer(state: State, request: DesignRequest) -> Any:
        return DESIGN

    assert graph(designer).run({}).state.answer == "cheap answer"
    assert asyncio.run(graph(designer).arun({})).state.answer == "cheap answer"


def test_model_designs_the_graph_with_the_schema_of_the_allowed_parts() -> None:
    harness = asked(json.dumps(DESIGN))

    state = graph("Find out about {topic}.").run({}, harness=harness).state

    assert state.answer == "cheap answer"
    asked_for = harness.calls[0]
    assert asked_for.text.startswith("Find out about tea.")
    assert "tool fetch(topic): Fetch a page about a topic." in asked_for.text
    assert "remove" not in asked_for.text
    assert "dear" not in asked_for.text


def test_refused_design_is_returned_with_all_reasons() -> None:
    harness = asked(json.dumps(BAD), "no JSON {", json.dumps(DESIGN))

    result = graph("Find out about {topic}.").run({}, harness=harness)

    assert result.state.answer == "cheap answer"
    second = harness.calls[1].text
    assert "nodes[0].function: The registry has no tools named 'remove'" in second
    assert "nodes[1].prompt: The template has '{topic.upper}'" in second
    assert '"remove"' in second
    assert "JSON" in harness.calls[2].text


def test_function_receives_the_reasons_of_the_refusal() -> None:
    requests: list[DesignRequest] = []

    def designer(state: State, request: DesignRequest) -> Any:
        requests.append(request)
        return BAD if request.attempt < 3 else DESIGN

    assert graph(designer).run({}).state.answer == "cheap answer"
    assert [request.attempt for request in requests] == [1, 2, 3]
    assert requests[0].problems == ()
    assert [problem.where for problem in requests[1].problems] == ["nodes[0].function", "nodes[1].prompt"]
    assert list(requests[0].registry.section("tools")) == ["fetch"]


def test_designer_that_never_returns_a_valid_graph_is_a_routable_error_with_all_reasons() -> None:
    calls: list[int] = []

    def designer(state: State, request: DesignRequest) -> Any:
        calls.append(request.attempt)
        return BAD

    error = graph(designer, attempts=2).run({}).state.error

    assert calls == [1, 2]
    assert error is not None
    assert error["code"] == "design-rejected"
    assert "nodes[0].function" in error["message"]
    assert "nodes[1].prompt" in error["message"]


def test_error_has_every_reason_as_data() -> None:
    seen: list[Any] = []
    g = GraphBuilder(State, name="outer")
    g.add_node("do", adaptive(State, always(BAD), registry=PARTS, validator=validator(), attempts=1), on_error="keep")
    g.add_node("keep", lambda _state, ctx: seen.extend([ctx.error, *ctx.failures]))
    g.add_edge(START, "do")

    g.compile().run({})

    error, failure = seen
    assert isinstance(error, NodeError)
    assert error.code == "design-rejected"
    assert [(one["code"], one["where"]) for one in error.values] == [
        ("unknown-part", "nodes[0].function"), ("bad-spec", "nodes[1].prompt")
    ]  # fmt: skip
    assert failure.node == "do"


def test_without_a_route_the_run_fails() -> None:
    g = GraphBuilder(State, name="outer")
    g.add_node("do", adaptive(State, always("nonsense"), registry=PARTS, validator=validator()))
    g.add_edge(START, "do")

    with pytest.raises(NodeError) as failed:
        g.compile().run({})
    assert failed.value.code == "design-rejected"
    assert "3 attempts: [bad-spec-text] The manifest" in failed.value.what


def test_accepted_design_can_be_kept() -> None:
    rules = validator()
    plan = graph(always(DESIGN), rules, record="plan").run({}).state.plan

    assert plan["design"] == DESIGN
    assert plan["validator"] == rules.digest
    assert plan["attempts"] == 1


def test_journal_has_the_design_the_verdicts_and_the_digest_of_the_validator() -> None:
    rules = validator()
    ideas = iter([BAD, DESIGN])
    with Runtime(graph(lambda _s, _r: next(ideas), rules), store="memory:") as runtime:
        runtime.run({}, thread="t")
        entries = list(runtime.entries("t"))

    verdicts = [e.event.result for e in entries if isinstance(e.event, EffectRecorded) and "verdict" in e.event.key]
    assert [(one["attempt"], one["accepted"], len(one["problems"])) for one in verdicts] == [
        (1, False, 2),
        (2, True, 0),
    ]
    assert {one["validator"] for one in verdicts} == {rules.digest}
    assert verdicts[0]["design"] == BAD
    sent = [e.event.sends for e in entries if isinstance(e.event, TaskSucceeded) and e.event.node == "design"]
    assert sent[0][0]["design"] == DESIGN
    assert [e.path for e in entries if isinstance(e.event, TaskSucceeded) and e.event.node == "look"] == [
        "1.0:do/2.0:run"
    ]


def test_design_runs_under_its_own_slice_of_the_budget() -> None:
    greedy = chain(write(max_tokens=90))

    error = graph(always(greedy), validator(budget=Budget(tokens=50))).run({}).state.error

    assert error is not None
    assert error["code"] == "budget-exceeded"
    assert graph(always(greedy), validator(budget=Budget(tokens=5_000))).run({}).state.answer == "cheap answer"


def test_design_runs_under_the_limits_of_the_validator() -> None:
    loop = chain(look())
    loop["edges"] = [{"from": "START", "to": "look"}]
    loop["conditional_edges"] = [
        {"from": "look", "router": "enough", "routes": [{"label": True, "to": "END"}, {"label": False, "to": "look"}]}
    ]

    assert graph(always(loop)).run({}).state.notes == ["about tea"] * 4
    error = graph(always(loop), validator(max_steps=2)).run({}).state.error
    assert error is not None
    assert error["code"] == "node-fatigue"


def test_design_can_read_only_the_allowed_fields() -> None:
    peek = chain(node("spy", "function", function="spy"))

    assert graph(always(peek)).run({"secret": "mine"}).state.notes == ["hidden"]


def test_design_can_write_only_the_allowed_fields() -> None:
    error = graph(always(chain(node("over", "function", function="overreach")))).run({}).state.error

    assert error is not None
    assert error["type"] == "UpdateError"


def test_design_can_ask_a_person() -> None:
    ask = chain(node("ask", "human", question="Publish {topic}?", into="verdict"), write())
    with Runtime(graph(always(ask)), store="memory:") as runtime:
        paused = runtime.run({}, thread="t")
        done = runtime.resume("t", answer={"choice": "approve", "by": "Ann"})

    assert paused.interrupts[0].payload["question"] == "Publish tea?"
    assert (done.state.verdict, done.state.answer) == ("approve", "cheap answer")


def test_designs_may_have_batches_and_nested_graphs() -> None:
    batch = node("all", "batch", work=[node("note", "function", function="note")], over="pages")
    deep = chain(node("inner", "graph", graph=chain(look())), batch)

    assert graph(always(deep)).run({}).state.notes == ["about tea", "note a", "note b"]


def test_adaptive_nodes_in_designs_have_one_level_less() -> None:
    def designer(state: State, request: DesignRequest) -> Any:
        return DESIGN

    inner = node("again", "adaptive", designer={"function": "designer"})
    deep = validator(kinds=["adaptive", "tool", "llm"], functions=["designer"], adaptive_depth=1)
    parts = PARTS.extended(functions=[designer])
    g = GraphBuilder(State, name="outer")
    g.add_node("do", adaptive(State, always(chain(inner)), registry=parts, validator=deep))
    g.add_edge(START, "do")

    assert g.compile().run({}).state.answer == "cheap answer"

    deeper = GraphBuilder(State, name="outer")
    twice = adaptive(State, lambda _s, _r: chain(inner), registry=parts, validator=deep)
    assert twice.run({}).state.answer == "cheap answer"
    deeper.add_node("do", twice)


def test_design_that_is_no_longer_allowed_does_not_continue() -> None:
    ask = chain(node("ask", "human", question="Publish {topic}?", into="verdict"), look())
    store = MemoryStore()
    with Runtime(graph(always(ask)), store=store) as runtime:
        runtime.run({}, thread="t")
        changed = Runtime(graph(always(ask), validator(tools=[])), store=store)
        done = changed.resume("t", answer={"choice": "approve", "by": "Ann"})

    assert done.state.error is not None
    assert done.state.error["code"] == "design-rejected"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"designer": 3}, "designer"),
        ({"designer": always(DESIGN), "model": "x"}, "designer"),
        ({"registry": {}}, "registry"),
        ({"validator": None}, "validator"),
        ({"attempts": 0}, "attempts"),
        ({"validator": TopologyValidator(reads=["topc"])}, "topc"),
        ({"designer": "{topic.x}"}, "topic.x"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"designer": always(DESIGN), "registry": PARTS, "validator": validator(), **change}
    designer = given.pop("designer")

    with pytest.raises(InputError, match=text):
        adaptive(State, designer, **given)


@pytest.mark.parametrize("wrong", [{"designer": "On {topc}."}, {"record": "plna"}])
def test_misspelled_fields_are_refused_before_the_run(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"designer": "On {topic}.", **wrong}

    with pytest.raises(DefinitionError):
        adaptive(State, given.pop("designer"), registry=PARTS, validator=validator(), **given)


def test_required_fields_must_be_readable() -> None:
    from pydantic import BaseModel

    class Strict(BaseModel):
        topic: str
        notes: list[str] = []

    with pytest.raises(InputError, match="requires 'topic'"):
        adaptive(Strict, "x", registry=PARTS, validator=TopologyValidator(writes=["notes"]))


def test_adaptive_node_survives_a_round_trip_through_its_spec() -> None:
    written = graph(
        "Find out about {topic}.", validator(budget=Budget(tokens=99), max_nodes=5), record="plan", model="dear"
    )
    data = written.to_spec().to_data()

    read = GraphBuilder.from_spec(data, registry_of(written)).compile()

    told = data["nodes"][0]
    assert (told["kind"], told["designer"], told["model"]) == ("adaptive", "Find out about {topic}.", "dear")
    assert told["validator"]["max_nodes"] == 5
    assert told["validator"]["budget"]["tokens"] == 99
    assert "max_steps" not in told["validator"]
    assert read.fingerprint == written.fingerprint
    assert read.to_spec().to_data() == data


def test_a_manifest_with_a_wrong_validator_is_refused() -> None:
    data = graph("x").to_spec().to_data()
    data["nodes"][0]["validator"]["max_nodse"] = 3

    with pytest.raises(DefinitionError) as refused:
        GraphBuilder.from_spec(data, PARTS)
    assert [(one.code, one.where) for one in refused.value.problems] == [("input", "nodes[0]")]


@pytest.mark.slow
def test_crash_anywhere_leads_to_the_same_end() -> None:
    ideas = {1: BAD, 2: chain(look(), write(), node("ask", "human", question="{topic}?", into="verdict"), look("end"))}
    made: list[int] = []

    def designer(state: State, request: DesignRequest) -> Any:
        made.append(request.attempt)
        return ideas[request.attempt]

    found = explore_crashes(
        graph(designer),
        {},
        options=lambda: {"check_state": True, "clock": lambda: 0.0},
        answers=[{"choice": "approve", "by": "Ann"}],
    )

    found.check()
    assert found.tried > 40  # a run whose design does not run is much shorter
