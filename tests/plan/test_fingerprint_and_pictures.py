"""The fingerprint changes with the graph; topology and pictures are valid with any names."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import graphrt
from graphrt import END, START, Context, GraphBuilder, Limits, RetryPolicy
from graphrt.reducers import add, append, ephemeral, union

HEX = re.compile(r"[0-9a-f]{64}")


class State(BaseModel):
    notes: Annotated[list[str], append] = []
    count: int = 0


class Reduced(BaseModel):
    notes: Annotated[list[str], union] = []
    count: int = 0


class Retyped(BaseModel):
    notes: Annotated[list[str], append] = []
    count: float = 0


class More(State):
    more: int = 0


class Marked(BaseModel):
    notes: Annotated[list[str], append] = []
    count: Annotated[int, ephemeral] = 0


class Summed(BaseModel):
    notes: Annotated[list[str], append] = []
    count: Annotated[int, add] = 0


def work(state): ...


def other(state, ctx: Context):
    return {"count": 3}


async def later(state): ...


def go(state):
    return "b"


def go_elsewhere(state):
    return "b"


def make(
    *,
    state: Any = State,
    name: str = "g",
    nodes: tuple[str, str, str] = ("a", "b", "c"),
    fns: tuple[Any, Any, Any] = (work, work, work),
    policy: dict[str, Any] | None = None,
    routes: Any = None,
    router: Any = go,
    join: dict[str, Any] | None = None,
    limits: Limits | None = None,
    finish: bool = True,
) -> Any:
    """START -> a, then b or c by a router; both into a join at the end."""
    a, b, c = nodes
    builder: Any = GraphBuilder(state, name=name)
    builder.add_node(a, fns[0], **policy or {}).add_node(b, fns[1]).add_node(c, fns[2]).add_node("end", work)
    builder.set_entry(a).add_conditional_edges(a, router, routes or {"b": b, "c": c})
    builder.add_join([b, c], "end", **{"when": "any", **(join or {})})
    if finish:
        builder.set_finish("end")
    return builder.compile(limits=limits, allow=["starving-join", "unreachable-node"])


BASE = make().fingerprint

CHANGES: dict[str, dict[str, Any]] = {
    "the graph's name": {"name": "h"},
    "a node's name": {"nodes": ("a", "b", "d")},
    "the order of nodes": {"nodes": ("b", "a", "c")},
    "a route's label": {"routes": {"b": "b", "d": "c"}},
    "a route's target": {"routes": {"b": "b", "c": END}},
    "the router's name": {"router": go_elsewhere},
    "a join's need": {"join": {"when": "all"}},
    "a join's starved": {"join": {"starved": "run"}},
    "retry": {"policy": {"retry": 3}},
    "a detail of retry": {"policy": {"retry": RetryPolicy(growth=3)}},
    "timeout_s": {"policy": {"timeout_s": 1}},
    "max_visits": {"policy": {"max_visits": 3}},
    "no max_visits": {"policy": {"max_visits": None}},
    "on_error": {"policy": {"on_error": "b"}},
    "on_fatigue": {"policy": {"on_fatigue": "b"}},
    "goto": {"policy": {"goto": ["b"]}},
    "cache": {"policy": {"cache": True}},
    "writes": {"policy": {"writes": ["count"]}},
    "interrupt_before": {"policy": {"interrupt_before": True}},
    "interrupt_after": {"policy": {"interrupt_after": True}},
    "version": {"policy": {"version": "2"}},
    "a field's reducer": {"state": Reduced},
    "a field's type": {"state": Retyped},
    "one field more": {"state": More},
    "a marker": {"state": Marked},
    "another reducer": {"state": Summed},
    "an edge to END": {"finish": False},
}


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprint_changes_with_the_graph(change: str) -> None:
    changed = make(**CHANGES[change]).fingerprint

    assert HEX.fullmatch(changed)
    assert changed != BASE


def test_every_change_has_a_different_fingerprint() -> None:
    assert len({make(**options).fingerprint for options in CHANGES.values()}) == len(CHANGES)


@pytest.mark.parametrize("fn", [other, later, lambda state: {"count": 7}], ids=["context", "async", "lambda"])
def test_fingerprint_does_not_change_with_a_body(fn: Any) -> None:
    assert make(fns=(fn, work, fn)).fingerprint == BASE
    assert make().with_nodes({"b": fn}).fingerprint == BASE


def test_nested_graph_is_part_of_the_fingerprint() -> None:
    def nested(version: str | None, fn: Any = work) -> str:
        child = GraphBuilder(State, name="child").add_node("x", fn, version=version).set_entry("x").compile()
        return make(fns=(child, work, work)).fingerprint

    assert nested(None) == nested(None, later)
    assert len({nested(None), nested("1"), nested("2"), BASE}) == 4


SCRIPT = """
import enum
from typing import Annotated, Literal
from pydantic import BaseModel
from graphrt import END, START, GraphBuilder, RetryPolicy
from graphrt.reducers import append
class Kind(enum.Enum):
    A = 1
    B = 2
