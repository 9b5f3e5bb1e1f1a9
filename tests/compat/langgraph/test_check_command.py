"""`graphrt check` of LangGraph graphs: text, JSON and SARIF, exit codes, and files that name graphs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.imports import imports_undone

from graphrt.cli import main
from graphrt.cli.schema import schema_of

FLOW = """
from typing import TypedDict
from graphrt import END, START, GraphBuilder
from graphrt.nodes import llm, registry

class Flow(TypedDict):
    topic: str

flow = GraphBuilder(Flow, name="flow")
flow.add_node("write", llm("Write on {topic}.", into="topic", model="small"))
graph = flow.add_edge(START, "write").add_edge("write", END).compile()
known = registry(models={"small": "small"}, types=[Flow])
"""
AGENT = """
from typing import Literal, TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    topic: str

def plan(state: State):
    raise AssertionError("a node was run")

def pick(state: State) -> Literal["left", "right"]:
    raise AssertionError("a router was run")

def last(state: State):
    return {"topic": 1}

builder = StateGraph(State)
builder.add_node("plan", plan).add_node("left", plan).add_node("right", plan).add_node("last", last)
builder.add_edge(START, "plan")
builder.add_conditional_edges("plan", pick)
builder.add_edge(["left", "right"], "last")
graph = builder.compile(name="research")

def make(config):
    return graph

async def make_later(config):
    return graph

from contextlib import asynccontextmanager

@asynccontextmanager
async def opened():
    yield graph
"""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "agent.py").write_text(AGENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def called(*words: str) -> tuple[int, Any, str]:
        code = main(["check", *words])
        out, err = capsys.readouterr()
        document = json.loads(out) if out.startswith("{") else out
        if "-ojson" in words:
            Draft202012Validator(schema_of("check")).validate(document)
        return code, document, err

    with imports_undone(tmp_path):
        yield called


def problems(document: Any) -> list[dict[str, Any]]:
    return [problem for target in document["result"]["targets"] for problem in target["problems"]]


@pytest.mark.parametrize("name", ["graph", "builder", "make"])
def test_findings_have_lines_reasons_and_fixes(call: Callable[..., Any], name: str) -> None:
    code, document, _ = call(f"app/agent.py:{name}", "-ojson")
    starving, wrong = problems(document)

    assert code == 1
    assert (starving["code"], starving["level"], starving["proved"]) == ("starving-join", "error", True)
    assert (starving["where"], wrong["where"]) == ("app/agent.py:21", "app/agent.py:15")
    assert "LangGraph waits for all sources" in starving["why"]
    assert "defer=True" in starving["hint"]


def test_module_with_one_graph_is_a_sufficient_target(call: Callable[..., Any]) -> None:
    code, out, _ = call("app/agent.py")

    assert code == 1
    assert "research, 4 nodes, 2 findings" in out
    assert "[starving-join] The waiting edge ['left', 'right'] -> 'last' can starve" in out
    assert "Why: LangGraph waits" in " ".join(out.split())


def test_allowed_codes_do_not_fail_the_check(call: Callable[..., Any]) -> None:
    assert call("app/agent.py:graph", "--allow", "starving-join", "--allow", "wrong-type")[0] == 0
    code, _, err = call("app/agent.py:graph", "--allow", "starving-jion")

    assert code == 2
    assert "starving-jion" in err


def test_possible_findings_fail_only_a_strict_check(call: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "app" / "other.py").write_text(
        AGENT.replace('{"topic": 1}', "{}").replace('builder.add_edge(["left", "right"], "last")', ""
        ).replace('builder.add_node("plan", plan)', 'builder.add_edge("last", END).add_edge("left", "last").add_node("plan", plan)'),
        encoding="utf-8",
    )  # fmt: skip

    code, document, _ = call("app/other.py:graph", "-ojson")

    assert [(one["code"], one["proved"]) for one in problems(document)] == [("dead-end", False)]
    assert (code, call("app/other.py:graph", "--strict")[0]) == (0, 1)


@pytest.mark.parametrize("entry", ["./app/agent.py:graph", {"path": "./app/agent.py:graph"}])
def test_langgraph_json_names_the_graphs_to_check(call: Callable[..., Any], tmp_path: Path, entry: Any) -> None:
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"agent": entry}}), encoding="utf-8")

    code, document, _ = call("langgraph.json", "-ojson")

    assert code == 1
    assert document["result"]["targets"][0]["target"] == "app/agent.py:graph"
    assert len(problems(document)) == 2


@pytest.mark.parametrize("name", ["make_later", "opened"])
def test_async_factory_is_awaited(call: Callable[..., Any], name: str) -> None:
    code, document, _ = call(f"app/agent.py:{name}", "-ojson")

    assert (code, len(problems(document))) == (1, 2)


def test_every_target_that_cannot_be_loaded_is_named(call: Callable[..., Any]) -> None:
    code, out, err = call("app/agent.py:nothing", "app/agent.py:neither")

    assert code == 2
    assert "'app/agent.py:nothing'" in err
    assert "'app/agent.py:neither'" in out


def test_manifest_of_graphrt_is_checked(call: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW, encoding="utf-8")
    exec(FLOW, flow := {})
    manifest = flow["graph"].to_spec().to_data()
    (tmp_path / "good.json").write_text(json.dumps(manifest), encoding="utf-8")
    (tmp_path / "bad.json").write_text(json.dumps({**manifest, "nodes": []}), encoding="utf-8")

    code, document, _ = call("good.json", "bad.json", "--registry", "flow.py:known", "-ojson")
    good, bad = document["result"]["targets"]

    assert (code, good["graph"], good["problems"]) == (1, "flow", [])
    assert "unknown-node" in {one["code"] for one in bad["problems"]}


def test_sarif_has_a_rule_and_a_line_for_every_result(call: Callable[..., Any]) -> None:
    code, log, _ = call("app/agent.py:graph", "--sarif")
    (run,) = log["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]

    assert (code, log["version"]) == (1, "2.1.0")
    assert {result["ruleId"] for result in run["results"]} == set(rules)
    assert [place["artifactLocation"]["uri"] for place in places] == ["app/agent.py", "app/agent.py"]
    assert [place["region"]["startLine"] for place in places] == [21, 15]
    assert rules["starving-join"]["defaultConfiguration"]["level"] == "error"


def test_module_without_langgraph_names_the_extra_to_install(
    call: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app" / "agent.py").write_text("import langgraph.graph", encoding="utf-8")
    for name in [one for one in sys.modules if one.partition(".")[0] == "langgraph"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without(), *sys.meta_path])

    code, _, err = call("app/agent.py:graph")

    assert code == 2
    assert 'pip install "graphrt[langgraph]"' in err


class _Without:
    """Finds no LangGraph."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] == "langgraph":
            raise ModuleNotFoundError("No module named 'langgraph'", name="langgraph")
