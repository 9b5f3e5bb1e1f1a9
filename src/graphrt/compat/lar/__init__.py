"""The interface of Lár: node objects that point to each other, and a `GraphExecutor` that runs them step by step.

A program that imports these names from `lar` runs with this import instead. See docs/how-to/from-lar.md for what is
different on purpose.
"""

from __future__ import annotations

from graphrt.compat.lar._designs import AdaptiveNode, DynamicNode, TopologyValidator
from graphrt.compat.lar._executor import GraphExecutor, RunOutcome
from graphrt.compat.lar._log import AuditLogger, NotSignedWarning, TokenTracker, WeakSecretWarning
from graphrt.compat.lar._nodes import (
    AddValueNode,
    BaseNode,
    BatchNode,
    ClearErrorNode,
    FunctionalNode,
    HumanJuryNode,
    LLMNode,
    ReduceNode,
    RouterNode,
    ToolNode,
    node,
)
from graphrt.compat.lar._state import GraphState, apply_diff, compute_state_diff

__all__ = [
    "AdaptiveNode",
    "AddValueNode",
    "AuditLogger",
    "BaseNode",
    "BatchNode",
    "ClearErrorNode",
    "DynamicNode",
    "FunctionalNode",
    "GraphExecutor",
    "GraphState",
    "HumanJuryNode",
    "LLMNode",
    "NotSignedWarning",
    "ReduceNode",
    "RouterNode",
    "RunOutcome",
    "TokenTracker",
    "ToolNode",
    "TopologyValidator",
    "WeakSecretWarning",
    "apply_diff",
    "compute_state_diff",
    "node",
]
