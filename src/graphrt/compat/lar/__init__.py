"""The interface of Lár: node objects that point to each other, and a `GraphExecutor` that runs them step by step.

A program that imports these names from `lar` runs unchanged with this import instead. docs/how-to/from-lar.md lists the
intended differences.
"""

from __future__ import annotations

from graphrt.compat.lar._state import apply_diff, compute_state_diff
from graphrt.compat.lar.adaptive import AdaptiveNode, DynamicNode, TopologyValidator
from graphrt.compat.lar.executor import EndlessLoopWarning, GraphExecutor, RunOutcome
from graphrt.compat.lar.formatter import build_log_table, summarize_diff
from graphrt.compat.lar.logger import AuditLogger, WeakSecretWarning
from graphrt.compat.lar.node import (
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
    node,  # imported after the module `node`, because the name means the decorator here, as in Lár
)
from graphrt.compat.lar.state import GraphState
from graphrt.compat.lar.tracker import TokenTracker

__all__ = [
    "AdaptiveNode",
    "AddValueNode",
    "AuditLogger",
    "BaseNode",
    "BatchNode",
    "ClearErrorNode",
    "DynamicNode",
    "EndlessLoopWarning",
    "FunctionalNode",
    "GraphExecutor",
    "GraphState",
    "HumanJuryNode",
    "LLMNode",
    "ReduceNode",
    "RouterNode",
    "RunOutcome",
    "TokenTracker",
    "ToolNode",
    "TopologyValidator",
    "WeakSecretWarning",
    "__version__",
    "apply_diff",
    "build_log_table",
    "compute_state_diff",
    "node",
    "summarize_diff",
]

__version__ = "2.1.0"
"""The version of Lár that this interface follows."""