class State(BaseModel):
    notes: Annotated[list[str], append] = []
    tags: set[str] = {"x", "y", "z"}
    kind: Literal["p", "q"] | Kind | None = None
def work(state): ...
def go(state): return Kind.A
names = [f"n{n}" for n in range(9)]
g = GraphBuilder(State, name="g")
for name in names:
    g.add_node(name, work, goto=[*reversed(names), END], writes=["tags", "notes"], on_error="n1",
               retry=RetryPolicy(retry_on=(ValueError, KeyError)))
g.add_edge(START, "n0").add_join(names[:5], "n8", when=2).add_conditional_edges("n0", go, {Kind.A: "n1", Kind.B: END})
graph = g.compile(allow=["write-conflict", "starving-join", "unreachable-node", "endless-loop", "no-way-out"])
print(graph.fingerprint, graph.to_json(), graph.to_mermaid(), graph.to_dot())
"""


def run_script(seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(graphrt.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, check=True, timeout=60)
    return done.stdout.decode()


@pytest.mark.slow
def test_fingerprint_is_the_same_in_any_process() -> None:
    one, two = run_script("1"), run_script("31337")

    assert one == two
    assert HEX.fullmatch(one.split()[0])


# -- topology and pictures -------------------------------------------------------------------------------------------

HOSTILE = [
    'say "hi"',
    "it's",
    "two\nlines",
    "cr\rlf\r\n",
    "tab\there",
    "🦜 parrot",
    "a --> b",
    "a -->|x| b",
    "x]",
    'x"]',
    "[x](y){z}",
    "end",
    "subgraph",
    "n0",
    "s",
    "e",
    "%% comment",
    "a;b",
    "back\\slash",
    'quote\\"',
    "\\",
    "#quot;",
    "<b>&amp;</b>",
    "`code`",
    "\x00nul",
    "\x1b[31m",
    "line\u2028sep",
    "\u202eright to left",
    "// x",
    "${x}",
    "click n0 call x()",
]


def hostile_graph(name: str) -> Any:
    builder: Any = GraphBuilder(State, name=name)
    builder.add_node(name, work).add_node("next", work, on_error=name, goto=[name, END]).set_entry(name)
    builder.add_conditional_edges(name, go, {name: "next", "b": END}, default="next")
    return builder.compile()


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_topology_survives_json(name: str) -> None:
    graph = hostile_graph(name)
    data = graph.topology()

    assert json.loads(graph.to_json()) == data
    assert json.loads(json.dumps(data)) == data
    assert [node["name"] for node in data["nodes"]] == [name, "next"]
    assert data["name"] == name
    assert {"from": name, "to": "next", "kind": "conditional", "branch": 0, "router": "go", "label": name} in data[
        "edges"
    ]


LABEL = r'"[^"\n\r\[\]{}()<>|`\\&]*"'
"""Inside quotes no character that could end or change the label; `<br/>` was removed before."""
MERMAID = re.compile(
    rf"flowchart TD|    s\(\[START\]\)|    e\(\[END\]\)|    n\d+\[{LABEL}\]|    n\d+\[\[{LABEL}\]\]"
    rf"|    (s|n\d+) (-->|-->\|{LABEL}\||-\.->\|{LABEL}\|) (e|n\d+)"
)


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_mermaid_text_is_valid(name: str) -> None:
    text = hostile_graph(name).to_mermaid()

    lines = text.replace("<br/>", " ").split("\n")
    assert lines.pop() == ""
    assert [line for line in lines if not MERMAID.fullmatch(line)] == []
    assert len(lines) == 1 + 4 + 1 + 3 + 3
    assert all(ord(char) >= 32 or char == "\n" for char in text)


QUOTED = r'"(?:[^"\\\n\r]|\\.)*"'
DOT = re.compile(
    rf"digraph {QUOTED} \{{|    rankdir=TB;|    node \[shape=box\];|    (s|e|n\d+) \[label={QUOTED}(, \w+=\w+)*\];"
    rf"|    (s|n\d+) -> (e|n\d+)( \[label={QUOTED}(, \w+=\w+)*\])?;|\}}"
)


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_dot_text_is_valid(name: str) -> None:
    text = hostile_graph(name).to_dot()

    lines = text.split("\n")
    assert lines.pop() == ""
    assert [line for line in lines if not DOT.fullmatch(line)] == []
    assert "\0" not in text


def test_every_node_and_edge_is_drawn() -> None:
    graph = make(policy={"on_error": "c", "goto": ["b"]})
    edges = len(graph.topology()["edges"])

    assert len(re.findall(r"^    \S+ -\.?->", graph.to_mermaid(), re.MULTILINE)) == edges
    assert graph.to_dot().count(" -> ") == edges


def test_topology_is_a_fresh_copy() -> None:
    graph = make()
    graph.topology()["nodes"].clear()

    assert len(graph.topology()["nodes"]) == 4
    assert graph.topology()["edges"][0] == {"from": "START", "to": "a", "kind": "static"}
    assert START is not END
