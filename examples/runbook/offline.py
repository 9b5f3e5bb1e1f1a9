"""Models that replace a provider's: the program runs without a key, and the tests without a network."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from graphrt.harness import ChatModel, FunctionModel, ModelRequest


def summarize(request: ModelRequest) -> str:
    """Stands for a model that summarises: it keeps unusual lines."""
    found = [line for line in request.text.splitlines() if "10:0" in line]
    return " ".join(found)


def assess(request: ModelRequest) -> dict[str, Any]:
    """Stands for a model that assesses the evidence."""
    if "pool_size" in request.text:
        return {"severity": "page", "cause": "release 51 made the connection pool too small"}
    return {"severity": "note", "cause": "nothing unusual"}


def design(tools: list[str]) -> str:
    """A graph of one node for each tool, one after another."""
    nodes = [
        {"name": f"step{at}", "kind": "tool", "function": tool, "inputs": ["service"], "into": "steps", "as_list": True}
        for at, tool in enumerate(tools)
    ]
    names = ["START", *(node["name"] for node in nodes), "END"]
    edges = [{"from": one, "to": other} for one, other in pairwise(names)]
    return json.dumps({"nodes": nodes, "edges": edges})


def plan(request: ModelRequest) -> str:
    """Stands for a model that plans: first with a dangerous step, which it drops after a refusal."""
    refused = "drop_database" in request.text
    return design(["roll_back", "restart"] if refused else ["roll_back", "drop_database"])


def offline() -> dict[str, ChatModel]:
    return {
        "summarizer": FunctionModel(summarize),
        "assessor": FunctionModel(assess),
        "planner": FunctionModel(plan),
    }
