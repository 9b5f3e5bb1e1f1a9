"""A program that designs and runs a graph on a thread, and can kill itself in the middle.

It is run by `test_adaptive_killed`. Each payment and each effect is a line in a file.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.nodes.designs import State, chain, look, node, write

from graphrt import START, CompiledGraph, GraphBuilder, Runtime
from graphrt.harness import FunctionModel
from graphrt.nodes import TopologyValidator, adaptive, registry

FOLDER = Path(os.environ["DESIGNS"])


def paid(text: str) -> None:
    with (FOLDER / "paid.txt").open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def times(text: str) -> int:
    path = FOLDER / "paid.txt"
    return path.read_text(encoding="utf-8").splitlines().count(text) if path.exists() else 0


def designing(request: Any) -> str:
    """A model that returns another design each time."""
    paid("design")
    number = times("design")
    return json.dumps(
        chain(look("first"), write("think"), node("die", "function", function="die"), look(f"idea{number}"))
    )


def thinking(request: Any) -> str:
    paid("think")
    return f"thought {times('think')}"


def fetch(topic: str) -> str:
    paid("fetch")
    return f"about {topic}"


def die(state: State) -> dict[str, Any]:
    if os.environ["DEADLY"] == "design" and times("dead") < 1:
        paid("dead")
        os.kill(os.getpid(), signal.SIGKILL)
    return {"notes": ["alive"]}


def graph() -> CompiledGraph[State, Any]:
    known = registry(
        tools=[fetch], functions=[die], models={"cheap": FunctionModel(thinking), "designer": FunctionModel(designing)}
    )
    rules = TopologyValidator(
        kinds=["tool", "llm", "function"], tools=["fetch"], functions=["die"], models=["cheap"], reads=["topic"],
        writes=["notes", "answer"],
    )  # fmt: skip
    g = GraphBuilder(State, name="outer")
    made = adaptive(
        State, "Plan {topic}.", registry=known, validator=rules, record="plan", model=FunctionModel(designing)
    )
    g.add_node("do", made).add_edge(START, "do")
    return g.compile()


def main() -> None:
    with Runtime(graph(), store=f"sqlite:///{FOLDER / 'runs.db'}", lease_s=1) as runtime:
        known = [info.thread for info in runtime.threads()]
        done = runtime.retry("t") if "t" in known else runtime.run({}, thread="t")
        names = [node["name"] for node in done.state.plan["design"]["nodes"]]
        told = {"status": done.status, "notes": done.state.notes, "answer": done.state.answer, "nodes": names}
        (FOLDER / "told.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
