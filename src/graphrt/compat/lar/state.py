"""The state that functions receive, under the name of Lár's module."""

from __future__ import annotations

from graphrt.compat.lar._executor import GraphState

__all__ = ["GraphState"]
