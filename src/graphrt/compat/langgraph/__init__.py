"""LangGraph graphs in graphrt. Needs `graphrt[langgraph]`.

`import graphrt` does not import it.
"""

from __future__ import annotations

from importlib import import_module

from graphrt.errors._codes.arguments import MISSING_PACKAGE

try:
    import_module("langgraph.graph.state")  # imported here, so that a missing package is reported once and clearly
except ModuleNotFoundError as _missing:
    raise MISSING_PACKAGE(
        user="graphrt.compat.langgraph", package=_missing.name, extra="langgraph", value=_missing.name
    ) from _missing

from graphrt.compat.langgraph._check import check
from graphrt.compat.langgraph._convert import convert
from graphrt.compat.langgraph._read import Place
from graphrt.compat.langgraph._report import Deviation, Report
from graphrt.compat.langgraph._rules import RULES, Finding, Rule
from graphrt.compat.langgraph._surroundings import RunContext

__all__ = ["RULES", "Deviation", "Finding", "Place", "Report", "Rule", "RunContext", "check", "convert"]
