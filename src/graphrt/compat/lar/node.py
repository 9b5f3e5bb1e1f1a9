"""The node objects, under the name of Lár's module."""

from __future__ import annotations

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

__all__ = [
    "AddValueNode",
    "BaseNode",
    "BatchNode",
    "ClearErrorNode",
    "FunctionalNode",
    "HumanJuryNode",
    "LLMNode",
    "ReduceNode",
    "RouterNode",
    "ToolNode",
    "node",
]
