"""Graphs as data: the manifest of a graph, the registry of its names, and the diff of two graphs (floor 6).

`graph.to_spec()` writes a manifest, `GraphBuilder.from_spec()` reads one, and `graph.diff()` compares two graphs.
"""

from __future__ import annotations

from graphrt._plan.node_attributes import declare_form
from graphrt.specs.differences import Change, GraphDiff
from graphrt.specs.forms import Form, Parts, Section, TemplateRef, TemplateText, Writer
from graphrt.specs.manifest import (
    BudgetSpec,
    ConditionalSpec,
    EdgeSpec,
    EnumLabel,
    FieldSpec,
    FunctionRef,
    GraphSpec,
    JoinSpec,
    LimitsSpec,
    NodeSpec,
    PolicySpec,
    RetrySpec,
    RouteSpec,
    SpecEntry,
    StateSpec,
)
from graphrt.specs.plain_data import SpecLimits
from graphrt.specs.registry import Registry

__all__ = [
    "BudgetSpec",
    "Change",
    "ConditionalSpec",
    "EdgeSpec",
    "EnumLabel",
    "FieldSpec",
    "Form",
    "FunctionRef",
    "GraphDiff",
    "GraphSpec",
    "JoinSpec",
    "LimitsSpec",
    "NodeSpec",
    "Parts",
    "PolicySpec",
    "Registry",
    "RetrySpec",
    "RouteSpec",
    "Section",
    "SpecEntry",
    "SpecLimits",
    "StateSpec",
    "TemplateRef",
    "TemplateText",
    "Writer",
    "declare_form",
]
