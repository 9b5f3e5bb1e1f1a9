"""Nodes whose graph a model designs, under the earlier name of Lár's module."""

from __future__ import annotations

from graphrt.compat.lar._designs import AdaptiveNode, DynamicNode, TopologyValidator

__all__ = ["AdaptiveNode", "DynamicNode", "TopologyValidator"]
