"""Programs of Lár can import from its modules, and format their logs."""

from __future__ import annotations

import importlib
from io import StringIO

import pytest

from graphrt.compat import lar

from .support import asking, model, run

MODULES = {
    "adaptive": ["AdaptiveNode", "DynamicNode", "TopologyValidator"],
    "dynamic": ["DynamicNode", "TopologyValidator"],
    "executor": ["GraphExecutor"],
    "formatter": ["build_log_table", "summarize_diff"],
    "logger": ["AuditLogger"],
    "node": [
        "BaseNode",
        "LLMNode",
        "RouterNode",
        "ToolNode",
        "ClearErrorNode",
        "AddValueNode",
        "HumanJuryNode",
        "node",
    ],
    "state": ["GraphState"],
    "tracker": ["TokenTracker"],
}


@pytest.mark.parametrize("module", MODULES)
def test_modules_of_lar_have_its_names(module: str) -> None:
    found = importlib.import_module(f"graphrt.compat.lar.{module}")

    for name in MODULES[module]:
        assert getattr(found, name) is getattr(lar, name)
        assert name in found.__all__


def test_decorator_and_the_module_of_the_same_name_are_both_available() -> None:
    assert callable(lar.node)
    assert importlib.import_module("graphrt.compat.lar.node").node is lar.node
    assert lar.__version__ == "2.1.0"


def test_diffs_and_logs_have_a_readable_form() -> None:
    from rich.console import Console

    records = run(asking("[b]{t}[/b]", "a"), {"t": "[tea]"}, model=model()).records
    out = StringIO()
    Console(file=out, width=100).print(lar.build_log_table(records))

    assert lar.summarize_diff(records[0]["state_diff"]) == "Added: a"
    assert lar.summarize_diff({"added": {}, "modified": {"a": 1}, "removed": {"b": 2}}) == "Updated: a; Removed: b"
    assert lar.summarize_diff({}) == "No state change"
    assert "LLMNode" in out.getvalue()
    assert "Added: a" in out.getvalue()
    assert out.getvalue().count("43") == 2
